"""A provider on the loopback: strict as the real ones, scripted, and with a memory of each request that it got.

It knows nothing of who stands between it and the client. Threads are told apart by the ids that clients send.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from evals.clients.counting import canonical, fixed_tokens, history, item_tokens, kept_items
from evals.clients.replies import SPEAKERS, Body, Counted, Event, tool_names
from evals.clients.rules import Seal, problem
from evals.clients.script import SUBTASK, Plan, Script, Thread, Turn, is_compaction, wanted_summary

_DIALECTS = {"/messages": "anthropic", "/chat/completions": "chat", "/responses": "responses"}

_THREADS = ("x-claude-code-session-id", "thread-id", "session-id", "x-session-id", "x-thread")

_AGENT = "x-claude-code-agent-id"

UNIQUE = 1_000  # the tokens that reply N claims to have taken, less N: so a reply is known by its usage


@dataclass(slots=True)
class Seen:
    """One request for a reply."""

    number: int
    dialect: str
    thread: str
    kind: str  # agent, child, plain or compaction
    items: list[str]  # of its history, canonical
    tokens: int
    cached: int  # of these, a cache of prefixes had them
    size: int  # bytes
    problem: str = ""
    lost: list[str] = field(default_factory=list)  # markers of results that should have come and did not
    ended: bool = False  # the reply went out to its end
    spent: float = 0.0  # seconds from the request's last byte to the reply's


class Says(Protocol):
    """What the model says next in a history, as a `Script` does."""

    def next(self, thread: Thread, number: int, *, waits: bool) -> Turn: ...


class Watches(Protocol):
    """Sees each request, with the number of the reply that is due in its history."""

    def request(self, body: Body, step: int) -> None: ...


class Provider:
    """The ASGI application, and what it has seen."""

    def __init__(self, plan: Plan, script: Says | None = None, watch: Watches | None = None) -> None:
        self.seen: list[Seen] = []
        self.bodies: dict[int, Body] = {}  # of the newest request of each thread, and of those with a problem
        self.paths: dict[str, int] = {}
        self.pausing = asyncio.Event()  # a reply stands in its middle
        self.resumed = asyncio.Event()
        self._plan = plan
        self._script, self._watch = script or Script(plan), watch
        self._threads: dict[str, Thread] = {}
        self._before: dict[str, tuple[list[str], list[int], int]] = {}  # items of a thread's last request, with tokens
        self._seal = Seal(b"provider")
        self._cut: set[str] = set()  # reasoning whose reply broke off behind it
        self._number = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        raw = await request.body()
        began, before = time.perf_counter(), self._number
        path = request.url.path
        self.paths[path] = self.paths.get(path, 0) + 1
        response = self._answered(request, path, raw)
        await response(scope, receive, send)
        if self._number > before:
            self.seen[before].spent = time.perf_counter() - began

    def _answered(self, request: Request, path: str, raw: bytes) -> Response:
        if path.endswith("/count_tokens"):
            body = json.loads(raw)
            return JSONResponse({"input_tokens": fixed_tokens(body) + sum(map(item_tokens, history(body)))})
        dialect = next((name for end, name in _DIALECTS.items() if path.endswith(end)), None)
        if request.method != "POST" or dialect is None:
            found = path.endswith("/models") or path == "/"
            return JSONResponse({"data": [], "models": [], "has_more": False}, 200 if found else 404)
        body = json.loads(raw)
        seen, thread = self._look(dialect, body, request.headers, len(raw))
        if self._watch is not None:
            self._watch.request(body, thread.step)
        if seen.problem:
            self.bodies[seen.number] = body
            error = {"type": "invalid_request_error", "message": seen.problem, "code": None, "param": None}
            return JSONResponse({"type": "error", "error": error}, 400)
        turn = self._turn(seen, thread, body)
        counted = Counted(seen.tokens, seen.cached, UNIQUE + seen.number)
        whole, events = SPEAKERS[dialect](body, turn, counted, self._seal)
        if not body.get("stream"):
            seen.ended = True
            return JSONResponse(whole)
        return StreamingResponse(self._stream(seen, turn, dialect, events), media_type="text/event-stream")

    def _look(self, dialect: str, body: Body, headers: Mapping[str, str], size: int) -> tuple[Seen, Thread]:
        self._number += 1
        kind, name = self._kind(body, headers)
        items = history(body)
        said = [canonical(item) for item in items]
        before, sizes, fixed = self._before.get(name, ([], [], 0))
        kept = kept_items(before, said)
        sizes = sizes[:kept] + [item_tokens(item) for item in items[kept:]]
        own = fixed_tokens(body)
        betas = headers.get("anthropic-beta", "").split(",")
        found = problem(dialect, body, self._seal, self._cut, betas)
        cached = (own if own == fixed else 0) + sum(sizes[:kept]) if before else 0
        seen = Seen(self._number, dialect, name, kind, said, own + sum(sizes), cached, size, found)
        self.seen.append(seen)
        if not found:
            self._before[name] = (said, sizes, own)
        thread = self._threads.setdefault(name, Thread(is_agent=kind == "child"))
        return seen, thread

    def _kind(self, body: Body, headers: Mapping[str, str]) -> tuple[str, str]:
        """What a request is for, and the name of its thread."""
        ids = [*[headers[name] for name in _THREADS if name in headers][:1], headers.get(_AGENT, "")]
        words = [text for item in history(body) if item.get("role") == "user" for text in _words(item)]
        if is_compaction(_last_words(history(body))):
            return "compaction", "compaction:" + ":".join(ids)
        if not tool_names(body):
            return "plain", "plain:" + ":".join(ids)
        name = ":".join(ids)
        known = self._threads.get(name)
        is_agent = known.is_agent if known else any(text.lstrip().startswith(SUBTASK) for text in words)
        return ("child" if is_agent else "agent"), name

    def _turn(self, seen: Seen, thread: Thread, body: Body) -> Turn:
        if seen.kind == "plain":
            return Turn(seen.number, "Reading the files of a shop")
        if seen.kind == "compaction":
            return Turn(seen.number, wanted_summary(seen.number))
        end = "\n".join(seen.items[-2:])
        if thread.last is not None and thread.last[0] == end:  # asked again
            return thread.last[1]
        rest = "\n".join(seen.items[-8:])
        given = [call for call in thread.outstanding if call.id in rest]
        seen.lost = [call.marker for call in given if call.marker and call.marker not in rest]
        names = tool_names(body)
        if any(call.kind == "task" for call in given) and "wait_agent" in names:
            found = re.search(r"agent_id\W+([0-9a-f-]{36})", rest)
            thread.waits_for = found[1] if found else ""
        turn = self._script.next(thread, seen.number, waits="wait_agent" in names)
        thread.outstanding, thread.last = turn.calls, (end, turn)
        return turn

    async def _stream(self, seen: Seen, turn: Turn, dialect: str, events: Sequence[Event]) -> AsyncIterator[str]:
        for at, event in enumerate(events):
            if turn.pauses and at == len(events) // 2:
                self._cut.add(f"rs_{turn.number}")
                self.pausing.set()
                await self.resumed.wait()
            name = f"event: {event['type']}\n" if "type" in event else ""
            yield f"{name}data: {json.dumps(event)}\n\n"
            await asyncio.sleep(0)
        if dialect == "chat":
            yield "data: [DONE]\n\n"
        seen.ended = True


def _words(item: Mapping[str, Any]) -> list[str]:
    content = item.get("content")
    if isinstance(content, str):
        return [content]
    return [str(block["text"]) for block in content or () if isinstance(block, dict) and "text" in block]


def _last_words(items: Sequence[Mapping[str, Any]]) -> str:
    """What the user said last, if anything stands behind the model's last words."""
    said: list[str] = []
    for item in reversed(items):
        if item.get("role") in ("assistant", "tool") or item.get("type", "message") != "message":
            break
        said += _words(item)
    return "\n".join(said)


@asynccontextmanager
async def provided(provider: Provider) -> AsyncIterator[str]:
    """The provider at work, by its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            provider, log_level="error", access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        server = _Server(config)
        running = asyncio.ensure_future(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            provider.resumed.set()
            server.should_exit = True
            await running


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are for the process that this runs in."""
        yield
