"""A user's files of settings and of models; prices, windows and prompt caches of models, and what calls cost."""

import itertools
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, SettingsError, SummarizingContext, SummaryReply, load_models
from summarizing_context.testing import ScriptedSummarizer, default_summary
from tests.behaviour.contexts import TINY, Clock, Provider, begun, said
from tests.laws.builders import Message, session, user

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


@pytest.mark.parametrize("name", ["claude-haiku-4-5-20251001", "gpt-5.4-mini-2026-03-17", "gpt-6.2-sol-2026-11-12"])
def test_a_dated_version_has_the_price_of_its_model_and_prices_have_steps(name: str):
    price = OURS.price_of(name)
    assert price == OURS.price_of(name.rsplit("-", 3 if "-2026-" in name else 1)[0])
    assert 0 < price.cached_input < price.input < price.output
    assert price.source
    for unlisted in (None, "", "llama3", "claude-opus-5-6", "gpt-9", "gpt-6.2-sol-x", "model-of-mine"):
        assert OURS.price_of(unlisted) is None
    price = OURS.price_of("claude-haiku-4-5")
    for name in ("anthropic/claude-haiku-4-5", "us.anthropic.claude-haiku-4-5-20251001-v1:0"):  # of gateways
        assert OURS.price_of(name) == price
    assert price.cost(1_000_000, 100_000) == pytest.approx(1.5)
    assert price.cost(1_000_000, 0, 600_000) == pytest.approx(0.4 + 0.06)
    assert price.cost(100, 0, 10_000) == pytest.approx(0.00001)
    assert price.cost(1_000_000, 0, written=500_000, written_long=500_000) == pytest.approx(0.625 + 1.0)
    for model, tokens, rates in (  # a request beyond a step has other rates in all
        *(("claude-haiku-5-5", 100_000, (0.1, 0.01, 0.5)), ("claude-haiku-5-5", 100_001, (0.5, 0.05, 2.5))),
        *(("gpt-6.2-sol", 272_000, (2, 0.1, 10)), ("gpt-6.2-sol", 272_001, (4, 0.2, 15))),
    ):
        found = OURS.price_of(model).at(tokens)
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


AS_OF = "as_of = 2026-05-06\n"
WRONG = [
    ("input = -1\noutput = 2", "`float` >= 0.0 - at `$.input`"),
    ("input = 1\noutput = 2\ninptu = 3", "unknown field `inptu`"),
    ("input = inf\noutput = 1", "`float` <= 1000000.0 - at `$.input`"),
    ("input = 1\noutput = true", "got `bool` - at `$.output`"),
    ("input = 1\noutput = 2\nsteps = [{ above = 9, input = 2 }]", "`output` - at `$.steps[0]`"),
]
ROWS = AS_OF + "\n".join(f"[models.m{at}]\n{row}" for at, (row, _) in enumerate(WRONG))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ROWS, [(f'[models."m{at}"]', said) for at, (_, said) in enumerate(WRONG)]),
        ('as_of = "soon"\n[models.a]\ninput = 1\noutput = 2\n', [("`$.as_of`",)]),
        (AS_OF, [("no models",)]),
        (AS_OF + "caches = [{ models = 'm', lifetimes = {} }]\n", [("lifetimes",)]),
        (AS_OF + "windows = [{ models = '(', tokens = 9 }]\n", [("cannot be read",)]),
    ],
)
def test_each_row_that_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, said: list[tuple[str, ...]]):
    with pytest.raises(SettingsError) as caught:
        load_models(written(tmp_path, text))
    for problem, parts in zip(caught.value.problems, said, strict=True):
        assert [part for part in (*parts, str(tmp_path / "prices.toml")) if part not in problem] == []


@pytest.mark.parametrize(
    ("model", "cached", "counted", "dollars"),
    [
        ("m-1-2026-01-01", [250], 250, 1_000 * 2 + 100 * 8),
        ("claude-haiku-4-5", [-5, 1_001, True, "9", 2.5], 0, 1_000 * 1 + 100 * 5),  # what cannot be true
        *((model, [0], 0, None) for model in ("model-of-mine", None)),
    ],
)
async def test_the_cost_of_a_session_is_that_of_the_tokens_it_counted(model, cached, counted, dollars, tmp_path):
    told, usage = itertools.cycle(cached), {"input_tokens": 1_000, "output_tokens": 100}
    summarizer: Any = ScriptedSummarizer(
        lambda job: SummaryReply(default_summary(job), cached_tokens=next(told), **usage)
    )
    summarizer.model = model
    given = {"max_tokens": 4_000, "count_tokens": None, "summarizer": summarizer, "prices": written(tmp_path, TABLE)}
    async with begun(session(7, 60), of=Settings, **TINY, **given) as context:
        await context.wait_idle(120)
        found = context.statistics()
    calls = found.model_calls
    assert calls >= max(2, len(cached))
    assert (found.model_input_tokens, found.model_cached_tokens) == (1_000 * calls, counted * calls)
    assert found.estimated_cost == (None if dollars is None else pytest.approx(calls * dollars / 1e6))


