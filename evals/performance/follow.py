"""What a host pays that hands over its whole history each turn: 5,000 messages, two of them new.

Each turn hands over new objects, as a host does that reads its messages from a file or converts them. `set_messages`
of the same histories is measured by turns with it, in a session of its own.

    python -m evals.performance.follow [--messages 5000]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import time
from collections.abc import Awaitable

from evals.performance.session import messages
from evals.performance.tokens import Message
from summarizing_context import Settings, open_context

TURNS = 21
NEW = 2  # messages of a turn
SETTINGS = Settings(max_tokens=16_000, token_counter="estimate")


async def measure(count: int) -> dict[str, float]:
    """Medians over the turns, in milliseconds of the clock and of the processor, and the activations of the turns."""
    rows = list(messages(count + NEW * TURNS))
    begun = rows[:count]
    unkeyed: list[tuple[float, float]] = []
    keyed: list[tuple[float, float]] = []
    anew: list[tuple[float, float]] = []
    async with open_context(SETTINGS) as plain, open_context(SETTINGS) as named, open_context(SETTINGS) as replaced:
        await plain.follow(begun)
        await named.follow(begun, keys=_keys(begun))
        await replaced.set_messages(begun)
        for context in (plain, named, replaced):
            await context.wait_idle()
            await context.get_messages_for_request()
            await context.search("anything")  # the index of what was loaded is made at once, not while turns are timed
        before = [context.statistics().activations for context in (plain, named, replaced)]
        gc.collect()
        gc.freeze()  # a collection of what is only measured with must not be timed
        for stop in range(count + NEW, count + NEW * TURNS + 1, NEW):
            history: list[Message] = json.loads(json.dumps(rows[:stop]))
            unkeyed.append(await _timed(plain.follow(history)))
            keyed.append(await _timed(named.follow(history, keys=_keys(history))))
            anew.append(await _timed(replaced.set_messages(history)))
            for context in (plain, named, replaced):
                await context.get_messages_for_request()
                await context.wait_idle()
        counts = [context.statistics().activations for context in (plain, named, replaced)]
    activations = [now - then for now, then in zip(counts, before, strict=True)]
    return {
        **_medians("follow", unkeyed),
        **_medians("follow_keys", keyed),
        **_medians("set_messages", anew),
        "follow_activations": max(activations[:2]),
        "set_messages_activations": activations[2],
    }


def _keys(history: list[Message]) -> list[str]:
    """The ids that a host has with its messages."""
    return [f"id-{at}" for at in range(len(history))]


def _medians(name: str, times: list[tuple[float, float]]) -> dict[str, float]:
    clock, processor = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
    return {f"{name}_ms": clock, f"{name}_processor_ms": processor}


async def _timed(doing: Awaitable[object]) -> tuple[float, float]:
    """Seconds by the clock, and seconds of the processor."""
    began, worked = time.perf_counter(), time.process_time()
    await doing
    return time.perf_counter() - began, time.process_time() - worked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=5_000)
    figures = asyncio.run(measure(parser.parse_args().messages))
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
