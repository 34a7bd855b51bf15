"""What to tell when a cassette has no reply: the nearest recorded request, and how it differs.

Pure. Near is what was asked for the same purpose, with the same prompt, about much the same lines.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from summarizing_context.evaluation.cassettes.requests import Request

_MOST_LINES = 14  # of the difference of one text
_WIDTH = 160  # characters of a line
_NAMES = ("kind", "maker", "prompt", "max_tokens", "replicate")


def nearest(request: Request, recorded: Iterable[Request]) -> Request | None:
    """The recorded request that is most like this one; None of nothing."""
    wanted = _lines_of(request)
    return max(recorded, key=lambda one: (_likeness(request, wanted, one), one.key), default=None)


def difference(request: Request, near: Request) -> list[str]:
    """How a request differs from a recorded one, in lines to be read by a person."""
    told = [
        f"{name}: recorded {getattr(near, name)!s}, asked {getattr(request, name)!s}"
        for name in _NAMES
        if getattr(near, name) != getattr(request, name)
    ]
    told += _text_difference("system", near.system, request.system)
    return told + list(_text_difference("message", near.message, request.message))


def differing(request: Request, near: Request) -> list[str]:
    """The names of what differs, without any text."""
    names = [name for name in (*_NAMES, "system") if getattr(near, name) != getattr(request, name)]
    return names + ["message"] * (near.message != request.message)


def _likeness(request: Request, wanted: frozenset[str], other: Request) -> float:
    same = sum(bool(getattr(request, name) == getattr(other, name)) for name in (*_NAMES, "system"))
    shared = len(set(request.user) & set(other.user)) / max(len(request.user), len(other.user), 1)
    theirs = _lines_of(other)
    lines = len(wanted & theirs) / max(len(wanted | theirs), 1)
    return (10 if request.kind == other.kind else 0) + same / 4 + shared + 4 * lines


def _lines_of(request: Request) -> frozenset[str]:
    return frozenset(line for part in request.user for line in part.splitlines())


def _text_difference(name: str, recorded: str, asked: str) -> Iterator[str]:
    if recorded == asked:
        return
    found = list(difflib.unified_diff(recorded.splitlines(), asked.splitlines(), n=0, lineterm=""))[2:]
    changed = [line for line in found if not line.startswith("@@")]
    yield f"{name}: - recorded, + asked"
    for line in changed[:_MOST_LINES]:
        yield line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
    if len(changed) > _MOST_LINES:
        yield f"… {len(changed) - _MOST_LINES} more lines differ"
