"""OpenAI Agents SDK: a `call_model_input_filter` that gives each model call the items of a view.

The session of the SDK keeps every item. An item of the Responses API has no place in a chat by itself: what a model
gave in one response, reasoning and parallel calls, is one message of the log, and so is each output. What a view leaves
as it was goes out as the host's own items.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple, Self

import anyio

from summarizing_context.assembly import Options, start_context
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import MessageError, MissingExtraError, SettingsError, briefly
from summarizing_context.messages.validation import Message, canonical_json
from summarizing_context.settings.values import Settings

try:
    from agents.run_config import CallModelData, ModelInputData
except ImportError as error:
    raise MissingExtraError("openai-agents", "the OpenAI Agents SDK is not installed, or too old") from error

Item = Mapping[str, Any]

_NAME = "_items"  # the field of a message that names the items it was made of; never sent and never counted

_TEXTUAL = {"function_call": "arguments", "custom_tool_call": "input"}  # calls whose results are text; what they say

_TRACKER = "server_conversation_tracker"  # as the SDK calls what it has where the server keeps the history

_KEPT_BY_SERVER = (
    "with conversation_id or previous_response_id, the automatic one too, each request holds only what is new, and no "
    "view can shorten what the server keeps. Leave them out and keep the history in a Session, or leave out the filter"
)

_STAYING = ("compaction", "compaction_summary")  # they stand for a past that only the server has


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
        self._context = settings if isinstance(settings, SummarizingContext) else None
        self._owns = self._context is None
        self._settings = settings if isinstance(settings, Settings) else Settings()
        self._known: set[str] | None = None  # names of the messages followed last
        self._agent = ""  # the name of the one that asked last
        self._turn = anyio.Lock()
        if not isinstance(settings, Settings | SummarizingContext | None):
            raise SettingsError(f"{briefly(settings)} is neither Settings nor an open context")
        if options and not self._owns:
            raise SettingsError(f"an open context takes no options; leave out {', '.join(sorted(options))}")
        if unknown := sorted(options.keys() - set(Options.__dataclass_fields__)):
            raise SettingsError(f"no such options: {', '.join(unknown)}; they are those of open_context")
        self._options = Options(**options)

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
        rows = list(_rows(data.model_data.input))
        async with self._turn:
            context = await self._opened()
            await self._check_history(context, rows, data.agent.name)
            await context.follow([row.message for row in rows], keys=[row.message[_NAME] for row in rows])
            self._known = {row.message[_NAME] for row in rows}
            view = await context.get_messages_for_request(tools=_beside(data))
        return ModelInputData(input=list(_items(view, rows)), instructions=data.model_data.instructions)

    async def _opened(self) -> SummarizingContext:
        if self._context is None:
            self._context = await start_context(self._settings, self._options)
        return self._context

    async def _check_history(self, context: SummarizingContext, rows: Sequence[_Row], agent: str) -> None:
        """Refuse what is not the whole history of the conversation that the log holds."""
        called = {call["id"] for row in rows for call in row.message.get("tool_calls", ())}
        results = [row.message["tool_call_id"] for row in rows if row.message["role"] == "tool"]
        if orphans := [id for id in results if id not in called]:
            raise SettingsError(
                f"the input has the output of {briefly(orphans[0])} without its call: {_KEPT_BY_SERVER}"
            )
        if self._known is None or not len(context):
            self._known = {str(message.get(_NAME)) for message in await context.get_messages()}
        first_corrected = len(self._known) == 1 and self._agent in ("", agent)
        if self._known.isdisjoint(row.message[_NAME] for row in rows) and self._known and not first_corrected:
            raise SettingsError(
                "the input has no message in common with the conversation of this filter. Each conversation needs a "
                "filter and a session_id of its own; an agent used as a tool takes over its caller's, unless as_tool "
                "is given a run_config. To begin anew, call clear() of the context"
            )
        self._agent = agent


def _is_kept_by_server() -> bool:
    """Whether the run that calls the filter has its history on the server. No argument tells a filter; the SDK's own
    frames above it do."""
    frame = inspect.currentframe()
    while frame is not None:
        if _TRACKER in frame.f_code.co_varnames:
            return frame.f_locals.get(_TRACKER) is not None
        frame = frame.f_back
    return False


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


class _Row(NamedTuple):
    """A message of the log, and the items that it stands for."""

    message: Message
    items: list[Item]


def _rows(items: Sequence[Any]) -> Iterator[_Row]:
    """What a model gave between two inputs is one message; each input is one."""
    for at, item in enumerate(items):
        if not isinstance(item, Mapping) or not isinstance(item.get("type", item.get("role")), str):
            raise MessageError(f"item {at} is {briefly(item)}; an item is a mapping with a type or a role")
    paired = set(map(_call_id, items)) & set(map(_output_id, items)) - {None}
    said: list[Item] = []
    for item in items:
        if (message := _input_message(item, paired)) is None:
            said.append(item)
            continue
        if said:
            yield _named(_response_message(said, paired), said)
            said = []
        yield _named(message, [item])
    if said:
        yield _named(_response_message(said, paired), said)


def _named(message: Message, items: Sequence[Item]) -> _Row:
    """The row with a name made of its items: the same in every process, whatever stands before it."""
    digest = hashlib.blake2b(canonical_json(items).encode(), digest_size=12).hexdigest()
    return _Row({**message, _NAME: digest}, list(items))


def _kind(item: Item) -> str:
    return str(item.get("type") or "message")


def _input_message(item: Item, paired: Set[str | None]) -> Message | None:
    """The message of an item that no model gave; None for others. `paired` are the ids of calls with an output."""
    kind = _kind(item)
    if kind == "message":
        return None if item.get("role") == "assistant" else {"role": item["role"], "content": _content(item)}
    if kind in _STAYING:
        return {"role": "system", "content": canonical_json(item)}
    id = _output_id(item)
    if id is not None and (id in paired or kind.removesuffix("_output") in _TEXTUAL):
        return {"role": "tool", "tool_call_id": id, "content": _content({"content": item.get("output")})}
    return None


def _content(item: Item) -> str | list[Message]:
    """Text, or blocks in which pictures and files have no bytes."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(block, Mapping) for block in content):
        return [_block(block) for block in content]
    return canonical_json(content)


