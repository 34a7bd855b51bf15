"""Anthropic's Messages: content in blocks, the system prompt beside the messages, marks of what is to be cached.

Clients mark the newest message for the cache and take the mark away later; so marks enter neither keys nor the log.
A view gets two of them: one where its header ends, which stays until the next activation, and one at its end.
No request goes on with more than four, or with one of an hour behind one of five minutes: the provider refuses both.

What a client's system says before the model's first words belongs to its system prompt: the machine, its agents, the
effort. Every view has it, where providers allow it: behind the user and before the model.

Newer models refuse thinking that they signed behind another beginning. A request with a rewritten one asks for it to
be dropped. Dropped blocks are sent all the same: without them the beginning would change once more.
"""

from __future__ import annotations

from collections import Counter
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
    objects,
    whole,
)
from summarizing_context.summarizers.provider_window import bound_thinking, dropping

_MARK = "cache_control"
_EFFORT = "output_config"  # of a message of the system: holds from there on
_MOST_MARKS = 4  # of a request
_SHORT: Mapping[str, Any] = {"type": "ephemeral"}  # five minutes
_HOUR = "1h"
_BESIDE = ("tools", "system")  # fields with marks, in the order in which they stand before the messages
_MARKABLE = ("text", "image", "document", "tool_use", "tool_result")


class Anthropic:
    """The history is `messages`."""

    name = "anthropic"

    def read(self, fields: Fields, memory: Memory) -> Asked:
        if decoded(fields, "thread") is not None:
            raise PassUnchanged("with a thread the server keeps the history")
        made = [memory.made(self.name, _row, item) for item in memory.items(fields, "messages")]
        rows = [row for row, *_ in made]
        start = 1 + max((at for at, (_, is_compacted, _) in enumerate(made) if is_compacted), default=-1)
        if start == len(rows):
            raise PassUnchanged("the server's own compaction ends the history")
        # what the system says before the model's first words
        end = next((at for at in range(start, len(rows)) if rows[at].message["role"] == "assistant"), len(rows))
        opening = [row for row in rows[start:end] if row.message["role"] == "system"]
        others = [row for row in rows[start:end] if row.message["role"] != "system"]
        if not others:
            opening, others = [], rows[start:end]
        system, tools = decoded(fields, "system"), objects(decoded(fields, "tools"))
        prompt = [{"type": "text", "text": system}] if isinstance(system, str) else objects(system)
        marks = [block[_MARK] for block in _marked_blocks([*tools, *prompt])]
        marks += [mark for *_, of_row in made for mark in of_row]
        marks += [auto] if (auto := decoded(fields, _MARK)) else []
        model = str(decoded(fields, "model") or "")
        return Asked(
            fields=fields,
            lead=[row.sent[0] for row in rows[:start]],
            opening=opening,
            rows=[*others, *rows[end:]],
            beside=[*prompt, *tools, *(row.message for row in [*rows[max(0, start - 1) : start], *opening])],
            model=model,
            max_output=whole(decoded(fields, "max_tokens")),
            has_tools=bool(tools),
            must_change=len(marks) > _MOST_MARKS or marks != _lawful(marks),
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


def _row(data: bytes) -> tuple[Row, bool, list[Any]]:
    """Return the row of a message, whether the server's compaction stands in it, which stands for all before it, and
    the message's marks. A compaction without content has failed, and stands for nothing."""
    message = check_message(msgspec.json.decode(data))
    content = message.get("content")
    marks = [block[_MARK] for block in _marked_blocks(content)] if _MARK.encode() in data else []
    if isinstance(content, list):  # without marks, a single block of nothing but text written as a string
        blocks = [_without_mark(block) if isinstance(block, dict) else block for block in content]
        is_text = len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].keys() == {"type", "text"}
        message["content"] = blocks[0]["text"] if is_text else blocks
    compacted = [block.get("content") for block in objects(content) if block.get("type") == "compaction"]
    if message["role"] == "system":  # a reminder among the messages, which the client wrote by itself
        message["metadata"] = HOOK
    key = digest(msgspec.json.encode(bare(message), order="deterministic"))
    return Row({**message, KEY: key}, (data,), key), any(said is not None for said in compacted), marks


