"""What was done: calls and their outcomes, as short lines with exact paths, commands and files.

Pure.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from summarizing_context.extraction import tool_calls as calls
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
    def file(self) -> str:
        """The last part of its path."""
        return shown(self.path.rstrip("/").rpartition("/")[2])

    @property
    def works_on_a_file(self) -> bool:
        """Whether the path says what was done, and no command line does."""
        return bool(self.path) and " " not in self.command

    def render(self, limit: int = 140) -> str:
        """Return the call in about `limit` characters; a path is named by its last part rather than cut."""
        if self.works_on_a_file:
            return f"{self.command or self.tool} {shown(self.path) if len(self.path) < limit else self.file}"
        if self.command:
            return f"`{clip(shown(calls.bare_command(self.command)[0]), limit)}`"
        if patched := calls.patched_files(self.items):
            return f"{self.tool} {shown(patched[0][0])}"
        items = [f"{key}={clip(shown(value), 40)}" for key, value in self.items if value]
        return f"{self.tool}({clip(', '.join(items[:12]), limit)})"


def read_steps(blocks: Sequence[Block]) -> list[Step]:
    """Return the calls in order, each with the first result of its tool that follows and is not yet taken."""
    waiting: dict[str, deque[int]] = {}
    steps: list[Step] = []
    for at, (kind, body, tool) in enumerate(blocks):
        if kind == "call":
            waiting.setdefault(tool, deque()).append(len(steps))
            items = calls.read_arguments(body, numbers=True)
            named: dict[str, list[str]] = {}
            for name, value in items:
                named.setdefault(name, []).append(value)
            path = next((named[key][0] for key in _PATH_KEYS if key in named), "")
            command = " ".join(next((named[key] for key in COMMAND_KEYS if key in named), ()))
            runs = bool(command) and (not path or " " in command)
            looks = calls.only_looks(calls.bare_command(command)[0]) if runs else calls.looks_only(command or tool)
            steps.append(Step(at, tool, command, path, body, items, looks))
        elif kind in ("result", "failed") and waiting.get(tool):
            index = waiting[tool].popleft()
            step, result, failed = steps[index], cleaned(body), kind == "failed"
            told = result
            if not step.command and not failed:  # often prose about errors; those that failed say so at once or at last
                told = f"{result[:300]}\n{result[300:][-600:]}"
            error = "" if step.looks and not failed else calls.first_error_line(told, failed)
            steps[index] = step._replace(answered=at, result=result, failed=failed, error=error)
    return steps


_LOOKED, _CALLED = "looked at", "called with"
_LISTED = re.compile(
    rf"({_LOOKED}|{_CALLED}|edited|updated|modified|wrote|created|saved|moved|renamed|undid|deleted|removed|dropped|"
    r"closed|archived) ([^\n]+)\Z"
)
_TIMES = re.compile(r" \((\d{1,9}) times\)\Z")
_TALLY = re.compile(
    r"(?m:^)(?:ok|FAIL|PASS|OK)\b"
    r"|(?<!\w)\d{1,7} (?:passed|failed|failures?|pass|fail|errors?|tests?|warnings?|problems?)\b"
)


def find_actions(steps: Sequence[Step]) -> list[Line]:
    """Return what the steps changed or checked, oldest first; ids among the arguments are listed."""
    deeds: list[Line] = []
    for step in steps:
        deeds += [Line(f"{_CALLED} {value}") for _, value in step.items if len(value) <= 40 and calls.is_id(value)]
        if step.looks or re.search(r"(?i)todo|plan\b|_plan|think", step.tool):
            deeds += [Line(f"{_LOOKED} {shown(step.path)}")] if step.path else []
            continue
        if step.answered < 0:
            continue

        # the outcome: as a test run or a build counts it, by the exit status, or in its own words
        end, status = step.result[-3000:], calls.exit_code(step.result)
        tallies = [found.start() for found in _TALLY.finditer(end)]
        if step.failed or step.error:
            outcome, rank = "failed", 3
        elif tallies:
            outcome, rank = clip(shown(calls.line_at(end, tallies[-1])), 100), 12
        else:
            rank = 14 if calls.COMMITS.search(step.command) else 8
            last = step.result.rstrip()
            line = calls.line_at(last, len(last) - 1) if step.command else step.result.strip()[:300].split("\n")[0]
            outcome = f"exit code {status}" if status.strip("0") else "ok" if status else clip(shown(line), 80)

        # the deed
        verb = calls.verb_of(step.command or step.tool)
        changed = calls.patched_files(step.items) or ([(step.path, verb)] if step.works_on_a_file and verb else [])
        failed = " → failed" if step.failed else ""
        deeds += [Line(f"{how} {shown(path)}{failed}", 10) for path, how in changed]
        if not changed and not step.works_on_a_file:
            ran = f"ran {step.render()}" if step.command else step.render(80)
            deeds.append(Line(f"{ran} → {outcome}" if outcome else ran, rank))
    return add_up(deeds)


def add_up(deeds: Iterable[Line]) -> list[Line]:
    """Return what was done, oldest first: a line for each verb with the newest names, and what has an outcome or no
    known verb by itself, with how often; done again it stands at its last place, with its last outcome."""
    verbs: dict[str, str] = {}  # of each name, the newest last; what was changed stays changed when looked at later
    kept: dict[str, Line] = {}
    times: Counter[str] = Counter()
    for text, rank in deeds:
        if " → " not in text and (listed := _LISTED.match(text)):
            for name in map(str.strip, listed[2].split(", ")):
                before = verbs.pop(name, listed[1])
                verbs[name] = before if listed[1] in (_LOOKED, _CALLED) else listed[1]
        else:
            action, arrow, outcome = text.partition(" → ")
            counted = _TIMES.search(action)
            action = action[: counted.start()] if counted else action
            times[action] += int(counted[1]) if counted else 1
            kept.pop(action, None)
            kept[action] = Line(arrow + outcome, rank)
    verbs.pop(GONE, None)
    lines: list[Line] = []
    for verb in dict.fromkeys(verbs.values()):
        names: list[str] = []
        for name in reversed([name for name, how in verbs.items() if how == verb]):
            if names and sum(map(len, names)) + len(name) > 400:
                names.append(GONE)
                break
            names.append(name)
        lines.append(Line(f"{verb} {', '.join(reversed(names))}", 6 if verb in (_LOOKED, _CALLED) else 15))
    for action, (outcome, rank) in kept.items():
        lines.append(Line((f"{action} ({times[action]} times)" if times[action] > 1 else action) + outcome, rank))
    return lines
