"""OpenAI Agents SDK: a `call_model_input_filter` that gives each model call the items of a view.

The session of the SDK keeps every item. What a view leaves as it was goes out as the host's own items.
"""

from __future__ import annotations

import inspect
from contextlib import AbstractAsyncContextManager
from typing import Any

from summarizing_context.adapters.open_sessions import KEY, Sessions, beside_messages
from summarizing_context.adapters.response_items import COMPACTED, ViewWriter, rows_of
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import MissingExtraError, SettingsError, briefly
from summarizing_context.messages.reading import Message
from summarizing_context.retrieval.tools import COMPACT_TOOL, answer_compact
from summarizing_context.settings import Settings

try:
    from agents.handoffs import get_conversation_history_wrappers
    from agents.run_config import CallModelData, ModelInputData
    from agents.tool import FunctionTool
except ImportError as error:
    raise MissingExtraError("openai-agents", "the OpenAI Agents SDK is not installed, or too old") from error

_KEPT_BY_SERVER = (
    "with conversation_id or previous_response_id, the automatic one too, each request holds only what is new, and no "
    "view can shorten what the server keeps. Leave them out and keep the history in a Session, or leave out the filter"
)


def compact_tool() -> FunctionTool:
    """Return `context_compact` for the tools of an agent: a call says that a task is done, so views cover it."""
    name, about, schema = COMPACT_TOOL.schema().values()

    async def answer(_: Any, arguments: str) -> str:
        return answer_compact(arguments)

    return FunctionTool(name, about, schema, answer, strict_json_schema=False)


class SummarizingFilter(AbstractAsyncContextManager["SummarizingFilter"]):
    """A filter for `RunConfig(call_model_input_filter=...)`, for one conversation.

    It opens a context at the first call and keeps it until `close`, or the end of an `async with`; `options` are those
    of `open_context` but `store`. Raise `SettingsError` for wrong arguments.
    """

    def __init__(self, settings: Settings | None = None, **options: Any) -> None:
        self._sessions = Sessions(settings, **{**options, "sends_blocks_of": "openai"})
        self._known: set[str] | None = None  # names of the messages that the next input may go on from
        self._agent = ""  # the name of the one that asked last

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the context that the first call has opened."""
        await self._sessions.close()

    async def context(self) -> SummarizingContext:
        """Return the open context of the conversation."""
        async with self._sessions.use() as context:
            return context

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the items of a view; called by the host before each model call.

        Raise `SettingsError` for what is no whole history of the conversation, and `MessageError` for what is no item.
        """
        # no argument tells whether the server keeps the history of the run that calls; the SDK's own frames do
        frame = inspect.currentframe()
        while frame is not None and "server_conversation_tracker" not in frame.f_code.co_varnames:
            frame = frame.f_back
        if frame is not None and frame.f_locals.get("server_conversation_tracker") is not None:
            raise SettingsError(f"this run takes part in a conversation of the server: {_KEPT_BY_SERVER}")
        rows = list(rows_of(data.model_data.input))
        called = {call["id"] for row in rows for call in row.message.get("tool_calls", ())}
        for row in rows:
            if row.message["role"] == "tool" and (id := row.message["tool_call_id"]) not in called:
                raise SettingsError(f"the input has the output of {briefly(id)} without its call: {_KEPT_BY_SERVER}")

        names, agent = {row.message[KEY] for row in rows}, data.agent.name
        is_nested = any(_is_nested(row.message) for row in rows)
        async with self._sessions.use() as context:
            known = self._known
            if known is None or not len(context):
                messages = await context.get_messages()
                known = set() if any(map(_is_nested, messages)) else {str(one.get(KEY)) for one in messages}
            first_corrected = len(known) == 1 and self._agent in ("", agent)
            # what the server has compacted stands for all of the conversation that it leaves out
            compacted = any(row.items[0].get("type") in COMPACTED and row.message[KEY] not in known for row in rows)
            if known and known.isdisjoint(names) and not (first_corrected or is_nested or compacted):
                raise SettingsError(
                    "the input has no message in common with the conversation of this filter. Each conversation needs "
                    "a filter and a session_id of its own; an agent used as a tool takes over its caller's, unless "
                    "as_tool is given a run_config. To start over, call clear() of the context"
                )
            self._agent = agent
            await context.follow([row.message for row in rows], keys=[row.message[KEY] for row in rows])
            # a history that a handoff has nested stands for that of before, which a session may bring again
            self._known = names | known if is_nested else names

            instructions = data.model_data.instructions
            beside = beside_messages(data.agent.tools, "params_json_schema", [instructions])
            view = await context.get_messages_for_request(tools=beside)
        writer = ViewWriter(rows)
        items = [item for message in view for item in writer.items(message)]
        return ModelInputData(input=items, instructions=instructions)


summarizing_filter = SummarizingFilter


def _is_nested(message: Message) -> bool:
    """Return whether the SDK has written a history into it, as `nest_handoff_history` asks for."""
    content = message.get("content") if message["role"] == "assistant" else ""
    return isinstance(content, str) and all(mark in content for mark in get_conversation_history_wrappers())
