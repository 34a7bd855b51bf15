"""The judge can fail: it catches a context that lies in any of these ways."""

import copy
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from summarizing_context import message_text_parts
from summarizing_context.errors import BudgetError

from .builders import Message, assistant, call, count, result, session, user
from .checkers import view_tokens
from .judge import Judge, LawBroken

HEADER = user("<history>so far</history>")


class Lying:
    """Shows what `lie` makes of the log."""

    def __init__(self, lie: Callable[[list[Message]], list[Message]], *, keeps: bool = True) -> None:
        self.lie, self.keeps, self.log, self.activated = lie, keeps, list[Message](), 0
        self.last_view: SimpleNamespace | None = None

    async def add_message(self, message: Message) -> None:
        self.log.append(copy.deepcopy(message) if self.keeps else message)

    async def get_messages(self) -> list[Message]:
        return copy.deepcopy(self.log)

    async def get_messages_for_request(self, budget: int) -> list[Message]:
        view = copy.deepcopy(self.lie(copy.deepcopy(self.log)))
        tokens = view_tokens(view, count, 1600, message_text_parts)
        self.last_view = SimpleNamespace(tokens=tokens, activation=None)
        return view

    def statistics(self) -> SimpleNamespace:
        return SimpleNamespace(activations=self.activated, activations_by_reason={}, repairs={})

    activations = list
    budget = staticmethod(lambda: SimpleNamespace(max_tokens=100_000))


def inside(log: list[Message]) -> int:
    """The first row that answers a call, in the second half."""
    return next(n for n, row in enumerate(log) if row["role"] == "tool" and n > len(log) // 2)


def with_changed(log: list[Message], **fields: object) -> list[Message]:
    return [*log[:5], {**log[5], **fields}, *log[6:]]


LIES = {
    "a row is missing": lambda log: log[:9] + log[10:],
    "the newest row is missing": lambda log: log[:-1],
    "a row is changed": lambda log: with_changed(log, content="something else"),
    "two rows are swapped": lambda log: [*log[:-2], log[-1], log[-2]],
    "a row is shown twice": lambda log: [*log, log[-1]],
    "a header covers nothing": lambda log: [log[0], HEADER, *log[1:]],
    "the tail begins inside a group": lambda log: [*log[:2], HEADER, *log[inside(log) :]],
    "nothing is shown": lambda log: [],
    "a result is lost": lambda log: log[: inside(log)] + log[inside(log) + 1 :],
    "a result stands before its call": lambda log: [log[0], log[inside(log)], *log[1:]],
    "a row is cut and edited": lambda log: with_changed(log, content="[… 9 tokens left out …] not so"),
    "a field is added": lambda log: with_changed(log, seen=True),
}


@pytest.mark.parametrize("lie", [*sorted(LIES), ""])
async def test_a_view_is_not_lawful_when(lie: str) -> None:
    judge = Judge(Lying(LIES.get(lie, list)), budget=100_000)
    await judge.add(*session(57, 40))
    with pytest.raises(LawBroken) if lie else nullcontext():
        await judge.view()
    if not lie:  # an honest context passes
        await judge.live(session(58, 40, rules=""))
        await judge.check_log()


async def test_a_prefix_that_changes_without_an_activation_is_caught_and_with_one_is_not() -> None:
    context = Lying(lambda log: log)
    judge = Judge(context, budget=100_000)
    await judge.add(user("first"), assistant("a"), user("b"))
    await judge.add(call("openai", ("c", "run", {})), result("openai", "c", "d"))
    await judge.view()
    context.lie = lambda log: [log[0], HEADER, *log[2:]]
    with pytest.raises(LawBroken, match="append_only"):
        await judge.view()
    context.activated += 1
    assert await judge.view()


def refuse(log: list[Message]) -> list[Message]:
    raise BudgetError(300, 200)


@pytest.mark.parametrize(
    ("law", "lie", "said"),
    [("log_is_untouched", list, "hello"), ("within_budget", list, "word " * 400), ("within_budget", refuse, "hello")],
)
async def test_a_log_in_reach_a_view_over_budget_and_a_refusal_without_need_are_caught(
    law: str, lie: Callable[[list[Message]], list[Message]], said: str
) -> None:
    judge = Judge(Lying(lie, keeps=law == "within_budget"), budget=200)
    await judge.add(user(said))
    with pytest.raises(LawBroken, match=law):
        await (judge.view() if law == "within_budget" else judge.check_log())


@pytest.mark.parametrize("budget", [150, 400])
async def test_the_newest_call_may_stand_alone_where_stand_ins_for_those_before_take_the_room(budget: int) -> None:
    judge = Judge(Lying(lambda log: [log[0], HEADER, user("[1 call left out]")]), budget=budget, keeps=True)
    await judge.add(user("Look at all of them."))
    await judge.add(*(call("openai", (f"c{n}", "read", {"path": "a"})) for n in range(5)))
    with nullcontext() if budget == 150 else pytest.raises(LawBroken, match="newest_message_present"):
        assert await judge.view()
