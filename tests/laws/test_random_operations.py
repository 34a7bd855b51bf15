"""Everything that a host can do in random order, every law judged after each step, on every strategy: calmly, and while
summarizer and store fail at random and calls are cancelled in the middle.

LAWS_OPERATIONS steps a strategy, and where everything fails a 25th of them; `FEW` if it is not set. LAWS_SEED begins at
another seed. A failure names the seed of its session. What is rare must have happened in 400 steps.
"""

import asyncio
import copy
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, SummarizingContext, open_context, open_store
from summarizing_context.errors import StoreError, UndoError
from tests.behaviour.contexts import Provider

from .amounts import STRATEGIES
from .builders import DIALECTS, Message, Script, assistant, call, count, result, results, system, user, words
from .judge import SMALL, TINY, Judge, LawBroken, most_passes
from .places import kept_at, remove
from .summarizers import FAULTS, FLAKY, LIES, Counting, Failing, FaultySummarizer, Lying, Sleeping

BUDGETS = (100, 150, 300, 700, 1_500, 4_000)
KINDS = {
    "talk": 6, "work": 6, "wide": 1, "flight": 2, "answer": 3, "odd": 3, "huge": 1, "view": 8, "compact": 2, "set": 2,
    "clear": 0.3, "idle": 2, "usage": 1, "reopen": 2, "pause": 3, "request": 2, "pin": 1, "rule": 2, "undo": 1,
    "again": 1, "killed": 1,
}  # fmt: skip
SUMMARIZERS: list[Callable[[], Any]] = [
    lambda: None, lambda: Counting("counting/1"), Failing, Sleeping, lambda: Lying(*FLAKY), lambda: Lying("echo"),
]  # fmt: skip
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
GO_ON = [{"type": "text", "text": "Go on."}]
AGAIN = [user("Go on."), user(GO_ON), user("a long way " * 120), assistant("Done."), user("")]
ORDERS = [f"{order}." for name in ("alpha", "beta") for order in (f"Never touch {name}", f"You may touch {name} again")]
SAID: dict[str, Callable[[random.Random], list[Message]]] = {
    "talk": lambda rng: [user(words(rng, rng.randint(1, 60))), assistant(words(rng, 30))],
    "rule": lambda rng: [user(rng.choice([*ORDERS, "Keep answers short."])), assistant("noted")],
    "odd": lambda rng: [rng.choice(ODD)],
    "again": lambda rng: [rng.choice(AGAIN)] * rng.choice((2, 3, 26)),
}
MAY_FAIL = {
    "append": "append", "replace": "replace", "save_request": "budget", "save_failure": "failure",
    "find_summaries": "find", "save_summary": "summary",
}  # fmt: skip


