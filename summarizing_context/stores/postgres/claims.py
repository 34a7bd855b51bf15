"""Claims of summaries: one host pays for a key, the others wait for what it gets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from summarizing_context.errors import StoreError
from summarizing_context.stores.base import SummaryKey
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.postgres.notices import Notices
from summarizing_context.stores.relational.database import Access

logger = logging.getLogger(__name__)


class PostgresClaims:
    """The claims of one store. A store that fails costs the sharing of a summary, not the summary."""

    def __init__(self, access: Access, notices: Notices) -> None:
        self._access = access
        self._notices = notices

    @asynccontextmanager
    async def held(self, key: SummaryKey, seconds: float) -> AsyncIterator[None]:
        """Hold a key for so many seconds at most. Waits while another living host holds it."""
        try:
            while not await self._access.submit(lambda connection: _take(connection, key, seconds)):
                await self._notices.wait(_payload(key))
        except StoreError as error:
            logger.warning("a summary is made without a claim", extra={"cause": type(error).__name__})
        except asyncio.CancelledError:
            self._let_go(key)  # the claim may have been taken meanwhile
            raise
        try:
            yield
        finally:
            self._let_go(key)

    def _let_go(self, key: SummaryKey) -> None:
        with suppress(StoreError):  # closed: then its claims are gone too
            self._access.submit(lambda connection: self._give_up(connection, key)).add_done_callback(_settled)

    def _give_up(self, connection: PostgresConnection, key: SummaryKey) -> None:
        values = {"writer": connection.writer, "channel": self._notices.channel, "payload": _payload(key)}
        connection.run("give_up_claim", {**key._asdict(), **values})


def _take(connection: PostgresConnection, key: SummaryKey, seconds: float) -> bool:
    values = {**key._asdict(), "writer": connection.writer, "seconds": seconds}
    if connection.run("take_claim", values).fetchone() is not None:
        return True
    connection.run("want_claim", key._asdict())
    return False


def _payload(key: SummaryKey) -> str:
    return " ".join(key)


def _settled(given_up: asyncio.Future[None]) -> None:
    if not given_up.cancelled():
        given_up.exception()  # the deadline ends it
