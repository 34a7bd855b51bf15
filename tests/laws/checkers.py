"""Is this view lawful? Each answers with sentences, one for each broken rule; none for a lawful view.

The raw tail of a view is the longest end of it that shows the newest log entries, group by group. Of a group too wide
to be shown a view shows only the newest messages, each by itself, results as notes and calls as their number: what came
before them in the group is left out, what comes behind it is shown as ever.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import NamedTuple

from . import shapes
from .repairs import LATE_NOTE, SHRUNK, SPLIT, STAND_IN, explain, is_late_note, is_same_result, is_told_of
from .shapes import CallGroup, Message, Reading, answered_ids, called_ids, canonical, canonical_once, text_blocks

COUNT = re.compile(r"^\[(\d+) calls? left out\]$")
PAGE = re.compile(r'<recalled messages="\d+-\d+" detail="recall">\n.*\n</recalled>', re.DOTALL)
CITED = re.compile(r"^\[message (\d+)[:\]]", re.MULTILINE)
MUTE = re.compile(r"…|\[… \d+ tokens left out …\]|\[\d+ calls? left out\]")


_said = shapes.once(lambda row: str(row.get("content")))


class Tail(NamedTuple):
    """Where the raw tail begins in the view and in the log, and what was repaired in it."""

    view_start: int
    log_start: int
    repairs: Counter[str]
    alone: tuple[int, int] | None = None  # log entries of its first group, of which only the newest are shown


class _NotShown(Exception):
    """The view shows something else."""


@dataclass(slots=True)
class _Walk:
    """One attempt to read a view from a row on as the log from an entry on."""

    view: Sequence[Message]
    log: Sequence[Message]
    reading: Reading
    at: int
    repairs: Counter[str] = field(default_factory=Counter)
    notes: list[tuple[int, str]] = field(default_factory=list)  # orphans whose note has not been met yet

    def failure(self, start: int) -> str:
        """Match everything from log entry `start`; why that is not what is shown, or nothing."""
        waiting = [group.call for group in self.reading.open_groups()]
        try:
            for index in range(start, len(self.log) + 1):
                self._take_page(index)
                self._take_notes()
                # only lines of split calls may be held back, behind the first that waits; never the newest message
                may_be_held_back = index in waiting[1:] and index < len(self.log) - 1
                if index < len(self.log) and (self.at < len(self.view) or not may_be_held_back):
                    self._entry(index)
            if self.notes:
                raise _NotShown(f"the orphan result of log entry {self.notes[0][0]} is not shown as a note")
            if self.at < len(self.view):
                raise _NotShown(f"view row {self.at} is no log entry")
        except _NotShown as reason:
            return str(reason)
        return ""

    def _entry(self, index: int) -> None:
        message, group = self.log[index], self.reading.groups.get(index)
        if group is None and (answers := answered_ids(message)):
            late = [(index, identity) for identity in self.reading.orphans.get(index, [])]
            self.notes += late
            self._take_notes()
            if text_blocks(message) and len(late) >= len(answers):  # what is said beside stands behind the notes
                self._take_words(index)
        else:
            self._row(index, message)
            if group is not None:
                self._results(group)

    def _take_words(self, index: int) -> None:
        """What a message says beside results has a row of its own."""
        self._row(index, {**self.log[index], "content": text_blocks(self.log[index])})
        self.repairs[SPLIT] += 1

    def _row(self, index: int, entry: Message) -> None:
        found = explain(self.view[self.at], entry) if self.at < len(self.view) else None
        if found is None:
            raise _NotShown(f"view row {self.at} is not log entry {index} or its words, nor a repair of it")
        self.repairs.update(found)
        self.at += 1

    def _take_page(self, index: int) -> None:
        """What the log holds about a person's question stands behind it, also behind results that it comes with. It
        cites messages of the log."""
        asked = self.log[index - 1] if index else {}
        if asked.get("role") == "user" and "?" in _said(asked) and self.at < len(self.view):
            row, said = self.view[self.at], _said(self.view[self.at])
            is_page = set(row) == {"role", "content"} and row["role"] == "user" and PAGE.fullmatch(said)
            cited = [int(number) for number in CITED.findall(said)] if is_page else []
            self.at += bool(cited) and max(cited) < len(self.log)

    def _results(self, group: CallGroup) -> None:
        sources = {identity: index for index, identity in group.results}
        needed, parted = [*sources, *group.waiting], set[int]()
        while needed and self.at < len(self.view) and (identities := answered_ids(self.view[self.at])):
            if any(identity not in needed for identity in identities):
                raise _NotShown(f"view row {self.at} answers other calls than those of log entry {group.call}")
            self._result_row(group, identities, sources)
            needed = [identity for identity in needed if identity not in identities]
            origins = {sources[identity] for identity in identities if identity in sources}
            parted |= {origin for origin in origins if self._is_parted(group, self.view[self.at], origin)}
            self.at += 1
        if missing := [identity for identity in needed if group.abandoned or identity in sources]:
            raise _NotShown(f"{len(missing)} results of log entry {group.call} are missing before view row {self.at}")
        for index in sorted(parted):
            self._take_words(index)

    def _result_row(self, group: CallGroup, identities: list[str], sources: dict[str, int]) -> None:
        row = self.view[self.at]
        origins = {sources[identity] for identity in identities if identity in sources}
        if len(origins) == 1 and (found := explain(row, self.log[min(origins)])) is not None:
            self.repairs.update(found)
            return
        if not all(self._is_a_part(group, row, origin) for origin in origins):
            raise _NotShown(f"view row {self.at} is not log entry {min(origins)}, nor a repair or a part of it")
        for identity in identities:
            same: frozenset[str] | None = frozenset({STAND_IN}) if group.abandoned else None
            if identity in sources:
                original = shapes.result_contents(self.log[sources[identity]], identity)[0]
                same = is_same_result(shapes.result_contents(row, identity)[0], original)
            if same is None:
                raise _NotShown(f"view row {self.at} is not the result of call {identity}, or that still waits")
            self.repairs.update(same)
        self.repairs.update([SPLIT] if origins else [])

    def _is_a_part(self, group: CallGroup, row: Message, origin: int) -> bool:
        """A row is split off only from a message that answers more calls, or speaks; its fields are the message's."""
        source = self.log[origin]
        is_more = sorted(answered_ids(source)) != sorted(answered_ids(row))
        kept = all(canonical(source.get(key)) == canonical(row[key]) for key in row if key != "content")
        return kept and (is_more or self._is_parted(group, row, origin))

    def _is_parted(self, group: CallGroup, row: Message, origin: int) -> bool:
        """Whether what a message says beside its results stands behind the stand-ins of the calls that it gives up."""
        source = self.log[origin]
        is_all = set(answered_ids(source)) == set(answered_ids(row))
        speaks_apart = bool(text_blocks(source)) and not text_blocks(row)
        return group.abandoned and bool(group.waiting) and is_all and speaks_apart

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


