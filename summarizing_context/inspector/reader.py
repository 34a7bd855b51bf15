"""What the page shows, read from a store beside its writers, as JSON values.

Each question opens the session for reading and sees what was committed last.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from summarizing_context.assembly import open_context, open_store
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import NodeNotFoundError
from summarizing_context.evaluation.view_parts import view_parts
from summarizing_context.log.tree import HeaderNode
from summarizing_context.messages.estimate import MESSAGE_TOKENS, estimate_text, estimate_texts
from summarizing_context.messages.parts import Part
from summarizing_context.messages.reading import message_text_parts, read_message
from summarizing_context.sessions.activations import undo_outlook
from summarizing_context.sessions.statistics import Statistics
from summarizing_context.settings.addresses import is_address
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.prices import load_prices
from summarizing_context.views.activation import ActivationRecord, told_reason
from summarizing_context.views.view import decode_state

_MOST_BINS = 480  # that the ribbon of a log has

_MOST_MESSAGES = 60  # of a page of messages

_MOST_TEXT = 20_000  # characters of a message

_MOST_MORE = 200_000  # characters of a message that are asked for at once

_HEADER = 8_000  # characters of the header

_WORDS = 220  # characters of a message in a list

_NO_LIMIT = 10**9  # tokens: a look activates nothing

Json = dict[str, Any]


class Reader:
    """Reads the sessions of one store."""

    def __init__(self, store: str | Path, settings: Settings) -> None:
        self.store = store
        self._settings = settings

    async def sessions(self) -> Json:
        """All sessions, the newest change first, with what their summaries cost."""
        store = await open_store(self.store, read_only=True)
        try:
            found = await store.sessions()
        finally:
            await store.close()
        price = load_prices(self._settings.prices).price_of(self._settings.model)
        sessions = []
        for info in found:
            cost = None if price is None else price.cost(info.input_tokens, info.output_tokens)
            sessions.append({**asdict(info), "cost": 0.0 if info.input_tokens == 0 else cost})
        return {"store": store.name, "sessions": sessions}

    async def version(self) -> str:
        """Differs once anything was committed. No connection is kept, which would leave files beside the store."""
        if is_address(self.store):
            return hashlib.sha256(json.dumps(await self.sessions()).encode()).hexdigest()
        path = Path(self.store)
        return "/".join(_stamp(file) for file in (path, path.with_name(f"{path.name}-wal")))

    async def overview(self, session_id: str) -> Json:
        """One session: its log, its segments, the blocks of the header, and what the next request would send."""
        noted = next(
            (one["budget"] for one in (await self.sessions())["sessions"] if one["session_id"] == session_id), 0
        )
        async with self._opened(session_id, looks=False) as context:
            budget = context.budget()
            view = await context.get_messages_for_request(token_budget=_NO_LIMIT)
            log, nodes, records = await context.get_messages(), context.explain(), context.activations()
            last = context.last_view
            statistics = context.statistics()
            plan = await context.plan()
            parts = view_parts(view, log)
            texts = [message_text_parts(message) for message in log]
            sizes = [MESSAGE_TOKENS + estimate_texts(each) for each in texts]
            places = {(log[at]["role"], *texts[at]): at for at in reversed(range(len(log)))}
            warning = _warning(records, nodes)
            covered = records[-1].covered_to if records else max((node.stop for node in nodes), default=0)
            return {
                "session": session_id,
                "messages": len(log),
                "history_tokens": statistics.history_tokens,
                "budget": noted or (records[-1].budget if records else 0) or budget.max_tokens,
                "view_tokens": 0 if last is None else last.tokens,
                "summaries_ready": statistics.summaries_ready,
                "covered": 0 if warning else covered,
                "log": bins(log, sizes),
                "segments": [block_of(node) for node in context.summaries()],
                "blocks": [{**block_of(node), "drops": list(node.drops)} for node in nodes],
                "view": [
                    row_of(
                        message,
                        part,
                        places.get((message["role"], *message_text_parts(message))),
                        most=_HEADER if part == "header" else _WORDS,
                    )
                    for message, part in zip(view, parts, strict=True)
                ],
                "activations": [self._record(record) for record in reversed(records)],
                "rules": [rule._asdict() for rule in context.standing_rules()],
                "plan": None if plan is None else asdict(plan),
                "warning": warning,
                "failed": statistics.summaries_failed,
                "failure": _failure(statistics),
            }

    async def ledger(self, session_id: str) -> Json:
        """Paths, commands, errors and the like, the newest first."""
        async with self._opened(session_id) as context:
            return {"facts": [fact._asdict() for fact in reversed(context.ledger())][:2_000]}

    async def messages(self, session_id: str, start: int, stop: int) -> Json:
        """Messages of the log word for word, a page of them."""
        async with self._opened(session_id) as context:
            log = await context.get_messages()
        start = max(0, min(start, len(log)))
        end = min(max(start, stop), len(log), start + _MOST_MESSAGES)
        rows = [row_of(log[at], "log", at, most=_MOST_TEXT) for at in range(start, end)]
        return {"messages": rows, "next": end if end < min(stop, len(log)) else None}

    async def text(self, session_id: str, message: int, start: int) -> Json:
        """A message word for word, from a character on."""
        async with self._opened(session_id) as context:
            log = await context.get_messages()
        if message >= len(log):
            raise NodeNotFoundError(f"session {session_id} has no message {message}")
        text = told_text(log[message])
        stop = start + _MOST_MORE
        return {"text": text[start:stop], "left": max(0, len(text) - stop)}

    async def block(self, session_id: str, start: int, stop: int, *, is_segment: bool) -> Json:
        """A block of the header, or a segment's own summary, as it stands now."""
        async with self._opened(session_id) as context:
            for node in context.summaries() if is_segment else context.explain(drops=False):
                if (node.start, node.stop) == (start, stop):
                    return whole_block_of(node, context)
        what = "segment" if is_segment else "summary in the view"
        raise NodeNotFoundError(f"there is no {what} of messages {start} to {stop - 1} any longer")

    async def activation(self, session_id: str, number: int) -> Json:
        """One activation: the messages that left the view, and the blocks that stand for the past since."""
        async with self._opened(session_id) as context:
            records = context.activations()
            record = next((one for one in records if one.number == number), None)
            if record is None:
                raise NodeNotFoundError(f"session {session_id} has no activation {number}")
            log = await context.get_messages()
            nodes = await self._nodes_after(session_id, context, record)
            is_this_log = nodes is not None
            left = range(record.covered_from, min(record.covered_to, len(log))) if is_this_log else ()
            return {
                **self._record(record),
                "left": [row_of(log[at], "log", at) for at in left],
                "blocks": None if nodes is None else [whole_block_of(node, context) for node in nodes],
            }

    async def undo_outlook(self, session_id: str) -> Json:
        """What an undo of the last activation would come to. Raises `UndoError`."""
        store = await open_store(self.store, read_only=True)
        try:
            return (await undo_outlook(store, session_id))._asdict()
        finally:
            await store.close()

    async def search(self, session_id: str, query: str) -> Json:
        """Messages and summaries of the session that hold the words, the best first."""
        async with self._opened(session_id) as context:
            hits = await context.search(query, limit=30)
        return {"hits": [asdict(hit) for hit in hits]}

    async def _nodes_after(
        self, session_id: str, context: SummarizingContext, record: ActivationRecord
    ) -> Sequence[HeaderNode] | None:
        """The header's blocks after an activation: those before the next one, or the present ones. None where the
        store keeps them no longer, or the log was replaced since."""
        records = context.activations()
        if record.log_version != records[-1].log_version:
            return None
        later = [one for one in records if one.number > record.number and one.provider == record.provider]
        keeping = [one for one in later if one.can_undo or one.undoes is not None]
        if not keeping:
            return context.explain(drops=False)
        store = await open_store(self.store, read_only=True)
        try:
            data = await store.state_before(session_id, keeping[0].number)
        finally:
            await store.close()
        return None if data is None else decode_state(data).nodes

    def _record(self, record: ActivationRecord) -> Json:
        """A record, with the tokens that its view had to send outside of the prompt cache, and their price."""
        sent = max(0, record.tokens_after - record.prefix_kept)
        price = load_prices(self._settings.prices).price_of(self._settings.model)
        told = {**record._asdict(), "why": told_reason(record)}
        return {**told, "resent": sent, "cost": None if price is None else price.cost(sent, 0)}

    @asynccontextmanager
    async def _opened(self, session_id: str, *, looks: bool = True) -> AsyncIterator[SummarizingContext]:
        if session_id not in {info["session_id"] for info in (await self.sessions())["sessions"]}:
            raise NodeNotFoundError(f"the store holds no session {session_id!r:.60}")
        settings = replace(self._settings, store=str(self.store), session_id=session_id)
        async with open_context(settings, read_only=True) as context:
            if looks:
                await context.get_messages_for_request(token_budget=_NO_LIMIT)
            yield context


