"""Notices of other hosts, by LISTEN where the server's session is ours; who waits looks again from time to time.

Behind a pooler in transaction mode no notice comes, and nothing else changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import psycopg

from summarizing_context.stores.postgres.address import Address

_LOOK_AGAIN = 1.0  # seconds
_RETRY = 5.0

logger = logging.getLogger(__name__)


class Notices:
    """The notices of one store, on one connection. Belongs to its event loop; begins to listen when somebody waits."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.channel = f"{address.schema[:50]}_summaries"
        self._told: dict[str, Callable[[str], None]] = {self.channel: self._wake}
        self._waiting: dict[str, tuple[asyncio.Event, int]] = {}  # with how many wait
        self._listening: asyncio.Task[None] | None = None

    async def wait(self, payload: str, seconds: float | None = None) -> None:
        """Wait for a notice with this payload; so many seconds at most, or until it is time to look again."""
        self._start()
        event, users = self._waiting.get(payload, (asyncio.Event(), 0))
        self._waiting[payload] = event, users + 1
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), _LOOK_AGAIN if seconds is None else seconds)
        finally:
            _, users = self._waiting.pop(payload)
            if users > 1:
                self._waiting[payload] = event if not event.is_set() else asyncio.Event(), users - 1

    def hear(self, channel: str, told: Callable[[str], None]) -> None:
        """Call `told` with the payload of each notice of another channel; its earlier one is forgotten."""
        if channel not in self._told and self._listening is not None:
            self._listening.cancel()
            self._listening = None
        self._told[channel] = told
        self._start()

    async def stop(self) -> None:
        """End listening."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    def _start(self) -> None:
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="notices of other hosts")

    def _wake(self, payload: str) -> None:
        if payload in self._waiting:
            self._waiting[payload][0].set()

    async def _listen(self) -> None:
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    self._address.url, autocommit=True, prepare_threshold=None, application_name="summarizing-context"
                ) as connection:
                    for channel in self._told:
                        await connection.execute(f"listen {channel}".encode())
                    async for notice in connection.notifies():
                        self._told[notice.channel](notice.payload)
            except psycopg.Error as error:  # looking again is enough
                logger.info("no notices of other hosts for now", extra={"cause": type(error).__name__})
            await asyncio.sleep(_RETRY)
