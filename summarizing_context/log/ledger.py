"""The ledger of a session: each closed group is read once, by the worker or when it is needed.

Of a long log that nobody has read, a view reads only the newest part, and the worker the gap before it. Huge arguments
and results are read at their ends only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.extraction.ledger import LOOKS, SAID, Fact, Kind, Ledger, Touch
from summarizing_context.extraction.tool_calls import (
    bare_command,
    both_ends,
    denies,
    exit_code,
    files_of,
    ids_in_result,
    is_id,
    one_line,
    only_looks,
    patched_files,
    read_arguments,
    refuses,
    signature,
    tried,
    urls_in,
)
from summarizing_context.log.entries import Entry
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.segments import OpenCalls
from summarizing_context.messages.parts import Part
from summarizing_context.messages.reading import Reading
from summarizing_context.settings.ledger_rules import ANY, COMMAND_KEYS, TOOL, LedgerRule, LedgerRules

_LONGEST: Mapping[str, int] = {"path": 400, "command": 300, "url": 400, "identifier": 64}  # characters of a value

_EACH = 24  # values of one argument

_NO_RESULT = " (no result)"

_SHORT = 2_000  # characters of a result that may tell what was made

_QUOTED = 20_000  # characters of a human's text that are read sentence by sentence

Quotes = Callable[[str], Sequence[str]]  # the decisions in a human's text


class Detectors(NamedTuple):
    """What is found in words: shared with the extractive summarizer."""

    error_line: Callable[[str, bool], str]  # of a result, and whether it failed
    quotes: Quotes


class _Result(NamedTuple):
    at: int
    text: str
    failed: bool


class _Call(NamedTuple):
    at: int
    part: Part
    result: _Result | None


def _size(call: _Call) -> int:
    return sum(map(len, call.part.texts)) + (len(call.result.text) if call.result else 0)


class CallReader:
    """Reads groups by one table of rules."""

    def __init__(self, rules: LedgerRules, detectors: Detectors) -> None:
        self._rules = rules
        self._detectors = detectors

    def touches(self, group: Sequence[tuple[int, Reading]], yield_now: YieldNow = never_yield) -> list[Touch]:
        """What a group, given as its messages with their places in the log, did and said, in order. `yield_now` is
        called all along."""
        found: list[Touch] = []
        for at, reading in group:
            if reading.human:
                found += self._said(at, reading, yield_now)
        for call in _calls(group):
            yield_now(_size(call))
            found += self._done(call)
        return [touch._replace(order=order) for order, touch in enumerate(found)]

    def _said(self, at: int, reading: Reading, yield_now: YieldNow) -> Iterator[Touch]:
        for text in reading.typed:
            yield_now(len(text))
            yield from (Touch("decision", quote, SAID, at, at + 1) for quote in self._detectors.quotes(text[:_QUOTED]))
            yield from (Touch("url", url, "seen", at, at + 1) for url in urls_in(text))

    def _done(self, call: _Call) -> Iterator[Touch]:
        part, result = call.part, call.result
        text = part.texts[0] if part.texts else ""
        start, stop = call.at, (call.at if result is None else result.at) + 1
        values = read_arguments(text)
        if patched := patched_files(values):
            if _went_wrong(result, looks=False):
                yield from self._error(result, start, stop, f"{part.name} {patched[0][0]}")
            else:
                yield from (Touch("path", path, _told_by(result, done), start, stop) for path, done in patched)
            return
        claims = self._claims(part.name, values)
        command = next((value for kind, value, _ in claims if kind == "command"), "")
        if command:
            yield from self._ran(command, start, stop, result)
        named = next((value for kind, value, _ in claims if kind == "path"), "")
        about = f"{part.name} {named}"
        looks = all(done in LOOKS for kind, _, done in claims if kind != "command")
        if not command and _went_wrong(result, looks=looks):
            yield from self._error(result, start, stop, about)
            return
        for kind, value, done in claims:
            if kind != "command":
                operation = _told_by(result, done) if kind == "path" else done
                yield Touch(kind, value, operation, start, stop, about=about, went_well=result is not None)
        if result is not None:
            yield from _told(result, start, stop)

    def _error(self, result: _Result | None, start: int, stop: int, about: str) -> Iterator[Touch]:
        """What a result that reports a failure names as its error."""
        if result is not None and (line := self._detectors.error_line(both_ends(result.text), True)):
            yield Touch("error", signature(line), "seen", start, stop, about=about)

    def _claims(self, tool: str, values: Sequence[tuple[str, str]]) -> list[tuple[Kind, str, str]]:
        """(kind, value, operation) of the arguments; each is taken by the first rule that fits it."""
        named: dict[str, list[str]] = {}
        for key, value in values:
            named.setdefault(key, []).append(value)
        words = [value for key in COMMAND_KEYS for value in named.get(key, ())]
        word = words[0] if len(words) == 1 and words[0].isidentifier() else ""
        taken: set[str] = set()
        kinds: set[str] = set()
        found: list[tuple[Kind, str, str]] = []
        for rule in self._rules.rules_for(tool, word):
            if (kind := rule.kind) == "plan":  # which is kept beside the log
                continue
            for key in _keys(rule, named, taken):
                fitting = _fitting(rule, named[key])
                if not fitting or (rule.tool == ANY and rule.kind in kinds and rule.kind != "identifier"):
                    continue
                taken.add(key)
                operation = rule.operation.replace(TOOL, tool[:64])
                found += [(kind, value, operation) for value in fitting]
                kinds.add(kind)
                if rule.key != ANY:
                    break
        if word and "path" in kinds:  # the name of what an editor does
            found = [claim for claim in found if claim[0] != "command"]
        return found

    def _ran(self, command: str, start: int, stop: int, result: _Result | None) -> Iterator[Touch]:
        """A command with its exit status, the files that it obviously touched, and what went wrong."""
        bare = bare_command(command)
        value, about = one_line(bare, _LONGEST["command"]), tried(bare)
        text = "" if result is None else result.text
        code = exit_code(text)
        looks = only_looks(bare)
        failed = result is not None and (code not in ("", "0") or (not code and result.failed))
        line = ""
        if result is not None and code != "0" and (result.failed or not looks):
            line = self._detectors.error_line(both_ends(text), failed)
        refused = denies(text)
        failed = failed or bool(line) or refused
        ran = "ran" if result is not None else f"ran{_NO_RESULT}"
        operation = f"exit {code}" if code else "failed" if failed else ran
        yield Touch("command", value, operation, start, stop, about=about, went_well=result is not None and not failed)
        for path, done, program in () if refused else files_of(command):
            if f"{program}: " not in text[:_SHORT]:
                yield Touch("path", path, _told_by(result, done), start, stop, about=path)
        if line and failed:
            yield Touch("error", signature(line), "seen", start, stop, about=about)


def _calls(group: Sequence[tuple[int, Reading]]) -> list[_Call]:
    """The calls of a group, each with its result, if it has one."""
    open_calls = OpenCalls()
    calls: list[_Call] = []
    for at, reading in group:
        made = [part for part in reading.parts if part.kind == "call"]
        results = [part for part in reading.parts if part.kind == "result"]
        if made:
            open_calls.make([part.id for part in made])
            calls += [_Call(at, part, None) for part in made]
        for part in results:
            answered = open_calls.answer(part.id)
            if answered is not None:
                result = _Result(at, "\n".join(part.texts), part.failed)
                calls[answered[1]] = calls[answered[1]]._replace(result=result)
    return calls


def _keys(rule: LedgerRule, named: Mapping[str, object], taken: set[str]) -> list[str]:
    """The arguments that a rule may take, the best first."""
    keys = list(named) if rule.key == ANY else rule.key.split("|")
    return [key for key in keys if key in named and key not in taken]


def _fitting(rule: LedgerRule, values: Sequence[str]) -> list[str]:
    """Those of an argument's values that can be what a rule says."""
    longest = _LONGEST[rule.kind]
    match rule.kind:
        case "command":
            whole = " ".join(values)
            return [whole] if whole.strip() else []
        case "identifier" if rule.key == ANY:
            return [value for value in values[:_EACH] if is_id(value)]
        case "url":
            return [
                value for value in values[:_EACH] if value.startswith(("http://", "https://")) and len(value) <= longest
            ]
        case _:
            return [
                bare
                for value in values[:_EACH]
                if (bare := value.strip()) and len(bare) <= longest and bare.isprintable()
            ]


