"""Sessions that a host keeps open at once, and names for them that a store can keep.

Each session has one user at a time, and those unused for longest are closed.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from summarizing_context.assembly import Options, start_context
from summarizing_context.context import SummarizingContext
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.base import Summarizer

_LONGEST_ID = 200


def session_id_from(host_id: str) -> str:
    """The host's session id in the characters that a session id may have; other hosts' ids stay different."""
    plain = re.sub(r"[^A-Za-z0-9._:-]", "-", host_id)
    if plain == host_id and len(plain) <= _LONGEST_ID:
        return plain
    digest = hashlib.sha256(host_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{plain[: _LONGEST_ID - 13]}.{digest}"


@dataclass(slots=True)
class _Session:
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    context: SummarizingContext | None = None


class Sessions:
    """The open sessions, at most `most` beside those in use. All methods belong to one event loop."""

    def __init__(self, settings: Settings, options: Options, most: int) -> None:
        self._settings = settings
        self._options = options
        self._most = most
        self._sessions: dict[str, _Session] = {}  # the one used last at the end
        self._closing: asyncio.Task[None] | None = None  # of sessions beyond `most`

    @asynccontextmanager
    async def use(self, name: str, summarizer: Summarizer | None = None) -> AsyncIterator[SummarizingContext]:
        """The session for one user after the other, opened where it is not. Raises as `open_context` does.

        A session that is opened now has this `summarizer`, if one is given, in place of that of the options.
        """
        session = self._sessions.pop(name) if name in self._sessions else _Session()
        self._sessions[name] = session
        session.users += 1
        try:
            async with session.turn:
                if session.context is None:
                    options = self._options if summarizer is None else replace(self._options, summarizer=summarizer)
                    session.context = await start_context(replace(self._settings, session_id=name), options)
                yield session.context
        finally:
            session.users -= 1
            if len(self._sessions) > self._most and (self._closing is None or self._closing.done()):
                self._closing = asyncio.create_task(self._close_oldest())

    def contexts(self) -> dict[str, SummarizingContext]:
        """The sessions that are open."""
        return {name: each.context for name, each in self._sessions.items() if each.context is not None}

    async def close(self) -> None:
        """Close all of them, at once."""
        if self._closing is not None:
            await self._closing
        closed = await asyncio.gather(*map(self._close, list(self._sessions)), return_exceptions=True)
        for error in filter(None, closed):
            raise error

    async def _close_oldest(self) -> None:
        for name in list(self._sessions)[: max(0, len(self._sessions) - self._most)]:
            if name in self._sessions and not self._sessions[name].users:
                await self._close(name)

    async def _close(self, name: str) -> None:
        session = self._sessions[name]
        async with session.turn:  # who wants it meanwhile waits, and opens it again
            if session.context is not None:
                await session.context.close()
                session.context = None
        if not session.users:
            self._sessions.pop(name, None)
