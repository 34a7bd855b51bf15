"""What a model's tokens cost: the dated table that comes along, and tables of the user's in the same form.

Estimates for planning. Where a model's price is not known there is none: it is never guessed from another model's.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import date
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from summarizing_context.errors import SettingsError

_Dollars = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]  # for a million tokens


class ModelPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars for a million tokens of one model, and where that was said."""

    input: _Dollars
    cached_input: _Dollars  # input that the provider read from its prompt cache
    output: _Dollars
    as_of: date | None = None
    source: str = ""

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """Return dollars for so many tokens; the cached ones are part of the input."""
        cached = min(max(cached_tokens, 0), input_tokens)
        dollars = (input_tokens - cached) * self.input + cached * self.cached_input + output_tokens * self.output
        return dollars / 1_000_000


FREE = ModelPrice(0.0, 0.0, 0.0)  # of the extractive summarizer, which calls nobody


class PriceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices by the name of the model, as a file holds them."""

    as_of: date
    models: Mapping[str, Any]  # each a `ModelPrice`
    source: str = ""
    replace: bool = False  # whether nothing is left of the table that comes along

    def price_of(self, model: str | None) -> ModelPrice | None:
        """Return the price of a model, or of the one of which it is a dated version; None where it is not known."""
        dated = re.fullmatch(r"(.*?)-(\d{4}-\d{2}-\d{2}|\d{8}|latest)", model or "")
        return self.models.get(model or "") or (self.models.get(dated[1]) if dated else None)


def load_prices(path: str | Path | None = None) -> PriceTable:
    """Return the table that comes along, with the rows of the user's file over it. Raises `SettingsError`."""
    if path is None:
        return _own_table()
    table = _read(Path(path), str(path))
    return table if table.replace else msgspec.structs.replace(table, models={**_own_table().models, **table.models})


@cache
def _own_table() -> PriceTable:
    return _read(files("summarizing_context").joinpath("prices.toml"), "prices.toml")


def _read(path: Path | Traversable, name: str) -> PriceTable:
    """Return the prices of a file. All rows that are wrong are told, each with its place."""
    try:
        table = msgspec.convert(tomllib.loads(path.read_bytes().decode("utf-8")), PriceTable)
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{name}: the prices cannot be read: {error}") from error
    models: dict[str, ModelPrice] = {}
    problems = [] if table.models else ["there are no models; give each a table with input and output"]
    for model, row in table.models.items():
        try:
            if isinstance(row, dict) and "input" in row:
                row = {"as_of": table.as_of, "source": table.source, **row}
                row.setdefault("cached_input", row["input"])
            models[model] = msgspec.convert(row, ModelPrice)
        except msgspec.ValidationError as error:
            problems.append(f'[models."{model}"] is refused: {error}; prices are dollars for a million tokens')
    if problems:
        raise SettingsError([f"{name}: {problem}" for problem in problems])
    return msgspec.structs.replace(table, models=models)
