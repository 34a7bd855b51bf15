"""The providers' protocols: a request as rows of a log, and the way back to the client's own bytes.

Pure. A row keeps the JSON that the client sent for it. Where a view shows the row as it is, these bytes go out again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import Any, NamedTuple

import msgspec

from summarizing_context.adapters.open_sessions import KEY, BoundThinking, bound_thinking, digest_of, dropping, keyed
from summarizing_context.adapters.response_items import COMPACTED, SERVER_WORK, ViewWriter, rows_of
from summarizing_context.adapters.response_items import Row as ItemRow
from summarizing_context.evaluation.laws import view_parts
from summarizing_context.messages.reading import Message, encodable, message_text_parts, read_message
from summarizing_context.messages.rendering import render_messages
from summarizing_context.messages.text import fence
from summarizing_context.models import field_of

HOOK = {"source": "hook"}  # the metadata of rows that a client puts in by itself

Fields = dict[str, msgspec.Raw]  # of a request, as JSON
Out = bytes | Message  # a message as the client wrote it, or as a view has it


class PassUnchanged(Exception):
    """This request is none that a view may change; the message says why."""


class Row(NamedTuple):
    """A message of the log, and the JSON of the client's that it stands for."""

    message: Message
    sent: Sequence[bytes]


class Shown(NamedTuple):
    """A message of a view, the place of the row that it stands for, and whether it shows that just as it is."""

    message: Message
    place: int | None
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as far as its view goes."""

    fields: Fields
    lead: Sequence[bytes]  # of the history: what stays in front, as it came
    rows: Sequence[Row]
    beside: Sequence[Mapping[str, Any]]  # what is sent beside the rows, and only takes room
    model: str
    has_tools: bool
    opening: Sequence[Row] = ()  # of the history: what stays before the model's first words
    must_change: bool = False  # the provider would refuse it as it is, and with a view of all rows it would not
    bound_thinking: BoundThinking = "kept"
    cache: str | None = None  # how long the provider is asked to keep the beginning, in its words
    compact: bool | None = None  # True: the client replaces its history by what is answered; False: later, perhaps
    window: int | None = None  # of the model, in tokens
    stands_for: tuple[str, int, str] | None = None  # the first row does: a session, how many messages, their digest
    log: Sequence[Message] = ()  # as it is kept, where the client compacts
    session: str = ""
    drops_thinking: bool = False  # the provider is asked to drop signed thinking that it would refuse, by a header too

    @property
    def max_output(self) -> int | None:
        values = [decoded(self.fields, name) for name in ("max_completion_tokens", "max_tokens", "max_output_tokens")]
        return next((value for value in values if type(value) is int and value > 0), None)


def read_fields(body: bytes) -> Fields:
    """Return the fields of a request, with U+FFFD for halves of characters, which none reads. Raise `ValueError`."""
    try:
        return msgspec.json.decode(body, type=Fields)
    except msgspec.DecodeError:
        return msgspec.json.decode(msgspec.json.encode(encodable(json.loads(body.decode()))), type=Fields)


def items_of(fields: Fields, name: str) -> list[bytes]:
    """Return the JSON of each item of a field. Raise `PassUnchanged` where it is no list, or too long a one."""
    if name not in fields or not bytes(fields[name]).startswith(b"["):
        raise PassUnchanged(f"{name} is not a list")
    items = [bytes(item) for item in msgspec.json.decode(fields[name], type=list[msgspec.Raw])]
    if len(items) > 20_000:
        raise PassUnchanged("the history has too many items to be read at once")
    return items


def row_of(message: Message, data: bytes) -> Row:
    """Return the row of a message, whose key is made of all that is sent of it. A field of null says nothing: in a
    session that Copilot resumes, such fields are missing."""
    message = {name: value for name, value in message.items() if value is not None or name == "content"}
    return Row(keyed(message, bare(message)), (data,))


def decoded(fields: Fields, name: str) -> Any:
    """Return the value of a field; None where it is missing."""
    return msgspec.json.decode(fields[name]) if name in fields else None


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list, whatever else stands in it."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def kept_for(fields: Fields) -> str | None:
    """Return how long OpenAI is asked to keep the beginning of a request."""
    wanted = field_of(decoded(fields, "prompt_cache_options"), "ttl") or decoded(fields, "prompt_cache_retention")
    return str(wanted or "").replace("-", "_") or None


def bare(message: Mapping[str, Any]) -> Message:
    """Return a view's message without what is never sent."""
    return {name: value for name, value in message.items() if not name.startswith("_") and name != "metadata"}


