"""What plug-ins of clients ask for at `/_view`: the view of a history, in place of a request that goes on.

A plug-in sends its client's history as a request of Chat Completions. It gets a list back in which `{"at": 7}` is its
own message at that place, with a `content` where the view shows it shorter. All else is said by us.

With `compact`, the client wants to replace its history for good. Then all but the newest messages are one text, whose
first line names the log and how many of its messages the text stands for. Where a history begins with that line, the
log goes on: these messages are read in its place. So a session also goes on in another client.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from summarizing_context.contrib.proxy.dialects import KEY, Asked, Chat, Fields, Message, Row, Shown, decoded
from summarizing_context.messages.reading import message_text_parts

_LINE = re.compile(
    r"\"?\[summarizing-context: the first (\d{1,9}) messages of session ([A-Za-z0-9._:-]{1,200})\](?:\n|$)"
)


def handover_line(session: str, count: int) -> str:
    """Return the line that begins a text which stands for the first messages of a log."""
    return f"[summarizing-context: the first {count} messages of session {session}]"


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
            stands_for=None if found is None else (found[2], int(found[1])),
        )

    def write(self, asked: Asked, shown: Sequence[Shown], *, drops_thinking: bool = False) -> bytes:
        """Return the answer to the plug-in."""
        before = 0 if asked.stands_for is None else asked.stands_for[1] - 1  # messages that the client has not
        places = defaultdict[str, list[int]](list)
        for at, one in enumerate(asked.rows):
            places[one.key].append(at)

        # the messages of the view, each with its place among the rows; of those that say the same, the newest
        placed: list[tuple[int | None, Message, bool]] = []
        for message, row in reversed(shown):
            held = places.get(message.get(KEY, ""))
            placed.append((held.pop() if held else None, message, row is not None))
        placed.reverse()

        # of a compaction, all before the newest messages is one text
        said: list[dict[str, Any]] = []
        if asked.compacts:
            start, at = len(placed), len(asked.rows)
            while start and placed[start - 1][0] == at - 1 > before:
                start, at = start - 1, at - 1
            texts = [handover_line(asked.session, at)]
            texts += [
                _text(message) if place is None else f"{message['role']}: {_text(message)}"
                for place, message, _ in placed[:start]
            ]
            said.append({"role": "user", "content": "\n\n".join(texts)})
            placed = placed[start:]
        for place, message, is_whole in placed:
            if place is None or place < before or (before and place == before):
                role = "assistant" if message["role"] == "assistant" else "user"
                said.append({"role": role, "content": _text(message)})
            else:
                own: dict[str, Any] = {"at": len(asked.lead) + place - before}
                said.append(own if is_whole else {**own, "content": _text(message)})
        return msgspec.json.encode({"messages": said})


def log_rows(messages: Sequence[Message]) -> list[Row]:
    """Return messages of a log as rows of a request."""
    return [Row(message, (), str(message.get(KEY) or f"{at} of the log")) for at, message in enumerate(messages)]


def _text(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "\n".join(message_text_parts(message))
