"""Open the session that a mount plan asks for: in its file, or in memory; take over a JSON history once.

A damaged file, or one that another process writes, is an error: a log exists, and going on without it would lose it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from summarizing_context.adapters.amplifier.messages import as_json
from summarizing_context.adapters.amplifier.options import MountOptions
from summarizing_context.assembly import Options, open_store, start_context
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import SessionInUseError, StoreCorruptError, StoreError, StoreReadOnlyError
from summarizing_context.messages.validation import decode_message
from summarizing_context.settings.addresses import is_address
from summarizing_context.settings.values import Settings

SUFFIX = ".db"  # of the store beside a list

_SQLITE = b"SQLite format 3\x00"


def store_beside(path: Path) -> Path:
    """The store that goes with a list; `path` itself where that holds none."""
    return path.with_name(path.name + SUFFIX) if _holds_list(path) else path


def read_list(path: Path) -> list[Any]:
    """The messages in the file. Raises `StoreCorruptError` where it only begins like a list."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError, OSError) as error:
        raise StoreCorruptError(
            f"{path} begins like a JSON list but cannot be read ({type(error).__name__}); repair it, or name another "
            "storage_path"
        ) from None
    return list(found)


async def is_taken_over(store: Path) -> bool:
    """Whether a session of the store has messages: then the list was read before. A store that may not be written
    has none to take over."""
    if not _is_begun(store):
        return False
    try:
        opened = await open_store(store)  # to write: one of an earlier version is brought up to date
    except StoreReadOnlyError:
        return True
    try:
        return any(session.messages for session in await opened.sessions())
    finally:
        await opened.close()


def _is_begun(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _holds_list(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            beginning = file.read(4_096)
    except OSError:
        return False
    return not beginning.startswith(_SQLITE) and beginning.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


_MEMORY = ":memory:"

logger = logging.getLogger(__name__)


async def open_session(plan: MountOptions, options: Options, degraded: Callable[[str], None]) -> SummarizingContext:
    """An open context that the caller closes; `degraded` is told why it is kept in memory only, if it is."""
    rules = (*options.ledger_rules, *plan.ledger_rules)
    options = replace(options, ledger_rules=rules, keep_system=plan.preserve_system)
    if plan.settings.store == _MEMORY or is_address(plan.settings.store) or options.read_only:
        return await start_context(plan.settings, options)
    try:
        _refuse_unusable(Path(plan.settings.store))
        context = await _in_file(plan.settings, options)
    except StoreReadOnlyError as error:
        if plan.required:
            raise
        degraded(str(error))
        logger.warning("the session is kept in memory only and ends with the process: %s", error)
        return await _in_memory(plan.settings, options)
    if plan.retain_days is not None:
        await _forget_older(store_beside(Path(plan.settings.store)), timedelta(days=plan.retain_days))
    return context


def _refuse_unusable(path: Path) -> None:
    """Raise `StoreReadOnlyError` where there is no file and none can be made."""
    try:
        if not path.parent.is_dir():
            raise StoreReadOnlyError(f"{path}: its folder does not exist; create it, or name another")
        if path.exists() and not path.is_file():
            raise StoreReadOnlyError(f"{path}: this is not a file; name a file for the store")
    except OSError as error:
        raise StoreReadOnlyError(f"{path}: it cannot be reached: {error.strerror}; name another file") from error


async def _in_file(settings: Settings, options: Options) -> SummarizingContext:
    """The session in its file; where that is a list of messages, in a store beside it that takes them over once."""
    path = Path(settings.store)
    store = store_beside(path)
    return await _begun_with(await _listed(path), replace(settings, store=store), options)


async def _in_memory(settings: Settings, options: Options) -> SummarizingContext:
    """The session in memory, begun with what its file holds, where that can be read."""
    path = Path(settings.store)
    messages = await _listed(path) or await _logged(store_beside(path), settings.session_id)
    return await _begun_with(messages, replace(settings, store=_MEMORY), options)


async def _begun_with(messages: list[Any], settings: Settings, options: Options) -> SummarizingContext:
    context = await start_context(settings, options)
    try:
        if messages:
            await context.set_messages(as_json(messages))
            logger.info("messages were taken over", extra={"messages": len(messages)})
    except BaseException:
        await context.close()
        raise
    return context


async def _listed(path: Path) -> list[Any]:
    """The messages of a list that nobody has taken over."""
    store = store_beside(path)
    return [] if store == path or await is_taken_over(store) else await _in_thread(lambda: read_list(path))


async def _logged(path: Path, session_id: str) -> list[Any]:
    """The log in a file that may not be written."""
    try:
        store = await open_store(path, read_only=True)
    except StoreError:  # there is none, or it cannot be read either; the warning has said so
        return []
    try:
        session = await store.load(session_id)
        return [] if session is None else [decode_message(entry.message) for entry in session.entries]
    finally:
        await store.close()


async def _in_thread(work: Callable[[], list[Any]]) -> list[Any]:
    """A long piece of work off the event loop, in a thread that ends with it."""
    with ThreadPoolExecutor(1, thread_name_prefix="taking over") as thread:
        return await asyncio.wrap_future(thread.submit(work))


async def _forget_older(path: str | Path, age: timedelta) -> None:
    """Delete sessions of the file that nobody has open and that were not changed for so long."""
    try:
        store = await open_store(path)
        try:
            for session in await store.sessions():
                if session.writer_pid is None and _is_before(session.updated_at, datetime.now(UTC) - age):
                    await store.delete_session(session.session_id)
        finally:
            await store.close()
    except (StoreError, SessionInUseError) as error:
        logger.warning("old sessions could not be deleted; it is tried again next time: %s", error)


def _is_before(moment: str, limit: datetime) -> bool:
    try:
        told = datetime.fromisoformat(moment)
    except ValueError:
        return False
    return (told if told.tzinfo else told.replace(tzinfo=UTC)) < limit
