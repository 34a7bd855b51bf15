"""Play generated sessions through the doors of the package, and count what a strict provider says of each request.

A door is opened for one session. It gives a function from the client's request to the one that arrives.
"""

import asyncio
import importlib
import json
import operator
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import httpx2

from evals.clients.rules import problem, unknown_tools, unmarked
from evals.clients.upstream import canonical
from summarizing_context import Settings, open_context
from summarizing_context.testing import ScriptedSummarizer
from tests.clients.generated import BINDING, DIALECTS, Row, Session, odd_fields
from tests.laws.builders import result
from tests.laws.shapes import once
from tests.proxy.clients import between
from tests.proxy.fake import Fake, nothing

SESSIONS = range(int(os.environ.get("GENERATED", "2")))  # seeds of the sessions that go through each door
BUDGET = int(os.environ.get("BUDGET", "4000"))  # tokens of their views


def in_force(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the messages or items of a request have set, as it holds at their end: efforts, formats, tools."""
    held: dict[str, Any] = {"tools": set()}
    for row in body.get("messages", body.get("input", ())):
        held |= row.get("output_config") or {}
        if row.get("type") == "configuration_update":
            held |= {name: row[name] for name in ("reasoning", "text") if name in row}
        if row.get("type") in ("additional_tools", "tool_search_output"):
            held["tools"] |= {tool["name"] for tool in row["tools"]}
    if "messages" in body:
        held["unknown"] = unknown_tools(body["messages"], body.get("tools") or ())
    return held


class Arrived(NamedTuple):
    """A request as it arrived."""

    body: Row
    betas: Sequence[str]
    activated: bool | None = None  # None where the door does not tell
    failure: str = ""  # of the door, which let the request pass as it was


Send = Callable[[Row], Awaitable[Arrived]]


class Verdict(NamedTuple):
    """What is said of the views of one door, and how many have less than the client's request."""

    problems: list[str]
    shortened: int


def said_of(session: Session, body: Row, arrived: Arrived) -> str:
    """What a strict provider says of a request that has arrived for this one; empty where it takes it."""
    if arrived.failure:
        return f"failure: {arrived.failure}"
    options: Any = {"betas": arrived.betas, "demands": session.demands, "given": session.given}
    if found := problem(session.dialect, arrived.body, session.seal, **options):
        return found
    if session.as_sent and arrived.body != body:
        return "as sent: the request was changed"
    held, holds = in_force(body), in_force(arrived.body)
    if lost := [name for name in held if held[name] != holds.get(name)]:
        return f"in force: {lost[0]} was {held[lost[0]]}, is {holds.get(lost[0])}"
    ends = []
    for each in (body, arrived.body):
        last = next((row for row in reversed(each[session.rows]) if row.get("role") != "system"), {})
        ends.append([last.get("type", "message"), *map(last.get, ("role", "call_id", "tool_call_id"))])
    return "" if ends[0] == ends[1] else "newest: the newest row is not what was said last"


@asynccontextmanager
async def library(session: Session) -> AsyncIterator[Send]:
    """A context, to which messages are added as they come; its views asked for as its documents say."""
    merges = "alternating" in session.demands or session.dialect == "bedrock"
    settings = Settings(max_tokens=session.budget, merge_user_rows=merges)
    known: list[Row] = []
    is_rewritten = False  # from then on, thinking may be bound to another beginning
    async with open_context(settings, summarizer=ScriptedSummarizer()) as context:

        async def send(body: Row) -> Arrived:
            nonlocal is_rewritten
            if not _goes_on(known, session.history):
                await context.set_messages(session.history)
                known[:] = session.history
            for row in session.history[len(known) :]:
                await context.add_message(row)
            known[:] = session.history
            view = await context.next_view()
            is_rewritten = is_rewritten or view.rewritten_prefix
            shown = [_in_dialect(session.dialect, row) for row in view.messages]
            made, betas = {**body, session.rows: shown}, session.betas
            if is_rewritten and session.dialect == "anthropic" and not session.as_sent:
                asked = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
                made["thinking"] = {"type": "adaptive", **(body.get("thinking") or {}), **asked}
                betas = [*betas, BINDING]
            return Arrived(made, betas, view.activation is not None)

        yield send


def _goes_on(known: Sequence[Row], rows: Sequence[Row]) -> bool:
    return len(known) <= len(rows) and all(map(operator.is_, known, rows))


def _in_dialect(dialect: str, row: Mapping[str, Any]) -> Row:
    """A view's row without what is never sent; one that the package has made, such as the header, in the words of a
    protocol."""
    row = {name: value for name, value in row.items() if not name.startswith("_") and name != "metadata"}
    content = row.get("content")
    blocks = [{"text": content}] if isinstance(content, str) else content or []
    if dialect == "gemini" and "parts" not in row:
        return {"role": row["role"], "parts": blocks}
    if dialect == "bedrock":
        return {**row, "content": [{"text": one["text"]} if one.get("type") == "text" else one for one in blocks]}
    return row


_PATHS = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}


