"""What was done: calls and their outcomes, as short lines with exact paths, commands and files.

Pure.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from summarizing_context.extraction.error_lines import first_error_line, line_at
from summarizing_context.extraction.tool_calls import CHANGES, COMMITS, LOOKS, PATCH_VERBS, PATCHED, looks_only, verb_of
from summarizing_context.messages.text import GONE, cleaned, clip, shown
from summarizing_context.settings.ledger_rules import COMMAND_KEYS
from summarizing_context.summarizers.extractive.figures import CALLED_CHARS, CHANGED_CHARS, LOOKED_CHARS, RANKS, Ranks
from summarizing_context.summarizers.extractive.sections import Block, Line

_PARSED = 200_000  # characters; larger arguments are searched instead of parsed

_HEAD, _END = 300, 600  # characters of a result

_PATH_KEY = re.compile(r'"(?:\w{0,20}_)?(?:path|file|filename|filepath)"\s?:\s?"([^"\\\n]{1,400})"')

_COMMAND_KEY = re.compile(r'"(?:command|cmd|script)"\s?:\s?"((?:[^"\\\n]|\\.){1,400})"')

_PATH_KEYS = ("file_path", "path", "filename", "file", "filepath", "target_file", "notebook_path", "file_name")

_CHECKS = re.compile(
    r"\b(?:(?:go|cargo|npm|pnpm|yarn|bun|deno|dotnet|mix|swift|gradle|mvn)\b(?: run)? ?"
    r"(?:test|build|check|lint|vet|verify|typecheck)|pytest|unittest|tox|nox|make|jest|vitest|mocha|ctest|ruff|mypy|"
    r"eslint|tsc|golangci-lint|clippy|rspec|phpunit|mise run)\b"
)

_CHANGE_DIRECTORY = re.compile(r"cd (?:\"[^\"\n]{1,300}\"|[^\s;&]{1,300})\s{0,3}(?:&&|;)\s{0,3}")

OTHER_RANK, CHANGE_RANK, CHECK_RANK, COMMIT_RANK = 2, 4, 6, 7


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


def read_steps(blocks: Sequence[Block]) -> list[Step]:
    """The calls in order, each with the first result of its tool that follows and is not yet taken."""
    waiting: dict[str, deque[int]] = {}
    steps: list[Step] = []
    for at, block in enumerate(blocks):
        if block.kind == "call":
            waiting.setdefault(block.tool, deque()).append(len(steps))
            steps.append(_read_call(at, block))
        elif block.kind in ("result", "failed") and waiting.get(block.tool):
            index = waiting[block.tool].popleft()
            steps[index] = _answer(steps[index], at, block)
    return steps


def last_call(steps: Sequence[Step]) -> Step | None:
    """The newest step, if its result is not in this content."""
    return steps[-1] if steps and steps[-1].answered < 0 else None


def base_name(path: str) -> str:
    """The last part of a path."""
    return shown(path.rstrip("/").rpartition("/")[2])


def render_call(step: Step, limit: int = 140) -> str:
    """A call in a few words, in about `limit` characters; a path is named by its last part rather than cut."""
    if step.path and " " not in step.command:
        path = shown(step.path) if len(step.path) < limit else base_name(step.path)
        return f"{step.command or step.tool} {path}"
    if step.command:
        return f"`{clip(shown(_bare_command(step.command)), limit)}`"
    if patched := PATCHED.search(step.body):
        return f"{step.tool} {shown(patched[2])}"
    return f"{step.tool}({clip(_short_items(step), limit)})"


def patched_files(step: Step) -> list[tuple[str, str]]:
    """What a patch among the arguments does to which files: (Add, Update or Delete; path)."""
    return [(verb, path) for verb, path, _ in PATCHED.findall(step.body)] if "*** " in step.body else []


def rank_command(command: str) -> int:
    """How much a command matters afterwards: commits most, then checks, then changes."""
    if COMMITS.search(command):
        return COMMIT_RANK
    if _CHECKS.search(command):
        return CHECK_RANK
    return CHANGE_RANK if CHANGES.search(command) else OTHER_RANK


def _answer(step: Step, at: int, block: Block) -> Step:
    result, failed = cleaned(block.body), block.kind == "failed"
    error = ""
    if failed or step.command:
        error = first_error_line(result, failed) if failed or not step.looks else ""
    elif not step.looks:  # such results are often prose about errors; those that failed say so at once or at last
        error = first_error_line(f"{result[:_HEAD]}\n{result[_HEAD:][-_END:]}", failed)
    return step._replace(answered=at, result=result, failed=failed, error=error)


def _read_call(at: int, block: Block) -> Step:
    body = block.body
    items: tuple[tuple[str, str], ...] = ()
    if len(body) <= _PARSED and body.startswith("{"):
        try:
            args: dict[str, object] = json.loads(body)
            items = tuple((str(key), _plain(value)) for key, value in args.items())
        except (ValueError, RecursionError):
            items = ()
    if items:
        given = dict(items)
        path = next((given[key] for key in _PATH_KEYS if isinstance(args.get(key), str)), "")
        command = next((_joined(args[key]) for key in COMMAND_KEYS if args.get(key)), "")
    else:
        path_found, command_found = _PATH_KEY.search(body), _COMMAND_KEY.search(body)
        path = path_found[1] if path_found else ""
        command = command_found[1] if command_found else ""
    return Step(at, block.tool, command, path, body, items, _is_look(block.tool, command, path))


def _is_look(tool: str, command: str, path: str) -> bool:
    """Whether a call only looks at something."""
    if command and (not path or " " in command):
        return LOOKS.match(_bare_command(command)) is not None and not COMMITS.search(command)
    return looks_only(command or tool)


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _joined(value: object) -> str:
    if isinstance(value, list):
        return " ".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _bare_command(command: str) -> str:
    """The command without a change of folder in front."""
    start = command.removeprefix("bash -lc ").lstrip()
    return _CHANGE_DIRECTORY.sub("", start, count=1) if start.startswith("cd ") else start


def _short_items(step: Step) -> str:
    shorts = [f"{key}={clip(shown(value), 40)}" for key, value in step.items if value]
    return ", ".join(shorts[:12])


LOOKED, CALLED = "looked at", "called with"

CHANGED = (
    *("edited", "updated", "modified", "wrote", "created", "saved", "moved", "renamed", "undid"),
    *("deleted", "removed", "dropped", "closed", "archived"),
)

_LISTED = re.compile(rf"({'|'.join((*CHANGED, LOOKED, CALLED))}) ([^\n]+)\Z")

_ID = re.compile(r"#?[A-Za-z0-9][\w#.:@-]{3,39}\Z")


class Listings:
    """What has been dealt with, and how it was dealt with last."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}  # name: verb, the newest last
        self._lengths = {LOOKED: LOOKED_CHARS, CALLED: CALLED_CHARS}
        self._ranks = {LOOKED: RANKS.looked, CALLED: RANKS.called}
        self._changed = CHANGED_CHARS, RANKS.changed

    def add(self, verb: str, name: str) -> None:
        """Note a name. What was changed stays changed when it is looked at later."""
        before = self._last.get(name, "")
        if verb in (LOOKED, CALLED) and before in CHANGED:
            verb = before
        self._last.pop(name, None)
        self._last[name] = verb

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
        """A line for each verb, the names dealt with last kept first where there are too many."""
        verbs = dict.fromkeys(self._last.values())
        return [self._line(verb) for verb in (*CHANGED, CALLED, LOOKED) if verb in verbs]

    def _line(self, verb: str) -> Line:
        length, rank = self._changed
        names = [name for name, last in self._last.items() if last == verb]
        return Line(f"{verb} {list_newest(names, self._lengths.get(verb, length))}", self._ranks.get(verb, rank))


