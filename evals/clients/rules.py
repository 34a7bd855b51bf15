"""What the providers refuse, rule by rule: Anthropic Messages, OpenAI Chat and Responses, Gemini, Bedrock Converse.

`problem` returns what a provider would say of a request, or nothing. A `Seal` signs thinking and what else a provider
wants back unchanged, so that a signature that belongs to another text, or was made up, is found; `Given` knows what was
said word for word. Written from the providers' pages and the types of their SDKs (anthropic 2.14, openai 3.57); nothing
of the package is imported.
"""

import hashlib
import hmac
import json
import re
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any

Body = Mapping[str, Any]

SHAPES = tomllib.loads(Path(__file__).with_name("shapes.toml").read_text("utf-8"))

# Anthropic
_ID = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
_BETAS = {  # fields that a header has to ask for
    "output_config": {"mid-conversation-output-config-2026-07-01", "per-turn-control-2026-07-01"},
    "block_binding": {"thinking-binding-controls-2026-08-01"},
    "thread": {"message-threads-2026-08-12"},
}
_BLOCKS: dict[str, tuple[list[str], list[str]]] = SHAPES["blocks"]  # fields that must be there, and those that may
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_THINKING = ("thinking", "redacted_thinking")
_SERVER_RESULTS = {kind for kind in _BLOCKS if kind.endswith("_tool_result")}  # of tools that Anthropic runs, or MCP's
_BY_ROLE = {  # who may say a block; where nothing stands, any role
    **dict.fromkeys((*_CALLS, *_THINKING, *_SERVER_RESULTS, "fallback", "mcp_tool_listing"), "assistant"),
    **dict.fromkeys(("tool_result", "container_upload"), "user"),
    **dict.fromkeys(("tool_addition", "tool_removal"), "system"),
}
_IN_RESULTS = {"text", "image", "document", "search_result", "tool_reference", "browser_state"}
_MAY_CHANGE = {"text", "image", "document", "search_result", "tool_use", "tool_result", "thinking"}  # or is signed

# OpenAI
_PARTS = {"text", "image_url", "input_audio", "file", "refusal"}
_INPUTS = ("mcp_approval_response", "configuration_update", "additional_tools", "compaction_trigger")
_ITEMS_OF_TEXT = ("message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output")


class Refused(Exception):
    """A request that a provider answers with 400; the message is the provider's."""


class Seal:
    """Signs texts as the provider does."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, text: str) -> str:
        """Return the signature of a text."""
        return "sig" + hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()[:40]

    def bind(self, text: str, body: Body, before: Sequence[Body] = ()) -> str:
        """Return the signature of thinking that answers this request, bound to system, tools and all messages in it,
        and to the blocks that stand before it in its own."""
        return "bound" + self.sign(text + _beginnings(body)[-1] + (_canonical(list(before)) if before else ""))

    def holds(self, text: object, signature: object) -> bool:
        return isinstance(text, str) and isinstance(signature, str) and hmac.compare_digest(self.sign(text), signature)


class Given:
    """Blocks and items that were said. What is none of text, calls and their results is taken back word for word, and
    the thinking of a message whole or not at all."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._thoughts: dict[str, set[str]] = {}  # of a message, by each of them

    def add(self, parts: Sequence[Any]) -> None:
        """Remember the blocks of a message, or some items, which may come back without their own id."""
        for part in parts:
            without_id = {name: each for name, each in part.items() if name != "id" or "call_id" not in part}
            self._said |= {_canonical(part), _canonical(without_id)}
        thoughts = _thoughts(parts)
        self._thoughts |= dict.fromkeys(thoughts, thoughts)

    def holds(self, part: Any) -> bool:
        return _canonical(part) in self._said

    def halved(self, parts: Iterable[Any]) -> bool:
        """Return whether thinking stands there without the rest of its message's."""
        there = _thoughts(parts)
        return any(not self._thoughts.get(one, set()) <= there for one in there)


