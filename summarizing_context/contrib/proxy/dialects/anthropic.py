"""Anthropic's Messages: content in blocks, the system prompt beside the messages, marks of what is to be cached.

Clients mark the newest message for the cache and take the mark away later; so marks enter neither keys nor the log.
A view gets two of its own: one where its header ends, which stays until the next activation, and one at its end.
No request goes on with more than four, or with one of an hour behind one of five minutes: the provider refuses both.

What a client's system says before the model's first words belongs to its system prompt: the machine, its agents, the
effort. Every view has it, where providers allow it: behind the user and before the model.

Newer models refuse thinking that they signed behind another beginning. A request with a rewritten one asks for it to
be dropped. Dropped blocks are sent all the same: without them the beginning would change once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from summarizing_context.contrib.proxy.dialects.base import (
    HOOK,
    KEY,
    Asked,
    Fields,
    Out,
    PassUnchanged,
    Shown,
    bare,
    decoded,
    encoded,
    items_of,
    max_tokens,
    objects,
    row_of,
)
from summarizing_context.messages.shapes import Message
from summarizing_context.summarizers.provider_window import bound_thinking, dropping

_MARK = "cache_control"
_EFFORT = "output_config"  # of a message of the system: holds from there on
_MAX_MARKS = 4  # of a request
_MARKABLE = ("text", "image", "document", "tool_use", "tool_result")


class Anthropic:
    """The history is `messages`."""

    name = "anthropic"

    def read(self, fields: Fields) -> Asked:
        if decoded(fields, "thread") is not None:
            raise PassUnchanged("with a thread the server keeps the history")
        system, tools = decoded(fields, "system"), objects(decoded(fields, "tools"))
        prompt = [{"type": "text", "text": system}] if isinstance(system, str) else objects(system)
        marks = [block[_MARK] for block in _marked_blocks([*tools, *prompt])]

        # rows without marks, behind the server's last compaction, which stands for all before it unless it has failed
        rows, start = [], 0
        for data in items_of(fields, "messages"):
            message = msgspec.json.decode(data)
            content = message.get("content") if isinstance(message, dict) else None
            marks += [block.pop(_MARK) for block in _marked_blocks(content)]
            blocks = objects(content)
            if len(blocks) == 1 and blocks == content and blocks[0].keys() == {"type", "text"}:
                message["content"] = blocks[0]["text"]  # as clients write the same without a mark
            row = row_of(message, data)
            if message["role"] == "system":  # a reminder among the messages, which the client wrote by itself
                row.message["metadata"] = HOOK
            rows.append(row)
            if any(block.get("type") == "compaction" and block.get("content") is not None for block in blocks):
                start = len(rows)
        if rows and start == len(rows):
            raise PassUnchanged("the server's own compaction ends the history")

        # what the system says before the model's first words
        end = next((at for at in range(start, len(rows)) if rows[at].message["role"] == "assistant"), len(rows))
        opening = [row for row in rows[start:end] if row.message["role"] == "system"]
        others = [row for row in rows[start:end] if row.message["role"] != "system"]
        if not others:
            opening, others = [], rows[start:end]
        marks += [auto] if (auto := decoded(fields, _MARK)) else []
        is_short = [mark.get("ttl") != "1h" for mark in marks]
        model = str(decoded(fields, "model") or "")
        return Asked(
            fields=fields,
            lead=[row.sent[0] for row in rows[:start]],
            opening=opening,
            rows=[*others, *rows[end:]],
            beside=[*prompt, *tools, *(row.message for row in [*rows[max(0, start - 1) : start], *opening])],
            model=model,
            max_output=max_tokens(fields, "max_tokens"),
            has_tools=bool(tools),
            must_change=len(marks) > _MAX_MARKS or is_short != sorted(is_short),
            bound_thinking=bound_thinking(model, decoded(fields, "thinking"), may_ask=True),
        )

    def write(self, asked: Asked, shown: Sequence[Shown], *, drops_thinking: bool = False) -> bytes:
        items: list[Out] = [bare(message) if row is None else row.sent[0] for message, row in shown]
        header = next((items[at] for at, (message, _) in enumerate(shown) if KEY not in message), None)

        # the opening, with the effort that holds there: it was set last in what does not stand behind
        at = next((at for at, (message, _) in enumerate(shown) if message["role"] == "assistant"), len(items))
        said: list[Out] = [row.sent[0] for row in asked.opening]
        behind = Counter(message.get(KEY) for message, _ in shown[at:])
        efforts = list[Out]()
        for row in reversed(asked.rows):  # of those that say the same, the newest stand behind
            behind[row.key] -= 1
            if _EFFORT in row.message and behind[row.key] < 0:
                efforts.append({"role": "system", "content": [], _EFFORT: row.message[_EFFORT]})
                break
        if said or efforts:
            if at and shown[at - 1][0]["role"] == "system":  # two may not stand beside each other
                said.append(items.pop(at := at - 1))
            said += efforts
            items.insert(at, said[0] if len(said) == 1 else _joined(said))
        fields = asked.fields
        if drops_thinking:
            thinking = msgspec.json.encode(dropping(decoded(fields, "thinking")))
            fields = {**fields, "thinking": msgspec.Raw(thinking)}
        return _marked(fields, [*asked.lead, *items], header)


def _joined(items: Sequence[Out]) -> Message:
    """Return messages of the system as one; of their efforts the last holds."""
    blocks, effort = list[Any](), dict[str, Any]()
    for item in items:
        message = msgspec.json.decode(item) if isinstance(item, bytes) else item
        content = message["content"]
        blocks += [{"type": "text", "text": content}] if isinstance(content, str) else content
        effort |= {name: message[name] for name in (_EFFORT,) if name in message}
    return {"role": "system", "content": blocks, **effort}


def _marked_blocks(blocks: object) -> Iterator[dict[str, Any]]:
    """Yield the blocks or tools with a mark, those inside of others too, in the order of the request."""
    for block in objects(blocks):
        inner = block.get("source")
        yield from _marked_blocks(inner.get("content") if isinstance(inner, dict) else None)
        yield from _marked_blocks(block.get("content"))
        if isinstance(block.get(_MARK), dict):
            yield block


def _marked(fields: Fields, items: list[Out], header: Out | None) -> bytes:
    """Return the request with these messages. Ours are the marks in them: at the end of the header, and at their end
    unless a field of the client's stands for that. Of its tools and system prompt keep as many as there is room for."""
    auto = decoded(fields, _MARK)
    ours, time = list[dict[str, Any]](), auto or {"type": "ephemeral"}
    for at, item in enumerate(items):
        is_end = item is header or (not auto and at == len(items) - 1)
        if not is_end and not (isinstance(item, bytes) and _MARK.encode() in item):
            continue
        message = msgspec.json.decode(item if isinstance(item, bytes) else msgspec.json.encode(item))  # a copy
        theirs = [block.pop(_MARK) for block in _marked_blocks(message.get("content"))]
        time = theirs[-1] if theirs and not auto else time
        if is_end:
            content = message.get("content")
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
            last = [block for block in blocks if block.get("type") in _MARKABLE and block.get("text") != ""][-1:]
            if last and isinstance(content, str):
                message["content"] = blocks
            ours += last
        if theirs or is_end:
            items[at] = message
    beside: dict[str, Any] = {name: decoded(fields, name) for name in ("tools", "system") if name in fields}
    marked = [block for value in beside.values() for block in _marked_blocks(value)]
    room = _MAX_MARKS - len(ours) - bool(auto)
    for block in marked[: max(0, len(marked) - room)]:
        del block[_MARK]

    # what lasts for an hour stands in front of what lasts for five minutes
    chosen, is_short = marked[max(0, len(marked) - room) :], False
    for block in [*chosen, *ours, *([beside] if auto else [])]:
        mark = block.get(_MARK) or time
        is_short = is_short or mark.get("ttl") != "1h"
        block[_MARK] = {"type": "ephemeral"} if is_short and mark.get("ttl") == "1h" else mark
    changed = {name: value for name, value in beside.items() if value != decoded(fields, name)}
    own: Fields = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in changed.items()}
    return encoded({**fields, **own}, "messages", items)
