"""Prices, windows and prompt caches of models: what the package knows, the user's own tables, what calls cost."""

from datetime import date
from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, SettingsError, SummaryReply, load_models, open_context
from summarizing_context.testing import ScriptedSummarizer, range_name
from tests.behaviour.contexts import Provider, begun
from tests.laws.builders import session

OURS = load_models()
TABLE = 'as_of = 2026-05-06\n[models."m-1"]\ninput = 2\noutput = 8.0\n'
OWN = """[models."gpt-5.4-mini"]
input = 1
output = 2
cached_input = 0
[[windows]]
models = 'm-|gpt-5\\.4'
tokens = 64_000
[[caches]]
models = 'm-'
lifetimes = { usual = 60 }
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(tmp_path: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_models(written(tmp_path, text))
    assert all(str(tmp_path / "prices.toml") in problem for problem in caught.value.problems)
    return caught.value.problems


@pytest.mark.parametrize("name", ["claude-haiku-4-5-20251001", "gpt-5.4-mini-2026-03-17", "gpt-6.2-sol-2026-11-12"])
def test_a_dated_version_has_the_price_of_its_model(name: str):
    price = OURS.price_of(name)
    assert price == OURS.price_of(name.rsplit("-", 3 if "-2026-" in name else 1)[0])
    assert price.source
    assert 0 < price.cached_input < price.input < price.output


def test_cached_tokens_are_a_part_of_the_input_and_cost_less():
    price = OURS.price_of("claude-haiku-4-5")
    assert price.cost(1_000_000, 100_000) == pytest.approx(1.5)
    assert price.cost(1_000_000, 0, 600_000) == pytest.approx(0.4 + 0.06)
    assert price.cost(100, 0, 10_000) == pytest.approx(0.00001)
    assert price.cost(1_000_000, 0, written=500_000, written_long=500_000) == pytest.approx(0.625 + 1.0)
    for name in (None, "", "llama3", "claude-opus-5-6", "gpt-9", "gpt-6.2-sol-x", "model-of-mine"):
        assert OURS.price_of(name) is None, "it is not listed"


@pytest.mark.parametrize(
    ("model", "above", "short", "long"),
    [
        ("claude-haiku-5-5", 100_000, (0.1, 0.01, 0.5), (0.5, 0.05, 2.5)),
        ("gpt-6.2-sol", 272_000, (2, 0.1, 10), (4, 0.2, 15)),
    ],
)
def test_a_request_beyond_a_step_has_other_rates_in_all(model, above, short, long):
    price = OURS.price_of(model)
    for tokens, rates in ((above, short), (above + 1, long)):
        found = price.at(tokens)
        assert (found.input, found.cached_input, found.output) == pytest.approx(rates)


def test_a_file_adds_rows_and_takes_the_place_of_those_it_names(tmp_path: Path):
    table = load_models(written(tmp_path, TABLE + OWN))
    mine = table.price_of("m-1-2026-01-01")
    assert (mine.input, mine.output, mine.as_of) == (2, 8, date(2026, 5, 6))
    assert mine.cost(1_000_000, 0, 1_000_000) == 2  # no discount is known
    changed = table.price_of("gpt-5.4-mini")
    assert changed.cost(1_000_000, 1_000_000, 500_000) == pytest.approx(2.5)
    assert table.price_of("gpt-4.1") == OURS.price_of("gpt-4.1")
    assert [table.window_of(name) for name in ("m-1", "gpt-5.4-mini", "gpt-4.1")] == [64_000, 64_000, 1_000_000]
    assert (table.cache_of("m-1").seconds(), table.cache_of("claude-opus-5-5").seconds("1h")) == (60, 3_600)
    alone = load_models(written(tmp_path, f"replace = true\n{TABLE}"))
    assert (alone.price_of("gpt-4.1"), alone.price_of("m-1") is not None) == (None, True)


def test_each_row_that_is_wrong_is_told_with_its_place(tmp_path: Path):
    rows = {
        "a": ("input = -1\noutput = 2", "`float` >= 0.0 - at `$.input`"),
        "b": ("input = 1\noutput = 2\ninptu = 3", "unknown field `inptu`"),
        "c": ("input = 1", "missing required field `output`"),
        "d": ("input = inf\noutput = 1", "`float` <= 1000000.0 - at `$.input`"),
        "e": ("input = 1\noutput = true", "got `bool` - at `$.output`"),
        "f": ("input = 1\noutput = 2\nsteps = [{ above = 9, input = 2 }]", "`output` - at `$.steps[0]`"),
    }
    text = "as_of = 2026-05-06\n" + "\n".join(f"[models.{name}]\n{row}" for name, (row, _) in rows.items())
    told = problems(tmp_path, text)
    assert len(told) == len(rows)
    for problem, (name, (_, said)) in zip(told, rows.items(), strict=True):
        assert f'[models."{name}"]' in problem
        assert said in problem
    as_of = "as_of = 2026-05-06\n"
    for text, said in (
        ('as_of = "soon"\n[models.a]\ninput = 1\noutput = 2\n', "`$.as_of`"),
        (as_of, "no models"),
        (as_of + "caches = [{ models = 'm', lifetimes = {} }]\n", "lifetimes"),
        (as_of + "windows = [{ models = '(', tokens = 9 }]\n", "cannot be read"),
    ):
        assert said in problems(tmp_path, text)[0]


class Model(ScriptedSummarizer):
    """Tells what the provider counted."""

    def __init__(self, model: str | None, **usage: Any) -> None:
        told = {"input_tokens": 1_000, "output_tokens": 100, **usage}
        super().__init__(lambda job: SummaryReply(f"## Done\n- part {range_name(job.range_hash)}", **told))
        self.model = model


async def statistics_of(summarizer: Any, **settings: Any) -> Any:
    """The figures after a short session."""
    with anyio.fail_after(120):
        given = {"max_tokens": 4_000, "count_tokens": None, "summarizer": summarizer, **settings}
        async with begun(session(7, 80), of=Settings, **given) as context:
            await context.wait_idle()
            return context.statistics()


async def test_the_cost_of_a_session_is_that_of_the_tokens_it_counted(tmp_path: Path):
    found = await statistics_of(Model("m-1-2026-01-01", cached_tokens=250), prices=written(tmp_path, TABLE))
    calls = found.model_calls
    assert calls > 1
    assert (found.model_input_tokens, found.model_cached_tokens) == (1_000 * calls, 250 * calls)
    assert found.estimated_cost == pytest.approx(calls * (1_000 * 2 + 100 * 8) / 1e6)


async def test_cached_tokens_that_cannot_be_true_are_not_counted_and_without_a_price_there_is_no_estimate():
    for cached in (-5, 1_001, True, "9", 2.5):
        found = await statistics_of(Model("claude-haiku-4-5", cached_tokens=cached))
        assert found.model_cached_tokens == 0
        assert found.estimated_cost == pytest.approx(found.model_calls * (1_000 * 1 + 100 * 5) / 1e6)
    for model in ("model-of-mine", None):
        found = await statistics_of(Model(model))
        assert (found.model_calls > 0, found.estimated_cost) == (True, None)


def asking(model: str, lifetime: float | str | None = None) -> Provider:
    """A model as hosts give it, with the life of its cache where requests ask for that."""
    return Provider("p", model, context_window=200_000, cache_lifetime=lifetime)


@pytest.mark.parametrize(
    ("provider", "idle_after", "lives"),
    [
        (None, None, 300),
        (asking("claude-opus-5-5", 3_600), None, 3_600),
        (asking("claude-opus-5-5", "1h"), None, 3_600),
        (asking("claude-opus-5-5", "2h"), None, 300),  # no word of its provider
        (asking("gpt-6.1-sol"), None, 1_800),
        (asking("gpt-5.4"), None, 86_400),
        (asking("gpt-5.4"), 60.0, 60),
        (asking("claude-opus-5-5"), "never", None),
    ],
)
async def test_a_cache_counts_as_cold_when_the_provider_has_given_it_up(provider, idle_after, lives):
    now = [0.0]
    sizes: Any = {"segment_min": 200, "segment_target": 400, "segment_max": 800, "safety_margin": 0}
    settings = Settings(max_tokens=4_000, token_counter="estimate", idle_after=idle_after, **sizes)
    async with open_context(settings, clock=lambda: now[0]) as context:
        for at, message in enumerate(session(7, 100)):
            await context.add_message(message)
            if at % 5:
                continue
            view = await context.next_view(provider=provider)
            if view.tokens > 3_000 and view.activation is None:
                break
        assert view.tokens > 3_000
        now[0] += lives or 1_000_000
        assert not await context.should_compact()
        assert (await context.next_view(provider=provider)).activation is None
        now[0] += 1_000_000 if lives is None else lives + 1
        view = await context.next_view(provider=provider)
        assert (view.activation is not None and view.activation.reason == "idle") == (lives is not None)