def bins(log: Sequence[Json], sizes: Sequence[int]) -> list[Json]:
    """The log as runs of messages: one a message, or, of a long log, several of about equal tokens."""
    step = sum(sizes) / _MOST_BINS if len(log) > _MOST_BINS else 0
    found: list[Json] = []
    for at, (message, size) in enumerate(zip(log, sizes, strict=True)):
        last = found[-1] if found else None
        if last is not None and last["tokens"] + size <= step:
            last["stop"], last["tokens"] = at + 1, last["tokens"] + size
        else:
            found.append({"start": at, "stop": at + 1, "tokens": size, "kind": kind_of(message)})
    return found


def kind_of(message: Json) -> str:
    """Who speaks: user, assistant, system, or tool for a result."""
    role, content = str(message.get("role")), message.get("content")
    blocks = content if isinstance(content, list) else []
    if role == "tool" or any(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks):
        return "tool"
    return {"developer": "system"}.get(role, role if role in ("user", "assistant", "system") else "tool")


def size_of(message: Json) -> int:
    """Estimated tokens of a message."""
    return MESSAGE_TOKENS + estimate_texts(message_text_parts(message))


def row_of(message: Json, part: str, at: int | None, *, most: int = _WORDS) -> Json:
    """A message of a list: the beginning of its text, and where it stands in the log."""
    text = told_text(message)
    return {
        "part": part,
        "kind": kind_of(message),
        "role": str(message.get("role"))[:40],
        "message": at,
        "tokens": size_of(message),
        "text": text[:most],
        "left": max(0, len(text) - most),  # characters
    }


