"""Claude Code: trees of rows, which keep the branches that a user rewound.

A session is the branch of the newest row. Claude Code writes a row for each block of a reply and forks the tree at
parallel calls, so all blocks and results of the replies on the branch belong to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from summarizing_context.messages.reading import Message
from summarizing_context.transcripts.base import SUMMARY, Content, Draft, Record, listed, record

_SPOKEN = ("user", "assistant")
_COPY, _BOUNDARY = "repeated row", "compact_boundary"


def is_in_tree(row: Record) -> bool:
    return isinstance(row.get("uuid"), str) and "parentUuid" in row and isinstance(row.get("type"), str)


def read_claude_code(content: Content) -> Iterator[Draft]:
    """Yield the session, others after it where the user cleared the context or began anew, then its sidechains."""
    for draft, rows in _sessions(content):
        replies: dict[str, Message] = {}  # by their id, as each block has a row
        for row in rows:
            draft.line = row.line
            kind, message = row.text("type"), row.at("message")
            if row.get("isCompactSummary") is True:
                draft.skip(SUMMARY)
            elif kind not in _SPOKEN or row.get("isApiErrorMessage") is True or "content" not in message:
                draft.skip(*(["API error"] if row.get("isApiErrorMessage") else _kind(row)))
            elif kind == "assistant" and (earlier := replies.get(message.text("id"))) is not None:
                held = earlier["content"]
                held = [*held] if isinstance(held, list) else [{"type": "text", "text": held}]
                for block in listed(message["content"]):
                    if block in held:  # a streamed row may repeat what an earlier one has
                        draft.skip("repeated block")
                    elif isinstance(block, dict):
                        held.append(block)
                earlier["content"] = held
            else:
                flags = {name: True for name in ("isMeta", "isSidechain", "isSynthetic") if row.get(name) is True}
                marked = {"metadata": flags} if flags and kind == "user" else {}
                draft.add({"role": message.text("role") or kind, "content": message["content"], **marked})
                if kind == "assistant" and message.text("id"):
                    replies[message.text("id")] = draft.messages[-1]
        yield draft


def _sessions(content: Content) -> Iterator[tuple[Draft, list[Record]]]:
    """Yield each session with the rows of its active branch. What is left out is counted: also copies, as a second
    compaction or a branch makes them, which keep their place."""
    name = next(filter(None, (row.text("sessionId") for row in content.rows)), content.stem)
    beside = Draft(name)
    trees: list[list[Record]] = [[]]
    agents: dict[str, list[Record]] = {}
    homes: dict[str, list[Record]] = {}  # the rows that a row stands among, by its id
    for row in content.rows:
        if not is_in_tree(row):
            beside.skip(row.get("type"))
            continue
        parent, home = homes.get(_parent(row) or ""), trees[-1]
        if row["uuid"] in homes:
            home = homes[row["uuid"]]
            row = record({"uuid": row["uuid"], "type": _COPY}, row.line)
        elif row.get("isSidechain") is True:
            above = next((agent for agent, rows in agents.items() if rows is parent), f"sidechain-{row.line}")
            home = agents.setdefault(row.text("agentId") or above, [])
        elif _parent(row) or row.get("subtype") == _BOUNDARY:
            home = next((tree for tree in trees if tree is parent), home)
        elif any(one["type"] in _SPOKEN for one in home):
            home = []
            trees.append(home)
        homes[row["uuid"]] = home
        home.append(row)
    if len(trees) > 1 and not any(row["type"] in _SPOKEN for row in trees[-1]):
        trees[-2] += trees.pop()
    named = {name if number == 1 else f"{name}:{number}": rows for number, rows in enumerate(trees, start=1)}
    named |= {f"{name}:{agent}": rows for agent, rows in agents.items()}
    for session, rows in named.items():
        if rows or (session == name and not agents):
            draft = Draft(session, skipped=beside.skipped)
            beside = Draft(name)  # they are told once
            yield draft, _active(rows, draft)


def _active(rows: list[Record], draft: Draft) -> list[Record]:
    """Return the rows of the branch of the newest one that was spoken."""
    leaf = max((at for at, row in enumerate(rows) if row["type"] in _SPOKEN), default=-1)

    # The way from there back to a row without a parent. One that meets a copy goes on with the row before it in the
    # file. So does one whose parent is lost, stands on the way already, or is named by a boundary and stands behind it:
    # a compaction may write what it preserves once more.
    places: dict[str, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        places[row.text("uuid")].append(at)
    way: set[int] = set()
    step = leaf
    while step >= 0:
        row = rows[step]
        if step in way or row.get("type") == _COPY:
            step -= 1
            continue
        way.add(step)
        parent, is_boundary = _parent(row), row.get("subtype") == _BOUNDARY
        if parent is None and not is_boundary:
            break
        found = places.get(parent, []) if parent else []
        if found and found[0] < step:
            step = max(at for at in found if at < step)
        elif found and not is_boundary and found[0] not in way:
            step = found[0]
        else:
            draft.skip("missing parent", count=bool(parent and not found and step))
            step -= 1

    # The rows after a compaction may follow those that it preserves, and so lead past it.
    on_way = {rows[at]["uuid"] for at in way}
    for at, row in enumerate(rows[: leaf + 1]):
        is_past = row.get("subtype") == _BOUNDARY and at not in way
        if is_past and row.at("compactMetadata").at("preservedSegment").text("tailUuid") in on_way:
            told = (other for other, after in enumerate(rows) if _parent(after) == row["uuid"])
            way |= {at, *(other for other in told if rows[other].get("isCompactSummary") is True)}

    # The other blocks of the branch's replies, and the results that answer their calls.
    replies = {_reply_id(rows[at]) for at in way} - {""}
    blocks = [block for row in rows if _reply_id(row) in replies for block in row.at("message").each("content")]
    calls = {block.text("id") for block in blocks if block.get("type") == "tool_use"} - {""}
    chosen: list[Record] = []
    for at, row in enumerate(rows):
        answered = {block.text("tool_use_id") for block in row.at("message").each("content")}
        if at in way or _reply_id(row) in replies or (row["type"] == "user" and answered & calls):
            chosen.append(row)
        else:
            draft.skip(*(["other branch"] if row["type"] in _SPOKEN else _kind(row)))
    return chosen


def _parent(row: Record) -> str | None:
    return row.text("logicalParentUuid", "parentUuid") or None


def _reply_id(row: Record) -> str:
    return row.at("message").text("id") if row["type"] == "assistant" else ""


def _kind(row: Record) -> list[object]:
    return [row.get("type"), row.get("subtype") or row.at("attachment").get("type")]
