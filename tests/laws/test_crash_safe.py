"""crash_safe: what `add_message` acknowledged is there after a crash, and so are the activation state and its bytes."""

import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, open_context
from tests.killed_work import killed

from .amounts import ALL
from .builders import count, session
from .child import GROWN, digests, grow
from .judge import SMALL, watched
from .places import STORE, after_kill, kept_at
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
            if number % 3 == 0 and not judge.context.open_calls():  # another process gives them stand-ins
                images += 1
                image = tmp_path / f"image{images}"
                image.mkdir()
                for path in (store, store.with_name("a.db-wal")):
                    if path.is_file():
                        shutil.copy(path, image)
                settings = Settings(max_tokens=1_500, store=str(image / "a.db"), **SMALL)
                options: Any = {"summarizer": Counting(), "count_tokens": count, "read_only": True}
                async with open_context(settings, **options) as context:
                    assert await context.get_messages_for_request() == view
                    assert await context.get_messages() == judge.log
        assert judge.activations > 5
        assert images > 15


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
        settings = Settings(max_tokens=2_000, store=kept_at(self.store), session_id="grown", **SMALL)
        summarizer = Counting("counting/1")
        async with open_context(settings, summarizer=summarizer, count_tokens=count) as context:
            kept = await context.get_messages()
            assert kept == GROWN[: len(kept)]
            assert self.acknowledged <= len(kept) <= self.acknowledged + 1
            self.acknowledged = len(kept)
            view = digests(await context.get_messages_for_request())
            if view[: len(self.view)] == self.view or context.statistics().activations:
                self.views_kept += 1
            else:  # an activation was committed, and the child died before it could say so
                assert len(kept) > self.view_at
            self.view, self.view_at = view, len(kept)  # this process may have activated itself, as with calls given up


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes to be killed are forked")
async def test_nothing_acknowledged_is_missing_after_kill_9(tmp_path: Path) -> None:
    rng, grower = random.Random(52), Grower(tmp_path / "a.db")
    for _ in range(KILLS):
        grower.run_and_kill(rng.choice((0, 0, 1, 2, rng.randint(3, 40))))
        await grower.check()
    assert grower.acknowledged > KILLS // 2
    assert grower.views_kept > KILLS * 8 // 10