@asynccontextmanager
async def proxy(session: Session) -> AsyncIterator[Send]:
    """A proxy on the loopback, in front of a provider that keeps what arrives."""
    number, path = 0, _PATHS[session.dialect]  # of the records that were read

    headers = {"x-claude-code-session-id": "s1", "session-id": "s1"}
    headers |= {"anthropic-beta": ",".join(session.betas)} if session.betas else {}
    given: Any = {"budget": session.budget, "settings": {"merge_user_rows": "alternating" in session.demands}}
    asking = httpx2.AsyncClient(trust_env=False, timeout=60)
    async with between(Fake(behave=nothing), **given) as (fake, address), asking as client:

        async def send(body: Row) -> Arrived:
            nonlocal number
            reply = await client.post(address + path, json=body, headers=headers)
            if reply.status_code != 200:
                return Arrived(body, [], failure=f"{reply.status_code} {reply.text[:200]}")
            for _ in range(20):  # told when its reply has ended
                told = (await client.get(f"{address}/_status?after={number}")).json()
                if told["records"]:
                    break
                await asyncio.sleep(0.01)
            number = told["requests"]
            seen = next(each for each in reversed(fake.seen) if each["path"] == path)
            betas = [beta.strip() for beta in seen["headers"].get("anthropic-beta", "").split(",")]
            activated = any(one["activation"] for one in told["records"])
            return Arrived(seen["body"], betas, activated, told["last_failure"] or "")

        yield send


# Adapters ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def openai_agents(session: Session) -> AsyncIterator[Send]:
    """The filter of the Agents SDK, called as its runner calls it."""
    filters = importlib.import_module("summarizing_context.adapters.openai_agents")
    settings = Settings(max_tokens=session.budget)
    async with filters.summarizing_filter(settings, summarizer=ScriptedSummarizer()) as shorten:

        async def send(body: Row) -> Arrived:
            model = SimpleNamespace(input=list(body["input"]), instructions=body["instructions"])
            agent = SimpleNamespace(name="coder", tools=[])
            made = await shorten(SimpleNamespace(model_data=model, agent=agent, context=None))
            return Arrived({**body, "input": list(made.input)}, session.betas)

        yield send


@asynccontextmanager
async def langchain(session: Session) -> AsyncIterator[Send]:
    """The middleware of LangChain, with messages as its package for Anthropic has them."""
    messages = importlib.import_module("langchain_core.messages")
    types = importlib.import_module("langchain.agents.middleware.types")
    middleware = importlib.import_module("summarizing_context.adapters.langchain").SummarizingMiddleware
    known = {"model": session.fixed["model"], "thinking": session.fixed.get("thinking"), "betas": [*session.betas]}
    model: Any = SimpleNamespace(_llm_type="anthropic-chat", **known)
    shorten = middleware(Settings(max_tokens=session.budget), summarizer=ScriptedSummarizer())
    messages_of = once(partial(_to_langchain, messages))  # the same ones again for a row

    async def send(body: Row) -> Arrived:
        seen: list[Any] = []

        async def handler(request: Any) -> Any:
            seen.append(request)
            return types.ModelResponse(result=[messages.AIMessage("a")])

        asked = [message for row in session.history for message in messages_of(row)]
        request = types.ModelRequest(model=model, messages=asked, system_prompt=None, tools=[], state={}, runtime=None)
        await shorten.awrap_model_call(request, handler)
        settings = {**seen[-1].model_settings}
        betas = settings.pop("betas", None) or session.betas
        return Arrived({**body, **settings, "messages": _joined(map(_from_langchain, seen[-1].messages))}, betas)

    try:
        yield send
    finally:
        await asyncio.to_thread(shorten.close)


