"""Reading touches off one closed group of messages: its calls by the table of rules, and what came of them.

Pure, and bounded: of huge arguments and results only the ends are looked at. What an error line looks like, and which
sentences of a human's are decisions and constraints, is told by detectors that are passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from summarizing_context.core.facts import LOOKS, SAID, Kind, Touch
from summarizing_context.core.groups import CallBook
from summarizing_context.core.ledger_rules import ANY, COMMAND_KEYS, TOOL, LedgerRule, RuleBook
from summarizing_context.core.messages import Part, Reading, human_texts
from summarizing_context.core.reading_words import (
    both_ends,
    denies,
    exit_code,
    is_id,
    one_line,
    patched_files,
    read_arguments,
    refuses,
    signature,
    told_ids,
    told_urls,
)
from summarizing_context.core.shell import bare_command, files_of, only_looks, tried

_LONGEST: Mapping[str, int] = {"path": 400, "command": 300, "url": 400, "identifier": 64}  # characters of a value
_EACH = 24  # values of one argument
_NO_RESULT = " (no result)"
_SHORT = 2_000  # characters of a result that may tell what was made
_QUOTED = 20_000  # characters of a human's text that are read sentence by sentence

Quotes = Callable[[str], tuple[Sequence[str], Sequence[str]]]  # (decisions, constraints) of a human's text


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


class CallReader:
    """Reads groups by one table of rules."""

    def __init__(self, rules: RuleBook, detectors: Detectors) -> None:
        self._rules = rules
        self._detectors = detectors

    def touches(self, group: Sequence[tuple[int, Reading]]) -> list[Touch]:
        """What a group, given as its messages with their places in the log, did and said, in order."""
        found: list[Touch] = []
        for at, reading in group:
            if reading.human:
                found += self._said(at, reading)
        for call in _calls(group):
            found += self._done(call)
        return [touch._replace(order=order) for order, touch in enumerate(found)]

    def _said(self, at: int, reading: Reading) -> Iterator[Touch]:
        for text in human_texts(reading):
            decisions, constraints = self._detectors.quotes(text[:_QUOTED])
            kinds: tuple[tuple[Kind, Sequence[str]], ...] = (("decision", decisions), ("constraint", constraints))
            for kind, quotes in kinds:
                yield from (Touch(kind, quote, SAID, at, at + 1) for quote in quotes)
            yield from (Touch("url", url, "seen", at, at + 1) for url in told_urls(text))

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
            for key in _keys(rule, named, taken):
                fitting = _fitting(rule, named[key])
                if not fitting or (rule.tool == ANY and rule.kind in kinds and rule.kind != "identifier"):
                    continue
                taken.add(key)
                operation = rule.operation.replace(TOOL, tool[:64])
                found += [(rule.kind, value, operation) for value in fitting]
                kinds.add(rule.kind)
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
    book = CallBook()
    calls: list[_Call] = []
    for at, reading in group:
        made = [part for part in reading.parts if part.kind == "call"]
        results = [part for part in reading.parts if part.kind == "result"]
        if made:
            book.make([part.id for part in made])
            calls += [_Call(at, part, None) for part in made]
        for part in results:
            answered = book.answer(part.id)
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
    yield from (Touch("url", url, "seen", start, stop) for url in told_urls(result.text))
    yield from (Touch("identifier", id, "seen", start, stop) for id in told_ids(result.text))
