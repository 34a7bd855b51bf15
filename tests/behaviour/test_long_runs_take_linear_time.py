"""Whatever a model or a person writes, reading it takes time in proportion to its length: no expression searches a
long run again from each of its characters. Times are those of this process's own work, so a busy machine does not
matter, and only growth is judged."""

import ast
import asyncio
import importlib
import inspect
import pkgutil
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import summarizing_context
from summarizing_context import Settings
from summarizing_context.errors import MissingExtraError
from summarizing_context.extraction.rules import cue_rules, rule_strength
from summarizing_context.testing import ScriptedSummarizer
from tests.behaviour.contexts import begun
from tests.laws.builders import assistant, call, result, user

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
        try:
            importlib.import_module(found.name)
        except MissingExtraError:
            continue
    yield from (module for name, module in sorted(sys.modules.items()) if name.startswith("summarizing_context."))


def patterns_in(value: object, name: str, seen: set[int], depth: int = 0) -> Iterator[tuple[str, re.Pattern[str]]]:
    """The expressions in a value of a module, and the name or field that holds each: in collections, in objects of
    ours, in what a cached function has compiled."""
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield name, value
        return
    if depth > 5 or id(value) in seen or isinstance(value, type(sys)):
        return
    seen.add(id(value))
    inside: list[tuple[str, object]] = []
    if isinstance(value, dict):
        inside = [(key if isinstance(key, str) else name, one) for key, one in value.items()]
    elif isinstance(value, tuple | list | set) and type(value).__module__ == "builtins":
        inside = [(name, one) for one in value]
    elif type(value).__module__.startswith("summarizing_context"):
        fields = [*getattr(value, "__dict__", ()), *getattr(value, "_fields", ()), *getattr(value, "__slots__", ())]
        inside = [(field, getattr(value, field, None)) for field in fields]
    elif compiles_once(value):
        inside = [(name, value())]
    for field, one in inside:
        yield from patterns_in(one, field, seen, depth + 1)


def compiles_once(value: object) -> bool:
    """Whether it is a cached function without arguments that compiles expressions."""
    made_by = getattr(value, "__wrapped__", None) if hasattr(value, "cache_info") else None
    return made_by is not None and not made_by.__code__.co_argcount and "compile" in inspect.getsource(made_by)


