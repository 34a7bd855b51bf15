"""Codex rollouts: response items are the session; events repeat them for the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from summarizing_context.transcripts.base import (
    Compaction,
    Content,
    Draft,
    Row,
    integer,
    kind_of,
    mapping,
    string,
    text_of,
)
from summarizing_context.transcripts.responses import CALLS, OUTPUTS, ItemReader

_OWN = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})


def is_codex(content: Content) -> bool:
    """Whether a row has a type of Codex and a payload."""
    return any(
        string(row.value.get("type")) in _OWN and isinstance(row.value.get("payload"), dict) for row in content.rows
    )


def read_codex(content: Content) -> Iterator[Draft]:
    """The one session of a rollout."""
    draft = Draft(_session_id(content))
    items = ItemReader(draft)
    for index, (line, value) in enumerate(content.rows):
        kind, payload = string(value.get("type")), mapping(value.get("payload"))
        if kind == "response_item":
            items.add(payload, line, prefix="response_item")
        elif kind == "compacted":
            items.close()
            _compact(draft, content.rows, index)
        elif kind in CALLS | OUTPUTS | {"message", "reasoning"}:  # early versions wrote items without an envelope
            items.add(value, line)
        else:
            draft.skipped[kind_of(kind, payload.get("type"))] += 1
    yield draft


def _session_id(content: Content) -> str:
    metas = [mapping(value.get("payload")) for _, value in content.rows if value.get("type") == "session_meta"]
    return string(metas[0].get("id") if metas else None) or content.stem


def _sizes(rows: Sequence[Row]) -> list[int]:
    """Tokens of the context as Codex counted them, in order."""
    payloads = [mapping(row.value.get("payload")) for row in rows]
    infos = [mapping(payload.get("info")) for payload in payloads if payload.get("type") == "token_count"]
    totals = [integer(mapping(info.get("last_token_usage")).get("total_tokens")) for info in infos]
    return [total for total in totals if total]


def _compact(draft: Draft, rows: Sequence[Row], index: int) -> None:
    """Note the boundary. The client's summary stands before it as a reply, which is no message."""
    summary, made_at = text_of(mapping(rows[index].value.get("payload")).get("message")), index
    last = draft.messages[-1] if draft.messages else {}
    text = last.get("content")
    if last.get("role") == "assistant" and isinstance(text, str) and text and summary.endswith(text):
        draft.messages.pop()
        line = draft.lines.pop()
        draft.skipped["compaction summary"] += 1
        made_at = next(at for at, row in enumerate(rows) if row.line == line)
    before, after = _sizes(rows[:made_at]), _sizes(rows[index:])
    draft.compactions.append(
        Compaction(
            len(draft.messages),
            tokens_before=before[-1] if before else None,
            tokens_after=after[0] if after else None,
            summary=summary,
        )
    )