def _thoughts(parts: Iterable[Any]) -> set[str]:
    return {_canonical(part) for part in parts if isinstance(part, Mapping) and part.get("type") in _THINKING}


def _canonical(value: Any) -> str:
    """Return a value as JSON, without cache marks."""
    return json.dumps(unmarked(value), sort_keys=True)


def unmarked(value: Any) -> Any:
    """Return a value without cache marks."""
    if isinstance(value, list):
        return [unmarked(each) for each in value]
    if isinstance(value, Mapping):
        return {key: unmarked(each) for key, each in value.items() if key != "cache_control"}
    return value


def problem(
    dialect: str,
    body: Any,
    seal: Seal,
    cut: Container[str] = (),
    betas: Iterable[str] = (),
    demands: Container[str] = (),
    given: Given | None = None,
) -> str:
    """Return what is wrong with a request; empty where nothing is. `cut` are items behind which a reply broke off.

    `betas` are what the client asks of Anthropic by header. `demands` are those of servers that speak Chat:
    `alternating` roles, and `reasoning_content` with each call. With `given` what was said has to come back unchanged,
    and a type that is not known is taken where it was said.
    """
    rules: dict[str, Callable[[Any, Seal, Given | None], None]] = {"gemini": _gemini, "bedrock": _bedrock}
    rules |= {"anthropic": partial(_anthropic, betas=set(betas)), "chat": partial(_chat, demands=demands)}
    rules["responses"] = partial(_responses, cut=cut)
    try:
        rules[dialect](body, seal, given)
    except Refused as refused:
        return str(refused)
    except (KeyError, TypeError, AttributeError) as error:
        return f"the request has not the form of a request: {error!r}"
    return ""


def _must(holds: object, words: str) -> None:
    if not holds:
        raise Refused(words)


def _unique(names: Iterable[str], words: str) -> None:
    seen: set[str] = set()
    for name in names:
        _must(name not in seen, f"{words}: {name}")
        seen.add(name)


def _is_object(text: object, at: str) -> None:
    try:
        _must(isinstance(json.loads(str(text)), dict), f"{at}: arguments are no object")
    except ValueError:
        raise Refused(f"{at}: arguments are no JSON") from None


# Anthropic Messages ------------------------------------------------------------------------------------------------


