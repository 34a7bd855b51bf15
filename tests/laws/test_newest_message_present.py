"""newest_message_present: nothing is hidden behind a call that waits, however results are lost, late, doubled or
swapped. Every text of a message is there once and names it."""

import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from summarizing_context.adapters.amplifier.messages import NOT_YET, fit_rows

from .amounts import ALL
from .builders import Message, assistant, call, result, user
from .checkers import prefix_problems, refusals
from .judge import watched
from .shapes import answered_ids, plain_text

Event = tuple[str, str]  # what happens, and to which call, or calls
Log = tuple[Event, ...]
DIALECTS = ("openai", "anthropic", "joined")
LINES = (("a",), ("ab",), ("a", "b"), ("abc",), ("ab", "c"), ("a", "bc"), ("a", "b", "c"))
MARK = re.compile(r"<<.*?>>")


def orders(lines: tuple[str, ...], results: str) -> Iterator[Log]:
    """Every order of call rows and results in which no result comes before its call."""
    for order in sorted(set(itertools.permutations([*lines, *(id.upper() for id in results)]))):
        rows = [item for item in order if item in lines]
        if rows != list(lines):
            continue
        called: set[str] = set()
        events: list[Event] = []
        for item in order:
            if item in lines:
                called |= set(item)
                events.append(("call", item))
            elif item.lower() in called:
                events.append(("result", item.lower()))
        if len(events) == len(order):
            yield tuple(events)


def episodes() -> list[Log]:
    """Up to three calls; any of their results lost, one of them doubled; each once more with words somewhere in it,
    some of them ephemeral."""
    rng = random.Random(7)
    found: list[Log] = []
    for lines in LINES:
        ids = "".join(lines)
        for came in itertools.product((0, 1), repeat=len(ids)):
            results = "".join(id * times for id, times in zip(ids, came, strict=True))
            for doubled in ("", *results):
                for events in orders(lines, results + doubled):
                    found.append(events)
                    at = rng.randint(1, len(events))
                    found.append((*events[:at], (rng.choice(["user", "assistant", "passing"]), ""), *events[at:]))
    return found


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
            words = (assistant if kind == "assistant" else user)(f"<<{number} {kind}>>")
            rows.append({**words, "ephemeral": True} if kind == "passing" else words)
    return rows


def marks(rows: list[Message]) -> list[str]:
    return MARK.findall(json.dumps(rows))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_every_interleaving_of_three_calls_shows_its_newest_message(dialect: str) -> None:
    """A sample of them, a few to a session: a view after each message, and as the Amplifier adapter sends it."""
    every, repairs = episodes(), Counter[str]()
    assert len(every) > 800
    rng = random.Random(7)
    for _ in range(10 if ALL else 3):
        sent: list[Message] = []
        async with watched(budget=1_000_000) as judge:
            for number, events in enumerate(rng.sample(every, 8)):
                for message in messages_of(events, number, dialect):
                    await judge.add(message)
                    fitted, _ = fit_rows(await judge.view())
                    last, sent = sent, [row for row in fitted if row["content"] != NOT_YET]
                    assert prefix_problems(last, sent) + refusals(fitted) == [], (events, fitted[-6:])
            await judge.add(user("<<the end>>"))
            view = await judge.view()
            assert sorted(marks(view)) == sorted(marks(judge.log))
            texts = [plain_text(row["content"]) for row in view if not answered_ids(row)]
            assert all(text.startswith("<late_result ") for text in texts if " result " in text)
            repairs += judge.repairs
    assert min(repairs["stand_in_result"], repairs["late_result_note"]) > 5
