"""What plug-ins of clients ask for at `/_view`: the view of a history, in place of a request that goes on.

A plug-in sends its client's history as a request of Chat Completions. It gets a list back in which `{"at": 7}` is its
own message at that place, with a `content` where the view shows it shorter. All else is said by us.

With `compact`, the client wants to replace its history for good. Then all but the newest messages are one text, whose
first line names the log, how many of its messages the text stands for, and a digest of these. Where a history begins
with that line, the log goes on: these messages are read in its place. So a session also goes on in another client.
What a client has not itself is shown to it as a record, in a fence: a tool's output never speaks for the user.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import msgspec

from summarizing_context.adapters.open_sessions import digest_of
from summarizing_context.contrib.proxy.dialects import KEY, Asked, Chat, Fields, Message, Shown, decoded
from summarizing_context.evaluation.laws import view_parts
from summarizing_context.messages.fences import fence
from summarizing_context.messages.reading import message_text_parts, read_message
from summarizing_context.messages.rendering import render_messages

_LINE = re.compile(
    r"\"?\[summarizing-context: the first (\d{1,9}) messages of session ([A-Za-z0-9._:-]{1,200}), "
    r"as ([0-9a-f]{12})\](?:\n|$)"
)


def handover_line(session: str, covered: Sequence[Message]) -> str:
    """Return the line that begins a text which stands for the first messages of a log."""
    return f"[summarizing-context: the first {len(covered)} messages of session {session}, as {log_digest(covered)}]"


def log_digest(messages: Sequence[Message]) -> str:
    """Return what tells whether a log still holds these messages."""
    return digest_of(msgspec.json.encode(list(messages), order="deterministic"))[:12]


class Plugin(Chat):
    """The history of a client that asks from inside."""

    def read(self, fields: Fields) -> Asked:
        asked = super().read(fields)
        first = asked.rows[0].message.get("content") if asked.rows else None
        found = _LINE.match(first) if isinstance(first, str) else None
        return replace(
            asked,
            compacts=decoded(fields, "compact") is True,
            window=decoded(fields, "context_window"),
            stands_for=None if found is None else (found[2], int(found[1]), found[3]),
            goes_out="compact" not in fields,  # who compacts asks ahead, and sends requests of its own
        )

    def write(self, asked: Asked, shown: Sequence[Shown], *, drops_thinking: bool = False) -> bytes:
        """Return the answer to the plug-in."""
        old = 0 if asked.stands_for is None else asked.stands_for[1]  # messages that the client has not
        lead = len(asked.lead) + (1 if old else 0) - old
        places = defaultdict[str, list[int]](list)
        for at, one in enumerate(asked.rows):
            places[one.key].append(at)

        # the messages of the view, each with its place among the rows; of those that say the same, the newest
        placed: list[tuple[int | None, Message, bool]] = []
        for message, row in reversed(shown):
            held = places.get(message.get(KEY, ""))
            placed.append((held.pop() if held else None, message, row is not None))
        placed.reverse()

        # our own texts: the header, blocks, and what was put in for messages that the client has
        parts = view_parts([message for _, message, _ in placed], [row.message for row in asked.rows])
        ours = [
            place is None and (part in ("header", "block") or not old)
            for (place, _, _), part in zip(placed, parts, strict=True)
        ]

        # of a compaction, all before the newest messages is one text
        said: list[dict[str, Any]] = []
        start = 0
        if asked.compacts:
            start, at = len(placed), len(asked.rows)
            while start and placed[start - 1][0] == at - 1 >= max(1, old):
                start, at = start - 1, at - 1
            texts = [handover_line(asked.session, asked.log[:at])]
            texts += view_texts([message for _, message, _ in placed[:start]], ours)
            said.append({"role": "user", "content": "\n\n".join(texts)})
        done = start  # behind what was said
        for end, (place, message, is_whole) in enumerate([*placed[start:], (old, {}, True)], start):
            if place is None or place < old:
                continue
            if texts := view_texts([message for _, message, _ in placed[done:end]], ours[done:end]):
                said.append({"role": "user", "content": "\n\n".join(texts)})
            done = end + 1
            if end < len(placed):
                said.append({"at": lead + place} if is_whole else {"at": lead + place, "content": _text(message)})
        return msgspec.json.encode({"messages": said})


def view_texts(messages: Sequence[Message], ours: Sequence[bool]) -> list[str]:
    """Return our own texts as they are, and messages between them as records, without those of the system."""
    texts: list[str] = []
    for is_ours, run in groupby(zip(messages, ours, strict=False), lambda one: one[1]):
        held = [message for message, _ in run if message["role"] not in ("system", "developer")]
        if is_ours:
            texts += map(_text, held)
        elif held:
            texts.append(fence("session_record", render_messages([read_message(message) for message in held])))
    return [text for text in texts if text]


def _text(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "\n".join(message_text_parts(message))
