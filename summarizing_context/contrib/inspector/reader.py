"""What the page shows, read from a store beside its writers, as JSON values.

Each question opens the session for reading and sees what was committed last.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from summarizing_context import (
    ActivationRecord,
    HeaderNode,
    NodeNotFoundError,
    Settings,
    SummarizingContext,
    load_prices,
    message_text_parts,
    open_context,
    undo_stored,
)
from summarizing_context.adapters.open_sessions import opened_store
from summarizing_context.evaluation.view_parts import view_parts
from summarizing_context.messages.reading import read_message
from summarizing_context.messages.tokens import MESSAGE_TOKENS, estimate_text, estimate_texts

_MAX_BINS = 480  # that the ribbon of a log has
_PAGE = 60  # messages
_MAX_TEXT = 20_000  # characters of a message in a page of them
_MAX_MORE = 200_000  # characters of a message that are asked for at once
_WORDS = 220  # characters of a message in a list
_NO_LIMIT = 10**9  # tokens: a look activates nothing

Json = dict[str, Any]


class Reader:
    """Reads the sessions of one store."""

    def __init__(self, store: str | Path, settings: Settings) -> None:
        self.store = store
        self._settings = settings

    async def sessions(self) -> Json:
        """Return all sessions, the newest change first, with what their summaries cost."""
        async with opened_store(self.store, read_only=True) as store:
            found = await store.sessions()
        price = load_prices(self._settings.prices).price_of(self._settings.model)
        sessions = []
        for info in found:
            cost = None if price is None else price.cost(info.input_tokens, info.output_tokens)
            sessions.append({**asdict(info), "cost": 0.0 if info.input_tokens == 0 else cost})
        return {"store": store.name, "sessions": sessions}

    async def check_known(self, session_id: str) -> Json:
        """Return a session's line of the list. Raises `NodeNotFoundError`."""
        for info in (await self.sessions())["sessions"]:
            if info["session_id"] == session_id:
                return dict(info)
        raise NodeNotFoundError(f"the store holds no session {session_id!r:.60}")

    async def version(self) -> str:
        """Return what differs once anything was committed. No connection is kept, which would leave files beside the
        store."""
        if "://" in str(self.store):  # of a server
            return hashlib.sha256(json.dumps(await self.sessions()).encode()).hexdigest()
        stamps = []
        for file in (Path(self.store), Path(f"{self.store}-wal")):
            with suppress(OSError):
                status = file.stat()
                stamps.append(f"{status.st_ino}.{status.st_size}.{status.st_mtime_ns}")
        return "/".join(stamps)

    async def overview(self, session_id: str) -> Json:
        """Return one session: its log, its segments, the blocks of the header, and what the next request would
        send."""
        noted = (await self.check_known(session_id))["budget"]
        async with self._opened(session_id, looks=False) as context:
            budget = context.budget()
            view = await context.get_messages_for_request(token_budget=_NO_LIMIT)
            log, nodes, records = await context.get_messages(), context.explain(), context.activations()
            last, figures, plan = context.last_view, context.statistics(), await context.plan()
            texts = [message_text_parts(message) for message in log]
            places = {(log[at]["role"], *texts[at]): at for at in reversed(range(len(log)))}
            warning = failure = None
            if records and records[-1].blocks and not nodes:
                warning = (
                    "The session's view cannot be shown with these settings: its segments have other sizes. "
                    "Start the inspector with the --config of the program that writes it."
                )
            if figures.last_error_at is not None and figures.summaries_ready != figures.segments:
                failure = f"Making summaries failed last at {figures.last_error_at}: {figures.last_error}"
            covered = records[-1].covered_to if records else max((node.stop for node in nodes), default=0)
            return {
                "session": session_id,
                "messages": len(log),
                "history_tokens": figures.history_tokens,
                "budget": noted or (records[-1].budget if records else 0) or budget.max_tokens,
                "view_tokens": 0 if last is None else last.tokens,
                "summaries_ready": figures.summaries_ready,
                "covered": 0 if warning else covered,
                "log": _bins(log, [MESSAGE_TOKENS + estimate_texts(each) for each in texts]),
                "segments": [_block(node) for node in context.summaries()],
                "blocks": [{**_block(node), "drops": list(node.drops)} for node in nodes],
                "view": [
                    _row(message, part, places.get((message["role"], *message_text_parts(message))))
                    for message, part in zip(view, view_parts(view, log), strict=True)
                ],
                "activations": [self._record(record) for record in reversed(records)],
                "rules": [rule._asdict() for rule in context.standing_rules()],
                "plan": None if plan is None else asdict(plan),
                "warning": warning,
                "failed": figures.summaries_failed,
                "failure": failure,
            }

    async def ledger(self, session_id: str) -> Json:
        """Return paths, commands, errors and the like, the newest first."""
        async with self._opened(session_id) as context:
            return {"facts": [fact._asdict() for fact in reversed(context.ledger())][:2_000]}

    async def messages(self, session_id: str, start: int, stop: int) -> Json:
        """Return messages of the log word for word, a page of them."""
        async with self._opened(session_id) as context:
            log = await context.get_messages()
        start = max(0, min(start, len(log)))
        end = min(max(start, stop), len(log), start + _PAGE)
        rows = [_row(log[at], "log", at, most=_MAX_TEXT) for at in range(start, end)]
        return {"messages": rows, "next": end if end < min(stop, len(log)) else None}

    async def text(self, session_id: str, message: int, start: int) -> Json:
        """Return a message word for word, from a character on."""
        async with self._opened(session_id) as context:
            log = await context.get_messages()
        if message >= len(log):
            raise NodeNotFoundError(f"session {session_id} has no message {message}")
        text = _text(log[message])
        stop = start + _MAX_MORE
        return {"text": text[start:stop], "left": max(0, len(text) - stop)}

    async def block(self, session_id: str, start: int, stop: int, *, is_segment: bool) -> Json:
        """Return a block of the header, or a segment's own summary, as it stands now."""
        async with self._opened(session_id) as context:
            for node in context.summaries() if is_segment else context.explain(drops=False):
                if (node.start, node.stop) == (start, stop):
                    return _whole_block(node, context)
        what = "segment" if is_segment else "summary in the view"
        raise NodeNotFoundError(f"there is no {what} of messages {start} to {stop - 1} any longer")

    async def activation(self, session_id: str, number: int) -> Json:
        """Return one activation: the messages that left the view, and the blocks that stand for the past since: those
        before the next activation, or the present ones; None where the store keeps them no longer, or the log was
        replaced since."""
        async with self._opened(session_id) as context:
            records = context.activations()
            record = next((one for one in records if one.number == number), None)
            if record is None:
                raise NodeNotFoundError(f"session {session_id} has no activation {number}")
            log = await context.get_messages()
            nodes = await context.header_since(number)
            left = () if nodes is None else range(record.covered_from, min(record.covered_to, len(log)))
            return {
                **self._record(record),
                "left": [_row(log[at], "log", at) for at in left],
                "blocks": None if nodes is None else [_whole_block(node, context) for node in nodes],
            }

    async def undo_outlook(self, session_id: str) -> Json:
        """Return what an undo of the last activation would come to. Raises `UndoError`."""
        async with opened_store(self.store, read_only=True) as store:
            return (await undo_stored(store, session_id, only_looks=True))._asdict()

    async def search(self, session_id: str, query: str) -> Json:
        """Return messages and summaries of the session that hold the words, the best first."""
        async with self._opened(session_id) as context:
            return {"hits": [asdict(hit) for hit in await context.search(query, limit=30)]}

    def _record(self, record: ActivationRecord) -> Json:
        """Return a record, with the tokens that its view had to send outside of the prompt cache, and their price."""
        sent = max(0, record.tokens_after - record.prefix_kept)
        price = load_prices(self._settings.prices).price_of(self._settings.model)
        told = {**record._asdict(), "why": record.why}
        return {**told, "resent": sent, "cost": None if price is None else price.cost(sent, 0)}

    @asynccontextmanager
    async def _opened(self, session_id: str, *, looks: bool = True) -> AsyncIterator[SummarizingContext]:
        await self.check_known(session_id)
        settings = replace(self._settings, store=str(self.store), session_id=session_id)
        async with open_context(settings, read_only=True) as context:
            if looks:
                await context.get_messages_for_request(token_budget=_NO_LIMIT)
            yield context