def ids_in(values: Iterable[str]) -> list[str]:
    """Those of a call's arguments that are ids: one word with a digit in it, and more than a number."""
    return [
        value
        for value in values
        if _ID.match(value) and any(map(str.isdigit, value)) and not value.replace(".", "").isdigit()
    ]


def list_newest(names: list[str], limit: int) -> str:
    """The last of `names`, none of them cut, in about `limit` characters; at least one."""
    kept: list[str] = []
    size = 0
    for name in reversed(names):
        text = shown(name)
        if kept and size + len(text) > limit:
            kept.append(GONE)
            break
        kept.append(text)
        size += len(text) + 2
    return ", ".join(reversed(kept))


_PLANS = re.compile(r"(?i)todo|plan\b|_plan|think")

_EXIT_CODE = re.compile(r"(?i)\b(?:exit(?:ed)?(?: with)?(?: code| status)?)[ :=]{1,3}(-?\d{1,5})\b")

_TALLIES = (  # each begins with what is quickly found
    re.compile(r"(\d(?<!\w\d)\d{0,6}) (?:passed|failed|failures?|pass|fail|errors?|tests?|warnings?|problems?)\b"),
    re.compile(r"\n(ok|FAIL|PASS|OK)\b"),
)

_TALLY_HINTS = (" pass", " fail", "FAIL", "\nok", "PASS", " error", "OK", " tests", " warning", " problem")

