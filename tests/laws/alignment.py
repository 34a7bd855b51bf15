"""Find the raw tail of a view: the longest end of it that shows the newest log entries, group by group.

Of a group too wide to be shown a view shows only the newest messages, each by itself, results as notes and calls as
their number: what came before them in the group is left out, what comes behind it is shown as ever.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any

from .grouping import CallGroup, Reading, atoms, entry_places
from .repairs import LATE_NOTE, SHRUNK, SPLIT, STAND_IN, explain, is_late_note, is_same_result
from .shapes import Message, answered_ids, blocks, called_ids, canonical, canonical_once, result_contents

COUNT = re.compile(r"^\[(\d+) calls? left out\]$")
PAGE = re.compile(r'<recalled messages="\d+-\d+" detail="recall">\n.*\n</recalled>', re.DOTALL)
CITED = re.compile(r"^\[message (\d+)[:\]]", re.MULTILINE)
MUTE = re.compile(r"…|\[… \d+ tokens left out …\]|\[\d+ calls? left out\]")


def is_page(row: Message) -> bool:
    """Whether a row is a page of the past, and nothing else."""
    said = row.get("content")
    return set(row) == {"role", "content"} and row["role"] == "user" and bool(PAGE.fullmatch(str(said)))


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the raw tail begins in the view and in the log, and what was repaired in it."""

    view_start: int
    log_start: int
    repairs: Counter[str]
    alone: tuple[int, int] | None = None  # log entries of its first group, of which only the newest are shown


@dataclass(slots=True)
class _Walk:
    """One attempt to read a view from a row on as the log from an entry on."""

    view: Sequence[Message]
    log: Sequence[Message]
    reading: Reading
    at: int
    repairs: Counter[str] = field(default_factory=Counter)
    notes: list[tuple[int, str]] = field(default_factory=list)  # orphans whose note has not been met yet
    failed: str = ""

    def run(self, start: int) -> bool:
        """Match everything from log entry `start`; False with `failed` set if that is not what is shown."""
        for index in range(start, len(self.log)):
            self._take_page(index)
            self._take_notes()
            if self.at == len(self.view) and self._may_be_held_back(index):
                continue
            self._entry(index)
            if self.failed:
                return False
        self._take_page(len(self.log))
        self._take_notes()
        if self.notes:
            self.failed = f"the orphan result of log entry {self.notes[0][0]} is not shown as a note"
        elif self.at < len(self.view):
            self.failed = f"view row {self.at} is no log entry"
        return not self.failed

    def _entry(self, index: int) -> None:
        message, group = self.log[index], self.reading.groups.get(index)
        if group is None and (answers := answered_ids(message)):
            late = [(index, identity) for identity in self.reading.orphans.get(index, [])]
            self.notes += late
            self._take_notes()
            if _words(message) and len(late) >= len(answers):  # what is said beside stands behind the notes
                self._take_words(index)
        elif self._row(index, message) and group is not None:
            self._results(group)

    def _take_words(self, index: int) -> None:
        """What a message says beside results has a row of its own."""
        if self._row(index, {**self.log[index], "content": _words(self.log[index])}):
            self.repairs[SPLIT] += 1

    def _row(self, index: int, entry: Message) -> bool:
        found = explain(self.view[self.at], entry) if self.at < len(self.view) else None
        if found is None:
            self.failed = f"view row {self.at} is not log entry {index} or its words, nor a repair of it"
            return False
        self.repairs.update(found)
        self.at += 1
        return True

    def _take_page(self, index: int) -> None:
        """What the log holds about a person's question stands behind it, also behind results that it comes with. It
        cites messages of the log."""
        asked = self.log[index - 1] if index else {}
        if (
            asked.get("role") == "user"
            and "?" in str(asked)
            and self.at < len(self.view)
            and is_page(self.view[self.at])
        ):
            cited = [int(number) for number in CITED.findall(str(self.view[self.at]["content"]))]
            self.at += bool(cited) and max(cited) < len(self.log)

    def _results(self, group: CallGroup) -> None:
        sources = {identity: index for index, identity in group.results}
        needed, parted = [*sources, *group.waiting], set[int]()
        while needed and self.at < len(self.view) and answered_ids(self.view[self.at]):
            identities = answered_ids(self.view[self.at])
            if any(identity not in needed for identity in identities):
                self.failed = f"view row {self.at} answers other calls than those of log entry {group.call}"
            if self.failed or not self._result_row(group, identities, sources):
                return
            needed = [identity for identity in needed if identity not in identities]
            origins = {sources[identity] for identity in identities if identity in sources}
            parted |= {origin for origin in origins if self._is_parted(group, self.view[self.at], origin)}
            self.at += 1
        missing = needed if group.abandoned else [identity for identity in needed if identity in sources]
        if missing:
            self.failed = f"{len(missing)} results of log entry {group.call} are missing before view row {self.at}"
        for index in sorted(parted):
            self._take_words(index)

    def _result_row(self, group: CallGroup, identities: list[str], sources: dict[str, int]) -> bool:
        row = self.view[self.at]
        origins = {sources[identity] for identity in identities if identity in sources}
        if len(origins) == 1 and (found := explain(row, self.log[min(origins)])) is not None:
            self.repairs.update(found)
            return True
        if not all(self._is_a_part(group, row, origin) for origin in origins):
            self.failed = f"view row {self.at} is not log entry {min(origins)}, nor a repair or a part of it"
            return False
        for identity in identities:
            same: frozenset[str] | None = frozenset({STAND_IN})
            if identity in sources:
                original = result_contents(self.log[sources[identity]], identity)[0]
                same = is_same_result(result_contents(row, identity)[0], original)
            if same is None or (identity not in sources and not group.abandoned):
                self.failed = f"view row {self.at} is not the result of call {identity}, or that still waits"
                return False
            self.repairs.update(same)
        self.repairs.update([SPLIT] if origins else [])
        return True

    def _is_a_part(self, group: CallGroup, row: Message, origin: int) -> bool:
        """A row is split off only from a message that answers more calls, or speaks; its fields are the message's."""
        source = self.log[origin]
        is_more = sorted(answered_ids(source)) != sorted(answered_ids(row))
        kept = all(canonical(source.get(key)) == canonical(row[key]) for key in row if key != "content")
        return kept and (is_more or self._is_parted(group, row, origin))

    def _is_parted(self, group: CallGroup, row: Message, origin: int) -> bool:
        """Whether what a message says beside its results stands behind the stand-ins of the calls that it gives up."""
        given_up, source = group.abandoned and bool(group.waiting), self.log[origin]
        is_all = set(answered_ids(source)) == set(answered_ids(row))
        return given_up and is_all and bool(_words(source)) and not _words(row)

    def _take_notes(self) -> None:
        for index, identity in list(self.notes):
            if (index, identity) not in self.notes or self.at == len(self.view):
                continue
            row, entry = self.view[self.at], self.log[index]
            if is_late_note(row, entry, identity):
                self.notes.remove((index, identity))
                self.repairs[LATE_NOTE] += 1
                if all(is_late_note(row, entry, other) for at, other in self.notes if at == index):
                    self.notes = [other for other in self.notes if other[0] != index]  # one note may tell all of them
                self.at += 1

    def _may_be_held_back(self, index: int) -> bool:
        """Only lines of split calls, behind the first that waits; never the newest message."""
        waiting = [group.call for group in self.reading.open_groups()]
        return index in waiting[1:] and index < len(self.log) - 1


