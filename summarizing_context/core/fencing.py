"""Fences: how text about the past is set apart, so that it can neither pose as a message nor end its own fence.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_OURS = (
    "history",
    "summary",
    "earlier_message",
    "late_result",
    "session_record",
    "memories",
    "recalled",
    "ledger",
    "standing_rules",
)
_HIDDEN = "[\x00-\x1f\x7f\u00ad\u034f\u061c\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
_GAP = rf"(?:\s|{_HIDDEN})*+"
_NAMES = "|".join(f"{_HIDDEN}*+".join(name) for name in _OURS)
_TAG = re.compile(
    rf"[<\uff1c\ufe64]({_GAP}(?:[/\\\uff0f\u2044\u2215]{_GAP})*+)({_NAMES})\b", re.IGNORECASE
)  # lookalikes too


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
    """`text` in which none of our tags opens or closes anything."""
    return _TAG.sub(r"‹\1\2", text)