@cache
def uses(module: Any) -> dict[str, set[str]]:
    """The attributes that a module takes of each name."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf8"))):
        if isinstance(node, ast.Attribute):
            match node.value:
                case ast.Name(holder) | ast.Attribute(attr=holder) | ast.Subscript(slice=ast.Constant(str(holder))):
                    found.setdefault(holder, set()).add(node.attr)
    return found


def ways(module: Any, name: str) -> set[str]:
    """How a module uses an expression by its name; all ways where that cannot be read."""
    return (uses(module).get(name, set()) & METHODS) or {"search", "finditer", "match"}


def all_patterns() -> dict[str, tuple[re.Pattern[str], set[str]]]:
    found: dict[str, tuple[re.Pattern[str], set[str]]] = {}
    known: set[tuple[str, int]] = set()
    for module in modules():
        for name, value in list(vars(module).items()):
            for at, (held_by, pattern) in enumerate(patterns_in(value, name, set())):
                if (pattern.pattern, pattern.flags) not in known and f"{module.__name__}.{name}" != OF_ONE_SENTENCE:
                    known.add((pattern.pattern, pattern.flags))
                    label = f"{module.__name__}.{name}" + (f"[{at}]" if at else "")
                    in_loop = not isinstance(value, re.Pattern) and ".match(" in source_of(module, name)
                    found[label] = pattern, {"match"} if in_loop else ways(module, held_by)
    return found


def source_of(module: Any, name: str) -> str:
    """The lines of a module that loop over a collection of expressions, with those that follow."""
    lines = Path(module.__file__).read_text(encoding="utf8").split("\n")
    at = [n for n, line in enumerate(lines) if re.search(rf"(?:in|for) .*{re.escape(name)}\b", line)]
    text = "\n".join("\n".join(lines[n : n + 3]) for n in at)
    return text if not re.search(r"\.(?:search|finditer|findall|sub|split)\(", text) else ""


def use(pattern: re.Pattern[str], way: str, text: str) -> None:
    if way in ("sub", "subn"):
        pattern.sub("", text)
    elif way == "finditer":
        for _ in pattern.finditer(text):
            pass
    else:
        getattr(pattern, way)(text)


@cache
def run_of(piece: str, length: int, frame: tuple[str, str]) -> str:
    return frame[0] + (piece * (length // len(piece) + 1))[:length] + frame[1]


def seconds(work: Callable[[str], object], text: str, times: int = 1) -> float:
    """The processor time of this process; of two the shorter, for one may have been disturbed."""
    taken = []
    for _ in range(times):
        start = time.process_time()
        work(text)
        taken.append(time.process_time() - start)
    return min(taken)


def grows_too_fast(
    work: Callable[[str], object], piece: str, frame: tuple[str, str], times: int = 1, floor: float = FLOOR
) -> bool:
    """Whether work on a run four times as long takes more than nine times as long, where that can be felt at all."""
    short, long, longest = (run_of(piece, times * length, frame) for length in LENGTHS)
    if (first := seconds(work, short)) < floor or (once := seconds(work, long)) < GROWTH * first:
        return False
    if seconds(work, long, 2) < GROWTH * seconds(work, short, 2):
        return False
    return once > 1_000 * floor or seconds(work, longest, 2) > GROWTH * once


def slow_kinds(pattern: re.Pattern[str], used: set[str]) -> list[str]:
    return [
        f"{way} in {piece!r} {frame}"
        for piece in RUNS
        for frame in FRAMES
        for way in sorted(used)
        if grows_too_fast(lambda text, way=way: use(pattern, way, text), piece, frame)
    ]


def test_every_expression_takes_time_in_proportion_to_a_long_run():
    patterns = all_patterns()
    assert len(patterns) > 100
    slow = {name: kinds for name, (pattern, used) in patterns.items() if (kinds := slow_kinds(pattern, used))}
    assert slow == {}


def test_looking_for_rules_takes_time_in_proportion_to_a_long_run():
    ends = (("", ""), ("from now on, ", " never push. "))

    def find(text: str) -> None:
        rule_strength.cache_clear()
        cue_rules([text])

    assert [piece for piece in RUNS for frame in ends if grows_too_fast(find, piece, frame)] == []
    sentences = (run_of(piece, 280, frame) for piece in RUNS for frame in ends)
    assert max(seconds(find, sentence, 2) for sentence in sentences) < 0.2


async def session(text: str, *, by_model: bool) -> None:
    """All that is done with a text: it is said, called with, answered, summarized, searched, and is what a model
    replies."""
    summarizer = ScriptedSummarizer(lambda _: text + "\n- x", recipe="model/1") if by_model else None
    given = {"max_tokens": 8_000, "start_at": 0.0, "attempts": 1, "count_tokens": None, "summarizer": summarizer}
    read = call("openai", ("c1", "read", {}), text="I look")
    read["tool_calls"][0]["function"]["arguments"] = text
    said = [user(f"Never do it again. {text}"), assistant(f"I decided to use port 8080. {text}")]
    log = [user("look at it"), read, result("openai", "c1", text), *said, user("please go on with it " * 1_200)]
    redact = {"redact": lambda said: said.replace("hunter2", "*")}
    async with begun(log, of=Settings, token_counter="estimate", **given, **redact) as context:
        await context.get_messages_for_request()
        await context.wait_idle(120)
        await context.compact()
        await context.search(text[:200] or "x")


@pytest.mark.parametrize("piece", RUNS[::6])
def test_a_session_takes_time_in_proportion_to_a_long_run_in_it(piece: str):
    by_model = RUNS.index(piece) % 2 == 0

    def work(text: str) -> None:
        asyncio.run(session(text, by_model=by_model))

    assert not grows_too_fast(work, piece, ("```", "!"), times=8, floor=0.15)
