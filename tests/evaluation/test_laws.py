"""The judge of replays, on views that break a law and on views that do not."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from summarizing_context import Settings
from summarizing_context.evaluation.laws import Judge, canonical
from summarizing_context.evaluation.replay import Recorder, Tally, make_costs
from tests.laws import builders
from tests.laws.builders import Message, assistant, user


def call(*ids: str, dialect: str = "openai", role: str = "assistant") -> Message:
    return builders.call(dialect, *((id, "run", {}) for id in ids), role=role)


def result(id: str, text: str = "ok") -> Message:
    return builders.result("openai", id, text)


def looked(judge: Judge, view: list[Message]) -> set[str]:
    """The laws that a view breaks."""
    judge.look(view, [canonical(message) for message in view])
    laws = {"unsafe": judge.tool_unsafe, "order": judge.out_of_order, "hidden": judge.newest_missing}
    return {law for law, is_broken in laws.items() if is_broken}


def of(log: list[Message]) -> Judge:
    judge = Judge()
    for message in log:
        judge.add(message)
    return judge


HELLO, BYE, A, B = user("hello"), user("bye"), call("a"), call("b")
USES, USED = call("a", "b", dialect="anthropic"), builders.results(("a", "ok"), ("b", "ok"))
REPORT = assistant("the report of last week " + "goes on " * 400)
LATE = [HELLO, A, BYE, result("a", "finished at last")]
WAITING = [HELLO, A, result("a", "[no result of this call was recorded]"), BYE]
NOTE = user('<late_result call="a">\nfinished at last\n</late_result>')

AS_IT_CAME = [
    [HELLO, call("a", "b"), result("b"), result("a"), BYE],
    [HELLO, USES, USED, BYE],
    [HELLO, call("a", dialect="amplifier"), result("a"), BYE],
    [HELLO, call("a", "b"), result("b")],  # in flight
    [HELLO, A, result("a"), BYE, {**A, "content": "again"}],  # a reused id in flight
    [{"role": "user", "content": None}, user("\ud800")],
    [HELLO, user("<late_result>text</late_result>")],
    [{"role": "assistant", "content": ["text", 1], "tool_calls": "none"}],
]
PARTED = [
    [HELLO, A, BYE],
    [HELLO, call("a", "b"), result("a"), BYE],
    [HELLO, result("a")],
    [HELLO, A, result("b")],
    [HELLO, A, result("a"), result("a")],
    [HELLO, A, B, result("a"), result("b")],
    [HELLO, call("a", role="user"), BYE],
]


@pytest.mark.parametrize(
    ("log", "view", "law"),
    [
        *((log, log, "") for log in AS_IT_CAME),
        *((log, log, "unsafe") for log in PARTED),
        ([HELLO, A, result("a")], [HELLO, A], "unsafe"),
        ([HELLO, A, B, result("a"), result("b"), BYE], [HELLO, A, result("a"), B, result("b"), BYE], ""),
        ([HELLO, BYE], [BYE, HELLO], "order"),
        ([result("a"), HELLO, A], [HELLO, A, result("a")], "order"),
        ([HELLO, BYE, HELLO, BYE], [HELLO, user("<history>"), HELLO, BYE], ""),
        ([HELLO, BYE, HELLO, BYE], [BYE, BYE, HELLO], "order"),
        *(([HELLO, newest], [HELLO], "hidden") for newest in (BYE, B, USES)),
        *(([HELLO, A, newest], [HELLO, A], "hidden") for newest in (result("a"), builders.results(("a", "ok")))),
        (LATE, WAITING, "hidden"),
        (LATE, [*WAITING, NOTE], ""),
        ([HELLO, REPORT], [HELLO, assistant("the report of last week " + "goes on " * 30)], ""),
        ([HELLO, REPORT], [HELLO, assistant("the report of […390 tokens left out…] goes on")], ""),
        ([HELLO, REPORT], [HELLO, user("the report of […390 tokens left out…] goes on")], "hidden"),
        ([HELLO, REPORT], [HELLO, assistant("the report of this week […90 tokens left out…] on")], "hidden"),
        ([HELLO, REPORT], [HELLO, assistant("the report of this week " + "goes on " * 30)], "hidden"),
    ],
)
def test_a_view_that_breaks_a_law_is_seen_and_no_other(log: list[Message], view: list[Message], law: str):
    assert law in looked(of(log), view) if law else not looked(of(log), view)


def test_an_older_equal_message_is_not_the_newest():
    judge = of([HELLO, BYE])
    looked(judge, [HELLO, BYE])
    judge.add(HELLO)
    assert looked(judge, [HELLO, BYE]) == {"hidden"}
    assert looked(judge, [HELLO, BYE, HELLO]) == set()


async def tally_of(log: list[Message], *views: list[Message], budget: int = 1_000, activated: bool = False) -> Tally:
    """What a replay counts where the context shows these views."""
    context: Any = SimpleNamespace(
        add_message=AsyncMock(),
        next_view=AsyncMock(side_effect=[SimpleNamespace(messages=view) for view in views]),
        last_view=SimpleNamespace(activation="high_water" if activated else None),
    )
    costs = await make_costs(Settings(token_counter="estimate"))
    recorder = Recorder(context, costs, Tally(file="x", budget=budget))
    for message in log:
        await recorder.add(message)
    for _ in views:
        await recorder.take_view()
    return recorder.tally


async def test_views_that_break_a_law_are_counted():
    one, two, three = user("a"), assistant("b"), user("c")
    grown = ([one, two], [one, two, three], [one, three])
    tally = await tally_of([one, two, three], *grown)
    assert tally.append_only_breaks == 1
    assert "append_only_breaks" in tally.broken_laws()
    assert (await tally_of([one, two, three], *grown, activated=True)).append_only_breaks == 0
    long = user("word " * 100)
    assert (await tally_of([long], [long], budget=50)).broken_laws() == {"over_budget_views": 1}
    tally = await tally_of([one, two], [one, result("x")], [two, one], activated=True)
    assert (tally.tool_unsafe_views, tally.out_of_order_views, tally.newest_missing_views) == (1, 1, 1)