def _told_by(result: _Result | None, operation: str) -> str:
    """What was done; of a change that nobody has confirmed, with the words that say so."""
    return operation if result is not None or operation in LOOKS else f"{operation}{_NO_RESULT}"


def _went_wrong(result: _Result | None, *, looks: bool) -> bool:
    return result is not None and (result.failed or refuses(result.text, looks=looks))


def _told(result: _Result, start: int, stop: int) -> Iterator[Touch]:
    """Addresses and ids in a short result: what was made, or found."""
    if len(result.text) > _SHORT:
        return
    yield from (Touch("url", url, "seen", start, stop) for url in urls_in(result.text))
    yield from (Touch("identifier", id, "seen", start, stop) for id in ids_in_result(result.text))


_EAGER = 1_000  # unread tokens from which on they are read ahead of need

_SOON = 200  # the same where a view is about to activate

_FOR_A_THREAD = 4_000  # unread tokens that a view has a thread read: fewer are read sooner than one starts

_PIECE = 8_000  # tokens that are read in one go ahead of need

_BACKLOG = 40_000  # tokens that a view may have to read


class Ahead(NamedTuple):
    """Groups that are to be read ahead of need, which any thread may do."""

    start: int
    stop: int
    groups: Sequence[tuple[int, Sequence[Entry]]]  # each with the place of its first entry
    reader: CallReader
    version: int  # of the log

    def read(self, yield_now: YieldNow) -> tuple[list[Touch], Exception | None]:
        """What they say, and the first error in reading them: a group that fails is passed over.

        `yield_now` is called all along.
        """
        touches: list[Touch] = []
        failure: Exception | None = None
        for first, group in self.groups:
            yield_now(sum(len(entry.data) for entry in group))
            try:
                touches += _touches(self.reader, first, group, yield_now)
            except Exception as error:  # one group that cannot be read must not keep the others unread
                failure = failure or error
        return touches, failure


