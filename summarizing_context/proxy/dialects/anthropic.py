"""Anthropic's Messages: content in blocks, the system prompt beside the messages, marks of what is to be cached.

Clients mark the newest message for the cache and take the mark away later; so marks enter neither keys nor the log.
A view gets two of them: one where its header ends, which stays until the next activation, and one at its end.

What a client's system says before the model's first words belongs to its system prompt: the machine, its agents, the
effort. Every view has it, where providers allow it: behind the user and before the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from summarizing_context.messages.validation import Message, check_message
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
    listed,
    objects,
    whole,
)

_MARK = "cache_control"

_EFFORT = "output_config"  # of a message of the system: holds from there on

_MOST_MARKS = 4  # of a request

_UNMARKABLE = ("thinking", "redacted_thinking")


class Anthropic:
    """The history is `messages`."""

    name = "anthropic"

    def read(self, fields: Fields, memory: Memory) -> Asked:
        made = listed(self.name, fields, "messages", memory, _row).made
        rows = [row for row, _ in made]
        start = 1 + max((at for at, (_, is_compacted) in enumerate(made) if is_compacted), default=-1)
        if start == len(rows):
            raise PassUnchanged("the server's own compaction ends the history")
        opening, others = _opened(rows[start:])
        system, tools = decoded(fields, "system", memory), objects(decoded(fields, "tools", memory))
        prompt = [{"type": "text", "text": system}] if isinstance(system, str) else objects(system)
        return Asked(
            fields=fields,
            lead=[row.sent[0] for row in rows[:start]],
            opening=opening,
            rows=others,
            beside=[*prompt, *tools, *(row.message for row in [*rows[max(0, start - 1) : start], *opening])],
            model=str(decoded(fields, "model", memory) or ""),
            max_output=whole(decoded(fields, "max_tokens", memory)),
            has_tools=bool(tools),
        )

    def write(self, asked: Asked, shown: Sequence[Shown]) -> bytes:
        items = [bare(message) if row is None else row.sent[0] for message, row in shown]
        header = next((at for at, (message, _) in enumerate(shown) if KEY not in message), None)
        if (opening := _opening(asked, shown)) is not None:
            at = next((at for at, (message, _) in enumerate(shown) if message["role"] == "assistant"), len(items))
            beside_it = bool(at) and shown[at - 1][0]["role"] == "system"  # two may not stand beside each other
            items[at - beside_it : at] = [_joined([opening, items[at - 1]]) if beside_it else opening]
        beside = [_MARK in asked.fields, *(_MARK in block for block in asked.beside)]
        return encoded(asked.fields, "messages", [*asked.lead, *_marked(items, header, sum(beside))])


def _opened(rows: Sequence[Row]) -> tuple[list[Row], Sequence[Row]]:
    """What the system says before the model's first words, and the other rows."""
    end = next((at for at, row in enumerate(rows) if row.message["role"] == "assistant"), len(rows))
    opening = [row for row in rows[:end] if row.message["role"] == "system"]
    others = [row for row in rows[:end] if row.message["role"] != "system"]
    return (opening, [*others, *rows[end:]]) if opening and others else ([], rows)


def _opening(asked: Asked, shown: Sequence[Shown]) -> Out | None:
    """The opening as a view has it, with the effort that was set last in what the view leaves out."""
    sent = {row.key for _, row in shown if row is not None}
    efforts = [row.message[_EFFORT] for row in asked.rows if _EFFORT in row.message and row.key not in sent]
    if len(asked.opening) == 1 and not efforts:
        return asked.opening[0].sent[0]
    said: list[Out] = [row.sent[0] for row in asked.opening]
    said += [{"role": "system", "content": [], _EFFORT: effort} for effort in efforts[-1:]]
    return _joined(said) if said else None


def _joined(items: Sequence[Out]) -> Message:
    """Messages of the system as one; of their efforts the last holds."""
    blocks, effort = list[Any](), dict[str, Any]()
    for item in items:
        message = msgspec.json.decode(item) if isinstance(item, bytes) else item
        content = message["content"]
        blocks += [{"type": "text", "text": content}] if isinstance(content, str) else content
        effort |= {name: message[name] for name in (_EFFORT,) if name in message}
    return {"role": "system", "content": blocks, **effort}


def _row(data: bytes) -> tuple[Row, bool]:
    """The row of a message, and whether the server's compaction stands in it, which stands for all before it."""
    message = _unmarked(check_message(msgspec.json.decode(data)))
    is_compacted = any(block.get("type") == "compaction" for block in objects(message.get("content")))
    if message["role"] == "system":  # a reminder among the messages, which the client wrote by itself
        message = {**message, "metadata": HOOK}
    said = msgspec.json.encode(bare(message), order="deterministic")
    key = digest(said)
    return Row({**message, KEY: key}, (data,), key), is_compacted


def _unmarked(message: Message) -> Message:
    """The message without marks, a single block of nothing but text written as a string."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    blocks = [_without_mark(block) if isinstance(block, dict) else block for block in content]
    is_text = len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].keys() == {"type", "text"}
    return {**message, "content": blocks[0]["text"] if is_text else blocks}


def _without_mark(block: Message) -> Message:
    inner = block.get("content")
    if isinstance(inner, list):  # of a result
        block = {**block, "content": [_without_mark(each) if isinstance(each, dict) else each for each in inner]}
    return {name: value for name, value in block.items() if name != _MARK}


def _marked(items: list[Out], header: int | None, others: int) -> list[Out]:
    """The items with as many marks as a request may have: at the end, at the header, and the newest of the client's.

    `others` are the marks outside of the messages.
    """
    theirs = {at: mark for at, item in enumerate(items) if isinstance(item, bytes) and (mark := _mark_of(item))}
    kind = theirs[max(theirs)] if theirs else {"type": "ephemeral"}
    wanted = [len(items) - 1, *([] if header is None else [header]), *sorted(theirs, reverse=True)]
    chosen = list(dict.fromkeys(wanted))[: max(0, _MOST_MARKS - others)]
    for at in {*chosen, *theirs}:
        if (at in chosen) != (at in theirs):
            items[at] = _with_mark(items[at], kind if at in chosen else None)
    return items


def _mark_of(item: bytes) -> Mapping[str, Any] | None:
    if _MARK.encode() not in item:
        return None
    blocks = objects(msgspec.json.decode(item).get("content"))
    return next((block[_MARK] for block in reversed(blocks) if isinstance(block.get(_MARK), dict)), None)


def _with_mark(item: Out, mark: Mapping[str, Any] | None) -> Out:
    """A message with this mark at its last block that may have one, and no other."""
    message = _unmarked(msgspec.json.decode(item) if isinstance(item, bytes) else item)
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    for at in range(len(blocks) - 1, -1, -1):
        block = blocks[at]
        if mark and isinstance(block, dict) and block.get("type") not in _UNMARKABLE and block.get("text") != "":
            blocks[at] = {**block, _MARK: mark}
            return {**message, "content": blocks}
    return message
