"""The scripted model's words in the three protocols: as one reply, or as the events of a stream."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from evals.clients.rules import Seal
from evals.clients.script import Call, Turn

Body = Mapping[str, Any]

Event = Mapping[str, Any]


class Counted(NamedTuple):
    """Tokens of the request that is answered; `output` is told to the client as what the reply took."""

    input: int
    cached: int
    output: int


def tool_names(body: Body) -> set[str]:
    """The tools that a request offers, those of namespaces too."""
    found: set[str] = set()
    lists = [
        body.get("tools") or (),
        *(item["tools"] for item in _items(body) if item.get("type") == "additional_tools"),
    ]
    for tool in (tool for tools in lists for tool in tools):
        inner = tool.get("tools") if tool.get("type") == "namespace" else None
        for each in inner or [tool.get("function") or tool]:
            found.add(each.get("name", each.get("type", "")))
    return found


def _items(body: Body) -> Sequence[Any]:
    return [item for item in body.get("input") or () if isinstance(item, Mapping)]


def named_call(call: Call, names: set[str]) -> tuple[str, dict[str, Any], str | None]:
    """The tool of the client for a call: its name, its arguments, and its namespace where it has one.

    Raises `LookupError` where the client has none.
    """
    if call.kind == "run":
        if "exec_command" in names:
            return "exec_command", {"cmd": call.argument, "yield_time_ms": 20_000}, None
        name = next((name for name in ("Bash", "bash") if name in names), None)
        if name:
            return name, {"command": call.argument, "description": "Read a file"}, None
    if call.kind == "task":
        if "spawn_agent" in names:
            return "spawn_agent", {"message": call.argument}, "multi_agent_v1"
        if "Agent" in names:
            fields = {"description": "Read six files", "prompt": call.argument, "subagent_type": "claude"}
            return "Agent", {**fields, "run_in_background": False}, None
        if "task" in names:
            return "task", {"description": "Read six files", "prompt": call.argument, "subagent_type": "general"}, None
    if call.kind == "wait" and "wait_agent" in names:
        return "wait_agent", {"targets": [call.argument], "timeout_ms": 60_000}, "multi_agent_v1"
    raise LookupError(f"the client has no tool to {call.kind}")


def anthropic(body: Body, turn: Turn, counted: Counted, seal: Seal) -> tuple[Body, list[Event]]:
    """A message of Anthropic's, whole and as events."""
    names, blocks = tool_names(body), list[dict[str, Any]]()
    if body.get("thinking", {}).get("type") in ("enabled", "adaptive") and turn.thinking:
        blocks.append({"type": "thinking", "thinking": turn.thinking, "signature": seal.sign(turn.thinking)})
    blocks.append({"type": "text", "text": turn.text})
    for call in turn.calls:
        name, arguments, _ = named_call(call, names)
        blocks.append({"type": "tool_use", "id": f"tool{call.id}", "name": name, "input": arguments})
    usage = {"input_tokens": counted.input - counted.cached, "cache_read_input_tokens": counted.cached}
    usage |= {"cache_creation_input_tokens": 0, "output_tokens": counted.output}
    whole = {"id": f"msg_{turn.number}", "type": "message", "role": "assistant", "model": body["model"]}
    whole |= {"stop_reason": "tool_use" if turn.calls else "end_turn", "stop_sequence": None, "usage": usage}
    events: list[Event] = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
    for at, block in enumerate(blocks):
        empty, deltas = _deltas(block)
        events.append({"type": "content_block_start", "index": at, "content_block": empty})
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": at})
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events += [{"type": "message_delta", "delta": ended, "usage": usage}, {"type": "message_stop"}]
    return {**whole, "content": blocks}, events


def _deltas(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in _parts(block["text"])]
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": part} for part in _parts(block["thinking"])]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*deltas, signed]
    parts = _parts(json.dumps(block["input"]))
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]