def _block(block: Item) -> Message:
    if isinstance(text := block.get("text", block.get("refusal")), str):
        return {"type": "text", "text": text}
    return {key: _address(value) for key, value in block.items()}


def _address(value: Any) -> Any:
    """What stands for a file in the log: its address, or a digest of its bytes."""
    if not isinstance(value, str) or len(value) < 256:
        return value
    return "digest:" + hashlib.blake2b(value.encode(), digest_size=12).hexdigest()


def _response_message(items: Sequence[Item], paired: Set[str | None]) -> Message:
    message: Message = {"role": "assistant", "content": ""}
    texts: list[str] = []
    for item in items:
        kind = _kind(item)
        if kind == "reasoning":
            message.setdefault("reasoning", []).append(dict(item))
        elif (id := _call_id(item)) is not None and (id in paired or kind in _TEXTUAL):
            said = item.get(_TEXTUAL.get(kind, "action"))
            arguments = said if kind == "function_call" else canonical_json({"input": said})
            function = {"name": str(item.get("name") or kind), "arguments": arguments}
            message.setdefault("tool_calls", []).append({"id": id, "type": "function", "function": function})
        elif kind == "message":
            texts.append(_text(_content(item)))
        else:
            texts.append(canonical_json(item))
    return {**message, "content": "\n".join(texts)}


def _call_id(item: Item) -> str | None:
    """The id under which the output of a call will come; None for what is no call, or brings its own result."""
    id = item.get("call_id")
    return str(id) if id and _kind(item).endswith("_call") else None


def _output_id(item: Item) -> str | None:
    """The id of the call that an output answers."""
    id = item.get("call_id") or item.get("id")
    return str(id) if id and _kind(item).endswith("_output") else None


def _text(content: str | Sequence[Item]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if isinstance(block.get("text"), str))


def _items(view: Iterable[Message], rows: Sequence[_Row]) -> Iterator[Any]:
    """The view as items."""
    known = {row.message[_NAME]: row for row in rows}
    kinds = {id: _kind(item) for row in rows for item in row.items if (id := _call_id(item)) is not None}
    for message in view:
        row = known.get(message.get(_NAME, ""))
        if row is not None and (message == row.message or message["role"] == "system"):
            yield from row.items
        elif message["role"] == "tool":
            yield from _output(message, row, kinds.get(message["tool_call_id"], "function_call"))
        elif row is not None and message["role"] == "assistant":
            yield from _left_of(message, row)
        else:
            yield {"role": message["role"], "content": _cut_content(message, row)}


def _output(message: Message, row: _Row | None, kind: str) -> Iterator[Item]:
    """The output of a call whose text was cut, or that has none. An output of another shape stays whole."""
    if kind in _TEXTUAL:
        before = row.items[0] if row is not None else {"type": f"{kind}_output", "call_id": message["tool_call_id"]}
        yield {**before, "output": _text(message["content"])}
    elif row is not None:
        yield from row.items


def _left_of(message: Message, row: _Row) -> Iterator[Item]:
    """What a view has left of a response. Without reasoning and ids: a provider binds these to all of it."""
    arguments = {call["id"]: call["function"]["arguments"] for call in message.get("tool_calls", ())}
    before = {call["id"]: call["function"]["arguments"] for call in row.message.get("tool_calls", ())}
    is_said = message["content"] == row.message["content"]
    if not is_said and (text := _text(message["content"])):
        yield {"role": "assistant", "content": text}
    for item in row.items:
        id, kind = _call_id(item), _kind(item)
        bare = {key: value for key, value in item.items() if key != "id"}
        if id not in before:
            if is_said and kind != "reasoning":
                yield bare if kind == "message" else item
        elif id in arguments:
            cut = kind in _TEXTUAL and arguments[id] != before[id]
            yield {**bare, _TEXTUAL[kind]: arguments[id]} if cut else bare


def _cut_content(message: Message, row: _Row | None) -> Any:
    """The content of a message that a view has made or changed; pictures and files as they came."""
    content, files = message["content"], {}
    blocks = row.items[0].get("content") if row is not None else None
    if isinstance(blocks, list):
        files = {canonical_json(_block(block)): block for block in blocks}
    if isinstance(content, str) or not files:
        return _text(content)
    texts = [{"type": "input_text", "text": block.get("text", "")} for block in content]
    return [files.get(canonical_json(block), text) for block, text in zip(content, texts, strict=True)]
