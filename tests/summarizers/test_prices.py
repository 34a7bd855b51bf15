"""Prices of models: the table that comes along, tables of the user's over it, and what a session has cost."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, SettingsError, SummaryReply, open_context
from summarizing_context.summarizers.prices import load_prices
from summarizing_context.testing import range_name
from tests.laws.builders import session

OURS = load_prices()
TABLE = 'as_of = 2026-05-06\n[models."m-1"]\ninput = 2\noutput = 8.0\n'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(tmp_path: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_prices(written(tmp_path, text))
    assert all(str(tmp_path / "prices.toml") in problem for problem in caught.value.problems)
    return caught.value.problems


def test_every_row_of_our_table_is_dated_and_says_whence_it_is():
    assert len(OURS.models) > 20
    for name, price in OURS.models.items():
        assert price.as_of is not None, name
        assert price.as_of.year >= 2026, name
        assert price.source, name
        assert 0 < price.cached_input <= price.input < price.output, name


@pytest.mark.parametrize("name", ["claude-haiku-4-5-20251001", "gpt-5.4-mini-2026-03-17", "gpt-4.1-latest"])
def test_a_dated_version_has_the_price_of_its_model(name: str):
    plain = name.rsplit("-", 3 if "2026" in name else 1)[0]
    assert OURS.price_of(name) == OURS.models[plain]


@pytest.mark.parametrize(
    "name",
    [None, "", "llama3", "gpt-5-pro", "claude-opus-5-6", "gpt-5.4-mini-2", "claude-haiku-4-5-20251001-x", "GPT-5"],
)
def test_a_model_that_is_not_listed_has_no_price(name: str | None):
    assert OURS.price_of(name) is None


def test_cached_tokens_are_a_part_of_the_input_and_cost_less():
    price = OURS.models["claude-haiku-4-5"]
    assert price.cost(1_000_000, 100_000) == pytest.approx(1.5)
    assert price.cost(1_000_000, 0, 600_000) == pytest.approx(0.4 + 0.06)
    assert price.cost(100, 0, 10_000) == pytest.approx(0.00001)


def test_a_file_adds_rows_and_takes_the_place_of_those_it_names(tmp_path: Path):
    table = load_prices(written(tmp_path, TABLE + '[models."gpt-5.4-mini"]\ninput = 1\noutput = 2\ncached_input = 0\n'))
    assert (table.models["m-1"].input, table.models["m-1"].cached_input, table.models["m-1"].output) == (2, 2, 8)
    assert table.models["m-1"].as_of == date(2026, 5, 6)
    assert table.models["gpt-5.4-mini"].cost(1_000_000, 1_000_000, 500_000) == pytest.approx(2.5)
    assert table.models["gpt-4.1"] == OURS.models["gpt-4.1"]


def test_each_row_that_is_wrong_is_told_with_its_place(tmp_path: Path):
    rows = {
        "a": ("input = -1\noutput = 2", "`float` >= 0.0 - at `$.input`"),
        "b": ("input = 1\noutput = 2\ninptu = 3", "unknown field `inptu`"),
        "c": ("input = 1", "missing required field `output`"),
        "d": ("input = inf\noutput = 1", "`float` <= 1000000.0 - at `$.input`"),
        "e": ("input = 1\noutput = true", "got `bool` - at `$.output`"),
    }
    text = "as_of = 2026-05-06\n" + "\n".join(f"[models.{name}]\n{row}" for name, (row, _) in rows.items())
    told = problems(tmp_path, text)
    assert len(told) == len(rows)
    for problem, (name, (_, said)) in zip(told, rows.items(), strict=True):
        assert f'[models."{name}"]' in problem
        assert said in problem
    assert "`$.as_of`" in problems(tmp_path, 'as_of = "soon"\n[models.a]\ninput = 1\noutput = 2\n')[0]


class Model:
    """Summarizes, and tells what the provider counted."""

    recipe = "test/priced"

    def __init__(self, model: str | None, **usage: Any) -> None:
        self.model, self.usage = model, {"input_tokens": 1_000, "output_tokens": 100, **usage}

    async def summarize(self, job: Any) -> SummaryReply:
        return SummaryReply(f"## Done\n- part {range_name(job.range_hash)}", **self.usage)


async def statistics_of(summarizer: Any, **settings: Any) -> Any:
    """The figures after a short session."""
    with anyio.fail_after(120):
        async with open_context(Settings(max_tokens=4_000, **settings), summarizer=summarizer) as context:
            for message in session(7, 120):
                await context.add_message(message)
            await context.wait_idle()
            return context.statistics()


async def test_the_cost_of_a_session_is_that_of_the_tokens_it_counted(tmp_path: Path):
    found = await statistics_of(Model("m-1-2026-01-01", cached_tokens=250), prices=written(tmp_path, TABLE))
    calls = found.model_calls
    assert calls > 1
    assert (found.model_input_tokens, found.model_cached_tokens) == (1_000 * calls, 250 * calls)
    assert found.estimated_cost == pytest.approx(calls * (1_000 * 2 + 100 * 8) / 1e6)


@pytest.mark.parametrize("cached", [-5, 1_001, True, "9", 2.5])
async def test_cached_tokens_that_cannot_be_true_are_not_counted(cached: Any):
    found = await statistics_of(Model("claude-haiku-4-5", cached_tokens=cached))
    assert found.model_cached_tokens == 0
    assert found.estimated_cost == pytest.approx(found.model_calls * (1_000 * 1 + 100 * 5) / 1e6)


async def test_without_a_known_price_there_is_no_estimate():
    for model in ("model-of-mine", None):
        found = await statistics_of(Model(model))
        assert found.model_calls > 0
        assert found.estimated_cost is None
