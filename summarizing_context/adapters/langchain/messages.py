"""Messages between LangChain and the log. Whatever a view shows as it was is the host's own object again.

Pure. A row is a message of the log. Its key is a digest of what it says, so that a history whose ids are new each time
is still the same.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from summarizing_context.errors import MessageError
from summarizing_context.messages.validation import Message, canonical_json, check_message, encode_message

KEY = "_langchain"  # of a row; what begins with an underscore is never sent

_ROLES = {HumanMessage: "user", AIMessage: "assistant", ToolMessage: "tool"}

_SYSTEM = "developer"  # of system messages of the history: they stay behind the prompt that a request brings

_CALL_BLOCKS = ("tool_use", "tool_call", "function_call", "invalid_tool_call")

_RAW_CALLS = ("tool_calls", "function_call")  # as a provider wrote them, among additional arguments


class History:
    """A host's messages as rows, and the way back. Raises `MessageError` for what cannot be a row."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        self.rows = [_row_of(message, at) for at, message in enumerate(messages)]
        self._messages = messages

    @property
    def keys(self) -> list[str]:
        return [row[KEY] for row in self.rows]

    def messages_of(self, view: Sequence[Message]) -> list[BaseMessage]:
        """A view's rows as messages; each stands for the newest message of its key that no later row stands for."""
        places: dict[str, list[int]] = defaultdict(list)
        for at, row in enumerate(self.rows):
            places[row[KEY]].append(at)
        found: list[BaseMessage] = []
        for row in reversed(view):
            known = places.get(row.get(KEY, ""))
            if known is None:
                found.append(_new(row))
            else:
                found.append(self._shown(row, known.pop() if len(known) > 1 else known[0]))
        return found[::-1]

    def _shown(self, row: Message, at: int) -> BaseMessage:
        message = self._messages[at]
        if row == self.rows[at]:
            return message
        if row["role"] != self.rows[at]["role"]:
            return _new(row)
        update: dict[str, Any] = {"content": _own_blocks(_content(row), self.rows[at]["content"], _said(message))}
        if isinstance(message, AIMessage):
            update |= _calls_of(row)
            update["content"] = _with_call_blocks(message, update)
            others = message.additional_kwargs.items()
            update["additional_kwargs"] = {name: value for name, value in others if name not in _RAW_CALLS}
        return message.model_copy(update=update)


def _row_of(message: BaseMessage, at: int) -> Message:
    row: Message = {"role": _role_of(message, at), "content": plain(_said(message))}
    if message.name:
        row["name"] = message.name
    if isinstance(message, AIMessage):
        calls = [*map(_listed, message.tool_calls), *map(_listed_raw, message.invalid_tool_calls)]
        if calls:
            row["tool_calls"] = calls
    elif isinstance(message, ToolMessage):
        row["tool_call_id"] = message.tool_call_id
        if message.status == "error":
            row["status"] = "error"
    return {**row, KEY: hashlib.blake2b(_encoded(row, at), digest_size=12).hexdigest()}


def plain(content: Any) -> Any:
    """A content as the log can hold it: of bytes a digest, and text for what JSON has no form for. What cannot be
    copied stays, to be refused by its place."""
    if isinstance(content, str):
        return content
    try:
        return [_plain_block(block) for block in content]
    except RecursionError:
        return content


def _plain_block(block: Any) -> Any:
    found: list[bytes] = []
    made = _plain(block, found)
    if found and isinstance(made, dict) and "type" not in made:  # as Bedrock writes pictures and files
        return {"type": next(iter(made)), **made}
    return made


def _plain(value: Any, found: list[bytes]) -> Any:
    """The value in plain JSON; the bytes in it are `found`."""
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item, found) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, found) for item in value]
    if isinstance(value, bytes | bytearray):
        found.append(bytes(value))
        return "digest:" + hashlib.blake2b(value, digest_size=12).hexdigest()
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    shown = repr(value)
    return type(value).__name__ if " at 0x" in shown else shown  # an address is another one in each process


