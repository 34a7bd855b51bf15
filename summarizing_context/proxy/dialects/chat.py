"""OpenAI's Chat Completions, as many providers speak them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from summarizing_context.messages.validation import check_message
from summarizing_context.proxy.dialects.base import (
    KEY,
    Asked,
    Fields,
    Memory,
    Row,
    Shown,
    bare,
    decoded,
    digest,
    encoded,
    listed,
    objects,
    whole,
)

_SYSTEM = ("system", "developer")


class Chat:
    """The history is `messages`; the system prompt stands in front of it."""

    name = "chat"

    def read(self, fields: Fields, memory: Memory) -> Asked:
        rows = listed(self.name, fields, "messages", memory, _row).made
        start = next((at for at, row in enumerate(rows) if row.message["role"] not in _SYSTEM), len(rows))
        tools = objects(decoded(fields, "tools", memory)) + objects(decoded(fields, "functions", memory))
        limits = (decoded(fields, name, memory) for name in ("max_completion_tokens", "max_tokens"))
        return Asked(
            fields=fields,
            lead=[row.sent[0] for row in rows[:start]],
            opening=(),
            rows=rows[start:],
            beside=[*(row.message for row in rows[:start]), *tools],
            model=str(decoded(fields, "model", memory) or ""),
            max_output=next((tokens for limit in limits if (tokens := whole(limit))), None),
            has_tools=bool(tools),
        )

    def write(self, asked: Asked, shown: Sequence[Shown]) -> bytes:
        items = [bare(message) if row is None else row.sent[0] for message, row in shown]
        return encoded(asked.fields, "messages", [*asked.lead, *items])


def _row(data: bytes) -> Row:
    message = check_message(msgspec.json.decode(data))
    said = msgspec.json.encode(bare(message), order="deterministic")
    key = digest(said)
    return Row({**message, KEY: key}, (data,), key)
