"""Items of the Responses API as messages of a log, and views as items again.

Pure. An item has no place in a chat by itself: what a model gave in one response, reasoning and parallel calls, is one
message, and so is each output. What a view leaves as it was is the host's own items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from summarizing_context.adapters.open_sessions import KEY, digest_of, keyed, text_of
from summarizing_context.errors import MessageError, briefly
from summarizing_context.messages.reading import LOADED_TOOLS, Message, canonical_json
from summarizing_context.summarizers.native import is_compacted

Item = Mapping[str, Any]

COMPACTED = ("compaction", "compaction_summary")  # they stand for a past that only the server has
SERVER_WORK = ("item_reference", "compaction_trigger")  # the server is asked to look up or to compact items
_IN_FORCE = (*COMPACTED, "additional_tools", "configuration_update")  # from where they stand on: every view has them
_TEXTUAL = {"function_call": "arguments", "custom_tool_call": "input"}  # calls whose results are text; what they say
_TEXTS = ("text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal", None)
_LOADING = ("tool_search_call", "tool_search_output")
_PROGRAM = ("program", "program_output")  # what it calls, and the results, stand between them, also in own rows


class Row(NamedTuple):
    """A message of the log, and the items that it stands for."""

    message: Message
    items: Sequence[Item]


def rows_of(items: Sequence[Any]) -> Iterator[Row]:
    """Yield the rows: what a model gave between two inputs is one message, and each input is one. A call with an output
    that is no text is one with it, and the output of a program is one by itself. Raise `MessageError`."""
    for at, item in enumerate(items):
        if not isinstance(item, Mapping) or not isinstance(item.get("type", item.get("role")), str):
            raise MessageError(f"item {at} is {briefly(item)}; an item is a mapping with a type or a role")
    halves = [_half_of(item) for item in items]
    paired = {id for id, is_output in halves if id and not is_output} & {id for id, is_output in halves if is_output}

    def row(start: int, stop: int) -> Row:
        own = items[start:stop]
        return Row(keyed(_message(own), own), own)

    begin, waiting, holds = 0, set[str](), False
    for at, item in enumerate(items):
        kind, (id, is_output) = _kind(item), halves[at]
        is_textual = kind.removesuffix("_output") in _TEXTUAL
        answers = is_output and (is_textual or id in paired or kind == "program_output")
        holds = holds or (id in paired and not is_textual)
        if not is_output and id in paired:
            waiting.add(id)
        if holds and answers:  # its row ends where nothing waits any longer
            waiting.discard(id)
            if waiting:
                continue
            yield row(begin, at + 1)
        elif answers or kind in _IN_FORCE or (kind == "message" and item.get("role") != "assistant"):
            if begin < at:
                yield row(begin, at)
            yield row(at, at + 1)
        else:
            continue
        begin, waiting, holds = at + 1, set(), False
    if begin < len(items):
        yield row(begin, len(items))


def _message(items: Sequence[Item]) -> Message:
    item, kind = items[0], _kind(items[0])
    if kind in _IN_FORCE:
        return {"role": "developer", "content": canonical_json(item)}
    if kind == "message" and item.get("role") != "assistant":
        return {"role": item["role"], "content": _content(item.get("content"))}
    if kind.removesuffix("_output") in _TEXTUAL and kind not in _TEXTUAL:
        return {"role": "tool", "tool_call_id": _half_of(item)[0], "content": _content(item.get("output", item))}
    message: Message = {"role": "assistant", "content": ""}
    blocks: list[Message] = []
    is_plain = True
    for block, own in _pieces(items):
        kind = _kind(own[-1])
        if block:
            blocks.append(block)
            is_plain = is_plain and kind == "message" and block["type"] == "text"
        elif kind == "reasoning":
            message.setdefault("reasoning", []).append(dict(own[-1]))
        else:
            said = own[-1].get(_TEXTUAL[kind])
            arguments = said if kind == "function_call" else canonical_json({"input": said})
            function = {"name": str(own[-1].get("name") or kind), "arguments": arguments}
            call = {"id": _half_of(own[-1])[0], "type": "function", "function": function}
            message.setdefault("tool_calls", []).append(call)
    message["content"] = "\n".join(block["text"] for block in blocks) if is_plain else blocks
    loading = [dict(item) for item in items if _kind(item) in _LOADING]
    if any(item["type"] == "tool_search_output" for item in loading):
        message["metadata"] = {LOADED_TOOLS: loading}
    return message


def _pieces(items: Sequence[Item]) -> Iterator[tuple[Message, Sequence[Item]]]:
    """Yield what the content of a response is made of: each block, and the items that it stands for. Reasoning and
    calls that are listed beside the content have none.

    Text may be cut. Whatever else a provider has made is opaque, with the reasoning that it came with.
    """
    holds = _holds(items)
    thoughts: list[Item] = []
    for item in items:
        kind = _kind(item)
        if kind == "reasoning":
            thoughts.append(item)
            continue
        own, block, said = [item], dict[str, Any](), _content(item.get("content"))
        is_text = isinstance(said, str) or all(each.get("type") == "text" for each in said)
        if kind == "message" and is_text and not holds:
            block = {"type": "text", "text": text_of(said)}
        elif holds or kind not in _TEXTUAL:
            own, thoughts = [*thoughts, item], []
            block = {"type": "items", "items": list(map(dict, own))}
            if kind in _LOADING:
                names = [str(tool.get("name")) for tool in item.get("tools") or () if isinstance(tool, Mapping)]
                block = {"type": "text", "text": f"loaded: {', '.join(names)}"}
            elif kind in _PROGRAM:
                block = {**item, "items": list(map(dict, own[:-1]))}
            elif kind.removesuffix("_output") in _TEXTUAL and isinstance(item.get("output"), str):
                block = {"type": "text", "text": item["output"]}  # the result of a call of text may be cut
        yield block, own
    yield from (({}, [thought]) for thought in thoughts)


def _holds(items: Sequence[Item]) -> bool:
    """Return whether items are one for calls in them whose outputs are no text."""
    halves = [_half_of(item) for item in items if _kind(item).removesuffix("_output") not in _TEXTUAL]
    answered = {id for id, is_output in halves if id and is_output}
    return any(id in answered and not is_output for id, is_output in halves)


def _kind(item: Item) -> str:
    return str(item.get("type") or "message")


def _half_of(item: Item) -> tuple[str, bool]:
    """Return the id that binds an item to its other half, and whether it is the output; empty for other items, also
    for calls that bring their own result, and for programs, which go on while the host answers their calls."""
    kind, id = _kind(item), None
    if kind == "mcp_approval_response":
        id = item.get("approval_request_id")
    elif kind == "mcp_approval_request":
        id = item.get("id")
    elif kind not in _PROGRAM and kind.endswith(("_output", "_call")):
        id = item.get("call_id") or (item.get("id") if kind.endswith("_output") else None)
    return str(id or ""), kind.endswith("_output") or kind == "mcp_approval_response"


def _content(content: Any) -> str | list[Message]:
    """Return text, or blocks in which pictures and files have no bytes."""
    if isinstance(content, list) and all(isinstance(block, Mapping) for block in content):
        return list(map(_block, content))
    return content if isinstance(content, str) else canonical_json(content)


def _block(block: Item) -> Message:
    """Return a text, or a file by its address or a digest of its bytes; whatever else as it is."""
    if isinstance(text := block.get("text", block.get("refusal")), str) and block.get("type") in _TEXTS:
        return {"type": "text", "text": text}
    return {
        key: f"digest:{digest_of(value.encode())}" if isinstance(value, str) and len(value) >= 256 else value
        for key, value in block.items()
    }


class ViewWriter:
    """Writes messages of a view as items; `rows` are those of its log."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = {row.message[KEY]: row for row in rows}
        self._items = [item for row in rows for item in row.items]
        self._kinds = {_half_of(item)[0]: _kind(item) for item in self._items if _kind(item) in _TEXTUAL}

    def items(self, message: Message) -> Iterator[Any]:
        row = self._rows.get(message.get(KEY, ""))
        if row is None and is_compacted(message):
            yield from message["content"]
        elif row is not None and (message == row.message or _kind(row.items[0]) in _IN_FORCE):
            yield from row.items
        elif message["role"] == "tool":  # of a call whose text was cut, or that has none
            kind = self._kinds.get(message["tool_call_id"], "function_call")
            bare = {"type": f"{kind}_output", "call_id": message["tool_call_id"]}
            yield {**(bare if row is None else row.items[0]), "output": self._content(message["content"])}
        elif row is not None and message["role"] == "assistant":
            yield from _left_of(message, row)
        elif loaded := (message.get("metadata") or {}).get(LOADED_TOOLS):  # by what is covered now
            yield from map(_bare, loaded)
        else:
            yield {"role": message["role"], "content": self._content(message["content"])}

    def _content(self, content: Any) -> Any:
        """Return the content of a message that a view has made or changed; pictures and files as they came."""
        if isinstance(content, str):
            return content
        given = [item.get(name) for item in self._items for name in ("content", "output")]
        blocks = [block for each in given if isinstance(each, list) for block in each if isinstance(block, Mapping)]
        files = {canonical_json(_block(block)): block for block in blocks if _block(block).get("type") != "text"}
        if not any(canonical_json(block) in files for block in content):
            return text_of(content)
        texts = ({"type": "input_text", "text": block.get("text", "")} for block in content)
        return [files.get(canonical_json(block), text) for block, text in zip(content, texts, strict=True)]


