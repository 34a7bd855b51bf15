"""Critical messages and system rows between others stay whole: as many as the budget holds, the newest first."""

import random

import anyio
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from .builders import Message, assistant, call, count, result, system, user, words
from .judge import Judge, watched


def cost(message: Message) -> int:
    return 4 + count(message["content"])


async def talk(judge: Judge, rng: random.Random, tokens: int) -> None:
    """Requests with ordinary messages, about so many tokens of them."""
    while tokens > 0:
        said = words(rng, rng.randint(1, max(2, judge.budget // 12)))
        identity = f"t{len(judge.log)}"
        judge.thorough = 25
        step = [call("openai", (identity, "run", {})), result("openai", identity, said)]
        await judge.add(*(step if rng.random() < 0.3 else [assistant(said), user(f"go on {identity}")]))
        await judge.view()
        tokens -= count(said) + 12


def misplaced(view: list[Message], log: list[Message], cap: int) -> list[Message]:
    """Rows that are missing though they would have fitted beside those that go before them, and those in the tail."""
    stay = [row for row in log[::-1] if row.get("critical") or row["role"] == "system"]
    in_tail, found, paid = sum(cost(row) for row in stay if row in view[-1:]), [], 0
    for row in sorted(stay, key=lambda row: not row.get("critical")):
        if row in view:
            paid += cost(row)
        elif paid + in_tail + cost(row) <= cap:
            found.append(row)
    return found


async def judged(budget: int, seed: int, share: float) -> int:
    """A session in which such rows come in at random, `share` of the budget together; how many are left out."""
    rng, cap = random.Random(seed), int(budget - max(budget / 3, 128))  # all but a third, or more of a small budget
    async with watched(budget=budget) as judge:
        await judge.add(user("task"), assistant("ok"))
        left = share * budget
        while left > 0:
            text = f"{len(judge.log)} " + words(rng, rng.randint(1, rng.choice([8, cap // 9, cap // 3])))
            row = rng.choice([system(text), {**rng.choice([user, assistant])(text), "critical": True}])
            await judge.add(row)
            left -= cost(row)
            if rng.random() < 0.5:
                await talk(judge, rng, budget // 30)
        await talk(judge, rng, budget)
        view = await judge.view()
        stay = [row for row in judge.log if row.get("critical") or row["role"] == "system"]
        lost = [row for row in stay if row not in view]
        assert misplaced(view, judge.log, cap) == []
        assert judge.context.statistics().pins_left_out == len(lost)
        assert any(f"{len(lost)} pinned message" in str(row["content"]) for row in view) is bool(lost)
        assert judge.activations > 0
        return len(lost)


@settings(deadline=None, max_examples=3, phases=[Phase.explicit, Phase.generate])  # a smaller case would take minutes
@given(st.integers(1_000, 40_000), st.integers(0, 2**32), st.floats(0.1, 2))
def test_no_row_is_missing_that_would_have_fitted_and_every_view_is_lawful(budget: int, seed: int, share: float):
    anyio.run(judged, budget, seed, share)
