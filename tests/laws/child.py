"""What the law tests run in processes of their own. A summarizer's recipe and all texts are the same in each.

`python -m tests.laws.child COUNTER STORE` prints the keys of all jobs of one log, and the views of another; `grow` is
killed.
"""

import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

import anyio

from summarizing_context import Settings, open_context

from .builders import Message, count, session
from .judge import SMALL
from .shapes import canonical
from .summarizers import Counting


def third(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass")) // 3


def digests(rows: list[Message]) -> list[str]:
    return [hashlib.sha256(canonical(row).encode()).hexdigest() for row in rows]


async def keys_and_views(counter: str, store: str) -> None:
    print(json.dumps([await keys(third if counter == "bytes" else count), await views(store)]))


async def keys(counter: Callable[[str], int]) -> list[list[Any]]:
    """The keys of all jobs of one log."""
    summarizer = Counting("counting/1")
    options = Settings(max_tokens=1_200, start_at=0.01, **SMALL)
    async with open_context(options, summarizer=summarizer, count_tokens=counter) as context:
        log = session(36, 240)
        await context.set_messages(log)
        for _ in range(3):  # a merge is asked for once a view shows it
            await context.compact()
            await context.wait_idle()
        segments = context._session.log.segments
    # where a view ends a segment depends on what its tokens count
    whole = {(segment.start, segment.stop) for segment in segments if not segment.is_early}
    early = [segment.start for segment in segments if segment.is_early]
    jobs = [job for job in summarizer.segments if (job.start, job.stop) in whole]
    merges = [job for job in summarizer.jobs if job.kind != "segment"]
    jobs += [job for job in merges if not any(job.start <= at < job.stop for at in early)]
    return sorted([job.kind, job.start, job.stop, job.range_hash] for job in jobs)


async def views(store: str) -> dict[str, Any]:
    """A digest of each settled view that the extractive summarizer gives."""
    settled: list[list[str]] = []
    async with open_context(Settings(max_tokens=2_000, store=store, **SMALL), count_tokens=count) as context:
        for message in session(37, 120):
            await context.add_message(message)
            if message["role"] == "assistant":
                await context.wait_idle()
                settled.append(digests(await context.get_messages_for_request()))
        return {"views": settled, "activations": context.statistics().activations}


GROWN = session(38, 4_000)


async def grow(say: Callable[[dict[str, Any]], None], store: str, start: int) -> None:
    """Add for ever to a session in a file, and acknowledge each message and each view once it has returned."""
    options = Settings(max_tokens=2_000, store=store, session_id="grown", **SMALL)
    async with open_context(options, summarizer=Counting("counting/1"), count_tokens=count) as context:
        say({"opened": len(await context.get_messages())})
        for place in range(start, len(GROWN)):
            await context.add_message(GROWN[place])
            say({"added": place + 1})
            if GROWN[place]["role"] == "assistant":
                say({"view": digests(await context.get_messages_for_request())})


if __name__ == "__main__":
    anyio.run(keys_and_views, *sys.argv[1:])