def _without_mark(block: Message) -> Message:
    inner = block.get("content")
    if isinstance(inner, list):  # of a result
        block = {**block, "content": [_without_mark(each) if isinstance(each, dict) else each for each in inner]}
    return {name: value for name, value in block.items() if name != _MARK}


def _marked_blocks(blocks: object) -> Iterator[dict[str, Any]]:
    """Yield the blocks or tools with a mark, those inside of others too, in the order of the request."""
    for block in objects(blocks):
        inner = block.get("source")
        yield from _marked_blocks(inner.get("content") if isinstance(inner, dict) else None)
        yield from _marked_blocks(block.get("content"))
        if isinstance(block.get(_MARK), dict):
            yield block


def _lawful(marks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the marks of a request in their order, those of an hour behind one of five minutes made as short."""
    first = next((at for at, mark in enumerate(marks) if mark.get("ttl") != _HOUR), len(marks))
    return [_SHORT if at > first and mark.get("ttl") == _HOUR else mark for at, mark in enumerate(marks)]


def _marked(fields: Fields, items: Sequence[Out], header: Out | None) -> bytes:
    """Return the request with these messages, and with as many marks as it may have: of the client's tools and system,
    at its end, at the end of its header, and the newest of the client's messages."""
    auto = decoded(fields, _MARK)  # stands for one at the end
    beside = [name for name in _BESIDE if name in fields]
    parts: list[Out] = [*(bytes(fields[name]) for name in beside), *items]
    ends = [] if auto else [len(parts) - 1]
    ends += [at for at, part in enumerate(parts) if part is header]
    read: dict[int, Any] = {}  # the parts with marks, theirs or ours, as copies
    for at, part in enumerate(parts):
        if at in ends or (isinstance(part, bytes) and _MARK.encode() in part):
            read[at] = msgspec.json.decode(part if isinstance(part, bytes) else msgspec.json.encode(part))

    def marked_in(at: int) -> list[dict[str, Any]]:
        value = read[at]
        return list(_marked_blocks(value.get("content") if isinstance(value, dict) else value))

    # ours, empty so far, where none of the client's stands
    for at in ends:
        if not marked_in(at):
            content = read[at].get("content")
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
            for block in reversed(objects(blocks)):
                if block.get("type") in _MARKABLE and block.get("text") != "":
                    block[_MARK], read[at]["content"] = {}, blocks
                    break

    # as many as may be, by what they are worth
    places = [(at, block) for at in read for block in marked_in(at)]
    ranked = [block for at, block in places if at < len(beside)]
    ranked += [block for end in ends for block in marked_in(end)[-1:]]
    ranked += [block for _, block in reversed(places)]
    kept = list(dict.fromkeys(map(id, ranked)))[: _MOST_MARKS - bool(auto)]
    theirs = [block[_MARK] for at, block in places if at >= len(beside) and block[_MARK]]
    time = auto or (theirs[-1] if theirs else _SHORT)
    for _, block in reversed(places):
        if id(block) not in kept:
            del block[_MARK]
        elif block[_MARK]:
            time = block[_MARK]
        else:  # one of ours lasts as long as the next of the client's behind it
            block[_MARK] = time
    chosen = [block for _, block in places if _MARK in block]
    *marks, last = _lawful([*(block[_MARK] for block in chosen), auto or _SHORT])
    for block, mark in zip(chosen, marks, strict=True):
        block[_MARK] = mark

    # what has changed is written anew
    for at, value in read.items():
        part = parts[at]
        if not isinstance(part, bytes) or msgspec.json.decode(part) != value:
            parts[at] = value
    own: dict[str, Any] = {name: parts[at] for at, name in enumerate(beside) if not isinstance(parts[at], bytes)}
    own |= {_MARK: last} if auto else {}
    raw = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in own.items()}
    return encoded({**fields, **raw}, "messages", parts[len(beside) :])
