"""Options that commands share, how their values are read, and how a command is added to typer. Texts are short: the
help of each command fits a screen of 40 lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, is_dataclass, replace
from inspect import Parameter, Signature, cleandoc, signature
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from summarizing_context import evaluation
from summarizing_context.cli.output import PROGRAM, InputError, Result, plain
from summarizing_context.commands import COMMANDS
from summarizing_context.errors import SummarizingContextError
from summarizing_context.settings import NAMED, PROVIDERS, Settings

Command = TypeVar("Command", bound=Callable[..., Result | int | None])

TRANSCRIPTS, STORED, SERVE = "Transcripts and prompts", "Stored sessions", "Serve"  # groups of the help
OF_ONE = [name for name in COMMANDS if name != "help"]  # commands of one session, as in a host


def _shown_type(option: TyperOption, ctx: object) -> str:
    """Show what a metavar says, and neither a type nor bounds, which would take half of the screen."""
    from typer import rich_utils  # it is loaded when help is shown, and takes a quarter of the start of a command

    rich_utils.RANGE_STRING = ""
    return option.metavar or ""


TyperOption.display_type_rich = _shown_type  # type: ignore[method-assign, assignment]
TyperArgument.display_type_rich = lambda *_, **__: ""  # type: ignore[method-assign]


class _Top(TyperGroup):
    """Lists the commands that stand for themselves; those of one session are named below."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for name in OF_ONE:
            self.commands[name].hidden = True
        super().format_help(ctx, formatter)


_ABOUT = """Keep long agent sessions inside any token budget.

Exit: 0 ok, 1 law or check failed, 2 input, 3 no view fits, 4 store, call cap.
"""
_OF_ONE = f"Of one session, as /context in a host (`COMMAND --help` explains one): {', '.join([*OF_ONE, 'continue'])}."
_HELP: dict[str, Any] = {"context_settings": {"help_option_names": ["-h", "--help"]}, "help": _ABOUT, "epilog": _OF_ONE}
app = typer.Typer(name=PROGRAM, cls=_Top, no_args_is_help=True, rich_markup_mode="rich", **_HELP)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # which brings half of the mail package

        typer.echo(f"{PROGRAM} {version(PROGRAM)}")
        raise typer.Exit


@app.callback()
def _about(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    pass


def command(to: typer.Typer | str, name: str = "", **given: Any) -> Callable[[Command], Command]:
    """Return a decorator that adds a command to a family, or to this group of the help; its docstring is its help."""

    def add(command: Command) -> Command:
        place, panel = (app, to) if isinstance(to, str) else (to, None)
        about = help_of(command.__doc__)
        place.command(name or command.__name__, rich_help_panel=panel, **about, **given)(flat(command))
        return command

    return add


def family(name: str, panel: str, about: str) -> typer.Typer:
    """Return a family of commands, with `about` as its help."""
    made = typer.Typer(**help_of(about), no_args_is_help=True, rich_markup_mode="rich")
    app.add_typer(made, name=name, rich_help_panel=panel)
    return made


def help_of(text: str | None) -> dict[str, Any]:
    """Return a docstring as typer takes it: each paragraph on one line, and the examples, one a line, at the end."""
    about, _, examples = cleandoc(text or "").partition("\n\nExamples:\n")
    shown = [f"{PROGRAM} {line.strip()}" for line in examples.splitlines()]
    return {"help": "\n\n".join(" ".join(part.split()) for part in about.split("\n\n")), "epilog": "\n\n".join(shown)}


def flat(command: Callable[..., Result | int | None]) -> Callable[..., int | None]:
    """Return a command as typer takes it: fields of a dataclass are options, and a `Result` has `--json`."""
    hints: dict[str, Any] = get_type_hints(command, include_extras=True)
    groups: dict[str, list[str]] = {}
    options: list[Parameter] = []
    for one in signature(command).parameters.values():
        kind, each, inner = hints[one.name], [one], hints
        if is_dataclass(kind):
            inner = get_type_hints(kind, include_extras=True)
            each = list(signature(hints[one.name]).parameters.values())
            groups[one.name] = [field.name for field in each]
        options += [field.replace(annotation=inner[field.name], kind=Parameter.KEYWORD_ONLY) for field in each]
    if hints["return"] is Result:
        options.append(Parameter("json_path", Parameter.KEYWORD_ONLY, default=None, annotation=JsonPath))

    def run(**values: Any) -> int | None:
        json_path = values.pop("json_path") if hints["return"] is Result else None
        for name, names in groups.items():
            values[name] = hints[name](**{option: values.pop(option) for option in names})
        try:
            result = command(**values)
        except SummarizingContextError as error:
            if junit := values.get("junit"):  # a CI that shows the file says why it is red
                tests = [("run", "it came to an end", str(error), True)]
                evaluation.report.write_junit(junit, f"eval {command.__name__}", tests)
            raise
        return result.deliver(json_path) if isinstance(result, Result) else result

    run.__signature__ = Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in options}
    return run


# How values are read


def read_place(text: str) -> str:
    """Return a path, its `~` the home folder, or a store's address; an empty one would mean the current folder."""
    if not text.strip():
        raise typer.BadParameter("it is empty; name a file or a folder")
    return os.path.expanduser(text)


def read_path(text: str | Path) -> Path:
    """Return a path, which is not empty; a default is one already."""
    return Path(read_place(str(text)))