def _anthropic(body: Body, seal: Seal, given: Given | None, *, betas: Set[str]) -> None:
    rows = body["messages"]
    _must(rows, "messages: at least one message is required")
    _must(rows[0]["role"] == "user", "messages: first message must use the user role")
    _must(body.get("max_tokens", -1) >= 0, "max_tokens: field required")
    tools, thinking = body.get("tools") or [], body.get("thinking") or {}
    _unique((tool["name"] for tool in tools if "name" in tool), "tools: tool names must be unique")
    for name, holder in (("thread", body), ("block_binding", thinking)):
        _must(name not in holder or _BETAS[name] & betas, f"{name}: extra inputs are not permitted")

    # At most four cache marks, in the order of the prompt, those of an hour before those of five minutes.
    parts = [part for name in ("tools", "system", "messages") for part in _mappings(body.get(name))]
    lives = [mark.get("ttl", "5m") for part in (*parts, body) if (mark := part.get("cache_control")) is not None]
    _must(len(lives) <= 4, "a maximum of 4 blocks with cache_control may be provided")
    is_sorted = lives == sorted(lives)  # "1h" before "5m"
    _must(is_sorted, "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")

    # each message, and each block in it
    drops = (thinking.get("block_binding") or {}).get("prefix_mismatch_behavior") == "drop_block"
    is_bound = any(str(block.get("signature")).startswith("bound") for row in rows for block in _blocks(row))
    beginnings = _beginnings(body) if is_bound and not drops else []
    of_system = {"role", "content", "clear_at", *(["output_config"] if _BETAS["output_config"] & betas else [])}
    for at, row in enumerate(rows):
        extra = sorted(set(row) - (of_system if row["role"] == "system" else {"role", "content"}))
        _must(not extra, f"messages.{at}: extra inputs are not permitted: {extra}")
        _must(row["role"] in ("user", "assistant", "system"), f"messages.{at}.role: unexpected {row['role']}")
        _must(row["content"] or "output_config" in row, f"messages.{at}: content must not be empty")
        blocks = _blocks(row)
        for number, block in enumerate(blocks):
            where, kind = f"messages.{at}.content.{number}", block["type"]
            _block(block, row["role"], where, seal, given)
            if kind == "thinking" and block["signature"].startswith("bound") and beginnings:
                before = beginnings[at] + (_canonical(blocks[:number]) if number else "")
                whole = seal.holds(block["thinking"] + before, block["signature"].removeprefix("bound"))
                _must(whole, f"{where}: bound to a different conversation, or earlier messages have changed")
            is_first = (at, number) == (0, 0) or kind != "compaction" or block.get("content") is None  # a failed one
            _must(is_first, f"{where}: `compaction` must be the first block of the first message")

    # what holds between messages
    calls = [block for row in rows for block in _blocks(row) if block["type"].endswith("tool_use")]
    _unique((call["id"] for call in calls), "messages: `tool_use` ids must be unique")
    is_plain = any(call["type"] == "tool_use" for call in calls)
    _must(tools or not is_plain, "requests which include `tool_use` blocks must define tools")
    unknown_tools(rows, tools)
    if (body.get("thread") or {}).get("type") != "continue":  # else the others are on the server
        _pairs(rows)

    # What the system says among the messages follows one of the user's, and nothing of the user's follows it. A message
    # with nothing but an effort may stand anywhere, unless it is beside one with words.
    runs = [(role, list(run)) for role, run in groupby(rows, lambda row: row["role"])]
    for at, (role, said) in enumerate(runs):
        is_whole = given is None or not given.halved(chain.from_iterable(map(_blocks, said)))
        _must(is_whole, "messages: `thinking` blocks cannot be modified, and some of them were left out")
        if role == "system" and any(row["content"] for row in said):
            _must(at and runs[at - 1][0] == "user", "a `system` message must immediately follow a `user` message")
            is_answered = at + 1 == len(runs) or runs[at + 1][0] == "assistant"
            _must(is_answered, "a `system` message must precede an `assistant` message or end the array")
            _must(sum(bool(row["content"]) for row in said) == 1, "consecutive `system` messages are not allowed")

    # While calls of the assistant's last messages are answered, these begin with thinking; an adaptive one may have
    # thought nothing.
    last = dict(runs)  # of each role
    answers = (block["type"] for row in last["user"] for block in _blocks(row))
    if thinking.get("type") == "enabled" and "assistant" in last and "tool_result" in answers:
        first = _blocks(last["assistant"][0])[0]["type"]
        _must(first in _THINKING, f"expected `thinking` first in the last turn, but found `{first}`")


def _blocks(row: Body) -> list[Any]:
    content = row.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) and content else list(content or ())


