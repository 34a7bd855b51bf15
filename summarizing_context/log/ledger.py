"""The ledger of a session: each closed group is read once, by the worker or when it is needed.

Of a long unread log, a view reads only the newest part, and the worker what is before it. Huge arguments
and results are read at their ends only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.extraction.ledger import LOOKS, SAID, Fact, Kind, Ledger, Touch
from summarizing_context.extraction.tool_calls import (
    bare_command,
    denies,
    exit_code,
    files_of,
    ids_in_result,
    is_id,
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
from summarizing_context.messages.reading import Part, Reading
from summarizing_context.settings.ledger_rules import ANY, COMMAND_KEYS, TOOL, LedgerRule, LedgerRules

_LONGEST: Mapping[str, int] = {"path": 400, "command": 300, "url": 400, "identifier": 64}  # characters of a value

_EACH = 24  # values of one argument

_NO_RESULT = " (no result)"

_SHORT = 2_000  # characters of a result that may tell what was made

_QUOTED = 20_000  # characters of a human's text that are read sentence by sentence


@dataclass(slots=True)
class _Call:
    """A tool call, and its result, if it has one."""

    start: int
    stop: int
    part: Part
    result: str | None = None
    failed: bool = False

    def went_wrong(self, *, looks: bool) -> bool:
        return self.result is not None and (self.failed or refuses(self.result, looks=looks))

    def told(self, operation: str) -> str:
        """What was done; of an unconfirmed change, with the words that say so."""
        return operation if self.result is not None or operation in LOOKS else f"{operation}{_NO_RESULT}"


class CallReader:
    """Reads groups by one table of rules. `error_line`, of a result and whether it failed, and `quotes`, the decisions
    in a human's text, are shared with the extractive summarizer."""

    def __init__(
        self, rules: LedgerRules, error_line: Callable[[str, bool], str], quotes: Callable[[str], Sequence[str]]
    ) -> None:
        self._rules, self._error_line, self._quotes = rules, error_line, quotes

    def touches_of(self, start: int, group: Sequence[Entry], yield_now: YieldNow = never_yield) -> list[Touch]:
        """What a group, whose first message stands at `start`, did and said, in order. `yield_now` is called all along.

        Most messages that call nothing and that no human wrote are not even looked at.
        """
        if not any(entry.facts.human or entry.facts.calls for entry in group):
            return []
        reads = [(at, entry.read(at).reading) for at, entry in enumerate(group, start)]
        found: list[Touch] = []
        for at, text in ((at, text) for at, reading in reads if reading.human for text in reading.typed):
            yield_now(len(text))
            found += (Touch("decision", quote, SAID, at, at + 1) for quote in self._quotes(text[:_QUOTED]))
            found += (Touch("url", url, "seen", at, at + 1) for url in urls_in(text))
        for call in _calls(reads):
            yield_now(sum(map(len, call.part.texts)) + len(call.result or ""))
            found += self._done(call)
        return [touch._replace(order=order) for order, touch in enumerate(found)]

    def _done(self, call: _Call) -> Iterator[Touch]:
        tool, start, stop = call.part.name, call.start, call.stop
        values = read_arguments(call.part.texts[0] if call.part.texts else "")
        if patched := patched_files(values):
            if call.went_wrong(looks=False):
                yield from self._error(call, f"{tool} {patched[0][0]}")
            else:
                yield from (Touch("path", path, call.told(done), start, stop) for path, done in patched)
            return
        claims = self._claims(tool, values)
        command = next((value for kind, value, _ in claims if kind == "command"), "")
        if command:
            yield from self._ran(command, call)
        about = f"{tool} {next((value for kind, value, _ in claims if kind == 'path'), '')}"
        looks = all(done in LOOKS for kind, _, done in claims if kind != "command")
        if not command and call.went_wrong(looks=looks):
            yield from self._error(call, about)
            return
        for kind, value, done in claims:
            if kind != "command":
                operation = call.told(done) if kind == "path" else done
                yield Touch(kind, value, operation, start, stop, about=about, went_well=call.result is not None)
        if call.result is not None and len(call.result) <= _SHORT:  # it tells what was made, or found
            yield from (Touch("url", url, "seen", start, stop) for url in urls_in(call.result))
            yield from (Touch("identifier", id, "seen", start, stop) for id in ids_in_result(call.result))

    def _error(self, call: _Call, about: str) -> Iterator[Touch]:
        """What a result that reports a failure names as its error."""
        if line := self._error_line(call.result or "", True):
            yield Touch("error", signature(line), "seen", call.start, call.stop, about=about)

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
            wanted = list(named) if rule.key == ANY else rule.key.split("|")  # the best first
            for key in [key for key in wanted if key in named and key not in taken]:
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

    def _ran(self, command: str, call: _Call) -> Iterator[Touch]:
        """A command with its exit status, the files that it obviously touched, and what went wrong."""
        bare, start, stop = bare_command(command), call.start, call.stop
        most, about = _LONGEST["command"], tried(bare)
        value = " ".join(bare[: 4 * most].split())
        value = value if len(value) <= most else f"{value[: most - 1]}…"
        has_result, text = call.result is not None, call.result or ""
        code, line = exit_code(text), ""
        failed = has_result and (code not in ("", "0") or (not code and call.failed))
        if has_result and code != "0" and (call.failed or not only_looks(bare)):
            line = self._error_line(text, failed)
        refused = denies(text)
        failed = failed or bool(line) or refused
        ran = "ran" if has_result else f"ran{_NO_RESULT}"
        operation = f"exit {code}" if code else "failed" if failed else ran
        yield Touch("command", value, operation, start, stop, about=about, went_well=has_result and not failed)
        for path, done, program in () if refused else files_of(command):
            if f"{program}: " not in text[:_SHORT]:
                yield Touch("path", path, call.told(done), start, stop, about=path)
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
            calls += [_Call(at, at + 1, part) for part in made]
        for part in results:
            answered = open_calls.answer(part.id)
            if answered is not None:
                call = calls[answered[1]]
                call.stop, call.result, call.failed = at + 1, "\n".join(part.texts), part.failed
    return calls


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


