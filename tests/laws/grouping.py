"""Which messages may not be parted: the rules of groups, stated a second time and independently.

A call waits for its results. Call rows one after the other wait together, up to 24 from the second on; one more then,
and those that wait are abandoned.
A result is paired with the nearest call of its id that still waits; without one it is an orphan. It abandons the rows
before the one that it answers. Whatever else comes abandons all that wait: words, an orphan, a call after a result.
A request interrupts what it cannot wait for, in views only: see `interrupts`.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_

from .shapes import Message, answered_ids, blocks, called_ids, canonical_once, identity_once

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
    """A log, read."""

    groups: dict[int, CallGroup]  # by the index of their call
    orphans: dict[int, list[str]]  # of each result message
    size: int
    runs: tuple[tuple[int, int], ...]  # in which some call waited

    def open_groups(self) -> list[CallGroup]:
        """Those whose calls still wait at the end of the log."""
        return [group for group in self.groups.values() if group.waiting and not group.abandoned]


def read_log(log: Sequence[Message], interrupted: Collection[int] = ()) -> Reading:
    """Pair results with calls, as views show them: before these entries all that waited was abandoned. What may not be
    parted depends on the log alone."""
    whole, reader = _read(log).reading(), _Reader()
    if not interrupted:
        return whole
    ends = {*interrupted, *(place for run in whole.runs for place in run)}
    for index in range(len(log) + 1):
        if index in (ends if index < len(log) else interrupted):
            reader.interrupt()
        for message in log[index : index + 1]:
            reader.read(message)
    return replace(reader.reading(), runs=whole.runs)


def interrupts(log: Sequence[Message], loaded: int, interrupted: Collection[int]) -> int | None:
    """Where a request abandons calls, if it does: those before a newest message that makes calls itself, for that is
    shown; and those of the first `loaded` entries, which an earlier process has made."""
    waiting = [group.call for group in read_log(log, interrupted).open_groups()]
    newest = len(log) - 1
    if waiting and waiting[-1] == newest >= loaded:
        return newest if waiting[:-1] else None
    return len(log) if waiting and waiting[0] < loaded else None


class Places:
    """Where in a log, in order, its entries stand."""

    def __init__(self) -> None:
        self.of_text = defaultdict[str, list[int]](list)  # by their canonical texts
        self.of_identity = defaultdict[str, list[int]](list)  # by `identity_once`
        self.of_pins: list[int] = []  # those that may be pinned

    def add(self, index: int, message: Message) -> None:
        self.of_text[canonical_once(message)].append(index)
        self.of_identity[identity_once(message)].append(index)
        metadata = message.get("metadata")
        critical = message.get("critical") or (isinstance(metadata, Mapping) and metadata.get("critical"))
        if message.get("role") in ("user", "system", "developer") or critical:
            self.of_pins.append(index)


def entry_places(log: Sequence[Message]) -> Places:
    """Where each entry stands."""
    return _read(log).places


def _read(log: Sequence[Message]) -> "_Reader":
    """The next log that begins with the very messages of this one is read on from here."""
    if not _LAST or len(_LAST[0].log) > len(log) or not all(map(is_, _LAST[0].log, log)):
        _LAST[:] = [_Reader()]
    for message in log[len(_LAST[0].log) :]:
        _LAST[0].read(message)
    return _LAST[0]


class _Reader:
    """Reads a log message by message."""

    def __init__(self) -> None:
        self.log: list[Message] = []
        self.groups: dict[int, CallGroup] = {}
        self.orphans: dict[int, list[str]] = {}
        self.waiting: list[CallGroup] = []
        self.joined = 0  # where a second row of calls joined the first
        self.answered = False  # a result has come since the calls that wait
        self.runs: list[tuple[int, int]] = []
        self.began: int | None = None
        self.places = Places()

    def reading(self) -> Reading:
        last = [] if self.began is None else [(self.began, len(self.log))]
        return Reading(self.groups, self.orphans, len(self.log), (*self.runs, *last))

    def interrupt(self) -> None:
        """All that waits is abandoned here."""
        _abandon(self.waiting)
        if self.began is not None:
            self.runs.append((self.began, len(self.log)))
        self.waiting, self.began = [], None

    def read(self, message: Message) -> None:
        index, calls, answers = len(self.log), called_ids(message), answered_ids(message)
        if self.began is not None and self._ends_run(index, calls, answers):
            self.interrupt()
        self.log.append(message)
        self.places.add(index, message)
        last = self._pair(index, message, calls, answers)
        if '"tool_reference"' in canonical_once(message):  # what it loads may stay, with its calls
            loads = [group.call for group in self.groups.values() if group.results and group.results[-1][0] == index]
            self.places.of_pins[:] = sorted({*self.places.of_pins, *loads})
        self.waiting = [group for group in self.waiting if group.waiting and not group.abandoned]
        self.answered = (self.answered or last >= 0) and not calls
        if calls:
            self.joined = index if self.began is not None and self.joined <= self.began else self.joined
            self.groups[index] = CallGroup(index, list(calls))
            self.waiting.append(self.groups[index])
            self.began = index if self.began is None else self.began
        if self.began is not None and not self.waiting:
            self.runs.append((self.began, index + 1))
            self.began = None

    def _ends_run(self, index: int, calls: list[str], answers: list[str]) -> bool:
        fits = any(identity in group.waiting for group in self.waiting for identity in answers)
        is_line = bool(calls) and not answers and not self.answered
        joined = len(self.groups) > 1 and self.joined > (self.began or 0)
        is_long = bool(calls) and joined and index - self.joined >= TOGETHER_AT_MOST
        return is_long or not (fits or is_line)

    def _pair(self, index: int, message: Message, calls: list[str], answers: list[str]) -> int:
        """Pair its results; the last call that one of them answers, or -1."""
        paired = []
        for identity in answers:
            group = next((group for group in reversed(self.waiting) if identity in group.waiting), None)
            if group is None:
                self.orphans.setdefault(index, []).append(identity)
            else:
                group.waiting.remove(identity)
                group.results.append((index, identity))
            paired.append(-1 if group is None else group.call)
        last = max(paired, default=-1)
        if last >= 0:
            _abandon([group for group in self.waiting if calls or group.call < last])
        if -1 in paired or (answers and has_words(message)):
            _abandon(self.waiting)
        return last


_LAST: list[_Reader] = []  # a view is judged by several rules, all of which read the same log


def _abandon(groups: Sequence[CallGroup]) -> None:
    for group in groups:
        group.abandoned = True


def has_words(message: Message) -> bool:
    """Whether a message of the user says more than its results."""
    return message.get("role") == "user" and any(block.get("type") == "text" for block in blocks(message))


def atoms(reading: Reading) -> list[tuple[int, int]]:
    """Ranges that may not be parted: the runs, and each message outside of them."""
    inside = {index for start, stop in reading.runs for index in range(start, stop)}
    return sorted([*reading.runs, *((index, index + 1) for index in range(reading.size) if index not in inside)])
