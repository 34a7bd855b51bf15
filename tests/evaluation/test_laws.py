"""The judge of replays, on views that break a law and on views that do not."""

import pytest

from summarizing_context.evaluation.laws import Judge, canonical
from tests.laws import builders
from tests.laws.builders import Message, assistant, user


def call(*ids: str, dialect: str = "openai", role: str = "assistant") -> Message:
    return builders.call(dialect, *((id, "run", {}) for id in ids), role=role)


def result(id: str, text: str = "ok") -> Message:
    return builders.result("openai", id, text)


def uses(*ids: str) -> Message:
    return call(*ids, dialect="anthropic")


def used(*ids: str) -> Message:
    return builders.results(*((id, "ok") for id in ids))


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
REPORT = assistant("the report of last week " + "goes on " * 400)
LATE = [HELLO, A, BYE, result("a", "finished at last")]
WAITING = [HELLO, A, result("a", "[no result of this call was recorded]"), BYE]
NOTE = user('<late_result call="a">\nfinished at last\n</late_result>')


@pytest.mark.parametrize(
    "log",
    [
        [HELLO, call("a", "b"), result("b"), result("a"), BYE],
        [HELLO, uses("a", "b"), used("a", "b"), BYE],
        [HELLO, call("a", dialect="amplifier"), result("a"), BYE],
        [HELLO, call("a", "b"), result("b")],  # in flight
        [HELLO, A, result("a"), BYE, {**A, "content": "again"}],  # a reused id in flight
        [{"role": "user", "content": None}, user("\ud800")],
        [HELLO, user("<late_result>text</late_result>")],
        [{"role": "assistant", "content": ["text", 1], "tool_calls": "none"}],
    ],
)
def test_a_log_as_it_came_is_lawful(log: list[Message]):
    assert looked(of(log), log) == set()


@pytest.mark.parametrize(
    ("log", "view", "law"),
    [
        *(
            (view, view, "unsafe")  # a call parted from its results
            for view in (
                [HELLO, A, BYE],
                [HELLO, call("a", "b"), result("a"), BYE],
                [HELLO, result("a")],
                [HELLO, A, result("b")],
                [HELLO, A, result("a"), result("a")],
                [HELLO, A, B, result("a"), result("b")],
                [HELLO, call("a", role="user"), BYE],
            )
        ),
        ([HELLO, A, result("a")], [HELLO, A], "unsafe"),
        ([HELLO, A, B, result("a"), result("b"), BYE], [HELLO, A, result("a"), B, result("b"), BYE], ""),
        ([HELLO, BYE], [BYE, HELLO], "order"),
        ([result("a"), HELLO, A], [HELLO, A, result("a")], "order"),
        ([HELLO, BYE, HELLO, BYE], [HELLO, user("<history>"), HELLO, BYE], ""),
        ([HELLO, BYE, HELLO, BYE], [BYE, BYE, HELLO], "order"),
        *(([HELLO, newest], [HELLO], "hidden") for newest in (BYE, B, uses("b"))),
        *(([HELLO, A, newest], [HELLO, A], "hidden") for newest in (result("a"), used("a"))),
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


def test_it_counts_what_a_view_begins_with_as_the_view_before():
    judge = of(log := [HELLO, A, result("a"), BYE])
    looked(judge, [HELLO, A])
    assert (looked(judge, log), judge.common) == (set(), 2)
    assert "order" in looked(judge, [BYE, HELLO])
    assert "order" not in looked(judge, [HELLO, BYE])
    assert judge.common == 0


def test_an_older_equal_message_is_not_the_newest():
    judge = of([HELLO, BYE])
    looked(judge, [HELLO, BYE])
    judge.add(HELLO)
    assert looked(judge, [HELLO, BYE]) == {"hidden"}
    assert looked(judge, [HELLO, BYE, HELLO]) == set()
