"""Options that several commands share, how their values are read, and how a command is added to typer.

A command may take a dataclass of options beside single ones, each field an option of its own. One that returns a
`Result` has the option `--json`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature, cleandoc, signature
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from summarizing_context.cli.output import PROGRAM, InputError, Result, plain
from summarizing_context.settings.values import NAMED, PROVIDERS, Settings

Command = TypeVar("Command", bound=Callable[..., Result | int | None])

TRY, LOOK, CHANGE = "Try it", "Look into a store", "Change a session"  # groups of the help
SERVE, MEASURE = "Serve", "Measure and improve"


def command(to: typer.Typer, panel: str | None = None, name: str = "", **given: Any) -> Callable[[Command], Command]:
    """Return a decorator that adds a command, with its docstring as help; `panel` is its group in the help, `given` is
    for typer."""

    def add(command: Command) -> Command:
        help = help_of(command.__doc__ or "")
        to.command(name or command.__name__, rich_help_panel=panel, **help, **given)(flat(command))
        return command

    return add


def family(to: typer.Typer, name: str, panel: str, about: str) -> typer.Typer:
    """Return a family of commands, with `about` as its help."""
    made = typer.Typer(**help_of(about), no_args_is_help=True, rich_markup_mode="rich")
    to.add_typer(made, name=name, rich_help_panel=panel)
    return made


def help_of(text: str) -> dict[str, Any]:
    """Return a docstring as typer takes it: each paragraph on one line, and the examples at the end.

    A remark behind an example, four spaces and `#`, is set above it, where nothing wraps.
    """
    about, _, examples = cleandoc(text).partition("\n\nExamples:\n")
    shown = ["[bold]Examples[/bold]"] if examples else []
    for line in examples.splitlines():
        command, _, remark = line.strip().partition("    # ")
        shown.append(f"[dim]# {remark}[/dim]\n{PROGRAM} {command}" if remark else f"{PROGRAM} {command}")
    return {"help": "\n\n".join(" ".join(part.split()) for part in about.split("\n\n")), "epilog": "\n\n".join(shown)}


def flat(command: Callable[..., Result | int | None]) -> Callable[..., int | None]:
    """Return a command as typer takes it: each field of a dataclass is an option, and the result is an exit status."""
    hints: dict[str, Any] = get_type_hints(command, include_extras=True)
    groups: dict[str, list[str]] = {}
    options: list[Parameter] = []

    def add(name: str, default: Any, annotation: Any) -> None:
        options.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation))

    for one in signature(command).parameters.values():
        kind = hints[one.name]
        if not hasattr(kind, "__dataclass_fields__"):
            add(one.name, one.default, kind)
            continue
        inner = get_type_hints(kind, include_extras=True)
        names = (name for base in kind.__mro__ for name in vars(base).get("__annotations__", ()))
        groups[one.name] = list(dict.fromkeys(names))
        for name in groups[one.name]:
            add(name, getattr(kind, name, Parameter.empty), inner[name])
    if hints["return"] is Result:
        add("json_path", None, _JsonPath)

    def run(json_path: str | None = None, **values: Any) -> int | None:
        for name, names in groups.items():
            values[name] = hints[name](**{option: values.pop(option) for option in names})
        result = command(**values)
        return result.deliver(json_path) if isinstance(result, Result) else result

    run.__signature__ = Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in options}
    return run


def read_place(text: str) -> str:
    """Return a path, its `~` the home folder, or a store's address. Refuse an empty one: it would mean the current
    folder."""
    if not text.strip():
        raise typer.BadParameter("it is empty; name a file or a folder")
    try:
        return str(Path(text).expanduser()) if text.startswith("~") else text
    except RuntimeError:
        raise typer.BadParameter("no home folder of that user is known") from None


def read_path(text: str | Path) -> Path:
    """Return a path, which is not empty; a default is one already."""
    return Path(read_place(str(text)))


def option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """Return an option with a value. Without names it has that of its parameter."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def path_option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """Return an option that takes a path."""
    return option(metavar, help, *names, parser=read_path, **more)


def flag(name: str, help: str) -> Any:
    """Return an option without a value."""
    return typer.Option(name, help=help)


def argument(metavar: str, help: str, **more: Any) -> Any:
    """Return an argument, which has no name on the command line."""
    return typer.Argument(metavar=metavar, help=help, **more)


BaseUrl = Annotated[str | None, option("URL", "Base URL of the model's server.")]
CaseBudget = Annotated[str, option("N", "Tokens of a view, such as 8000 or 8k. Suites have their own.")]
ConfigPath = Annotated[Path | None, path_option("FILE", "Settings from this TOML or JSON file.")]
Jobs = Annotated[int | None, option("N", "Sessions or files to run in parallel. Default: one per core.", min=1)]
_JSON = "Write the result as JSON to this file; [bold]-[/bold] is standard output."
_JsonPath = Annotated[str | None, option("PATH", _JSON, "--json", parser=read_place)]
MaxCalls = Annotated[int | None, option("N", "Maximum number of calls; the same command resumes.", min=0)]
_PROMPTS = "Folder of prompts that override the shipped ones, with files such as segment/v1.md."
PromptsPath = Annotated[Path | None, path_option("FOLDER", _PROMPTS)]
ReportFolder = Annotated[Path, path_option("FOLDER", "Folder of the reports, and of what is recorded.")]
_STORE = "The SQLite file of the sessions, or postgresql://user@host/database."
StorePath = Annotated[str, option("STORE", _STORE, envvar="SUMMARIZING_CONTEXT_STORE", parser=read_place)]
SummarizerModel = Annotated[
    str | None, option("M", f"Model that summarizes. Default provider: {next(iter(PROVIDERS))}.")
]
TranscriptFormat = Annotated[str, option("NAME", "Format, such as codex or messages; auto detects it.")]
_TRANSCRIPTS = "Transcripts of any known format, folders of them, or - for standard input."
TranscriptPaths = Annotated[list[Path], argument("PATH", _TRANSCRIPTS, parser=read_path)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
_DRY_RUN = "Report calls, tokens and price of what is not recorded yet. Nothing is sent."


@dataclass(frozen=True, kw_only=True)
class OwnSettings:
    """Settings of the user's, as the command line names them."""

    config: ConfigPath = None
    summarizer: Annotated[str | None, option("NAME", f"Summarizer: extractive, {NAMED}.")] = None
    model: SummarizerModel = None
    prompts: PromptsPath = None

    def load(self, **given: Any) -> Settings:
        """Return them by the command line, the environment and the file; a value of None is left open.

        A model alone is one of the first provider. Raises `InputError` for a summarizer that needs a host, a prompts
        folder that is not there, and a model that nothing would call.
        """
        named = {name: getattr(self, name, None) for name in ("summarizer", "model", "prompts", "base_url")}
        given = {name: value for name, value in {**named, **given}.items() if value is not None}
        if self.prompts is not None and not self.prompts.is_dir():
            raise InputError(f"--prompts: {plain(self.prompts)} is not a folder; name one with segment/v1.md in it")
        settings = Settings.load(self.config, **given)
        if self.model is not None and self.summarizer is None and settings.summarizer not in PROVIDERS:
            settings = Settings.load(self.config, **{**given, "summarizer": next(iter(PROVIDERS))})
        if settings.summarizer == "host":
            raise InputError(f"--summarizer: 'host' needs a host that lends its model; take extractive, {NAMED}")
        if settings.summarizer not in PROVIDERS:
            if self.model is not None:
                raise InputError(f"--model: {settings.summarizer} asks no model; take --summarizer {NAMED}")
            if self.prompts is not None:
                raise InputError("--prompts: name the model that they are for, with --model or in --config")
        return settings


