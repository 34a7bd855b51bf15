"""Pydantic AI: a capability that gives each model request the messages of a view. The run's own history stays whole.

One `ModelRequest` holds several rows of a log, one for each part; a `ModelResponse` is one row. What a view leaves as
it was goes out as the host's own object, so that signatures, ids and files are kept.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import anyio

from summarizing_context.adapters.open_sessions import session_id_from
from summarizing_context.assembly import Options, start_context
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import MissingExtraError, SettingsError, briefly
from summarizing_context.messages.validation import Message, canonical_json
from summarizing_context.settings.values import Settings

try:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        BinaryContent,
        CachePoint,
        FilePart,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        RetryFeedbackPart,
        RetryPromptPart,
        SystemPromptPart,
        TextContent,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_core import to_json
except ImportError as error:
    raise MissingExtraError("pydantic-ai", "pydantic_ai is not installed, or too old for capabilities") from error

_NAME = "_part"  # the field of a row that names what it was made of; never sent and never counted

_SIGN_THE_BEGINNING = ("anthropic", "bedrock")  # providers that refuse thinking once what stands before it has changed


class SummarizingCapability(AbstractCapability[Any]):
    """Keeps the requests of an agent inside the model's window.

    Given an open `context`, it serves the one conversation that the context holds, and leaves closing to its owner.
    Given `settings`, or nothing, it opens a context for each `conversation_id`, of which the `session_id` is made, and
    keeps it until `close`, or the end of an `async with`. `options` are those of `open_context` but `store`.

    The budget follows from the window that the model's profile tells; else it is the settings' `max_tokens`.
    """

    def __init__(self, settings: Settings | SummarizingContext | None = None, **options: Any) -> None:
        """Raises `SettingsError` for wrong arguments."""
        self._context = settings if isinstance(settings, SummarizingContext) else None
        self._contexts: dict[str, SummarizingContext] = {}
        self._opening = anyio.Lock()
        self._turns: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)  # a context has one user at a time
        self._options = Options()
        if self._context is not None:
            if options:
                raise SettingsError(f"an open context takes no options; leave out {', '.join(sorted(options))}")
            return
        if settings is not None and not isinstance(settings, Settings):
            raise SettingsError(f"{briefly(settings)} is neither Settings nor an open context")
        if unknown := sorted(options.keys() - set(Options.__dataclass_fields__)) or options.keys() & {"store"}:
            raise SettingsError(f"no such options: {', '.join(unknown)}; they are those of open_context but store")
        self._settings = settings or Settings()
        self._options = Options(**options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, conversation_id: str | None = None) -> None:
        """Close the context of a conversation, or of all. A given context stays open. The next request opens anew."""
        for id in list(self._contexts) if conversation_id is None else [conversation_id]:
            turn = self._turns[id]
            async with turn, self._opening:
                if id in self._contexts:
                    await self._contexts.pop(id).close()
                if not turn.statistics().tasks_waiting:
                    self._turns.pop(id, None)

    async def context_of(self, conversation_id: str) -> SummarizingContext:
        """The open context of a conversation."""
        if self._context is not None:
            return self._context
        async with self._opening:
            if conversation_id not in self._contexts:
                settings = replace(self._settings, session_id=session_id_from(conversation_id))
                self._contexts[conversation_id] = await start_context(settings, self._options)
            return self._contexts[conversation_id]

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Called by the host before each attempt: the messages of the request become those of a view."""
        rows = list(_rows(request_context.messages))
        id = self._id_of(ctx)
        async with self._turns[id]:  # else the view could be that of another run of the conversation
            context = await self.context_of(id)
            await context.follow([row.message for row in rows], keys=[row.message[_NAME] for row in rows])
            view = await context.get_messages_for_request(
                provider=_Window(request_context.model, request_context.model_settings),
                tools=_beside(request_context.model_request_parameters),
            )
        return replace(request_context, messages=_messages(view, rows))

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: ModelResponse) -> ModelResponse:
        """Called by the host after each attempt: the provider's count of tokens corrects later budgets."""
        context = await self.context_of(self._id_of(ctx))
        usage = response.usage
        cached = usage.cache_read_tokens, usage.cache_write_tokens
        fresh = max(0, usage.input_tokens - sum(cached))
        await context.observe_usage(fresh, cache_read=cached[0], cache_write=cached[1])
        return response

    def _id_of(self, ctx: Any) -> str:
        """The name of the run's conversation; all runs are of one where the context was given."""
        return "" if self._context is not None else str(ctx.conversation_id or self._settings.session_id)


