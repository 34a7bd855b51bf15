"""A provider on the loopback: strict as the real ones, scripted, and with a memory of each request that it got.

It knows nothing of who stands between it and the client. Threads are told apart by the ids that clients send. Tokens
are those of o200k_base, by another library than the judged count with: it would see no fault of theirs.
"""

import asyncio
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import chain, takewhile
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from evals.clients.rules import Seal, problem, unmarked
from evals.clients.script import COMPACTS, SUBTASK, Call, Plan, Turn, replies_of_agent
from evals.performance.tokens import shared_characters

Body = Mapping[str, Any]

_DIALECTS = {"/messages": "anthropic", "/chat/completions": "chat", "/responses": "responses", "/count_tokens": "count"}
_THREADS = ("x-claude-code-session-id", "thread-id", "session-id", "x-session-id", "x-thread")  # headers that name one
_AGENT = "x-claude-code-agent-id"

CACHE_STEP = 128  # tokens in which a beginning is cached, as OpenAI tells
CACHE_LIVES = {"5m": 300.0, "1h": 3_600.0, "30m": 1_800.0}  # seconds: of Anthropic, as asked for; of OpenAI
_PER_MESSAGE = 4  # tokens that a provider puts around each message
_UNSEEN = ("cache_control", "id", "signature", "encrypted_content", "type", "role", "status")  # no text for the model


@dataclass(slots=True)
class Seen:
    """One request for a reply."""

    number: int  # and the tokens that its reply claims to have taken: so a reply is known by its usage
    thread: str
    kind: str  # agent, child, plain or compaction
    items: list[str]  # of its history, canonical
    tokens: int
    cached: int  # of these, a cache of prefixes had them
    problem: str = ""
    lost: list[str] = field(default_factory=list)  # markers of results that should have come and did not
    ended: bool = False  # the reply went out to its end
    written: int = 0  # tokens of the summary that it got


@dataclass(slots=True)
class Thread:
    """One history that a client holds with the model."""

    kind: str
    replies: Generator[Turn, str | None, None]  # still to come
    turn: Turn  # the last one
    items: Sequence[str] = ()  # of the last request that was taken
    fixed_tokens: int = 0  # beside them
    end: str = ""  # of the request before
    cached_until: float = 0.0  # by the clock


