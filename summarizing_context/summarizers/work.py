"""What was done: calls tied to their results, told as short lines with exact paths, commands and outcomes.

Pure. Reading is not doing: files and listings that were only looked at share one line of low rank.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from summarizing_context.summarizers.blocks import Block
from summarizing_context.summarizers.errors_seen import first_error_line, line_at
from summarizing_context.summarizers.sections import Line
from summarizing_context.summarizers.sentences import cleaned, clip, shown

_PARSED = 200_000  # characters; larger arguments are searched instead of parsed
_PATH_KEY = re.compile(r'"(?:\w{0,20}_)?(?:path|file|filename|filepath)"\s?:\s?"([^"\\\n]{1,400})"')
_COMMAND_KEY = re.compile(r'"(?:command|cmd|script)"\s?:\s?"((?:[^"\\\n]|\\.){1,400})"')
_PATH_KEYS = ("file_path", "path", "filename", "file", "filepath", "target_file", "notebook_path", "file_name")
_COMMAND_KEYS = ("command", "cmd", "script")
_PATCHED = re.compile(r"\*\*\* (Add|Update|Delete) File: ([^\n\\\"]{1,400})")
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_VERBS = {
    "edit": "edited", "multiedit": "edited", "replace": "edited", "insert": "edited", "patch": "edited",
    "str": "edited", "update": "updated", "modify": "modified", "write": "wrote", "create": "created",
    "delete": "deleted", "remove": "removed", "move": "moved", "rename": "renamed", "save": "saved", "undo": "undid",
}  # fmt: skip
_LOOKING = frozenset(
    "read view open cat get list ls grep glob search find fetch lookup query think calculate check show describe "
    "inspect look wait poll screenshot".split()
)
_PLANS = re.compile(r"(?i)todo|plan\b|_plan|think")
_LOOKS = re.compile(
    r"(?:ls|cat|bat|head|tail|grep|rg|find|pwd|wc|which|nl|tree|stat|file|env|less|awk|jq|cd|sleep|"
    r"git (?:-C \S+ )?(?:status|diff|log|show|branch|blame|rev-parse|remote|grep|ls-files)|sed -n|gh \w+ (?:view|list|status|diff|checks))\b"
)
_COMMITS = re.compile(r"\b(?:git (?:-C \S+ )?(?:commit|push|merge|rebase|tag|cherry-pick|revert|reset|stash)|gh pr (?:create|merge))\b")
_CHECKS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|(?:go|cargo|npm|pnpm|yarn|bun|deno|dotnet|mix|swift|gradle|mvn)\b(?: run)? ?(?:test|build|check|lint|vet|verify|"
    r"typecheck)|make|jest|vitest|mocha|ctest|ruff|mypy|eslint|tsc|golangci-lint|clippy|rspec|phpunit|mise run)\b"
)
_CHANGES = re.compile(
    r"\b(?:mv|cp|rm|mkdir|touch|chmod|ln|tee|install|uninstall|upgrade|deploy|docker|kubectl|terraform|sed -i|curl -X|"
    r"kill|systemctl|apply_patch|migrate)\b|[^-=2&|<>]> ?[\w./~$]"
)
_CHANGE_DIRECTORY = re.compile(r"cd (?:\"[^\"\n]{1,300}\"|[^\s;&]{1,300})\s{0,3}(?:&&|;)\s{0,3}")
_EXIT_CODE = re.compile(r"(?i)\b(?:exit(?:ed)?(?: with)?(?: code| status)?|returncode)[ :=]{1,3}(-?\d{1,5})\b")
_TALLY = re.compile(
    r"\b\d{1,7} (?:passed|failed|failures?|pass|fail|errors?|tests?|warnings?|problems?)\b|(?:\A|(?<=\n))(?:ok|FAIL|PASS|OK)\b"
)
_TALLY_HINTS = (" pass", " fail", "FAIL", "\nok", "PASS", " error", "OK", " tests", " warning", " problem")


class Step(NamedTuple):
    """One call and what came of it."""

    at: int  # number of the call's block
    tool: str
    command: str  # "" where the tool runs none
    path: str  # "" where it names none
    body: str  # the arguments as written
    items: tuple[tuple[str, str], ...]  # short arguments
    answered: int = -1  # number of the result's block; -1: not in this content
    result: str = ""
    failed: bool = False
    error: str = ""  # the line that names what went wrong


class Deed(NamedTuple):
    """One thing done, said in a line."""

    key: str
    outcome: str
    rank: int


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


def _answer(step: Step, at: int, block: Block) -> Step:
    result, failed = cleaned(block.body), block.kind == "failed"
    error = first_error_line(result, failed) if failed or not is_look(step) else ""
    return step._replace(answered=at, result=result, failed=failed, error=error)


def is_look(step: Step) -> bool:
    """Whether a call only looks at something."""
    if step.command:
        return _LOOKS.match(_bare_command(step.command)) is not None and not _COMMITS.search(step.command)
    return looks_only(step.tool)


def find_deeds(steps: Sequence[Step]) -> list[Line]:
    """What the steps changed or checked, oldest first; a deed done again stands once, with its last outcome."""
    deeds: dict[str, tuple[Deed, int]] = {}
    looked: dict[str, None] = {}
    for step in steps:
        if is_look(step) or _PLANS.search(step.tool):
            if step.path:
                looked[step.path] = None
            continue
        for deed in _deeds_of(step) if step.answered >= 0 else ():
            times = deeds.pop(deed.key)[1] if deed.key in deeds else 0
            deeds[deed.key] = deed, times + 1
    lines = [Line(_tell(deed, times), deed.rank) for deed, times in deeds.values()]
    if looked:
        lines.insert(0, Line(clip("looked at " + ", ".join(map(shown, looked)), 240), 2))
    return lines


def last_call(steps: Sequence[Step]) -> Step | None:
    """The newest step, if its result is not in this content."""
    return steps[-1] if steps and steps[-1].answered < 0 else None


def base_name(path: str) -> str:
    """The last part of a path."""
    return shown(path.rstrip("/").rpartition("/")[2])


def tell_call(step: Step, limit: int = 140) -> str:
    """A call in a few words, in about `limit` characters; a path is named by its last part rather than cut."""
    if step.path and " " not in step.command:
        path = shown(step.path) if len(step.path) < limit else base_name(step.path)
        return f"{step.command or step.tool} {path}"
    if step.command:
        return f"`{clip(shown(_bare_command(step.command)), limit)}`"
    if patched := _PATCHED.search(step.body):
        return f"{step.tool} {shown(patched[2])}"
    return f"{step.tool}({clip(_short_items(step), limit)})"


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
        command = next((_joined(args[key]) for key in _COMMAND_KEYS if args.get(key)), "")
        return Step(at, block.tool, command, path, body, items)
    path_found, command_found = _PATH_KEY.search(body), _COMMAND_KEY.search(body)
    path = path_found[1] if path_found else ""
    return Step(at, block.tool, command_found[1] if command_found else "", path, body, ())


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _joined(value: object) -> str:
    if isinstance(value, list):
        return " ".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _deeds_of(step: Step) -> list[Deed]:
    if "*** " in step.body and (patched := _PATCHED.findall(step.body)):
        verbs = {"Add": "created", "Update": "edited", "Delete": "deleted"}
        return [_file_deed(verbs[verb], path.strip(), step) for verb, path in patched]
    if step.path and (not step.command or " " not in step.command):
        verb = verb_of(step.command or step.tool)
        return [_file_deed(verb, step.path, step)] if verb else []
    if step.command:
        return [_command_deed(step)]
    return [Deed(tell_call(step, 110), _outcome(step), 10 if verb_of(step.tool) else 8)]


def _file_deed(verb: str, path: str, step: Step) -> Deed:
    return Deed(f"{verb} {shown(path)}", "failed" if step.failed else "", 3 if step.failed else 10)


def _command_deed(step: Step) -> Deed:
    command = _bare_command(step.command)
    if _COMMITS.search(command):
        rank = 14
    elif _CHECKS.search(command):
        rank = 12
    else:
        rank = 9 if _CHANGES.search(command) else 5
    return Deed(f"ran {tell_call(step)}", _outcome(step), rank)


def _outcome(step: Step) -> str:
    if step.failed or step.error:
        return "failed"
    if tally := _tally(step.result):
        return clip(tally, 100)
    code = _EXIT_CODE.search(step.result, 0, 2000) if "xit" in step.result[:2000] else None
    if code and code[1] != "0":
        return shown(code[0])
    if step.command:
        return "ok" if code else _last_line(step) if _matters(step.command) else ""
    first = step.result.strip()[:300].split("\n")[0]
    return clip(shown(first), 70)


def _matters(command: str) -> bool:
    return any(cues.search(command) for cues in (_COMMITS, _CHECKS, _CHANGES))


def _last_line(step: Step) -> str:
    end = step.result.rstrip()
    return clip(shown(line_at(end, len(end) - 1)), 80) if end else ""


def _tally(result: str) -> str:
    """The line of a test run's or build's result that gives the numbers."""
    end = result[-3000:]
    if not any(hint in end for hint in _TALLY_HINTS):
        return ""
    found = [tally.start() for tally in _TALLY.finditer(end)]
    return shown(line_at(end, found[-1])) if found else ""


def _tell(deed: Deed, times: int) -> str:
    again = f" ({times} times)" if times > 1 else ""
    return f"{deed.key}{again}" + (f" → {deed.outcome}" if deed.outcome else "")


def _bare_command(command: str) -> str:
    """The command without a change of folder in front."""
    start = command.removeprefix("bash -lc ").lstrip()
    return _CHANGE_DIRECTORY.sub("", start, count=1) if start.startswith("cd ") else start


def _short_items(step: Step) -> str:
    shorts = [f"{key}={clip(shown(value), 40)}" for key, value in step.items if value]
    return ", ".join(shorts[:12])


@lru_cache(maxsize=512)
def _name_words(name: str) -> list[str]:
    return [word.lower() for word in _NAME_WORD.findall(name)]


def looks_only(tool: str) -> bool:
    """Whether a tool's name says that it only looks at something."""
    return any(word in _LOOKING for word in _name_words(tool)[:2]) and not verb_of(tool)


def verb_of(name: str) -> str:
    """What a tool of this name has done to a file, in the past tense; "" if nothing."""
    return next((_VERBS[word] for word in _name_words(name) if word in _VERBS), "")