def find_tail(view: Sequence[Message], log: Sequence[Message], interrupted: Collection[int] = ()) -> Tail | str:
    """Where the raw tail begins, or why there is none. `interrupted` is as in `read_log`."""
    log = shapes.sendable(log)
    reading = shapes.read_log(log, interrupted)
    found, alone = _find_whole(view, log, reading), _find_alone(view, log, reading)
    return found if alone is None or (isinstance(found, Tail) and found.view_start <= alone.view_start) else alone


def _find_whole(view: Sequence[Message], log: Sequence[Message], reading: Reading) -> Tail | str:
    """The longest tail of whole groups, or why the best attempt failed."""
    starts = [start for start, _ in reading.atoms]
    begins, best, reason = frozenset(starts), -1, "the view shows none of the newest log entries"
    for row, shown in enumerate(view):
        equal = [start for start in reading.of_text.get(canonical_once(shown), ()) if start in begins]
        # what equals an entry is no repaired one, unless an empty content was put in
        repaired = () if equal and shown.get("content") else _could_begin(shown, log, reading, starts)
        for start in chain(equal, repaired):
            walk = _Walk(view, log, reading, row)
            if not (failure := walk.failure(start)):
                return Tail(row, start, walk.repairs)
            if walk.at - row > best:
                best, reason = walk.at - row, failure
    return reason if log else Tail(len(view), 0, Counter())


def _could_begin(row: Message, log: Sequence[Message], reading: Reading, starts: Sequence[int]) -> Iterator[int]:
    """A cheap look before a walk: where the row is a repair of the atom's first entry, or its note, of any role."""
    for start in starts:
        late = reading.orphans.get(start) if start not in reading.groups else None
        if any(is_late_note(row, log[start], one) for one in late) if late else explain(row, log[start]):
            yield start


