"""What a list of messages does to the log when the host sets it: its own copy of the conversation, or another log.

A host that resumes a session gives back what it has saved: without system rows, perhaps less than the log holds, as it
was killed before it saved, perhaps more, perhaps with rows of its own. A log that was loaded from a file is the
authority then: it stays, and what only the host has is appended. Once the host has gone on with the conversation, a
list that goes on from the log is appended to it, and another one replaces what differs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any

from summarizing_context.adapters.amplifier.messages import as_json
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import MessageError
from summarizing_context.log.host_history import Comparison, find_new, may_be_left_out, weave
from summarizing_context.messages.reading import read_message
from summarizing_context.messages.validation import Message

_LEADING = ("system", "developer")

logger = logging.getLogger(__name__)


async def take_transcript(
    context: SummarizingContext, messages: Iterable[Message], *, loaded: bool, resuming: bool
) -> None:
    """Bring the log in step with `messages`. `loaded`: from a file; `resuming`: and nothing was said since then.

    Nothing but system, developer, hook and ephemeral rows missing: nothing changes. While resuming, nothing of the log
    changes in any case, and what only the messages hold is appended. Else they replace what differs; of a loaded log
    the rows that hosts leave out stay where those beside them stay. Raises `MessageError`; then nothing has changed.
    """
    if isinstance(messages, Iterable) and not isinstance(messages, str | bytes | Mapping):
        messages = list(messages)  # read more than once
    try:
        found = await context.compare_transcript(messages)
    except MessageError:
        messages = as_json(messages)
        found = await context.compare_transcript(messages)
    rows: list[Message] = list(messages)
    if found.is_known and rows:
        return
    if not loaded:
        await context.follow(rows)
    elif resuming:
        await _resume(context, rows)
    else:
        await context.follow(await _mended(context, rows, found))


def may_be_missing(message: Any) -> bool:
    """Whether a host adds such a row by itself, before it gives back a conversation."""
    return isinstance(message, Mapping) and message.get("role") in _LEADING


async def _resume(context: SummarizingContext, rows: list[Message]) -> None:
    """Append what only the rows hold. Their system prompt leads a log that has none, and is no news to one that has."""
    log, prompt = await _log_of(context), list(takewhile(_is_leading, rows))
    if prompt and not _leads(log):
        await context.set_messages([*prompt, *log])
    rows = rows[len(prompt) :]
    found = await context.compare_transcript(rows)
    if found.rest_of_transcript:
        new = list(range(found.transcript_stop, len(rows)))
    elif found.differs:
        new = await _find_new(context, rows)
    else:
        return
    logger.info("the host's transcript holds more than the log", extra={"appended": len(new)})
    for at in new:
        await context.add_message(rows[at])


async def _find_new(context: SummarizingContext, rows: list[Message]) -> list[int]:
    """What the log does not hold. Where that is every row, they are of another conversation, and the log as it is
    becomes a checkpoint."""
    transcript, log = await context.read_transcript(rows)
    if {row.content for row in transcript}.isdisjoint(row.content for row in log):
        name = "before another conversation was appended"
        await context.checkpoint(name)
        logger.warning("the host's transcript has no message in common with the log; it is appended")
    return await asyncio.to_thread(find_new, transcript, log)  # of long logs this takes a while


async def _mended(context: SummarizingContext, rows: list[Message], found: Comparison) -> list[Message]:
    """The rows, after what of the log they begin with, and with the rows of the log that they leave out.

    Where the rows lead with system rows of their own, those of the log's beginning go.
    """
    log = await _log_of(context)
    transcript, facts = await context.read_transcript(rows)
    if not found.transcript_stop and (not rows or _leads(rows)):
        start = next((at for at, row in enumerate(facts) if not may_be_left_out(row)), len(facts))
        begun, kept = 0, []
    else:
        start, begun, kept = found.log_stop, found.transcript_stop, log[: found.log_stop]
    woven = await asyncio.to_thread(weave, transcript[begun:], facts[start:])
    return [*kept, *(log[start + row.at] if row.of_log else rows[begun + row.at] for row in woven)]


async def _log_of(context: SummarizingContext) -> list[Message]:
    return [row for row in await context.get_messages() if not read_message(row).ephemeral]


def _leads(rows: list[Message]) -> bool:
    return bool(rows) and _is_leading(rows[0])


def _is_leading(row: Message) -> bool:
    return row["role"] in _LEADING
