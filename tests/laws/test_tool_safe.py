"""tool_safe: calls and their results are never parted, whatever is covered. newest_message_present: nothing is hidden
behind a call that waits, however results are lost, doubled or swapped."""

import json
import random
import re
from collections import Counter

import pytest

from summarizing_context.adapters.amplifier.messages import NOT_YET, fit_rows

from .amounts import ALL
from .builders import Message, assistant, call, result, user, words
from .checkers import prefix_problems, refusals
from .judge import watched
from .shapes import answered_ids, plain_text
from .summarizers import Counting

Log = list[tuple[str, str]]  # what happens, and to which call, or calls
FORMS = ("openai", "anthropic", "joined")
LINES = (("a",), ("ab",), ("a", "b"), ("abc",), ("ab", "c"), ("a", "bc"), ("a", "b", "c"))
MARK = re.compile(r"<<.*?>>")


async def test_reused_ids_are_paired_with_the_nearest_call() -> None:
    async with watched(Counting(), budget=600) as judge:
        for turn in range(40):
            said = user(f"turn {turn} " + words(random.Random(turn), 40))
            await judge.add(said, call("openai", ("same", "read", {"n": turn})))
            await judge.view()
            await judge.add(result("openai", "same", f"answer {turn}"))
            assert (await judge.view())[-1]["content"] == f"answer {turn}"
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


def episode(rng: random.Random) -> Log:
    """Up to three calls in any order with their results; any of these lost, or doubled; perhaps words somewhere."""
    lines, events = list(rng.choice(LINES)), list[tuple[str, str]]()
    came = [id for id in "".join(lines) for _ in range(rng.choice((0, 1, 1, 2)))]
    while lines or came:
        ready = [id for id in came if id not in "".join(lines)]
        if lines and (not ready or rng.random() < 0.5):
            events.append(("call", lines.pop(0)))
        elif id := rng.choice(ready):
            came.remove(id)
            events.append(("result", id))
    if rng.random() < 0.5:
        events.insert(rng.randint(1, len(events)), (rng.choice(["user", "assistant", "passing"]), ""))
    return events


def messages_of(events: Log, number: int, dialect: str) -> list[Message]:
    """The rows of an episode, with ids of its own; in `joined` results that come together are in one row."""
    protocol = "anthropic" if dialect == "joined" else dialect
    rows: list[Message] = [user(f"<<{number} begins>>")]
    times: Counter[str] = Counter()
    for kind, ids in events:
        times[kind + ids] += 1
        if kind == "call":
            rows.append(call(protocol, *((f"{id}{number}", "run", {"what": f"<<{number} call {id}>>"}) for id in ids)))
        elif kind == "result":
            row = result(protocol, f"{ids}{number}", f"<<{number} result {ids} {times[kind + ids]}>>")
            goes_on = dialect == "joined" and answered_ids(rows[-1])
            rows.append(user([*rows.pop()["content"], *row["content"]]) if goes_on else row)
        else:
            said = (assistant if kind == "assistant" else user)(f"<<{number} {kind}>>")
            rows.append({**said, "ephemeral": True} if kind == "passing" else said)
    return rows


@pytest.mark.parametrize("dialect", FORMS)
async def test_every_interleaving_of_three_calls_shows_its_newest_message(dialect: str) -> None:
    """A sample of them, a few to a session: a view after each message, and as the Amplifier adapter sends it."""
    repairs, rng = Counter[str](), random.Random(7)
    for _ in range(10 if ALL else 2):
        sent: list[Message] = []
        async with watched(budget=1_000_000) as judge:
            for number in range(8):
                for message in messages_of(events := episode(rng), number, dialect):
                    await judge.add(message)
                    fitted, _ = fit_rows(await judge.view())
                    last, sent = sent, [row for row in fitted if row["content"] != NOT_YET]
                    assert prefix_problems(last, sent) + refusals(fitted) == [], (events, fitted[-6:])
            await judge.add(user("<<the end>>"))
            view = await judge.view()
            assert sorted(MARK.findall(json.dumps(view))) == sorted(MARK.findall(json.dumps(judge.log)))
            texts = [plain_text(row["content"]) for row in view if not answered_ids(row)]
            assert all(text.startswith("<late_result ") for text in texts if " result " in text)
            repairs += judge.repairs
    assert min(repairs["stand_in_result"], repairs["late_result_note"]) > 5