def _block(block: Body, role: str, at: str, seal: Seal, given: Given | None) -> None:
    kind = block["type"]
    _must(given is None or kind in _MAY_CHANGE or given.holds(block), f"{at}: `{kind}` is not what was given")
    if given is not None and kind not in _BLOCKS:
        return
    _must(kind in _BLOCKS, f"{at}: unknown type {kind}")
    needed, allowed = map(set, _BLOCKS[kind])
    _must(needed <= set(block), f"{at}: field required: {sorted(needed - set(block))}")
    extra = set(block) - needed - allowed - {"type"}
    _must(not extra, f"{at}: extra inputs are not permitted: {sorted(extra)}")
    _must(_BY_ROLE.get(kind, role) == role, f"{at}: `{kind}` in a message of {role}")
    if kind == "text":
        _must(block["text"].strip(), f"{at}: text content blocks must contain non-whitespace text")
    elif kind == "thinking" and not block["signature"].startswith("bound"):
        _must(seal.holds(block["thinking"], block["signature"]), f"{at}: invalid `signature` in `thinking` block")
    elif kind in _CALLS:
        _must(_ID.match(block["id"]), f"{at}.id: string should match pattern")
        _must(isinstance(block["input"], dict), f"{at}.input: should be an object")
    elif kind == "tool_result" and isinstance(block.get("content"), list):
        kinds = [inner["type"] for inner in block["content"]]
        others = set(kinds) - _IN_RESULTS if given is None else set()
        _must(not others, f"{at}: {sorted(others)} in a `tool_result`")
        _must(kinds.count("browser_state") < 2, f"{at}: at most one `browser_state` in a `tool_result`")
        for inner in block["content"]:
            _block(inner, role, f"{at}.content", seal, given)
    elif kind in _SERVER_RESULTS:
        for inner in block["content"] if isinstance(block["content"], list) else []:
            sealed, plain = inner.get("encrypted_content"), inner.get("url", "")
            _must(sealed is None or seal.holds(plain, sealed.split(".")[0]), f"{at}: invalid `encrypted_content`")


def _beginnings(body: Body) -> list[str]:
    """Return all before each message, and before one that would follow, cache marks aside; as digests."""
    digest = hashlib.sha256(_canonical([body.get("system"), body.get("tools")]).encode())
    found = [digest.hexdigest()]
    for row in body["messages"]:
        digest.update(_canonical({**row, "content": _blocks(row)}).encode())
        found.append(digest.hexdigest())
    return found


def _mappings(value: Any) -> Iterator[Body]:
    """Yield each block of a part of a request, those that stand in another before it."""
    if isinstance(value, list):
        for each in value:
            yield from _mappings(each)
    elif isinstance(value, Mapping):
        yield from _mappings(value.get("content"))
        yield from _mappings(value.get("tool_references"))
        yield value


def _pairs(rows: Sequence[Body]) -> None:
    """The results of a turn's calls open the next message of the user, each once, and nothing else does.

    A call of a tool that the server runs, and its result, stand in one turn of the assistant, the call first; only a
    turn that was paused may end the request without the result, and only then may the assistant speak last. A program
    that the server runs may call tools of the client; their results alone stand between it and its own.
    """
    waiting: list[str] = []
    served: dict[str, str] = {}  # calls that the server has not answered
    programs: set[Any] = set()  # calls of the server that have called
    for at, row in enumerate(rows):
        blocks, where = _blocks(row), f"messages.{at}"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        for id in results:
            _must(id in waiting, f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {id}")
        _unique(results, f"{where}: each tool_use must have a single result")
        missing = [id for id in waiting if id not in results]
        words = f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}"
        _must(not missing or row["role"] == "assistant", words)
        are_first = all(block["type"] == "tool_result" for block in blocks[: len(results)])
        _must(are_first, f"{where}: `tool_result` blocks must come first")
        if row["role"] == "user":
            unserved = sorted(set(served) - programs if len(results) == len(blocks) else served)
            _must(not unserved, f"{where}: server tool use without its result: {unserved}")
        waiting = missing
        for block in blocks:
            kind, program = block["type"], (block.get("caller") or {}).get("tool_id")
            if kind == "tool_use":
                waiting.append(block["id"])
                _must(program is None or program in served, f"{where}: called by a tool that is not there: {program}")
                programs |= {program}
            elif kind in _CALLS:
                served[block["id"]] = "mcp" if kind == "mcp_tool_use" else re.sub("_(regex|bm25)$", "", block["name"])
            elif kind in _SERVER_RESULTS:
                called = served.pop(block["tool_use_id"], "").removesuffix("_tool")
                is_right = f"{called}_tool_result" == kind
                _must(is_right, f"{where}: unexpected `tool_use_id` found in `{kind}`: {block['tool_use_id']}")
    _must(not waiting, f"`tool_use` ids were found without `tool_result` blocks: {waiting}")
    _must(rows[-1]["role"] != "assistant" or served, "messages: the conversation must end with a user message")