def _said(message: BaseMessage) -> Any:
    """A message's content without the calls that stand in its `tool_calls` too."""
    if isinstance(message, AIMessage) and isinstance(message.content, list):
        return [block for block in message.content if not _is_call(block)]
    return message.content


def _own_blocks(content: Any, before: Any, own: Any) -> Any:
    """A changed content with the host's own objects for the blocks that have stayed."""
    if not isinstance(content, list) or not isinstance(before, list):
        return content
    known = {canonical_json(block): mine for block, mine in zip(before, own, strict=True)}
    return [known.get(canonical_json(block), block) for block in content]


def _role_of(message: BaseMessage, at: int) -> str:
    if isinstance(message, SystemMessage) or (isinstance(message, ChatMessage) and message.role == "system"):
        return _SYSTEM
    if isinstance(message, ChatMessage):
        return str(message.role)
    for kind, role in _ROLES.items():
        if isinstance(message, kind):
            return role
    raise MessageError(
        f"message {at}: {type(message).__name__} cannot be sent to a model; "
        "an agent's messages are human, AI, system, tool or chat messages"
    )


def _encoded(row: Message, at: int) -> bytes:
    try:
        return encode_message(row)
    except (TypeError, ValueError, RecursionError) as error:
        try:
            return encode_message(check_message(row))
        except MessageError as problem:
            raise MessageError(f"message {at}: {problem}") from error


def _is_call(block: object) -> bool:
    """Whether a block says once more what stands in `tool_calls`."""
    return isinstance(block, dict) and block.get("type") in _CALL_BLOCKS


def _listed(call: Any) -> Message:
    return _function(call, json.dumps(call["args"], ensure_ascii=False, default=str))


def _listed_raw(call: Any) -> Message:
    """A call whose arguments are no JSON, which is sent all the same."""
    return _function(call, call["args"] or "")


def _function(call: Any, arguments: str) -> Message:
    function = {"name": call["name"] or "", "arguments": arguments}
    return {"id": call["id"] or "", "type": "function", "function": function}


def _new(row: Message) -> BaseMessage:
    """A message for a row that no message of the host's stands behind, such as the header."""
    role, content = row["role"], _content(row)
    if role == "assistant":
        return AIMessage(content=content, **_calls_of(row))
    if role == "tool":
        status = "error" if row.get("status") == "error" else "success"
        return ToolMessage(content=content, tool_call_id=row["tool_call_id"], status=status)
    if role == "user":
        return HumanMessage(content=content)
    return SystemMessage(content=content) if role == "system" else ChatMessage(content=content, role=role)


def _content(row: Message) -> Any:
    content = row.get("content")
    return "" if content is None else content


def _calls_of(row: Message) -> dict[str, list[Any]]:
    """A row's calls in both of LangChain's lists."""
    calls: dict[str, list[Any]] = {"tool_calls": [], "invalid_tool_calls": []}
    for call in row.get("tool_calls") or ():
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        args = _parsed(arguments)
        if args is None:
            raw = {"name": name, "args": arguments, "id": call["id"], "error": None, "type": "invalid_tool_call"}
            calls["invalid_tool_calls"].append(raw)
        else:
            calls["tool_calls"].append({"name": name, "args": args, "id": call["id"], "type": "tool_call"})
    return calls


def _parsed(arguments: str) -> dict[str, Any] | None:
    try:
        parsed = json.loads(arguments)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _with_call_blocks(message: AIMessage, update: dict[str, Any]) -> Any:
    """The new content, and behind it the message's own blocks of calls that have stayed as they were."""
    content = update["content"]
    if not isinstance(message.content, list):
        return content
    before = {call["id"]: call["args"] for call in message.tool_calls}
    stayed = {call["id"] for call in update["tool_calls"] if before.get(call["id"]) == call["args"]}
    blocks = [block for block in message.content if _is_call(block) and _id_of(block) in stayed]
    if not blocks:
        return content
    return [*([{"type": "text", "text": content}] if isinstance(content, str) else content), *blocks]


def _id_of(block: Any) -> Any:
    return block.get("call_id", block.get("id"))
