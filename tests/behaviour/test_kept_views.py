"""A host that rewrites the end of its log keeps its view: only what stands behind the difference changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, open_context
from tests.behaviour.test_bound_thinking import thoughts
from tests.laws.builders import assistant, system, user

pytestmark = pytest.mark.anyio

SIZES = {"segment_min": 100, "segment_target": 200, "segment_max": 400, "summary_max_tokens": 22}


def small(**changed: Any) -> Settings:
    return Settings(**{**SIZES, "max_tokens": 2_000, "token_counter": "estimate", **changed})


def step(number: int, *, said: str = "") -> list[dict[str, Any]]:
    thinking = {"type": "thinking", "thinking": f"Thought {number}.", "signature": f"sig{number}"}
    use = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {"n": number}}
    answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"text {number} " * 20}
    return [
        user(said or f"Go on with {number}."),
        {"role": "assistant", "content": [thinking, use]},
        {"role": "user", "content": [answer]},
        assistant(f"Step {number} is done. " * 4),
    ]


def covered(context: Any) -> int:
    """Messages of the log that the view does not show word for word."""
    return context.activations()[-1].covered_to if context.activations() else 0


async def grown(context: Any, steps: int = 19) -> list[dict[str, Any]]:
    """A history of which a view covers some."""
    history = [system("Be brief."), user("Begin. Never push to main.")]
    for number in range(steps):
        history += step(number)
        await context.follow(history)
        await context.wait_idle()
        await context.get_messages_for_request()
    assert covered(context) > 10
    return history


def with_reminder(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As a client sends it that puts its reminder into the newest message, and takes it out of the one before."""
    newest = history[-1]
    return [*history[:-1], {**newest, "content": f"{newest['content']}\n<reminder>Mind the tests.</reminder>"}]


def failed_turn_dropped(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return history[:-4]


def turn_put_in(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*history[:-2], *step(900), *history[-2:]]


def result_gone(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest call of the log was interrupted."""
    return [*history[:-2], user("Stop that."), assistant("Stopped.")]


def newest_said_otherwise(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*history[:-4], *step(901, said="Rather do something else.")]


EDITS = [with_reminder, failed_turn_dropped, turn_put_in, result_gone, newest_said_otherwise]


def same_rows(view: list[Any], before: list[Any]) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(view, before, strict=False)) if a != b), min(len(view), len(before))
    )


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("how", ["follow", "set_messages"])
async def test_the_view_stays_up_to_the_difference(edit: Any, how: str):
    async with open_context(small()) as context:
        history = await grown(context)
        before = await context.get_messages_for_request()
        was, records = covered(context), len(context.activations())
        edited = edit(history)
        await getattr(context, how)(edited)
        view = await context.get_messages_for_request()
        assert context.last_view.activation is None
        assert len(context.activations()) == records
        assert covered(context) == was
        assert same_rows(view, before) >= len(before) - (len(history) - same_rows(history, edited))
        assert context.last_view.stable_prefix_messages == same_rows(view, before)
        assert await context.get_messages() == edited
        assert view[-1] == edited[-1]


async def test_a_reminder_that_moves_with_each_request_costs_no_activation_of_its_own():
    async with open_context(small()) as context, open_context(small()) as plain:
        history = [system("Be brief."), user("Begin.")]
        for number in range(40):
            history += step(number)
            await context.follow(with_reminder(history))
            await plain.follow(history)
            for one in (context, plain):
                await one.wait_idle()
                await one.get_messages_for_request()
        assert plain.statistics().activations > 2
        assert context.statistics().activations <= plain.statistics().activations + 1
        assert "log_replaced" not in context.statistics().activations_by_reason


STRATEGIES = pytest.mark.parametrize("strategy", ["hierarchical", "truncate"])


@STRATEGIES
async def test_a_difference_in_what_the_view_covers_is_an_activation(strategy: str):
    async with open_context(small(strategy=strategy)) as context:
        history = await grown(context)
        at = covered(context) - 1
        await context.follow([*history[:at], user("Something else."), *history[at + 1 :]])
        await context.get_messages_for_request()
        assert context.last_view.activation.reason == "log_replaced"


async def test_a_rule_that_holds_again_is_shown_again():
    """A covered rule was ended by a message that is taken back: the view is made anew, with the rule in it."""
    async with open_context(small()) as context:
        history: list[Any] = [user("Begin."), *step(0), *step(1, said="Always use port 9090.")]
        for number in range(2, 19):
            history += step(number, said="Always use port 8080." if number == 18 else "")
            await context.follow(history)
            await context.wait_idle()
            await context.get_messages_for_request()
        ended = {rule.quote: rule.ended_by for rule in context.standing_rules()}
        assert ended["Always use port 9090."] is not None
        start = next(at for at, row in enumerate(history) if "8080" in str(row["content"]))
        assert 5 < covered(context) <= start
        await context.follow([*history[:start], *step(20)])
        view = await context.get_messages_for_request()
        assert context.last_view.activation.reason == "log_replaced"
        assert "9090" in str(view)


async def test_thinking_that_was_signed_before_an_activation_stays_out_of_its_new_places():
    async with open_context(small()) as context:
        history = await grown(context)
        await context.follow(turn_put_in(history))
        await context.get_messages_for_request()
        for number in range(50, 60):
            history = [*turn_put_in(history), *step(number)]
            await context.follow(history)
            await context.wait_idle()
            view = await context.get_messages_for_request()
            newest = max(at for at, row in enumerate(view) if "Go on with" in str(row["content"]))
            assert thoughts(view[newest:])
        assert await context.get_messages() == history


async def test_a_kept_view_outlives_the_process(tmp_path: Path):
    settings = small(store=tmp_path / "run.db")
    async with open_context(settings) as context:
        history = with_reminder(await grown(context))
        await context.follow(history)
        before = await context.get_messages_for_request()
    async with open_context(settings) as context:
        history = [*history, *step(70)]
        await context.follow(history)
        view = await context.get_messages_for_request()
        assert context.last_view.activation is None
        assert view[: len(before)] == before
