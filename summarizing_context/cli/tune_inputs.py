"""What `tune` is given: the model that summarizes, with its cassette, and the files that are tried."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from summarizing_context.cli.output import InputError, notices, plain

if TYPE_CHECKING:
    from summarizing_context.evaluation.answering.plan import Provider
    from summarizing_context.evaluation.cassettes import Cassette
    from summarizing_context.evaluation.tuning.gepa_prompts import GepaPrompts
    from summarizing_context.evaluation.tuning.variants import Variant
    from summarizing_context.prompt_library import Prompt
    from summarizing_context.settings import Settings


@dataclass(frozen=True, slots=True)
class Speaker:
    """The model that summarizes, as the command line names it."""

    model: str | None
    provider: str
    cassette: Path | None
    base_url: str | None
    record: bool = False
    max_calls: int | None = None
    gepa: bool = False

    @contextmanager
    def opened(self) -> Iterator[Cassette | None]:
        """The cassette; None where no model is asked. What misses is shown."""
        from summarizing_context.errors import CassetteMissError
        from summarizing_context.evaluation.cassettes import Caps, Cassette

        if self.model is None:
            if self.record or self.gepa or self.cassette is not None:
                raise InputError("--cassette, --record and --gepa are for a model; name it with --model")
            yield None
            return
        if self.cassette is None:
            raise InputError("--cassette: name the file in which the model's replies are kept")
        try:
            with Cassette.open(
                self.cassette, "record" if self.record else "replay", caps=Caps(self.max_calls)
            ) as cassette:
                yield cassette
        except CassetteMissError as error:
            for line in error.difference:
                notices().print(plain(line), soft_wrap=True)
            raise

    def settings(self, settings: Settings) -> Settings:
        """The settings of a session whose summaries this model makes."""
        if self.model is None:
            return settings
        return replace(settings, summarizer=self._provider(), model=self.model, base_url=self.base_url)

    def gepa_prompts(self, cassette: Cassette | None, *, seed: int, proposals: int) -> GepaPrompts:
        """gepa, with this model as the one that writes prompts too."""
        from summarizing_context.evaluation.answering.plan import Chat
        from summarizing_context.evaluation.tuning.gepa_prompts import GepaPrompts
        from summarizing_context.evaluation.tuning.proposing import Proposer
        from summarizing_context.settings import Settings

        if cassette is None or self.model is None:
            raise InputError("--gepa needs a model that writes prompts; name it with --model")
        chat = Chat(provider=self._provider(), model=self.model, base_url=self.base_url)
        return GepaPrompts(Proposer(self.settings(Settings()), chat, cassette), seed=seed, proposals=proposals)

    def _provider(self) -> Provider:
        from summarizing_context.evaluation.answering.plan import PROVIDERS

        if self.provider not in PROVIDERS:
            raise InputError(f"--provider: {plain(self.provider, 40)!r} is none; there are {' and '.join(PROVIDERS)}")
        return cast("Provider", self.provider)


def read_variant(path: Path, *, has_model: bool) -> Variant:
    """A file of figures, a prompt file or a folder of prompts as a candidate."""
    from summarizing_context.evaluation.tuning.variants import Variant
    from summarizing_context.summarizers.parameter_files import load_parameters

    if path.suffix == ".toml":
        if has_model:
            raise InputError(f"--try: {path} holds figures of the extractive summarizer; leave --model away")
        return Variant(name=path.name, parameters=load_parameters(path))
    if not has_model:
        raise InputError(f"--try: {path} holds prompts; name the model that they are for with --model")
    return Variant(name=_name_of(path), prompts=tuple(_prompts(path)))


def _prompts(path: Path) -> Iterator[Prompt]:
    from summarizing_context.evaluation.prompting.checks import SUMMARIES
    from summarizing_context.prompt_library import latest, load, names

    if path.suffix == ".md":
        yield load(f"{path.parent.name}/{path.stem}", root=path.parent.parent)
        return
    if not path.is_dir():
        raise InputError(f"--try: {path} is no file of figures (.toml), no prompt (.md) and no folder")
    purposes = [purpose for purpose in SUMMARIES if any(name.startswith(f"{purpose}/") for name in names(path))]
    if not purposes:
        raise InputError(f"--try: {path} holds no prompt; a prompt is a file such as segment/v3.md in it")
    for purpose in purposes:
        yield latest(purpose, root=path)


def _name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}" if path.suffix == ".md" else path.name
