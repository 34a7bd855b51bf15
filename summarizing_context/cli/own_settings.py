"""`--config`, `--prompts`, `--summarizer` and `--model`: settings of the user's, the same for every command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from summarizing_context.cli.output import InputError, plain
from summarizing_context.settings.providers import NAMED, PROVIDERS

if TYPE_CHECKING:
    from summarizing_context.settings.values import Settings

PromptsPath = Annotated[
    Path | None,
    typer.Option("--prompts", metavar="FOLDER", help="Folder of prompts, with files such as segment/v4.md."),
]
SummarizerName = Annotated[
    str | None, typer.Option("--summarizer", metavar="NAME", help=f"Summarizer: extractive, {NAMED}.")
]
SummarizerModel = Annotated[
    str | None,
    typer.Option("--model", metavar="M", help=f"Model that summarizes. Default provider: {next(iter(PROVIDERS))}."),
]


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