class _Window:
    """A model as what tells its window to `get_messages_for_request`."""

    def __init__(self, model: Any, settings: Mapping[str, Any] | None) -> None:
        self.name = str(model.system)
        window, output = model.profile.get("context_window"), (settings or {}).get("max_tokens")
        self._info = SimpleNamespace(id=model.model_name, context_window=window, max_output_tokens=output)

    def get_model_info(self) -> SimpleNamespace:
        return self._info


def _beside(parameters: Any) -> list[dict[str, Any]]:
    """What is sent beside the messages and only takes room: tools and the run's instructions."""
    tools = [*parameters.function_tools, *parameters.output_tools]
    described = [
        {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters_json_schema}
        for tool in tools
    ]
    return [*described, *({"instructions": part.content} for part in parameters.instruction_parts or ())]


class _Row(NamedTuple):
    """A message of the log, and what it was made of."""

    message: Message
    part: Any  # of a request; the whole response
    origin: ModelRequest | None  # the request that holds the part


def _rows(messages: Sequence[ModelMessage]) -> Iterator[_Row]:
    for message in messages:
        if isinstance(message, ModelResponse):
            ids = [getattr(part, "id", None) for part in message.parts]  # a provider refuses one that comes twice
            yield _Row(_named(_response_row(message), ids), message, None)
        else:
            for part in message.parts:
                yield _Row(_named(_request_row(part)), part, message)


def _named(row: Message, ids: Sequence[str | None] = ()) -> Message:
    """The row with a name made of its content: the same in every process, whatever stands before it."""
    return {**row, _NAME: hashlib.blake2b(canonical_json([row, *ids]).encode(), digest_size=12).hexdigest()}


def _request_row(part: Any) -> Message:
    if isinstance(part, UserPromptPart):
        return {"role": "user", "content": _content(part.content)}
    if isinstance(part, ToolReturnPart):
        text = part.model_response_str()
        files = [_block(file) for file in part.files]
        return _result_row(part.tool_call_id, [{"type": "text", "text": text}, *files] if files else text)
    if isinstance(part, RetryPromptPart) and part.tool_name is not None:
        return _result_row(part.tool_call_id, part.model_response())
    if isinstance(part, RetryFeedbackPart | RetryPromptPart):
        return {"role": "user", "content": part.model_response(), "isMeta": True}
    if isinstance(part, SystemPromptPart):
        return {"role": "system", "content": part.content}
    if getattr(part, "part_kind", "") in ("speech", "compaction"):
        return {"role": "user", "content": _as_text(part), "isMeta": True}
    return {"role": "system", "content": _as_text(part)}  # tools, settings and instructions that changed: these stay


def _result_row(call_id: str, content: Any) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def _content(content: str | Sequence[Any]) -> str | list[Message]:
    if isinstance(content, str):
        return content
    if len(content) < 2 and all(isinstance(item, str) for item in content):
        return "".join(content)
    return [_block(item) for item in content if not isinstance(item, CachePoint)]


def _block(item: Any) -> Message:
    """A text, or an image, a sound or a file without its bytes."""
    if isinstance(item, str | TextContent):
        return {"type": "text", "text": item if isinstance(item, str) else item.content}
    if isinstance(item, BinaryContent):
        digest = hashlib.blake2b(item.data, digest_size=12).hexdigest()
        kind = "image" if item.is_image else "file"
        return {"type": kind, "source": {"type": "digest", "media_type": item.media_type, "data": digest}}
    kind = str(getattr(item, "kind", "file"))
    place = str(getattr(item, "url", None) or getattr(item, "file_id", ""))
    return {"type": "image" if kind == "image-url" else "file", "source": {"type": "url", "url": place}}


def _as_text(part: Any) -> str:
    return to_json(part, fallback=repr).decode()


