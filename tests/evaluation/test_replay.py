"""Replaying logs: figures that tell the truth. Files, budgets, stores and errors are tested with the command."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from summarizing_context import Settings
from summarizing_context.evaluation.demo import demo_session
from summarizing_context.evaluation.replay import LAW_FIGURES, Recorder, Tally, add_up, make_costs, replay_log
from summarizing_context.transcripts import Transcript
from tests.laws.builders import Message, assistant, result, user

ESTIMATE = Settings(token_counter="estimate")
NAMES = """file token_counter messages history_tokens views refused_views budget strategy max_view_tokens
mean_view_tokens over_budget_views tool_unsafe_views out_of_order_views newest_missing_views unseen_tokens activations
append_only_breaks prefix_hit uncached_tokens model_calls model_input_tokens model_output_tokens
stand_ins repairs skipped skipped_lines view_p50_ms view_p99_ms activation_p99_ms"""


class Context:
    """Stands where a context does, and hands out the views that it was given."""

    def __init__(self, views: tuple[list[Message], ...], *, activated: bool) -> None:
        self._views = list(views)
        self.last_view: Any = type("View", (), {"activation": "high_water" if activated else None})

    async def add_message(self, message: Message) -> None: ...

    async def next_view(self, token_budget: int, bound_thinking: str) -> Any:
        return SimpleNamespace(messages=self._views.pop(0))


async def tally_of(log: list[Message], *views: list[Message], budget: int = 1_000, activated: bool = False) -> Tally:
    context: Any = Context(views, activated=activated)
    recorder = Recorder(context, await make_costs(ESTIMATE), Tally(file="x", budget=budget))
    for message in log:
        await recorder.add(message)
    for _ in views:
        await recorder.take_view()
    return recorder.tally


async def test_the_demo_session_keeps_every_law_and_its_figures_have_their_published_names():
    messages = demo_session(turns=12)
    log = Transcript("x", "messages", tuple(messages), {}, tuple(range(1, len(messages) + 1)), path=Path("x.jsonl"))
    (tally,) = await replay_log("demo", log, [replace(ESTIMATE, max_tokens=6_000)])
    figures = tally.figures()
    assert set(figures) == set(NAMES.split())
    assert {figures[name] for name in LAW_FIGURES} == {0}
    assert (tally.broken_laws(), tally.messages) == ({}, len(messages))
    assert tally.views == sum(message["role"] == "assistant" for message in messages)
    assert tally.activations > 0
    total = add_up([tally, tally])
    assert (total.file, total.budget, total.views) == ("total", 6_000, 2 * tally.views)
    assert total.max_view_tokens == tally.max_view_tokens
    assert total.figures()["mean_view_tokens"] == figures["mean_view_tokens"]


async def test_views_that_break_a_law_are_counted():
    one, two, three = user("a"), assistant("b"), user("c")
    grown = ([one, two], [one, two, three], [one, three])
    tally = await tally_of([one, two, three], *grown)
    assert tally.append_only_breaks == 1
    assert "append_only_breaks" in tally.broken_laws()
    assert (await tally_of([one, two, three], *grown, activated=True)).append_only_breaks == 0
    long = user("word " * 100)
    assert (await tally_of([long], [long], budget=50)).broken_laws() == {"over_budget_views": 1}
    tally = await tally_of([one, two], [one, result("openai", "x", "ok")], [two, one], activated=True)
    assert (tally.tool_unsafe_views, tally.out_of_order_views, tally.newest_missing_views) == (1, 1, 1)
