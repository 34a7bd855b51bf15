"""What the providers refuse: pairs of calls and results, roles, thinking, ids, cache marks, places, unknown fields.

`problem` returns what a provider would say of a request, or nothing. A `Seal` signs thinking, so that a signature that
belongs to another text, or was made up, is found.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

Body = Mapping[str, Any]

_ID = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")

_MOST_MARKS = 4

_EFFORTS = {"mid-conversation-output-config-2026-07-01", "per-turn-control-2026-07-01"}  # allow it in a message

_BLOCKS = {  # fields of Anthropic's blocks: those that must be there, and those that may
    "text": ({"text"}, {"cache_control", "citations"}),
    "image": ({"source"}, {"cache_control"}),
    "document": ({"source"}, {"cache_control", "title", "context", "citations"}),
    "thinking": ({"thinking", "signature"}, set[str]()),
    "redacted_thinking": ({"data"}, set[str]()),
    "tool_use": ({"id", "name", "input"}, {"cache_control", "caller"}),
    "tool_result": ({"tool_use_id"}, {"content", "is_error", "cache_control"}),
}

_CHAT_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "refusal", "reasoning_content"},
    "tool": {"role", "content", "tool_call_id"},
}

_ITEM_FIELDS = {
    "message": {"type", "id", "role", "content", "status", "phase"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
    "function_call": {"type", "id", "call_id", "name", "namespace", "arguments", "status"},
    "function_call_output": {"type", "id", "call_id", "output", "status"},
    "custom_tool_call": {"type", "id", "call_id", "name", "input", "status"},
    "custom_tool_call_output": {"type", "id", "call_id", "output", "status"},
    "additional_tools": {"type", "id", "role", "tools"},
    "compaction": {"type", "id", "encrypted_content"},
    "compaction_summary": {"type", "id", "encrypted_content"},
    "compaction_trigger": {"type"},
}


class Refused(Exception):
    """A request that a provider answers with 400; the message is the provider's."""


class Seal:
    """Signs texts as the provider does."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, text: str) -> str:
        """The signature of a text."""
        return "sig" + hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()[:40]

    def holds(self, text: object, signature: object) -> bool:
        return isinstance(text, str) and isinstance(signature, str) and hmac.compare_digest(self.sign(text), signature)


def problem(dialect: str, body: Any, seal: Seal, cut: Container[str] = (), betas: Iterable[str] = ()) -> str:
    """What is wrong with a request; empty where nothing is. `cut` are items behind which a reply broke off.

    `betas` are what the client asks of Anthropic by header.
    """
    try:
        _CHECKS[dialect](body, seal, _EFFORTS.intersection(betas) if dialect == "anthropic" else cut)
    except Refused as refused:
        return str(refused)
    except (KeyError, TypeError, AttributeError) as error:
        return f"the request has not the form of a request: {error!r}"
    return ""


def _must(holds: object, words: str) -> None:
    if not holds:
        raise Refused(words)


# Anthropic Messages ------------------------------------------------------------------------------------------------


def _anthropic(body: Body, seal: Seal, efforts: Container[str]) -> None:
    rows = body["messages"]
    _must(rows, "messages: at least one message is required")
    _must(rows[0]["role"] == "user", "messages: first message must use the user role")
    _must(rows[-1]["role"] != "assistant", "messages: the conversation must end with a user message")
    _must(body.get("max_tokens", 0) > 0, "max_tokens: field required")
    _unique((tool["name"] for tool in body.get("tools") or ()), "tools: tool names must be unique")
    _must(_marks(body) <= _MOST_MARKS, f"a maximum of {_MOST_MARKS} blocks with cache_control may be provided")
    for at, row in enumerate(rows):
        allowed = {"role", "content", *(["output_config"] if efforts and row["role"] == "system" else [])}
        extra = sorted(set(row) - allowed)
        _must(not extra, f"messages.{at}: extra inputs are not permitted: {extra}")
        _must(row["role"] in ("user", "assistant", "system"), f"messages.{at}.role: unexpected {row['role']}")
        _must(row["content"] or "output_config" in row, f"messages.{at}: content must not be empty")
        for number, block in enumerate(_blocks(row)):
            _block(block, row["role"], f"messages.{at}.content.{number}", seal)
    calls = [block for row in rows for block in _blocks(row) if block["type"] == "tool_use"]
    _unique((call["id"] for call in calls), "messages: `tool_use` ids must be unique")
    _must(not calls or body.get("tools"), "requests which include `tool_use` blocks must define tools")
    _pairs(rows)
    _placed(rows)
    if body.get("thinking", {}).get("type") in ("enabled", "adaptive"):
        _thinks_first(rows)


def _blocks(row: Body) -> list[Any]:
    content = row["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _block(block: Body, role: str, at: str, seal: Seal) -> None:
    kind = block["type"]
    _must(kind in _BLOCKS, f"{at}: unknown type {kind}")
    needed, allowed = _BLOCKS[kind]
    _must(needed <= set(block), f"{at}: field required: {sorted(needed - set(block))}")
    extra = set(block) - needed - allowed - {"type"}
    _must(not extra, f"{at}: extra inputs are not permitted: {sorted(extra)}")
    if kind == "text":
        _must(block["text"].strip(), f"{at}: text content blocks must contain non-whitespace text")
    elif kind == "thinking":
        _must(role == "assistant", f"{at}: thinking in a message of {role}")
        _must(seal.holds(block["thinking"], block["signature"]), f"{at}: invalid `signature` in `thinking` block")
    elif kind == "tool_use":
        _must(role == "assistant", f"{at}: `tool_use` in a message of {role}")
        _must(_ID.match(block["id"]), f"{at}.id: string should match pattern")
        _must(isinstance(block["input"], dict), f"{at}.input: should be an object")
    elif kind == "tool_result":
        _must(role == "user", f"{at}: `tool_result` in a message of {role}")


def _pairs(rows: Sequence[Body]) -> None:
    """The results of a message's calls open the next message of the user, each once, and nothing else does."""
    waiting: list[str] = []
    for at, row in enumerate(rows):
        blocks = _blocks(row)
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        for id in results:
            _must(id in waiting, f"messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {id}")
        _unique(results, f"messages.{at}: each tool_use must have a single result")
        missing = [id for id in waiting if id not in results]
        words = f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}"
        _must(not missing, words)
        leading = [block["type"] for block in blocks[: len(results)]]
        _must(set(leading) <= {"tool_result"}, f"messages.{at}: `tool_result` blocks must come first")
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
    _must(not waiting, f"`tool_use` ids were found without `tool_result` blocks: {waiting}")


