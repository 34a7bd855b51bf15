"""A host that rewrites the end of its log keeps its view: only what stands behind the difference changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, SummaryJob, open_context
from tests.laws.builders import assistant, count, session, system, user

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


STRATEGIES = pytest.mark.parametrize("strategy", ["hierarchical", "truncate"])


@STRATEGIES
async def test_a_difference_in_what_the_view_covers_is_an_activation(strategy: str):
    async with open_context(small(strategy=strategy)) as context:
        history = await grown(context)
        at = covered(context) - 1
        await context.follow([*history[:at], user("Something else."), *history[at + 1 :]])
        await context.get_messages_for_request()
        assert context.last_view.activation.reason == "log_replaced"


async def test_who_only_looks_sees_each_summary_whatever_has_made_it(tmp_path: Path):
    class Model:
        recipe = "one of my own"

        async def summarize(self, job: SummaryJob) -> str:
            return "none" if job.kind == "rules" else f"- Messages {job.start} to {job.stop}."

    settings = Settings(store=tmp_path / "s.db", session_id="s1", max_tokens=16_000)
    async with open_context(settings, summarizer=Model(), count_tokens=count) as context:
        for message in session(31, 400):
            await context.add_message(message)
        await context.get_messages_for_request()
        await context.wait_idle()
        made = context.statistics()
    async with open_context(settings, count_tokens=count, read_only=True) as context:
        seen = context.statistics()
    assert made.summaries_ready == made.segments > 3
    assert (seen.summaries_ready, seen.segments) == (made.summaries_ready, made.segments)
