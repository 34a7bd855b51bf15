"""Work that is killed, in a process that is forked from a server which has loaded what the work needs."""

import asyncio
import multiprocessing
import signal
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection
from typing import Any

LOADED = ["tests.behaviour.killed", "tests.laws.test_crash_safe", "tests.contract.test_store_crash"]
PATIENCE = 120  # seconds; a process that is not killed by then ends itself, by SIGALRM


def killed(
    work: Callable[..., Coroutine[Any, Any, None]], *given: Any, after: int | None = None
) -> tuple[list[Any], int]:
    """Run `work(tell, *given)` until it is killed, by SIGKILL from here `after` so many facts have come: all that it
    has told, and the signal."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(LOADED)
    hearing, telling = forks.Pipe(duplex=False)
    process = forks.Process(target=_run, args=(telling, work, given))
    process.start()
    telling.close()
    facts: list[Any] = []
    with hearing:
        while True:
            if len(facts) == after:
                process.kill()
            try:
                facts.append(hearing.recv())
            except (EOFError, OSError):  # it may have been killed while it said so
                break
    process.join()
    assert process.exitcode is not None
    return facts, -process.exitcode


def _run(telling: Connection, work: Callable[..., Coroutine[Any, Any, None]], given: tuple[Any, ...]) -> None:
    signal.alarm(PATIENCE)
    asyncio.run(work(telling.send, *given))
