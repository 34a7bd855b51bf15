"""Killed at any moment, a session goes on where it was: log, activation state, view and summaries."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.messages.validation import decode_message
from summarizing_context.stores.base import SummaryKey
from summarizing_context.views.view import ActivationState, decode_state
from tests.contract.context_crasher import LOG, digest, opening
from tests.contract.crashes import Plan, after_acks, in_statement, in_write, killed, nursery
from tests.contract.store_builders import opened, sql

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes to be killed are forked"),
]

CHAINS: dict[str, list[Plan]] = {
    "append": [*in_statement("insert into entries", 3, 40, 11), *in_statement("insert into entries", 7, 29, steps=5)],
    "commit": [*in_statement("commit", 2, 31, 50), *in_statement("commit", 17, 44, steps=1)],
    "transaction": [*in_statement("begin", 26, 61), *in_statement("update sessions", 9, 21), *in_write(90_000)],
    "acknowledged": after_acks(4, 90, 151, 33, 207),
    "activation": [
        *in_statement("insert into activations", 2, 1),
        *in_statement("insert into activations", 1, 2, steps=7),
        *in_statement("delete from activations", 1, steps=3),
    ],
    "after activation": after_acks(2, 1, 3, 1, 2, of="activation"),
    "summary": [
        *in_statement("insert into summaries", 1, 5),
        *in_statement("insert into summaries", 3, steps=7),
        *in_statement("insert into summary_uses", 2, 7, steps=5),
    ],
    "after summary": after_acks(1, 6, 2, 9, 4, of="summary"),
    "view": [*after_acks(1, 30, 2, of="view"), *in_write(200_000, 400_000)],
    "opening": [
        *after_acks(120),
        *in_statement("begin", 1, 3, early=True),
        *in_statement("commit", 1, early=True),
        *after_acks(1, of="opened"),
    ],
}
MODELS = {"commit", "acknowledged", "summary", "after summary", "after activation"}


@pytest.fixture(scope="module")
def crasher() -> Iterator[subprocess.Popen[str]]:
    """One process that forks all those that are killed."""
    with nursery("context_crasher.py") as process:
        yield process


class Witness:
    """What was acknowledged of one session so far, by processes that are dead by now."""

    def __init__(self, path: Path | str, model: bool) -> None:
        self.path, self.model = path, model
        self.added = 0
        self.serial = 0  # of the newest activation state
        self.header: str | None = None
        self.view: list[str | None] = []
        self.view_serial = 0  # of the state that the view stands on
        self.summaries: dict[SummaryKey, str] = {}
        self.views_kept = self.headers_kept = 0

    def hear(self, acks: list[Plan]) -> None:
        for fact in acks:
            self.added = max(self.added, fact.get("added", 0))
            if "activation" in fact:
                assert fact["activation"] - self.serial in (0, 1)  # kept again where calls were given up
                self.serial, self.header = fact["activation"], fact["header"]
            if "view" in fact:
                self.view, self.view_serial = fact["view"], self.serial
            if "summary" in fact:
                self.summaries[SummaryKey(*fact["summary"])] = fact["text"]
            if "began" in fact:
                self.hear_beginning(fact["began"])

    def hear_beginning(self, range_hash: str) -> None:
        assert range_hash not in {key.range_hash for key in self.summaries}, "it was paid for already"

    async def check_file(self) -> None:
        """What the dead process left."""
        async with opened(self.path, read_only=True) as store:
            stored = await store.load("s")
            found = await store.find_summaries("s", list(self.summaries))
        assert stored is not None
        kept = [decode_message(entry.message) for entry in stored.entries]
        assert kept == LOG[: len(kept)]
        assert self.added <= len(kept) <= self.added + 4, "no more than was under way"
        assert {key: summary.text for key, summary in found.items()} == self.summaries
        self.added = len(kept)
        self._check_state(decode_state(stored.activations[-1][1]) if stored.activations else ActivationState())
        if isinstance(self.path, str):
            return
        with sql(self.path) as connection:
            assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]

    def _check_state(self, state: ActivationState) -> None:
        assert state.stop <= self.added, "nothing is covered that is not there"
        if state.serial == self.serial:
            assert digest(state.header) == self.header
        else:  # kept, but the process died before it could say so
            assert state.serial == self.serial + 1
        self.serial, self.header = state.serial, digest(state.header)

    async def check_going_on(self, *, settle: bool) -> None:
        """A living process takes up the session."""
        async with opening(self.path, self.model, self.hear_beginning) as context:
            assert await context.get_messages() == LOG[: self.added]
            view = [digest(row) for row in await context.get_messages_for_request()]
            if context.last_view.activation is None:
                if self.view_serial == self.serial:
                    assert view[: len(self.view)] == self.view
                else:  # the process died between an activation and its view
                    assert self.header in view
                self.views_kept += 1
                self.headers_kept += self.header is not None
            if settle:
                await context.wait_idle()
        await self._take_over(view)

    async def check_resting(self) -> None:
        """Opened again without a new message, the session has the view that it had, whatever the kills left."""
        await self.check_going_on(settle=True)
        kept, self.views_kept, self.headers_kept = self.serial, 0, 0
        await self.check_going_on(settle=False)
        assert (self.serial, self.views_kept, self.headers_kept) == (kept, 1, 1)

    async def _take_over(self, view: list[Any]) -> None:
        """What the living process did counts as acknowledged too."""
        async with opened(self.path, read_only=True) as store:
            stored = await store.load("s")
        assert stored is not None
        state = decode_state(stored.activations[-1][1]) if stored.activations else ActivationState()
        self.serial, self.header = state.serial, digest(state.header)
        self.view, self.view_serial = view, self.serial


@pytest.mark.parametrize("name", CHAINS)
async def test_a_session_goes_on_where_it_was_killed(name: str, crasher: subprocess.Popen[str], tmp_path: Path) -> None:
    witness = Witness(tmp_path / "run.db", name in MODELS)
    for number, plan in enumerate(CHAINS[name] * 2):  # the second time in a session with a past
        witness.hear(killed(crasher, {**plan, "path": str(witness.path), "model": witness.model}))
        await witness.check_file()
        await witness.check_going_on(settle=number == 3)
    assert witness.added > 40
    assert witness.serial > 1
    assert len(witness.summaries) > 2
    await witness.check_resting()
