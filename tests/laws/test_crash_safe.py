"""crash_safe: what `add_message` acknowledged is there after a crash, and so are the activation state and its bytes."""

import hashlib
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.contexts import begun
from tests.killed_work import killed

from .amounts import ALL
from .builders import Message, session
from .judge import watched
from .places import STORE, after_kill, kept_at
from .shapes import canonical
from .summarizers import Counting

KILLS = 50 if ALL else 12


@pytest.mark.skipif(STORE != "sqlite", reason="a server's files are not copied while it runs")
async def test_a_copy_of_the_file_at_any_moment_gives_the_same_view(tmp_path: Path) -> None:
    """What is on the disk when a view has returned is what a crash right then would leave."""
    store, images = tmp_path / "a.db", 0
    async with watched(Counting(), budget=1_500, store=str(store)) as judge:
        for number, message in enumerate(session(51, 140)):
            await judge.add(message)
            view = await judge.view()
            if number % 3 or judge.context.open_calls():  # another process gives them stand-ins
                continue
            images += 1
            image = tmp_path / f"image{images}"
            image.mkdir()
            for path in filter(os.path.isfile, (store, f"{store}-wal")):
                shutil.copy(path, image)
            options: Any = {"summarizer": Counting(), "read_only": True}
            async with begun(max_tokens=1_500, store=image / "a.db", **options) as context:
                assert await context.get_messages_for_request() == view
                assert await context.get_messages() == judge.log
        assert judge.activations > 5
        assert images > 15


GROWN = session(38, 4_000 if ALL else 1_000)


def digests(rows: list[Message]) -> list[str]:
    return [hashlib.sha256(canonical(row).encode()).hexdigest() for row in rows]


async def grow(say: Callable[[dict[str, Any]], None], store: str, start: int) -> None:
    """Add for ever to a session in a file, and acknowledge each message and each view once it has returned."""
    async with begun(store=store, session_id="grown", summarizer=Counting("counting/1")) as context:
        say({"opened": len(await context.get_messages())})
        for place in range(start, len(GROWN)):
            await context.add_message(GROWN[place])
            say({"added": place + 1})
            if GROWN[place]["role"] == "assistant":
                say({"view": digests(await context.get_messages_for_request())})


class Grower:
    """A process that adds for ever; killed without warning, at a random line of what it says."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.acknowledged = self.view_at = self.views_kept = 0
        self.view: list[str] = []  # digests of the rows of the last view that any process was given

    def run_and_kill(self, lines: int) -> None:
        facts, ended = killed(grow, kept_at(self.store), self.acknowledged, after=lines)
        assert ended == signal.SIGKILL
        for fact in facts:
            self.acknowledged = fact.get("added", self.acknowledged)
            if "view" in fact:
                self.view, self.view_at = fact["view"], self.acknowledged
        after_kill(self.store)

    async def check(self) -> None:
        model, store = Counting("counting/1"), kept_at(self.store)
        async with begun(store=store, session_id="grown", summarizer=model) as context:
            kept = await context.get_messages()
            assert kept == GROWN[: len(kept)]
            assert self.acknowledged <= len(kept) <= self.acknowledged + 1
            self.acknowledged = len(kept)
            view = digests(await context.get_messages_for_request())
            is_kept = view[: len(self.view)] == self.view or context.statistics().activations > 0
            # or an activation was committed, and the child died before it said so
            assert is_kept or len(kept) > self.view_at
            self.views_kept += is_kept
            self.view, self.view_at = view, len(kept)  # this process may have activated itself, as with calls given up


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes to be killed are forked")
async def test_nothing_acknowledged_is_missing_after_kill_9(tmp_path: Path) -> None:
    rng, grower = random.Random(52), Grower(tmp_path / "a.db")
    for _ in range(KILLS):
        grower.run_and_kill(rng.choice((0, 0, 1, 2, rng.randint(3, 40))))
        await grower.check()
    assert grower.acknowledged > KILLS // 2
    assert grower.views_kept > KILLS * 8 // 10
