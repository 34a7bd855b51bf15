"""newest_message_present: nothing is hidden behind a call that waits, however results are lost, late, doubled or
swapped. The judge reads messages alone; every text in them is there once and names its message."""

import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from summarizing_context import Settings, open_context
from summarizing_context.adapters.amplifier.messages import NOT_YET, fit_rows

from .amounts import ALL
from .builders import Message, assistant, call, count, result, user
from .checkers import in_flight, refusals, tool_safe_problems
from .shapes import answered_ids, called_ids

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


def held(log: list[Message], waiting: list[str], last: int | None = None) -> set[str]:
    """What may wait: the lines of split calls right behind the one that is in flight, up to the `last` message."""
    shown = next((at for at, row in enumerate(log) if set(waiting) & set(called_ids(row))), len(log))
    return set(marks(list(itertools.takewhile(called_ids, log[shown + 1 : last]))))


def problems(view: list[Message], log: list[Message], *, requested: bool = False) -> list[str]:
    """What is wrong with the view of a log of which every message has to be in it; of one that was `requested`, the
    newest message in any case."""
    found, waiting = tool_safe_problems(view), in_flight(view)
    shown, wanted = marks(view), marks(log)
    found += [f"{mark} stands {times} times" for mark, times in Counter(shown).items() if times > 1]
    missing = set(wanted) - set(shown)
    if missing - held(log, waiting, -1 if requested else None):
        found.append(f"{sorted(missing)} hidden while {waiting} wait")
    for row in view:
        content = row["content"] if isinstance(row["content"], str) else json.dumps(row["content"])
        if " result " in content and "<<" in content and not answered_ids(row):
            found += [] if content.startswith("<late_result ") else [f"a result is shown as {row}"]
    return found


def rewritten(before: list[Message], after: list[Message]) -> list[str]:
    size = len(before)
    return [] if after[:size] == before else [f"{before[-3:]} became {after[size - 3 : size + 1]}"]


def newest_episode(rows: list[Message]) -> list[Message]:
    """What stands from the beginning of the newest episode on."""
    begin = next(at for at in range(len(rows) - 1, -1, -1) if " begins>>" in str(rows[at]["content"]))
    return rows[begin:]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_every_interleaving_of_three_calls_shows_its_newest_message(dialect: str) -> None:
    """A sample of them, a few to a session: a view after each message, and as the Amplifier adapter sends it."""
    every, repairs = episodes(), Counter[str]()
    assert len(every) > 800
    rng = random.Random(7)
    for _ in range(10 if ALL else 3):
        view: list[Message] = []
        sent: list[Message] = []
        async with open_context(Settings(max_tokens=1_000_000), count_tokens=count) as context:
            for number, events in enumerate(rng.sample(every, 8)):
                log = messages_of(events, number, dialect)
                for at, message in enumerate(log, 1):
                    await context.add_message(message)
                    before, view = view, await context.get_messages_for_request()
                    fitted, _ = fit_rows(view)
                    last, sent = sent, [row for row in fitted if row["content"] != NOT_YET]
                    wrong = problems(newest_episode(view), log[:at], requested=True)
                    wrong += rewritten(before, view) + rewritten(last, sent)
                    wrong += refusals(newest_episode(fitted))
                    assert not wrong, (events, newest_episode(view), wrong)
            await context.add_message(user("<<the end>>"))
            view = await context.get_messages_for_request()
            assert sorted(marks(view)) == sorted(marks(await context.get_messages()))
            repairs.update(context.statistics().repairs)
    assert min(repairs["stand_in_result"], repairs["late_result_note"]) > 5
