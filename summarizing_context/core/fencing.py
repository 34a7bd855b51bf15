"""Fences: how text about the past is set apart, so that it can neither pose as a message nor end its own fence.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from summarizing_context.core.tags import find_tags

OURS = frozenset(  # spelled without gaps
    {
        *("history", "summary", "earliermessage", "lateresult", "sessionrecord", "memories", "recalled"),
        *("ledger", "standingrules"),
    }
)
_NEUTRALIZED = OURS | {"systemreminder"}  # which models are taught to obey


def fence(tag: str, text: str, **attributes: object) -> str:
    """`text` between an opening and a closing tag; tags of ours inside it lose their meaning."""
    listed = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<{tag}{listed}>\n{neutral(text)}\n</{tag}>"


def within_fence(fenced: str, change: Callable[[str], str]) -> str:
    """A fenced text with its inside changed; the fence stays whole."""
    opening, _, rest = fenced.partition("\n")
    inside, _, closing = rest.rpartition("\n")
    return f"{opening}\n{change(inside)}\n{closing}"


def neutral(text: str) -> str:
    """`text` in which no tag of ours, nor a host's reminder, opens or closes anything: its bracket is another one."""
    pieces, done = [], 0
    for tag in find_tags(text, _NEUTRALIZED):
        pieces += [text[done : tag.start], "("]
        done = tag.start + 1
    return "".join((*pieces, text[done:])) if done else text