def _find_alone(view: Sequence[Message], log: Sequence[Message], reading: Reading) -> Tail | None:
    """The raw tail of a view that begins within a group, if any group of the log explains it."""
    said = enumerate(_said(row) if row.get("role") == "user" else "" for row in view)
    places = [at for at, text in said if text.startswith("<late_result ") or MUTE.fullmatch(text)]
    for (start, stop), row in product(reversed(reading.runs), places):
        for since in range(max(start, stop - (len(view) - row)), stop):
            alone, walk = log[since:stop], _Walk(view, log, reading, row + stop - since)
            if all(map(_shows_alone, view[row : walk.at], alone)) and not walk.failure(stop):
                told = Counter(LATE_NOTE if answered_ids(entry) else SHRUNK for entry in alone)
                return Tail(row, start, walk.repairs + told, (start, stop))
    return None


def _shows_alone(shown: Message, entry: Message) -> bool:
    if answers := answered_ids(entry):
        return any(is_late_note(shown, entry, identity) for identity in answers)
    if calls := called_ids(entry):
        return shown.get("content") == "…" or COUNT.findall(_said(shown)) == [str(len(calls))]
    return explain(shown, entry) is not None


def refusals(rows: Sequence[Message]) -> list[str]:
    """What a provider refuses of a request, which no call in flight may end."""
    return tool_safe_problems(rows, may_wait=False)


def tool_safe_problems(view: Sequence[Message], *, may_wait: bool = True) -> list[str]:
    """Calls are followed by their results only, all of them; results stand nowhere else; the end may be in flight."""
    problems, waiting = list[str](), list[str]()
    for row, message in enumerate(view):
        answers = answered_ids(message)
        if waiting and not answers:
            problems.append(f"row {row} ({message.get('role')}) stands before the results of {waiting}")
            waiting = []
        for identity in answers:
            if identity in waiting:
                waiting.remove(identity)
            else:
                problems.append(f"row {row} answers {identity!r}, which is no waiting call of the message before")
        if answers and waiting and shapes.has_words(message):
            problems.append(f"row {row} says more before the results of {waiting}")
        calls = called_ids(message)
        if calls and waiting:
            problems.append(f"row {row} calls while {waiting} wait")
        waiting = list(calls) or waiting
    return problems + [f"the messages end before the results of {waiting}"] * (bool(waiting) and not may_wait)


def order_problems(view: Sequence[Message], log: Sequence[Message]) -> list[str]:
    """Rows that equal an entry keep the log's order; inside one group the results stand right after their call."""
    log = shapes.sendable(log)
    places, groups = shapes.read_log(log).of_identity, shapes.read_log(log).groups
    shown = [(row, message, places.get(shapes.identity_once(message), [])) for row, message in enumerate(view)]
    problems, bound, matched = list[str](), len(log), set[int]()
    for row, message, found in reversed(shown):
        if answered_ids(message):
            continue
        if earlier := bisect_left(found, bound):
            bound = found[earlier - 1]
            matched.add(row)
        elif found:
            problems.append(f"row {row} is log entry {found[-1]} but stands before log entry {bound}")
    calls: list[int] = []  # those of the entries that equal the last row without results
    for row, message, found in shown:
        if not answered_ids(message):
            calls = [index for index in found if row in matched and index in groups]
        elif found and calls and not any(index in found for call in calls for index, _ in groups[call].results):
            problems.append(f"row {row} is log entry {found[0]}, which does not answer log entry {calls[0]}")
    return problems