_EAGER = 1_000  # unread tokens from which on they are read ahead of need

_SOON = 200  # the same where a view is about to activate

_FOR_A_THREAD = 4_000  # unread tokens that a view has a thread read: fewer are read sooner than one starts

_PIECE = 8_000  # tokens that are read in one go ahead of need

_BACKLOG = 40_000  # tokens that a view may have to read


class Unread(NamedTuple):
    """Groups that are to be read, which any thread may do."""

    groups: Sequence[tuple[int, Sequence[Entry]]]  # each with the place of its first entry
    reader: CallReader
    version: int  # of the log

    def read(self, yield_now: YieldNow = never_yield) -> tuple[dict[int, Sequence[Touch]], Exception | None]:
        """What each says, by its first entry, and the first error in reading them: of a group that fails, nothing.

        `yield_now` is called all along.
        """
        found: dict[int, Sequence[Touch]] = {}
        failure: Exception | None = None
        for first, group in self.groups:
            yield_now(sum(len(entry.data) for entry in group))
            try:
                found[first] = self.reader.touches_of(first, group, yield_now)
            except Exception as error:  # one group that cannot be read must not keep the others unread
                found[first], failure = (), failure or error
        return found, failure


class SessionLedger:
    """What has been read of one session. Plain functions: nothing here waits."""

    def __init__(self, log: MessageLog, reader: CallReader) -> None:
        self._log = log
        self._reader = reader
        self._ledger = Ledger()
        self._touches: list[Touch] = []
        self._first = 0  # all entries before it have been read
        self._done: set[int] = set()  # first entries of the groups from there on that have been read

    def lags(self, *, soon: bool = False) -> bool:
        """Whether there is enough unread to be read ahead of need; less is enough where it is needed `soon`."""
        tokens, stop = self._log.tokens, self._log.closed_groups_stop
        return tokens[stop] - tokens[self._first] >= (_SOON if soon else _EAGER)

    def ahead(self) -> Unread:
        """The oldest of what has not been read, to be read ahead of need."""
        tokens = self._log.tokens
        return self._unread(self._first, bisect_left(tokens, tokens[self._first] + _PIECE))

    def for_a_thread(self) -> Unread | None:
        """What `current` would read; None where that is little."""
        unread = self._unread(self._newest)
        size = sum(self._log.tokens[at + len(group)] - self._log.tokens[at] for at, group in unread.groups)
        return unread if size >= _FOR_A_THREAD else None

    def take(self, unread: Unread, found: Mapping[int, Sequence[Touch]]) -> None:
        """Note what was read, but for what was read meanwhile; nothing where the log was replaced."""
        if unread.version == self._log.version:
            for first, touches in found.items():
                self._note(first, touches)
            self._go_on()

    def keep(self, stop: int) -> None:
        """The log was replaced from entry `stop` on."""
        self._first, self._done = min(self._first, stop), {first for first in self._done if first < stop}
        kept = [touch for touch in self._touches if touch.stop <= stop]
        if len(kept) < len(self._touches):
            self._touches, self._ledger = kept, Ledger(kept)

    def current(self) -> Ledger:
        """The ledger of the closed groups; of a long backlog only of its newest part."""
        self._read(self._newest)
        return self._ledger

    def facts(self) -> list[Fact]:
        """Everything that is known of the whole log, its open end included."""
        self._read(self._first)
        return self.newest_facts()

    def newest_facts(self) -> list[Fact]:
        """The same, but of a long backlog only of its newest part."""
        ledger = self.current()
        start = self._log.closed_groups_stop
        if start < len(self._log):
            ledger += Ledger(self._reader.touches_of(start, self._log.entries[start:]))
        return ledger.facts()

    @property
    def _newest(self) -> int:
        """Where the unread entries begin that a view reads."""
        tokens, stop, starts = self._log.tokens, self._log.closed_groups_stop, self._log.group_starts
        if tokens[stop] - tokens[self._first] <= _BACKLOG:
            return self._first
        at = bisect_left(starts, bisect_left(tokens, tokens[stop] - _BACKLOG, hi=stop))
        return starts[at] if at < len(starts) else self._first

    def _unread(self, start: int, stop: int | None = None) -> Unread:
        """The unread of the closed groups that begin between two entries."""
        log, starts = self._log, self._log.group_starts
        last = len(starts) if stop is None else bisect_left(starts, stop)
        numbers = [at for at in range(bisect_left(starts, start), last) if starts[at] not in self._done]
        groups = [(starts[at], log.entries[slice(*log.group_range(at))]) for at in numbers]
        return Unread(groups, self._reader, log.version)

    def _read(self, start: int) -> None:
        """Read what has not been read from an entry on."""
        for first, group in self._unread(start).groups:
            self._note(first, self._reader.touches_of(first, group))
        self._go_on()

    def _note(self, first: int, touches: Sequence[Touch]) -> None:
        if first >= self._first and first not in self._done:
            self._done.add(first)
            self._touches += touches
            for touch in touches:
                self._ledger.add(touch)

    def _go_on(self) -> None:
        """Forget which groups were read where all before them were."""
        starts = self._log.group_starts
        at = bisect_left(starts, self._first)
        while at < len(starts) and starts[at] in self._done:
            self._done.discard(starts[at])
            at += 1
        self._first = starts[at] if at < len(starts) else self._log.closed_groups_stop
