"""What is known of models: prices, windows, and how long their prompt caches live.

Prices and windows come from `genai-prices`, whose data is part of that package: nothing is fetched. `models.toml` has
what it lacks or has otherwise, and a file of the user's in the same form goes before both. Where a model's price is not
known there is none: it is never guessed from another model's.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import cache, lru_cache
from math import inf
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from summarizing_context.errors import SettingsError

_Dollars = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]  # for a million tokens
_Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
_Seconds = Annotated[float, msgspec.Meta(gt=0, lt=365 * 86_400)]
_Lifetimes = Annotated[Mapping[str, _Seconds], msgspec.Meta(min_length=1)]


def dollars(value: float | None) -> str:
    """Return US dollars in words; small sums keep the places that say something."""
    return "–" if value is None else f"${value:,.2f}" if value >= 100 or value == 0 else f"${value:,.4f}"


class Rates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens."""

    input: _Dollars
    output: _Dollars
    cached_input: _Dollars | None = None  # that the provider read from its prompt cache; as `input` where none is given
    cache_write: _Dollars | None = None  # that it wrote to it; as `input`
    long_cache_write: _Dollars | None = None  # that it wrote for longer than usual; as `cache_write`

    def cost(
        self, input_tokens: int, output_tokens: int, cached_tokens: int = 0, *, written: int = 0, written_long: int = 0
    ) -> float:
        """Return dollars for so many tokens; those read, written, and `written_long` are part of the input."""
        cached = min(max(cached_tokens, 0), input_tokens)
        read = self.input if self.cached_input is None else self.cached_input
        write = self.input if self.cache_write is None else self.cache_write
        long = write if self.long_cache_write is None else self.long_cache_write
        dollars = (input_tokens - cached - written - written_long) * self.input + cached * read
        return (dollars + written * write + written_long * long + output_tokens * self.output) / 1_000_000


