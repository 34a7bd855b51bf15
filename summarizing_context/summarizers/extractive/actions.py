"""What was done: calls and their outcomes, as short lines with exact paths, commands and files.

Pure.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from summarizing_context.extraction.tool_calls import (
    CHANGES,
    COMMITS,
    LOOKS,
    PATCH_VERBS,
    PATCHED,
    first_error_line,
    line_at,
    looks_only,
    verb_of,
)
from summarizing_context.messages.text import GONE, cleaned, clip, shown
from summarizing_context.settings.ledger_rules import COMMAND_KEYS
from summarizing_context.summarizers.extractive.sections import Block, Line

_PATH_KEYS = ("file_path", "path", "filename", "file", "filepath", "target_file", "notebook_path", "file_name")


class Step(NamedTuple):
    """One call and what came of it."""

    at: int  # number of the call's block
    tool: str
    command: str  # "" where the tool runs none
    path: str  # "" where it names none
    body: str  # the arguments as written
    items: tuple[tuple[str, str], ...]  # short arguments
    looks: bool  # whether it only looks at something
    answered: int = -1  # number of the result's block; -1: not in this content
    result: str = ""
    failed: bool = False
    error: str = ""  # the line that names what went wrong

    @property
    def works_on_a_file(self) -> bool:
        """Whether the path says what was done, and no command line does."""
        return bool(self.path) and " " not in self.command


def read_steps(blocks: Sequence[Block]) -> list[Step]:
    """Return the calls in order, each with the first result of its tool that follows and is not yet taken."""
    waiting: dict[str, deque[int]] = {}
    steps: list[Step] = []
    for at, (kind, body, tool) in enumerate(blocks):
        if kind == "call":
            waiting.setdefault(tool, deque()).append(len(steps))
            args: dict[str, Any] = {}
            if len(body) <= 200_000 and body.startswith("{"):  # larger ones are searched
                with suppress(ValueError, RecursionError):
                    args = json.loads(body)
            if args:
                path = next((args[key] for key in _PATH_KEYS if isinstance(args.get(key), str)), "")
                run = next((args[key] for key in COMMAND_KEYS if args.get(key)), "")
                command = " ".join(word for word in (run if isinstance(run, list) else [run]) if isinstance(word, str))
            else:
                found = re.search(r'"(?:\w{0,20}_)?(?:path|file|filename|filepath)"\s?:\s?"([^"\\\n]{1,400})"', body)
                ran = re.search(r'"(?:command|cmd|script)"\s?:\s?"((?:[^"\\\n]|\\.){1,400})"', body)
                path, command = found[1] if found else "", ran[1] if ran else ""
            if command and (not path or " " in command):
                looks = LOOKS.match(_bare_command(command)) is not None and not COMMITS.search(command)
            else:
                looks = looks_only(command or tool)
            items = tuple(
                (key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":")))
                for key, value in args.items()
            )
            steps.append(Step(at, tool, command, path, body, items, looks))
        elif kind in ("result", "failed") and waiting.get(tool):
            index = waiting[tool].popleft()
            step, result, failed = steps[index], cleaned(body), kind == "failed"
            told = result
            if not step.command and not failed:  # often prose about errors; those that failed say so at once or at last
                told = f"{result[:300]}\n{result[300:][-600:]}"
            error = "" if step.looks and not failed else first_error_line(told, failed)
            steps[index] = step._replace(answered=at, result=result, failed=failed, error=error)
    return steps


def _bare_command(command: str) -> str:
    """Return the command without a change of folder in front."""
    start = command.removeprefix("bash -lc ").lstrip()
    return re.sub(r"\Acd (?:\"[^\"\n]{1,300}\"|[^\s;&]{1,300})\s{0,3}(?:&&|;)\s{0,3}", "", start)


def base_name(path: str) -> str:
    """Return the last part of a path."""
    return shown(path.rstrip("/").rpartition("/")[2])


def render_call(step: Step, limit: int = 140) -> str:
    """Say a call in a few words, in about `limit` characters; a path is named by its last part rather than cut."""
    if step.works_on_a_file:
        path = shown(step.path) if len(step.path) < limit else base_name(step.path)
        return f"{step.command or step.tool} {path}"
    if step.command:
        return f"`{clip(shown(_bare_command(step.command)), limit)}`"
    if patched := PATCHED.search(step.body):
        return f"{step.tool} {shown(patched[2])}"
    items = [f"{key}={clip(shown(value), 40)}" for key, value in step.items if value]
    return f"{step.tool}({clip(', '.join(items[:12]), limit)})"


_CHANGED = (
    *("edited", "updated", "modified", "wrote", "created", "saved", "moved", "renamed", "undid"),
    *("deleted", "removed", "dropped", "closed", "archived"),
)
_LOOKED, _CALLED = "looked at", "called with"
_LISTED = re.compile(rf"({'|'.join((*_CHANGED, _LOOKED, _CALLED))}) ([^\n]+)\Z")
_TIMES = re.compile(r" \((\d{1,9}) times\)\Z")


class Listings:
    """What has been dealt with, and how it was dealt with last."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}  # name: verb, the newest last

    def add(self, verb: str, name: str) -> None:
        """Note a name. What was changed stays changed when it is looked at later."""
        before = self._last.pop(name, "")
        self._last[name] = before if verb in (_LOOKED, _CALLED) and before in _CHANGED else verb

    def read(self, text: str) -> bool:
        """Take in a line of an earlier summary; False if it lists nothing."""
        found = _LISTED.match(text)
        if found is None or " → " in text:
            return False
        for name in found[2].split(", "):
            bare = _TIMES.sub("", name.strip())
            if bare and bare != GONE:
                self.add(found[1], bare)
        return True

    def lines(self) -> list[Line]:
        """Return a line for each verb: of its names the last ones, none of them cut, and at least one."""
        lines: list[Line] = []
        for verb in (*_CHANGED, _CALLED, _LOOKED):
            length, rank = {_LOOKED: (420, 7), _CALLED: (320, 6)}.get(verb, (420, 15))
            kept: list[str] = []
            for name in reversed([shown(name) for name, last in self._last.items() if last == verb]):
                if kept and len(name) + sum(len(each) + 2 for each in kept) > length:
                    kept.append(GONE)
                    break
                kept.append(name)
            lines += [Line(f"{verb} {', '.join(reversed(kept))}", rank)] if kept else []
        return lines


