"""Find the folded group of a view: its note, and the group as the rest of the view claims that it was.

Written from the words of the law alone: of a group too wide to be shown, calls are left out with their results, those
answered first; a note before the group counts them. Whether the rest is shown as it should be is `alignment`'s to say.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from .alignment import Tail, align_whole
from .grouping import CallGroup, Reading, read_log
from .repairs import FOLDED
from .shapes import CALL_BLOCKS, Message, answered_ids, called_ids

NOTE = re.compile(r"\[(\d+) tool calls? and (?:its result|their results) left out\]")
Call = tuple[int, str]  # log index of the message that makes it, id


def find_fold(view: Sequence[Message], log: Sequence[Message], reading: Reading) -> Tail | None:
    """The raw tail of a view with a note, if any group of the log explains it."""
    for row, message in enumerate(view):
        content = message.get("content")
        found = NOTE.fullmatch(content) if message.get("role") == "user" and isinstance(content, str) else None
        for start, stop in reversed(reading.runs) if found else []:
            tail = _explained(view, row, log, reading, (start, stop), int(found[1]) if found else 0)
            if tail is not None:
                return tail
    return None


def _explained(
    view: Sequence[Message], row: int, log: Sequence[Message], reading: Reading, atom: tuple[int, int], told: int
) -> Tail | None:
    start, stop = atom
    groups = [reading.groups[index] for index in range(start, stop) if index in reading.groups]
    # What goes with a call is what answers it in the log, also where a view has given the call up before.
    paired = [group for index, group in read_log(log).groups.items() if start <= index < stop]
    rows_called = [ids for shown in view[row + 1 :] if (ids := called_ids(shown))]
    later = sum(bool(called_ids(entry)) for entry in log[stop:])
    candidates = [rows_called, rows_called[: max(0, len(rows_called) - later)]]  # later groups may use the ids again
    for shown in chain.from_iterable(_shown_calls(ids, log, groups) for ids in candidates):
        gone = {(group.call, id) for group in groups for id in called_ids(log[group.call])} - shown
        waiting = {(group.call, id) for group in groups for id in group.waiting if not group.abandoned}
        last = max((call for call, _ in gone), default=0)
        shown_answered = shown - waiting - _newest_answered(log, paired)  # which stays, for the newest message is shown
        if len(gone) != told or (gone & waiting and any(call <= last for call, _ in shown_answered)):
            continue
        rest = {
            index: entry for index in range(start, stop) if (entry := _without(log, index, paired, gone)) is not None
        }
        claimed = [*rest.values(), *log[stop:]]
        kept = _without_gone(reading, [*rest, *range(stop, len(log))], gone, paired)
        tail = align_whole(view[row + 1 :], claimed, kept)
        if tail is not None:
            return Tail(row, start, tail.repairs + Counter({FOLDED: told}), tail.held_back, (start, stop))
    return None


def _newest_answered(log: Sequence[Message], groups: Sequence[CallGroup]) -> set[Call]:
    """The calls that the log's last message answers."""
    return {(group.call, id) for group in groups for at, id in group.results if at == len(log) - 1}


def _without_gone(reading: Reading, kept: Sequence[int], gone: set[Call], paired: Sequence[CallGroup]) -> Reading:
    """The reading of the entries that are kept: what became of their calls, as the whole log tells it."""
    at = {index: place for place, index in enumerate(kept)}
    groups = {
        at[group.call]: CallGroup(
            at[group.call],
            [id for id in group.waiting if (group.call, id) not in gone],
            [(at[index], id) for index, id in group.results if (group.call, id) not in gone],
            group.abandoned,
        )
        for group in reading.groups.values()
        if group.call in at
    }
    left = {(index, id) for group in paired for index, id in group.results if (group.call, id) in gone}
    orphans = {
        at[index]: [id for id in ids if (index, id) not in left]
        for index, ids in reading.orphans.items()
        if index in at
    }
    return Reading(groups, orphans, len(kept), ())


def _shown_calls(
    rows_called: list[list[str]], log: Sequence[Message], groups: Sequence[CallGroup]
) -> Iterator[set[Call]]:
    """Which calls of the group rows may show that call these ids, beside calls of it that are held back."""
    for order, first in ((1, 0), (-1, 0), *((1, first) for first in range(1, len(groups)))):
        shown: set[Call] = set()
        left = rows_called[::order]
        for group in groups[first:][::order]:
            if left and set(left[0]) <= set(called_ids(log[group.call])):
                shown |= {(group.call, id) for id in left.pop(0)}
        last = max((call for call, _ in shown), default=-1)
        yield shown
        yield shown | {(group.call, id) for group in groups if group.call > last for id in called_ids(log[group.call])}
    yield set()  # the rows may be those of a later group that uses the ids again


def _without(log: Sequence[Message], index: int, groups: Sequence[CallGroup], gone: set[Call]) -> Message | None:
    """A log entry without the calls that are gone and what answers them; None if that was all of it."""
    entry = log[index]
    lost = {id for call, id in gone if call == index}
    answers = {id for group in groups for at, id in group.results if at == index and (group.call, id) in gone}
    if not lost and not answers:
        return entry
    if entry.get("role") == "tool" or (lost and set(called_ids(entry)) == lost and not answered_ids(entry)):
        return None
    kept = {key: value for key, value in entry.items() if key != "tool_calls"}
    if calls := [call for call in entry.get("tool_calls") or [] if call["id"] not in lost]:
        kept["tool_calls"] = calls
    if isinstance(entry.get("content"), list):
        kept["content"] = [block for block in entry["content"] if not _is_gone(block, lost, answers)]
    return kept if kept.get("content") or calls else None


def _is_gone(block: Message, lost: set[str], answers: set[str]) -> bool:
    if block.get("type") in CALL_BLOCKS:
        return block.get("id") in lost
    return block.get("type") == "tool_result" and (block.get("tool_use_id") or block.get("tool_call_id")) in answers
