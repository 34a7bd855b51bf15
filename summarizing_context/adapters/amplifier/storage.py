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
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any

from summarizing_context.adapters.amplifier.messages import as_logged
from summarizing_context.adapters.amplifier.options import MEMORY, MountOptions
from summarizing_context.adapters.open_sessions import as_json, opened_store
from summarizing_context.assembly import Options, start_context
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
from summarizing_context.messages.shapes import Message, decode_message
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

    store, listed = Path(plan.settings.store), list[Any]()
    try:
        store, listed = _read_place(store)
        if listed:
            async with opened_store(store) as opened:
                if any(session.messages for session in await opened.sessions()):
                    listed = []
        context = await begun_with(listed, store)
    except StoreReadOnlyError as error:
        if plan.required:
            raise
        degraded(str(error))
        logger.warning("the session is kept in memory only and ends with the process: %s", error)
        with suppress(StoreError):  # there is none, or it cannot be read either; the warning has said so
            async with opened_store(store, read_only=True) as opened:
                if session := await opened.load(plan.settings.session_id):
                    listed = [decode_message(entry.message) for entry in session.entries]
        return await begun_with(listed, MEMORY)

    # sessions of the file that no program has open and that were not changed for so long
    if plan.retain_days is not None:
        limit = datetime.now(UTC) - timedelta(days=plan.retain_days)
        try:
            async with opened_store(store) as opened:
                for info in await opened.sessions():
                    if info.writer_pid is None and datetime.fromisoformat(info.updated_at) < limit:
                        await opened.delete_session(info.session_id)
        except (StoreError, SessionInUseError) as error:
            logger.warning("old sessions could not be deleted; it is tried again next time: %s", error)
    return context


def _read_place(path: Path) -> tuple[Path, list[Any]]:
    """Return the store, and the list of messages beside it, if the path is one. Raise `StoreReadOnlyError` where there
    can be no file, and `StoreCorruptError` for a list that is broken."""
    try:
        if not path.parent.is_dir():
            raise StoreReadOnlyError(f"{path}: its folder does not exist; create it, or name another")
        if path.exists() and not path.is_file():
            raise StoreReadOnlyError(f"{path}: this is not a file; name a file for the store")
    except OSError as error:
        raise StoreReadOnlyError(f"{path}: it cannot be reached: {error.strerror}; name another file") from error
    beginning = b""
    with suppress(OSError), path.open("rb") as file:
        beginning = file.read(4_096)
    if not beginning.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        return path, []
    try:
        return path.with_name(f"{path.name}.db"), list(json.loads(path.read_text(encoding="utf-8-sig")))
    except (ValueError, RecursionError, OSError) as error:
        raise StoreCorruptError(
            f"{path} begins like a JSON list but cannot be read ({type(error).__name__}); repair it, or name "
            "another storage_path"
        ) from None


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
        found, transcript, facts = await context.compare_transcript(messages)
    except MessageError:
        written = as_json(messages)
        messages = list(map(as_logged, written)) if isinstance(written, list) else written
        found, transcript, facts = await context.compare_transcript(messages)
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
    found, transcript, facts = await context.compare_transcript(rows)
    new: list[int] = []
    if found.found == "longer_transcript":
        new = list(range(found.transcript_stop, len(rows)))
    elif found.found == "different":
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
