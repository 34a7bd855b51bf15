"""Builders for tests of the command line: what it left behind, its help, transcripts and stores."""

import json
import re
from asyncio import gather
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.cli import main


class Ran(NamedTuple):
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Its standard output, read as JSON."""
        return json.loads(self.out)


Runner = Callable[..., Ran]


@cache
def helps() -> dict[tuple[str, ...], str]:
    """The help of every command and family by its words, in 80 columns; the help itself names those below."""
    found: dict[tuple[str, ...], str] = {}
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        words = waiting.pop()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as shown:
            patch.setenv("COLUMNS", "80")
            assert main([*words, "--help"]) == 0
        found[words] = shown.getvalue()
        named = re.findall(r"^│ ([a-z]+) +[A-Z]", found[words], re.MULTILINE)
        of_one = re.search(r"as /context in a host \(.*?\): (.*?)\.", " ".join(found[words].split()))
        waiting += [(*words, name) for name in [*named, *(of_one[1].split(", ") if of_one else ())]]
    return found


def says(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def write_transcript(path: Path, messages: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(message) + "\n" for message in messages), encoding="utf8")
    return path


def fill_store(path: Path, session_id: str, messages: Sequence[dict[str, Any]], **settings: Any) -> Path:
    """A store with a session that has these messages, its summaries made and one view taken."""

    async def fill() -> None:
        async with open_context(Settings(store=path, session_id=session_id, **settings)) as context:
            await gather(*map(context.add_message, messages))  # one commit for many
            await context.wait_idle()
            await context.get_messages_for_request()

    anyio.run(fill)
    return path
