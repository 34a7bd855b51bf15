"""Run by `test_context_crash.py`: forks a process for each plan it reads, which grows a session until it is killed.

A plan is a line of JSON, as in `store_crasher`. `model` asks for a summarizer with a recipe in place of the extractive
one, `early` arms the trap before the session is opened.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from summarizing_context import Settings, SummaryJob, open_context
from summarizing_context.settings.addresses import is_address
from summarizing_context.stores.postgres.store import PostgresStore
from summarizing_context.stores.sqlite.store import SqliteStore
from summarizing_context.testing import range_name
from summarizing_context.views.view import decode_state
from tests.contract.store_crasher import Trap, serve
from tests.laws.builders import Message, count, session

Ack = Callable[..., None]
LOG = session(77, 1_500, size=30)
SMALL = {"segment_min": 150, "segment_target": 300, "segment_max": 600, "summary_max_tokens": 30}


def settings(path: str | Path) -> Settings:
    """The same in every process that opens the session."""
    return Settings(store=str(path), session_id="s", max_tokens=1_200, start_at=0.01, **SMALL)


def digest(message: Message | None) -> str | None:
    """Of a message's bytes as a provider would get them."""
    return None if message is None else hashlib.sha256(json.dumps(message).encode()).hexdigest()[:16]


class Model:
    """A summarizer that is known by its recipe; it tells each call."""

    recipe = "crash-tests/1"

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    async def summarize(self, job: SummaryJob) -> str:
        self._tell(job.range_hash)
        for _ in range(int(job.range_hash[:2], 16) % 5):
            await asyncio.sleep(0)
        return f"## Done\n- worked on {range_name(job.range_hash)}"


class Notices:
    """Tells each extractive summary that is begun; a model's calls are told by the model."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def emit(self, name: str, data: Mapping[str, Any]) -> None:
        if name == "summary_started":
            self._tell(str(data["range_hash"]))


def opening(path: str | Path, model: bool, tell: Callable[[str], None]) -> Any:
    """The session, with every beginning of a summary told."""
    return open_context(
        settings(path),
        summarizer=Model(tell) if model else None,
        events=None if model else Notices(tell),
        count_tokens=count,
    )


async def grow(plan: dict[str, Any], arm: Callable[[], None], ack: Ack) -> None:
    """Add for ever, a few messages at once, with a view after them."""
    if plan.get("early"):
        arm()
    async with opening(plan["path"], plan.get("model", False), lambda range_hash: ack(began=range_hash)) as context:
        place = len(await context.get_messages())
        ack(opened=place)
        arm()
        rng = random.Random(place)
        while place < len(LOG):
            batch = LOG[place : place + rng.randint(1, 4)]
            await asyncio.gather(*(add(context, message, place + at, ack) for at, message in enumerate(batch)))
            place += len(batch)
            view = await context.get_messages_for_request()
            ack(view=[digest(row) for row in view])
            if rng.random() < 0.3:
                await context.wait_idle(1)


async def add(context: Any, message: Message, place: int, ack: Ack) -> None:
    await context.add_message(message)
    ack(added=place + 1)


def acknowledge_saves(ack: Ack, kind: Any) -> None:
    """Tell every activation state and every summary once a store of this kind has said that it is kept."""
    save_activation, save_summary = kind.save_activation, kind.save_summary

    async def activation(self: Any, session_id: str, provider_key: str, state: bytes, made: Any = None) -> None:
        await save_activation(self, session_id, provider_key, state, made)
        kept = decode_state(state)
        ack(activation=kept.serial, header=digest(kept.header))

    async def summary(self: Any, session_id: str, key: Any, made: Any, places: Any) -> Any:
        kept = await save_summary(self, session_id, key, made, places)
        ack(summary=list(key), text=kept.text)
        return kept

    kind.save_activation = activation
    kind.save_summary = summary


def work_until_killed(plan: dict[str, Any], pipe: int) -> None:
    trap = Trap(plan)

    def ack(**fact: Any) -> None:
        os.write(pipe, json.dumps(fact).encode() + b"\n")

    acknowledge_saves(ack, PostgresStore if is_address(plan["path"]) else SqliteStore)
    asyncio.run(grow(plan, trap.arm, ack))


async def warm_up() -> None:
    """Load and compile what a session needs once, not in each fork."""
    async with open_context(Settings(max_tokens=1_200), count_tokens=count) as context:
        for message in LOG[:20]:
            await context.add_message(message)
        await context.get_messages_for_request()
        await context.wait_idle()


if __name__ == "__main__":
    asyncio.run(warm_up())
    serve(work_until_killed)