def chat(body: Body, turn: Turn, counted: Counted, seal: Seal) -> tuple[Body, list[Event]]:
    """A completion of OpenAI's, whole and as chunks."""
    names, calls = tool_names(body), list[dict[str, Any]]()
    for at, call in enumerate(turn.calls):
        name, arguments, _ = named_call(call, names)
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls.append({"index": at, "id": call.id, "type": "function", "function": function})
    usage = {"prompt_tokens": counted.input, "completion_tokens": counted.output}
    usage |= {"total_tokens": counted.input + counted.output}
    usage |= {"prompt_tokens_details": {"cached_tokens": counted.cached}}  # type: ignore[dict-item]
    reason = "tool_calls" if calls else "stop"
    about = {"id": f"chatcmpl-{turn.number}", "created": int(time.time()), "model": body["model"]}

    def chunk(delta: Body, reason: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {**about, "object": "chat.completion.chunk", "choices": [choice]}

    events = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": part}) for part in _parts(turn.text))]
    for made in calls:
        first, *rest = _parts(made["function"]["arguments"])
        events.append(chunk({"tool_calls": [{**made, "function": {**made["function"], "arguments": first}}]}))
        more = ({"index": made["index"], "function": {"arguments": part}} for part in rest)
        events += [chunk({"tool_calls": [each]}) for each in more]
    events += [chunk({}, reason), {**chunk({}), "choices": [], "usage": usage}]
    bare = [{name: value for name, value in call.items() if name != "index"} for call in calls]
    message = {"role": "assistant", "content": turn.text, **({"tool_calls": bare} if bare else {})}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {**about, "object": "chat.completion", "choices": [choice], "usage": usage}, events


def responses(body: Body, turn: Turn, counted: Counted, seal: Seal) -> tuple[Body, list[Event]]:
    """A response of OpenAI's, whole and as events."""
    names, number = tool_names(body), turn.number
    items: list[dict[str, Any]] = []
    if turn.thinking:
        summary = [{"type": "summary_text", "text": turn.thinking}]
        items.append({"type": "reasoning", "id": f"rs_{number}", "summary": summary})
        items[0]["encrypted_content"] = seal.sign(f"rs_{number}")
    said = [{"type": "output_text", "text": turn.text, "annotations": []}]
    items.append({"type": "message", "id": f"msg_{number}", "role": "assistant", "content": said})
    for at, call in enumerate(turn.calls):
        name, arguments, space = named_call(call, names)
        item = {"type": "function_call", "id": f"fc_{number}_{at}", "call_id": call.id, "name": name}
        items.append({**item, "arguments": json.dumps(arguments), **({"namespace": space} if space else {})})
    items = [{**item, **({} if item["type"] == "reasoning" else {"status": "completed"})} for item in items]
    usage = {"input_tokens": counted.input, "input_tokens_details": {"cached_tokens": counted.cached}}
    usage |= {"output_tokens": counted.output, "output_tokens_details": {"reasoning_tokens": 0}}
    usage |= {"total_tokens": counted.input + counted.output}
    whole = {"id": f"resp_{number}", "object": "response", "created_at": int(time.time()), "model": body["model"]}
    events: list[Event] = [{"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}]
    for at, item in enumerate(items):
        events += _item_events(at, item)
    done = {**whole, "status": "completed", "output": items, "usage": usage}
    events.append({"type": "response.completed", "response": done})
    return done, [{**event, "sequence_number": at} for at, event in enumerate(events)]


def _item_events(at: int, item: dict[str, Any]) -> Iterator[Event]:
    yield {"type": "response.output_item.added", "output_index": at, "item": {**item, "content": []}}
    if item["type"] == "message":
        where = {"item_id": item["id"], "output_index": at, "content_index": 0}
        for part in _parts(item["content"][0]["text"]):
            yield {"type": "response.output_text.delta", **where, "delta": part}
    yield {"type": "response.output_item.done", "output_index": at, "item": item}


def _parts(text: str, size: int = 60) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


SPEAKERS = {"anthropic": anthropic, "chat": chat, "responses": responses}