def _placed(rows: Sequence[Body]) -> None:
    """What the system says among the messages follows one of the user's, and nothing of the user's follows it.

    A message with nothing but an effort may stand anywhere, unless it is beside one with words.
    """
    runs = [list(run) for _, run in itertools.groupby(enumerate(rows), lambda pair: pair[1]["role"])]
    for before, run, behind in zip([[], *runs], runs, [*runs[1:], []], strict=False):
        at, first = run[0]
        if first["role"] != "system" or not any(row["content"] for _, row in run):
            continue
        words = f"messages.{at}: a `system` message must immediately follow a `user` message"
        _must(before and before[-1][1]["role"] == "user", words)
        words = f"messages.{at}: a `system` message must precede an `assistant` message or end the array"
        _must(not behind or behind[0][1]["role"] == "assistant", words)
        words = f"messages.{at}: consecutive `system` messages are not allowed"
        _must(sum(bool(row["content"]) for _, row in run) == 1, words)


def _thinks_first(rows: Sequence[Body]) -> None:
    """While calls of the last assistant message are answered, that message begins with its thinking."""
    last = next((row for row in reversed(rows) if row["role"] == "assistant"), None)
    if last is None or not any(block["type"] == "tool_result" for block in _blocks(_last_of_user(rows))):
        return
    first = _blocks(last)[0]["type"]
    _must(
        first in ("thinking", "redacted_thinking"), f"expected `thinking` first in the last turn, but found `{first}`"
    )


def _last_of_user(rows: Sequence[Body]) -> Body:
    return next(row for row in reversed(rows) if row["role"] == "user")


def _marks(body: Body) -> int:
    rows = [block for row in body["messages"] if isinstance(row["content"], list) for block in row["content"]]
    inner = [each for block in rows for each in block.get("content") or () if isinstance(each, dict)]
    system = body["system"] if isinstance(body.get("system"), list) else []
    return sum("cache_control" in each for each in (body, *rows, *inner, *system, *(body.get("tools") or ())))


# OpenAI Chat Completions -------------------------------------------------------------------------------------------