_TIMES = re.compile(r" \((\d{1,9}) times\)\Z")

_FAILED_RANK = 3


class Action(NamedTuple):
    """One thing done, said in a line."""

    key: str
    outcome: str
    rank: int


def find_actions(steps: Sequence[Step]) -> list[Line]:
    """What the steps changed or checked, oldest first; an action done again stands once, with its last outcome."""
    actions: dict[str, tuple[Action, int]] = {}
    listed = Listings()
    for step in steps:
        for id in ids_in(value for _, value in step.items):
            listed.add(CALLED, id)
        if step.looks or _PLANS.search(step.tool):
            if step.path:
                listed.add(LOOKED, step.path)
            continue
        for action in _actions_of(step, RANKS) if step.answered >= 0 else ():
            if not action.outcome and listed.read(action.key):
                continue
            times = actions.pop(action.key)[1] if action.key in actions else 0
            actions[action.key] = action, times + 1
    return [*listed.lines(), *(Line(_render(action, times), action.rank) for action, times in actions.values())]


def add_up(texts: Iterable[str]) -> list[str]:
    """Deeds, oldest first; one done again stands once, at its last place, with its last outcome and all its times."""
    kept: dict[str, tuple[int, str]] = {}
    for text in texts:
        action, arrow, outcome = text.partition(" → ")
        times = _TIMES.search(action)
        key = action[: times.start()] if times else action
        before = kept.pop(key, (0, ""))[0]
        kept[key] = before + (int(times[1]) if times else 1), arrow + outcome
    return [key + (f" ({times} times)" if times > 1 else "") + tail for key, (times, tail) in kept.items()]


def _actions_of(step: Step, ranks: Ranks) -> list[Action]:
    if patched := patched_files(step):
        return [_file_action(PATCH_VERBS[verb], path.strip(), step, ranks) for verb, path in patched]
    if step.path and (not step.command or " " not in step.command):
        verb = verb_of(step.command or step.tool)
        return [_file_action(verb, step.path, step, ranks)] if verb else []
    if step.command:
        return [_command_action(step, ranks)]
    return [Action(render_call(step, 80), _outcome(step), ranks.file if verb_of(step.tool) else ranks.call)]


def _file_action(verb: str, path: str, step: Step, ranks: Ranks) -> Action:
    rank = min(_FAILED_RANK, ranks.file) if step.failed else ranks.file
    return Action(f"{verb} {shown(path)}", "failed" if step.failed else "", rank)


def _command_action(step: Step, ranks: Ranks) -> Action:
    rank = rank_command(step.command)
    return Action(f"ran {render_call(step)}", _outcome(step, rank), ranks.command * rank)


def _outcome(step: Step, rank: int = OTHER_RANK) -> str:
    if step.failed or step.error:
        return "failed"
    if tally := _tally(step.result):
        return clip(tally, 100)
    code = _EXIT_CODE.search(step.result, 0, 2000) if "xit" in step.result[:2000] else None
    if code and code[1] != "0":
        return shown(code[0])
    if step.command:
        return "ok" if code else _last_line(step) if rank > OTHER_RANK else ""
    first = step.result.strip()[:300].split("\n")[0]
    return clip(shown(first), 70)


def _last_line(step: Step) -> str:
    end = step.result.rstrip()
    return clip(shown(line_at(end, len(end) - 1)), 80) if end else ""


def _tally(result: str) -> str:
    """The line of a test run's or build's result that gives the numbers."""
    end = result[-3000:]
    if not any(map(end.__contains__, _TALLY_HINTS)):
        return ""
    found = [tally.start(1) - 1 for pattern in _TALLIES for tally in pattern.finditer(f"\n{end}")]
    line = shown(line_at(end, max(found))) if found else ""
    return "ok" if line.startswith("ok ") else line


def _render(action: Action, times: int) -> str:
    again = f" ({times} times)" if times > 1 else ""
    return f"{action.key}{again}" + (f" → {action.outcome}" if action.outcome else "")
