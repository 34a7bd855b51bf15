"""Bringing a session back: its log, the summaries that the store has for it, and its activation states."""

from __future__ import annotations

import asyncio

from summarizing_context.core.entries import decode_entry
from summarizing_context.core.view import decode_state
from summarizing_context.errors import StoreError
from summarizing_context.parts import Parts
from summarizing_context.ports import StoredSession

_BREATH = 1_000  # entries loaded between two turns of the event loop


async def load_session(parts: Parts) -> None:
    """Bring back the log, the summaries and the activation states of a session."""
    session_id = parts.settings.session_id
    if not parts.read_only:
        await parts.store.claim(session_id, project=parts.settings.project)
    stored = await parts.store.load(session_id)
    if stored is None:
        raise StoreError(
            f"{parts.store.name} holds no session {session_id!r}; `summarizing-context sessions` lists them"
        )
    await _extend(parts, stored)
    await parts.worker.recall()
    for key, data in stored.activations:
        state = decode_state(data)
        if state.stop <= len(parts.timeline):
            parts.viewer.restore(key, state)


async def _extend(parts: Parts, stored: StoredSession) -> None:
    count, name = parts.counter.count, parts.counter.name
    for at, entry in enumerate(stored.entries):
        parts.timeline.extend(decode_entry(entry.message, entry.facts, count, name))
        if at % _BREATH == _BREATH - 1:
            await asyncio.sleep(0)
