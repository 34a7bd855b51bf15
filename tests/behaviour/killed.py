"""A program that is killed at one point of its steps: what a forked process does.

The process that forks loads this module, and with it all that the first request of a client builds.
"""

import asyncio
import functools
import itertools
import os
import signal
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from openai import AsyncOpenAI
from openai.resources.chat.completions import AsyncCompletions

from summarizing_context import Settings, SummarizingContext, open_context
from tests.providers.protocols import completion

POINTS: list[tuple[Any, str, bool]] = [  # a method, and whether it has a point before it too
    (SummarizingContext, "add_message", True),
    (SummarizingContext, "get_messages_for_request", False),
    (AsyncCompletions, "create", False),
]


async def warm_up() -> None:
    ssl.SSLContext.load_verify_locations = lambda *_, **__: None  # TLS is not spoken
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=completion()))
    async with (
        open_context(Settings(max_tokens=8_000)) as context,
        AsyncOpenAI(api_key="none", http_client=httpx.AsyncClient(transport=transport)) as client,
    ):
        await context.add_message({"role": "user", "content": "Begin."})
        rows = await context.get_messages_for_request()
        reply = await client.chat.completions.create(model="m", messages=rows)
        reply.choices[0].message.model_dump(exclude_none=True)


asyncio.run(warm_up())


async def run(tell: Callable[[str], None], program: str, folder: Path, env: dict[str, str], wanted: int) -> None:
    """Run a program in a folder and kill it at the requested point, after passing the name of the point to `tell`."""
    numbers = itertools.count(1)

    def pass_point(name: str) -> None:
        if next(numbers) == wanted:
            tell(name)
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
    os.environ.update(env)
    os.chdir(folder)
    await asyncio.to_thread(exec, program, {"__name__": "__main__"})  # it has an event loop of its own
