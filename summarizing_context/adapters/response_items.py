"""Items of the Responses API as messages of a log, and views as items again.

Pure. An item has no place in a chat by itself: what a model gave in one response, reasoning and parallel calls, is one
message, and so is each output. What a view leaves as it was is the host's own items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from summarizing_context.adapters.open_sessions import digest_of, text_of
from summarizing_context.errors import MessageError, briefly
from summarizing_context.messages.validation import Message, canonical_json

Item = Mapping[str, Any]

NAME = "_items"  # the field of a message that names the items it was made of; never sent and never counted

_TEXTUAL = {"function_call": "arguments", "custom_tool_call": "input"}  # calls whose results are text; what they say

_STAYING = ("compaction", "compaction_summary")  # they stand for a past that only the server has


class Row(NamedTuple):
    """A message of the log, and the items that it stands for."""

    message: Message
    items: list[Item]


def rows_of(items: Sequence[Any]) -> Iterator[Row]:
    """What a model gave between two inputs is one message; each input is one."""
    for at, item in enumerate(items):
        if not isinstance(item, Mapping) or not isinstance(item.get("type", item.get("role")), str):
            raise MessageError(f"item {at} is {briefly(item)}; an item is a mapping with a type or a role")
    paired = set(map(_call_id, items)) & set(map(_output_id, items)) - {None}
    said: list[Item] = []
    for item in items:
        if (message := _input_message(item, paired)) is None:
            said.append(item)
            continue
        if said:
            yield _named(_response_message(said, paired), said)
            said = []
        yield _named(message, [item])
    if said:
        yield _named(_response_message(said, paired), said)


def needs_its_half(item: Any) -> bool:
    """Whether an item is a call or an output that is read otherwise where the other of the two is missing."""
    if not isinstance(item, Mapping) or _kind(item).removesuffix("_output") in _TEXTUAL:
        return False
    return _call_id(item) is not None or _output_id(item) is not None


def _named(message: Message, items: Sequence[Item]) -> Row:
    """Return the row with a name made of its items: the same in every process, whatever stands before it."""
    return Row({**message, NAME: digest_of(canonical_json(items).encode())}, list(items))


def _kind(item: Item) -> str:
    return str(item.get("type") or "message")


def _input_message(item: Item, paired: Set[str | None]) -> Message | None:
    """The message of an item that no model gave; None for others. `paired` are the ids of calls with an output."""
    kind = _kind(item)
    if kind == "message":
        return None if item.get("role") == "assistant" else {"role": item["role"], "content": _content(item)}
    if kind in _STAYING:
        return {"role": "system", "content": canonical_json(item)}
    id = _output_id(item)
    if id is not None and (id in paired or kind.removesuffix("_output") in _TEXTUAL):
        return {"role": "tool", "tool_call_id": id, "content": _content({"content": item.get("output")})}
    return None


def _content(item: Item) -> str | list[Message]:
    """Text, or blocks in which pictures and files have no bytes."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(block, Mapping) for block in content):
        return [_block(block) for block in content]
    return canonical_json(content)


def _block(block: Item) -> Message:
    """Return a text, or a file by its address or a digest of its bytes."""
    if isinstance(text := block.get("text", block.get("refusal")), str):
        return {"type": "text", "text": text}
    return {
        key: f"digest:{digest_of(value.encode())}" if isinstance(value, str) and len(value) >= 256 else value
        for key, value in block.items()
    }


def _response_message(items: Sequence[Item], paired: Set[str | None]) -> Message:
    message: Message = {"role": "assistant", "content": ""}
    texts: list[str] = []
    for item in items:
        kind = _kind(item)
        if kind == "reasoning":
            message.setdefault("reasoning", []).append(dict(item))
        elif (id := _call_id(item)) is not None and (id in paired or kind in _TEXTUAL):
            said = item.get(_TEXTUAL.get(kind, "action"))
            arguments = said if kind == "function_call" else canonical_json({"input": said})
            function = {"name": str(item.get("name") or kind), "arguments": arguments}
            message.setdefault("tool_calls", []).append({"id": id, "type": "function", "function": function})
        elif kind == "message":
            texts.append(text_of(_content(item)))
        else:
            texts.append(canonical_json(item))
    return {**message, "content": "\n".join(texts)}


def _call_id(item: Item) -> str | None:
    """The id under which the output of a call will come; None for what is no call, or brings its own result."""
    id = item.get("call_id")
    return str(id) if id and _kind(item).endswith("_call") else None


def _output_id(item: Item) -> str | None:
    """The id of the call that an output answers."""
    id = item.get("call_id") or item.get("id")
    return str(id) if id and _kind(item).endswith("_output") else None


def items_of(view: Iterable[Message], rows: Sequence[Row]) -> Iterator[Any]:
    """The view as items."""
    known = {row.message[NAME]: row for row in rows}
    kinds = {id: _kind(item) for row in rows for item in row.items if (id := _call_id(item)) is not None}
    for message in view:
        row = known.get(message.get(NAME, ""))
        if row is not None and (message == row.message or message["role"] == "system"):
            yield from row.items
        elif message["role"] == "tool":  # of a call whose text was cut, or that has none; another shape stays whole
            kind = kinds.get(message["tool_call_id"], "function_call")
            if kind in _TEXTUAL:
                bare = {"type": f"{kind}_output", "call_id": message["tool_call_id"]}
                yield {**(bare if row is None else row.items[0]), "output": text_of(message["content"])}
            elif row is not None:
                yield from row.items
        elif row is not None and message["role"] == "assistant":
            yield from _left_of(message, row)
        else:
            yield {"role": message["role"], "content": _cut_content(message, row)}


def _left_of(message: Message, row: Row) -> Iterator[Item]:
    """What a view has left of a response. Without reasoning and ids: a provider binds these to all of it."""
    arguments = {call["id"]: call["function"]["arguments"] for call in message.get("tool_calls", ())}
    before = {call["id"]: call["function"]["arguments"] for call in row.message.get("tool_calls", ())}
    is_said = message["content"] == row.message["content"]
    if not is_said and (text := text_of(message["content"])):
        yield {"role": "assistant", "content": text}
    for item in row.items:
        id, kind = _call_id(item), _kind(item)
        bare = {key: value for key, value in item.items() if key != "id"}
        if id not in before:
            if is_said and kind != "reasoning":
                yield bare if kind == "message" else item
        elif id in arguments:
            cut = kind in _TEXTUAL and arguments[id] != before[id]
            yield {**bare, _TEXTUAL[kind]: arguments[id]} if cut else bare


def _cut_content(message: Message, row: Row | None) -> Any:
    """The content of a message that a view has made or changed; pictures and files as they came."""
    content, files = message["content"], {}
    blocks = row.items[0].get("content") if row is not None else None
    if isinstance(blocks, list):
        files = {canonical_json(_block(block)): block for block in blocks}
    if isinstance(content, str) or not files:
        return text_of(content)
    texts = [{"type": "input_text", "text": block.get("text", "")} for block in content]
    return [files.get(canonical_json(block), text) for block, text in zip(content, texts, strict=True)]
