"""Claude Code, Qwen Code and pi: trees of rows, which keep the branches that a user rewound.

A session is the branch of the newest row. Claude Code writes a row for each block of a reply and forks the tree at
parallel calls, so all blocks and results of the replies on the branch belong to it. What
`claude -p --output-format stream-json` prints has such rows without a tree.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from summarizing_context.transcripts.base import Compaction, Content, Draft, Fields, Message, Row, text_of
from summarizing_context.transcripts.parts import add_parts, said_by_tool

_SPOKEN = ("user", "assistant", "tool_result")  # the last is Qwen's
_COPY, _BOUNDARY = "repeated row", "compact_boundary"


def is_in_tree(value: Fields) -> bool:
    """Return whether a row has a place in a tree."""
    return isinstance(value.get("uuid"), str) and "parentUuid" in value and isinstance(value.get("type"), str)


def read_claude_code(content: Content) -> Iterator[Draft]:
    """Yield the session, others after it where the user cleared the context or began anew, then its sidechains."""
    for draft, rows in _sessions(content):
        replies: dict[str, Message] = {}
        for row in rows:
            _read_row(draft, row, replies)
        yield draft


def read_stream_json(content: Content) -> Iterator[Draft]:
    """Yield the session, then its child agents, which the id of their call names."""
    drafts: dict[str, Draft] = {}
    replies: dict[str, Message] = {}
    seen: set[str] = set()
    name = next((found for _, value in content.rows if (found := value.text("session_id"))), content.stem)
    for line, value in content.rows:
        agent, row_id = value.text("parent_tool_use_id"), value.text("uuid")
        draft = drafts.setdefault(agent, Draft(f"{name}:{agent}" if agent else name))
        if row_id in seen:
            draft.skip(_COPY)
        else:
            _read_row(draft, Row(line, Fields(value, isSidechain=True) if agent else value), replies)
        seen |= {row_id} - {""}
    yield from drafts.values()


def read_qwen_code(content: Content) -> Iterator[Draft]:
    """Yield the session, then its sidechains."""
    for draft, rows in _sessions(content):
        for line, value in rows:
            parts, before, kind = value.at("message").each("parts"), len(draft.messages), value.text("type")
            if value.get("subtype") == "chat_compression":
                payload = value.at("systemPayload")
                sizes = payload.at("info").count("originalTokenCount"), payload.at("info").count("newTokenCount")
                summary = next((text_of(each.get("parts")) for each in payload.each("compressedHistory")), "")
                draft.compactions.append(Compaction(before, None, *sizes, summary))
            elif kind not in _SPOKEN or not parts:
                draft.skip(kind, value.get("subtype"))
            elif kind == "assistant":
                add_parts(draft, kind, parts, line)
            else:
                is_own = value.get("provenance") in ("system", "goal_control", "goal_runtime")
                is_agent = value.get("isSidechain") is True
                marks = {"isSidechain": True} if is_agent else {"source": "hook"} if is_own else None
                add_parts(draft, "user", parts, line, marks)
        yield draft


def read_pi(content: Content) -> Iterator[Draft]:
    """Yield the one session: the branch of the newest entry. Early versions wrote no tree."""
    ids = [value.text("id") for _, value in content.rows if value.get("type") == "session"]
    draft = Draft(next(iter(ids), "") or content.stem)
    rows = [row for row in content.rows if row.value.get("type") != "session"]
    tree = [Row(line, Fields(value, uuid=value.get("id"), parentUuid=value.get("parentId"))) for line, value in rows]
    is_tree = any("parentId" in value for _, value in rows)
    way = _active_branch(tree, len(rows) - 1, draft) if is_tree else {*range(len(rows))}
    for at, (line, value) in enumerate(rows):
        kind, message = value.text("type"), value.at("message")
        role, said = message.text("role"), message.get("content")
        if at not in way:
            draft.skip("other branch" if role else kind)
        elif kind == "compaction":
            sizes = value.count("tokensBefore"), None
            draft.compactions.append(Compaction(len(draft.messages), None, *sizes, value.text("summary")))
        elif role in ("user", "assistant"):
            add_parts(draft, role, said, line)
        elif role == "toolResult":
            draft.answer(message.get("toolCallId"), said_by_tool(said), line)
        elif role == "bashExecution" and not message.get("excludeFromContext"):
            text = f"Ran `{message.get('command')}`\n```\n{message.get('output')}\n```"
            draft.say("user", text, line=line, marks={"source": "hook"})
        else:
            draft.skip(kind, role)
    yield draft


def _sessions(content: Content) -> Iterator[tuple[Draft, list[Row]]]:
    """Yield each session with the rows of its active branch in their order. What is left out is counted: also copies,
    as a second compaction or a branch makes them. They keep their place, but the first writing of a row holds."""
    ids = (value.get("sessionId") for _, value in content.rows)
    name = next((found for found in ids if isinstance(found, str)), content.stem)
    beside = Draft(name)
    trees: list[list[Row]] = [[]]
    agents: dict[str, list[Row]] = {}
    homes: dict[str, list[Row]] = {}  # by the row
    for line, value in content.rows:
        if not is_in_tree(value):
            beside.skip(value.get("type"))
            continue
        parent = homes.get(_parent(value) or "")
        if value["uuid"] in homes:
            homes[value["uuid"]].append(Row(line, Fields(uuid=value["uuid"], type=_COPY)))
            continue
        if value.get("isSidechain") is True:
            # early versions gave no name: the line where one begins names it
            above = next((agent for agent, rows in agents.items() if rows is parent), f"sidechain-{line}")
            home = agents.setdefault(value.text("agentId") or above, [])
        elif _parent(value) or value.get("subtype") in (_BOUNDARY, "rewind"):
            home = next((tree for tree in trees if tree is parent), trees[-1])
        elif any(row.value["type"] in _SPOKEN for row in trees[-1]):
            home = []
            trees.append(home)
        else:
            home = trees[-1]  # nothing was said in the tree before
        homes[value["uuid"]] = home
        home.append(Row(line, value))
    if len(trees) > 1 and not any(row.value["type"] in _SPOKEN for row in trees[-1]):
        trees[-2] += trees.pop()
    named = {name if number == 1 else f"{name}:{number}": rows for number, rows in enumerate(trees, start=1)}
    named |= {f"{name}:{agent}": rows for agent, rows in agents.items()}
    for session, rows in named.items():
        if rows or (session == name and not agents):
            draft = Draft(session, skipped=beside.skipped)
            beside = Draft(name)  # they are told once
            yield draft, _active(rows, draft)


def _active_branch(rows: Sequence[Row], leaf: int, draft: Draft) -> set[int]:
    """Return the positions of the rows on the way from that of `leaf` back to a row without a parent.

    A way that meets a copy goes on with the row before it in the file. So does one whose parent is lost, stands on the
    way already, or is named by a boundary and stands behind it: a compaction may write what it preserves once more.
    """
    places: dict[str, list[int]] = defaultdict(list)
    for at, (_, value) in enumerate(rows):
        places[value.text("uuid")].append(at)
    way: set[int] = set()
    step = leaf
    while True:
        while step in way or (step >= 0 and rows[step].value.get("type") == _COPY):
            step -= 1
        if step < 0:
            return way
        way.add(step)
        parent, is_boundary = _parent(rows[step].value), rows[step].value.get("subtype") == _BOUNDARY
        if parent is None and not is_boundary:
            return way
        found = places.get(parent, []) if parent else []
        if earlier := bisect_left(found, step):
            step = found[earlier - 1]
        elif found and not is_boundary and found[0] not in way:
            step = found[0]
        else:
            draft.skip("missing parent", count=bool(parent and not found and step))
            step -= 1


def _active(rows: list[Row], draft: Draft) -> list[Row]:
    """Return the rows of the branch of the newest one that was spoken, or that marks a rewind."""
    values = [row.value for row in rows]
    ends = (at for at, value in enumerate(values) if value["type"] in _SPOKEN or value.get("subtype") == "rewind")
    leaf = max(ends, default=-1)
    way = _active_branch(rows, leaf, draft)

    # The rows after a compaction may follow those that it preserves, and so lead past it.
    on_way = {values[at]["uuid"] for at in way}
    for at, value in enumerate(values[: leaf + 1]):
        is_past = value.get("subtype") == _BOUNDARY and at not in way
        if is_past and value.at("compactMetadata").at("preservedSegment").text("tailUuid") in on_way:
            told = (other for other, after in enumerate(values) if _parent(after) == value["uuid"])
            way |= {at, *(other for other in told if values[other].get("isCompactSummary") is True)}

    # The other blocks of the branch's replies, and the results that answer their calls.
    replies = {_reply_id(values[at]) for at in way} - {""}
    blocks = [block for value in values if _reply_id(value) in replies for block in value.at("message").each("content")]
    calls = {block.text("id") for block in blocks if block.get("type") == "tool_use"}
    chosen: list[Row] = []
    for at, row in enumerate(rows):
        answered = {block.text("tool_use_id") for block in row.value.at("message").each("content")} - {""}
        is_answer = row.value["type"] == "user" and bool(answered & calls)
        if at in way or _reply_id(row.value) in replies or is_answer:
            chosen.append(row)
        else:
            draft.skip(*(["other branch"] if row.value["type"] in _SPOKEN else _kind(row.value)))
    return chosen


def _parent(value: Fields) -> str | None:
    return value.text("logicalParentUuid", "parentUuid") or None


def _reply_id(value: Fields) -> str:
    return value.at("message").text("id") if value["type"] == "assistant" else ""


def _kind(value: Fields) -> list[object]:
    return [value.get("type"), value.get("subtype") or value.at("attachment").get("type")]


def _read_row(draft: Draft, row: Row, replies: dict[str, Message]) -> None:
    """Add what a row says. `replies` holds those of the session by their id, as each block has a row."""
    line, value = row
    kind, message = value.text("type"), value.at("message")
    last = draft.compactions[-1] if draft.compactions else None
    sizes = [message.at("usage").count(f"{name}input_tokens") or 0 for name in ("", "cache_read_", "cache_creation_")]
    if last and last.tokens_after is None and kind == "assistant" and any(sizes):
        draft.compactions[-1] = replace(last, tokens_after=sum(sizes))  # which its boundary did not record

    if value.get("subtype") == _BOUNDARY:
        data = value.at("compactMetadata") or value.at("compact_metadata")
        before, after = (data.count(f"{name}Tokens", f"{name}_tokens") for name in ("pre", "post"))
        draft.compactions.append(Compaction(len(draft.messages), data.text("trigger") or None, before, after))
    elif value.get("isCompactSummary") is True:  # it follows its boundary; a log of an early version has none
        if last is None or last.summary:
            last = Compaction(len(draft.messages))
            draft.compactions.append(last)
        draft.compactions[-1] = replace(last, summary=text_of(message.get("content")))
    elif kind not in _SPOKEN or value.get("isApiErrorMessage") is True or "content" not in message:
        draft.skip(*(["API error"] if value.get("isApiErrorMessage") else _kind(value)))
    elif kind == "assistant" and (earlier := replies.get(message.text("id"))) is not None:
        held = earlier["content"]
        held = [*held] if isinstance(held, list) else [{"type": "text", "text": held}]
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block in held:  # a streamed row may repeat what an earlier one has
                draft.skip("repeated block")
            elif isinstance(block, dict):
                held.append(block)
        earlier["content"] = held
    else:
        flags = {name: True for name in ("isMeta", "isSidechain", "isSynthetic") if value.get(name) is True}
        marked = {"metadata": flags} if flags and kind == "user" else {}
        draft.add({"role": message.text("role") or kind, "content": message["content"], **marked}, line)
        if kind == "assistant" and message.text("id"):
            replies[message.text("id")] = draft.messages[-1]
