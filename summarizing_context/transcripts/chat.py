"""Lists of messages in the shape of a provider, one a line or as one value; dumps of LangChain; events of Copilot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts.base import Content, Draft, Record, listed, record, tool_call

_LANGCHAIN_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
_CHUNK = "MessageChunk"


def read_messages(content: Content) -> Iterator[Draft]:
    """Yield one session with a message from each line."""
    if content.is_document:
        needed = "it needs a list of messages, or an object with one"
        raise TranscriptError(f"{content.path}:1: no known format of a transcript; {needed}")
    yield from read_list(content)


def read_finetune(content: Content) -> Iterator[Draft]:
    """Yield a session for each line."""
    for number, row in enumerate(content.rows, start=1):
        if not isinstance(row.get("messages"), list):
            content.fault(row.line, "a line without a list `messages`; each needs one")
        draft = Draft(f"{content.stem}:{row.line or number}", row.line)
        yield _read_request(content, draft, row, [record(item, row.line) for item in listed(row.get("messages"))])


def read_list(content: Content) -> Iterator[Draft]:
    """Yield the messages as they are, after the system prompt that stands beside them; also one a line."""
    yield _read_request(content, Draft(content.stem), record(content.value), content.records("messages"))


def _read_request(content: Content, draft: Draft, request: Record, messages: Sequence[Record]) -> Draft:
    """Add the messages of a request, without the keys that begin with `_`."""
    if request.get("system"):
        draft.add({"role": "system", "content": request["system"]})
    needed = "message {} is not an object; each needs a role and a content"
    for message in content.walk(draft, messages, Record, needed):
        draft.add({key: item for key, item in message.items() if not key.startswith("_")})
    draft.skipped.update(f"key:{key}" for key in request if key not in ("messages", "system"))
    return draft


def langchain_rows(content: Content) -> Sequence[Record]:
    """Return the records of dumps, also of the constructor of a list of messages."""
    inner = record(content.value).at("kwargs")
    return (replace(content, value=inner) if inner else content).records("messages")


def read_langchain(content: Content) -> Iterator[Draft]:
    """Yield the dumps of `messages_to_dict`, `dumpd` and `model_dump` as one session."""
    draft = Draft(content.stem)
    needed = f"{'record {}' if content.is_document else 'a record'} is not a message of LangChain; it has no type"
    for dump in content.walk(draft, langchain_rows(content), langchain_fields, needed):
        role = dump.get("role") if dump["type"] == "chat" else _LANGCHAIN_ROLES.get(dump["type"])
        if not isinstance(role, str):
            draft.skip(dump["type"])
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
            said = [block for block in said if record(block).get("type") not in kinds]
        message = {"role": role, "content": "" if said is None else said, **({"tool_calls": calls} if calls else {})}
        if role == "tool":
            message["tool_call_id"] = str(dump.get("tool_call_id") or dump.get("name") or "")
        draft.add(message)
        draft.skip("invalid tool call", count=len(invalid))
    yield draft


def langchain_fields(value: Record) -> Record | None:
    """Return the fields of a message with its `type`, whichever way it was dumped; None for anything else."""
    kind = value.text("type")
    if value.get("lc") == 1 and "kwargs" in value:
        kind = str(next(reversed(listed(value.get("id"))), ""))
        name = kind.removesuffix(_CHUNK).removesuffix("Message").lower()
        return Record(value.at("kwargs"), type=name) if kind.endswith(("Message", _CHUNK)) else None
    kind = kind.removesuffix(_CHUNK).lower() if kind.endswith(_CHUNK) else kind  # of a streamed `ai`
    if kind and "content" in value.at("data"):
        return Record(value.at("data"), type=kind)
    is_dumped = kind == "chat" or ((kind in _LANGCHAIN_ROLES or kind == "remove") and "role" not in value)
    return Record(value, type=kind) if is_dumped and "content" in value else None


def read_copilot(content: Content) -> Iterator[Draft]:
    """Yield the session of a file, and each of its child agents after it. What the user took back is no message."""
    starts = [row.at("data").get("sessionId") for row in content.rows if row.get("type") == "session.start"]
    main = Draft(str(next(iter(starts), "") or content.stem))
    drafts = {"": main}
    names = [row.text("id") for row in content.rows]
    gone: set[str] = set()
    for at, row in enumerate(content.rows):
        if row.get("type") == "session.snapshot_rewind":
            data = row.at("data")
            first = data.text("upToEventId")  # older versions named only the first event
            known = names[names.index(first) : at] if first in names[:at] else []
            gone |= {name for name in listed(data.get("eventIds", known)) if isinstance(name, str) and name}
    for row in content.rows:
        agent, kind, data = str(row.get("agentId") or ""), row.text("type"), row.at("data")
        draft = drafts.setdefault(agent, Draft(f"{main.session_id}:{agent}"))
        draft.line = row.line
        if row.text("id") in gone:
            draft.skip("rewound")
        elif kind == "system.message":
            draft.say(str(data.get("role") or "system"), data.text("content"))
        elif kind == "user.message":
            marks = {"isSidechain": True} if agent else {"source": "hook"} if data.get("source") else None
            draft.say("user", data.text("content"), marks=marks)
        elif kind == "assistant.message":
            asked = data.each("toolRequests")
            calls = [tool_call(call.get("toolCallId"), call.get("name"), call.get("arguments")) for call in asked]
            draft.say("assistant", data.text("content"), calls)
        elif kind == "tool.execution_complete":
            said = data.at("result").get("content") or data.at("error").get("message")
            draft.answer(data.get("toolCallId"), str(said or ""))
        elif kind == "session.compaction_complete" and data.get("success"):
            sizes = data.count("preCompactionTokens"), data.count("postCompactionTokens")
            draft.compact(data.text("trigger") or None, *sizes, data.text("summaryContent"))
        else:
            draft.skip(kind)
    yield from drafts.values()
