"""Options that several commands share, and how their values are read.

`OwnSettings` are the settings of the user's that `--config`, `--prompts`, `--summarizer` and `--model` name.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from summarizing_context.cli.output import InputError, plain
from summarizing_context.settings.providers import NAMED, PROVIDERS

if TYPE_CHECKING:
    from summarizing_context.settings.values import Settings


def read_place(text: str) -> str:
    """A path, its `~` the home folder, or a store's address. An empty one is refused: it would mean the current
    folder."""
    if not text.strip():
        raise typer.BadParameter("it is empty; name a file or a folder")
    try:
        return str(Path(text).expanduser()) if text.startswith("~") else text
    except RuntimeError:
        raise typer.BadParameter("no home folder of that user is known") from None


def read_path(text: str | Path) -> Path:
    """A path, which is not empty; a default is one already."""
    return Path(read_place(str(text)))


JsonPath = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="PATH",
        parser=read_place,
        help="Write the result as JSON to this file; [bold]-[/bold] is standard output.",
    ),
]
ConfigPath = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", parser=read_path, help="Settings from this TOML or JSON file."),
]
StorePath = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="STORE",
        envvar="SUMMARIZING_CONTEXT_STORE",
        parser=read_place,
        help="The SQLite file of the sessions, or postgresql://user@host/database.",
    ),
]
TranscriptPaths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH",
        parser=read_path,
        help="Transcripts of any known format, folders of them, or - for standard input.",
    ),
]
TranscriptFormat = Annotated[
    str,
    typer.Option(
        "--format", metavar="NAME", help="Format of the transcripts, such as codex or messages. Default: detected."
    ),
]
SessionName = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
LastBudget = Annotated[
    str | None,
    typer.Option("--budget", metavar="N", help="Tokens that a view may use. Default: those of the last request."),
]
PromptsPath = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        metavar="FOLDER",
        parser=read_path,
        help="Folder of prompts that override the shipped ones, with files such as segment/v1.md.",
    ),
]
SummarizerName = Annotated[
    str | None, typer.Option("--summarizer", metavar="NAME", help=f"Summarizer: extractive, {NAMED}.")
]
SummarizerModel = Annotated[
    str | None,
    typer.Option("--model", metavar="M", help=f"Model that summarizes. Default provider: {next(iter(PROVIDERS))}."),
]
PriceModel = Annotated[
    str | None, typer.Option("--model", metavar="M", help="Model whose prices apply. Default: the setting `model`.")
]
CaseBudget = Annotated[
    str, typer.Option(metavar="N", help="Tokens of a view, such as 8000 or 8k. Suites have their own.")
]
CassettePath = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        parser=read_path,
        help="File of recorded replies. Default for a suite: evals/cassettes/<suite>.jsonl.",
    ),
]
ReportFolder = Annotated[
    Path, typer.Option(metavar="FOLDER", parser=read_path, help="Folder of the reports, and of what is recorded.")
]
BaseUrl = Annotated[str | None, typer.Option(metavar="URL", help="Base URL of the model's server.")]
Redact = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="Function that removes secrets from each message before it is sent, kept or reported.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Report calls, tokens and price of what is not recorded yet. Nothing is sent.")
]
MaxCalls = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Maximum number of calls; the same command resumes.")
]
MaxInput = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Maximum number of input tokens; the same command resumes.")
]
Jobs = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Number of sessions or files to run in parallel. Default: one per core."),
]
_LOOPBACK = "127.0.0.1"


class OwnSettings(NamedTuple):
    """Settings of the user's, as the command line names them."""

    config: Path | None = None
    prompts: Path | None = None
    summarizer: str | None = None
    model: str | None = None

    def load(self, base_url: str | None = None, **given: Any) -> Settings:
        """By the command line, the environment and the file; a place of None is left open.

        A model alone is one of the first provider. Raises `InputError` for a summarizer that needs a host, a prompts
        folder that is not there, and a model that nothing would call.
        """
        from summarizing_context.settings.values import Settings

        if self.prompts is not None and not self.prompts.is_dir():
            raise InputError(
                f"--prompts: {plain(str(self.prompts))} is not a folder; name one with segment/v1.md in it"
            )
        given |= {"summarizer": self.summarizer, "model": self.model, "prompts": self.prompts, "base_url": base_url}
        given = {name: value for name, value in given.items() if value is not None}
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


def at_named_server(settings: Settings, base_url: str | None) -> Settings:
    """Return the settings with the server that `--base-url` or the environment names for their model.

    Raise `InputError` where the environment names the server of another provider.
    """
    from summarizing_context.settings.values import Settings

    own = Settings.from_env()
    if base_url is None and own.base_url is None:
        return settings
    if base_url is None and own.summarizer in PROVIDERS and own.summarizer != settings.summarizer in PROVIDERS:
        raise InputError(
            f"SUMMARIZING_CONTEXT_BASE_URL names a server of {own.summarizer}, and {settings.summarizer} is asked; "
            "name its server with --base-url"
        )
    return replace(settings, base_url=base_url or own.base_url, api_key=settings.api_key or own.api_key)


def read_tokens(text: str, *, option: str = "--budget") -> int:
    """A number of tokens such as `16000`, `16_000` or `16k`."""
    bare = text.strip().lower().replace("_", "")
    digits, factor = (bare[:-1], 1_000) if bare.endswith("k") else (bare, 1)
    if not (digits.isascii() and digits.isdigit()) or not int(digits):
        raise InputError(f"{option}: {plain(text, 40)!r} is not a number of tokens; write it like 16000 or 16k")
    return int(digits) * factor


def read_address(text: str, option: str = "--http") -> tuple[str, int]:
    """An IP address and a port. Raises `InputError`."""
    host, _, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or _LOOPBACK
    host = _LOOPBACK if host == "localhost" else host
    try:
        ip_address(host)
    except ValueError as error:
        raise InputError(
            f"{option}: {plain(host, 60)!r} is not an IP address; write it like {_LOOPBACK}:8379"
        ) from error
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise InputError(f"{option}: {plain(port, 20)!r} is not a port; give a number up to 65535, such as 8379")
    return host, int(port)


def url_of(host: str, port: int) -> str:
    """The address of a server, as a browser takes it."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