class SessionLedger:
    """What has been read of one session. Plain functions: nothing here waits."""

    def __init__(self, log: MessageLog, reader: CallReader) -> None:
        self._log = log
        self._reader = reader
        self._ledger = Ledger()
        self._read: list[Touch] = []
        self._next = 0  # first entry that has not been read, behind the gap
        self._gap = (0, 0)  # entries that were passed over
        self._version = 0  # of the log: how often it was replaced
        self._arrived: tuple[Ahead, Sequence[Touch], Exception | None] | None = None  # read in a thread for a view

    def lags(self, *, soon: bool = False) -> bool:
        """Whether there is enough unread to be read ahead of need; less is enough where it is needed `soon`."""
        tokens, stop = self._log.tokens, self._log.closed_groups_stop
        return self._gap[0] < self._gap[1] or tokens[stop] - tokens[self._next] >= (_SOON if soon else _EAGER)

    def reader(self) -> Callable[[], None] | None:
        """Read, in any thread, what `current` would read; None where that is little, or has been read."""
        self._pass_over()
        self._take_arrived()
        tokens, start, stop = self._log.tokens, self._next, self._log.closed_groups_stop
        if tokens[stop] - tokens[start] < _FOR_A_THREAD or self._arrived is not None:
            return None
        groups = [(first, self._log.entries[first:end]) for first, end in self._groups(start, stop)]
        ahead = Ahead(start, stop, groups, self._reader, self._version)

        def read() -> None:
            self._arrived = ahead, *ahead.read(never_yield)

        return read

    def current(self) -> Ledger:
        """The ledger of the closed groups; of a long backlog only of its newest part."""
        self._pass_over()
        self._take_arrived()
        self._next, self._arrived = self._read_from(self._next, self._log.closed_groups_stop), None
        return self._ledger

    def _take_arrived(self) -> None:
        """Note what a thread has read, if it is what comes next. What failed is read again, and told then."""
        if self._arrived is None:
            return
        ahead, touches, failure = self._arrived
        if (ahead.version, ahead.start) != (self._version, self._next):
            self._arrived = None
        elif failure is None:
            self._note(touches)
            self._next, self._arrived = ahead.stop, None

    def _pass_over(self) -> None:
        """Of a long backlog go on with its newest part."""
        tokens, stop = self._log.tokens, self._log.closed_groups_stop
        if self._gap[0] == self._gap[1] and tokens[stop] - tokens[self._next] > _BACKLOG:
            first = bisect_left(tokens, tokens[stop] - _BACKLOG, hi=stop)
            at = bisect_left(self._log.group_starts, first)
            if at < len(self._log.group_starts):
                start = self._log.group_starts[at]
                self._gap, self._next = (self._next, start), start

    def ahead(self) -> Ahead:
        """Some of what has not been read, to be read ahead of need."""
        start, end = self._unread
        groups = self._groups(start, min(end, self._after(start)))
        entries = [(first, self._log.entries[first:stop]) for first, stop in groups]
        stop = groups[-1][1] if groups else min(end, self._after(start))
        return Ahead(start, stop, entries, self._reader, self._version)

    def take(self, ahead: Ahead, touches: Sequence[Touch]) -> None:
        """Note what was read ahead; nothing where it was read meanwhile, or the log replaced."""
        if (ahead.version, ahead.start) != (self._version, self._unread[0]):
            return
        self._note(touches)
        if self._gap[0] < self._gap[1]:
            self._gap = ahead.stop, self._gap[1]
        else:
            self._next = ahead.stop

    def keep(self, stop: int) -> None:
        """The log was replaced from entry `stop` on."""
        self._version += 1
        if stop >= self._next:
            return
        if self._gap[0] < self._gap[1]:
            stop = min(stop, self._gap[0])
        self._read = [touch for touch in self._read if touch.stop <= stop]
        self._ledger, self._next, self._gap = Ledger(self._read), stop, (0, 0)

    def facts(self) -> list[Fact]:
        """Everything that is known of the whole log, its open end included."""
        self._gap = self._read_from(*self._gap), self._gap[1]
        self._next = self._read_from(self._next, self._log.closed_groups_stop)
        return self.newest_facts()

    def newest_facts(self) -> list[Fact]:
        """The same, but of a long backlog only of its newest part."""
        ledger = self.current()
        start, stop = self._log.closed_groups_stop, len(self._log)
        if start < stop:
            ledger += Ledger(self._touches(start, stop))
        return ledger.facts()

    @property
    def _unread(self) -> tuple[int, int]:
        """The entries that are to be read next."""
        return self._gap if self._gap[0] < self._gap[1] else (self._next, self._log.closed_groups_stop)

    def _after(self, start: int) -> int:
        """An entry about a piece behind `start`."""
        tokens = self._log.tokens
        return bisect_left(tokens, tokens[start] + _PIECE)

    def _groups(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The groups that begin between two entries."""
        starts = self._log.group_starts
        first, last = bisect_left(starts, start), bisect_left(starts, stop)
        ends = [*starts[first + 1 : last + 1], self._log.closed_groups_stop]
        return list(zip(starts[first:last], ends, strict=False))

    def _read_from(self, start: int, stop: int) -> int:
        """Read the groups that begin between two entries; where the last of them ends."""
        for first, end in self._groups(start, stop):
            self._note(self._touches(first, end))
            start = end
        return max(start, stop)

    def _note(self, touches: Sequence[Touch]) -> None:
        self._read += touches
        for touch in touches:
            self._ledger.add(touch)

    def _touches(self, start: int, stop: int) -> list[Touch]:
        return _touches(self._reader, start, self._log.entries[start:stop])


def _touches(reader: CallReader, start: int, group: Sequence[Entry], yield_now: YieldNow = never_yield) -> list[Touch]:
    """What a group says; most messages that call nothing and that no human wrote are not even looked at."""
    if not any(entry.facts.human or entry.facts.calls for entry in group):
        return []
    return reader.touches([(at, entry.read(at).reading) for at, entry in enumerate(group, start)], yield_now)
