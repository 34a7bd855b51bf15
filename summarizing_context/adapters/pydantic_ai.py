"""Pydantic AI: a capability that gives each model request the messages of a view. The run's own history stays whole.

One `ModelRequest` holds several rows of a log, one for each part; a `ModelResponse` is one row. What a view leaves as
it was goes out as the host's own object, so that signatures, ids and files are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from summarizing_context.adapters import open_sessions as shared
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import MissingExtraError
from summarizing_context.messages.reading import Message, canonical_json
from summarizing_context.retrieval.tools import COMPACT_TOOL, answer_compact
from summarizing_context.settings import Settings

try:
    from pydantic_ai import messages as host
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.tools import Tool
    from pydantic_core import to_json, to_jsonable_python
except ImportError as error:
    raise MissingExtraError("pydantic-ai", "pydantic_ai is not installed, or too old for capabilities") from error

_LEFT_OUT = "[thinking left out]"  # where a view leaves nothing else of a message


def compact_tool() -> Tool[Any]:
    """Return `context_compact` for the tools of an agent: a call says that a task is done, so views cover it."""
    name, about, schema = COMPACT_TOOL.schema().values()
    return Tool.from_schema(lambda **given: answer_compact(given), name, about, schema)


class SummarizingCapability(AbstractCapability[Any], AbstractAsyncContextManager["SummarizingCapability"]):
    """Keeps the requests of an agent inside the model's window.

    It opens a context for each `conversation_id`, of which the `session_id` is made, and keeps it until `close`, or the
    end of an `async with`. `options` are those of `open_context` but `store`.

    The budget follows from the window that the model's profile tells; else it is the settings' `max_tokens`.
    """

    def __init__(self, settings: Settings | None = None, **options: Any) -> None:
        """Raises `SettingsError` for wrong arguments."""
        self._sessions = shared.Sessions(settings, **options)

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, conversation_id: str | None = None) -> None:
        """Close the context of a conversation, or of all. The next request reopens it."""
        await self._sessions.close(conversation_id)

    async def context_of(self, conversation_id: str) -> SummarizingContext:
        """Return the open context of a conversation."""
        async with self._sessions.use(conversation_id) as context:
            return context

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Called by the host before each attempt: the messages of the request become those of a view."""
        rows, model = list(_rows(request_context.messages)), request_context.model
        settings, parameters = request_context.model_settings or {}, request_context.model_request_parameters
        bound = shared.bound_thinking(str(model.model_name), settings.get("anthropic_thinking"))
        tools = [*parameters.function_tools, *parameters.output_tools]
        said = [part.content for part in parameters.instruction_parts or ()]
        beside = shared.beside_messages(tools, "parameters_json_schema", said)
        models = getattr(model, "models", None) or [model]  # one that falls back has no profile of its own
        window = min(filter(None, (each.profile.get("context_window") for each in models)), default=None)
        cache = _cache_asked(request_context.messages, settings)
        provider = shared.model_of(str(model.system), model.model_name, window, settings.get("max_tokens"), cache)
        async with self._sessions.use(ctx.conversation_id) as context:
            await context.follow([row.message for row in rows], keys=[row.message[shared.KEY] for row in rows])
            view = await context.next_view(provider=provider, tools=beside, bound_thinking=bound)
        return replace(request_context, messages=_messages(view.messages, rows))

    async def after_model_request(
        self, ctx: Any, *, request_context: Any, response: host.ModelResponse
    ) -> host.ModelResponse:
        """Called by the host after each attempt: the provider's count of tokens corrects later budgets."""
        usage = response.usage
        read, written = usage.cache_read_tokens, usage.cache_write_tokens
        long = min(written, usage.cache_write_1h_tokens)
        fresh = max(0, usage.input_tokens - read - written)
        counts = {"cache_read": read, "cache_write": written - long, "cache_write_long": long}
        async with self._sessions.use(ctx.conversation_id) as context:
            await context.observe_usage(fresh, **counts, output_tokens=usage.output_tokens)
        return response


