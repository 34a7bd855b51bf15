"""A provider on the loopback that speaks three protocols and is as strict as the real: pairs, roles, ids, thinking.

Each request is kept. What it answers is plain, unless a test gives it `behave`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from evals.clients.rules import Seal, problem
from evals.clients.upstream import provided

served = provided  # an application on the loopback, by its address
Behave = Callable[[Request, bytes], Awaitable[Response | None]]
SEAL = Seal(b"of the fake")
WORDS = "I read src/parser.py and src/lexer.py, and the tests of both. " * 12


@dataclass
class Fake:
    """What a provider saw, and how it behaves."""

    seen: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    summary: str = ""  # the answer to a request for a summary, if it has one of its own
    most_tokens: int = 10**9  # bytes of a request through four; more is too long
    refuses_in_stream: bool = False  # what is too long is refused by an event of a stream that has begun
    behave: Behave | None = None
    address: str = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        await (await self._answer(request, await request.body()))(scope, receive, send)

    async def _answer(self, request: Request, raw: bytes) -> Response:
        path, body = request.url.path, None
        with suppress(ValueError):
            body = json.loads(raw)
        kept = {"path": path, "query": request.url.query, "headers": dict(request.headers), "raw": raw, "body": body}
        self.seen.append(kept)
        if self.behave is not None and (special := await self.behave(request, raw)) is not None:
            return special
        if path.endswith("/count_tokens"):
            return JSONResponse({"input_tokens": len(raw) // 4})
        if path.endswith("/models"):
            return JSONResponse({"data": [{"id": "m"}], "has_more": False})
        kind = next((kind for end, kind in KINDS.items() if path.endswith(end)), None)
        if kind is None or request.method != "POST":
            return JSONResponse({"echo": path, "bytes": len(raw)})
        dialect, answer, too_long = kind
        if len(raw) // 4 > self.most_tokens:
            words = too_long(len(raw) // 4, self.most_tokens)
            return streamed(refusal_events(path, words)) if self.refuses_in_stream else JSONResponse(words, 400)
        betas = request.headers.get("anthropic-beta", "").split(",")
        if wrong := problem(dialect, body, SEAL, betas=betas):
            self.problems.append(wrong)
            return JSONResponse({"type": "error", "error": {"type": "invalid_request_error", "message": wrong}}, 400)
        text = [self.summary] if self.summary and b"session_record" in raw else []
        whole, events = answer(body, len(self.seen), len(raw) // 4, *text)
        return streamed(events) if body.get("stream") else JSONResponse(whole)


async def nothing(request: Request, raw: bytes) -> Response:
    """What a provider does that answers whatever it is asked."""
    return JSONResponse({})


def streams(pieces: Callable[[], AsyncIterator[bytes]]) -> Behave:
    """A provider that streams these pieces, whatever it is asked but what models it has."""

    async def behave(request: Request, raw: bytes) -> Response | None:
        return None if "/models" in request.url.path else StreamingResponse(pieces(), media_type="text/event-stream")

    return behave


def streamed(events: list[Any]) -> Response:
    """The events as a stream of their own pieces."""

    async def stream() -> AsyncIterator[str]:
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            yield f"{name}data: {json.dumps(event)}\n\n"
            await asyncio.sleep(0)

    return StreamingResponse(stream(), media_type="text/event-stream")


def refusal_events(path: str, words: Any) -> list[Any]:
    """How a stream tells that a request was too long."""
    if not path.endswith("/responses"):
        return [words]
    begun = {"id": "resp_1", "status": "in_progress", "error": None, "output": []}
    failed = {**begun, "status": "failed", "error": words["error"]}
    kinds = {"response.created": begun, "response.in_progress": begun, "response.failed": failed}
    return [{"type": kind, "response": response} for kind, response in kinds.items()]


def answer_anthropic(body: Any, number: int, tokens: int, text: str = "") -> tuple[Any, list[Any]]:
    thinking = f"let me think of step {number} " + "x" * 12
    blocks: list[Any] = [{"type": "text", "text": text or f"answer {number}. {WORDS}"}]
    if body.get("thinking"):
        sealed = SEAL.bind(thinking, body) if body["model"].endswith("-5-5") else SEAL.sign(thinking)
        blocks.insert(0, {"type": "thinking", "thinking": thinking, "signature": sealed})
    if body.get("tools") and body["messages"][-1]["role"] == "user" and number % 3:
        ids = (f"toolu_{number}_{at}" for at in range(2))
        blocks += [{"type": "tool_use", "id": id, "name": "read", "input": {"path": f"src/{id}.py"}} for id in ids]
    stop = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
    usage = {"input_tokens": tokens, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 9}
    whole = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"]}
    whole |= {"content": blocks, "stop_reason": stop, "stop_sequence": None, "usage": usage}
    events: list[Any] = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
    for at, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": at, "content_block": block})  # it begins complete
        events.append({"type": "content_block_stop", "index": at})
    ended = {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 300}}
    return whole, [*events, ended, {"type": "message_stop"}]


def answer_chat(body: Any, number: int, tokens: int, text: str = "") -> tuple[Any, list[Any]]:
    message: dict[str, Any] = {"role": "assistant", "content": text or f"answer {number}. {WORDS}"}
    if body.get("tools") and number % 3:
        read = [{"name": "read", "arguments": f'{{"n": {at}}}'} for at in range(2)]
        calls = [{"id": f"call_{number}_{at}", "type": "function", "function": one} for at, one in enumerate(read)]
        message["tool_calls"] = calls
    usage = {"prompt_tokens": tokens, "completion_tokens": 300, "total_tokens": tokens + 300}
    about = {"id": f"c{number}", "created": 0, "model": body["model"]}
    stop = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "finish_reason": stop, "message": message}
    whole = {**about, "object": "chat.completion", "choices": [choice], "usage": usage}
    deltas = [{**call, "index": at} for at, call in enumerate(message.get("tool_calls", ()))]
    delta = {**message, **({"tool_calls": deltas} if deltas else {})}
    chunk = {**about, "object": "chat.completion.chunk"}
    first = {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    last = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage}
    return whole, [first, last]


def answer_responses(body: Any, number: int, tokens: int, text: str = "") -> tuple[Any, list[Any]]:
    said = [{"type": "output_text", "text": text or f"answer {number}. {WORDS}", "annotations": []}]
    sealed, done = SEAL.sign(f"rs_{number}"), {"status": "completed"}
    items: list[Any] = [
        {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": sealed},
        {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": said, **done},
    ]
    for at in range(2) if body.get("tools") and number % 3 else ():
        call = {"type": "function_call", "id": f"fc_{number}_{at}", "call_id": f"call_{number}_{at}", "name": "read"}
        items.append({**call, "arguments": f'{{"n": {at}}}', **done})
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": tokens, "output_tokens": 300, "total_tokens": tokens + 300, **details}
    whole = {"id": f"resp_{number}", "object": "response", "created_at": 0, "status": "completed", "output": items}
    whole |= {"model": body["model"], "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    events: list[Any] = [{"type": "response.created", "response": {**whole, "output": []}}]
    for at, item in enumerate(items):
        events += [
            {"type": f"response.output_item.{end}", "output_index": at, "item": item} for end in ("added", "done")
        ]
    events.append({"type": "response.completed", "response": whole})
    return whole, [{**event, "sequence_number": at} for at, event in enumerate(events)]


def too_long_anthropic(tokens: int, most: int) -> Any:
    words = f"prompt is too long: {tokens} tokens > {most} maximum"
    return {"type": "error", "error": {"type": "invalid_request_error", "message": words}}


def too_long_openai(tokens: int, most: int) -> Any:
    words = f"This model's maximum context length is {most} tokens. However, your messages resulted in {tokens} tokens."
    return {"error": {"message": words, "type": "invalid_request_error", "code": "context_length_exceeded"}}


KINDS: dict[str, tuple[str, Any, Any]] = {
    "/messages": ("anthropic", answer_anthropic, too_long_anthropic),
    "/chat/completions": ("chat", answer_chat, too_long_openai),
    "/responses": ("responses", answer_responses, too_long_openai),
}
