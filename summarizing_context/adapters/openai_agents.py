"""OpenAI Agents SDK: a `call_model_input_filter` that gives each model call the items of a view.

The session of the SDK keeps every item. What a view leaves as it was goes out as the host's own items.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Self

import anyio

from summarizing_context.adapters.open_sessions import read_arguments
from summarizing_context.adapters.response_items import NAME, Row, items_of, rows_of
from summarizing_context.assembly import start_context
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import MissingExtraError, SettingsError, briefly
from summarizing_context.messages.validation import Message
from summarizing_context.settings.values import Settings

try:
    from agents.handoffs import get_conversation_history_wrappers
    from agents.run_config import CallModelData, ModelInputData
except ImportError as error:
    raise MissingExtraError("openai-agents", "the OpenAI Agents SDK is not installed, or too old") from error

_TRACKER = "server_conversation_tracker"  # as the SDK calls what it has where the server keeps the history

_KEPT_BY_SERVER = (
    "with conversation_id or previous_response_id, the automatic one too, each request holds only what is new, and no "
    "view can shorten what the server keeps. Leave them out and keep the history in a Session, or leave out the filter"
)


def summarizing_filter(settings: Settings | SummarizingContext | None = None, **options: Any) -> SummarizingFilter:
    """A filter for `RunConfig(call_model_input_filter=...)`, for one conversation.

    Given an open context, it leaves closing to its owner. Given `settings`, or nothing, it opens a context at the first
    call and keeps it until `close`, or the end of an `async with`; `options` are those of `open_context`.
    Raises `SettingsError` for wrong arguments.
    """
    return SummarizingFilter(settings, **options)


class SummarizingFilter:
    """What `summarizing_filter` makes."""

    def __init__(self, settings: Settings | SummarizingContext | None = None, **options: Any) -> None:
        self._context, self._settings, self._options = read_arguments(settings, options)
        self._owns = self._context is None
        self._known: set[str] | None = None  # names of the messages that the next input may go on from
        self._agent = ""  # the name of the one that asked last
        self._turn = anyio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the context that the first call has opened. A given one stays open."""
        async with self._turn:
            if self._owns and self._context is not None:
                await self._context.close()
                self._context, self._known = None, None

    async def context(self) -> SummarizingContext:
        """The open context of the conversation."""
        async with self._turn:
            return await self._opened()

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Called by the host before each model call. Raises `SettingsError` for what is no whole history of the
        conversation, and `MessageError` for what is no item."""
        if _is_kept_by_server():
            raise SettingsError(f"this run takes part in a conversation of the server: {_KEPT_BY_SERVER}")
        rows = list(rows_of(data.model_data.input))
        async with self._turn:
            context = await self._opened()
            known = await self._check_history(context, rows, data.agent.name)
            await context.follow([row.message for row in rows], keys=[row.message[NAME] for row in rows])
            self._known = known
            view = await context.get_messages_for_request(tools=_beside(data))
        return ModelInputData(input=list(items_of(view, rows)), instructions=data.model_data.instructions)

    async def _opened(self) -> SummarizingContext:
        if self._context is None:
            self._context = await start_context(self._settings, self._options)
        return self._context

    async def _check_history(self, context: SummarizingContext, rows: Sequence[Row], agent: str) -> set[str]:
        """Refuse what is not the whole history of the conversation that the log holds; the names that the next one may
        go on from. A history that a handoff has nested stands for that of before, which a session may bring again."""
        called = {call["id"] for row in rows for call in row.message.get("tool_calls", ())}
        results = [row.message["tool_call_id"] for row in rows if row.message["role"] == "tool"]
        if orphans := [id for id in results if id not in called]:
            raise SettingsError(
                f"the input has the output of {briefly(orphans[0])} without its call: {_KEPT_BY_SERVER}"
            )
        if self._known is None or not len(context):
            messages = await context.get_messages()
            self._known = set() if any(map(_is_nested, messages)) else {str(one.get(NAME)) for one in messages}
        names = {row.message[NAME] for row in rows}
        is_nested = any(_is_nested(row.message) for row in rows)
        first_corrected = len(self._known) == 1 and self._agent in ("", agent)
        if self._known.isdisjoint(names) and self._known and not first_corrected and not is_nested:
            raise SettingsError(
                "the input has no message in common with the conversation of this filter. Each conversation needs a "
                "filter and a session_id of its own; an agent used as a tool takes over its caller's, unless as_tool "
                "is given a run_config. To begin anew, call clear() of the context"
            )
        self._agent = agent
        return names | self._known if is_nested else names


def _is_kept_by_server() -> bool:
    """Whether the run that calls the filter has its history on the server. No argument tells a filter; the SDK's own
    frames above it do."""
    frame = inspect.currentframe()
    while frame is not None:
        if _TRACKER in frame.f_code.co_varnames:
            return frame.f_locals.get(_TRACKER) is not None
        frame = frame.f_back
    return False


def _is_nested(message: Message) -> bool:
    """Whether the SDK has written a history into it, as `nest_handoff_history` asks for."""
    content = message.get("content") if message["role"] == "assistant" else ""
    return isinstance(content, str) and all(mark in content for mark in get_conversation_history_wrappers())


def _beside(data: CallModelData[Any]) -> list[Message]:
    """What is sent beside the items and only takes room: instructions, and the tools that the agent itself has."""
    tools = [
        {
            "name": str(getattr(tool, "name", "")),
            "description": str(getattr(tool, "description", "")),
            "parameters": getattr(tool, "params_json_schema", {}),
        }
        for tool in data.agent.tools
    ]
    instructions = data.model_data.instructions
    return [*tools, {"instructions": instructions}] if instructions else tools