def _split(row: Row, kind: str = "tool_result") -> tuple[list[Row], list[Row]]:
    """The blocks of a kind in a row, and its other blocks."""
    found = [block for block in row["content"] if block["type"] == kind]
    return found, [block for block in row["content"] if block["type"] != kind]


def _joined(rows: Iterable[Row]) -> list[Row]:
    """Neighbouring rows of the user as one, as hosts send them to Anthropic."""
    made: list[Row] = []
    for row in rows:
        content = row["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if made and made[-1]["role"] == row["role"] == "user":
            blocks = [*made.pop()["content"], *blocks]
        made.append({"role": row["role"], "content": blocks})
    return made


def _to_langchain(messages: Any, row: Row) -> list[Any]:
    if row["role"] == "assistant":
        calls = [{"name": use["name"], "args": use["input"], "id": use["id"]} for use in _split(row, "tool_use")[0]]
        return [messages.AIMessage(row["content"], tool_calls=calls)]
    results, rest = _split(row)
    answers = [messages.ToolMessage(one.get("content", ""), tool_call_id=one["tool_use_id"]) for one in results]
    return [*answers, *([messages.HumanMessage(rest)] if rest else [])]


def _from_langchain(message: Any) -> Row:
    content = message.content
    if message.type == "tool":
        return result("anthropic", message.tool_call_id, content)
    if message.type != "ai":
        return {"role": "user", "content": content}
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) and content else list(content or ())
    there = [block.get("id") for block in blocks]
    calls = [call for call in message.tool_calls if call["id"] not in there]
    used = [{"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]} for call in calls]
    return {"role": "assistant", "content": [*blocks, *used]}


@asynccontextmanager
async def pydantic_ai(session: Session) -> AsyncIterator[Send]:
    """The capability of Pydantic AI, in front of its own model for Anthropic."""
    parts, models = importlib.import_module("pydantic_ai.messages"), importlib.import_module("pydantic_ai.models")
    anthropic = importlib.import_module("pydantic_ai.models.anthropic")
    provider = importlib.import_module("pydantic_ai.providers.anthropic").AnthropicProvider(api_key="sk-none")
    replied = importlib.import_module("anthropic.types.beta").BetaMessage
    adapter = importlib.import_module("summarizing_context.adapters.pydantic_ai")
    model, beside = anthropic.AnthropicModel("claude-opus-4-8", provider=provider), models.ModelRequestParameters()
    names: dict[str, str] = {}

    @once  # the same one again for a row
    def message_of(row: Row) -> Any:
        if row["role"] == "assistant":
            names.update({use["id"]: use["name"] for use in _split(row, "tool_use")[0]})
            told = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": row["content"]}
            told |= {"stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
            return model._process_response(replied.model_validate(told), beside, {})
        results, rest = _split(row)
        answers = [(names[one["tool_use_id"]], one.get("content") or "-", one["tool_use_id"]) for one in results]
        said = [parts.UserPromptPart(block["text"]) for block in rest]
        return parts.ModelRequest(parts=[*(parts.ToolReturnPart(*answer) for answer in answers), *said])

    settings = Settings(max_tokens=session.budget)
    async with adapter.SummarizingCapability(settings, summarizer=ScriptedSummarizer()) as capability:

        async def send(body: Row) -> Arrived:
            messages = list(map(message_of, session.history))
            for row in (await model._map_message(messages, beside, {}))[1]:
                session.given.add(row["content"])  # as the host itself writes it
            options: Any = {"model_settings": None, "model_request_parameters": beside}
            asked = models.ModelRequestContext(model=model, messages=messages, **options)
            shown = await capability.prepare_model_request(SimpleNamespace(conversation_id="c1"), asked)
            _, rows = await model._map_message(shown.messages, beside, {})
            return Arrived({**body, "messages": rows}, session.betas)

        yield send


@asynccontextmanager
async def amplifier(session: Session) -> AsyncIterator[Send]:
    """The context manager of Amplifier, with rows as its provider for Anthropic leaves them."""
    module = importlib.import_module("summarizing_context.adapters.amplifier")
    options = importlib.import_module("summarizing_context.assembly").Options(summarizer=ScriptedSummarizer())
    manager = module.SummarizingContextManager({"max_tokens": session.budget}, options)
    known: list[Row] = []

    async def send(body: Row) -> Arrived:
        for row in session.history[len(known) :]:
            for one in _to_amplifier(row):
                await manager.add_message(one)
        known[:] = session.history
        info = SimpleNamespace(id="anthropic", defaults={"model": session.fixed["model"]})
        told = SimpleNamespace(name="anthropic", get_info=lambda: info)
        shown = await manager.get_messages_for_request(token_budget=session.budget, provider=told)
        return Arrived({**body, "messages": _joined(map(_from_amplifier, shown))}, session.betas)

    try:
        yield send
    finally:
        await manager.close()


def _to_amplifier(row: Row) -> list[Row]:
    if row["role"] == "assistant":
        used, rest = _split(row, "tool_use")
        blocks = [block for block in rest if block["type"] in ("text", "thinking", "redacted_thinking")]
        calls = [{**use, "type": "tool_call"} for use in used]
        listed = [{"id": use["id"], "tool": use["name"], "arguments": use["input"]} for use in used]
        made = {"role": "assistant", "content": [*blocks, *calls], **({"tool_calls": listed} if listed else {})}
        return [{**made, "metadata": {"anthropic": {"wire_content": row["content"]}}}]
    results, rest = _split(row)
    rows = [result("amplifier", one["tool_use_id"], one.get("content", "")) for one in results]
    return [*rows, *([{"role": "user", "content": rest}] if rest else [])]


def _from_amplifier(row: Row) -> Row:
    content = row["content"]
    if row["role"] == "tool":
        return result("anthropic", row["tool_call_id"], content)
    if row["role"] != "assistant" or isinstance(content, str):
        return {"role": row["role"], "content": content}
    wire = ((row.get("metadata") or {}).get("anthropic") or {}).get("wire_content")
    named = [{**block, "type": "tool_use"} if block["type"] == "tool_call" else block for block in content]
    return {"role": "assistant", "content": wire or named}


_NO_FORM = ("system_rows", "thread", "marks", "compaction", "tool_reference")  # in hosts of Anthropic's messages
_ONLY_TEXT = (
    *("media", "documents", "container_upload", "unknown", "browser_state", "listing", "fallback", "programs"),
    *("bound", "paused", "tool_search"),  # what its model for Anthropic repairs by itself
)
_KNOWN = (  # none of them where blocks are planted
    *("unknown", "thread", "compaction", "chains", "references", "system_rows", "marks", "thinking", "server_tools"),
    *("paused", "programs", "program", "state", "tool_search", "tool_reference"),
)

DOORS: dict[str, tuple[Any, Sequence[str], Sequence[str]]] = {  # with the dialects and the shapes that it has not
    "library": (library, ("anthropic", "chat", "gemini", "bedrock", "anthropic"), ("thread",)),
    "proxy": (proxy, ("anthropic", "responses", "anthropic", "responses", "chat"), ()),
    "langchain": (langchain, ("anthropic",), _NO_FORM),
    "pydantic-ai": (pydantic_ai, ("anthropic",), (*_NO_FORM, *_ONLY_TEXT, "null_compaction")),
    "amplifier": (amplifier, ("anthropic",), (*_NO_FORM, "media", "documents", "container_upload")),
    "openai-agents": (openai_agents, ("responses",), ("chains", "references")),
}


async def run(name: str, seeds: Iterable[int], *, steps: int, budget: int, unknown: bool = False) -> Verdict:
    """Play sessions through a door to their ends. `unknown` puts blocks of no known type anywhere into messages, and
    sees whether views have them whole or not at all."""
    door, dialects, without = DOORS[name]
    if unknown:
        dialects = [dialect for dialect in dialects if dialect in ("anthropic", "responses", "chat")]
        without = (*without, *_KNOWN)
    problems, shortened = list[str](), 0
    for seed in seeds:
        chance = random.Random(seed)
        session = DIALECTS[dialects[seed % len(dialects)]](seed, steps=steps, budget=budget, without=without)
        before, known = list[str](), list[Row]()
        planted: list[tuple[Row, Row]] = []  # blocks, each with its row
        if unknown:
            session.demands.clear()
        async with door(session) as send:
            for _ in range(steps):
                goes_on = _goes_on(known, session.history)
                rows = [row for row in session.history[len(known) :] if isinstance(row.get("content"), list)]
                if unknown and rows and chance.random() < 0.3:
                    row = chance.choice(rows)
                    planted.append((_plant(session, chance, row), row))
                known, body = list(session.history), session.body()
                arrived = await send(body)
                now = list(map(canonical, arrived.body[session.rows]))
                found = said_of(session, body, arrived) or _parted(planted, now, only_text=door is amplifier)
                if goes_on and arrived.activated is False and now[: len(before)] != before:
                    found = found or "a view does not begin with the one before"
                shortened += len(now) < len(body[session.rows])
                problems += [f"{session.name}, reply {session.number}: {found}"] if found else []
                before = now
                session.answer(arrived.body)
    return Verdict(problems, shortened)


def _plant(session: Session, chance: random.Random, row: Row) -> Row:
    """Put a block anywhere into a row, behind its thinking and the results of calls, or into one of these."""
    words = f"hologram {chance.randrange(10**12)} " + session.words(0.1)
    fields = odd_fields(chance, words)  # of too long ones the group is covered, and a newest result told in words
    fields = fields if len(json.dumps(fields)) <= 2 * session.budget else {}
    block = {**fields, "type": f"hologram_{chance.randrange(99)}", "says": words}
    session.given.add([block])
    blocks = row["content"]
    first = {"tool_result", "thinking", "redacted_thinking"}
    low = max((at + 1 for at, each in enumerate(blocks) if each.get("type") in first), default=0)
    results = [each for each in blocks if each.get("type") == "tool_result"]
    if results and chance.random() < 0.5:
        result = chance.choice(results)
        said = result.get("content", [])
        blocks, low = [{"type": "text", "text": said}] if isinstance(said, str) else said, 0
        result["content"] = blocks
    blocks.insert(chance.randint(low, len(blocks)), block)
    return block


def _parted(planted: Sequence[tuple[Row, Row]], shown: Sequence[str], *, only_text: bool = False) -> str:
    """Whether a block stands in these rows otherwise than it was said, or its message without it. A host's rows may
    have no form for a block that it does not know: `only_text` takes its whole JSON for it."""
    for block, row in planted:
        whole = json.dumps(unmarked(block), sort_keys=True)
        as_text = json.dumps(block, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        as_text = json.dumps({"text": as_text})[1:-1]  # as it stands in the JSON of a row
        others = [json.dumps(each, sort_keys=True) for each in row["content"] if each.get("type") == "text"]
        for text in shown:
            if whole in text or "<history" in text or "<earlier_message" in text or (only_text and as_text in text):
                continue  # it stands there whole, or is covered and quoted at most
            if block["says"] in text:
                return "unknown: a block was made something else"
            if any(len(other) > 60 and other in text for other in others):
                return "unknown: a message without its block"
    return ""