def _left_of(message: Message, row: Row) -> Iterator[Item]:
    """Yield what a view has left of a response. Text and calls are without reasoning and ids: a provider binds these to
    all of it. What is one with its calls stays whole, but for texts of results, and so does what loads tools."""
    arguments = {call["id"]: call["function"]["arguments"] for call in message.get("tool_calls", ())}
    before = {call["id"]: call["function"]["arguments"] for call in row.message.get("tool_calls", ())}
    holds, pieces = _holds(row.items), list(_pieces(row.items))
    contents = message["content"], row.message["content"]
    shown, given = ([{"text": each}] if isinstance(each, str) else each for each in contents)
    is_apart = len(shown) == len(given) == sum(bool(block) for block, _ in pieces)
    if not is_apart and shown != given and not holds and (text := text_of(message["content"])):
        yield {"role": "assistant", "content": text}
    at = 0
    for block, own in pieces:
        item, kind = own[-1], _kind(own[-1])
        if block:
            is_same = shown == given or block in shown
            text = text_of([shown[at]]) if is_apart else ""
            at += 1
            if is_same and kind == "message" and len(own) == 1:
                yield _bare(item)
            elif is_same or holds or kind in (*_LOADING, *_PROGRAM):
                yield from own[:-1]
                is_cut = text and not is_same and kind.removesuffix("_output") in _TEXTUAL and "output" in item
                yield {**item, "output": text} if is_cut else item
            elif text:
                yield {"role": "assistant", "content": text}
        elif (id := _half_of(item)[0]) in arguments:
            changed = {} if arguments[id] == before[id] else {_TEXTUAL[kind]: arguments[id]}
            yield {**_bare(item), **changed}


def _bare(item: Item) -> Item:
    return {key: value for key, value in item.items() if key != "id"}
