"""What was done: calls and their outcomes, as short lines with exact paths, commands and files.

Pure.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from summarizing_context.extraction.tool_calls import (
    CHANGES,
    COMMITS,
    bare_command,
    exit_code,
    first_error_line,
    is_id,
    line_at,
    looks_only,
    only_looks,
    patched_files,
    read_arguments,
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
    items: list[tuple[str, str]]  # the arguments as names and texts
    looks: bool  # whether it only looks at something
    answered: int = -1  # number of the result's block; -1: not in this content
    result: str = ""
    failed: bool = False
    error: str = ""  # the line that names what went wrong

    @property
    def works_on_a_file(self) -> bool:
        """Whether the path says what was done, and no command line does."""
        return bool(self.path) and " " not in self.command

    def render(self, limit: int = 140) -> str:
        """Return the call in about `limit` characters; a path is named by its last part rather than cut."""
        if self.works_on_a_file:
            path = shown(self.path) if len(self.path) < limit else base_name(self.path)
            return f"{self.command or self.tool} {path}"
        if self.command:
            return f"`{clip(shown(bare_command(self.command)), limit)}`"
        if patched := patched_files(self.items):
            return f"{self.tool} {shown(patched[0][0])}"
        items = [f"{key}={clip(shown(value), 40)}" for key, value in self.items if value]
        return f"{self.tool}({clip(', '.join(items[:12]), limit)})"

    def outcome(self, *, shows_end: bool = False) -> str:
        """Return how it went: as a test run or a build counts it, by its exit code, or in its own words."""
        if self.failed or self.error:
            return "failed"
        end = self.result[-3000:]
        tallies = [found.start() for found in _TALLY.finditer(end)]
        if tally := shown(line_at(end, tallies[-1])) if tallies else "":
            return "ok" if tally.startswith("ok ") else clip(tally, 100)
        exited = exit_code(self.result)
        if exited.strip("0"):
            return f"exit code {exited}"
        if not self.command:
            return clip(shown(self.result.strip()[:300].split("\n")[0]), 70)
        said = self.result.rstrip() if shows_end and not exited else ""
        return "ok" if exited else clip(shown(line_at(said, len(said) - 1)), 80) if said else ""


def read_steps(blocks: Sequence[Block]) -> list[Step]:
    """Return the calls in order, each with the first result of its tool that follows and is not yet taken."""
    waiting: dict[str, deque[int]] = {}
    steps: list[Step] = []
    for at, (kind, body, tool) in enumerate(blocks):
        if kind == "call":
            waiting.setdefault(tool, deque()).append(len(steps))
            items = read_arguments(body, numbers=True)
            named: dict[str, list[str]] = {}
            for name, value in items:
                named.setdefault(name, []).append(value)
            path = next((named[key][0] for key in _PATH_KEYS if key in named), "")
            command = " ".join(next((named[key] for key in COMMAND_KEYS if key in named), ()))
            runs = bool(command) and (not path or " " in command)
            looks = only_looks(bare_command(command)) if runs else looks_only(command or tool)
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


def base_name(path: str) -> str:
    """Return the last part of a path."""
    return shown(path.rstrip("/").rpartition("/")[2])


_CHANGED = (
    *("edited", "updated", "modified", "wrote", "created", "saved", "moved", "renamed", "undid"),
    *("deleted", "removed", "dropped", "closed", "archived"),
)
_LOOKED, _CALLED = "looked at", "called with"
_LISTED = re.compile(rf"({'|'.join((*_CHANGED, _LOOKED, _CALLED))}) ([^\n]+)\Z")
_TIMES = re.compile(r" \((\d{1,9}) times\)\Z")
_CHECKS = re.compile(
    r"\b(?:(?:go|cargo|npm|pnpm|yarn|bun|deno|dotnet|mix|swift|gradle|mvn)\b(?: run)? ?"
    r"(?:test|build|check|lint|vet|verify|typecheck)|pytest|unittest|tox|nox|make|jest|vitest|mocha|ctest|ruff|mypy|"
    r"eslint|tsc|golangci-lint|clippy|rspec|phpunit|mise run)\b"
)
_TALLY = re.compile(
    r"(?m:^)(?:ok|FAIL|PASS|OK)\b"
    r"|(?<!\w)\d{1,7} (?:passed|failed|failures?|pass|fail|errors?|tests?|warnings?|problems?)\b"
)


def find_actions(steps: Sequence[Step]) -> list[Line]:
    """Return what the steps changed or checked, oldest first; ids among the arguments are listed."""
    deeds: list[Line] = []
    for step in steps:
        deeds += [Line(f"{_CALLED} {value}") for _, value in step.items if len(value) <= 40 and is_id(value)]
        if step.looks or re.search(r"(?i)todo|plan\b|_plan|think", step.tool):
            deeds += [Line(f"{_LOOKED} {step.path}")] if step.path else []
        elif step.answered >= 0:
            # each deed is kept by its kind: commits matter most afterwards, then checks, then changes
            changed = [(f"{verb} {path}", 10) for path, verb in patched_files(step.items)]
            verb = verb_of(step.command or step.tool)
            if changed or step.works_on_a_file:
                changed = changed or ([(f"{verb} {step.path}", 10)] if verb else [])
                outcome = "failed" if step.failed else ""
            elif step.command:
                kinds = ((14, COMMITS), (12, _CHECKS), (8, CHANGES))
                rank = next((rank for rank, pattern in kinds if pattern.search(step.command)), 4)
                changed, outcome = [(f"ran {step.render()}", rank)], step.outcome(shows_end=rank > 4)
            else:
                changed, outcome = [(step.render(80), 10 if verb else 8)], step.outcome()
            arrow = f" → {outcome}" if outcome else ""
            deeds += [Line(shown(deed) + arrow, 3 if arrow == " → failed" else rank) for deed, rank in changed]
    return add_up(deeds)


def add_up(deeds: Iterable[Line]) -> list[Line]:
    """Return what was done, oldest first: a line for each verb with the newest names, and what has an outcome or no
    known verb by itself, with how often; done again it stands at its last place, with its last outcome."""
    last: dict[str, str] = {}  # verb of each name, the newest last; what was changed stays changed when looked at later
    kept: dict[str, tuple[int, str, int]] = {}  # times, outcome and rank
    for text, rank in deeds:
        listed = None if " → " in text else _LISTED.match(text)
        for name in listed[2].split(", ") if listed else ():
            if listed and (bare := _TIMES.sub("", name.strip())) and bare != GONE:
                verb, before = listed[1], last.pop(bare, "")
                last[bare] = before if verb in (_LOOKED, _CALLED) and before in _CHANGED else verb
        if not listed:
            action, arrow, outcome = text.partition(" → ")
            times = _TIMES.search(action)
            key = action[: times.start()] if times else action
            kept[key] = kept.pop(key, (0, "", 0))[0] + (int(times[1]) if times else 1), arrow + outcome, rank
    lines: list[Line] = []
    for verb in (*_CHANGED, _CALLED, _LOOKED):
        length, rank = {_LOOKED: (420, 7), _CALLED: (320, 6)}.get(verb, (420, 15))
        names: list[str] = []
        for name in reversed([shown(name) for name, how in last.items() if how == verb]):
            if names and len(name) + sum(len(each) + 2 for each in names) > length:
                names.append(GONE)
                break
            names.append(name)
        lines += [Line(f"{verb} {', '.join(reversed(names))}", rank)] if names else []
    for action, (number, outcome, rank) in kept.items():
        lines.append(Line((f"{action} ({number} times)" if number > 1 else action) + outcome, rank))
    return lines
