"""OpenAI's two protocols: Chat Completions, as many providers speak them, and Responses.

In Responses the history is a list of items, of which what a model gave in one response is one message of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from summarizing_context.adapters.response_items import COMPACTED, NAME, SERVER_WORK, ViewWriter, rows_of
from summarizing_context.adapters.response_items import Row as ItemRow
from summarizing_context.messages.validation import check_message
from summarizing_context.proxy.dialects.base import (
    HOOK,
    KEY,
    Asked,
    Fields,
    Memory,
    Out,
    PassUnchanged,
    Row,
    Shown,
    bare,
    decoded,
    digest,
    encoded,
    objects,
    whole,
)
from summarizing_context.summarizers.provider_window import bound_thinking

_SYSTEM = ("system", "developer")


class Chat:
    """The history is `messages`; the system prompt stands in front of it."""

    name = "chat"

    def read(self, fields: Fields, memory: Memory) -> Asked:
        rows = [memory.made(self.name, _row, item) for item in memory.items(fields, "messages")]
        start = next((at for at, row in enumerate(rows) if row.message["role"] not in _SYSTEM), len(rows))
        tools = objects(decoded(fields, "tools")) + objects(decoded(fields, "functions"))
        limits = (decoded(fields, name) for name in ("max_completion_tokens", "max_tokens"))
        model = str(decoded(fields, "model") or "")
        return Asked(
            fields=fields,
            lead=[row.sent[0] for row in rows[:start]],
            opening=(),
            rows=rows[start:],
            beside=[*(row.message for row in rows[:start]), *tools],
            model=model,
            max_output=next((tokens for limit in limits if (tokens := whole(limit))), None),
            has_tools=bool(tools),
            bound_thinking=bound_thinking(model),  # of Anthropic's models behind a gateway
        )

    def write(self, asked: Asked, shown: Sequence[Shown], *, drops_thinking: bool = False) -> bytes:
        items = [bare(message) if row is None else row.sent[0] for message, row in shown]
        return encoded(asked.fields, "messages", [*asked.lead, *items])


def _row(data: bytes) -> Row:
    message = check_message(msgspec.json.decode(data))
    key = digest(msgspec.json.encode(bare(message), order="deterministic"))
    return Row({**message, KEY: key}, (data,), key)


class Responses:
    """The history is `input`; the system prompt is `instructions`, and developer items in front."""

    name = "responses"

    def read(self, fields: Fields, memory: Memory) -> Asked:
        for name in ("previous_response_id", "conversation"):
            if decoded(fields, name) is not None:
                raise PassUnchanged(f"with {name} the server keeps the history")
        data = memory.items(fields, "input")
        items = [memory.made("item", msgspec.json.decode, item) for item in data]
        kinds = [item.get("type") if isinstance(item, dict) else None for item in items]
        if not set(SERVER_WORK).isdisjoint(kinds):
            raise PassUnchanged("the server is asked to look up or to compact items")
        # in front: what the server has compacted, and the client's own instructions and tools behind it
        start = max((at + 1 for at, kind in enumerate(kinds) if kind in COMPACTED), default=0)
        while start < len(items) and (
            kinds[start] == "additional_tools"
            or (isinstance(items[start], dict) and items[start].get("role") in _SYSTEM)
        ):
            start += 1
        if start == len(items):
            raise PassUnchanged("there is nothing behind what stays in front")

        def made(make: Callable[[], ItemRow], begin: int, stop: int) -> ItemRow:
            return memory.made("items", lambda *_: make(), *data[start + begin : start + stop])

        rows, at = list[Row](), start
        for message, own in rows_of(items[start:], made):
            is_told = message["role"] in _SYSTEM and own[0].get("type", "message") == "message"
            named = {**message, KEY: message[NAME]} | ({"metadata": HOOK} if is_told else {})
            rows.append(Row(named, tuple(data[at : at + len(own)]), message[NAME]))
            at += len(own)
        tools, instructions = objects(decoded(fields, "tools")), decoded(fields, "instructions")
        prompt = [{"instructions": instructions}] if isinstance(instructions, str) else []
        return Asked(
            fields=fields,
            lead=data[:start],
            opening=(),
            rows=rows,
            beside=[*prompt, *tools, *items[:start]],
            model=str(decoded(fields, "model") or ""),
            max_output=whole(decoded(fields, "max_output_tokens")),
            has_tools=bool(tools) or "additional_tools" in kinds,
        )

    def write(self, asked: Asked, shown: Sequence[Shown], *, drops_thinking: bool = False) -> bytes:
        changed = [message for message, row in shown if row is None and (KEY in message or message["role"] != "user")]
        keys = {message.get(KEY) for message in changed}
        rows = [row for row in asked.rows if row.message["role"] != "tool" or row.key in keys] if changed else []
        writer = ViewWriter([ItemRow(row.message, [msgspec.json.decode(item) for item in row.sent]) for row in rows])
        items: list[Out] = []
        for message, row in shown:
            items += writer.items(message) if row is None else row.sent
        return encoded(asked.fields, "input", [*asked.lead, *items])
