"""`statistics().cache`: what requests took from the provider's prompt cache, and what a plain client's would have."""

from typing import Any

import pytest

from summarizing_context import Settings, SummarizingContext, open_context
from tests.behaviour.contexts import Provider, said
from tests.laws.builders import Message, user

READ, WRITE, OUTPUT = 0.2, 5.0, 20.0  # dollars for a million tokens of claude-opus-5-5


def of(window: int, lifetime: float | None = None, model: str = "claude-opus-5-5") -> Provider:
    return Provider("p", model, context_window=window, cache_lifetime=lifetime)


def opened(now: list[float] | None = None, **settings: Any) -> Any:
    sizes: Any = {"segment_min": 200, "segment_target": 400, "segment_max": 800, "safety_margin": 0}
    made = Settings(token_counter="estimate", reserved_output=0, **{**sizes, **settings})
    return open_context(made, clock=lambda: now[0] if now else 0.0)


def chat(count: int) -> list[Message]:
    """Messages of about 150 tokens; the first is long enough for any cache."""
    first = " The task is long." * 400
    return [said(at, " ".join(f"part {at}.{n} of it" for n in range(20)) + first * (at == 0)) for at in range(count)]


async def asked(context: SummarizingContext, messages: Any, provider: Any, *, tells: bool = True) -> Any:
    """Make one request for each message, of a provider that never forgets what it has seen; the ledger."""
    for message in messages:
        last = context.last_view
        await context.add_message(message)
        view = await context.next_view(provider=provider)
        kept = 0 if last is None or view.activation is not None else last.tokens
        if tells:
            await context.observe_usage(0, cache_read=kept, cache_write=view.tokens - kept, output_tokens=10)
    return context.statistics().cache


async def test_what_the_provider_told_is_counted_and_priced_beside_a_plain_client():
    async with opened() as context:
        found = await asked(context, chat(40), of(200_000))
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


async def test_views_cost_less_than_the_whole_history_until_its_window_is_full():
    async with opened(max_tokens=8_000) as context:
        found = await asked(context, chat(230), of(30_000))
        figures = context.statistics()
    assert figures.activations > 2
    assert figures.history_tokens > 30_000
    assert 50 < found.plain_requests < found.requests
    assert found.plain_input_tokens + found.plain_read_tokens + found.plain_written_tokens <= 30_000 * found.requests
    assert 0 < found.compared_cost < min(found.plain_cost, found.cost)


async def test_without_a_word_of_the_provider_it_is_estimated_by_beginning_and_clock():
    async with opened(max_tokens=8_000) as told, opened(max_tokens=8_000) as silent:
        real = await asked(told, chat(100), of(30_000))
        estimate = await asked(silent, chat(100), of(30_000), tells=False)
    assert (real.reported, estimate.reported) == (real.requests, 0)
    assert estimate.requests == real.requests
    assert estimate.read_tokens == pytest.approx(real.read_tokens, rel=0.05)
    assert estimate.cost == pytest.approx(real.cost - real.output_tokens * OUTPUT / 1e6, rel=0.1)


@pytest.mark.parametrize(("lifetime", "expiries"), [(None, 1), (3_600, 0)])
async def test_a_beginning_that_the_cache_gave_up_is_paid_again_and_counted(lifetime: float | None, expiries: int):
    now = [0.0]
    async with opened(now, idle_after="never") as context:
        *first, last = chat(20)
        before = await asked(context, first, of(200_000, lifetime), tells=False)
        now[0] += 301
        found = await asked(context, [last], of(200_000, lifetime), tells=False)
    assert (before.expiries, found.expiries) == (0, expiries)
    assert (found.written_tokens - before.written_tokens > 2_000) == bool(expiries)
    assert (found.expired_tokens > 2_000) == bool(expiries)


async def test_writes_for_an_hour_and_steps_have_their_own_price_and_an_unknown_model_has_none():
    async with opened() as context:
        await context.add_message(user("hello"))
        await context.next_view(provider=of(1_000_000, 3_600, "claude-haiku-5-5"))
        await context.observe_usage(0, cache_read=50_000, cache_write_long=60_000, output_tokens=100)
        found = context.statistics().cache
    assert (found.written_tokens, found.read_tokens) == (60_000, 50_000)
    assert found.cost == pytest.approx((60_000 * 1.0 + 50_000 * 0.05 + 100 * 2.5) / 1e6)  # beyond 100,000 tokens
    async with opened() as context:
        found = await asked(context, chat(10), of(100_000, model="model-of-mine"), tells=False)
    assert (found.requests, found.cost, found.plain_cost, found.compared_cost) == (10, None, None, None)
    assert found.read_tokens + found.input_tokens > 0


async def test_another_view_of_the_session_costs_a_plain_client_nothing_more():
    async with opened() as context:
        before = await asked(context, chat(30), of(200_000), tells=False)
        await context.next_view(3_000, of(200_000))  # a small room has a view of its own
        found = context.statistics().cache
    assert found.requests == before.requests + 1
    assert found.plain_read_tokens - before.plain_read_tokens == before.plain_written_tokens  # its whole history
    assert found.plain_written_tokens == before.plain_written_tokens