def unknown_tools(rows: Sequence[Body], tools: Sequence[Body]) -> set[str]:
    """A tool that is deferred, or was removed on the way, is called only behind what made it known. Return those that
    may not be called at the end."""
    unknown = {tool["name"] for tool in tools if tool.get("defer_loading")}
    for at, block in ((at, block) for at, row in enumerate(rows) for block in _blocks(row)):
        kind = block.get("type")
        if kind in ("tool_search_tool_result", "tool_result"):
            inner = _mappings(block.get("content"))
            unknown -= {part["tool_name"] for part in inner if part.get("type") == "tool_reference"}
        for change in [block, *(block.get("tool_changes") or ())]:
            if change.get("type") in ("tool_addition", "tool_removal"):
                name = (change["tool"].get("definition") or change["tool"]).get("name")
                (unknown.discard if change["type"] == "tool_addition" else unknown.add)(name)
        _must(kind != "tool_use" or block["name"] not in unknown, f"messages.{at}: {block} is not available here")
    return unknown


def _chat(body: Body, seal: Seal, given: Given | None, *, demands: Container[str]) -> None:
    rows = body["messages"]
    _must(rows, "[] is too short - 'messages'")
    waiting: list[str] = []
    for at, row in enumerate(rows):
        where, calls, content = f"messages[{at}]", row.get("tool_calls"), row.get("content")
        _must(row["role"] in SHAPES["rows"], f"{where}.role: invalid value {row['role']!r}")
        extra = sorted(set(row) - {"role", *SHAPES["rows"][row["role"]]})
        _must(not extra, f"{where}: unrecognized arguments {extra}")
        _must(calls is None or calls, f"{where}.tool_calls: empty array")
        says = content is not None or calls or row.get("refusal") or row.get("audio")
        _must(says, f"{where}.content: expected a string, got null")
        for part in content if isinstance(content, list) else ():
            is_said = given is None or part["type"] in ("text", "image_url") or given.holds(part)
            is_known = is_said if given is not None else part["type"] in _PARTS
            _must(is_known, f"{where}.content: invalid part {part['type']!r}")
        _must(given is None or not row.get("audio") or given.holds(row["audio"]), f"{where}.audio: unknown id")
        if row["role"] == "tool":
            words = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            _must(row["tool_call_id"] in waiting, f"{where}: {words}")
            waiting.remove(row["tool_call_id"])
            continue
        words = "an assistant message with 'tool_calls' must be followed by tool messages responding to each call"
        _must(not waiting, f"{where}: {words}: {waiting}")
        waiting = [call["id"] for call in calls or ()]
        for call in calls or ():
            if "function" in call:
                _is_object(call["function"]["arguments"], f"{where}.tool_calls")
    _must(not waiting, f"calls without tool messages: {waiting}")
    _unique((call["id"] for row in rows for call in row.get("tool_calls") or ()), "messages: duplicate call ids")
    if "alternating" in demands:
        said = [row["role"] for row in rows if row["role"] in ("user", "assistant") and not row.get("tool_calls")]
        is_even = all(one != other for one, other in pairwise(said))
        _must(is_even, "conversation roles must alternate user/assistant/user/assistant/...")
    if "reasoning_content" in demands:
        start = max((at for at, row in enumerate(rows) if row["role"] == "user"), default=0)
        for at, row in enumerate(rows):
            thought = row.get("reasoning_content")
            is_there = not row.get("tool_calls") or (thought if at > start else thought is not None)
            _must(is_there, f"messages[{at}]: reasoning_content is missing in assistant tool call message")