def tail_problems(
    view: Sequence[Message],
    log: Sequence[Message],
    repairs_allowed: Collection[str],
    *,
    tail: Tail | str | None = None,
    keeps: bool = False,
) -> list[str]:
    """The view is: leading system rows, pins and a header, then every newest log entry, untouched but for repairs.

    Pass `tail` when it was found before. With `keeps` any groups may stand before the tail.
    """
    log = shapes.sendable(log)
    tail = tail or find_tail(view, log)
    if isinstance(tail, str):
        return [tail]
    problems = [f"{count} x {kind}" for kind, count in tail.repairs.items() if kind not in repairs_allowed]
    head = view[: tail.view_start]
    blocks = [row for row in head if row.get("role") == "user" and _said(row).startswith("<standing_rules>\n")]
    problems += [f"{len(blocks)} blocks of standing rules"] * (len(blocks) > 1)
    for number, quote in (rule for row in blocks for rule in _RULE.findall(_said(row))):
        row = log[int(number)] if int(number) < len(log) else {"role": "none"}
        said = " ".join(canonical_once(row).replace("\\n", " ").split())
        if row.get("role") != "user" or canonical(quote)[1:-1] not in said:
            problems.append(f"the rule {quote!r} is not in user row {number}")
    # where groups are kept, results stand where tool_safe has them stand, and notes of late ones
    rest = [row for row in head if row not in blocks]
    if keeps:
        rest = [row for row in rest if not (answered_ids(row) or _said(row).startswith("<late_result "))]
    if GOES_ON in rest:  # system rows of the past as one, and an answer behind it
        at = rest.index(GOES_ON)
        said = canonical_once([row.get("content") for row in log if row.get("role") == "system"])
        parts = [part["text"] if part.get("type") == "text" else part for part in rest[at - 1]["content"]]
        if rest[at - 1].get("role") == "system" and all(canonical_once(part)[1:-1] in said for part in parts):
            rest = rest[: at - 1] + rest[at + 1 :]
    if len(rest) > 1 and rest[-1] == ASKED and rest[-2].get("role") == "assistant":  # a turn that thinks begins there
        thinks = any(shapes.without_thinking(row) != row for row in log[tail.log_start : tail.log_start + 1])
        rest = rest[:-1] if thinks else rest
    return problems + _head_problems(rest, log, tail.log_start, keeps)


GOES_ON = {"role": "assistant", "content": [{"type": "text", "text": "[…]"}]}
ASKED = {"role": "user", "content": "[…]"}
_RULE = re.compile(r'^- message (\d+): "(.*?)"$', re.MULTILINE)


def _head_problems(head: Sequence[Message], log: Sequence[Message], tail_start: int, keeps: bool) -> list[str]:
    """Before the tail stand only system rows, user rows, critical rows, in log order, and the header."""
    problems: list[str] = []
    covered = log[:tail_start]
    system = shapes.leading_system_rows(covered)
    for index in range(system):
        found = explain(head[index], covered[index]) if index < len(head) else None
        if found is None or SHRUNK in found:
            problems.append(f"leading system row {index} is not shown whole")
    among = range(system, tail_start)
    reading = shapes.read_log(log)
    pins = among if keeps else [at for at in reading.of_pins if at in among]
    headers = _fewest_strangers(head[system:], covered, system, pins)
    for row in range(system, len(head)) if headers and not keeps else ():
        equal = reading.of_text.get(canonical_once(head[row]), []) if head[row].get("content") else []
        for index in [at for at in equal if at in among and at not in pins][:1]:
            role = covered[index].get("role")
            problems.append(f"row {row} before the tail is log entry {index} ({role}), which is no pin")
    if headers > (allowed := int(keeps or len(covered) > system)):  # kept groups may look like the tail
        problems.append(f"{headers} rows before the tail are no pins in the log's order, {allowed} may be")
    return problems


def _fewest_strangers(rows: Sequence[Message], covered: Sequence[Message], start: int, pins: Sequence[int]) -> int:
    """How many of the rows are no pins, when as many as possible are taken for pins in the log's order."""
    reached = {start: 0}  # first entry that may come next -> strangers so far
    for row in rows:
        shown = [at for at in pins if explain(row, covered[at]) is not None or is_told_of(row, covered[at])]
        after = {place: strangers + 1 for place, strangers in reached.items()}
        for place, strangers in reached.items():
            for index in shown[bisect_left(shown, place) :][:1]:
                after[index + 1] = min(strangers, after.get(index + 1, strangers))
        reached = after
    return min(reached.values())


def goes_on(view: Sequence[Message], then: Sequence[Message]) -> bool:
    """The view is that of then; calls that were in flight at its end have stand-ins, for another process made them."""
    rest = view[len(then) :]
    return list(view[: len(then)]) == list(then) and all("[no result of this call" in str(row) for row in rest)


def view_tokens(
    view: Sequence[Message], count: Callable[[str], int], image_tokens: int, parts: Callable[[Message], list[str]]
) -> int:
    """4 for each message, the sum over its text parts, and a price for each image."""
    return sum(4 + sum(map(count, parts(m))) + shapes.media_tokens(m.get("content"), image_tokens) for m in view)


def prefix_problems(previous: Sequence[Message], view: Sequence[Message]) -> list[str]:
    """The view starts with the previous one, compared as canonical JSON."""
    for row, old in enumerate(previous):
        if row == len(view) or (old is not view[row] and canonical_once(old) != canonical_once(view[row])):
            return [f"row {row} of {len(previous)} changed"]
    return []