def _cache_asked(messages: Sequence[host.ModelMessage], settings: Mapping[str, Any]) -> str | None:
    """Return how long a request asks for its beginning to be kept: by a setting, else by the last mark in it."""
    words = [settings.get(f"anthropic_cache{part}") for part in ("", "_messages", "_instructions", "_tool_definitions")]
    words.append(settings.get("openai_prompt_cache_retention"))
    for key, name in (("openai_prompt_cache_options", "ttl"), ("cache", "retention")):
        told = settings.get(key)
        words.append(told.get(name) if isinstance(told, Mapping) else told)
    contents = [part.content for message in messages for part in message.parts if isinstance(part, host.UserPromptPart)]
    items = [item for content in contents if not isinstance(content, str) for item in content]
    words += [item.ttl for item in reversed(items) if isinstance(item, host.CachePoint)]
    return next((word for word in words if isinstance(word, str)), None)


class _Row(NamedTuple):
    """A message of the log, and what it was made of."""

    message: Message
    part: Any  # of a request; the whole response
    origin: host.ModelRequest | None  # the request that holds the part


def _rows(messages: Sequence[host.ModelMessage]) -> Iterator[_Row]:
    for message in messages:
        if isinstance(message, host.ModelResponse):
            others = [part for part in message.parts if not isinstance(part, host.ToolCallPart)]
            content = [part.content if isinstance(part, host.TextPart) else part for part in others]
            row: Message = {"role": "assistant", "content": _content(content)}
            for part in message.tool_calls:
                function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
                call = {"id": part.tool_call_id, "type": "function", "function": function}
                row.setdefault("tool_calls", []).append(call)
            ids = [getattr(part, "id", None) for part in message.parts]  # a provider refuses one that comes twice
            yield _Row(shared.keyed(row, [row, *ids]), message, None)
            continue
        for asked in message.parts:
            row = _request_row(asked)
            yield _Row(shared.keyed(row, row), asked, message)


def _request_row(part: Any) -> Message:
    if isinstance(part, host.UserPromptPart):
        return {"role": "user", "content": _content(part.content)}
    if isinstance(part, host.ToolReturnPart):
        text = part.model_response_str()
        files = [_block(file) for file in part.files]
        content = [{"type": "text", "text": text}, *files] if files else text
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": content}
    if isinstance(part, host.RetryPromptPart) and part.tool_name is not None:
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.model_response()}
    if isinstance(part, host.RetryFeedbackPart | host.RetryPromptPart):
        return {"role": "user", "content": part.model_response(), "isMeta": True}
    if isinstance(part, host.SystemPromptPart):
        return {"role": "system", "content": part.content}
    if part.part_kind in ("speech", "compaction"):
        return {"role": "user", "content": to_json(part, fallback=repr).decode(), "isMeta": True}
    return {"role": "system", "content": to_json(part, fallback=repr).decode()}  # what changed from there on: it stays


def _content(content: str | Sequence[Any]) -> str | list[Message]:
    if isinstance(content, str):
        return content
    if len(content) < 2 and all(isinstance(item, str) for item in content):
        return "".join(content)
    return [_block(item) for item in content if not isinstance(item, host.CachePoint)]


def _block(item: Any) -> Message:
    """Return the block of a text, of thinking, or of a file without its bytes. What a provider has made by itself is
    opaque: its tools' calls and results, which belong together, and what it has compacted."""
    if isinstance(item, str | host.TextContent | host.TextPart):
        return {"type": "text", "text": getattr(item, "content", item)}
    if isinstance(item, host.ThinkingPart):
        # others do not refuse thinking once what stands before it has changed
        if not str(item.provider_name or "").startswith(("anthropic", "bedrock")):
            return {"type": "reasoning", "text": item.content, "encrypted_content": item.signature or ""}
        if item.id == "redacted_thinking":
            return {"type": "redacted_thinking", "data": item.signature or ""}
        return {"type": "thinking", "thinking": item.content, "signature": item.signature or ""}
    if isinstance(item, host.FilePart):
        item = item.content
    if isinstance(item, host.BinaryContent):
        source = {"type": "digest", "media_type": item.media_type, "data": shared.digest_of(item.data)}
        return {"type": "image" if item.is_image else "file", "source": source}
    if kind := getattr(item, "part_kind", ""):
        bound = {"type": kind}
        if isinstance(item, host.NativeToolCallPart):
            bound = {"type": "server_tool_use", "id": item.tool_call_id}
        elif isinstance(item, host.NativeToolReturnPart):
            bound = {"type": "server_tool_result", "tool_use_id": item.tool_call_id}
        return {**bound, "part": to_jsonable_python(item, fallback=repr)}
    source = {"type": "url", "url": str(getattr(item, "url", None) or getattr(item, "file_id", ""))}
    return {"type": "image" if getattr(item, "kind", "") == "image-url" else "file", "source": source}


