"""What one tool call did to which things, by its arguments and its result.

Pure. Of huge arguments and results both ends are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from summarizing_context.extraction import tool_calls
from summarizing_context.extraction.tool_calls import ToolRules
from summarizing_context.messages.reading import Part

Kind = Literal["path", "command", "error", "url", "identifier", "decision", "constraint"]
LOOKS = frozenset({"read", "searched", "listed", "used", "seen", "fetched"})  # operations that change nothing
_COMMAND, _SHORT = 300, 2_000  # characters of a command, and of a result that may tell what was made

ErrorLine = Callable[[str, bool], str]  # of a result, and whether it failed


class Touch(NamedTuple):
    """What one group of messages did to, or said of, one thing."""

    kind: Kind
    value: str
    operation: str
    start: int = 0
    stop: int = 0
    order: int = 0  # in the ledger
    about: str = ""  # of commands and errors: what was tried; a later success of the same fixes an error
    went_well: bool = False
    times: int = 1
    work: str = ""  # of commands: `commit`, `tests`


def touches_of(call: Part, answer: Part | None, rules: ToolRules, error_line: ErrorLine) -> Iterator[Touch]:
    """Yield what a call did, by its result."""
    tool, result, failed = call.name, answer and "\n".join(answer.texts), answer is not None and answer.failed
    values = tool_calls.read_arguments(call.texts[0] if call.texts else "")
    patched = tool_calls.patched_files(values)
    claims = [] if patched else rules.claims(tool, values)
    commands = [value for kind, value, _ in claims if kind == "command"]
    outputs = [None] * len(commands) if result is None else tool_calls.split_result(result, len(commands))
    for command, output in zip(commands, outputs, strict=True):
        yield from _ran(command, output, failed, error_line)
    path = patched[0][0] if patched else next((value for kind, value, _ in claims if kind == "path"), "")
    about = f"{tool} {path}"
    looks = not patched and all(done in LOOKS for kind, _, done in claims if kind != "command")
    if not commands and result is not None and (failed or tool_calls.refuses(result, looks=looks)):
        if line := error_line(result, True):
            yield Touch("error", tool_calls.signature(line), "seen", about=about)
        return
    for path, done in patched:
        yield Touch("path", path, _confirmed(done, result))
    for kind, value, done in claims:
        if kind != "command":
            operation = _confirmed(done, result) if kind == "path" else done
            yield Touch(kind, value, operation, about=about, went_well=result is not None)
    if not patched and result is not None and len(result) <= _SHORT:  # it tells what was made, or found
        yield from (Touch("url", url, "seen") for url in tool_calls.urls_in(result))
        yield from (Touch("identifier", id, "seen") for id in tool_calls.ids_in_result(result))


def _ran(command: str, result: str | None, failed: bool, error_line: ErrorLine) -> Iterator[Touch]:
    """Yield a command with its exit status, the files that it obviously touched, and what went wrong."""
    bare, text = tool_calls.bare_command(command)[0], result or ""
    about, code, line = tool_calls.tried(bare), tool_calls.exit_code(text), ""
    value = " ".join(bare[: 4 * _COMMAND].split())
    value = value if len(value) <= _COMMAND else f"{value[: _COMMAND - 1]}…"
    is_wrong = result is not None and (code not in ("", "0") or (not code and failed))
    if result is not None and code != "0" and (failed or not tool_calls.only_looks(bare)):
        line = error_line(text, is_wrong)
    refused = tool_calls.denies(text)
    is_wrong = is_wrong or bool(line) or refused
    done = f"exit {code}" if code else "failed" if is_wrong else _confirmed("ran", result)
    went_well, work = result is not None and not is_wrong, tool_calls.work_of(bare)
    yield Touch("command", value, done, about=about, went_well=went_well, work=work)
    for path, done, program in () if refused else tool_calls.files_of(command):
        if f"{program}: " not in text[:_SHORT]:
            yield Touch("path", path, _confirmed(done, result), about=path)
    if line:
        yield Touch("error", tool_calls.signature(line), "seen", about=about)


def _confirmed(operation: str, result: str | None) -> str:
    """Return what was done; of a change without a result, with the words that say so."""
    return operation if result is not None or operation in LOOKS else f"{operation} (no result)"
