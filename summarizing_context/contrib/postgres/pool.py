"""The pool: workers apart from the hosts make the summaries that hosts on one PostgreSQL store ask for.

A host asks, and takes the summary when it is there; views wait for none. A worker holds the claim of a key while it
pays. One that is killed loses its calls and nothing else: its claims end with its lease, and another goes on.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any

from summarizing_context.contrib.postgres.store import PostgresEngine, PostgresStore, looks, take_claim
from summarizing_context.errors import SettingsError, StoreError, SummarizerError, SummarizerNotReady, SummarizerRefused
from summarizing_context.settings import Settings, without_default_cap
from summarizing_context.stores.base import Place, SessionStore, StoredSummary, SummaryKey
from summarizing_context.stores.relational.store import note_uses, save_summary
from summarizing_context.summarizers.base import Caller, Summarizer, SummaryJob, SummaryReply
from summarizing_context.summarizers.providers import make_caller, make_model
from summarizing_context.summarizers.verification import GROUNDING_VERSION

RETRIES = (60.0, 300.0, 1_800.0, 7_200.0, 21_600.0, 86_400.0)  # seconds from each failure to the next try
_REFUSED = "refused: "  # begins the error of a request that a host asks for again later and later
_LOOK_AGAIN = 1.0  # seconds until a worker that has room looks for requests, or tries again what the store failed

logger = logging.getLogger(__name__)


class PostgresRequests:
    """The requests of a store for summaries, which workers of a pool answer: a queue for each model, by its recipe, and
    for each version of the checks. Removing a session removes its text. Every method raises `StoreError`."""

    def __init__(self, store: SessionStore, needs: str = "it needs a store that hosts share") -> None:
        if not isinstance(store, PostgresStore):
            raise SettingsError(f"{needs}: store = 'postgresql://…'")
        self.store = store

    async def run(self, query: str, **values: Any) -> Any:
        """Run one query, and return its first row, if it has one."""

        def work(connection: PostgresEngine) -> Any:
            cursor = connection.run(query, **values)
            return cursor.fetchone() if cursor.description else None

        return await self.store.submit("ask for summaries", work)

    async def ask(self, session_id: str, key: SummaryKey, recipe: str, text: bytes) -> None:
        queue = f"{recipe} {GROUNDING_VERSION}"
        await self.run("ask", **key._asdict(), session_id=session_id, queue=queue, request=text)

    async def fail(self, key: SummaryKey, error: str) -> None:
        """Say why a request was not answered. It is tried again, later and later; a host may ask before."""
        await self.run("note_error", **key._asdict(), error=error, waits=list(RETRIES))

    async def take(self, recipe: str, most: int, seconds: float = 300.0) -> list[tuple[SummaryKey, str, bytes]]:
        """Claim requests of a queue for so long; return each with its key, its session, and what it asks."""

        def work(connection: PostgresEngine) -> list[tuple[SummaryKey, str, bytes]]:
            queue = f"{recipe} {GROUNDING_VERSION}"
            found = connection.run("open_requests", queue=queue, most=most).fetchall()
            asked = [(SummaryKey(*key), session_id, text) for *key, session_id, text in found]
            return [request for request in asked if take_claim(connection, request[0], seconds)]

        return await self.store.submit("ask for summaries", work)

    async def wait(self, key: SummaryKey) -> str | None:
        """Wait until a request is answered, or removed with its session; return the error where it failed."""
        async for _ in looks():
            row = await self.run("find_error", **key._asdict())
            if row is None or row[0] is not None:
                return None if row is None else str(row[0])
        return None

    async def answer(self, session_id: str, key: SummaryKey, summary: StoredSummary, place: Place) -> None:
        """Keep a summary unless there is one, and end its request, in one transaction. It is dropped where its session
        was deleted meanwhile and no other session asks."""

        def work(connection: PostgresEngine) -> None:
            is_asked = connection.run("lock_request", **key._asdict()).fetchone() is not None
            if is_asked or connection.run("lock_asker", session_id=session_id).fetchone() is not None:
                save_summary(connection, key, summary)
                note_uses(connection, session_id, {key: place})
                connection.run("remove_request", **key._asdict())

        await self.store.submit("ask for summaries", work)


# The side of a host


class PoolCaller:
    """Has the summaries of one session made by the pool, in place of `caller`, which is None where no model is asked.
    Workers of one model serve those who ask for its recipe."""

    def __init__(self, settings: Settings, store: SessionStore, caller: Caller | None) -> None:
        """Raise `SettingsError`."""
        self._requests = PostgresRequests(store, f"workers = {settings.workers!r} needs a store that hosts share")
        if caller is None or caller.recipe is None:
            raise SettingsError(
                f"workers = {settings.workers!r} needs a summarizer that workers have too: one that asks a model, such "
                "as 'openai', or an object of yours with an attribute `recipe`"
            )
        self.recipe, self.model, self._session_id = caller.recipe, caller.model, settings.session_id

    def ready_in(self) -> float | None:
        return 0.0

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return the summary of a job, by a worker. Raises `SummarizerError` where the attempt failed."""
        key, requests = SummaryKey(job.range_hash, job.recipe_hash), self._requests
        try:
            while True:
                await requests.ask(self._session_id, key, self.recipe, json.dumps(asdict(job)).encode())
                if (error := await requests.wait(key)) is not None:
                    raise (SummarizerRefused if error.startswith(_REFUSED) else SummarizerError)(error)
                if kept := (await requests.store.find_summaries(self._session_id, {key: None})).get(key):
                    return SummaryReply(kept.text, kept.input_tokens, kept.output_tokens)
        except StoreError as error:
            raise SummarizerError("the pool's queue is out of reach") from error