def asking(model: str = "claude-opus-5-5", lifetime: float | str | None = None, window: int = 200_000) -> Provider:
    """A model as hosts give it, with the life of its cache where requests ask for that."""
    return Provider("p", model, context_window=window, cache_lifetime=lifetime)


opened = partial(
    begun, of=Settings, count_tokens=None, reserved_output=0, safety_margin=0,
    segment_min=200, segment_target=400, segment_max=800,
)  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "idle_after", "lives"),
    [
        (None, None, 300),
        (asking(lifetime=3_600), None, 3_600),
        (asking(lifetime="1h"), None, 3_600),
        (asking(lifetime="2h"), None, 300),  # no word of its provider
        (asking("gpt-6.1-sol"), None, 1_800),
        (asking("gpt-5.4"), None, 86_400),
        (asking("gpt-5.4"), 60.0, 60),
        (asking(), "never", None),
    ],
)
async def test_a_cache_counts_as_cold_when_the_provider_has_given_it_up(provider, idle_after, lives):
    clock = Clock()
    async with opened(clock=clock.now, max_tokens=4_000, idle_after=idle_after) as context:
        for at, message in enumerate(session(7, 100)):
            await context.add_message(message)
            if at % 5:
                continue
            view = await context.next_view(provider=provider)
            if view.tokens > 3_000 and view.activation is None:
                break
        assert (large := view.tokens) > 3_000
        clock.time += lives or 1_000_000
        assert not await context.should_compact()
        assert (await context.next_view(provider=provider)).activation is None
        clock.time += 1_000_000 if lives is None else lives + 1
        view = await context.next_view(provider=provider)
        is_idle = view.activation is not None and view.activation.reason == "idle"
        assert is_idle == (view.tokens < 0.85 * large) == (lives is not None)


# `statistics().cache`: what requests took from the provider's prompt cache, and what a plain client's would have.
READ, WRITE, OUTPUT = 0.2, 5.0, 20.0  # dollars for a million tokens of claude-opus-5-5


def chat(count: int) -> list[Message]:
    """Messages of about 150 tokens; the first is long enough for any cache."""
    first = " The task is long." * 400
    return [said(at, " ".join(f"part {at}.{n} of it" for n in range(20)) + first * (at == 0)) for at in range(count)]


async def asked(context: SummarizingContext, messages: Any, provider: Any, *, tells: bool = True) -> Any:
    """Make one request for each message, of a provider that never forgets what it has seen; the ledger."""
    for message in messages:
        last = context.last_view
        await context.add_message(message)
        await context.wait_idle()  # else it is by chance which view has the summaries
        view = await context.next_view(provider=provider)
        kept = 0 if last is None or view.activation is not None else last.tokens
        if tells:
            await context.observe_usage(0, cache_read=kept, cache_write=view.tokens - kept, output_tokens=10)
    return context.statistics().cache


async def test_what_the_provider_told_is_counted_and_priced_beside_a_plain_client():
    async with opened() as context:
        found = await asked(context, chat(40), asking())
        whole = context.statistics().history_tokens
        assert found.requests == found.reported == found.plain_requests == 40
        assert (found.input_tokens, found.expiries, found.output_tokens) == (0, 0, 10 * found.requests)
        assert found.written_tokens == whole  # each message once
        dollars = (found.read_tokens * READ + whole * WRITE + found.output_tokens * OUTPUT) / 1e6
        assert found.cost == pytest.approx(dollars)
        # as long as all of it fits, a view is what a plain client sends
        assert (found.plain_input_tokens, found.plain_read_tokens) == (0, found.read_tokens)
        assert found.plain_cost == pytest.approx(found.cost)
        assert found.compared_cost == found.cost
        await context.next_view(3_000, asking())  # a small room has a view of its own
        again = context.statistics().cache
        assert again.requests == found.requests + 1
        assert again.plain_read_tokens - found.plain_read_tokens == found.plain_written_tokens  # its whole history
        assert again.plain_written_tokens == found.plain_written_tokens


async def test_views_cost_less_than_the_whole_history_until_its_window_is_full():
    """Without a word of the provider, what was read is estimated by beginning and clock."""
    async with opened(max_tokens=7_000) as context, opened(max_tokens=7_000) as silent:
        found = await asked(context, chat(190), asking(window=25_000))
        estimate = await asked(silent, chat(190), asking(window=25_000), tells=False)
        figures = context.statistics()
    assert figures.activations > 2
    assert figures.history_tokens > 25_000
    assert 50 < found.plain_requests < found.requests
    assert found.plain_input_tokens + found.plain_read_tokens + found.plain_written_tokens <= 25_000 * found.requests
    assert 0 < found.compared_cost < min(found.plain_cost, found.cost)
    assert (found.reported, estimate.reported, estimate.requests) == (found.requests, 0, found.requests)
    assert estimate.read_tokens == pytest.approx(found.read_tokens, rel=0.05)
    assert estimate.cost == pytest.approx(found.cost - found.output_tokens * OUTPUT / 1e6, rel=0.1)


