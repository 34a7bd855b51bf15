"""GitHub Copilot CLI's events: messages, results of tools, compactions, and what is only for its screen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from summarizing_context.transcripts.base import (
    Compaction,
    Content,
    Draft,
    Message,
    integer,
    kind_of,
    listed,
    mapping,
    objects,
    string,
)

_START, _REPLY = "session.start", "assistant.message"


def is_copilot(content: Content) -> bool:
    """Whether a record is the start of a session of Copilot, or an event of one whose start was lost."""
    return any(_is_own(row.value) for row in content.rows)


def _is_own(value: dict[str, Any]) -> bool:
    data = mapping(value.get("data"))
    return (value.get("type") == _START and "copilotVersion" in data) or (value.get("type") == _REPLY and bool(data))


def read_copilot(content: Content) -> Iterator[Draft]:
    """The session of a file, and each of its child agents after it. What the user took back is no message."""
    start = next((mapping(row.value.get("data")) for row in content.rows if row.value.get("type") == _START), {})
    main = Draft(str(start.get("sessionId") or content.stem))
    drafts = {"": main}
    gone = {
        string(name)
        for row in content.rows
        if row.value.get("type") == "session.snapshot_rewind"
        for name in listed(mapping(row.value.get("data")).get("eventIds"))
    }
    for line, value in content.rows:
        agent = str(value.get("agentId") or "")
        draft = drafts.setdefault(agent, Draft(f"{main.session_id}:{agent}"))
        if string(value.get("id")) in gone:
            draft.skipped["rewound"] += 1
        elif message := _message(str(value.get("type")), mapping(value.get("data")), is_agent=bool(agent)):
            draft.add(message, line)
        elif value.get("type") == "session.compaction_complete" and mapping(value.get("data")).get("success"):
            draft.compactions.append(_compaction(mapping(value["data"]), len(draft.messages)))
        else:
            draft.skipped[kind_of(value.get("type"))] += 1
    yield from drafts.values()


def _message(kind: str, data: dict[str, Any], *, is_agent: bool) -> Message | None:
    content = data.get("content")
    text = content if isinstance(content, str) else ""
    match kind:
        case "system.message":
            return {"role": str(data.get("role") or "system"), "content": text}
        case "user.message":
            marks = {"isSidechain": True} if is_agent else {"source": "hook"} if data.get("source") else {}
            return {"role": "user", "content": text, **({"metadata": marks} if marks else {})}
        case "assistant.message":
            calls = [_call(call) for call in objects(data.get("toolRequests"))]
            return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
        case "tool.execution_complete":
            said = mapping(data.get("result")).get("content") or mapping(data.get("error")).get("message")
            return {"role": "tool", "tool_call_id": str(data.get("toolCallId")), "content": str(said or "")}
    return None


def _call(call: dict[str, Any]) -> dict[str, Any]:
    given = call.get("arguments")
    arguments = given if isinstance(given, str) else json.dumps(given or {})
    function = {"name": str(call.get("name") or ""), "arguments": arguments}
    return {"id": str(call.get("toolCallId")), "type": "function", "function": function}


def _compaction(data: dict[str, Any], at: int) -> Compaction:
    summary = data.get("summaryContent")
    return Compaction(
        at,
        data.get("trigger") if isinstance(data.get("trigger"), str) else None,
        integer(data.get("preCompactionTokens")),
        integer(data.get("postCompactionTokens")),
        summary if isinstance(summary, str) else "",
    )
