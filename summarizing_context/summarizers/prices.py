"""What a model's tokens cost: the dated table that comes along, and tables of the user's in the same form.

Estimates for planning. Where a model's price is not known there is none: it is never guessed from another model's.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

from summarizing_context.errors import SettingsError
from summarizing_context.settings.rules import shown

_HIGHEST = 1_000_000.0  # dollars for a million tokens
_DATED = re.compile(r"(.*?)-(\d{4}-\d{2}-\d{2}|\d{8}|latest)")


class ModelPrice(NamedTuple):
    """US dollars for a million tokens of one model, and where that was said."""

    input: float
    cached_input: float  # input that the provider read from its prompt cache
    output: float
    as_of: date | None = None
    source: str = ""

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """Return dollars for so many tokens; the cached ones are part of the input."""
        cached = min(max(cached_tokens, 0), input_tokens)
        dollars = (input_tokens - cached) * self.input + cached * self.cached_input + output_tokens * self.output
        return dollars / 1_000_000


FREE = ModelPrice(0.0, 0.0, 0.0)  # of the extractive summarizer, which calls nobody


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by the name of the model."""

    models: Mapping[str, ModelPrice]

    def price_of(self, model: str | None) -> ModelPrice | None:
        """Return the price of a model, or of the one of which it is a dated version; None where it is not known."""
        if model is None or model in self.models:
            return self.models.get(model or "")
        dated = _DATED.fullmatch(model)
        return self.models.get(dated[1]) if dated else None


def load_prices(path: str | Path | None = None) -> PriceTable:
    """Return the table that comes along, with the rows of the user's file over it. Raises `SettingsError`."""
    if path is None:
        return PriceTable(_own_models())
    models, replaces = _read(Path(path), str(path))
    return PriceTable(models if replaces else {**_own_models(), **models})


@cache
def _own_models() -> Mapping[str, ModelPrice]:
    return _read(files("summarizing_context").joinpath("prices.toml"), "prices.toml")[0]


def _read(path: Path | Traversable, name: str) -> tuple[dict[str, ModelPrice], bool]:
    """Return the prices of a file, and whether they replace the table that comes along."""
    try:
        file = tomllib.loads(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{name}: the prices cannot be read: {error}") from error
    if problems := [f"{name}: {problem}" for problem in _problems(file)]:
        raise SettingsError(problems)
    models: dict[str, ModelPrice] = {}
    for model, row in file["models"].items():
        said = row.get("as_of", file["as_of"])
        day = said if isinstance(said, date) else date.fromisoformat(said)
        cached = float(row.get("cached_input", row["input"]))
        source = row.get("source", file.get("source", ""))
        models[model] = ModelPrice(float(row["input"]), cached, float(row["output"]), day, source)
    return models, file.get("replace", False)


def _problems(file: Mapping[str, Any]) -> Iterator[str]:
    """Say everything that is wrong with a table, each with its place."""
    yield from _unknown(file, ("as_of", "source", "replace", "models"), "")
    if not _is_day(file.get("as_of")):
        yield f"as_of = {shown(file.get('as_of'))} is refused; it is the day of the prices, as_of = 2026-11-10"
    if not isinstance(file.get("replace", False), bool):
        yield f"replace = {shown(file['replace'])} is refused; allowed: true or false"
    if not isinstance(file.get("source", ""), str):
        yield f"source = {shown(file['source'])} is refused; it is a text"
    models = file.get("models")
    if not isinstance(models, dict) or not models:
        yield 'there are no models; write [models."name"] with input and output, in dollars for a million tokens'
        return
    for model, row in models.items():
        where = f'[models."{model}"] '
        if not isinstance(row, dict):
            yield f"{where}is {type(row).__name__}; it is a table with input and output"
            continue
        yield from _unknown(row, ("input", "cached_input", "output", "as_of", "source"), where)
        for name in ("input", "output", "cached_input"):
            price = row.get(name, 0)
            if name not in row and name != "cached_input":
                yield f"{where}has no {name}; give the dollars for a million tokens"
            elif isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price <= _HIGHEST:
                yield f"{where}{name} = {shown(price)} is refused; allowed: dollars for a million tokens, at least 0"
        if "as_of" in row and not _is_day(row["as_of"]):
            yield f"{where}as_of = {shown(row['as_of'])} is refused; it is a day, as_of = 2026-11-10"
        if not isinstance(row.get("source", ""), str):
            yield f"{where}source = {shown(row['source'])} is refused; it is a text"


def _unknown(table: Mapping[str, Any], names: tuple[str, ...], where: str) -> Iterator[str]:
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(key[:100], names, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(names)}"
            yield f"{where}{key[:60]} is unknown; {hint}"


def _is_day(value: object) -> bool:
    try:
        return isinstance(value, date) or (isinstance(value, str) and bool(date.fromisoformat(value)))
    except ValueError:
        return False