class Provider:
    """The ASGI application, and what it has seen."""

    def __init__(self, plan: Plan, summaries: Sequence[str] = ()) -> None:
        """Reply by a plan; to what asks for a summary, with the next of these, the last one again and again."""
        self._summaries = list(summaries)
        self.seen: list[Seen] = []
        self.pausing = asyncio.Event()  # a reply stands in its middle
        self.resumed = asyncio.Event()
        self._plan = plan
        self._threads: dict[str, Thread] = {}
        self._seal = Seal(b"provider")
        self._cut: set[str] = set()  # reasoning whose reply broke off behind it

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        await self._response(request, await request.body())(scope, receive, send)

    def _response(self, request: Request, raw: bytes) -> Response:
        path, headers = request.url.path, request.headers
        dialect = next((name for end, name in _DIALECTS.items() if path.endswith(end)), None)
        if request.method != "POST" or dialect is None:
            found = path.endswith("/models") or path == "/"
            return JSONResponse({"data": [], "models": [], "has_more": False}, 200 if found else 404)
        body = json.loads(raw)
        rows, fixed = history(body), fixed_tokens(body)
        sizes = [_PER_MESSAGE + sum(map(tokens, _texts(item))) for item in rows]  # of all that a model reads
        if dialect == "count":
            return JSONResponse({"input_tokens": fixed + sum(sizes)})

        # What the request is for, by what the user said behind the model's last words, and its thread.
        name = ":".join([*[headers[name] for name in _THREADS if name in headers][:1], headers.get(_AGENT, "")])
        newest = takewhile(_is_said, reversed(rows))
        if COMPACTS.search("\n".join(text for item in newest for text in _words(item))):
            kind, name = "compaction", f"compaction:{name}"
        elif not tool_names(body):
            kind, name = "plain", f"plain:{name}"
        elif name in self._threads:
            kind = self._threads[name].kind
        else:
            words = [text.lstrip() for item in rows if item.get("role") == "user" for text in _words(item)]
            kind = "child" if any(text.startswith(SUBTASK) for text in words) else "agent"
        replies = replies_of_agent() if kind == "child" else self._plan.replies()
        thread = self._threads.setdefault(name, Thread(kind, replies, Turn("")))

        # What is wrong with it, and what of it a cache has from the one before.
        items = list(map(canonical, rows))
        wrong = problem(dialect, body, self._seal, self._cut, headers.get("anthropic-beta", "").split(","))
        kept = kept_items(thread.items, items)
        cached = sum(sizes[:kept])
        if dialect != "anthropic" and kept < min(len(items), len(thread.items)):  # OpenAI's ends within an item, too
            same = shared_characters(items[kept], thread.items[kept])
            cached += tokens(items[kept][:same]) // CACHE_STEP * CACHE_STEP
        cached += fixed if thread.items and fixed == thread.fixed_tokens else 0
        if kind == "compaction":  # a cache has what it shares with the session, where it has the same tools, too
            others = [one for one in self._threads.values() if one.items and one.fixed_tokens == fixed]
            cached = max((fixed + sum(sizes[: kept_items(one.items, items)]) for one in others), default=0)
            thread.cached_until = max((one.cached_until for one in others), default=0.0)
        cached = cached if time.monotonic() < thread.cached_until else 0
        seen = Seen(len(self.seen) + 1, name, kind, items, fixed + sum(sizes), cached, wrong)
        self.seen.append(seen)
        if wrong:
            error = {"type": "invalid_request_error", "message": wrong, "code": None, "param": None}
            return JSONResponse({"type": "error", "error": error}, 400)
        thread.items, thread.fixed_tokens = items, fixed
        lives = ("1h" if b'"ttl":"1h"' in raw.replace(b" ", b"") else "5m") if dialect == "anthropic" else "30m"
        thread.cached_until = time.monotonic() + CACHE_LIVES[lives]

        turn = self._turn(seen, thread, waits="wait_agent" in tool_names(body))
        events = list(SPEAKERS[dialect](body, turn, seen, self._seal))
        return StreamingResponse(self._stream(seen, turn, dialect, events), media_type="text/event-stream")

    def _turn(self, seen: Seen, thread: Thread, *, waits: bool) -> Turn:
        """Return what is replied, and note what results of calls the request lacks; `waits` where the client has a tool
        of its own to wait for an agent."""
        if seen.kind == "plain":
            return Turn("Reading the files of a shop", thinks=False)
        if seen.kind == "compaction":
            words = "the files of src are being read one by one; no push to main."
            if self._summaries:
                words = self._summaries.pop(0) if self._summaries[1:] else self._summaries[0]
                seen.written = tokens(words)
            return Turn(f"<summary>SUMMARY {seen.number}: {words}</summary>", thinks=False)
        end, rest = "\n".join(seen.items[-2:]), "\n".join(seen.items[-8:])
        if thread.end != end:  # else it is asked again
            given = [call for call in thread.turn.calls if call.id in rest]
            seen.lost = [call.marker for call in given if call.marker not in rest]
            is_begun = waits and any(call.kind == "task" for call in given)
            agent = re.search(r"agent_id\W+([0-9a-f-]{36})", rest) if is_begun else None
            thread.end, thread.turn = end, thread.replies.send(agent[1] if agent else None)
        return thread.turn

    async def _stream(self, seen: Seen, turn: Turn, dialect: str, events: Sequence[Body]) -> AsyncIterator[str]:
        for at, event in enumerate(events):
            if turn.pauses and at == len(events) // 2:
                self._cut.add(f"rs_{seen.number}")
                self.pausing.set()
                await self.resumed.wait()
            name = f"event: {event['type']}\n" if "type" in event else ""
            numbered = {**event, "sequence_number": at} if dialect == "responses" else event
            yield f"{name}data: {json.dumps(numbered)}\n\n"
            await asyncio.sleep(0)
        if dialect == "chat":
            yield "data: [DONE]\n\n"
        seen.ended = True