def read_tokens(text: str | int, option: str | None = None) -> int:
    """Return a number of tokens such as `16000`, `16_000` or `16k`; a default is one already."""
    bare = str(text).strip().lower().replace("_", "")
    digits, factor = (bare[:-1], 1_000) if bare.endswith("k") else (bare, 1)
    if not (digits.isascii() and digits.isdigit()) or not int(digits):
        problem = f"{plain(text, 40)!r} is not a number of tokens; write it like 16000 or 16k"
        raise typer.BadParameter(problem, param_hint=option)
    return int(digits) * factor


def listed(text: str | None) -> list[str]:
    """Return the names in a list with commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def read_address(text: str) -> tuple[str, int, str]:
    """Return an IP address, a port, and both as a URL; of a port alone that of the loopback. Raise `InputError`."""
    host, _, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    host = "127.0.0.1" if host in ("", "localhost") else host
    with suppress(ValueError):
        ip_address(host)
        if port.isascii() and port.isdigit() and int(port) < 2**16:
            return host, int(port), f"http://{f'[{host}]' if ':' in host else host}:{port}"
    raise InputError(f"--listen: {plain(text, 60)!r} is no IP address and port; write it like 127.0.0.1:8379")


# How options are declared


def option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """Return an option with a value. Without names it has that of its parameter."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def path(metavar: str, help: str, *names: str) -> Any:
    return option(metavar, help, *names, parser=read_path)


def argument(metavar: str, help: str, **more: Any) -> Any:
    return typer.Argument(metavar=metavar, help=help, **more)


BaseUrl = Annotated[str | None, option("URL", "Base URL of the model's server.")]
Budget = Annotated[int | None, option("N", "Tokens of a view. Default: of --config, or 16k.", parser=read_tokens)]
ConfigPath = Annotated[Path | None, path("FILE", "Settings from this TOML or JSON file.")]
Jobs = Annotated[int | None, option("N", "Sessions at a time. Default: one per core.", min=1)]
_JSON = option("PATH", "JSON to this file; - for standard output.", "--json", parser=read_place)
JsonPath = Annotated[str | None, _JSON]
PromptsPath = Annotated[Path | None, path("DIR", "Your own prompts, <purpose>/v<N>.md in it.")]
ReportFolder = Annotated[Path, path("DIR", "Reports and replies.")]
StorePath = Annotated[str | None, option("STORE", "SQLite file, or postgresql://user@host/db.", parser=read_place)]
SummarizerModel = Annotated[str | None, option("M", f"Its model; alone, one of {next(iter(PROVIDERS))}.")]
TranscriptFormat = Annotated[str, option("NAME", "Such as codex or messages.")]
_TRANSCRIPTS = argument("PATH", "Transcripts, folders, or - for standard input.", parser=read_path)
TranscriptPaths = Annotated[list[Path], _TRANSCRIPTS]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@dataclass(frozen=True, kw_only=True)
class Place:
    """The store of a command, which the file of settings may name too."""

    store: StorePath = None
    config: ConfigPath = None

    def load(self) -> Settings:
        """Return the settings. Raise `InputError` where no option, file or variable names a store."""
        given: dict[str, Any] = {} if self.store is None else {"store": self.store}
        settings = Settings.load(self.config, **given)
        if str(settings.store) == ":memory:":
            raise InputError("--store: name a store, such as --store run.db, or set store in the file of --config")
        return settings


@dataclass(frozen=True, kw_only=True)
class OwnSettings:
    """Settings of the user's, as the command line names them."""

    config: ConfigPath = None
    summarizer: Annotated[str | None, option("NAME", f"extractive, {NAMED}.")] = None
    model: SummarizerModel = None
    prompts: PromptsPath = None

    def load(self, **given: Any) -> Settings:
        """Return them; None is left to the environment and the file. Raise `InputError` for what nothing would use."""
        named = {name: getattr(self, name, None) for name in ("summarizer", "model", "prompts", "base_url")}
        given = {name: value for name, value in {**named, **given}.items() if value is not None}
        if self.prompts is not None and not self.prompts.is_dir():
            raise InputError(f"--prompts: {plain(self.prompts)} is not a folder; name one with segment/v1.md in it")
        settings = Settings.load(self.config, **given)
        if self.model is not None and self.summarizer is None and settings.summarizer not in PROVIDERS:  # a model alone
            settings = Settings.load(self.config, **{**given, "summarizer": next(iter(PROVIDERS))})
        if settings.summarizer == "host":
            raise InputError(f"--summarizer: 'host' needs a host that lends its model; take extractive, {NAMED}")
        if settings.summarizer not in PROVIDERS and self.model is not None:
            raise InputError(f"--model: {settings.summarizer} asks no model; take --summarizer {NAMED}")
        if settings.summarizer not in PROVIDERS and self.prompts is not None:
            raise InputError("--prompts: name the model that they are for, with --model or in --config")
        return settings


@dataclass(frozen=True, kw_only=True)
class ModelOptions(OwnSettings):
    """Options of a command that may send transcripts to a model."""

    base_url: BaseUrl = None
    format: TranscriptFormat = "auto"
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show calls, tokens, price; send nothing.")] = False

    def load(self, *, sends: bool = False, **given: Any) -> Settings:
        """Return them; the tokens of a view are an option's, else the user's, else 16,000. What is sent has a model."""
        settings = super().load(**given)
        if sends and (settings.summarizer not in PROVIDERS or settings.model is None):
            where = f"or in --config a summarizer {NAMED} and its model"
            raise InputError(f"--model: name the model that summarizes, {where}")
        return settings if settings.max_tokens_is_set else replace(settings, max_tokens=16_000)
