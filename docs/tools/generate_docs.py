"""Write the documentation pages that follow from the code: the settings and the command line.

`python -m docs.tools.generate_docs` writes both pages; `--check` only tells whether they are up to date.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import typer.main

from summarizing_context import Settings
from summarizing_context.cli.app import build_app

ROOT = Path(__file__).parents[2]
MEANINGS = Path(__file__).with_name("settings.toml")
PROGRAM = "summarizing-context"
MARKUP = re.compile(r"\[/?(?:bold|dim)\]")
CODE = re.compile(r"(`[^`]*`)")
NO_LIMIT = " to 1,000,000,000"  # the bound of every count


def configuration() -> str:
    """The page of settings: its introduction, then a table for each group."""
    groups = tomllib.loads(MEANINGS.read_text(encoding="utf-8"))["group"]
    known = {setting.name: setting for setting in fields(Settings)}
    named = [name for group in groups for name in group["settings"]]
    if sorted(named) != sorted(known):
        raise SystemExit(f"{MEANINGS.name}: these names differ from Settings: {sorted(set(named) ^ set(known))}")
    head = (Path(__file__).parent / "configuration_head.md").read_text(encoding="utf-8")
    return "\n".join([head.rstrip(), *(line for group in groups for line in _group(group, known))]) + "\n"


def _group(group: dict[str, Any], known: dict[str, Field[Any]]) -> Iterator[str]:
    yield from ("", f"## {group['title']}", "")
    if "note" in group:
        yield from (group["note"], "")
    yield from ("| setting | default | meaning |", "|---|---|---|")
    for name, meaning in group["settings"].items():
        setting = known[name]
        yield f"| `{name}` | {_default(setting.default)} | {_cell(meaning)} Allowed: {_allowed(setting)}. |"


def _default(value: Any) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, str):
        return f"`{value}`"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _allowed(setting: Field[Any]) -> str:
    return _cell(setting.metadata["rule"].allowed.replace(NO_LIMIT, ""))


def _cell(text: str) -> str:
    """Text for a table's cell; what stands in backticks is shown as it is."""
    parts = CODE.split(text.replace("|", "\\|"))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def command_line() -> str:
    """The page of commands, from the app itself."""
    app = typer.main.get_command(build_app())
    head = (Path(__file__).parent / "cli_head.md").read_text(encoding="utf-8").rstrip()
    return "\n".join([head, *(line for path, command in _commands(app, ()) for line in _section(path, command))]) + "\n"


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        elif not command.hidden:
            yield (*path, name), command


def _section(path: tuple[str, ...], command: Any) -> Iterator[str]:
    yield from ("", f"## {' '.join(path)}", "", _plain(command.help), "")
    yield from ("| argument or option | meaning |", "|---|---|")
    for parameter in command.params:
        if not getattr(parameter, "hidden", False):
            yield f"| {_names(parameter)} | {_cell(_meaning(parameter))} |"
    examples = [line for line in _plain(command.epilog or "").splitlines() if line.startswith((PROGRAM, "# ", "eval "))]
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
    default = parameter.default
    if isinstance(default, str | int | Path) and not isinstance(default, bool) and str(default):
        return f"{words} Default: `{default}`."
    return words


def _plain(text: str) -> str:
    return MARKUP.sub("", text).strip()


PAGES: dict[str, Callable[[], str]] = {
    "docs/configuration.md": configuration,
    "docs/reference/cli.md": command_line,
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
