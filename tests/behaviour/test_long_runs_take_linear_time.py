"""Whatever a model or a person writes, reading it takes time in proportion to its length: no expression searches a
long run again from each of its characters; and calls that work on a whole log let the event loop turn meanwhile. Times
are those of this process's own work, so a busy machine does not matter, and only growth is judged."""

import asyncio
import gc
import importlib
import inspect
import itertools
import pkgutil
import re
import sys
import time
import timeit
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import summarizing_context
from summarizing_context import Settings
from summarizing_context.errors import MissingExtraError
from summarizing_context.extraction import rules
from summarizing_context.extraction.rules import cue_rules, rule_strength
from summarizing_context.messages import reading, text
from summarizing_context.summarizers.extractive import cut_to
from summarizing_context.testing import ScriptedSummarizer
from tests.behaviour.contexts import begun, said, tiny
from tests.laws.builders import assistant, call, result, user
from tests.laws.summarizers import Counting

RUNS = (
    " ", "\n", " \t\n", "\\", '"', "'", "`", "[", "{", "(", '"""', "<", "</", "<a>", "7", "1,", "deadbeef01", "a",
    "A", "a ", "and ", "a1", "-", "ab-cd-", "a_", ".", "/", "/usr/lib", "../", "\u00e9", "e\u0301", "\u4e2d",
    "aGVsbG8K", "\\n", "```\n", "| a ", "=", "abcdefghijklmnop", "a.b@c.de ", "http://a.b/c ", "http://", "?",
    "# a\n", "- a\n", "a=1 ", "1.2.", "12:", "\x1b[0m", "&#1;",
)  # fmt: skip

FRAMES = (("", ""), ("```1", "!\n`"))
LENGTHS = (500, 2_000, 8_000)
FLOOR = 0.0003  # seconds for the shortest run, which most expressions read in a tenth of that
GROWTH = 9.0  # of time where a run is four times as long: 4 is linear, 16 quadratic
OF_ONE_SENTENCE = "summarizing_context.extraction.rules._cues"  # they read at most 300 characters, see below
METHODS = {"search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split"}


def modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages(summarizing_context.__path__, "summarizing_context."):
        with suppress(MissingExtraError):
            importlib.import_module(found.name)
    yield from (module for name, module in sorted(sys.modules.items()) if name.startswith("summarizing_context."))


def patterns_in(value: object, name: str, depth: int = 4) -> Iterator[tuple[str, re.Pattern[str]]]:
    """The expressions in a value of a module, and the name or field that holds each: in collections, in objects of
    ours, in what a cached function has compiled."""
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield name, value
    inside: list[tuple[str, object]] = []
    made_by = getattr(value, "__wrapped__", None) if hasattr(value, "cache_info") else None
    if isinstance(value, dict):
        inside = [(key if isinstance(key, str) else name, one) for key, one in value.items()]
    elif isinstance(value, tuple | list | set) and type(value).__module__ == "builtins":
        inside = [(name, one) for one in value]
    elif type(value).__module__.startswith("summarizing_context."):
        fields = [*getattr(value, "__dict__", ()), *getattr(value, "_fields", ()), *getattr(value, "__slots__", ())]
        inside = [(field, getattr(value, field, None)) for field in fields]
    elif made_by is not None and not made_by.__code__.co_argcount and "compile" in inspect.getsource(made_by):
        inside = [(name, value())]
    for field, one in inside if depth else ():
        yield from patterns_in(one, field, depth - 1)


def ways(module: Any, name: str, held_by: str, *, alone: bool) -> set[str]:
    """How a module uses an expression by the name or the field that holds it; all ways where that cannot be read."""
    source = Path(module.__file__).read_text(encoding="utf8")
    lines = source.split("\n")
    near = [lines[n : n + 3] for n, line in enumerate(lines) if re.search(rf"(?:in|for) .*{re.escape(name)}\b", line)]
    loops = "\n".join(itertools.chain(*near))
    if not alone and ".match(" in loops and not re.search(r"\.(?:search|finditer|findall|sub|split)\(", loops):
        return {"match"}
    used = re.findall(rf"\b{re.escape(held_by)}\b[\"'\]]*\.(\w+)", source)
    return METHODS.intersection(used) or {"search", "finditer", "match"}


def all_patterns() -> dict[re.Pattern[str], tuple[str, set[str]]]:
    found: dict[re.Pattern[str], tuple[str, set[str]]] = {}
    for module in modules():
        for name, value in list(vars(module).items()):
            for held_by, pattern in patterns_in(value, name):
                if pattern not in found and (place := f"{module.__name__}.{name}") != OF_ONE_SENTENCE:
                    found[pattern] = place, ways(module, name, held_by, alone=isinstance(value, re.Pattern))
    return found


def use(pattern: re.Pattern[str], way: str, text: str) -> None:
    made = getattr(pattern, way)(*[""] * way.startswith("sub"), text)
    list(made if way == "finditer" else ())