_CHECKS = re.compile(
    r"\b(?:(?:go|cargo|npm|pnpm|yarn|bun|deno|dotnet|mix|swift|gradle|mvn)\b(?: run)? ?"
    r"(?:test|build|check|lint|vet|verify|typecheck)|pytest|unittest|tox|nox|make|jest|vitest|mocha|ctest|ruff|mypy|"
    r"eslint|tsc|golangci-lint|clippy|rspec|phpunit|mise run)\b"
)


def find_actions(steps: Sequence[Step]) -> list[Line]:
    """Return what the steps changed or checked, oldest first.

    An action done again stands once, with its last outcome. Arguments that are ids are listed: one word with a digit in
    it, and more than a number.
    """
    done: dict[str, tuple[str, int, int]] = {}  # what was done: outcome, rank, times
    listed = Listings()
    for step in steps:
        for _, value in step.items:
            if re.fullmatch(r"(?=.*\d)(?![\d.]+\Z)#?[A-Za-z0-9][\w#.:@-]{3,39}", value):
                listed.add(_CALLED, value)
        if step.looks or re.search(r"(?i)todo|plan\b|_plan|think", step.tool):
            if step.path:
                listed.add(_LOOKED, step.path)
            continue
        if step.answered < 0:
            continue

        # each deed with its outcome, and how long it is kept: commits matter most afterwards, then checks, then changes
        changed = [(PATCH_VERBS[verb], path) for verb, path, _ in PATCHED.findall(step.body)]
        verb = verb_of(step.command or step.tool)
        if changed or step.works_on_a_file:
            changed = changed or ([(verb, step.path)] if verb else [])
            outcome, rank = ("failed", 3) if step.failed else ("", 10)
            deeds = [(f"{verb} {shown(path)}", outcome, rank) for verb, path in changed]
        elif step.command:
            kinds = ((14, COMMITS), (12, _CHECKS), (8, CHANGES))
            rank = next((rank for rank, pattern in kinds if pattern.search(step.command)), 4)
            deeds = [(f"ran {render_call(step)}", _outcome(step, shows_end=rank > 4), rank)]
        else:
            deeds = [(render_call(step, 80), _outcome(step), 10 if verb else 8)]
        for deed, outcome, rank in deeds:
            if outcome or not listed.read(deed):
                done[deed] = outcome, rank, done.pop(deed, ("", 0, 0))[2] + 1
    counted = [
        Line(_counted(deed, times) + (f" → {outcome}" if outcome else ""), rank)
        for deed, (outcome, rank, times) in done.items()
    ]
    return [*listed.lines(), *counted]


_TALLY = re.compile(
    r"(?m:^)(?:ok|FAIL|PASS|OK)\b"
    r"|(?<!\w)\d{1,7} (?:passed|failed|failures?|pass|fail|errors?|tests?|warnings?|problems?)\b"
)


def _outcome(step: Step, *, shows_end: bool = False) -> str:
    """Return how a step went: as a test run or a build counts it, by its exit code, or in its own words."""
    if step.failed or step.error:
        return "failed"
    end = step.result[-3000:]
    tallies = [found.start() for found in _TALLY.finditer(end)]
    if tally := shown(line_at(end, tallies[-1])) if tallies else "":
        return "ok" if tally.startswith("ok ") else clip(tally, 100)
    exited = re.search(r"(?i)\bexit(?:ed)?(?: with)?(?: code| status)?[ :=]{1,3}(-?\d{1,5})\b", step.result[:2000])
    if exited and exited[1] != "0":
        return shown(exited[0])
    if not step.command:
        return clip(shown(step.result.strip()[:300].split("\n")[0]), 70)
    said = step.result.rstrip() if shows_end and not exited else ""
    return "ok" if exited else clip(shown(line_at(said, len(said) - 1)), 80) if said else ""


def add_up(texts: Iterable[str]) -> list[str]:
    """Return deeds, oldest first; one done again stands once, at its last place, with its last outcome and all its
    times."""
    kept: dict[str, tuple[int, str]] = {}
    for text in texts:
        action, arrow, outcome = text.partition(" → ")
        times = _TIMES.search(action)
        key = action[: times.start()] if times else action
        before = kept.pop(key, (0, ""))[0]
        kept[key] = before + (int(times[1]) if times else 1), arrow + outcome
    return [_counted(key, times) + tail for key, (times, tail) in kept.items()]


def _counted(action: str, times: int) -> str:
    return f"{action} ({times} times)" if times > 1 else action
