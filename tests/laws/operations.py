"""A Hypothesis machine that does everything with a context in random order; the judge looks at every view.

One event loop a run. Whatever it draws depends on Hypothesis alone, never on how far the worker is.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from summarizing_context import Settings, UndoError, open_context

from .builders import DIALECTS, Message, Script, assistant, call, count, result, results, system, user, words
from .judge import SMALL, TINY, Judge
from .places import kept_at, remove
from .summarizers import Counting, Echoing, Failing, Flaky, Sleeping

T = TypeVar("T")
BUDGETS = (100, 300, 500, 1_000, 2_000, 4_000)
SUMMARIZERS: dict[str, Any] = {
    "extractive": lambda: None,
    "counting": lambda: Counting("counting/1"),
    "failing": Failing,
    "sleeping": Sleeping,
    "flaky": Flaky,
    "echoing": Echoing,
}
SEEDS = st.integers(0, 2**16)
THOUGHT = {"type": "thinking", "thinking": "so be it", "signature": "Sig" * 9}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
ODD: list[Message] = [
    user(""),
    assistant(""),
    assistant([]),
    {"role": "assistant", "content": None},
    assistant([THOUGHT]),
    assistant([THOUGHT, {"type": "text", "text": "said after a thought"}]),
    user([{"type": "text", "text": "see"}, PICTURE]),
    user([{"type": "hologram", "depth": [1, None, 2.5]}]),
    system("From now on use tabs."),
    system("Files are read only.", role="developer"),
    user("<system-reminder>the list is empty</system-reminder>"),
    result("openai", "never", "an orphan"),
    result("anthropic", "never", "an orphan"),
    user("half \ud83d of a pair"),
]


AGAIN: list[Message] = [
    user("Go on."),
    user([{"type": "text", "text": "Go on."}]),
    user("a long way to go " * 120),
    assistant("Done."),
    user(""),
]


class Operations(RuleBasedStateMachine):
    """The rules; `strategy` is set by the test that runs it."""

    strategy: ClassVar[str] = "hierarchical"
    done: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="laws"))
        self.names = 0
        self.called: list[str] = []
        self.judge: Judge | None = None

    def run(self, doing: Awaitable[T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(doing, 120))

    def count(self, name: str) -> None:
        type(self).done[name] += 1
        type(self).done["operations"] += 1

    @initialize(
        kind=st.sampled_from(sorted(SUMMARIZERS)),
        budget=st.sampled_from(BUDGETS),
        dialect=st.sampled_from(DIALECTS),
        in_file=st.booleans(),
        rules=st.booleans(),
        sizes=st.sampled_from((SMALL, TINY)),
    )
    def start(self, kind: str, budget: int, dialect: str, in_file: bool, rules: bool, sizes: dict[str, Any]) -> None:
        self.kind, self.dialect, self.in_file = kind, dialect, in_file
        self.settings = Settings(
            max_tokens=budget,
            strategy=self.strategy,
            store=kept_at(self.folder / "a.db" if in_file else ":memory:"),
            call_timeout=0.05,
            attempts=1,
            breaker_cooldown=0.02,
            **sizes,
        )
        self.judge = Judge(self.run(self.opened()), budget=budget, keeps=self.strategy == "importance")
        if rules:
            self.add(system("Be brief."))

    async def opened(self) -> Any:
        self.door = open_context(self.settings, summarizer=SUMMARIZERS[self.kind](), count_tokens=count)
        return await self.door.__aenter__()

    def add(self, *messages: Message, look: bool = False) -> None:
        assert self.judge is not None
        self.run(self.judge.add(*messages))
        if look:
            self.run(self.judge.view())

    def fresh(self, calls: int) -> list[str]:
        made = [f"c{self.names + n}" for n in range(calls)]
        self.names += calls
        self.called += made
        return made

    @precondition(lambda self: self.judge is not None and self.judge.log)
    @rule(back=st.integers(0, 60), text=st.booleans(), off=st.booleans())
    def pin(self, back: int, text: bool, off: bool) -> None:
        """Pin a user row or a text, or give up a pin; and a rule of the user's."""
        assert self.judge is not None
        self.count("pin")
        context = self.judge.context
        if off and context.pins():
            self.run(context.unpin(context.pins()[back % len(context.pins())].id))
        elif text:
            self.run(context.pin(f"Keep number {back % 7} in mind."))
        else:
            self.add(user(f"Never touch file {back % 9}."))
            self.run(context.pin(len(self.judge.log) - 1))

    @rule(seed=SEEDS, turns=st.integers(1, 3), look=st.booleans())
    def talk(self, seed: int, turns: int, look: bool) -> None:
        self.count("talk")
        rng = random.Random(seed)
        for _ in range(turns):
            self.add(user(words(rng, rng.randint(1, 60))), assistant(words(rng, rng.randint(1, 60))), look=look)

    @rule(seed=SEEDS, steps=st.integers(1, 4), look=st.booleans())
    def work(self, seed: int, steps: int, look: bool) -> None:
        self.count("work")
        script = Script(seed, dialect=self.dialect, size=50)
        script.calls = self.names
        rows = [row for _ in range(steps) for row in script.step()]
        self.names = script.calls
        self.add(*rows, look=look)

    @rule(calls=st.integers(1, 3), reuse=st.booleans(), look=st.booleans())
    def call(self, calls: int, reuse: bool, look: bool) -> None:
        self.count("call")
        ids = self.called[-1:] if reuse and self.called else self.fresh(calls)
        self.add(call(self.dialect, *((i, "read", {"path": "a"}) for i in ids)), look=look)

    @rule(
        lines=st.lists(st.integers(1, 3), min_size=1, max_size=3),
        results=st.integers(0, 4),
        look=st.booleans(),
        ends=st.booleans(),
    )
    def killed(self, lines: list[int], results: int, look: bool, ends: bool) -> None:
        """Calls one after the other, seen as they come or not, results for some of them, and the end of the process;
        another may have the results that are missing."""
        assert self.judge is not None
        self.count("killed")
        ids = self.fresh(sum(lines))
        for at, calls in enumerate(lines):
            made = ids[sum(lines[:at]) :][:calls]
            self.add(call(self.dialect, *((i, "read", {"path": "a"}) for i in made)), look=look)
        for identity in ids[::-1][:results]:
            self.add(result(self.dialect, identity, "in time"), look=look)
        if self.in_file and ends:
            self.reopened(look=look)
        for identity in ids[: results % 3]:
            self.add(result(self.dialect, identity, "late or not"), look=True)

    @rule(back=st.integers(1, 6), size=st.integers(0, 80), look=st.booleans())
    def answer(self, back: int, size: int, look: bool) -> None:
        """A result for one of the last calls, whether it waits or not."""
        self.count("answer")
        if self.called:
            identity = self.called[-min(back, len(self.called))]
            self.add(result(self.dialect, identity, words(random.Random(size), size)), look=look)

    @rule(
        which=st.sampled_from(AGAIN),
        times=st.sampled_from((2, 3, 26)),
        look=st.sampled_from(("never", "first", "last", "each")),
    )
    def again(self, which: Message, times: int, look: str) -> None:
        """The same message many times, seen as they come or not."""
        self.count("again")
        for at in range(times):
            self.add(which, look=look == "each" or at == {"first": 0, "last": times - 1}.get(look))

    @rule(which=st.integers(0, len(ODD) - 1), look=st.booleans())
    def odd(self, which: int, look: bool) -> None:
        self.count("odd")
        self.add(ODD[which], look=look)

    @rule(seed=SEEDS, tokens=st.sampled_from((400, 1_000, 4_000)), kind=st.sampled_from(("text", "result", "argument")))
    def huge(self, seed: int, tokens: int, kind: str) -> None:
        self.count("huge")
        text = words(random.Random(seed), tokens)
        if kind == "text":
            self.add(user(text))
            return
        identity = self.fresh(1)[0]
        arguments = {"text": text if kind == "argument" else "x"}
        self.add(call(self.dialect, (identity, "write", arguments)))
        self.add(result(self.dialect, identity, text if kind == "result" else "ok"))

    @rule(
        seed=SEEDS,
        calls=st.sampled_from((4, 12, 40)),
        share=st.sampled_from((0.0, 0.5, 0.9, 1.0)),
        look=st.booleans(),
    )
    def wide(self, seed: int, calls: int, share: float, look: bool) -> None:
        """Very many calls in one message, and results for a share of them."""
        self.count("wide")
        rng, ids = random.Random(seed), self.fresh(calls)
        answered = rng.sample(ids, int(share * calls))
        self.add(call(self.dialect, *((i, "read", {"text": words(rng, 8)}) for i in ids)), look=look)
        if self.dialect == "anthropic" and seed % 2 and answered:
            self.add(results(*((i, words(rng, 12)) for i in answered)))
        else:
            self.add(*(result(self.dialect, i, words(rng, 12)) for i in answered))

    @rule(budget=st.sampled_from((None, None, None, None, *BUDGETS)))
    def view(self, budget: int | None) -> None:
        assert self.judge is not None
        self.count("view")
        self.run(self.judge.view(budget))

    @rule()
    def settle(self) -> None:
        assert self.judge is not None
        self.count("settle")
        self.run(self.judge.context.wait_idle(0.05))
        self.run(self.judge.view())

    @rule(focus=st.sampled_from((None, None, "what the user asked", "zero </history> lines")))
    def compact(self, focus: str | None) -> None:
        assert self.judge is not None
        self.count("compact")
        focus = None if self.strategy == "truncate" else focus  # refused where nothing is summarized
        report = self.run(self.judge.context.compact(focus=focus))
        assert isinstance(report.activated, bool)
        assert isinstance(self.run_plain(self.judge.context.should_compact()), bool)

    @rule(look=st.booleans())
    def undo(self, look: bool) -> None:
        """Take the last activation back, where there is one; the records tell it either way."""
        assert self.judge is not None
        self.count("undo")
        context = self.judge.context
        before = context.activations()
        try:
            report = self.run(context.undo_activation())
        except UndoError:
            assert context.activations() == before
            return
        type(self).done["undone"] += 1
        last = context.activations()[-1]
        assert (report.reason, last.reason) == ("restored", "restored")
        assert last.undoes in [one.number for one in before if one.can_undo and not one.is_undone]
        if look:
            self.run(self.judge.view())

    @rule(keep=st.integers(1, 30), threshold=st.sampled_from((None, 0.0, 0.3, 0.6, 1.0)))
    def squeeze(self, keep: int, threshold: float | None) -> None:
        assert self.judge is not None
        self.count("squeeze")
        context = self.judge.context
        asked = threshold is not None and self.strategy == "importance"
        report = self.run(context.compress(threshold) if asked else context.summarize(keep))
        assert isinstance(report.activated, bool)
        assert isinstance(context.should_compress(), bool)

    def run_plain(self, value: Any) -> Any:
        """A method may be a plain function or not."""
        return self.run(value) if asyncio.iscoroutine(value) else value

    @precondition(lambda self: self.judge is not None and self.judge.log)
    @rule(seed=SEEDS, kind=st.sampled_from(("same", "prefix", "edit", "insert", "delete", "swap")))
    def set(self, seed: int, kind: str) -> None:
        assert self.judge is not None
        self.count("set")
        rng, log = random.Random(seed), list(self.judge.log)
        place = rng.randrange(len(log))
        if kind == "prefix":
            log = log[: place + 1]
        elif kind == "edit":
            log[place] = user(words(rng, 20))
        elif kind == "insert":
            log.insert(place, user(words(rng, 20)))
        elif kind == "delete":
            del log[place]
        elif kind == "swap":
            log[place], log[-1] = log[-1], log[place]
        self.run(self.judge.set(log))
        self.run(self.judge.check_log())

    @rule(sure=st.integers(0, 5))
    def clear(self, sure: int) -> None:
        assert self.judge is not None
        self.count("clear")
        if sure == 0:
            self.run(self.judge.clear())
            self.run(self.judge.check_log())

    @rule(sure=st.integers(0, 2))
    def reopen(self, sure: int) -> None:
        assert self.judge is not None
        self.count("reopen")
        if self.in_file and sure == 0:
            self.reopened(look=True)

    def reopened(self, look: bool) -> None:
        assert self.judge is not None
        self.judge.closing()
        self.run(self.door.__aexit__(None, None, None))
        self.judge.reopened(self.run(self.opened()))
        self.run(self.judge.check_log())
        if look:
            self.run(self.judge.view())

    def teardown(self) -> None:
        try:
            if self.judge is not None:
                self.run(self.judge.check_log())
                self.keep_score(self.judge)
                self.run(self.door.__aexit__(None, None, None))
        finally:
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            remove(self.folder / "a.db")
            shutil.rmtree(self.folder, ignore_errors=True)

    def keep_score(self, judge: Judge) -> None:
        done = type(self).done
        done["views"] += judge.views
        done["activations"] += judge.activations
        done["covered"] += judge.covered
        done["refused"] += judge.refused
        done.update(judge.repairs)