def told_text(message: Json) -> str:
    """All that a message says, calls with their tools."""
    return "\n".join(map(_told, read_message(message).parts))


def _told(part: Part) -> str:
    """What one part of a message says, a call with its tool."""
    text = "\n".join(part.texts)
    if part.kind == "call":
        return f"→ {part.name} {text}"
    return text or (f"[{len(part.media)} image or file]" if part.media else "")


def block_of(node: HeaderNode) -> Json:
    """A summary without its text."""
    return {
        "name": node.name,
        "start": node.start,
        "stop": node.stop,
        "rank": node.rank,
        "form": node.form,
        "made_by": node.made_by,
        "tokens": node.tokens or estimate_text(node.text),
    }


def whole_block_of(node: HeaderNode, context: SummarizingContext) -> Json:
    """A summary with its text, and what it does not hold of its source."""
    return {**block_of(node), "text": node.text, "drops": list(context.dropped_values(node))}


def _failure(figures: Statistics) -> str | None:
    """What went wrong last, as long as summaries are missing."""
    if figures.last_error_at is None or figures.summaries_ready == figures.segments:
        return None
    return f"Making summaries failed last at {figures.last_error_at}: {figures.last_error}"


def _warning(records: Sequence[ActivationRecord], nodes: Sequence[HeaderNode]) -> str | None:
    if records and records[-1].blocks and not nodes:
        return (
            "The session's view cannot be shown with these settings: its segments have other sizes. "
            "Start the inspector with the --config of the program that writes it."
        )
    return None


def _stamp(file: Path) -> str:
    try:
        status = file.stat()
    except OSError:
        return "-"
    return f"{status.st_ino}.{status.st_size}.{status.st_mtime_ns}"