def _response_row(response: ModelResponse) -> Message:
    row: Message = {"role": "assistant", "content": _content([_said(part) for part in response.parts if _speaks(part)])}
    for part in response.parts:
        if isinstance(part, ThinkingPart):
            signs = str(part.provider_name or "").startswith(_SIGN_THE_BEGINNING)
            seal = "signature" if signs else "encrypted_content"
            thought = {"type": "thinking", "thinking": part.content, seal: part.signature or ""}
            row.setdefault("thinking" if signs else "reasoning", []).append(thought)
        elif isinstance(part, ToolCallPart):
            function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
            call = {"id": part.tool_call_id, "type": "function", "function": function}
            row.setdefault("tool_calls", []).append(call)
    return row


def _speaks(part: Any) -> bool:
    return not isinstance(part, ThinkingPart | ToolCallPart)


def _said(part: Any) -> Any:
    if isinstance(part, TextPart | FilePart):
        return part.content
    return _as_text(part)  # tools of the provider, what it has compacted: opaque


def _messages(view: Iterable[Message], rows: Sequence[_Row]) -> list[ModelMessage]:
    """The view in the host's shapes: neighbouring parts of requests make one request."""
    known = {row.message[_NAME]: row for row in rows}
    names = {part.tool_call_id: part.tool_name for row in rows for part in _calls(row.part)}
    messages: list[ModelMessage] = []
    parts: list[_Row] = []
    for message in view:
        row = known.get(message.get(_NAME, ""))
        if message["role"] == "assistant":
            messages += _request(parts)
            parts = []
            messages.append(_response(message, row))
        else:
            parts += _parts(message, row, names)
    return [*messages, *_request(parts)]


def _calls(part: Any) -> list[ToolCallPart]:
    return [one for one in part.parts if isinstance(one, ToolCallPart)] if isinstance(part, ModelResponse) else []


def _request(rows: Sequence[_Row]) -> list[ModelRequest]:
    if not rows:
        return []
    parts = [row.part for row in rows]
    origin = next((row.origin for row in reversed(rows) if row.origin is not None), None)
    if origin is None:
        return [ModelRequest(parts=parts)]
    same = len(parts) == len(origin.parts) and all(a is b for a, b in zip(parts, origin.parts, strict=True))
    return [origin if same else replace(origin, parts=parts)]


def _parts(message: Message, row: _Row | None, names: Mapping[str, str]) -> list[_Row]:
    """The parts of a row that is no answer of the model."""
    if row is not None and (message == row.message or message["role"] == "system"):
        return [row]
    origin = None if row is None else row.origin
    text = _text(message)
    if message["role"] == "tool":
        id = message["tool_call_id"]
        return [_Row(message, ToolReturnPart(names.get(id, "tool"), text, id), origin)]
    if message["role"] == "system":
        return [_Row(message, SystemPromptPart(text), origin)]
    return [_Row(message, UserPromptPart(_user_content(message, row)), origin)]


def _user_content(message: Message, row: _Row | None) -> str | list[Any]:
    """The texts of a user row that a view has changed, and those of its files that are left."""
    content = message["content"]
    items = row.part.content if row is not None and isinstance(row.part, UserPromptPart) else ""
    files = {
        canonical_json(_block(item)): item for item in items if not isinstance(item, str | TextContent | CachePoint)
    }
    if isinstance(content, str) or not files:
        return _text(message)
    return [files.get(canonical_json(block), block.get("text", "")) for block in content]


def _response(message: Message, row: _Row | None) -> ModelResponse:
    """The response of an assistant row, with what the view has left of its parts."""
    if row is None:
        return ModelResponse(parts=[TextPart(_text(message))])
    given: ModelResponse = row.part
    if message == row.message:
        return given
    arguments = {call["id"]: call["function"]["arguments"] for call in message.get("tool_calls", ())}
    is_said = message["content"] == row.message["content"]
    parts: list[Any] = [] if is_said or not (text := _text(message)) else [TextPart(text)]
    for part in given.parts:
        if isinstance(part, ToolCallPart):
            if part.tool_call_id in arguments:
                same = arguments[part.tool_call_id] == part.args_as_json_str()
                parts.append(part if same else replace(part, args=arguments[part.tool_call_id]))
        elif not message.keys().isdisjoint(("thinking", "reasoning")) if isinstance(part, ThinkingPart) else is_said:
            parts.append(part)
    return replace(given, parts=parts or [TextPart("[thinking left out]")])


def _text(message: Message) -> str:
    content = message["content"]
    blocks = [{"text": content}] if isinstance(content, str) else content
    return "\n".join(block["text"] for block in blocks if block.get("text"))
