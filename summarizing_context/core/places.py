"""Places in a log as callers and models write them: nodes, ranges, single messages; and cursors to read on from.

Pure. A node is named by its messages, as its fence in the header has it: `12-47`. Written ranges hold both ends;
pairs, as everywhere in Python, leave out the second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, get_args

from summarizing_context.core.header import HeaderNode
from summarizing_context.errors import NodeNotFoundError, SettingsError, briefly

_WRITTEN = re.compile(r"#?(\d{1,12})(?:\s*(?:\.\.|-|–|:)\s*#?(\d{1,12}))?")
_CURSOR = re.compile(r"([a-z]+):(\d{1,12}):(\d{1,6}):(\d{1,12}):([0-9a-f]{6})")

Place = str | int | tuple[int, int] | HeaderNode


class Cursor(NamedTuple):
    """Where a page ended: nothing before it is shown again."""

    detail: str
    message: int
    part: int  # of what is shown of the message
    offset: int  # characters of that part
    mark: str  # names the message's content

    def written(self) -> str:
        return ":".join(map(str, self))


def read_place(place: object, length: int) -> range:
    """The messages that a caller means, of a log of `length` messages."""
    start, stop = _ends(place)
    if not length:
        raise NodeNotFoundError("there is nothing to expand: the log has no messages")
    if isinstance(place, str) and stop == length + 1 and stop - start > 1:
        stop = length  # an end as `stop` tells it
    if not 0 <= start < stop <= length:
        raise NodeNotFoundError(f"{_shown(place)} is not in the log: it has the messages 0 to {length - 1}")
    return range(start, stop)


def read_cursor(cursor: object, detail: str, within: range) -> Cursor | None:
    """The place that `next_cursor` of a page named; None to begin at the beginning."""
    if cursor is None:
        return None
    if not isinstance(cursor, str):
        raise SettingsError(f"cursor is {type(cursor).__name__}; it is the next_cursor of a page, or None")
    found = _CURSOR.fullmatch(cursor.strip())
    if found is None:
        raise NodeNotFoundError(f"cursor {briefly(cursor, 60)} is the next_cursor of no page; leave it out to begin")
    read = Cursor(found[1], int(found[2]), int(found[3]), int(found[4]), found[5])
    if read.detail != detail:
        raise NodeNotFoundError(f"cursor {briefly(cursor, 60)} belongs to detail {read.detail!r}, not {detail!r}")
    if read.message not in within:
        asked = f"{within.start} to {within.stop - 1}"
        raise NodeNotFoundError(
            f"cursor {briefly(cursor, 60)} stands outside of the messages {asked} that were asked for"
        )
    return read


def stale(cursor: Cursor) -> NodeNotFoundError:
    """The error for a cursor whose message has another content by now."""
    return NodeNotFoundError(
        f"cursor {cursor.written()!r} is of a log that was replaced since; leave it out to begin anew"
    )


def read_detail(detail: object, known: object) -> str:
    """A detail that exists."""
    details: Sequence[str] = get_args(known)
    if detail not in details:
        raise SettingsError(f"detail is {briefly(detail)}; it is one of {', '.join(details)}")
    return str(detail)


def _ends(place: object) -> tuple[int, int]:
    if isinstance(place, HeaderNode):
        return place.start, place.stop
    if isinstance(place, int) and not isinstance(place, bool):
        return place, place + 1
    if isinstance(place, str):
        return _written_ends(place)
    if isinstance(place, tuple | list) and len(place) == 2:
        first, second = place
        if all(isinstance(end, int) and not isinstance(end, bool) for end in (first, second)):
            return first, second
    raise SettingsError(
        f"{_shown(place)} names no messages; give a node as the header names it ('12-47'), a range '12..47', "
        "a pair (12, 48), or one message's number"
    )


def _written_ends(place: str) -> tuple[int, int]:
    found = _WRITTEN.fullmatch(place.strip().removeprefix("messages").removeprefix("message").strip())
    if found is None:
        raise NodeNotFoundError(
            f"there is no node {briefly(place, 60)}; nodes are named by their messages as in the header, such as "
            "'12-47', ranges '12..47', single messages '12'"
        )
    return int(found[1]), int(found[2] or found[1]) + 1


def _shown(place: object) -> str:
    return briefly(place, 60) if isinstance(place, str | int | tuple | list) else type(place).__name__
