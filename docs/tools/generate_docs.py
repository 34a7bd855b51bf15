"""Write the documentation pages that follow from the code: settings, command line, errors and slash commands.

`python -m docs.tools.generate_docs` writes the pages; `--check` only reports whether they are up to date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from inspect import getsource
from pathlib import Path
from typing import Any

from summarizing_context import Settings
from summarizing_context.cli import build_command
from summarizing_context.commands import COMMANDS, PREFIX
from summarizing_context.errors import SummarizingContextError
from summarizing_context.settings import declared

ROOT = Path(__file__).parents[2]
PROGRAM = "summarizing-context"
MARKUP = re.compile(r"\[/?(?:bold|dim)\]")
CODE = re.compile(r"(`[^`]*`)")
NO_LIMIT = " to 1,000,000,000"  # the bound of every count


def configuration() -> str:
    """The page of settings: its introduction, then a table for each group."""
    lines, settings, above = [_head("configuration")], declared(Settings), list[str]()
    for line in getsource(Settings).splitlines():
        if heading := re.fullmatch(r" +# -- (.*)", line):
            title, _, note = heading[1].partition(". ")
            lines += ["", f"## {title}", "", *([note, ""] if note else [])]
            lines += ["| setting | default | meaning |", "|---|---|---|"]
        elif comment := re.fullmatch(r" +# (.*)", line):
            above.append(comment[1])
        elif (field := re.fullmatch(r"    (\w+): .*? = .*?(?:  # (.*))?", line)) and field[1] in settings:
            setting, meaning = settings[field[1]], field[2] or " ".join(above)
            allowed = _cell(setting.allowed.replace(NO_LIMIT, ""))
            lines.append(f"| `{field[1]}` | {_default(setting.field.default)} | {_cell(meaning)} Allowed: {allowed}. |")
            above.clear()
    return "\n".join(lines) + "\n"


def errors() -> str:
    """The page of errors, with the tree of classes and the first sentence of each docstring."""
    rows = [(SummarizingContextError.__name__, ""), *_below(SummarizingContextError, "")]
    width = max(len(name) for name, _ in rows)
    tree = [f"{name:<{width}}  {about}".rstrip() for name, about in rows]
    return _with_block("docs/reference/errors.md", tree)


def _below(base: type[Exception], indent: str) -> Iterator[tuple[str, str]]:
    classes = [each for each in base.__subclasses__() if each.__module__ == SummarizingContextError.__module__]
    for number, each in enumerate(classes, start=1):
        branch, further = ("└── ", "    ") if number == len(classes) else ("├── ", "│   ")
        others = ", ".join(other.__name__ for other in each.__bases__[1:])
        first = " ".join((each.__doc__ or "").split()).split(". ")[0].rstrip(".")
        yield f"{indent}{branch}{each.__name__}{f' ({others})' if others else ''}", first
        yield from _below(each, indent + further)


def slash_commands() -> str:
    """The page of slash commands, with a line for each."""
    width = max(len(command.usage) for command in COMMANDS.values())
    lines = [f"{PREFIX} {command.usage:<{width}}  {command.about}" for command in COMMANDS.values()]
    return _with_block("docs/guides/slash-commands.md", lines)


def _with_block(page: str, lines: list[str]) -> str:
    """The page with these lines in its block of text; what stands before the block is written by hand."""
    before, _, _ = _read(ROOT / page).partition("```text")
    return "\n".join([before + "```text", *lines, "```"]) + "\n"


def _head(page: str) -> str:
    return (Path(__file__).parent / f"{page}_head.md").read_text(encoding="utf-8").rstrip()


def _default(value: Any) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, str):
        return f"`{value}`"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _cell(text: str) -> str:
    """Text for a table's cell; what stands in backticks is shown as it is."""
    parts = CODE.split(text.replace("|", "\\|"))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def command_line() -> str:
    """The page of commands, from the app itself."""
    app = build_command()
    lines = [line for path, command in _commands(app, ()) for line in _section(path, command)]
    return "\n".join([_head("cli"), *lines]) + "\n"


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if getattr(command, "invoke_without_command", False):
            yield (*path, name), command
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


def _section(path: tuple[str, ...], command: Any) -> Iterator[str]:
    yield from ("", f"## {' '.join(path)}", "", _plain(command.help), "")
    yield from ("| argument or option | meaning |", "|---|---|")
    for parameter in command.params:
        if not getattr(parameter, "hidden", False):
            yield f"| {_names(parameter)} | {_cell(_meaning(parameter))} |"
    examples = [line for line in _plain(command.epilog or "").splitlines() if line.startswith(PROGRAM)]
    if examples:
        yield from ("", "```bash", *examples, "```")


def _names(parameter: Any) -> str:
    shown = parameter.metavar or ""
    if parameter.param_type_name == "argument":
        return f"`{shown or parameter.name.upper()}`"
    return ", ".join(f"`{name}{f' {shown}' if shown and at == 0 else ''}`" for at, name in enumerate(parameter.opts))


def _meaning(parameter: Any) -> str:
    words = _plain(getattr(parameter, "help", None) or "")
    if parameter.required:
        return f"{words} Required."
    default = parameter.default if parameter.show_default else None
    if isinstance(default, str | int | Path) and not isinstance(default, bool) and str(default):
        return f"{words} Default: `{default}`."
    return words


def _plain(text: str) -> str:
    return MARKUP.sub("", text).strip()


PAGES: dict[str, Callable[[], str]] = {
    "docs/configuration.md": configuration,
    "docs/reference/cli.md": command_line,
    "docs/reference/errors.md": errors,
    "docs/guides/slash-commands.md": slash_commands,
}


def outdated() -> list[str]:
    """The pages whose file differs from what the code says now."""
    return [name for name, make in PAGES.items() if _read(ROOT / name) != make()]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` report those that are out of date; the exit status."""
    if arguments == ["--check"]:
        found = outdated()
        print(*(f"{name} is out of date; run: python -m docs.tools.generate_docs" for name in found), sep="\n", end="")
        return 1 if found else 0
    for name, make in PAGES.items():
        (ROOT / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
