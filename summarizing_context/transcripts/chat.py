"""Lists of messages in the shape of a provider, one a line or as one value; dumps of LangChain; events of Copilot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts.base import Compaction, Content, Draft, Fields, Row, fields, listed, tool_call

_LANGCHAIN_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
_CHUNK = "MessageChunk"


def read_messages(content: Content) -> Iterator[Draft]:
    """Yield one session with a message from each line, without the keys that begin with `_`."""
    if content.is_document:
        needed = "it needs a list of messages, or an object with one"
        raise TranscriptError(f"{content.path}:1: no known format of a transcript; {needed}")
    draft = Draft(content.stem)
    for line, value in content.rows:
        draft.add({key: item for key, item in value.items() if not key.startswith("_")}, line)
    yield draft


def read_finetune(content: Content) -> Iterator[Draft]:
    """Yield a session for each line."""
    for number, (line, value) in enumerate(content.rows, start=1):
        draft = Draft(f"{content.stem}:{line or number}")
        if not isinstance(value.get("messages"), list):
            content.fault(line, "a line without a list `messages`; each needs one")
        _add_all(content, draft, [(line, message) for message in listed(value.get("messages"))])
        draft.skipped.update(f"key:{key}" for key in value if key not in ("messages", "system"))
        yield draft


def read_list(content: Content) -> Iterator[Draft]:
    """Yield the messages as they are, after the system prompt that stands beside them; also one a line."""
    if not content.is_document:
        yield from read_messages(content)
        return
    draft = Draft(content.stem)
    request = fields(content.value)
    if request.get("system"):
        draft.add({"role": "system", "content": request["system"]})
    _add_all(content, draft, content.records("messages"))
    draft.skipped.update(f"key:{key}" for key in request if key not in ("messages", "system"))
    yield draft


def _add_all(content: Content, draft: Draft, messages: Sequence[tuple[int, Any]]) -> None:
    for index, (line, message) in enumerate(messages):
        if not message or not isinstance(message, dict):
            content.fault(line, f"message {index + 1} is not an object; each needs a role and a content")
        else:
            draft.add({key: item for key, item in message.items() if not key.startswith("_")}, line)


def langchain_rows(content: Content) -> Sequence[Row]:
    """Return the records of dumps, also of the constructor of a list of messages."""
    inner = fields(content.value).at("kwargs")
    return (replace(content, value=inner) if inner else content).records("messages")


def read_langchain(content: Content) -> Iterator[Draft]:
    """Yield the dumps of `messages_to_dict`, `dumpd` and `model_dump` as one session."""
    draft = Draft(content.stem)
    for index, (line, value) in enumerate(langchain_rows(content)):
        dump = langchain_fields(value)
        if dump is None:
            what = "a record" if line else f"record {index + 1}"
            content.fault(line, f"{what} is not a message of LangChain; it has no type")
            continue
        kind = dump["type"]
        role = dump.get("role") if kind == "chat" else _LANGCHAIN_ROLES.get(kind)
        if not isinstance(role, str):
            draft.skip(kind)
            continue
        invalid, raw = listed(dump.get("invalid_tool_calls")), dump.at("additional_kwargs")
        calls = [tool_call(call.get("id"), call.get("name"), call.get("args")) for call in dump.each("tool_calls")]
        if not calls and not invalid:  # older dumps have only the provider's own
            single = raw.at("function_call")  # which its result names
            asked = [(call.get("id"), call.at("function")) for call in raw.each("tool_calls")]
            asked = asked or ([(single.get("name"), single)] if single else [])
            calls = [tool_call(call_id, call.get("name"), call.get("arguments")) for call_id, call in asked]
        said = dump.get("content")
        if isinstance(said, list) and calls:  # calls among the blocks stand in `tool_calls` too
            kinds = ("tool_use", "tool_call", "function_call")
            said = [block for block in said if fields(block).get("type") not in kinds]
        message = {"role": role, "content": "" if said is None else said, **({"tool_calls": calls} if calls else {})}
        if role == "tool":
            message["tool_call_id"] = str(dump.get("tool_call_id") or dump.get("name") or "")
        draft.add(message, line)
        draft.skip("invalid tool call", count=len(invalid))
    yield draft


def langchain_fields(value: Fields) -> Fields | None:
    """Return the fields of a message with its `type`, whichever way it was dumped; None for anything else."""
    ids, inner = listed(value.get("id")), value.at("kwargs")
    if value.get("lc") == 1 and "kwargs" in value:
        name = str(ids[-1]) if ids else ""
        kind = name.removesuffix(_CHUNK).removesuffix("Message").lower()
        return Fields({**inner, "type": kind}) if name.endswith(("Message", _CHUNK)) else None
    kind = value.text("type")
    kind = kind.removesuffix(_CHUNK).lower() if kind.endswith(_CHUNK) else kind  # of a streamed `ai`
    if kind and "content" in value.at("data"):
        return Fields({**value.at("data"), "type": kind})
    is_dumped = (kind in _LANGCHAIN_ROLES or kind == "remove") and "role" not in value
    return Fields({**value, "type": kind}) if (is_dumped or kind == "chat") and "content" in value else None


def read_copilot(content: Content) -> Iterator[Draft]:
    """Yield the session of a file, and each of its child agents after it. What the user took back is no message."""
    starts = [value.at("data") for _, value in content.rows if value.get("type") == "session.start"]
    main = Draft(str((starts[0] if starts else Fields()).get("sessionId") or content.stem))
    drafts = {"": main}
    names = [value.text("id") for _, value in content.rows]
    gone: set[str] = set()
    for at, (_, value) in enumerate(content.rows):
        data = value.at("data")
        first = data.text("upToEventId")
        if value.get("type") == "session.snapshot_rewind" and "eventIds" in data:
            gone |= {name for name in listed(data.get("eventIds")) if isinstance(name, str)}
        elif value.get("type") == "session.snapshot_rewind" and first in names[:at]:
            gone |= {*names[names.index(first) : at]}  # older versions named only the first event
    for line, value in content.rows:
        agent, kind, data = str(value.get("agentId") or ""), value.text("type"), value.at("data")
        draft = drafts.setdefault(agent, Draft(f"{main.session_id}:{agent}"))
        if value.text("id") in gone - {""}:
            draft.skip("rewound")
        elif kind == "system.message":
            draft.say(str(data.get("role") or "system"), data.text("content"), line=line)
        elif kind == "user.message":
            marks = {"isSidechain": True} if agent else {"source": "hook"} if data.get("source") else None
            draft.say("user", data.text("content"), line=line, marks=marks)
        elif kind == "assistant.message":
            asked = data.each("toolRequests")
            calls = [tool_call(call.get("toolCallId"), call.get("name"), call.get("arguments")) for call in asked]
            draft.say("assistant", data.text("content"), calls, line)
        elif kind == "tool.execution_complete":
            said = data.at("result").get("content") or data.at("error").get("message")
            draft.answer(data.get("toolCallId"), str(said or ""), line)
        elif kind == "session.compaction_complete" and data.get("success"):
            sizes = data.count("preCompactionTokens"), data.count("postCompactionTokens")
            trigger = data.text("trigger") or None
            draft.compactions.append(Compaction(len(draft.messages), trigger, *sizes, data.text("summaryContent")))
        else:
            draft.skip(kind)
    yield from drafts.values()
