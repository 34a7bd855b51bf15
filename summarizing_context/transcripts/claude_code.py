"""Claude Code: a tree of rows by `parentUuid`, with sidechains and compaction boundaries.

The client writes a row for each block of a reply, forks the tree at parallel calls, and keeps branches that a user
rewound. A session is the branch of the newest row, with all blocks and results of the replies on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from summarizing_context.transcripts.base import (
    Compaction,
    Content,
    Draft,
    Row,
    integer,
    kind_of,
    mapping,
    objects,
    string,
    text_of,
)

_BESIDE = frozenset(  # types of rows that stand in no tree
    {"summary", "queue-operation", "file-history-snapshot", "last-prompt", "mode", "custom-title", "agent-name", "tag"}
)
_SPOKEN = ("user", "assistant")


def is_claude_code(content: Content) -> bool:
    """Whether a row has a place in a tree, or stands beside one."""
    return any(_is_in_tree(row.value) or _is_beside(row.value) for row in content.rows)


def _is_in_tree(value: dict[str, Any]) -> bool:
    return isinstance(value.get("uuid"), str) and "parentUuid" in value and isinstance(value.get("type"), str)


def _is_beside(value: dict[str, Any]) -> bool:
    is_own = string(value.get("type")) in _BESIDE and "role" not in value
    return is_own and bool({"sessionId", "leafUuid", "snapshot"} & {*value})


def read_claude_code(content: Content) -> Iterator[Draft]:
    """The session, then its sidechains. A child agent's file of its own holds one sidechain.

    Where the user cleared the context, or began anew, the file holds several trees: each is a session of its own.
    """
    tree = [row for row in content.rows if _is_in_tree(row.value)]
    beside = Counter(kind_of(value.get("type")) for _, value in content.rows if not _is_in_tree(value))
    ids = (value.get("sessionId") for _, value in content.rows)
    name = next((found for found in ids if isinstance(found, str)), content.stem)
    agents = _sidechains(tree)
    trees = _trees([row for row in tree if row.value.get("isSidechain") is not True])
    named = {name if number == 1 else f"{name}:{number}": rows for number, rows in enumerate(trees, start=1)}
    named |= {f"{name}:{agent}": rows for agent, rows in agents.items()}
    for session, rows in (named or {name: []}).items():
        draft = Draft(session, skipped=beside)
        beside = Counter()  # they are told once
        _read_chain(draft, rows)
        yield draft


def _trees(rows: list[Row]) -> list[list[Row]]:
    """The rows by the tree that they stand in. A tree without anything spoken goes to the one before it."""
    roots: dict[str, int] = {}  # of each row's tree
    trees: list[list[Row]] = []
    for row in rows:
        value = row.value
        parent = _parent(value)
        begins = parent is None and value.get("subtype") != "compact_boundary"
        at = len(trees) if begins else roots.get(str(parent), len(trees) - 1)
        at = roots.setdefault(value["uuid"], max(at, 0))
        if at == len(trees):
            trees.append([])
        trees[at].append(row)
    joined: list[list[Row]] = []
    for tree in trees:
        if joined and not _is_spoken(tree):
            joined[-1] += tree
        elif joined and not _is_spoken(joined[-1]):
            joined[-1] = [*joined[-1], *tree]
        else:
            joined.append(tree)
    return joined


def _is_spoken(rows: list[Row]) -> bool:
    return any(row.value["type"] in _SPOKEN for row in rows)


def _sidechains(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of sidechains by their agent's name. Early versions gave none: the line where one begins names it."""
    roots: dict[str, int] = {}
    chains: dict[str, list[Row]] = {}
    for line, value in rows:
        if value.get("isSidechain") is True:
            root = roots.setdefault(value["uuid"], roots.get(str(value.get("parentUuid")), line))
            agent = value.get("agentId")
            chains.setdefault(agent if isinstance(agent, str) else f"sidechain-{root}", []).append(Row(line, value))
    return chains


def _read_chain(draft: Draft, members: list[Row]) -> None:
    rows = {row.value["uuid"]: row for row in members}  # a resumed session may repeat rows: the last one holds
    draft.skipped.update({"repeated row": len(members) - len(rows)} if len(members) > len(rows) else {})
    ordered = sorted(rows.values(), key=lambda row: row.line)
    chain = _active(ordered, draft.skipped)
    chain |= _siblings(ordered, chain)
    replies: dict[str, dict[str, Any]] = {}
    for row in ordered:
        value = row.value
        if value["uuid"] in chain:
            _read_row(draft, row, replies)
        else:
            draft.skipped["other branch" if value["type"] in _SPOKEN else _kind(value)] += 1
    _add_sizes(draft, [row.value for row in ordered if row.value["uuid"] in chain])