def _messages(view: Iterable[Message], rows: Sequence[_Row]) -> list[host.ModelMessage]:
    """Return the view in the host's shapes: neighbouring parts of requests make one request."""
    known = {row.message[shared.KEY]: row for row in rows}
    names = {call.tool_call_id: call.tool_name for row in rows if row.origin is None for call in row.part.tool_calls}
    held = [row.part.content for row in rows if isinstance(row.part, host.UserPromptPart)]
    held += [row.part.files for row in rows if isinstance(row.part, host.ToolReturnPart)]
    items = [item for content in held if not isinstance(content, str) for item in content]
    others = [item for item in items if not isinstance(item, str | host.TextContent | host.CachePoint)]
    files = {canonical_json(_block(item)): item for item in others}
    messages: list[host.ModelMessage] = []
    for is_response, run in groupby(view, lambda message: message["role"] == "assistant"):
        if is_response:
            messages += [_response(message, known.get(message.get(shared.KEY, ""))) for message in run]
            continue
        parts: list[Any] = []
        origin: host.ModelRequest | None = None
        for message in run:
            row, text = known.get(message.get(shared.KEY, "")), shared.text_of(message["content"])
            origin = row.origin if row is not None and row.origin is not None else origin
            if row is not None and (message == row.message or message["role"] == "system"):
                parts.append(row.part)
            elif message["role"] == "system":
                parts.append(host.SystemPromptPart(text))
            else:  # the texts of a row that a view has changed, and those of its files that are left
                blocks = [] if isinstance(message["content"], str) else message["content"]
                content = [files.get(canonical_json(block), block.get("text", "")) for block in blocks]
                said: Any = text if all(isinstance(item, str) for item in content) else content
                name = names.get(answered := message.get("tool_call_id", ""), "tool")
                result, given = host.ToolReturnPart(name, said, answered), row and row.part
                if isinstance(given, host.ToolReturnPart):
                    result = replace(given, content=said)
                elif isinstance(given, host.RetryPromptPart):
                    result.outcome = "failed"
                parts.append(result if message["role"] == "tool" else host.UserPromptPart(said))
        origin = origin or host.ModelRequest(parts=[])
        same = list(map(id, parts)) == list(map(id, origin.parts))
        messages.append(origin if same else replace(origin, parts=parts))
    return messages


def _response(message: Message, row: _Row | None) -> host.ModelResponse:
    """Return the response of an assistant row, with what the view has left of its parts."""
    if row is None:
        return host.ModelResponse(parts=[host.TextPart(shared.text_of(message["content"]))])
    given: host.ModelResponse = row.part
    if message == row.message:
        return given
    own = {canonical_json(_block(part)): part for part in given.parts if not isinstance(part, host.ToolCallPart)}
    blocks = [{"type": "text", "text": content}] if isinstance(content := message["content"], str) else content
    arguments = {call["id"]: call["function"]["arguments"] for call in message.get("tool_calls", ())}
    parts: list[Any] = []
    for block in blocks:
        if (part := own.get(canonical_json(block))) is not None:
            parts.append(part)
        elif (text := shared.text_of([block])) and not (arguments and text == _LEFT_OUT):
            parts.append(host.TextPart(text))
    for call in given.tool_calls:
        if call.tool_call_id in arguments:
            same = arguments[call.tool_call_id] == call.args_as_json_str()
            parts.append(call if same else replace(call, args=arguments[call.tool_call_id]))
    if "reasoning" in {_block(part)["type"] for part in own.values()} - {block.get("type") for block in blocks}:
        parts = [part for part in parts if not isinstance(part, host.NativeToolCallPart | host.NativeToolReturnPart)]
        parts = [replace(part, id=None) if getattr(part, "id", None) else part for part in parts]  # bound to it
    return replace(given, parts=parts or [host.TextPart(_LEFT_OUT)])