def written(asked: Asked, shown: Sequence[Shown]) -> list[Out]:
    """Return the messages of a view, those that it shows whole as the client wrote them."""
    return [asked.rows[at].sent[0] if whole and at is not None else bare(message) for message, at, whole in shown]


def encoded(fields: Mapping[str, Any], name: str, items: Sequence[Out]) -> bytes:
    """Return the body of a request whose list `name` has other items; all else is as the client wrote it."""
    history = [msgspec.Raw(item) if isinstance(item, bytes) else item for item in items]
    return msgspec.json.encode({**fields, name: history})


class Chat:
    """OpenAI's Chat Completions, as many providers speak them: the system prompt stands in front of `messages`."""

    name = "chat"

    def read(self, fields: Fields) -> Asked:
        """Return a request, from the JSON of its fields. Raise `PassUnchanged`, and `ValueError` for no request."""
        rows = [row_of(msgspec.json.decode(item), item) for item in items_of(fields, "messages")]
        lead = list(takewhile(lambda row: row.message["role"] in ("system", "developer"), rows))
        tools = objects(decoded(fields, "tools")) + objects(decoded(fields, "functions"))
        model = str(decoded(fields, "model") or "")
        return Asked(
            fields=fields,
            lead=[row.sent[0] for row in lead],
            rows=rows[len(lead) :],
            beside=[*(row.message for row in lead), *tools],
            model=model,
            has_tools=bool(tools),
            bound_thinking=bound_thinking(model),  # of Anthropic's models behind a gateway
            cache=kept_for(fields),
        )

    def write(self, asked: Asked, shown: Sequence[Shown]) -> bytes:
        """Return the body of the same request with a view of its rows."""
        return encoded(asked.fields, "messages", [*asked.lead, *written(asked, shown)])


_MARK = "cache_control"
_EFFORT = "output_config"  # of a message of the system: holds from there on
_MAX_MARKS = 4  # of a request


