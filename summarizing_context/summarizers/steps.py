"""Calls and what came of them: arguments read, results tied to their calls, commands told apart.

Pure. What the steps amount to is for `deeds` to say.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from summarizing_context.core.errors_seen import first_error_line
from summarizing_context.core.ledger_rules import COMMAND_KEYS
from summarizing_context.core.reading_words import PATCHED
from summarizing_context.core.sentences import cleaned, clip, shown
from summarizing_context.core.shell import COMMITS, LOOKS
from summarizing_context.core.verbs import CHANGES, looks_only
from summarizing_context.summarizers.blocks import Block

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


def is_look(step: Step) -> bool:
    """Whether a call only looks at something."""
    if step.command and (not step.path or " " in step.command):
        return LOOKS.match(_bare_command(step.command)) is not None and not COMMITS.search(step.command)
    return looks_only(step.command or step.tool)


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
        error = first_error_line(result, failed) if failed or not is_look(step) else ""
    elif not is_look(step):  # such results are often prose about errors; those that failed say so at once or at last
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


def _bare_command(command: str) -> str:
    """The command without a change of folder in front."""
    start = command.removeprefix("bash -lc ").lstrip()
    return _CHANGE_DIRECTORY.sub("", start, count=1) if start.startswith("cd ") else start


def _short_items(step: Step) -> str:
    shorts = [f"{key}={clip(shown(value), 40)}" for key, value in step.items if value]
    return ", ".join(shorts[:12])
