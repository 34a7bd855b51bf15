"""tool_safe: calls and their results are never parted, whatever is covered."""

import random

from .builders import call, result, user, words
from .judge import watched
from .shapes import answered_ids
from .summarizers import Counting


async def test_reused_ids_are_paired_with_the_nearest_call() -> None:
    async with watched(Counting(), budget=600) as judge:
        for turn in range(60):
            said = user(f"turn {turn} " + words(random.Random(turn), 40))
            await judge.add(said, call("openai", ("same", "read", {"n": turn})))
            await judge.view()
            await judge.add(result("openai", "same", f"answer {turn}"))
            view = await judge.view()
            assert view[-1]["content"] == f"answer {turn}"
        assert judge.activations > 2
        assert not judge.repairs


async def test_calls_given_up_get_stand_ins_and_late_results_become_notes_for_ever() -> None:
    async with watched(Counting(), budget=2_000) as judge:
        await judge.add(user("go"), call("openai", ("slow", "run", {})))
        await judge.view()
        await judge.add(user("are you there?"))
        await judge.view()
        await judge.add(result("openai", "slow", "finished at last"))
        for _ in range(3):
            view = await judge.view()
            assert [answered_ids(row) for row in view if answered_ids(row)] == [["slow"]]
            await judge.add(user("go on"))
        assert judge.repairs["stand_in_result"] >= 3
        assert judge.repairs["late_result_note"] >= 3
