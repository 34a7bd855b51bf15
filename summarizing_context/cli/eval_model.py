"""The models of `eval run` and `eval record`: options, cassette, forecast and cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from summarizing_context.cli.options import at_named_server
from summarizing_context.cli.output import InputError, dollars, facts, notices, number, plain, screen, write_json
from summarizing_context.settings.providers import NAMED, PROVIDERS

if TYPE_CHECKING:
    from summarizing_context.evaluation.cassettes import Cassette, Mode
    from summarizing_context.evaluation.models import CassetteFile, ModelPlan
    from summarizing_context.evaluation.requests import Caps
    from summarizing_context.evaluation.suites import LoadedSuite
    from summarizing_context.settings.values import Settings
    from summarizing_context.summarizers.prices import ModelPrice

ReaderName = Annotated[
    str | None, typer.Option(metavar="NAME", help=f"Provider that records the answers of a suite: {NAMED}.")
]
ReaderModel = Annotated[
    str | None, typer.Option(metavar="M", help="Model that summarizes, and answers the questions of the suite.")
]
JudgeModel = Annotated[
    str | None, typer.Option(metavar="M", help="Model that marks the answers. Default: the reader's model.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """What the command line says of models."""

    reader: str | None = None
    reader_model: str | None = None
    judge_model: str | None = None
    cassette: Path | None = None
    base_url: str | None = None
    redact: str | None = None
    record: bool = False
    dry_run: bool = False
    max_calls: int | None = None
    max_input_tokens: int | None = None

    @property
    def mode(self) -> Mode:
        if self.dry_run:
            return "forecast"
        return "record" if self.record else "replay"

    @property
    def names_model(self) -> bool:
        """Whether a model is asked for on the command line."""
        return not (self.reader is self.reader_model is self.judge_model is None)


def cassette_file_of(options: ModelOptions, loaded: LoadedSuite | None, settings: Settings) -> CassetteFile | None:
    """Where the model that these settings name speaks; None if it is none. Raises `InputError`."""
    from summarizing_context.evaluation.models import CassetteFile, summarizes_by_model

    if not summarizes_by_model(settings):
        if options.mode != "replay":
            raise InputError("nothing to record: name the model that summarizes, with --model or in --config")
        if options.redact is not None:
            raise InputError("--redact: without a model nothing is sent or recorded; name one, or leave out --redact")
        return None
    path = options.cassette or (loaded.cassette if loaded is not None else None)
    if path is None:
        raise InputError("--cassette: name the file of the recorded replies; only suites have one of their own")
    return CassetteFile(path, options.redact)


def model_plan(options: ModelOptions) -> ModelPlan:
    """Who records the answers of a suite. Raises `InputError`."""
    from summarizing_context.evaluation.models import Chat, ModelPlan
    from summarizing_context.settings.values import Settings

    provider = options.reader or next(iter(PROVIDERS))
    if provider not in PROVIDERS:
        raise InputError(f"--reader: {plain(provider, 40)!r} is not a provider; there are {' and '.join(PROVIDERS)}")
    if options.reader_model is None:
        raise InputError("--reader-model: name the reader's model, for example --reader-model gpt-5.4-mini")
    place = at_named_server(Settings(summarizer=provider, model=options.reader_model), options.base_url)
    reader = Chat(provider=provider, model=options.reader_model, base_url=place.base_url, api_key=place.api_key)
    return ModelPlan(reader=reader, judge=replace(reader, model=options.judge_model or options.reader_model))


@contextmanager
def opened(options: ModelOptions, file: CassetteFile | None) -> Iterator[Cassette | None]:
    """The cassette of a run that may record; None for one that only replays."""
    from summarizing_context.evaluation.cassettes import Cassette
    from summarizing_context.evaluation.requests import Caps

    if file is None or options.mode == "replay":
        yield None
        return
    caps = Caps(options.max_calls, options.max_input_tokens)
    with Cassette.open(file.path, options.mode, caps=caps, redact=file.redaction()) as cassette:
        if cassette.sends:
            notices().print(_opening_words(cassette, caps), soft_wrap=True)
        try:
            yield cassette
        except KeyboardInterrupt:
            notices().print(f"Stopped. {kept_words(cassette)}", soft_wrap=True)
            raise


def show_forecast(cassette: Cassette, settings: Settings, json_path: str | None, *, proposals: int = 0) -> None:
    """Show calls, tokens and price of what is not recorded yet.

    Args:
        cassette: What was forecast.
        settings: Name the model, its server and the prices.
        json_path: Where the figures are written.
        proposals: Prompts that a model will write, each of which is tried as well.
    """
    from summarizing_context.summarizers.prices import load_prices
    from summarizing_context.summarizers.providers import address_of

    spent, model, address = cassette.spent, settings.model, address_of(settings)
    price = load_prices(settings.prices).price_of(model)
    document = {
        "calls": spent.calls,
        "by_kind": dict(sorted(spent.by_kind.items())),
        "recorded": spent.replayed,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "estimated_cost": spent.cost(price),
        "model": model,
        "address": address,
    }
    proposed = replace(
        spent,
        calls=spent.calls + proposals * (spent.calls + 1),
        input_tokens=spent.input_tokens + proposals * (spent.input_tokens + _PROPOSAL_TOKENS),
        output_tokens=spent.output_tokens + proposals * (spent.output_tokens + _PROPOSAL_TOKENS),
    )
    if proposals:
        document["proposals"] = proposals
        document["estimated_cost_at_most"] = proposed.cost(price)
    if json_path is not None:
        write_json(json_path, document)
    if json_path == "-":
        return
    rows = [(f"{kind} calls", number(count), _ABOUT.get(kind, "")) for kind, count in sorted(spent.by_kind.items())]
    rows += [
        ("input tokens", number(spent.input_tokens), "by the built-in estimate; hidden thinking is not counted"),
        ("output tokens", number(spent.output_tokens), "every reply as long as its cap"),
        ("already recorded", number(spent.replayed), "not sent again"),
        ("price", dollars(spent.cost(price)), _price_words(price)),
    ]
    if proposals:
        words = f"at most, where each of {proposals:,} proposals is tried on all sessions: {proposed.calls:,} calls"
        rows.append(("with proposals", dollars(proposed.cost(price)), words))
    screen().print(facts(f"Recording with {plain(f'{model} at {address}', 120)}: nothing is sent", rows))


def _opening_words(cassette: Cassette, caps: Caps) -> str:
    named = (("calls", caps.max_calls), ("input tokens", caps.max_input_tokens))
    limits = [f"at most {most:,} {name}" for name, most in named if most is not None] or ["without a cap"]
    there = f"{len(cassette):,} replies are there already" if len(cassette) else "a new file"
    return plain(f"Recording into {cassette.path} ({there}), {' and '.join(limits)}; --dry-run tells what it takes.")


def kept_words(cassette: Cassette) -> str:
    """What an interrupted recording leaves."""
    if not cassette.sends:
        return "Nothing was sent."
    return plain(f"{len(cassette):,} replies are kept in {cassette.path}; called again, it goes on from there.")


def spent_words(cassette: Cassette, settings: Settings) -> str:
    """What recording has come to, in one sentence, by the price of the model of the settings."""
    from summarizing_context.summarizers.prices import load_prices
    from summarizing_context.summarizers.providers import address_of

    spent, price = cassette.spent, load_prices(settings.prices).price_of(settings.model)
    words = (
        f"{settings.model} at {address_of(settings)}: "
        f"{spent.calls:,} calls, {spent.input_tokens:,} input and {spent.output_tokens:,} output tokens, "
        f"{dollars(spent.cost(price))}; {len(cassette):,} replies are in {cassette.path}"
    )
    return plain(words)


_PROPOSAL_TOKENS = 2_000  # that a proposal reads and writes, about
_ABOUT = {
    "judge": "all answers of one case each",
    "reader": "all questions about one view each",
    "segment": "summaries of segments",
    "rollup": "summaries of summaries",
    "rules": "standing rules in what humans typed",
}


def _price_words(price: ModelPrice | None) -> str:
    if price is None:
        return "no price is known for this model"
    return f"${price.input:g} in, ${price.output:g} out for a million tokens, as of {price.as_of}; an estimate"