def _bins(log: Sequence[Json], sizes: Sequence[int]) -> list[Json]:
    """Return the log as runs of messages: one a message, or, of a long log, several of about equal tokens."""
    step = sum(sizes) / _MAX_BINS if len(log) > _MAX_BINS else 0
    found: list[Json] = []
    for at, (message, size) in enumerate(zip(log, sizes, strict=True)):
        last = found[-1] if found else None
        if last is not None and last["tokens"] + size <= step:
            last["stop"], last["tokens"] = at + 1, last["tokens"] + size
        else:
            found.append({"start": at, "stop": at + 1, "tokens": size, "kind": _kind(message)})
    return found


def _kind(message: Json) -> str:
    """Return who speaks: user, assistant, system, or tool for a result."""
    role = str(message.get("role"))
    if any(part.kind == "result" for part in read_message(message).parts):
        return "tool"
    return {"developer": "system"}.get(role, role if role in ("user", "assistant", "system") else "tool")


def _row(message: Json, part: str, at: int | None, *, most: int = _WORDS) -> Json:
    """Return a message of a list: the beginning of its text, and where it stands in the log."""
    text, most = _text(message), 8_000 if part == "header" else most
    return {
        "part": part,
        "kind": _kind(message),
        "role": str(message.get("role"))[:40],
        "message": at,
        "tokens": MESSAGE_TOKENS + estimate_texts(message_text_parts(message)),
        "text": text[:most],
        "left": max(0, len(text) - most),  # characters
    }


def _text(message: Json) -> str:
    """Return all that a message says, calls with their tools."""
    told = []
    for part in read_message(message).parts:
        text = "\n".join(part.texts)
        if part.kind == "call":
            text = f"→ {part.name} {text}"
        told.append(text or (f"[{len(part.media)} image or file]" if part.media else ""))
    return "\n".join(told)


def _block(node: HeaderNode) -> Json:
    """Return a summary without its text."""
    parts = {name: getattr(node, name) for name in ("name", "start", "stop", "rank", "form", "made_by")}
    return {**parts, "tokens": node.tokens or estimate_text(node.text)}


def _whole_block(node: HeaderNode, context: SummarizingContext) -> Json:
    """Return a summary with its text, and what it does not hold of its source."""
    return {**_block(node), "text": node.text, "drops": list(context.dropped_values(node))}