class FaultyStore:
    """A store whose reads and writes fail by chance: before anything is done, or after it is done."""

    def __init__(self, inner: Any, rng: random.Random, done: Counter[str], rate: float) -> None:
        self.inner, self.rng, self.done, self.rate, self.name = inner, rng, done, rate, inner.name
        self.queued: set[asyncio.Future[Any]] = set()
        self.lost: set[str] = set()  # providers whose last state is not kept

    def __getattr__(self, name: str) -> Any:
        found, what = getattr(self.inner, name), MAY_FAIL.get(name)
        return found if what is None else lambda *given: self.write(what, lambda: found(*given))

    async def settled(self) -> None:
        """Until every write that was queued is done, also of those for which nobody waits any longer."""
        while self.queued:
            await asyncio.wait(self.queued)

    async def save_activation(self, session_id: str, provider_key: str, state: bytes, made: Any = None) -> None:
        self.lost.add(provider_key)
        await self.write("activation", lambda: self.inner.save_activation(session_id, provider_key, state, made))
        self.lost.discard(provider_key)

    def write(self, what: str, write: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
        """Queues at once, as a store does, unless it fails before."""
        try:
            self._fail(what, "before")
        except StoreError as error:
            return _raised(error)
        future = asyncio.ensure_future(write())
        self.queued.add(future)
        future.add_done_callback(self.queued.discard)
        return self._after(what, future)

    async def _after(self, what: str, future: asyncio.Future[Any]) -> Any:
        written = await asyncio.shield(future)
        self._fail(what, "after")
        return written

    def _fail(self, what: str, when: str) -> None:
        if self.rng.random() < self.rate / 2:
            self.done[f"store {what} {when}"] += 1
            raise StoreError(f"{self.name}: a fault of the test in {what}")


async def _raised(error: StoreError) -> None:
    raise error


class Chaos:
    """One session. `done` counts what happened. In a calm one nothing fails but the model."""

    def __init__(self, seed: int, strategy: str, path: Path, done: Counter[str], *, calm: bool = False) -> None:
        self.rng, self.done, self.path, self.now = (rng := random.Random(seed)), done, path, 1_000.0
        self.budget, self.dialect = rng.choice(BUDGETS), rng.choice(DIALECTS)
        self.patient = rng.random() < 0.3  # then a caller that waits for a hanging summarizer waits for ever
        place: Any = {"strategy": strategy, "store": kept_at(path), "session_id": "chaos"}
        self.settings = Settings(
            **place,
            max_tokens=self.budget,
            call_timeout=3_600.0 if self.patient else 0.01,
            breaker_cooldown=20.0,
            safety_margin=0,
            attempts=rng.choice((1, 2)),
            header_role=rng.choice(("user", "user", "system")),
            max_messages=rng.choice((None, None, 6, 20)),
            keep_recent=rng.choice((None, None, 1, 4)),
            natural_ends=seed % 2 == 0,
            **rng.choice((SMALL, TINY)),
        )
        rooms = {"one": self.budget + 20, "two": self.budget * 2}
        told = [Provider(name, context_window=room, max_output_tokens=20) for name, room in rooms.items()]
        self.providers = [None, *told]
        self.summarizer = FaultySummarizer(rng, done, well=rng.choice((0.1, 0.5, 0.9)))
        self.rate = rng.choice((0.0, 0.1, 0.4))
        self.cancels = rng.choice((0.0, 0.1, 0.3))
        self.model: Callable[[], Any] = lambda: self.summarizer
        if calm:
            self.patient, self.rate, self.cancels, self.model = False, 0.0, 0.0, rng.choice(SUMMARIZERS)
        self.ready: set[str] = set()
        self.paid_again, self.called, self.names = list[str](), list[str](), 0

    async def run(self, steps: int) -> None:
        self.judge = Judge(await self._opened(), budget=self.budget, keeps=True)
        self.judge.thorough = 3
        try:
            for _ in range(steps):
                (kind,) = self.rng.choices(list(KINDS), list(KINDS.values()))
                self.done[kind] += 1
                self.now += self.rng.choice((0.0, 1.0, 1.0, 40.0))
                await (self._add(*SAID[kind](self.rng)) if kind in SAID else getattr(self, kind)())
                await self._judge_it()
        finally:
            await self.door.__aexit__(None, None, None)
        seen = {"activations": self.judge.activations, "covered": self.judge.covered, "judged views": self.judge.views}
        self.done.update(seen | self.judge.repairs)

    async def _opened(self) -> SummarizingContext:
        self.store = FaultyStore(await open_store(kept_at(self.path)), self.rng, self.done, self.rate)
        given: Any = {"summarizer": self.model(), "events": self, "store": self.store, "clock": lambda: self.now}
        self.door = open_context(self.settings, count_tokens=count, **given)
        self.context: SummarizingContext = await self.door.__aenter__()
        return self.context

    def emit(self, name: str, data: Any) -> None:
        """Notices of the context: a summary that is ready may not be asked for again."""
        if name == "summary_started":
            self.paid_again += {data["range_hash"]} & self.ready
        if name == "summary_ready":
            self.ready.add(data["range_hash"])

    async def _attempt(self, what: Callable[[], Awaitable[Any]]) -> str:
        """Call, and perhaps cancel it in the middle: `done`, `failed` or `cancelled`."""
        task = asyncio.ensure_future(what())
        if self.rng.random() < self.cancels:
            for _ in range(self.rng.randint(0, 8)):
                await asyncio.sleep(0)
            task.cancel()
        _, waiting = await asyncio.wait({task}, timeout=120)
        if waiting:
            raise LawBroken("never_waits: a call did not end in two minutes")
        try:
            task.result()
        except (StoreError, UndoError):
            return "failed"
        except asyncio.CancelledError:
            self.done["cancelled"] += 1
            return "cancelled"
        return "done"

    async def _change(self, what: Callable[[], Awaitable[Any]], wanted: list[Message]) -> None:
        """Change the log. What did not return may have happened, wholly or not at all."""
        before = list(self.judge.log)
        self.judge.log = wanted
        if await self._attempt(what) == "done":
            return
        await self.store.settled()
        if has_failed := await self.context.get_messages() != wanted:
            self.judge.log = before
        self.done["took no effect" if has_failed else "took effect"] += 1

    async def _add(self, *messages: Message) -> None:
        for message in messages:
            given = copy.deepcopy(message)
            await self._change(lambda given=given: self.context.add_message(given), [*self.judge.log, message])
            if self.rng.random() < 0.2:
                await self.view()

    async def _judge_it(self) -> None:
        await self.judge.check_log()
        if self.rng.random() < 0.5:
            await self.view()
        statistics = self.context.statistics()
        if self.context.unseen_tokens():
            raise LawBroken(f"nothing_unseen: {self.context.unseen_tokens()} tokens")
        if self.context.last_view is not None and statistics.max_passes > max(2, most_passes(statistics.segments)):
            raise LawBroken(f"bounded_passes: {statistics.max_passes} with {statistics.segments} segments")
        if self.paid_again or self.summarizer.twice_at_once:
            raise LawBroken(f"paid_once: {self.paid_again} again, {self.summarizer.twice_at_once} at once")

    async def work(self) -> None:
        script = Script(self.rng.randrange(10**6), dialect=self.dialect, size=40)
        script.calls = self.names
        await self._add(*script.step())
        self.names = script.calls

    async def wide(self) -> None:
        """Very many calls in one message, and results for some of them, which may come in one message too."""
        ids = await self._call(self.rng.choice((10, 25, 40)))
        answered = [(id, words(self.rng, 12)) for id in self.rng.sample(ids, self.rng.randint(1, len(ids)))]
        as_one = self.dialect == "anthropic" and self.rng.random() < 0.5
        await self._add(*([results(*answered)] if as_one else (result(self.dialect, *one) for one in answered)))

    async def flight(self) -> None:
        await self._call(self.rng.randint(1, 3))

    async def _call(self, calls: int) -> list[str]:
        ids = [f"c{self.names + n}" for n in range(calls)]
        self.names += calls
        self.called += ids
        if self.called and self.rng.random() < 0.1:
            ids = [self.rng.choice(self.called[-5:])]  # some servers use an id again
        await self._add(call(self.dialect, *((id, "read", {"path": "a"}) for id in ids)))
        return ids

    async def killed(self) -> None:
        """Calls one after the other, results for some of them, and the end of the process; the next has some others."""
        ids = [id for _ in range(self.rng.randint(1, 3)) for id in await self._call(self.rng.randint(1, 3))]
        await self._add(*(result(self.dialect, id, "in time") for id in ids[::-1][: self.rng.randint(0, 4)]))
        await self.reopen()
        await self._add(*(result(self.dialect, id, "late or not") for id in ids[: self.rng.randint(0, 2)]))

    async def answer(self) -> None:
        if self.called:
            await self._add(result(self.dialect, self.rng.choice(self.called[-5:]), words(self.rng, 20)))

    async def huge(self) -> None:
        """A message, an argument or a result of very many words."""
        text, place = words(self.rng, self.rng.choice((400, 2_000))), self.rng.randrange(3)
        id, self.names = f"c{self.names}", self.names + 1
        made = call(self.dialect, (id, "write", {"text": text if place == 1 else "x"}))
        await self._add(*([made, result(self.dialect, id, "ok" if place == 1 else text)] if place else [user(text)]))

    async def view(self) -> None:
        """A view that is judged, after one that may be cancelled."""
        provider = self.rng.choice(self.providers)
        if self.rng.random() < self.cancels:
            await self._attempt(lambda: self.context.get_messages_for_request(None, provider))
        budget = self.rng.choice((None, None, None, self.rng.choice(BUDGETS))) if provider is None else None
        async with asyncio.timeout(120):
            await self.judge.view(budget, provider)

    async def compact(self) -> None:
        focus = self.rng.choice([None, None, "what the user asked", "</history> lines"])
        focus = None if self.settings.strategy == "truncate" else focus
        await self._attempt(lambda: self.context.compact(focus=focus))
        await self.context.should_compact()

    async def undo(self) -> None:
        """Take the last activation back, where there is one; nothing is told as undone that is not."""
        before = sum(one.is_undone for one in self.context.activations())
        ended = await self._attempt(self.context.undo_activation)
        undone = sum(one.is_undone for one in self.context.activations()) - before
        assert ended == "cancelled" or undone <= 1
        self.done["undone"] += undone

    async def request(self) -> None:
        """An activation of another sort; what a caller may ask before has no effect."""
        keep, threshold = self.rng.randint(1, 12), self.rng.choice((0.0, 0.3, 0.6, 1.0))
        before = self.context.statistics()
        self.context.should_compress()
        self.context.should_checkpoint()
        # what a decision reads is made for it once, also where the decision is only asked for
        after = self.context.statistics()
        by_clock = {"breaker": after.breaker, "cap_reached": after.cap_reached, "cap_ends_in": after.cap_ends_in}
        assert after == replace(before, stand_ins_total=after.stand_ins_total, **by_clock)
        ways = (lambda: self.context.summarize(keep), lambda: self.context.compress(threshold))
        await self._attempt(self.rng.choice(ways))

    async def pin(self) -> None:
        asks = [at for at, row in enumerate(self.judge.log) if row.get("role") == "user"]
        plain = [at for at in asks if isinstance(self.judge.log[at].get("content"), str)]
        what = self.rng.choice(plain) if plain and self.rng.random() < 0.7 else "Be brief."
        old = self.context.pins()[:1] if self.rng.random() < 0.4 else []
        await self._attempt(lambda: self.context.unpin(old[0].id) if old else self.context.pin(what))

    async def set(self) -> None:
        log = list(self.judge.log)
        if log:
            at = self.rng.randrange(len(log))
            rest = log[at + 1 :]
            log[at:] = self.rng.choice((log[at:], [], rest, [user("edited"), *rest], [user("put in"), *log[at:]]))
        await self._replace(lambda: self.context.set_messages(copy.deepcopy(log)), log)

    async def clear(self) -> None:
        await self._replace(self.context.clear, [])

    async def _replace(self, what: Callable[[], Awaitable[Any]], wanted: list[Message]) -> None:
        before = self.judge.log
        await self._change(what, wanted)
        self.ready.clear()
        self.judge.replaced(before)

    async def idle(self) -> None:
        await self._attempt(lambda: self.context.wait_idle(0.01))

    async def usage(self) -> None:
        if self.context.last_view is not None and self.context.last_view.tokens:
            await self.context.observe_usage(int(self.context.last_view.tokens * self.rng.choice((0.7, 1.0, 1.4))))

    async def pause(self) -> None:
        await asyncio.sleep(self.rng.choice((0.0, 0.001, 0.005)))

    async def reopen(self) -> None:
        """Close and open again: the log is there, and with it the views, unless their state could not be kept."""
        await self.store.settled()
        self.judge.closing()
        if self.store.lost:
            self.judge.untold()
        await self.door.__aexit__(None, None, None)
        self.ready.clear()
        self.judge.reopened(await self._opened())


FEW = dict.fromkeys(STRATEGIES, 50) | {"hierarchical": 100}  # steps of a strategy in the gate
ENOUGH = 400  # steps
FIRST_SEED = int(os.environ.get("LAWS_SEED", "1"))
STEPS = 50


async def run(strategy: str, steps: int, folder: Path, *, calm: bool) -> Counter[str]:
    """Sessions of some steps each; what happened in them."""
    done: Counter[str] = Counter()
    for number in range(steps // STEPS):
        seed = FIRST_SEED + number + calm + 10_000_000 * STRATEGIES.index(strategy)
        before = asyncio.all_tasks()
        try:
            await Chaos(seed, strategy, folder / f"{number}.db", done, calm=calm).run(STEPS)
        except Exception as error:
            raise AssertionError(f"{strategy}, session of seed {seed}: {error}") from error
        left = asyncio.all_tasks() - before  # calls that took no notice of their cancellation
        assert not left or not (await asyncio.wait(left, timeout=120))[1]
        remove(folder / f"{number}.db")
    print(f"{strategy}: {dict(sorted(done.items()))}")
    assert done["judged views"] > steps // 3
    assert done["activations"] > steps // 20
    assert done["covered"] > steps // 4
    assert done["reopen"] >= steps // 250
    return done


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_all_laws_hold_under_random_operations(strategy: str, tmp_path: Path) -> None:
    steps = int(os.environ.get("LAWS_OPERATIONS", FEW[strategy]))
    done = await run(strategy, steps, tmp_path, calm=True)
    missing = {*KINDS, "shrunk", "stand_in_result", "late_result_note", "undone"} - done.keys() - {"clear"}
    assert steps < ENOUGH or not missing, missing


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_all_laws_hold_while_everything_fails_at_random(strategy: str, tmp_path: Path) -> None:
    steps = int(os.environ.get("LAWS_OPERATIONS", 25 * FEW[strategy])) // 25
    done = await run(strategy, steps, tmp_path, calm=False)
    assert any(name.startswith("store ") for name in done)
    wanted = {f"store {what} {when}" for what in ("append", "activation") for when in ("before", "after")}
    wanted |= {"took effect", "took no effect"}  # of what failed or was cancelled
    if strategy != "truncate":
        wanted |= {"summarizer good", *(f"summarizer {kind}" for kind in (*FAULTS, *LIES))}
        wanted |= {"store find before", "store find after", "store summary before", "store summary after"}
    assert steps < ENOUGH or (not wanted - done.keys() and done["cancelled"] > steps // 50), wanted - done.keys()
