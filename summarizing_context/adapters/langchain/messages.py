"""Messages between LangChain and the log. Whatever a view shows as it was is the host's own object again.

Pure. A row is a message of the log. Its key is a digest of what it says, so that a history whose ids are new each time
is still the same.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from summarizing_context.adapters.open_sessions import as_json, digest_of
from summarizing_context.errors import MessageError
from summarizing_context.messages.shapes import (
    Message,
    canonical_json,
    check_message,
    encode_message,
    kind_of,
    shape_of,
)

KEY = "_langchain"  # of a row; what begins with an underscore is never sent
_ROLES = {HumanMessage: "user", AIMessage: "assistant", ToolMessage: "tool"}


class History:
    """A host's messages as rows, and the way back. Raises `MessageError` for what cannot be a row."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        self.rows: list[Message] = []
        for at, message in enumerate(messages):
            try:
                self.rows.append(_row_of(message))
            except MessageError as problem:
                raise MessageError(f"message {at}: {problem}") from problem
        self.keys: list[str] = [row[KEY] for row in self.rows]
        self._messages = messages

    def messages_of(self, view: Sequence[Message]) -> list[BaseMessage]:
        """Return a view's rows as messages; each is the newest message of its key that no later row stands for."""
        places: dict[str, list[int]] = defaultdict(list)
        for at, key in enumerate(self.keys):
            places[key].append(at)
        found: list[BaseMessage] = []
        for row in reversed(view):
            if (known := places.get(row.get(KEY, ""))) is None:
                found.append(_new(row))
                continue
            place = known.pop() if len(known) > 1 else known[0]
            message, before = self._messages[place], self.rows[place]
            if row == before:
                found.append(message)
            elif row["role"] != before["role"]:
                found.append(_new(row))
            else:
                found.append(message.model_copy(update=self._changes(row, message)))
        return found[::-1]

    @cached_property
    def _blocks(self) -> dict[str, Any]:
        """The host's own blocks, by how the log has them."""
        rows = zip(self.rows, self._messages, strict=True)
        lists = ((row["content"], _said(message)) for row, message in rows if isinstance(row["content"], list))
        return {canonical_json(block): own for content, said in lists for block, own in zip(content, said, strict=True)}

    def _changes(self, row: Message, message: BaseMessage) -> dict[str, Any]:
        """Return the fields of the host's message that a view has changed in its row."""
        content = row.get("content") or ""
        if isinstance(content, list):  # the host's own objects for what has stayed
            content = [self._blocks.get(canonical_json(block), block) for block in content]
        if not isinstance(message, AIMessage):
            return {"content": content}
        calls = _calls_of(row)
        if isinstance(message.content, list):  # and behind it the blocks of calls that have stayed
            args = {call["id"]: call["args"] for call in message.tool_calls}
            stayed = {call["id"] for call in calls["tool_calls"] if args.get(call["id"]) == call["args"]}
            blocks: list[Any] = [
                block
                for block in message.content
                if isinstance(block, dict) and _is_call(block) and block.get("call_id", block.get("id")) in stayed
            ]
            if blocks and isinstance(content, str):
                content = [{"type": "text", "text": content}] if content else []
            content = [*content, *blocks] if blocks else content
        kept = {  # without calls as a provider wrote them
            name: value
            for name, value in message.additional_kwargs.items()
            if name not in ("tool_calls", "function_call")
        }
        return {"content": content, **calls, "additional_kwargs": kept}


def _row_of(message: BaseMessage) -> Message:
    if isinstance(message, SystemMessage) or (isinstance(message, ChatMessage) and message.role == "system"):
        role = "developer"  # these stay behind the prompt that a request brings
    elif isinstance(message, ChatMessage):
        role = str(message.role)
    elif (role := next((role for kind, role in _ROLES.items() if isinstance(message, kind)), "")) == "":
        said = f"{type(message).__name__} cannot be sent to a model"
        raise MessageError(f"{said}; an agent's messages are human, AI, system, tool or chat messages")
    row: Message = {"role": role, "content": plain(_said(message))}
    if message.name:
        row["name"] = message.name
    if isinstance(message, AIMessage):
        listed: list[tuple[Any, str]] = [
            (call, json.dumps(call["args"], ensure_ascii=False, default=str)) for call in message.tool_calls
        ]
        listed += [(call, call["args"] or "") for call in message.invalid_tool_calls]  # no JSON, and sent all the same
        for call, arguments in listed:
            function = {"name": call["name"] or "", "arguments": arguments}
            row.setdefault("tool_calls", []).append({"id": call["id"] or "", "type": "function", "function": function})
    elif isinstance(message, ToolMessage):
        row["tool_call_id"] = message.tool_call_id
        if message.status == "error":
            row["status"] = "error"
    try:
        encoded = encode_message(row)
    except (TypeError, ValueError, RecursionError):
        encoded = encode_message(check_message(row))
    return {**row, KEY: digest_of(encoded)}


def plain(content: Any) -> Any:
    """Return a content as the log can hold it. Raise `MessageError` for what is nested too deep."""
    if isinstance(content, str):
        return content
    blocks = []
    for block in content:
        made = as_json(block)
        if isinstance(made, dict) and "type" not in made and made != block:  # bytes, as Bedrock writes files
            made = {"type": next(iter(made)), **made}
        blocks.append(made)
    return blocks


def _said(message: BaseMessage) -> Any:
    """A message's content without the calls that stand in its `tool_calls` too."""
    if isinstance(message, AIMessage) and isinstance(message.content, list):
        return [block for block in message.content if not _is_call(block)]
    return message.content


def _is_call(block: object) -> bool:
    """Whether a block says once more what stands in `tool_calls`."""
    if not isinstance(block, dict):
        return False
    shape = shape_of(block)
    return (shape.kind, shape.bound) == ("call", "host") or kind_of(block) == "invalid_tool_call"


def _new(row: Message) -> BaseMessage:
    """A message for a row that no message of the host's stands behind, such as the header."""
    role, content = row["role"], row.get("content") or ""
    if role == "assistant":
        return AIMessage(content=content, **_calls_of(row))
    if role == "tool":
        status = "error" if row.get("status") == "error" else "success"
        return ToolMessage(content=content, tool_call_id=row["tool_call_id"], status=status)
    if role == "user":
        return HumanMessage(content=content)
    return SystemMessage(content=content) if role == "system" else ChatMessage(content=content, role=role)


def _calls_of(row: Message) -> dict[str, list[Any]]:
    """Return a row's calls in both of LangChain's lists."""
    calls: dict[str, list[Any]] = {"tool_calls": [], "invalid_tool_calls": []}
    for call in row.get("tool_calls") or ():
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        try:
            args = json.loads(arguments)
        except ValueError:
            args = None
        if isinstance(args, dict):
            calls["tool_calls"].append({"name": name, "args": args, "id": call["id"], "type": "tool_call"})
        else:
            raw = {"name": name, "args": arguments, "id": call["id"], "error": None, "type": "invalid_tool_call"}
            calls["invalid_tool_calls"].append(raw)
    return calls