def _chat(body: Body, seal: Seal, cut: Container[str]) -> None:
    rows = body["messages"]
    _must(rows, "[] is too short - 'messages'")
    waiting: list[str] = []
    for at, row in enumerate(rows):
        allowed = _CHAT_FIELDS.get(row["role"])
        _must(allowed is not None, f"messages[{at}].role: invalid value {row['role']!r}")
        assert allowed is not None
        _must(set(row) <= allowed, f"messages[{at}]: unrecognized arguments {sorted(set(row) - allowed)}")
        calls = row.get("tool_calls")
        _must(calls is None or calls, f"messages[{at}].tool_calls: empty array")
        _must(row.get("content") is not None or calls, f"messages[{at}].content: expected a string, got null")
        if row["role"] == "tool":
            words = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            _must(row["tool_call_id"] in waiting, f"messages[{at}]: {words}")
            waiting.remove(row["tool_call_id"])
            continue
        words = "an assistant message with 'tool_calls' must be followed by tool messages responding to each call"
        _must(not waiting, f"messages[{at}]: {words}: {waiting}")
        waiting = [call["id"] for call in calls or ()]
        _unique(waiting, f"messages[{at}]: duplicate call ids")
        for call in calls or ():
            _json(call["function"]["arguments"], f"messages[{at}].tool_calls")
    _must(not waiting, f"calls without tool messages: {waiting}")
    issued = [call["id"] for row in rows for call in row.get("tool_calls") or ()]
    _unique(issued, "messages: duplicate call ids")


# OpenAI Responses --------------------------------------------------------------------------------------------------


def _responses(body: Body, seal: Seal, cut: Container[str]) -> None:
    items = body["input"]
    _must(items, "input: at least one item is required")
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        allowed = _ITEM_FIELDS.get(kind)
        _must(allowed is not None, f"input[{at}].type: invalid value {kind!r}")
        assert allowed is not None
        _must(set(item) <= allowed, f"input[{at}]: unknown parameter {sorted(set(item) - allowed)}")
        if kind == "function_call":
            _json(item["arguments"], f"input[{at}].arguments")
        if kind == "reasoning":
            sealed = item.get("encrypted_content") or ""
            _must(seal.holds(item["id"], sealed), f"the encrypted content for item {item['id']} could not be verified")
            behind = items[at + 1] if at + 1 < len(items) else {}
            follows = behind.get("type") in ("function_call", "custom_tool_call", "reasoning")
            words = f"item {item['id']!r} of type 'reasoning' was provided without its required following item"
            _must(follows or behind.get("role") == "assistant" or item["id"] in cut, words)
    _unique((item["id"] for item in items if item.get("id")), "input: duplicate item found with id")
    _answered(items)
    _reasoned(items)


def _answered(items: Sequence[Body]) -> None:
    """Each call has one output behind it, before anything else is said."""
    waiting: list[str] = []
    for item in items:
        kind = item.get("type", "message")
        if kind.endswith("_call_output"):
            _must(item["call_id"] in waiting, f"no tool call found for function call output with {item['call_id']}")
            waiting.remove(item["call_id"])
        elif kind.endswith("_call"):
            waiting.append(item["call_id"])
        elif kind == "message" and item.get("role") != "assistant":
            _must(not waiting, f"no tool output found for function call {waiting}")
    _must(not waiting, f"no tool output found for function call {waiting}")
    _unique((item["call_id"] for item in items if item.get("type", "").endswith("_call")), "input: duplicate call ids")


def _reasoned(items: Sequence[Body]) -> None:
    """A call that came with reasoning goes with it: `fc_7_0` with `rs_7`."""
    there = {item["id"] for item in items if item.get("type") == "reasoning"}
    for item in items:
        if item.get("type") == "function_call" and (found := re.match(r"fc_(\d+)_", item.get("id") or "")):
            needed = f"rs_{found[1]}"
            _must(
                needed in there, f"item {item['id']!r} was provided without its required 'reasoning' item: {needed!r}"
            )


def _json(text: object, at: str) -> None:
    try:
        _must(isinstance(json.loads(str(text)), dict), f"{at}: arguments are no object")
    except ValueError:
        raise Refused(f"{at}: arguments are no JSON") from None


def _unique(names: Iterator[str] | Sequence[str], words: str) -> None:
    seen: set[str] = set()
    for name in names:
        _must(name not in seen, f"{words}: {name}")
        seen.add(name)


_CHECKS: dict[str, Callable[[Body, Seal, Any], None]] = {
    "anthropic": _anthropic,
    "chat": _chat,
    "responses": _responses,
}
