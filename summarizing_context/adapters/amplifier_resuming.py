"""What a list of messages does to the log when the host sets it: its own copy of the conversation, or another log.

A host that resumes a session gives back what it has saved: without system rows, perhaps less than the log holds, as it
was killed before it saved, perhaps more. A log that was loaded from a file is the authority then; what the host
has beyond it is appended. Once the host has gone on with the conversation, a list that is not the log replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import dropwhile
from typing import Any

from summarizing_context.adapters.amplifier_rows import as_json
from summarizing_context.context import SummarizingContext
from summarizing_context.core.door import Message
from summarizing_context.core.messages import read_message
from summarizing_context.core.transcripts import Comparison
from summarizing_context.errors import MessageError

_LEADING = ("system", "developer")


async def take_transcript(
    context: SummarizingContext, messages: Iterable[Message], *, loaded: bool, resuming: bool
) -> None:
    """Bring the log in step with `messages`. `loaded`: from a file; `resuming`: and nothing was said since then.

    Nothing but system, developer, hook and ephemeral rows missing: nothing changes. While resuming, less changes
    nothing either, and more is appended. Else the messages replace what differs; of a loaded log the rows that
    the host does not keep stay before that. Raises `MessageError`, and then nothing has changed.
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
        await context.set_messages(rows)
        return
    log = [row for row in await context.get_messages() if not read_message(row).ephemeral]
    if resuming and _leads(log):  # the host's own system rows are no news where the log has some
        rows = list(dropwhile(_is_leading, rows))
        found = await context.compare_transcript(rows)
    if resuming and found.rest_of_transcript:
        for row in rows[found.told :]:
            await context.add_message(row)
    elif found.differs or not resuming:
        await context.set_messages(_mended(log, rows, found))


def may_be_missing(message: Any) -> bool:
    """Whether a host adds such a row by itself, before it gives back a conversation."""
    return isinstance(message, Mapping) and message.get("role") in _LEADING


def _mended(log: list[Message], rows: list[Message], found: Comparison) -> list[Message]:
    """The rows, after what of the log they begin with; as they are where they lead with system rows of their own."""
    is_other = not found.told and (not rows or _leads(rows))
    return rows if is_other else [*log[: found.logged], *rows[found.told :]]


def _leads(rows: list[Message]) -> bool:
    return bool(rows) and _is_leading(rows[0])


def _is_leading(row: Message) -> bool:
    return row["role"] in _LEADING
