"""Anthropic's Messages: content in blocks, the system prompt beside the messages, marks of what is to be cached.

Clients mark the newest message for the cache and take the mark away later; so marks enter neither keys nor the log.
A view gets two of them: one where its header ends, which stays until the next activation, and one at its end.
No request goes on with more than four, or with one of an hour behind one of five minutes: the provider refuses both.

What a client's system says before the model's first words belongs to its system prompt: the machine, its agents, the
effort. Every view has it, where providers allow it: behind the user and before the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

_SHORT: Mapping[str, Any] = {"type": "ephemeral"}  # five minutes

_HOUR = "1h"

_BESIDE = ("tools", "system")  # fields with marks, in the order in which they stand before the messages

_UNMARKABLE = ("thinking", "redacted_thinking")


class Anthropic:
    """The history is `messages`."""

    name = "anthropic"

    def read(self, fields: Fields, memory: Memory) -> Asked:
        made = listed(self.name, fields, "messages", memory, _row).made
        rows = [row for row, *_ in made]
        start = 1 + max((at for at, (_, is_compacted, _) in enumerate(made) if is_compacted), default=-1)
        if start == len(rows):
            raise PassUnchanged("the server's own compaction ends the history")
        opening, others = _opened(rows[start:])
        system, tools = decoded(fields, "system", memory), objects(decoded(fields, "tools", memory))
        prompt = [{"type": "text", "text": system}] if isinstance(system, str) else objects(system)
        marks = [block[_MARK] for block in _marked_blocks([*tools, *prompt])]
        marks += [mark for *_, of_row in made for mark in of_row]
        marks += [auto] if (auto := decoded(fields, _MARK, memory)) else []
        return Asked(
            fields=fields,
            lead=[row.sent[0] for row in rows[:start]],
            opening=opening,
            rows=others,
            beside=[*prompt, *tools, *(row.message for row in [*rows[max(0, start - 1) : start], *opening])],
            model=str(decoded(fields, "model", memory) or ""),
            max_output=whole(decoded(fields, "max_tokens", memory)),
            has_tools=bool(tools),
            must_change=len(marks) > _MOST_MARKS or marks != _lawful(marks),
        )

    def write(self, asked: Asked, shown: Sequence[Shown]) -> bytes:
        items = [bare(message) if row is None else row.sent[0] for message, row in shown]
        header = next((items[at] for at, (message, _) in enumerate(shown) if KEY not in message), None)
        if (opening := _opening(asked, shown)) is not None:
            at = next((at for at, (message, _) in enumerate(shown) if message["role"] == "assistant"), len(items))
            beside_it = bool(at) and shown[at - 1][0]["role"] == "system"  # two may not stand beside each other
            items[at - beside_it : at] = [_joined([opening, items[at - 1]]) if beside_it else opening]
        return _marked(asked.fields, [*asked.lead, *items], header)


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


def _row(data: bytes) -> tuple[Row, bool, list[Any]]:
    """The row of a message, whether the server's compaction stands in it, which stands for all before it, and the
    message's marks."""
    marked = check_message(msgspec.json.decode(data))
    marks = [block[_MARK] for block in _marked_blocks(marked.get("content"))] if _MARK.encode() in data else []
    message = _unmarked(marked)
    is_compacted = any(block.get("type") == "compaction" for block in objects(message.get("content")))
    if message["role"] == "system":  # a reminder among the messages, which the client wrote by itself
        message = {**message, "metadata": HOOK}
    said = msgspec.json.encode(bare(message), order="deterministic")
    key = digest(said)
    return Row({**message, KEY: key}, (data,), key), is_compacted, marks


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


def _marked_blocks(blocks: object) -> Iterator[dict[str, Any]]:
    """The blocks or tools that have a mark, those inside of others too, in the order of the request."""
    for block in objects(blocks):
        inner = block.get("source")
        yield from _marked_blocks(inner.get("content") if isinstance(inner, Mapping) else None)
        yield from _marked_blocks(block.get("content"))
        if isinstance(block, dict) and isinstance(block.get(_MARK), dict):
            yield block


def _lawful(marks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The marks of a request in their order, those of an hour behind one of five minutes made as short."""
    first = next((at for at, mark in enumerate(marks) if mark.get("ttl") != _HOUR), len(marks))
    return [_SHORT if at > first and mark.get("ttl") == _HOUR else mark for at, mark in enumerate(marks)]


def _marked(fields: Fields, items: Sequence[Out], header: Out | None) -> bytes:
    """The request with these messages, and with as many marks as it may have: of the client's tools and system, at its
    end, at the end of its header, and the newest of the client's messages."""
    parts: list[Out] = [*(bytes(fields[name]) if name in fields else b"" for name in _BESIDE), *items]
    is_read = [not isinstance(part, bytes) or _MARK.encode() in part for part in parts]
    read = {
        at: msgspec.json.decode(part) if isinstance(part, bytes) else part
        for at, part in enumerate(parts)
        if is_read[at]
    }
    found = [
        (at, block)
        for at, value in read.items()
        for block in _marked_blocks(value.get("content") if isinstance(value, dict) else value)
    ]
    blocks = {(at, number): block for number, (at, block) in enumerate(found)}
    theirs = {place: block[_MARK] for place, block in blocks.items()}
    newest = sorted(blocks, reverse=True)
    auto = msgspec.json.decode(fields[_MARK]) if _MARK in fields else None  # stands for one at the end
    ends = [*([] if auto else [len(parts) - 1]), *(at for at, part in enumerate(parts) if part is header)]
    wanted = [place for place in newest if place[0] < len(_BESIDE)]
    wanted += [next((place for place in newest if place[0] == at), (at, len(found))) for at in ends]
    chosen = sorted(list(dict.fromkeys([*wanted, *newest]))[: _MOST_MARKS - bool(auto)])
    usual = auto or next((theirs[place] for place in newest if place[0] >= len(_BESIDE)), _SHORT)
    marks = [  # one of ours lasts as long as the next of the client's behind it
        theirs.get(place) or next((theirs[other] for other in chosen[at:] if other in theirs), usual)
        for at, place in enumerate(chosen)
    ]
    *marks, last = _lawful([*marks, auto or _SHORT])
    given = dict(zip(chosen, marks, strict=True))
    for place, block in blocks.items():
        if given.get(place) != theirs[place]:
            block |= {_MARK: given.get(place)}
            parts[place[0]] = read[place[0]]
        if place not in given:
            del block[_MARK]
    for place in given.keys() - blocks.keys():
        parts[place[0]] = _with_mark(parts[place[0]], given[place])
    beside = {name: parts[at] for at, name in enumerate(_BESIDE) if name in fields} | ({_MARK: last} if auto else {})
    raw = {name: part if isinstance(part, bytes) else msgspec.json.encode(part) for name, part in beside.items()}
    own = {name: msgspec.Raw(part) for name, part in raw.items()}
    return encoded({**fields, **own}, "messages", parts[len(_BESIDE) :])


def _with_mark(item: Out, mark: Mapping[str, Any]) -> Out:
    """A message without marks with this one at its last block that may have one."""
    message = msgspec.json.decode(item) if isinstance(item, bytes) else item
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    for at in range(len(blocks) - 1, -1, -1):
        block = blocks[at]
        if isinstance(block, dict) and block.get("type") not in _UNMARKABLE and block.get("text") != "":
            blocks[at] = {**block, _MARK: mark}
            return {**message, "content": blocks}
    return message
