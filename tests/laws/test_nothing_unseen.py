"""nothing_unseen: what has left the raw tail was given whole to a summarizer; a marker stands every 40 characters.
bounded_passes: a fact goes through at most floor(log4 segments) + 1 summarizations, its segment's own counted."""

import random
import re
from typing import Any

import pytest

from .builders import DIALECTS, Message, assistant, call, marked, result, session, user, words
from .checkers import find_tail
from .judge import TINY, Judge, most_passes, watched
from .shapes import canonical, plain_text
from .summarizers import Counting, Failing

SHORT = {"segment_min": 50, "segment_target": 150, "segment_max": 300, "summary_max_tokens": 37}


class Markers(random.Random):
    """Writes marked messages and remembers in which log entry each marker is."""

    def __init__(self, seed: int, dialect: str) -> None:
        super().__init__(seed)
        self.dialect, self.calls = dialect, 0
        self.entry: dict[str, int] = {}

    def text(self, entry: int, tokens: int) -> str:
        text, marks = marked(len(self.entry), tokens)
        self.entry.update(dict.fromkeys(marks, entry))
        return text

    def turn(self, entry: int) -> list[Message]:
        """An ask, a call with marked arguments, results (now and then a very long one), an answer."""
        self.calls += 1
        ask, argument, short, answer = (self.randint(20, 120) for _ in range(4))
        a, b = f"c{self.calls}a", f"c{self.calls}b"
        edit = {"path": "x.py", "text": self.text(entry + 1, argument)}
        return [
            user(self.text(entry, ask)),
            call(self.dialect, (a, "edit", edit), (b, "read", {"path": "y.py"})),
            result(self.dialect, a, self.text(entry + 2, self.choice((60, 60, 60, 3_000)))),
            result(self.dialect, b, self.text(entry + 3, short)),
            assistant(self.text(entry + 4, answer)),
        ]


def found(text: str) -> set[str]:
    return set(re.findall(r"mk\d{7}x", text))


async def unseen(judge: Judge, markers: Markers, summarizer: Counting, waits: bool = True) -> set[str]:
    """Markers that neither a summarizer has read nor the view shows; judged after the worker came to rest."""
    if waits:
        await judge.context.wait_idle()
    return markers.entry.keys() - found(summarizer.contents) - found(canonical(await judge.view()))


@pytest.mark.parametrize(("dialect", "waits"), [*((dialect, True) for dialect in DIALECTS), ("openai", False)])
async def test_every_marker_that_left_the_view_was_read_by_a_summarizer(dialect: str, waits: bool) -> None:
    """Also later, where it was covered before its summary, since the worker gets no time of its own."""
    summarizer, markers = Counting(), Markers(27, dialect)
    async with watched(summarizer, budget=4_000) as judge:
        for _ in range(30):
            await judge.add(*markers.turn(len(judge.log)))
            hidden = await unseen(judge, markers, summarizer, waits)
            closed = max((job.stop for job in summarizer.segments), default=0)
            assert not waits or min((markers.entry[mark] for mark in hidden), default=closed) >= closed
        assert len(markers.entry.keys() - found(canonical(judge.last))) > 1_000
        await judge.add(*session(28, 60, rules="", size=100))  # closes the last segment that holds markers
        assert await unseen(judge, markers, summarizer) == set()
        assert judge.activations > 3
        assert judge.repairs["shrunk"] > 0