def _responses(body: Body, seal: Seal, given: Given | None, *, cut: Container[str]) -> None:
    items, tools = body["input"], body.get("tools") or ()
    _must(items, "input: at least one item is required")
    _unique((item["id"] for item in items if isinstance(item.get("id"), str)), "input: duplicate item found with id")
    calls = [item for item in items if re.fullmatch(r"\w+_call|program", item.get("type", "message"))]
    _unique((item["call_id"] for item in calls if item.get("call_id")), "input: duplicate call ids")
    there = {item["id"] for item in items if item.get("type") in ("reasoning", "item_reference")}
    chained = body.get("previous_response_id") or body.get("conversation")  # answers to what stands there
    named = {tool["name"] for tool in tools if tool.get("type") == "namespace" and not tool.get("defer_loading")}
    ends = {"program_output": "program", "mcp_approval_response": "mcp_approval_request"}
    waiting: dict[str, str] = {}  # kinds of what has no answer yet, by id
    for at, item in enumerate(items):
        where, kind = f"input[{at}]", item.get("type", "message")
        _must(kind in SHAPES["items"] or given is not None, f"{where}.type: invalid value {kind!r}")
        extra = sorted(set(item) - {"type", "id", *SHAPES["items"].get(kind, item)})
        _must(not extra, f"{where}: unknown parameter {extra}")
        is_same = given is None or kind in _ITEMS_OF_TEXT or given.holds(item)
        _must(is_same, f"{where}: `{kind}` is not what was given")
        if kind == "function_call":
            _is_object(item["arguments"], f"{where}.arguments")
        if kind == "reasoning":
            sealed = (item.get("encrypted_content") or "").split(".")[0]
            _must(seal.holds(item["id"], sealed), f"the encrypted content for item {item['id']} could not be verified")
            behind = items[at + 1] if at + 1 < len(items) else {}
            next_kind = behind.get("type", "message")
            follows = next_kind not in ("message", *_INPUTS) and not next_kind.endswith("_output")
            words = f"item {item['id']!r} of type 'reasoning' was provided without its required following item"
            _must(follows or behind.get("role") == "assistant" or item["id"] in cut, words)
        if kind == "program":
            is_signed = seal.holds(item["code"], item["fingerprint"].split(".")[0])
            _must(is_signed, f"{where}.fingerprint: does not match the program")

        # What came with reasoning goes with it: `fc_7_0` with `rs_7`.
        found = re.match(r"[a-z]+_(\d+)_", str(item.get("id"))) if item.get("type") in SHAPES["items"] else None
        words = f"item {item.get('id')!r} was provided without its required 'reasoning' item"
        _must(found is None or f"rs_{found[1]}" in there, words)

        # A call of a tool of a namespace that is loaded late stands behind what loaded it.
        if kind in ("tool_search_output", "additional_tools"):
            named |= {tool["name"] for tool in item["tools"] if tool.get("type") == "namespace"}
        elif kind == "function_call" and item.get("namespace"):
            _must(
                item["namespace"] in named or not tools,
                f"unknown namespace {item['namespace']!r} of call {item['call_id']}",
            )

        # Each call, program and question has one answer behind it, before a person speaks again; the calls of a program
        # stand behind it and before its output.
        id = item.get("approval_request_id") or item.get("call_id") or ""
        caller = (item.get("caller") if kind in SHAPES["items"] else None) or {}
        if caller.get("type") == "program":
            is_there = chained or waiting.get(caller["caller_id"]) == "program"
            _must(is_there, f"{id!r} was called by a program that is not there: {caller['caller_id']}")
        if kind.endswith("_call_output") or kind in ends or (kind == "tool_search_output" and id):  # else by the server
            wanted = ends.get(kind, kind.removesuffix("_output").removesuffix("_call") + "_call")
            _must(chained or waiting.get(id) == wanted, f"no tool call found for {kind} with call_id {id}")
            waiting.pop(id, None)
        elif kind == "mcp_approval_request":
            waiting[item["id"]] = kind
        elif kind == "program" or (kind.endswith("_call") and item.get("call_id")):
            waiting[item["call_id"]] = kind
        elif kind == "message" and item.get("role") != "assistant":
            _must(not waiting, f"no tool output found for function call {sorted(waiting)}")
    goes_on = items[-1].get("type", "").endswith("_output")  # programs have called, and are answered
    left = sorted(id for id, kind in waiting.items() if kind != "program" or not goes_on)
    _must(not left, f"no tool output found for function call {left}")