def _is_said(item: Body) -> bool:
    return item.get("role") not in ("assistant", "tool") and item.get("type", "message") == "message"


def _words(item: Body) -> list[str]:
    content = item.get("content")
    blocks = [{"text": content}] if isinstance(content, str) else content or ()
    return [str(block["text"]) for block in blocks if "text" in block]


@asynccontextmanager
async def provided(provider: Any) -> AsyncIterator[str]:
    """The provider at work, by its address; any application of ASGI may be one."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        plain: dict[str, Any] = {"log_level": "error", "access_log": False, "lifespan": "off"}
        server = uvicorn.Server(uvicorn.Config(provider, **plain, timeout_graceful_shutdown=1))
        server.capture_signals = nullcontext  # type: ignore[method-assign,assignment] # signals are for the process
        running = asyncio.ensure_future(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


def tool_names(body: Body) -> set[str]:
    """The tools that a request offers, those of namespaces too."""
    later = (item["tools"] for item in history(body) if item.get("type") == "additional_tools")
    tools = chain(body.get("tools") or (), *later)
    spaces = [tool["tools"] if tool.get("type") == "namespace" else [tool.get("function") or tool] for tool in tools]
    return {tool.get("name", tool.get("type", "")) for space in spaces for tool in space}


def named_calls(turn: Turn, body: Body) -> Iterator[tuple[Call, str, dict[str, Any]]]:
    """Yield the calls of a turn, each with the client's tool for it and its arguments. A client has one."""
    for call in turn.calls:
        run, task = {"command": call.argument, "description": "Read a file"}, {"description": "Read six files"}
        task["prompt"] = call.argument
        ways: dict[str, dict[str, dict[str, Any]]] = {
            "run": {"exec_command": {"cmd": call.argument, "yield_time_ms": 20_000}, "Bash": run, "bash": run},
            "task": {
                "spawn_agent": {"message": call.argument},
                "Agent": {**task, "subagent_type": "claude", "run_in_background": False},
                "task": {**task, "subagent_type": "general"},
                "bash": {"command": "ls src"},  # of a client without agents
            },
            "wait": {"wait_agent": {"targets": [call.argument], "timeout_ms": 60_000}},
        }
        name = next(name for name in ways[call.kind] if name in tool_names(body))
        yield call, name, ways[call.kind][name]