@dataclass(frozen=True, kw_only=True)
class ModelOptions(OwnSettings):
    """Options of a command that may send transcripts to a model."""

    format: TranscriptFormat = "auto"
    base_url: BaseUrl = None
    dry_run: Annotated[bool, flag("--dry-run", _DRY_RUN)] = False


def read_tokens(text: str) -> int:
    """Return a number of tokens such as `16000`, `16_000` or `16k`."""
    bare = text.strip().lower().replace("_", "")
    digits, factor = (bare[:-1], 1_000) if bare.endswith("k") else (bare, 1)
    if not (digits.isascii() and digits.isdigit()) or not int(digits):
        raise InputError(f"--budget: {plain(text, 40)!r} is not a number of tokens; write it like 16000 or 16k")
    return int(digits) * factor


def read_address(text: str, option: str = "--listen") -> tuple[str, int]:
    """Return an IP address and a port; that of a port alone is the loopback's. Raise `InputError`."""
    host, _, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    host = "127.0.0.1" if host in ("", "localhost") else host
    try:
        ip_address(host)
    except ValueError as error:
        like = "write it like 127.0.0.1:8379"
        raise InputError(f"{option}: {plain(host, 60)!r} is not an IP address; {like}") from error
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise InputError(f"{option}: {plain(port, 20)!r} is not a port; give a number up to 65535, such as 8379")
    return host, int(port)


def url_of(host: str, port: int) -> str:
    """Return the address of a server, as a browser takes it."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