def _active(ordered: list[Row], skipped: Counter[str]) -> set[str]:
    """The ids of the branch that ends with the newest spoken row."""
    at = {row.value["uuid"]: index for index, row in enumerate(ordered)}
    step = next((index for index in reversed(range(len(ordered))) if ordered[index].value["type"] in _SPOKEN), None)
    chain: set[str] = set()
    while step is not None:
        value = ordered[step].value
        chain.add(value["uuid"])
        parent = _parent(value)
        if parent in chain or (parent is None and value.get("subtype") != "compact_boundary"):
            break
        before = step - 1 if step else None
        if parent is not None and parent not in at and before is not None:
            skipped["missing parent"] += 1  # its row was lost: the one before it in the file goes on
        step = at.get(parent, before)
    return chain


def _siblings(ordered: list[Row], chain: set[str]) -> set[str]:
    """The ids of the other blocks of the branch's replies, and of the results that answer their calls."""
    replies = {_reply_id(row.value) for row in ordered if row.value["uuid"] in chain} - {""}
    blocks = [row.value for row in ordered if _reply_id(row.value) in replies]
    calls = {string(block.get("id")) for value in blocks for block in _blocks(value) if block.get("type") == "tool_use"}
    answers = [row.value for row in ordered if row.value["type"] == "user" and _answered(row.value) & calls]
    return {value["uuid"] for value in (*blocks, *answers)}


def _parent(value: dict[str, Any]) -> str | None:
    return string(value.get("logicalParentUuid")) or string(value.get("parentUuid")) or None


def _reply_id(value: dict[str, Any]) -> str:
    return string(mapping(value.get("message")).get("id")) if value["type"] == "assistant" else ""


def _blocks(value: dict[str, Any]) -> list[dict[str, Any]]:
    return objects(mapping(value.get("message")).get("content"))


def _answered(value: dict[str, Any]) -> set[str]:
    return {string(block.get("tool_use_id")) for block in _blocks(value) if block.get("type") == "tool_result"}


def _read_row(draft: Draft, row: Row, replies: dict[str, dict[str, Any]]) -> None:
    value = row.value
    message = mapping(value.get("message"))
    if value.get("subtype") == "compact_boundary":
        draft.compactions.append(_compaction(value, len(draft.messages)))
    elif value.get("isCompactSummary") is True:
        _add_summary(draft, text_of(message.get("content")))
    elif value["type"] not in _SPOKEN or value.get("isApiErrorMessage") is True or "content" not in message:
        draft.skipped["API error" if value.get("isApiErrorMessage") else _kind(value)] += 1
    elif (earlier := replies.get(_reply_id(value))) is not None:
        _join(draft, earlier, _blocks(value))
    else:
        made = {"role": string(message.get("role")) or value["type"], "content": message["content"]}
        flags = {name: True for name in ("isMeta", "isSidechain") if value.get(name) is True}
        if flags and value["type"] == "user":
            made["metadata"] = flags
        if name := _reply_id(value):
            replies[name] = made
        draft.add(made, row.line)


def _join(draft: Draft, reply: dict[str, Any], blocks: Iterable[dict[str, Any]]) -> None:
    """Add blocks to the reply that they belong to; a streamed row may repeat what an earlier one has."""
    content = reply["content"]
    held = content if isinstance(content, list) else [{"type": "text", "text": content}]
    for block in blocks:
        if block in held:
            draft.skipped["repeated block"] += 1
        else:
            held = [*held, block]
    reply["content"] = held


def _kind(value: dict[str, Any]) -> str:
    return kind_of(value["type"], value.get("subtype") or mapping(value.get("attachment")).get("type"))


def _compaction(value: dict[str, Any], at: int) -> Compaction:
    data = mapping(value.get("compactMetadata"))
    trigger = data.get("trigger")
    return Compaction(
        at,
        trigger if isinstance(trigger, str) else None,
        integer(data.get("preTokens")),
        integer(data.get("postTokens")),
    )


def _add_summary(draft: Draft, text: str) -> None:
    """The client's own summary follows its boundary; a log of an early version has no boundary."""
    if not draft.compactions or draft.compactions[-1].summary:
        draft.compactions.append(Compaction(len(draft.messages)))
    draft.compactions[-1] = replace(draft.compactions[-1], summary=text)


def _add_sizes(draft: Draft, values: list[dict[str, Any]]) -> None:
    """Where a boundary records no size after it, the usage of the next reply has it."""
    number, pending = -1, False
    for value in values:
        if value.get("subtype") == "compact_boundary":
            number, pending = number + 1, True
        usage = mapping(mapping(value.get("message")).get("usage"))
        sizes = [
            integer(usage.get(key))
            for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        ]
        total = sum(size or 0 for size in sizes)
        if pending and total and value["type"] == "assistant":
            pending = False
            if number < len(draft.compactions) and draft.compactions[number].tokens_after is None:
                draft.compactions[number] = replace(draft.compactions[number], tokens_after=total)