def _gemini(body: Body, seal: Seal, given: Given | None) -> None:
    rows = body["contents"]
    _must(rows, "contents is not specified")
    _must(rows[0]["role"] == "user", "please ensure that multiturn requests start with a user role")
    answers = [[part["functionResponse"] for part in row["parts"] if "functionResponse" in part] for row in rows]
    open_turn = max((at for at, row in enumerate(rows) if row["role"] == "user" and not answers[at]), default=0)
    waiting: list[tuple[str, str]] = []
    for at, row in enumerate(rows):
        where = f"contents[{at}]"
        _must(row["role"] in ("user", "model"), f"{where}.role: please use a valid role: user, model")
        _must(row["parts"], f"{where}.parts: must not be empty")
        is_answered = sorted((each.get("id", ""), each["name"]) for each in answers[at]) == sorted(waiting)
        _must(is_answered, f"{where}: the function response parts must equal the function call parts of the call turn")
        calls = [part for part in row["parts"] if "functionCall" in part]
        _must(not calls or row["role"] == "model", f"{where}: a function call in a turn of the user")
        is_behind = not calls or (at and rows[at - 1]["role"] == "user")
        _must(is_behind, f"{where}: a function call turn must come after a user or a function response turn")
        waiting = [(part["functionCall"].get("id", ""), part["functionCall"]["name"]) for part in calls]
        for number, part in enumerate(row["parts"]):
            known = {"text", "functionCall", "functionResponse", "inlineData"} & set(part)
            _must(known or (given is not None and given.holds(part)), f"{where}.parts[{number}]: unknown name")
            said = {key: value for key, value in part.items() if key != "thoughtSignature"}
            signature = part.get("thoughtSignature")
            is_signed = signature is None or seal.holds(json.dumps(said, sort_keys=True), signature)
            _must(is_signed, f"{where}.parts[{number}]: thought signature")
        if calls and at > open_turn:
            _must("thoughtSignature" in calls[0], f"{where}: function call is missing a thought_signature")
    _must(not waiting, f"function calls without function responses: {waiting}")


def _bedrock(body: Body, seal: Seal, given: Given | None) -> None:
    rows = body["messages"]
    _must(rows and rows[0]["role"] == "user", "a conversation must start with a user message")
    _must(rows[-1]["role"] == "user", "the model does not support assistant message prefill")
    is_even = all(one["role"] != other["role"] for one, other in pairwise(rows))
    _must(is_even, "a conversation must alternate between user and assistant roles")
    waiting: list[str] = []
    for at, row in enumerate(rows):
        where = f"messages.{at}"
        _must(row["content"], f"{where}.content: is empty")
        results = [block["toolResult"]["toolUseId"] for block in row["content"] if "toolResult" in block]
        is_answered = sorted(results) == sorted(waiting)
        _must(is_answered, f"{where}: toolResult blocks exceed or miss the toolUse blocks of the previous turn")
        waiting = [block["toolUse"]["toolUseId"] for block in row["content"] if "toolUse" in block]
        _must(not waiting or row["role"] == "assistant", f"{where}: toolUse in a message of the user")
        for block in row["content"]:
            known = {"text", "toolUse", "toolResult", "reasoningContent", "image", "cachePoint"} & set(block)
            _must(known or (given is not None and given.holds(block)), f"{where}: unknown member {sorted(block)}")
            said = block.get("reasoningContent", {}).get("reasoningText")
            _must(said is None or seal.holds(said["text"], said.get("signature")), f"{where}: signature")
    calls = [block["toolUse"]["toolUseId"] for row in rows for block in row["content"] if "toolUse" in block]
    _unique(calls, "toolUseId is repeated")
    _must(not calls or body.get("toolConfig"), "toolConfig must be defined when using toolUse and toolResult blocks")