def _words(message: Message) -> list[Any]:
    return [block for block in blocks(message) if block.get("type") == "text"]


def align(view: Sequence[Message], log: Sequence[Message], reading: Reading) -> Tail | str:
    """The longest tail, or why the best attempt failed."""
    starts, of_text = [start for start, _ in atoms(reading)], entry_places(log).of_text
    begins, best, reason = frozenset(starts), -1, "the view shows none of the newest log entries"
    for row, shown in enumerate(view):
        equal = [start for start in of_text.get(canonical_once(shown), ()) if start in begins]
        # what equals an entry is no repaired one, unless an empty content was put in
        repaired = () if equal and shown.get("content") else _could_begin(shown, log, reading, starts)
        for start in chain(equal, repaired):
            walk = _Walk(view, log, reading, row)
            if walk.run(start):
                return Tail(row, start, walk.repairs)
            if walk.at - row > best:
                best, reason = walk.at - row, walk.failed
    return reason if log else Tail(len(view), 0, Counter())


def _could_begin(row: Message, log: Sequence[Message], reading: Reading, starts: Sequence[int]) -> Iterator[int]:
    """A cheap look before a walk: where the row is a repair of the atom's first entry, or its note, of any role."""
    for start in starts:
        late = reading.orphans.get(start) if start not in reading.groups else None
        if any(is_late_note(row, log[start], one) for one in late) if late else explain(row, log[start]):
            yield start


def find_alone(view: Sequence[Message], log: Sequence[Message], reading: Reading) -> Tail | None:
    """The raw tail of a view that begins within a group, if any group of the log explains it."""
    texts = [str(row.get("content")) if row.get("role") == "user" else "" for row in view]
    places = [at for at, text in enumerate(texts) if text.startswith("<late_result ") or MUTE.fullmatch(text)]
    for (start, stop), row in product(reversed(reading.runs), places):
        for since in range(max(start, stop - (len(view) - row)), stop):
            alone, walk = log[since:stop], _Walk(view, log, reading, row + stop - since)
            if all(map(_shows_alone, view[row : walk.at], alone)) and walk.run(stop):
                told = Counter(LATE_NOTE if answered_ids(entry) else SHRUNK for entry in alone)
                return Tail(row, start, walk.repairs + told, (start, stop))
    return None


def _shows_alone(shown: Message, entry: Message) -> bool:
    if answers := answered_ids(entry):
        return any(is_late_note(shown, entry, identity) for identity in answers)
    if calls := called_ids(entry):
        return shown.get("content") == "…" or COUNT.findall(str(shown.get("content"))) == [str(len(calls))]
    return explain(shown, entry) is not None
