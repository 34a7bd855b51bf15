"""GitHub Copilot CLI's events: messages, results of tools, compactions, and what is only for its screen."""

from __future__ import annotations

from collections.abc import Iterator

from summarizing_context.transcripts.base import Compaction, Content, Draft, Fields, listed, tool_call


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
