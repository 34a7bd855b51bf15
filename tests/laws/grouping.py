"""Which messages may not be parted: the rules of groups, stated a second time and independently.

A call waits for its results. A message that is neither a result nor a call abandons the calls that wait.
Calls that overlap are kept together for 24 messages from the second of them on; one more call then, and those that
wait are abandoned.
A result is paired with the nearest call of its id that still waits; without one it is an orphan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .shapes import Message, answered_ids, called_ids

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

    `runs` are the ranges in which some call waited; calls that overlap are in one run.
    """

    groups: dict[int, CallGroup]
    orphans: dict[int, list[str]]
    size: int
    runs: tuple[tuple[int, int], ...]

    def open_groups(self) -> list[CallGroup]:
        """Those whose calls still wait at the end of the log."""
        return [group for group in self.groups.values() if group.waiting and not group.abandoned]


def read_log(log: Sequence[Message], *, orphans_abandon: bool = False) -> Reading:
    """Pair results with calls. The laws leave open whether an orphan abandons waiting calls; both can be asked for."""
    groups: dict[int, CallGroup] = {}
    orphans: dict[int, list[str]] = {}
    waiting: list[CallGroup] = []
    overlapped: int | None = None  # where a second call joined one that waits
    runs: list[tuple[int, int]] = []
    began: int | None = None
    for index, message in enumerate(log):
        calls, answers = called_ids(message), answered_ids(message)
        paired = 0
        for identity in answers:
            paired += _pair(waiting, index, identity, orphans)
        is_other = not calls and (not answers or (orphans_abandon and not paired))
        if is_other or (calls and overlapped is not None and index - overlapped >= TOGETHER_AT_MOST):
            for group in waiting:
                group.abandoned = True
            if began is not None:
                runs.append((began, index))
            waiting, began = [], None
        waiting = [group for group in waiting if group.waiting]
        overlapped = overlapped if waiting else None
        if calls:
            if waiting and overlapped is None:
                overlapped = index
            groups[index] = CallGroup(index, list(calls))
            waiting.append(groups[index])
            began = index if began is None else began
        if began is not None and not waiting:
            runs.append((began, index + 1))
            began = None
    runs += [] if began is None else [(began, len(log))]
    return Reading(groups, orphans, len(log), tuple(runs))


def _pair(waiting: list[CallGroup], index: int, identity: str, orphans: dict[int, list[str]]) -> int:
    for group in reversed(waiting):
        if identity in group.waiting:
            group.waiting.remove(identity)
            group.results.append((index, identity))
            return 1
    orphans.setdefault(index, []).append(identity)
    return 0


def atoms(reading: Reading) -> list[tuple[int, int]]:
    """Ranges that may not be parted: a group up to its last result, or to the end while it waits; overlaps joined."""
    reach = list(range(1, reading.size + 1))
    for group in reading.groups.values():
        last = max((index for index, _ in group.results), default=group.call) + 1
        reach[group.call] = reading.size if group.waiting and not group.abandoned else last
    ranges: list[tuple[int, int]] = []
    start, stop = 0, 0
    for index in range(reading.size):
        if index >= stop:
            if stop > start:
                ranges.append((start, stop))
            start = index
        stop = max(stop, reach[index])
    return [*ranges, (start, stop)] if stop > start else ranges


def group_spans(log: Sequence[Message]) -> list[tuple[int, int]]:
    """The log's atoms, as (start, stop)."""
    return atoms(read_log(log))