def anthropic(body: Body, turn: Turn, seen: Seen, seal: Seal) -> Iterator[Body]:
    """Yield a message of Anthropic's as events."""
    usage = {"input_tokens": seen.tokens - seen.cached, "cache_read_input_tokens": seen.cached}
    usage |= {"cache_creation_input_tokens": 0, "output_tokens": seen.number}
    about = {"id": f"msg_{seen.number}", "type": "message", "role": "assistant", "model": body["model"]}
    begun = {**about, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": begun}

    # Each block empty, and what fills it.
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if body.get("thinking", {}).get("type") in ("enabled", "adaptive") and turn.thinks:
        thinking = _thinking(seen)
        signed = {"type": "signature_delta", "signature": seal.sign(thinking)}
        deltas = [{"type": "thinking_delta", "thinking": thinking}, signed]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": part} for part in _parts(turn.text)]))
    for call, name, arguments in named_calls(turn, body):
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(arguments)}]
        blocks.append(({"type": "tool_use", "id": f"tool{call.id}", "name": name, "input": {}}, deltas))
    for at, (empty, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": at, "content_block": empty}
        yield from ({"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": at}
    ended = {"stop_reason": "tool_use" if turn.calls else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": usage}
    yield {"type": "message_stop"}


def chat(body: Body, turn: Turn, seen: Seen, seal: Seal) -> Iterator[Body]:
    """Yield a completion of OpenAI's as chunks."""
    about = {"id": f"chatcmpl-{seen.number}", "created": int(time.time()), "model": body["model"]}
    about["object"] = "chat.completion.chunk"
    deltas: list[Body] = [{"role": "assistant", "content": ""}, *({"content": part} for part in _parts(turn.text))]
    for at, (call, name, arguments) in enumerate(named_calls(turn, body)):
        function = {"name": name, "arguments": json.dumps(arguments)}
        deltas.append({"tool_calls": [{"index": at, "id": call.id, "type": "function", "function": function}]})
    for delta in deltas:
        yield {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if turn.calls else "stop"}]}
    usage = {"prompt_tokens": seen.tokens, "completion_tokens": seen.number}
    usage |= {"total_tokens": seen.tokens + seen.number}
    yield {**about, "choices": [], "usage": {**usage, "prompt_tokens_details": {"cached_tokens": seen.cached}}}


def responses(body: Body, turn: Turn, seen: Seen, seal: Seal) -> Iterator[Body]:
    """Yield a response of OpenAI's as events."""
    number, items = seen.number, list[dict[str, Any]]()
    if turn.thinks:
        summary, id = [{"type": "summary_text", "text": _thinking(seen)}], f"rs_{number}"
        items.append({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": seal.sign(id)})
    said = [{"type": "output_text", "text": turn.text, "annotations": []}]
    done = {"status": "completed"}
    items.append({"type": "message", "id": f"msg_{number}", "role": "assistant", "content": said, **done})
    for at, (call, name, arguments) in enumerate(named_calls(turn, body)):
        item = {"type": "function_call", "id": f"fc_{number}_{at}", "call_id": call.id, "name": name, **done}
        space = {"namespace": "multi_agent_v1"} if name in ("spawn_agent", "wait_agent") else {}
        items.append({**item, "arguments": json.dumps(arguments), **space})
    usage = {"input_tokens": seen.tokens, "input_tokens_details": {"cached_tokens": seen.cached}}
    usage |= {"output_tokens": seen.number, "output_tokens_details": {"reasoning_tokens": 0}}
    usage |= {"total_tokens": seen.tokens + seen.number}
    whole = {"id": f"resp_{number}", "object": "response", "created_at": int(time.time()), "model": body["model"]}
    yield {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
    for at, item in enumerate(items):
        yield {"type": "response.output_item.added", "output_index": at, "item": {**item, "content": []}}
        where = {"item_id": item["id"], "output_index": at, "content_index": 0}
        for part in _parts(turn.text) if item["type"] == "message" else []:
            yield {"type": "response.output_text.delta", **where, "delta": part}
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    yield {"type": "response.completed", "response": {**whole, **done, "output": items, "usage": usage}}


def _thinking(seen: Seen) -> str:
    return f"Request {seen.number}: the next file has to be read before its callers can be judged."


def _parts(text: str, size: int = 60) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


SPEAKERS = {"anthropic": anthropic, "chat": chat, "responses": responses}


# Tokens, and what of a request a provider's cache could have kept -----------------------------------------------------


@cache
def _encoding() -> Any:
    import bpe_openai  # it warns where it is imported

    return bpe_openai.get_encoding("o200k_base")


@lru_cache(maxsize=200_000)
def tokens(text: str) -> int:
    """Tokens of a text."""
    return len(_encoding().encode_ordinary(text))


def history(body: Body) -> list[Body]:
    """The messages or items of a request, of any of the three protocols."""
    found = body.get("messages", body.get("input"))
    return list(found) if isinstance(found, list) else []


def fixed_tokens(body: Body) -> int:
    """Tokens of what stands beside the history: system prompt and tools."""
    tools = sum(tokens(json.dumps(tool)) for tool in body.get("tools") or ())
    prompt = [body.get("system") or "", body.get("instructions") or ""]
    return tools + sum(tokens(text) for each in prompt for text in _texts(each))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            is_call = key == "input" and isinstance(each, Mapping)  # with its arguments
            yield from [json.dumps(each)] if is_call else _texts(each) if key not in _UNSEEN else ()
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)


def canonical(item: Body) -> str:
    """An item as a provider's cache compares it: without cache marks, a single text block as a string."""
    row = unmarked(item)
    match row.get("content"):
        case [{"type": "text", "text": text, **others}] if not others:
            row["content"] = text
    return json.dumps(row, sort_keys=True)


def kept_items(before: Sequence[str], now: Sequence[str]) -> int:
    """How many items both begin with, as `canonical` writes them."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))))