class Anthropic:
    """Anthropic's Messages: content in blocks, the system prompt beside the messages, marks of what is to be cached.

    Clients move their marks from message to message, so marks enter neither keys nor the log; a view gets two of its
    own. Providers refuse a fifth mark, and one of an hour behind one of five minutes.

    What a client's system says before the model's first words stays in every view: behind the user and before the
    model, where providers allow it. Blocks of thinking that the provider is to drop are sent all the same: without them
    the beginning would change once more.
    """

    name = "anthropic"

    def read(self, fields: Fields) -> Asked:
        if decoded(fields, "thread") is not None:
            raise PassUnchanged("with a thread the server keeps the history")
        system, tools = decoded(fields, "system"), objects(decoded(fields, "tools"))
        prompt = [{"type": "text", "text": system}] if isinstance(system, str) else objects(system)
        marks = [block[_MARK] for block in _marked_blocks([*tools, *prompt])]

        # rows without marks, behind the server's last compaction, which stands for all before it unless it has failed
        rows, start = [], 0
        for data in items_of(fields, "messages"):
            message = msgspec.json.decode(data)
            content = message.get("content") if isinstance(message, dict) else None
            marks += [block.pop(_MARK) for block in _marked_blocks(content)]
            blocks = objects(content)
            if len(blocks) == 1 and blocks == content and blocks[0].keys() == {"type", "text"}:
                message["content"] = blocks[0]["text"]  # as clients write the same without a mark
            row = row_of(message, data)
            if message["role"] == "system":  # a reminder among the messages, which the client wrote by itself
                row.message["metadata"] = HOOK
            rows.append(row)
            if any(block.get("type") == "compaction" and block.get("content") is not None for block in blocks):
                start = len(rows)
        if rows and start == len(rows):
            raise PassUnchanged("the server's own compaction ends the history")

        # what the system says before the model's first words
        end = next((at for at in range(start, len(rows)) if rows[at].message["role"] == "assistant"), len(rows))
        opening = [row for row in rows[start:end] if row.message["role"] == "system"]
        others = [row for row in rows[start:end] if row.message["role"] != "system"]
        if not others:
            opening, others = [], rows[start:end]
        marks += [auto] if (auto := decoded(fields, _MARK)) else []
        is_short = [mark.get("ttl") != "1h" for mark in marks]
        model = str(decoded(fields, "model") or "")
        return Asked(
            fields=fields,
            lead=[row.sent[0] for row in rows[:start]],
            opening=opening,
            rows=[*others, *rows[end:]],
            beside=[*prompt, *tools, *(row.message for row in [*rows[max(0, start - 1) : start], *opening])],
            model=model,
            has_tools=bool(tools),
            must_change=len(marks) > _MAX_MARKS or is_short != sorted(is_short),
            bound_thinking=bound_thinking(model, decoded(fields, "thinking"), may_ask=True),
            cache=marks[-1].get("ttl") if marks else None,  # as the view's own marks
        )

    def write(self, asked: Asked, shown: Sequence[Shown]) -> bytes:
        items, messages = written(asked, shown), [one.message for one in shown]
        header = next((item for item, message in zip(items, messages, strict=True) if KEY not in message), None)

        # the opening, with the effort that was set last in what does not stand behind
        at = next((at for at, message in enumerate(messages) if message["role"] == "assistant"), len(items))
        said: list[Out] = [row.sent[0] for row in asked.opening]
        behind = {message.get(KEY) for message in messages[at:]}
        left = (row.message for row in asked.rows if row.message[KEY] not in behind)
        efforts = [message[_EFFORT] for message in left if _EFFORT in message]
        if said or efforts:
            if at and messages[at - 1]["role"] == "system":  # two may not stand beside each other
                said.append(items.pop(at := at - 1))
            said += [{"role": "system", "content": [], _EFFORT: effort} for effort in efforts[-1:]]
            if len(said) > 1:  # of their efforts the last holds
                parts = list(map(_copied, said))
                one = {name: value for part in parts for name, value in part.items() if name == _EFFORT}
                said = [{"role": "system", "content": [block for part in parts for block in _blocks(part)], **one}]
            items.insert(at, said[0])

        # ours are the marks at the end of the header, and of all unless a field of the client's stands for that
        fields, history = asked.fields, [*asked.lead, *items]
        auto, ours = decoded(fields, _MARK), list[dict[str, Any]]()
        for at, item in enumerate(history):
            is_end = item is header or (not auto and at == len(history) - 1)
            if is_end or (isinstance(item, bytes) and _MARK.encode() in item):
                message = _copied(item)
                theirs = [block.pop(_MARK) for block in _marked_blocks(message.get("content"))]
                markable = ("text", "image", "document", "tool_use", "tool_result")
                blocks = _blocks(message) if is_end else []
                last = [block for block in blocks if block.get("type") in markable and block.get("text") != ""][-1:]
                if last:
                    message["content"] = blocks
                ours += last
                history[at] = message if theirs or last else item

        # of its tools and system prompt as many as there is room for; what lasts for an hour first
        beside: dict[str, Any] = {name: decoded(fields, name) for name in ("tools", "system") if name in fields}
        marked = [block for value in beside.values() for block in _marked_blocks(value)]
        spare = max(0, len(marked) + len(ours) + bool(auto) - _MAX_MARKS)
        for block in marked[:spare]:
            del block[_MARK]
        is_short, own_mark = False, auto or {"type": "ephemeral"} | ({"ttl": asked.cache} if asked.cache else {})
        for block in [*marked[spare:], *ours, *([beside] if auto else [])]:
            mark = block.get(_MARK) or own_mark
            is_short = is_short or mark.get("ttl") != "1h"
            block[_MARK] = {"type": "ephemeral"} if is_short and mark.get("ttl") == "1h" else mark
        changed = {name: value for name, value in beside.items() if value != decoded(fields, name)}
        if asked.drops_thinking:
            changed["thinking"] = dropping(decoded(fields, "thinking"))
        return encoded({**fields, **changed}, "messages", history)