@cache
def run_of(piece: str, length: int, frame: tuple[str, str]) -> str:
    return frame[0] + (piece * (length // len(piece) + 1))[:length] + frame[1]


def seconds(work: Callable[[str], object], text: str, times: int = 1) -> float:
    """The processor time of this process; of two the shorter, for one may have been disturbed."""
    return min(timeit.repeat(partial(work, text), timer=time.process_time, number=1, repeat=times))


def grows_too_fast(work: Callable[[str], object], piece: str, frame: Any, times: int = 1, floor: float = FLOOR) -> bool:
    """Whether work on a run four times as long takes more than nine times as long, where that can be felt at all."""
    short, long, longest = (run_of(piece, times * length, frame) for length in LENGTHS)
    if (first := seconds(work, short)) < floor or (once := seconds(work, long)) < GROWTH * first:
        return False
    if seconds(work, long, 2) < GROWTH * seconds(work, short, 2):
        return False
    return once > 1_000 * floor or seconds(work, longest, 2) > GROWTH * once


def test_every_expression_takes_time_in_proportion_to_a_long_run():
    patterns = all_patterns()
    assert len(patterns) > 100
    slow = [
        f"{name}: {way} in {piece!r} {frame}"
        for pattern, (name, used) in patterns.items()
        for way, piece, frame in itertools.product(sorted(used), RUNS, FRAMES)
        if grows_too_fast(partial(use, pattern, way), piece, frame)
    ]
    assert slow == []


def test_looking_for_rules_takes_time_in_proportion_to_a_long_run():
    ends = (("", ""), ("from now on, ", " never push. "))

    def find(text: str) -> None:
        rule_strength.cache_clear()
        cue_rules([text])

    assert [piece for piece in RUNS for frame in ends if grows_too_fast(find, piece, frame)] == []
    sentences = (run_of(piece, 280, frame) for piece in RUNS for frame in ends)
    assert max(seconds(find, sentence, 2) for sentence in sentences) < 0.2

    wrapped = ["a line of a paragraph that goes on in each line behind it, and\n" * lines for lines in (6_000, 24_000)]
    short, long = (seconds(find, text, 2) for text in wrapped)
    assert long < GROWTH * short
    assert cue_rules([f"Always answer in German.\n\n{wrapped[1]}"])


def test_a_summary_of_many_lines_is_cut_without_counting_each_of_them_again():
    assert seconds(partial(cut_to, max_tokens=100), "## Facts\n" + "- a\n" * 1_000) < 0.5


async def session(text: str, *, by_model: bool) -> None:
    """All that is done with a text: it is said, called with, answered, summarized, searched, and is what a model
    replies."""
    summarizer = ScriptedSummarizer(lambda _: text + "\n- x", recipe="model/1") if by_model else None
    given = {"max_tokens": 8_000, "start_at": 0.0, "attempts": 1, "count_tokens": None, "summarizer": summarizer}
    read = call("openai", ("c1", "read", {}), text="I look")
    read["tool_calls"][0]["function"]["arguments"] = text
    said = [user(f"Never do it again. {text}"), assistant(f"I decided to use port 8080. {text}")]
    log = [user("look at it"), read, result("openai", "c1", text), *said, user("please go on with it " * 1_200)]
    given["redact"] = lambda said: said.replace("hunter2", "*")
    async with begun(log, of=Settings, **given) as context:
        await context.get_messages_for_request()
        await context.wait_idle(120)
        await context.compact()
        await context.search(text[:200] or "x")


@pytest.mark.parametrize("piece", RUNS[::6])
def test_a_session_takes_time_in_proportion_to_a_long_run_in_it(piece: str):
    def work(text: str) -> None:
        asyncio.run(session(text, by_model=RUNS.index(piece) % 2 == 0))

    assert not grows_too_fast(work, piece, ("```", "!"), times=8, floor=0.15)


# A long log.


LOG = [user("begin"), *(said(number, f"look at src/mod{number % 300}.py") for number in range(1, 2_500))]
MOST = 0.25  # of the work of a call may be done in one turn of the loop; by far less is, by far more was


async def largest_share(call: Awaitable[object]) -> float:
    """The largest share of a call's work, in all threads, that is done between two turns of another task, by clocks
    that stand still while the machine does other things."""
    turns: list[float] = []
    gc.collect()  # what there is already is not collected within a turn
    gc.freeze()

    async def tick() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            turns.append(now - before)
            before = now

    ticking = asyncio.ensure_future(tick())
    await asyncio.sleep(0)
    waiting, before = len(turns), time.process_time() - time.thread_time()
    await call
    elsewhere = time.process_time() - time.thread_time() - before  # in other threads
    await asyncio.sleep(0)
    ticking.cancel()
    gc.unfreeze()
    work = [turn for turn in turns[waiting:] if turn > 0.0005]  # else it waits for a thread
    return max(work) / (sum(work) + elsewhere)


async def test_restoring_a_long_log_holds_nobody_up(tmp_path: Path):
    async with begun(of=tiny, store=tmp_path / "run.db", max_tokens=16_000, strategy="truncate") as context:
        await context.set_messages(LOG)
        there = await context.checkpoint("there")
        await context.clear()
        assert await largest_share(context.restore(there)) < MOST
        assert await context.get_messages() == LOG


@pytest.mark.parametrize("focus", [None, "src/mod7.py"])
async def test_an_activation_that_reads_the_past_again_holds_nobody_up(focus: str | None):
    """Without a model for a budget that was lowered; with one for a note about a topic."""
    given = {"max_tokens": 38_000, "high_water": 0.9, "natural_ends": False, "summarizer": focus and Counting()}
    async with begun(of=tiny, **given) as context:
        await context.set_messages(LOG)
        await context.get_messages_for_request()
        if focus:
            await context.compact()
            await context.wait_idle()
        call = context.compact(focus=focus) if focus else context.get_messages_for_request(26_000)
        assert await largest_share(call) < MOST
        assert context.activations()


@contextmanager
def watched() -> Iterator[list[str]]:
    """Note what this thread calls of texts and bytes of more than 300,000, and what returns such bytes."""
    noted: list[str] = []

    def note(frame: Any, event: str, arg: Any) -> None:
        if (
            event == "c_call"
            and isinstance(held := getattr(arg, "__self__", None), str | bytes)
            and len(held) > 300_000
        ):
            noted.append(arg.__name__)
        if event == "return" and isinstance(arg, bytes) and len(arg) > 300_000:
            noted.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield noted
    finally:
        sys.setprofile(before)


LONG = 'say "it"\n' * 100_000
PARTS = {
    "content": [{"type": "tool_use", "id": "c1", "name": "write", "input": {"text": LONG}}],
    "parts": [{"functionCall": {"name": "write", "args": {"text": [LONG]}}}],
}


@pytest.mark.parametrize(
    "message",
    [
        call("openai", ("c1", "write", {"text": LONG})),
        *({"role": "assistant", field: blocks} for field, blocks in PARTS.items()),
        result("anthropic", "c1", [{"type": "text", "text": LONG}]),
    ],
)
async def test_the_bytes_of_a_long_message_are_neither_made_nor_read_on_the_event_loop(message: Any):
    async with begun([user("hello")], of=Settings) as context:
        with watched() as noted:
            await context.add_message(message)
        assert set(noted) <= {"isascii"}
        assert (await context.get_messages())[-1] == message


def test_what_reads_megabytes_lets_other_threads_run(monkeypatch: pytest.MonkeyPatch):
    """One call of C is one piece of work for them: so lines are parted, and bytes searched, a piece at a time; whether
    characters are whole is seen without their JSON; and of blanks no expression gives any back."""
    row = "and so on, " * 20
    rows = f"{row}\n\n" * 3_000
    with watched() as noted:
        assert (text.split_lines(rows), text.split_prose(f"{rows}end")[0][-1]) == ([row] * 3_000, "end")
    assert noted.count("split") == 1  # at fences
    assert [*text._lines(rows)] == rows.split("\n")

    spans: list[int] = []
    marks = rules._FILE_MARKS

    def search(data: bytes, first: int = 0, last: int = sys.maxsize) -> Any:
        spans.append(min(last, len(data)) - first)
        return marks.search(data, first, last)

    monkeypatch.setattr(rules, "_FILE_MARKS", SimpleNamespace(search=search))
    for at in range(999_970, 1_000_010):
        assert rules.may_hold_files(b" " * at + b"# CLAUDE.md" + b" " * 1_500_000)
    assert max(spans) < 1_100_000

    for size in (255, 256, 600):  # of what looks like base64
        run = ("aZ09+/=_-" * 99)[:size]
        part = reading.read_content(user([{"type": "odd", "v": f"é {run} é"}])).parts[0]
        assert (part.sealed, run in part.texts[0]) == ((run,) if size > 255 else (), size < 256)
    monkeypatch.setattr(reading, "_BINARY", None)
    assert reading.read_content(user([{"v": LONG}])).parts[0].texts

    said = [LONG, {"ids": [1 << 70]}]
    assert reading.encodable([*said, "\ud83d"]) == [*said, "\ufffd"]
    assert reading.encodable(said) is said
    monkeypatch.setattr(reading, "_encoder", None)
    assert reading.encodable(said[0]) is said[0]

    parse: Any = importlib.import_module("re._parser").parse
    first = {name: [str(op) for op, _ in parse(one.pattern)[:2]] for name, one in text._PATTERNS.items()}
    assert [name for name, ops in first.items() if "POSSESSIVE_REPEAT" in ops] == ["instructions", "output", "command"]