# The side of a worker


@asynccontextmanager
async def pool_worker(
    settings: Settings, store: SessionStore, *, summarizer: Summarizer | None = None, drain_within: float = 20.0
) -> AsyncIterator[PoolWorker]:
    """A worker on an open store; the settings name the model and its limits. Raises `SettingsError`."""
    requests = PostgresRequests(store, "a worker serves hosts that share a store")
    if summarizer is None and settings.summarizer == "extractive":
        raise SettingsError("a worker asks a model: set summarizer to one that does, such as 'openai' or 'anthropic'")
    own = make_model(settings, read_only=False) if summarizer is None else None
    try:
        caller = make_caller(without_default_cap(settings), own or summarizer, read_only=False)
        if caller.recipe is None:
            raise SettingsError("the summarizer needs an attribute `recipe`, by which hosts name it too")
        yield PoolWorker(requests, caller, caller.recipe, settings, drain_within)
    finally:
        if own is not None:
            await own.close()


class PoolWorker:
    """Makes summaries for the sessions of one store, until told to drain. Belongs to its event loop."""

    def __init__(self, store: PostgresRequests, caller: Caller, recipe: str, given: Settings, drain: float) -> None:
        self._requests, self._caller, self._recipe = store, caller, recipe
        self._room, self._drain_within = given.concurrency, drain
        self._claim = 3 * given.call_timeout + 120.0  # seconds that a job may take, and its reply to be kept
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """Take no more requests; finish those under way, or give them back when the time for it has passed."""
        self._draining.set()

    async def run(self) -> None:
        running: set[asyncio.Task[None]] = set()
        draining = asyncio.create_task(self._draining.wait())
        try:
            while not self._draining.is_set():
                # begin what is asked for, as far as there is room
                gate, room = self._caller.ready_in(), self._room - len(running)
                if gate == 0.0 and room:
                    try:
                        taken = await self._requests.take(self._recipe, room, self._claim)
                        running |= {asyncio.create_task(self._make(*request)) for request in taken}
                    except StoreError as error:
                        logger.warning("the queue is out of reach for now", extra={"cause": type(error).__name__})
                until, look = {draining, *running}, min(gate or _LOOK_AGAIN, _LOOK_AGAIN)
                await asyncio.wait(until, timeout=look, return_when=asyncio.FIRST_COMPLETED)
                running = {task for task in running if not task.done()}
            if running:
                _, late = await asyncio.wait(running, timeout=self._drain_within)
                for task in late:
                    task.cancel()
                await asyncio.gather(*late, return_exceptions=True)
        finally:
            draining.cancel()
            await asyncio.wait([draining])

    async def _make(self, key: SummaryKey, session_id: str, text: bytes) -> None:
        """Make one summary, whose key is claimed until then."""
        requests = self._requests
        try:
            job = SummaryJob(**json.loads(text))
            place = job.start, job.stop
            if await requests.store.find_summaries(session_id, {key: place}):  # made by another meanwhile
                await requests.run("remove_request", **key._asdict())
                return
            reply = await self._caller.summarize(job)
            made = StoredSummary(reply.text, job.rank, reply.input_tokens or 0, reply.output_tokens or 0)
            while True:  # what was paid for is kept, however long the server is away
                try:
                    await requests.answer(session_id, key, made, place)
                    return
                except StoreError as error:
                    logger.warning("a summary waits to be kept", extra={"cause": type(error).__name__})
                    await asyncio.sleep(_LOOK_AGAIN)
        except SummarizerNotReady:  # it waits in the table; the gate of the caller says when to take it again
            pass
        except StoreError as error:
            logger.warning("a request waits for the store", extra={"cause": type(error).__name__})
            await asyncio.sleep(_LOOK_AGAIN)
        except Exception as error:
            cause = str(error)
            if not isinstance(error, SummarizerError):  # a fault of this package or of a foreign object
                cause = type(error).__name__
                logger.error("a summary could not be made", extra={"cause": cause})
            with suppress(StoreError):  # it is tried again
                await requests.fail(key, f"{_REFUSED if isinstance(error, SummarizerRefused) else ''}{cause}")
        finally:
            requests.store.give_up_key(key)