async def test_a_session_whose_model_gets_long_results_cut_leaves_nothing_unseen() -> None:
    """At the default segment sizes, where every third result is too long for a model's input."""
    summarizer, markers, log, long = Counting(), Markers(33, "anthropic"), list[Message](), set(range(2, 96, 12))
    for turn in range(24):
        at, size = len(log), 1_500 if turn % 3 else 6_000 + 4_000 * (turn % 5)
        ask, path = markers.text(at, 200), markers.text(at + 1, 40)
        log += [user(ask), call("anthropic", (f"c{turn}", "read", {"path": path}))]
        log += [result("anthropic", f"c{turn}", markers.text(at + 2, size)), assistant(markers.text(at + 3, 100))]
    log += session(33, 60, rules="", size=200)
    async with watched(summarizer, budget=16_000, segment_min=2_000, segment_target=4_000, segment_max=8_000) as judge:
        for message in log:
            await judge.add(message)
            if message["role"] == "assistant":
                await judge.context.wait_idle()
                await judge.view()
                assert judge.context.unseen_tokens() == 0
        read = found(summarizer.contents)
        hidden = markers.entry.keys() - read - found(canonical(judge.last))
        assert {markers.entry[mark] for mark in hidden} <= long
        assert len([mark for mark, at in markers.entry.items() if at in long and mark not in read]) > 1_000
        assert any("tokens left out here" in job.content for job in summarizer.jobs)
        assert judge.activations > 3


async def test_what_a_view_has_no_room_to_tell_of_has_been_read_all_the_same() -> None:
    rng = random.Random(7)
    async with watched(Failing(), budget=100, safety_margin=0, **TINY) as judge:
        await judge.add(user("Go on."), assistant("noted"))
        alone = 0
        for step in range(5):
            await judge.add(user(words(rng, 300)), assistant(words(rng, 30)))
            await judge.context.wait_idle()
            await judge.add(call("openai", *((f"c{step}x{at}", "read", {"path": "a"}) for at in range(25))))
            alone += len(await judge.view()) == 1
            assert judge.context.unseen_tokens() == 0
        assert alone > 2


class Provenance(Counting):
    """Says in each summary which markers its input held, as joined ranges, `mk0000003x..mk0000009x`, so that every
    literal is one of its source's; `passes n` is one more than the highest in the input."""

    async def answer(self, job: Any) -> str:
        self.jobs.append(job)
        passes = 1 + max((int(n) for n in re.findall(r"passes (\d+)", job.content)), default=0)
        told = ", ".join(f"mk{a:07}x..mk{b:07}x" for a, b in joined(provenance(job.content)))
        return f"## Facts\n- passes {passes}, markers {told}"


def provenance(text: str) -> list[tuple[int, int]]:
    """Ranges of markers in a text, raw or told by a summary."""
    return [(int(a), int(b or a)) for a, b in re.findall(r"mk(\d{7})x(?:\.\.mk(\d{7})x)?", text)]


def joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers in as few ranges as possible."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        first, last = out.pop() if out and low <= out[-1][1] + 1 else (low, high)
        out.append((first, max(last, high)))
    return out


async def test_no_fact_is_passed_on_more_often_than_the_tree_is_high() -> None:
    summarizer, rng, entry = Provenance(), random.Random(33), dict[int, int]()  # the log entry of each marker
    async with watched(summarizer, budget=1_500, **SHORT) as judge:
        for _ in range(90):
            for make in (user, assistant):
                text, marks = marked(len(entry), rng.randint(30, 120))
                entry.update(dict.fromkeys(range(len(entry), len(entry) + len(marks)), len(judge.log)))
                await judge.add(make(text))
            await judge.context.wait_idle()
            await judge.view()
        segments = len({job.range_hash for job in summarizer.segments})
        bound = most_passes(segments)
        assert segments >= 64
        assert 2 <= judge.context.statistics().max_passes <= bound
        shown = [int(n) for row in judge.last for n in re.findall(r"passes (\d+)", plain_text(row["content"]))]
        assert 0 < max(shown) <= bound
        assert any(job.kind == "rollup" for job in summarizer.jobs)
        assert judge.activations > 5

        # The ranges that the header's summaries tell leave no hole up to the raw tail, a provisional node excepted.
        tail = find_tail(judge.last, judge.log)
        assert not isinstance(tail, str)
        assert tail.log_start > 60
        told = joined([one for row in judge.last[: tail.view_start] for one in provenance(plain_text(row["content"]))])
        assert told[0][0] == 0
        covered = max(number for number, place in entry.items() if place < tail.log_start)
        assert told[0][1] >= covered - 300 * 4 // 40  # at most a segment's worth is covered provisionally
