"""OpenAI's Chat Completions, as many providers speak them: the system prompt stands in front of the messages."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from summarizing_context.contrib.proxy.dialects.base import (
    Asked,
    Fields,
    Shown,
    bare,
    decoded,
    encoded,
    items_of,
    max_tokens,
    objects,
    row_of,
)
from summarizing_context.summarizers.provider_window import bound_thinking


class Chat:
    """The history is `messages`."""

    name = "chat"

    def read(self, fields: Fields) -> Asked:
        rows = [row_of(msgspec.json.decode(item), item) for item in items_of(fields, "messages")]
        roles = [row.message["role"] for row in rows]
        start = next((at for at, role in enumerate(roles) if role not in ("system", "developer")), len(rows))
        tools = objects(decoded(fields, "tools")) + objects(decoded(fields, "functions"))
        model = str(decoded(fields, "model") or "")
        return Asked(
            fields=fields,
            lead=[row.sent[0] for row in rows[:start]],
            rows=rows[start:],
            beside=[*(row.message for row in rows[:start]), *tools],
            model=model,
            max_output=max_tokens(fields, "max_completion_tokens", "max_tokens"),
            has_tools=bool(tools),
            bound_thinking=bound_thinking(model),  # of Anthropic's models behind a gateway
        )

    def write(self, asked: Asked, shown: Sequence[Shown], *, drops_thinking: bool = False) -> bytes:
        items = [bare(message) if row is None else row.sent[0] for message, row in shown]
        return encoded(asked.fields, "messages", [*asked.lead, *items])
