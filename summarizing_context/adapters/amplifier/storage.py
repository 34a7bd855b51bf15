"""Open the session that a mount plan asks for, and bring its log in step with the lists of messages that a host sets.

The session is in its file, or in memory; a JSON history is taken over once. A damaged file, or one that another process
writes, is an error: a log exists, and going on without it would lose it.

A host that resumes a session gives back what it has saved: without system rows, perhaps less than the log holds, as it
was killed before it saved, perhaps more, perhaps with rows of its own. A log that was loaded from a file is the
authority then: it stays, and what only the host has is appended. Once the host has gone on with the conversation, a
list that goes on from the log is appended to it, and another one replaces what differs.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any

from summarizing_context.adapters.amplifier.messages import as_logged
from summarizing_context.adapters.amplifier.options import MEMORY, MountOptions
from summarizing_context.adapters.open_sessions import as_json
from summarizing_context.assembly import Options, open_store, start_context
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import (
    MessageError,
    SessionInUseError,
    StoreCorruptError,
    StoreError,
    StoreReadOnlyError,
)
from summarizing_context.log.host_history import find_new, may_be_left_out, merge_rows
from summarizing_context.messages.reading import read_message
from summarizing_context.messages.validation import Message, decode_message
from summarizing_context.settings.addresses import is_address

logger = logging.getLogger(__name__)


async def open_session(plan: MountOptions, options: Options, degraded: Callable[[str], None]) -> SummarizingContext:
    """Return an open context that the caller closes; tell `degraded` why it is kept in memory only, if it is.

    Where the file is a JSON list of messages, the session is in a store beside it, which imports them once.
    """
    rules = (*options.ledger_rules, *plan.ledger_rules)
    options = replace(options, ledger_rules=rules, keep_system=plan.preserve_system)
    if plan.settings.store == MEMORY or is_address(plan.settings.store) or options.read_only:
        return await start_context(plan.settings, options)

    path = Path(plan.settings.store)
    store, trouble = _store_of(path)

    async def begun_with(messages: list[Any], place: Path | str) -> SummarizingContext:
        context = await start_context(replace(plan.settings, store=place), options)
        try:
            if messages:
                await context.set_messages(map(as_logged, as_json(messages)))
                logger.info("messages were taken over", extra={"messages": len(messages)})
        except BaseException:
            await context.close()
            raise
        return context

    try:
        if trouble:
            raise StoreReadOnlyError(f"{path}: {trouble}")
        context = await begun_with(await _listed(path, store), store)
    except StoreReadOnlyError as error:
        if plan.required:
            raise
        degraded(str(error))
        logger.warning("the session is kept in memory only and ends with the process: %s", error)
        messages = await _listed(path, store)
        if not messages:
            with suppress(StoreError):  # there is none, or it cannot be read either; the warning has said so
                kept = await open_store(store, read_only=True)
                try:
                    session = await kept.load(plan.settings.session_id)
                    messages = [decode_message(entry.message) for entry in session.entries] if session else []
                finally:
                    await kept.close()
        return await begun_with(messages, MEMORY)
    if plan.retain_days is not None:
        await _forget_older(store, timedelta(days=plan.retain_days))
    return context


def _store_of(path: Path) -> tuple[Path, str]:
    """Return the store, which is beside a list of messages, and why it cannot be used; empty where it can."""
    try:
        if not path.parent.is_dir():
            return path, "its folder does not exist; create it, or name another"
        if path.exists() and not path.is_file():
            return path, "this is not a file; name a file for the store"
    except OSError as error:
        return path, f"it cannot be reached: {error.strerror}; name another file"
    beginning = b""
    with suppress(OSError), path.open("rb") as file:
        beginning = file.read(4_096)
    is_list = beginning.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
    return path.with_name(f"{path.name}.db") if is_list else path, ""


async def _listed(path: Path, store: Path) -> list[Any]:
    """Return the messages of a list that is not imported yet, read in a thread that ends with it."""
    if store == path:
        return []

    def is_begun() -> bool:
        return store.exists() and store.stat().st_size > 0

    if is_begun():
        try:
            opened = await open_store(store)
        except StoreReadOnlyError:
            return []  # nothing could be taken over into it
        try:
            if any(session.messages for session in await opened.sessions()):
                return []
        finally:
            await opened.close()

    def read() -> list[Any]:
        try:
            return list(json.loads(path.read_text(encoding="utf-8-sig")))
        except (ValueError, RecursionError, OSError) as error:
            raise StoreCorruptError(
                f"{path} begins like a JSON list but cannot be read ({type(error).__name__}); repair it, or name "
                "another storage_path"
            ) from None

    with ThreadPoolExecutor(1, thread_name_prefix="taking over") as thread:
        return await asyncio.wrap_future(thread.submit(read))


async def _forget_older(path: Path, age: timedelta) -> None:
    """Delete sessions of the file that nobody has open and that were not changed for so long."""
    limit = datetime.now(UTC) - age
    try:
        store = await open_store(path)
        try:
            for session in await store.sessions():
                with suppress(ValueError):  # a time that is none
                    changed = datetime.fromisoformat(session.updated_at)
                    changed = changed if changed.tzinfo else changed.replace(tzinfo=UTC)
                    if session.writer_pid is None and changed < limit:
                        await store.delete_session(session.session_id)
        finally:
            await store.close()
    except (StoreError, SessionInUseError) as error:
        logger.warning("old sessions could not be deleted; it is tried again next time: %s", error)


async def take_transcript(
    context: SummarizingContext, messages: Iterable[Message], *, loaded: bool, resuming: bool
) -> None:
    """Bring the log in step with `messages`. `loaded`: from a file; `resuming`: and nothing was said since then.

    Nothing but system, developer, hook and ephemeral rows missing: nothing changes. While resuming, nothing of the log
    changes in any case, and what only the messages hold is appended. Else they replace what differs; of a loaded log
    the rows that hosts leave out stay where those beside them stay. Raises `MessageError`; then nothing has changed.
    """
    if isinstance(messages, Iterable) and not isinstance(messages, str | bytes | Mapping):
        messages = list(map(as_logged, messages))  # read more than once
    try:
        found = await context.compare_transcript(messages)
    except MessageError:
        written = as_json(messages)
        messages = list(map(as_logged, written)) if isinstance(written, list) else written
        found = await context.compare_transcript(messages)
    rows: list[Message] = list(messages)
    if found.found == "same" and rows:
        return
    if not loaded:
        await context.follow(rows)
        return
    log = [row for row in await context.get_messages() if not read_message(row).ephemeral]
    if not resuming:
        # the rows, after what of the log they begin with, and with the rows of the log that they leave out; where they
        # lead with system rows of their own, those of the log's beginning go
        transcript, facts = await context.read_transcript(rows)
        start, begun = found.log_stop, found.transcript_stop
        kept = log[:start]
        if not begun and (not rows or may_be_missing(rows[0])):
            start = next((at for at, row in enumerate(facts) if not may_be_left_out(row)), len(facts))
            kept = []
        merged = await asyncio.to_thread(merge_rows, transcript[begun:], facts[start:])
        await context.follow([*kept, *(log[start + row.at] if row.of_log else rows[begun + row.at] for row in merged)])
        return

    # what only the rows hold is appended; their system prompt leads a log that has none, and is no news to one that has
    prompt = list(takewhile(may_be_missing, rows))
    if prompt and not (log and may_be_missing(log[0])):
        await context.set_messages([*prompt, *log])
    rows = rows[len(prompt) :]
    found = await context.compare_transcript(rows)
    new: list[int] = []
    if found.found == "longer_transcript":
        new = list(range(found.transcript_stop, len(rows)))
    elif found.found == "different":
        transcript, facts = await context.read_transcript(rows)
        if {row.content for row in transcript}.isdisjoint(row.content for row in facts):
            await context.checkpoint("before another conversation was appended")
            logger.warning("the host's transcript has no message in common with the log; it is appended")
        new = await asyncio.to_thread(find_new, transcript, facts)  # of long logs this takes a while
    if new:
        logger.info("the host's transcript holds more than the log", extra={"appended": len(new)})
    for at in new:
        await context.add_message(rows[at])


def may_be_missing(message: Any) -> bool:
    """Return whether a host adds such a row by itself, before it gives back a conversation."""
    return isinstance(message, Mapping) and message.get("role") in ("system", "developer")