@pytest.mark.parametrize(("lifetime", "expiries"), [(None, 1), (3_600, 0)])
async def test_a_beginning_that_the_cache_gave_up_is_paid_again_and_counted(lifetime: float | None, expiries: int):
    clock, (*first, last) = Clock(), chat(20)
    async with opened(clock=clock.now, idle_after="never") as context:
        before = await asked(context, first, asking(lifetime=lifetime), tells=False)
        clock.time += 301
        found = await asked(context, [last], asking(lifetime=lifetime), tells=False)
    assert (before.expiries, found.expiries) == (0, expiries)
    assert (found.written_tokens - before.written_tokens > 2_000) == bool(expiries)
    assert (found.expired_tokens > 2_000) == bool(expiries)


async def test_writes_for_an_hour_and_steps_have_their_own_price_and_an_unknown_model_has_none():
    async with opened() as context:
        await context.add_message(user("hello"))
        await context.next_view(provider=asking("claude-haiku-5-5", 3_600, 1_000_000))
        await context.observe_usage(0, cache_read=50_000, cache_write_long=60_000, output_tokens=100)
        found = context.statistics().cache
    assert (found.written_tokens, found.read_tokens) == (60_000, 50_000)
    assert found.cost == pytest.approx((60_000 * 1.0 + 50_000 * 0.05 + 100 * 2.5) / 1e6)  # beyond 100,000 tokens
    async with opened() as context:
        found = await asked(context, chat(10), asking("model-of-mine"), tells=False)
    assert (found.requests, found.cost, found.plain_cost, found.compared_cost) == (10, None, None, None)
    assert found.read_tokens + found.input_tokens > 0


# Where settings come from: a TOML file, the environment, arguments; and which of them wins.


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("[summarizing_context]\nmax_tokens = '5'\n", "[summarizing_context] max_tokens = '5' is refused"),
        ("[summarizing_context]\nmodell = 5\n", "did you mean"),
        ("[summarizing_context]\nlow_water = 0.95\n", "[summarizing_context] low_water = 0.95 must be below"),
        ("[other]\n", "has no table [summarizing_context]"),
        ("summarizing_context = 5\n", "has no table [summarizing_context]"),
        ("[summarizing_context\n", "cannot be read"),
        ({"MAX_TOKEN": "5"}, "did you mean SUMMARIZING_CONTEXT_MAX_TOKENS?"),
        ({"MAX_TOKENS": "many"}, "SUMMARIZING_CONTEXT_MAX_TOKENS = 'many' is refused"),
        ({"MERGE_USER_ROWS": "maybe"}, "true or false"),
        ({"STORE": ""}, "SUMMARIZING_CONTEXT_STORE = ''"),
    ],
)
def test_an_error_names_the_file_or_the_variable(tmp_path, source, said):
    file, is_file = tmp_path / "run.toml", isinstance(source, str)
    file.write_text(source if is_file else "")
    environ = {} if is_file else {f"SUMMARIZING_CONTEXT_{name}": text for name, text in source.items()}
    with pytest.raises(SettingsError) as caught:
        Settings.from_toml(file) if is_file else Settings.from_env(environ=environ)
    assert (str(file) in str(caught.value)) == is_file
    assert said in str(caught.value)


def test_an_argument_goes_over_the_environment_over_a_file_over_the_default(tmp_path: Path):
    file = tmp_path / "run.toml"
    file.write_text("[summarizing_context]\nmax_tokens = 1\nattempts = 1\nconcurrency = 1\n")
    environ = {"SUMMARIZING_CONTEXT_MAX_TOKENS": "2", "SUMMARIZING_CONTEXT_ATTEMPTS": "2"}
    loaded = Settings.load(file, environ=environ, max_tokens=3)
    assert (loaded.max_tokens, loaded.attempts, loaded.concurrency, loaded.image_tokens) == (3, 2, 1, 1_600)
    # the environment is parsed by the type of each setting
    texts = {"MAX_TOKENS": "16_000", "HIGH_WATER": "0.7", "MERGE_USER_ROWS": "Yes", "IDLE_AFTER": "never", "MODEL": "m"}
    environ = {f"SUMMARIZING_CONTEXT_{name}": text for name, text in texts.items()} | {"HOME": "x"}
    expected = Settings(max_tokens=16_000, high_water=0.7, merge_user_rows=True, idle_after="never", model="m")
    assert Settings.from_env(environ=environ) == expected
    assert Settings.load(environ={"SUMMARIZING_CONTEXT_PROXY_TOKEN": "secret"}) == Settings(), "it is of a server"