def _copied(item: Out) -> Message:
    copied: Message = msgspec.json.decode(item if isinstance(item, bytes) else msgspec.json.encode(item))
    return copied


def _blocks(message: Message) -> list[dict[str, Any]]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if content and isinstance(content, str) else objects(content)


def _marked_blocks(blocks: object) -> Iterator[dict[str, Any]]:
    """Yield the blocks or tools with a mark, those inside of others too, in the order of the request."""
    for block in objects(blocks):
        yield from _marked_blocks(field_of(block.get("source"), "content"))
        yield from _marked_blocks(block.get("content"))
        if isinstance(block.get(_MARK), dict):
            yield block


class Responses:
    """OpenAI's Responses: a list of items, of which what a model gave in one response is one message of the log. The
    system prompt is `instructions`, and developer items in front."""

    name = "responses"

    def read(self, fields: Fields) -> Asked:
        for name in ("previous_response_id", "conversation"):
            if decoded(fields, name) is not None:
                raise PassUnchanged(f"with {name} the server keeps the history")
        data = items_of(fields, "input")
        items: list[Any] = [msgspec.json.decode(item) for item in data]
        kinds, roles = ([field_of(item, name) for item in items] for name in ("type", "role"))
        if not set(SERVER_WORK).isdisjoint(kinds):
            raise PassUnchanged("the server is asked to look up or to compact items")
        # in front: what the server has compacted, and the client's own instructions and tools behind it
        start = max((at + 1 for at, kind in enumerate(kinds) if kind in COMPACTED), default=0)
        while start < len(items) and (kinds[start] == "additional_tools" or roles[start] in ("system", "developer")):
            start += 1
        if start == len(items):
            raise PassUnchanged("there is nothing behind what stays in front")
        rows, at = list[Row](), start
        for message, own in rows_of(items[start:]):
            is_told = message["role"] in ("system", "developer") and own[0].get("type", "message") == "message"
            rows.append(Row(message | ({"metadata": HOOK} if is_told else {}), data[at : at + len(own)]))
            at += len(own)
        tools, instructions = objects(decoded(fields, "tools")), decoded(fields, "instructions")
        prompt = [{"instructions": instructions}] if isinstance(instructions, str) else []
        return Asked(
            fields=fields,
            lead=data[:start],
            rows=rows,
            beside=[*prompt, *tools, *items[:start]],
            model=str(decoded(fields, "model") or ""),
            has_tools=bool(tools) or "additional_tools" in kinds,
            cache=kept_for(fields),
        )

    def write(self, asked: Asked, shown: Sequence[Shown]) -> bytes:
        changed = [one.message for one in shown if not one.is_whole]
        keys = {message.get(KEY) for message in changed if KEY in message or message["role"] != "user"}
        rows = [row for row in asked.rows if row.message["role"] != "tool" or row.message[KEY] in keys] if keys else []
        writer = ViewWriter([ItemRow(row.message, [msgspec.json.decode(item) for item in row.sent]) for row in rows])
        items: list[Out] = []
        for message, at, is_whole in shown:
            items += asked.rows[at].sent if is_whole and at is not None else writer.items(message)
        return encoded(asked.fields, "input", [*asked.lead, *items])


Dialect = Chat | Anthropic | Responses


# Plug-ins of clients ask for the view of a history in place of a request that goes on. A plug-in sends its history as a
# request of Chat Completions, and gets a list back in which `{"at": 7}` is its own message at that place, with a
# `content` where the view shows it shorter. All else is said by us.
#
# With `compact`, the client wants to replace its history for good. Then all but the newest messages are one text, whose
# first line names the log, how many of its messages the text stands for, and a digest of these. Where a history begins
# with that line, the log goes on: these messages are read in its place. So a session also goes on in another client.
# A message that a client has not itself is shown as a record, in a fence: a tool's output never speaks for the user.

