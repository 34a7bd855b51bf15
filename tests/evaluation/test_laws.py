"""The judge of replays, on views that break a law and on views that do not."""

from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from summarizing_context import Settings
from summarizing_context.evaluation.replay import Recorder, Tally, make_price
from tests.laws import builders
from tests.laws.builders import Message, assistant, results, user


def call(*ids: str, dialect: str = "openai", role: str = "assistant") -> Message:
    return builders.call(dialect, *((id, "run", {}) for id in ids), role=role)


result = partial(builders.result, "openai", text="ok")
HELLO, BYE, A, B, OF_A, OF_B = user("hello"), user("bye"), call("a"), call("b"), result("a"), result("b")
USES, USED = call("a", "b", dialect="anthropic"), results(("a", "ok"), ("b", "ok"))
START, CUT = "the report of last week ", "[…390 tokens left out…] goes on"
REPORT = assistant(START + "goes on " * 400)
LATE = [HELLO, A, BYE, result("a", text="finished at last")]
WAITING = [HELLO, A, result("a", text="[no result of this call was recorded]"), BYE]
NOTE = user('<late_result call="a">\nfinished at last\n</late_result>')


UNSAFE, ORDER, HIDDEN = "tool_unsafe_views", "out_of_order_views", "newest_missing_views"
AS_IT_CAME = [
    [HELLO, call("a", "b"), OF_B, OF_A, BYE],
    [HELLO, USES, USED, BYE],
    [HELLO, call("a", dialect="amplifier"), OF_A, BYE],
    [HELLO, call("a", "b"), OF_B],  # in flight
    [HELLO, A, OF_A, BYE, {**A, "content": "again"}],  # a reused id in flight
    [{"role": "user", "content": None}, user("\ud800")],
    [HELLO, user("<late_result>text</late_result>")],
    [{"role": "assistant", "content": ["text", 1], "tool_calls": "none"}],
]
PARTED = [
    *([HELLO, A, BYE], [HELLO, call("a", "b"), OF_A, BYE], [HELLO, OF_A], [HELLO, A, OF_B]),
    *([HELLO, A, OF_A, OF_A], [HELLO, A, B, OF_A, OF_B], [HELLO, call("a", role="user"), BYE]),
]


async def tally_of(*steps: tuple[list[Message], list[Message]], budget: int = 1_000, activated: bool = False) -> Tally:
    """What a replay counts where these messages come, and the context shows this view then."""
    context: Any = SimpleNamespace(
        add_message=AsyncMock(),
        next_view=AsyncMock(side_effect=[SimpleNamespace(messages=view) for _, view in steps]),
        last_view=SimpleNamespace(activation="high_water" if activated else None),
    )
    price = await make_price(Settings(token_counter="estimate"))
    recorder = Recorder(context, price, Tally(file="x", budget=budget))
    for added, _ in steps:
        for message in added:
            await recorder.add(message)
        await recorder.take_view()
    return recorder.tally


@pytest.mark.parametrize(
    ("log", "view", "law"),
    [
        *((log, log, "") for log in AS_IT_CAME),
        *((log, log, UNSAFE) for log in PARTED),
        ([HELLO, A, OF_A], [HELLO, A], UNSAFE),
        ([HELLO, A, B, OF_A, OF_B, BYE], [HELLO, A, OF_A, B, OF_B, BYE], ""),
        ([HELLO, BYE], [BYE, HELLO], ORDER),
        ([OF_A, HELLO, A], [HELLO, A, OF_A], ORDER),
        ([HELLO, BYE, HELLO, BYE], [HELLO, user("<history>"), HELLO, BYE], ""),
        ([HELLO, BYE, HELLO, BYE], [BYE, BYE, HELLO], ORDER),
        *(([HELLO, newest], [HELLO], HIDDEN) for newest in (BYE, B, USES)),
        *(([HELLO, A, newest], [HELLO, A], HIDDEN) for newest in (OF_A, results(("a", "ok")))),
        (LATE, WAITING, HIDDEN),
        (LATE, [*WAITING, NOTE], ""),
        *(([HELLO, REPORT], [HELLO, assistant(text)], "") for text in (f"{START}goes on goes", f"the report of {CUT}")),
        ([HELLO, REPORT], [HELLO, user(f"the report of {CUT}")], HIDDEN),
        *(([HELLO, REPORT], [HELLO, assistant(f"the report of this week {end}")], HIDDEN) for end in (CUT, "goes on")),
    ],
)
async def test_a_view_that_breaks_a_law_is_seen_and_no_other(log: list[Message], view: list[Message], law: str):
    broken = (await tally_of((log, view), budget=1_000_000)).broken_laws()
    assert law in broken if law else not broken


async def test_views_that_break_a_law_are_counted():
    one, two, three = user("a"), assistant("b"), user("c")
    grown = list(zip([[one, two, three], [], []], ([one, two], [one, two, three], [one, three]), strict=True))
    assert (await tally_of(*grown)).broken_laws()["append_only_breaks"] == 1
    assert (await tally_of(*grown, activated=True)).counts["append_only_breaks"] == 0
    long = [user("word " * 100)]
    assert (await tally_of((long, long), budget=50)).broken_laws() == {"over_budget_views": 1}
    tally = await tally_of(([one, two], [one, result("x")]), ([], [two, one]), activated=True)
    assert tally.broken_laws() == dict.fromkeys((UNSAFE, ORDER, HIDDEN), 1)
    older = ([HELLO, BYE], [HELLO, BYE]), ([HELLO], [HELLO, BYE]), ([], [HELLO, BYE, HELLO])
    assert (await tally_of(*older)).broken_laws() == {HIDDEN: 1}, "an older equal message is not the newest"