class Step(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of a whole request whose input is longer."""

    above: _Count  # tokens of input


class ModelPrice(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of a model, and where they were read."""

    steps: tuple[Step, ...] = ()  # shortest first
    as_of: date | None = None
    source: str = ""

    def at(self, input_tokens: int) -> Rates:
        """Return the rates of one request with so much input, cached or not."""
        return next((step for step in reversed(self.steps) if input_tokens > step.above), self)


FREE = ModelPrice(input=0.0, output=0.0)  # of the extractive summarizer, which asks no model


class WindowRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: str  # regular expression at the beginning of a name
    tokens: _Count  # of input
    client: str = ""  # that gives its models so much; any where empty
    overrides: bool = False  # what `genai-prices` says, where that knows the model


class PromptCache(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long a provider keeps the beginning of a request."""

    models: str  # regular expression at the beginning of a name
    lifetimes: _Lifetimes  # by what a request may ask for; the first where it asks for nothing
    min_tokens: _Count = 1_024  # of a beginning that is kept

    def seconds(self, asked: str | None = None) -> float:
        """Return the lifetime that a request gets."""
        usual = next(iter(self.lifetimes.values()))
        return self.lifetimes.get(asked or "", usual)


UNKNOWN_CACHE = PromptCache("", {"": 300.0})


class ModelTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Models as a file holds them, over what `genai-prices` knows."""

    as_of: date
    models: Mapping[str, Any] = {}  # prices by name, each a `ModelPrice`
    windows: Sequence[WindowRow] = ()  # the first that fits holds
    caches: Sequence[PromptCache] = ()  # so do these
    source: str = ""
    replace: bool = False  # whether no other prices count

    def price_of(self, model: str | None) -> ModelPrice | None:
        """Return the price of a model, or of the one of which it is a dated version; that of its maker where a gateway
        names it; None where it is not known."""
        for name in dict.fromkeys([model, re.sub(r"-v\d+(:\d+)?$", "", _bare(model))]) if model else ():
            dated = re.fullmatch(r"(.*?)-(\d{4}-\d{2}-\d{2}|\d{8}|latest)", name)
            found: ModelPrice | None = self.models.get(name) or (self.models.get(dated[1]) if dated else None)
            if found := found if found is not None or self.replace else _known(name)[0]:
                return found
        return None

    def window_of(self, model: str, client: str = "") -> int | None:
        """Return the tokens of input that a model takes from this program; None where it is not known."""
        if "[1m]" in model.lower():
            return 1_000_000
        name = _bare(model)
        rows = [row for row in self.windows if row.client in ("", client) and re.match(row.models, name)]
        known = None if any(row.client or row.overrides for row in rows) else _known(name)[1]
        return known or next((row.tokens for row in rows), None)

    def cache_of(self, model: str) -> PromptCache:
        """Return the prompt cache of a model; one of five minutes where it is not known."""
        name = _bare(model)
        return next((row for row in self.caches if re.match(row.models, name)), UNKNOWN_CACHE)


def _bare(model: str) -> str:
    """Return a name without that of a provider or a region in front, as in `us.anthropic.claude-opus-4-6-v1:0`."""
    name = model.lower().rpartition("/")[2]
    found = re.search(r"(?:^|[.~])((?:claude|gpt-|o[134]\b|gemini|deepseek|qwen|kimi|glm|mistral|llama|grok).*)", name)
    return (found[1] if found else name).partition("[")[0]


@lru_cache(256)
def _known(model: str) -> tuple[ModelPrice | None, int | None]:
    """Return the price and the window that `genai-prices` has for a model, as of its version."""
    from importlib.metadata import version

    from genai_prices import Usage, calc_price

    try:
        found = calc_price(Usage(input_tokens=0), model)
    except LookupError:
        return None, None
    theirs = {"cached_input": "cache_read", "long_cache_write": "cache_write_1h"}
    told = {name: getattr(found.model_price, f"{theirs.get(name, name)}_mtok") for name in Rates.__struct_fields__}
    window = found.model.context_window
    if told["input"] is None or told["output"] is None:  # not priced by tokens
        return None, window

    def rates(above: int) -> dict[str, Any]:
        """Return the rates of requests with more input than that."""
        fields = {name: getattr(each, "base", each) for name, each in told.items()}
        tiers = ((name, tier) for name, each in told.items() for tier in getattr(each, "tiers", ()))
        return fields | {name: tier.price for name, tier in tiers if tier.start <= above}

    starts = sorted({tier.start for each in told.values() for tier in getattr(each, "tiers", ())})
    steps = [{**rates(start), "above": start} for start in starts]
    source = f"genai-prices {version('genai-prices')}"
    return msgspec.convert({**rates(-1), "steps": steps, "source": source}, ModelPrice), window


def load_models(path: str | Path | None = None) -> ModelTable:
    """Return the table that comes along, with the rows of the user's file over it. Raises `SettingsError`."""
    own = _own_table()
    if path is None:
        return own
    table = _read(Path(path))
    models = table.models if table.replace else {**own.models, **table.models}
    windows = [*(msgspec.structs.replace(row, overrides=True) for row in table.windows), *own.windows]
    return msgspec.structs.replace(table, models=models, windows=windows, caches=[*table.caches, *own.caches])


def _read(path: Path) -> ModelTable:
    """Return the rows of a file. All prices that are wrong are named, each with its place."""
    try:
        table: ModelTable = msgspec.convert(tomllib.loads(path.read_bytes().decode("utf-8")), ModelTable)
        for pattern in [row.models for row in table.windows] + [row.models for row in table.caches]:
            re.compile(pattern)
    except (OSError, ValueError, RecursionError, re.error) as error:
        raise SettingsError(f"{path}: the models cannot be read: {error}") from error
    models: dict[str, ModelPrice] = {}
    problems = [] if table.models or table.windows or table.caches else ["there are no models, windows or caches"]
    for model, given in table.models.items():
        try:
            models[model] = msgspec.convert({"as_of": table.as_of, "source": table.source, **given}, ModelPrice)
        except (TypeError, msgspec.ValidationError) as error:
            problems.append(f'[models."{model}"] is refused: {error}; prices are dollars for a million tokens')
    if problems:
        raise SettingsError([f"{path}: {problem}" for problem in problems])
    return msgspec.structs.replace(table, models=models)


@cache
def _own_table() -> ModelTable:
    return _read(Path(__file__).with_name("models.toml"))


# -- what a provider tells of itself


class ProviderWindow(NamedTuple):
    """A provider as far as budgets go; `key` tells providers apart."""

    key: str
    window: int | None  # tokens
    max_output: int | None  # tokens
    name: str = ""
    model: str = ""
    cache_lifetime: float | str | None = None  # seconds, or the provider's word, as its requests ask


NO_PROVIDER = ProviderWindow("", None, None)  # of a request that names none


def read_provider(provider: Any) -> ProviderWindow:
    """Return the provider's name, model and window: from `get_model_info()`, else from `get_info().defaults`.

    Where neither tells of `max_output_tokens`, an answer takes the `max_tokens` that it is configured to ask for. The
    model may tell the `cache_lifetime` that its requests ask for, in seconds or in the provider's word, such as `1h`. A
    provider that misbehaves tells only its type.
    """
    if provider is None:
        return NO_PROVIDER
    info, model = _answer(provider, "get_info"), _answer(provider, "get_model_info")
    defaults, config = field_of(info, "defaults"), field_of(provider, "config")
    window = _whole(field_of(model, "context_window")) or _whole(field_of(defaults, "context_window"))
    limits = [field_of(one, "max_output_tokens") for one in (model, defaults)]
    limits += [field_of(one, "max_tokens") for one in (defaults, config)]
    output = next(filter(None, map(_whole, limits)), None)
    name = _text(field_of(provider, "name")) or _text(field_of(info, "id")) or type(provider).__name__
    which = _text(field_of(model, "id")) or _text(field_of(defaults, "model"))
    lives = field_of(model, "cache_lifetime")
    lives = lives if isinstance(lives, str) or (isinstance(lives, int | float) and 0 < lives < inf) else None
    return ProviderWindow(f"{name}/{which}/{window or ''}", window, output, name, which, lives)


def _answer(provider: Any, method: str) -> Any:
    """Return what a provider says of itself; None where it fails, or would have to be awaited."""
    with suppress(Exception):
        answer = getattr(provider, method)()
        if not isinstance(answer, Coroutine):
            return answer
        answer.close()  # else Python warns that it was never awaited
    return None


def field_of(holder: Any, name: str) -> Any:
    """Return a field of a mapping or of any object; None where there is none, or it cannot be read."""
    with suppress(Exception):
        return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
    return None


def _text(value: Any) -> str:
    return value[:100] if isinstance(value, str) else ""


def _whole(value: Any) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and value > 0 and value == value // 1 else None  # neither inf nor nan is one
