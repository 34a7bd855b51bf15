"""Run programs, each killed at one point of its steps after the other, and run again after each kill.

`python -m tests.behaviour.killed FOLDER` makes a folder for each point of each script of the folder, with `told.json`:
the point's name, and the logs before and after the second run. The processes are forked from this one, so that the
libraries are loaded once.
"""

import asyncio
import functools
import itertools
import json
import os
import signal
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from openai.resources.chat.completions import AsyncCompletions

from summarizing_context import Settings, SummarizingContext, open_context
from tests.laws.builders import user

POINTS: list[tuple[Any, str, bool]] = [  # a method, and whether it has a point before it too
    (SummarizingContext, "add_message", True),
    (SummarizingContext, "get_messages_for_request", False),
    (AsyncCompletions, "create", False),
]
LONGEST = 60  # seconds for one process


def forked(work: Callable[[], object]) -> int:
    """Do the work in another process; how that ended, as `os.waitstatus_to_exitcode` tells."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(LONGEST)
    try:
        work()
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)


def run(script: Path, folder: Path, wanted: int = 0) -> None:
    """The program, in the folder; killed when it comes to the wanted point."""
    numbers = itertools.count(1)

    def pass_point(name: str) -> None:
        if next(numbers) == wanted:
            (folder / "point").write_text(name, encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(name: str, real: Any, before: bool) -> Any:
        @functools.wraps(real)
        async def call(*args: Any, **kwargs: Any) -> Any:
            if before:
                pass_point(f"before {name}")
            made = await real(*args, **kwargs)
            pass_point(f"after {name}")
            return made

        return call

    for owner, name, before in POINTS:
        setattr(owner, name, watched(name, getattr(owner, name), before))
    os.chdir(folder)
    exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), {"__name__": "__main__"})


def run_again(script: Path, folder: Path) -> None:
    """The program once more, as it is; the log before and behind that is kept."""
    session_id = "s1" if 'session_id="s1"' in script.read_text(encoding="utf-8") else "default"

    async def log() -> Any:
        async with open_context(Settings(store=folder / "agent.db", session_id=session_id)) as context:
            return await context.get_messages()

    told = {"name": (folder / "point").read_text(encoding="utf-8"), "before": asyncio.run(log())}
    run(script, folder)
    (folder / "told.json").write_text(json.dumps({**told, "after": asyncio.run(log())}), encoding="utf-8")


async def warm_up() -> None:
    """Load and build here what each process would: of the client, what its first request needs."""
    ssl.SSLContext.load_verify_locations = lambda *_, **__: None  # TLS is not spoken
    async with open_context(Settings(max_tokens=8_000)) as context:
        await context.add_message(user("Begin."))
        rows = await context.get_messages_for_request()
    async with AsyncOpenAI() as client:
        await client.chat.completions.create(model="m", messages=rows)


def kill_at_each_point(script: Path) -> None:
    for point in itertools.count(1):
        place = script.with_suffix("") / str(point)
        place.mkdir(parents=True)
        status = forked(functools.partial(run, script, place, point))
        if status == 0:
            return  # it has no such point
        assert status == -signal.SIGKILL, status
        assert forked(functools.partial(run_again, script, place)) == 0


if __name__ == "__main__":
    asyncio.run(warm_up())
    for found in sorted(Path(sys.argv[1]).glob("*.py")):
        kill_at_each_point(found)