_LINE = re.compile(
    r"\"?\[summarizing-context: the first (\d{1,9}) messages of session ([A-Za-z0-9._:-]{1,200}), "
    r"as ([0-9a-f]{12})\](?:\n|$)"
)


def handover_line(session: str, covered: Sequence[Message]) -> str:
    """Return the line that begins a text which stands for the first messages of a log."""
    return f"[summarizing-context: the first {len(covered)} messages of session {session}, as {log_digest(covered)}]"


_FIRST = (
    "This work was begun in another session. What follows is its past as far as it matters: summaries, then the newest "
    "messages as they were. Tools that are named there may be called otherwise here."
)
_LAST = "Say in two sentences where the work stands, and wait for what to do next."


def first_prompt(session: str, view: Sequence[Message], log: Sequence[Message]) -> str:
    """Return the prompt by which a client goes on with a session, of which these are the view and the whole log."""
    texts = view_texts(view, [part in ("header", "block") for part in view_parts(view, log)])
    return "\n\n".join([handover_line(session, log), _FIRST, *texts, _LAST])


def log_digest(messages: Sequence[Message]) -> str:
    return digest_of(msgspec.json.encode(list(messages), order="deterministic"))[:12]


class Plugin(Chat):
    """The history of a client that asks from inside."""

    def read(self, fields: Fields) -> Asked:
        asked = super().read(fields)
        first = asked.rows[0].message.get("content") if asked.rows else None
        found = _LINE.match(first) if isinstance(first, str) else None
        return replace(
            asked,
            compact=decoded(fields, "compact") is True if "compact" in fields else None,
            window=decoded(fields, "context_window"),
            stands_for=None if found is None else (found[2], int(found[1]), found[3]),
        )

    def write(self, asked: Asked, shown: Sequence[Shown]) -> bytes:
        """Return the answer to the plug-in."""
        old = 0 if asked.stands_for is None else asked.stands_for[1]  # messages that the client has not
        lead = len(asked.lead) + (1 if old else 0) - old

        # our own texts: the header, blocks, and what was put in for messages that the client has
        messages = [one.message for one in shown]
        parts = zip(shown, view_parts(messages, [row.message for row in asked.rows]), strict=True)
        ours = [one.place is None and (part in ("header", "block") or not old) for one, part in parts]

        # of a compaction, all before the newest messages is one text
        said: list[dict[str, Any]] = []
        start = 0
        if asked.compact:
            start, at = len(shown), len(asked.rows)
            while start and shown[start - 1].place == at - 1 >= max(1, old):
                start, at = start - 1, at - 1
            texts = [handover_line(asked.session, asked.log[:at]), *view_texts(messages[:start], ours)]
            said.append({"role": "user", "content": "\n\n".join(texts)})
        places = range(start, len(shown))
        for is_own, run in groupby(places, lambda at: (place := shown[at].place) is not None and place >= old):
            held = list(run)
            if is_own:
                for message, place, is_whole in (shown[at] for at in held):
                    said.append({"at": lead + (place or 0)} | ({} if is_whole else {"content": _text(message)}))
            elif texts := view_texts([messages[at] for at in held], [ours[at] for at in held]):
                said.append({"role": "user", "content": "\n\n".join(texts)})
        return msgspec.json.encode({"messages": said})


def view_texts(messages: Sequence[Message], ours: Sequence[bool]) -> list[str]:
    """Return our own texts as they are, and messages between them as records, without those of the system."""
    texts: list[str] = []
    for is_ours, run in groupby(zip(messages, ours, strict=False), lambda one: one[1]):
        held = [message for message, _ in run if message["role"] not in ("system", "developer")]
        if is_ours:
            texts += map(_text, held)
        elif held:
            texts.append(fence("session_record", render_messages([read_message(message) for message in held])))
    return [text for text in texts if text]


def _text(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "\n".join(message_text_parts(message))
