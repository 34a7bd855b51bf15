"""Which messages may not be parted: the rules of groups, stated a second time and independently.

A call waits for its results. Call rows one after the other wait together, up to 24 from the second on; one more then,
and those that wait are abandoned.
A result is paired with the nearest call of its id that still waits; without one it is an orphan. It abandons the rows
before the one that it answers. Whatever else comes abandons all that wait: words, an orphan, a call after a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .shapes import Message, answered_ids, blocks, called_ids

TOGETHER_AT_MOST = 24  # messages


@dataclass(slots=True)
class CallGroup:
    """A message with calls, what answered them, and what became of the rest."""

    call: int  # log index
    waiting: list[str]
    results: list[tuple[int, str]] = field(default_factory=list)  # (log index, call id)
    abandoned: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """A log, read: its call groups by the index of their call, and the orphans of each result message.

    `runs` are the ranges in which some call waited.
    """

    groups: dict[int, CallGroup]
    orphans: dict[int, list[str]]
    size: int
    runs: tuple[tuple[int, int], ...]

    def open_groups(self) -> list[CallGroup]:
        """Those whose calls still wait at the end of the log."""
        return [group for group in self.groups.values() if group.waiting and not group.abandoned]


_LAST: list[tuple[list[Message], Reading]] = []  # a view is judged by several rules, which all read the same log


def read_log(log: Sequence[Message]) -> Reading:
    """Pair results with calls."""
    if not _LAST or _LAST[0][0] != list(log):
        _LAST[:] = [(list(log), _read(log))]
    return _LAST[0][1]


def _read(log: Sequence[Message]) -> Reading:
    groups: dict[int, CallGroup] = {}
    orphans: dict[int, list[str]] = {}
    waiting: list[CallGroup] = []
    joined = 0  # where a second row of calls joined the first
    answered = False  # a result has come since the calls that wait
    runs: list[tuple[int, int]] = []
    began: int | None = None
    for index, message in enumerate(log):
        calls, answers = called_ids(message), answered_ids(message)
        fits = any(identity in group.waiting for group in waiting for identity in answers)
        is_line = bool(calls) and not answers and not answered
        is_long = bool(calls) and len(groups) > 1 and joined > (began or 0) and index - joined >= TOGETHER_AT_MOST
        if began is not None and (is_long or not (fits or is_line)):
            _abandon(waiting)
            runs.append((began, index))
            waiting, began = [], None
        paired = [_pair(waiting, index, identity, orphans) for identity in answers]
        last = max((group.call for group in paired if group is not None), default=-1)
        if last >= 0:
            _abandon([group for group in waiting if calls or group.call < last])
        if None in paired or (answers and _has_words(message)):
            _abandon(waiting)
        waiting = [group for group in waiting if group.waiting and not group.abandoned]
        answered = (answered or last >= 0) and not calls
        if calls:
            joined = index if began is not None and joined <= began else joined
            groups[index] = CallGroup(index, list(calls))
            waiting.append(groups[index])
            began = index if began is None else began
        if began is not None and not waiting:
            runs.append((began, index + 1))
            began = None
    runs += [] if began is None else [(began, len(log))]
    return Reading(groups, orphans, len(log), tuple(runs))


def _abandon(groups: Sequence[CallGroup]) -> None:
    for group in groups:
        group.abandoned = True


def _has_words(message: Message) -> bool:
    return message.get("role") == "user" and any(block.get("type") == "text" for block in blocks(message))


def _pair(waiting: list[CallGroup], index: int, identity: str, orphans: dict[int, list[str]]) -> CallGroup | None:
    for group in reversed(waiting):
        if identity in group.waiting:
            group.waiting.remove(identity)
            group.results.append((index, identity))
            return group
    orphans.setdefault(index, []).append(identity)
    return None


def atoms(reading: Reading) -> list[tuple[int, int]]:
    """Ranges that may not be parted: the runs, and each message outside of them."""
    ranges: list[tuple[int, int]] = []
    at = 0
    for start, stop in reading.runs:
        ranges += [(index, index + 1) for index in range(at, start)]
        ranges.append((start, stop))
        at = stop
    return [*ranges, *((index, index + 1) for index in range(at, reading.size))]


def group_spans(log: Sequence[Message]) -> list[tuple[int, int]]:
    """The log's atoms, as (start, stop)."""
    return atoms(read_log(log))
