"""What the providers refuse, rule by rule: Anthropic Messages, OpenAI Chat and Responses, Gemini, Bedrock Converse.

`problem` returns what a provider would say of a request, or nothing. A `Seal` signs thinking and what else a provider
wants back unchanged, so that a signature that belongs to another text, or was made up, is found. Written from the
providers' pages and the types of their SDKs (anthropic 2.11, openai 3.52); nothing of the package is imported.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

Body = Mapping[str, Any]

_ID = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")

_MOST_MARKS = 4

_EFFORTS = {"mid-conversation-output-config-2026-07-01", "per-turn-control-2026-07-01"}  # allow it in a message

_SERVER_RESULTS = (  # of tools that Anthropic runs: they stand in the assistant's message, behind their call
    *("web_search_tool_result", "web_fetch_tool_result", "advisor_tool_result", "tool_search_tool_result"),
    *("code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result"),
)

_BLOCKS: dict[str, tuple[set[str], set[str]]] = {  # of Anthropic's: fields that must be there, and those that may
    "text": ({"text"}, {"cache_control", "citations"}),
    "image": ({"source"}, {"cache_control", "transformations"}),
    "document": ({"source"}, {"cache_control", "title", "context", "citations"}),
    "search_result": ({"content", "source", "title"}, {"cache_control", "citations"}),
    "thinking": ({"thinking", "signature"}, set()),
    "redacted_thinking": ({"data"}, set()),
    "tool_use": ({"id", "name", "input"}, {"cache_control", "caller", "toolset_name"}),
    "tool_result": ({"tool_use_id"}, {"content", "is_error", "cache_control", "toolset_name"}),
    "server_tool_use": ({"id", "name", "input"}, {"cache_control", "caller"}),
    "mcp_tool_use": ({"id", "name", "input", "server_name"}, {"cache_control"}),
    "mcp_tool_result": ({"tool_use_id"}, {"content", "is_error", "cache_control"}),
    "mcp_tool_listing": ({"mcp_server_name", "tools"}, set()),
    "container_upload": ({"file_id"}, {"cache_control"}),
    "compaction": (set(), {"content", "encrypted_content", "signature", "tool_changes", "cache_control"}),
    "fallback": ({"from"}, {"to", "trigger"}),
    "browser_state": (set(), {"tabs", "changes", "state", "cache_control"}),
    "tool_addition": ({"tool"}, {"cache_control"}),
    "tool_removal": ({"tool"}, {"cache_control"}),
    **dict.fromkeys(_SERVER_RESULTS, ({"tool_use_id", "content"}, {"cache_control", "caller"})),
}

_BY_ROLE = {  # who may say a block; where nothing stands, anybody
    **dict.fromkeys(("thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"), "assistant"),
    **dict.fromkeys((*_SERVER_RESULTS, "mcp_tool_result", "fallback"), "assistant"),
    **dict.fromkeys(("tool_result", "container_upload"), "user"),
    **dict.fromkeys(("tool_addition", "tool_removal"), "system"),
}

_CHAT_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "refusal", "reasoning_content", "audio"},
    "tool": {"role", "content", "tool_call_id"},
}

_CALL = {"type", "id", "call_id", "name", "namespace", "status", "caller", "async"}

_OUTPUT = {"type", "id", "call_id", "output", "status", "caller", "name", "namespace"}

_ITEM_FIELDS = {
    "message": {"type", "id", "role", "content", "status", "phase"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
    "function_call": _CALL | {"arguments"},
    "function_call_output": _OUTPUT,
    "custom_tool_call": _CALL | {"input"},
    "custom_tool_call_output": _OUTPUT,
    "shell_call": {"type", "id", "call_id", "action", "status", "environment", "caller"},
    "shell_call_output": {"type", "id", "call_id", "output", "status", "caller", "max_output_length"},
    "apply_patch_call": {"type", "id", "call_id", "operation", "status", "caller"},
    "apply_patch_call_output": {"type", "id", "call_id", "output", "status", "caller"},
    "computer_call": {"type", "id", "call_id", "action", "actions", "pending_safety_checks", "status"},
    "computer_call_output": {"type", "id", "call_id", "output", "status", "acknowledged_safety_checks"},
    "web_search_call": {"type", "id", "action", "status"},
    "file_search_call": {"type", "id", "queries", "results", "status"},
    "code_interpreter_call": {"type", "id", "code", "container_id", "outputs", "status"},
    "image_generation_call": {"type", "id", "result", "status"},
    "mcp_call": {"type", "id", "name", "arguments", "server_label", "output", "error", "status", "approval_request_id"},
    "mcp_list_tools": {"type", "id", "server_label", "tools", "error"},
    "mcp_approval_request": {"type", "id", "name", "arguments", "server_label"},
    "mcp_approval_response": {"type", "id", "approval_request_id", "approve", "reason"},
    "program": {"type", "id", "call_id", "code", "fingerprint"},
    "program_output": {"type", "id", "call_id", "result", "status"},
    "tool_search_call": {"type", "id", "call_id", "arguments", "execution", "status"},
    "tool_search_output": {"type", "id", "call_id", "tools", "execution", "status"},
    "additional_tools": {"type", "id", "role", "tools"},
    "configuration_update": {"type", "id", "reasoning", "text"},
    "compaction": {"type", "id", "encrypted_content"},
    "compaction_summary": {"type", "id", "encrypted_content"},
    "compaction_trigger": {"type", "id"},
    "item_reference": {"type", "id"},
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

    def bind(self, text: str, body: Body) -> str:
        """The signature of thinking that answers this request, bound to system, tools and all messages in it."""
        return "bound" + self.sign(text + _beginning(body, len(body["messages"]), 0))

    def holds(self, text: object, signature: object) -> bool:
        return isinstance(text, str) and isinstance(signature, str) and hmac.compare_digest(self.sign(text), signature)


def problem(
    dialect: str,
    body: Any,
    seal: Seal,
    cut: Container[str] = (),
    betas: Iterable[str] = (),
    demands: Container[str] = (),
) -> str:
    """What is wrong with a request; empty where nothing is. `cut` are items behind which a reply broke off.

    `betas` are what the client asks of Anthropic by header. `demands` are those of servers that speak Chat:
    `alternating` roles, and `reasoning_content` with each call of the open turn.
    """
    try:
        match dialect:
            case "anthropic":
                _anthropic(body, seal, _EFFORTS.intersection(betas))
            case "chat":
                _chat(body, demands)
            case "responses":
                _responses(body, seal, cut)
            case "gemini":
                _gemini(body, seal)
            case "bedrock":
                _bedrock(body, seal)
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
    _must(body.get("max_tokens", -1) >= 0, "max_tokens: field required")
    tools = body.get("tools") or []
    _unique((tool["name"] for tool in tools if "name" in tool), "tools: tool names must be unique")
    _marked(body)
    for at, row in enumerate(rows):
        allowed = {"role", "content", *(["output_config"] if efforts and row["role"] == "system" else [])}
        extra = sorted(set(row) - allowed)
        _must(not extra, f"messages.{at}: extra inputs are not permitted: {extra}")
        _must(row["role"] in ("user", "assistant", "system"), f"messages.{at}.role: unexpected {row['role']}")
        _must(row["content"] or "output_config" in row, f"messages.{at}: content must not be empty")
        for number, block in enumerate(_blocks(row)):
            _block(block, row["role"], f"messages.{at}.content.{number}", seal)
            if block["type"] == "thinking" and block["signature"].startswith("bound"):
                _bound(body, at, number, block, seal)
    blocks = [block for row in rows for block in _blocks(row)]
    calls = [block for block in blocks if block["type"].endswith("tool_use")]
    _unique((call["id"] for call in calls), "messages: `tool_use` ids must be unique")
    plain = [call for call in calls if call["type"] == "tool_use"]
    _must(not plain or tools, "requests which include `tool_use` blocks must define tools")
    _loaded(rows, tools)
    _pairs(rows)
    _server_pairs(rows)
    _compacted(rows)
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
    _must(_BY_ROLE.get(kind, role) == role, f"{at}: `{kind}` in a message of {role}")
    if kind == "text":
        _must(block["text"].strip(), f"{at}: text content blocks must contain non-whitespace text")
    elif kind == "thinking" and not block["signature"].startswith("bound"):
        _must(seal.holds(block["thinking"], block["signature"]), f"{at}: invalid `signature` in `thinking` block")
    elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        _must(_ID.match(block["id"]), f"{at}.id: string should match pattern")
        _must(isinstance(block["input"], dict), f"{at}.input: should be an object")
    elif kind in _SERVER_RESULTS:
        for inner in block["content"] if isinstance(block["content"], list) else []:
            sealed, plain = inner.get("encrypted_content"), inner.get("url", "")
            _must(sealed is None or seal.holds(plain, sealed), f"{at}: invalid `encrypted_content`")


def _beginning(body: Body, rows: int, blocks: int) -> str:
    """All before a block, cache marks aside."""
    said = [body.get("system"), body.get("tools"), *body["messages"][:rows]]
    if blocks:
        said.append(_blocks(body["messages"][rows])[:blocks])
    return json.dumps(_unmarked(said), sort_keys=True)


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(each) for each in value]
    if isinstance(value, Mapping):
        return {key: _unmarked(each) for key, each in value.items() if key != "cache_control"}
    return value


def _bound(body: Body, at: int, number: int, block: Body, seal: Seal) -> None:
    """Thinking that was bound to its conversation holds where all before it is unchanged, or is to be dropped."""
    binding = body.get("thinking", {}).get("block_binding", {})
    if binding.get("prefix_mismatch_behavior") != "drop_block":
        whole = seal.holds(block["thinking"] + _beginning(body, at, number), block["signature"].removeprefix("bound"))
        words = "thinking block was created in a different conversation, or earlier messages have changed"
        _must(whole, f"messages.{at}.content.{number}: {words}")


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


def _server_pairs(rows: Sequence[Body]) -> None:
    """A call of a tool that the server runs, and its result, stand in one turn of the assistant, the call first; only a
    turn that was paused may end the request without the result, and only then may the assistant speak last."""
    waiting: dict[str, int] = {}
    for at, row in enumerate(rows):
        if row["role"] == "user":
            _must(not waiting, f"messages.{at}: server tool use without its result: {sorted(waiting)}")
        for block in _blocks(row):
            if block["type"] in ("server_tool_use", "mcp_tool_use"):
                waiting[block["id"]] = at
            elif block["type"] in _SERVER_RESULTS or block["type"] == "mcp_tool_result":
                words = f"messages.{at}: unexpected `tool_use_id` found in `{block['type']}`: {block['tool_use_id']}"
                _must(waiting.pop(block["tool_use_id"], None) is not None, words)
    is_paused = rows[-1]["role"] == "assistant" and bool(waiting)
    _must(rows[-1]["role"] != "assistant" or is_paused, "messages: the conversation must end with a user message")


def _loaded(rows: Sequence[Body], tools: Sequence[Body]) -> None:
    """A tool that is deferred, or was removed on the way, is called only behind what made it known."""
    unknown = {tool.get("name") for tool in tools if tool.get("defer_loading")}
    for at, row in enumerate(rows):
        for block in _blocks(row):
            if block["type"] in ("tool_search_tool_result", "tool_result"):
                unknown.difference_update(_references(block.get("content")))
            for change in [block, *(block.get("tool_changes") or ())]:
                if change["type"] in ("tool_addition", "tool_removal"):
                    name = (change["tool"].get("definition") or change["tool"]).get("name")
                    (unknown.discard if change["type"] == "tool_addition" else unknown.add)(name)
            if block["type"] == "tool_use":
                _must(block["name"] not in unknown, f"messages.{at}: tool {block['name']} is not available here")


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if value.get("type") == "tool_reference":
            yield value.get("tool_name") or value["name"]
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def _compacted(rows: Sequence[Body]) -> None:
    """What the provider has compacted comes first of all, once."""
    places = [
        (at, number)
        for at, row in enumerate(rows)
        for number, block in enumerate(_blocks(row))
        if block["type"] == "compaction" and block.get("content") is not None
    ]
    _must(places in ([], [(0, 0)]), f"messages: `compaction` must be the first block of the first message: {places}")


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


def _marked(body: Body) -> None:
    """At most four cache marks, in the order of the prompt, those of an hour before those of five minutes."""
    rows = [block for row in body["messages"] if isinstance(row["content"], list) for block in row["content"]]
    content = [each for block in rows for each in (*(block.get("content") or ()), block) if isinstance(each, dict)]
    system = body["system"] if isinstance(body.get("system"), list) else []
    places = [*(body.get("tools") or ()), *system, *content, body]
    marks = [place["cache_control"] for place in places if place.get("cache_control") is not None]
    lives = [mark.get("ttl", "5m") for mark in marks]
    _must(len(lives) <= _MOST_MARKS, f"a maximum of {_MOST_MARKS} blocks with cache_control may be provided")
    words = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
    _must(lives == sorted(lives), words)  # "1h" before "5m"


# OpenAI Chat Completions -------------------------------------------------------------------------------------------


def _chat(body: Body, demands: Container[str]) -> None:
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
            if "function" in call:
                _json(call["function"]["arguments"], f"messages[{at}].tool_calls")
    _must(not waiting, f"calls without tool messages: {waiting}")
    issued = [call["id"] for row in rows for call in row.get("tool_calls") or ()]
    _unique(issued, "messages: duplicate call ids")
    if "alternating" in demands:
        said = [row["role"] for row in rows if row["role"] in ("user", "assistant") and not row.get("tool_calls")]
        words = "conversation roles must alternate user/assistant/user/assistant/..."
        _must(all(one != other for one, other in itertools.pairwise(said)), words)
    if "reasoning_content" in demands:
        start = max((at for at, row in enumerate(rows) if row["role"] == "user"), default=0)
        for at, row in enumerate(rows[start:], start):
            words = (
                f"messages[{at}]: thinking is enabled but reasoning_content is missing in assistant tool call message"
            )
            _must(not row.get("tool_calls") or row.get("reasoning_content"), words)


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
            follows = behind.get("type", "").endswith(("_call", "reasoning", "program", "mcp_approval_request"))
            words = f"item {item['id']!r} of type 'reasoning' was provided without its required following item"
            _must(follows or behind.get("role") == "assistant" or item["id"] in cut, words)
        if kind == "program":
            words = f"input[{at}].fingerprint: does not match the program"
            _must(seal.holds(item["code"], item["fingerprint"]), words)
    _unique((item["id"] for item in items if item.get("id")), "input: duplicate item found with id")
    chained = bool(body.get("previous_response_id") or body.get("conversation"))
    _answered(items, chained)
    _reasoned(items)
    _known_tools(items, body.get("tools") or ())


def _answered(items: Sequence[Body], chained: bool) -> None:
    """Each call, program and question has one answer behind it, before a person speaks again; the calls of a program
    stand behind it and before its output. A request that goes on from another holds answers to what stands there."""
    waiting: dict[str, str] = {}
    programs: set[str] = set()
    ends = {"program_output": "program", "mcp_approval_response": "mcp_approval_request"}
    for item in items:
        kind = item.get("type", "message")
        if (caller := item.get("caller") or {}).get("type") == "program":
            words = f"item {item.get('call_id')!r} was called by a program that is not there: {caller['caller_id']}"
            _must(caller["caller_id"] in programs, words)
        if kind.endswith("_call_output") or kind in ends or kind == "tool_search_output":
            id = item.get("approval_request_id") or item.get("call_id") or ""
            wanted = ends.get(kind, kind.removesuffix("_output").removesuffix("_call") + "_call")
            if not id and kind == "tool_search_output":
                continue  # the server searched by itself
            _must(chained or waiting.get(id) == wanted, f"no tool call found for {kind} with call_id {id}")
            waiting.pop(id, None)
            programs.discard(id if kind == "program_output" else "")
        elif kind == "mcp_approval_request":
            waiting[item["id"]] = kind
        elif kind == "program" or (kind.endswith("_call") and item.get("call_id")):
            _must(item["call_id"] not in waiting, f"input: duplicate call ids: {item['call_id']}")
            waiting[item["call_id"]] = kind
            programs.update([item["call_id"]] if kind == "program" else [])
        elif kind == "message" and item.get("role") != "assistant":
            _must(not waiting, f"no tool output found for function call {sorted(waiting)}")
    _must(not waiting, f"no tool output found for function call {sorted(waiting)}")
    calls = (item["call_id"] for item in items if item.get("type", "").endswith("_call") and item.get("call_id"))
    _unique(calls, "input: duplicate call ids")


def _reasoned(items: Sequence[Body]) -> None:
    """A call that came with reasoning goes with it: `fc_7_0` with `rs_7`."""
    there = {item["id"] for item in items if item.get("type") == "reasoning"}
    for item in items:
        if item.get("type") == "function_call" and (found := re.match(r"fc_(\d+)_", item.get("id") or "")):
            needed = f"rs_{found[1]}"
            _must(
                needed in there, f"item {item['id']!r} was provided without its required 'reasoning' item: {needed!r}"
            )


def _known_tools(items: Sequence[Body], tools: Sequence[Body]) -> None:
    """A call of a tool of a namespace that is loaded late stands behind what loaded it."""
    named = {tool["name"] for tool in tools if tool.get("type") == "namespace" and not tool.get("defer_loading")}
    for item in items:
        if item.get("type") in ("tool_search_output", "additional_tools"):
            named |= {tool["name"] for tool in item["tools"] if tool.get("type") == "namespace"}
        elif item.get("type") == "function_call" and item.get("namespace"):
            _must(item["namespace"] in named, f"unknown namespace {item['namespace']!r} of call {item['call_id']}")


# Gemini ------------------------------------------------------------------------------------------------------------


def _gemini(body: Body, seal: Seal) -> None:
    rows = body["contents"]
    _must(rows, "contents is not specified")
    _must(rows[0]["role"] == "user", "please ensure that multiturn requests start with a user role")
    waiting: list[tuple[str, str]] = []
    open_turn = max((at for at, row in enumerate(rows) if row["role"] == "user" and not _answers(row)), default=0)
    for at, row in enumerate(rows):
        _must(row["role"] in ("user", "model"), f"contents[{at}].role: please use a valid role: user, model")
        _must(row["parts"], f"contents[{at}].parts: must not be empty")
        given = [(each.get("id", ""), each["name"]) for each in _answers(row)]
        words = "the number of function response parts must equal that of the function call parts of the call turn"
        _must(sorted(given) == sorted(waiting), f"contents[{at}]: {words}")
        calls = [part for part in row["parts"] if "functionCall" in part]
        _must(not calls or row["role"] == "model", f"contents[{at}]: a function call in a turn of the user")
        words = "a function call turn must come immediately after a user turn or after a function response turn"
        _must(not calls or (at and rows[at - 1]["role"] == "user"), f"contents[{at}]: {words}")
        waiting = [(part["functionCall"].get("id", ""), part["functionCall"]["name"]) for part in calls]
        for number, part in enumerate(row["parts"]):
            signature = part.get("thoughtSignature")
            said = json.dumps({key: value for key, value in part.items() if key != "thoughtSignature"}, sort_keys=True)
            _must(
                signature is None or seal.holds(said, signature), f"contents[{at}].parts[{number}]: thought signature"
            )
        if calls and at > open_turn:
            words = f"function call `{waiting[0][1]}` in the {at}. content block is missing a thought_signature"
            _must("thoughtSignature" in calls[0], words)
    _must(not waiting, f"function calls without function responses: {waiting}")


def _answers(row: Body) -> list[Any]:
    return [part["functionResponse"] for part in row["parts"] if "functionResponse" in part]


# Bedrock Converse --------------------------------------------------------------------------------------------------


def _bedrock(body: Body, seal: Seal) -> None:
    rows = body["messages"]
    _must(rows and rows[0]["role"] == "user", "a conversation must start with a user message")
    _must(rows[-1]["role"] == "user", "the model does not support assistant message prefill")
    words = "a conversation must alternate between user and assistant roles"
    _must(all(one["role"] != other["role"] for one, other in itertools.pairwise(rows)), words)
    waiting: list[str] = []
    seen: set[str] = set()
    for at, row in enumerate(rows):
        _must(row["content"], f"messages.{at}.content: is empty")
        results = [block["toolResult"]["toolUseId"] for block in row["content"] if "toolResult" in block]
        words = "the number of toolResult blocks exceeds or misses the number of toolUse blocks of the previous turn"
        _must(sorted(results) == sorted(waiting), f"messages.{at}: {words}")
        waiting = [block["toolUse"]["toolUseId"] for block in row["content"] if "toolUse" in block]
        _must(not waiting or row["role"] == "assistant", f"messages.{at}: toolUse in a message of the user")
        _must(seen.isdisjoint(waiting) and len(set(waiting)) == len(waiting), f"messages.{at}: toolUseId is repeated")
        seen.update(waiting)
        for block in row["content"]:
            said = block.get("reasoningContent", {}).get("reasoningText")
            _must(said is None or seal.holds(said["text"], said.get("signature")), f"messages.{at}: signature")
    _must(not seen or body.get("toolConfig"), "toolConfig must be defined when using toolUse and toolResult blocks")


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
