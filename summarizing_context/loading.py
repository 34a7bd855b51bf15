"""Bringing a session back: its log, the summaries that the store has for it, and its activation states."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from summarizing_context.core.entries import Entry, decode_entry
from summarizing_context.core.pinned import decode_pins
from summarizing_context.core.view import ActivationState, decode_state
from summarizing_context.errors import StoreError
from summarizing_context.parts import Parts
from summarizing_context.ports import StoredEntry, StoredRules

_BREATH = 1_000  # entries loaded between two turns of the event loop

logger = logging.getLogger(__name__)


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
    parts.intake.learn(stored.rules)
    unread: list[tuple[int, StoredRules]] = []
    for at, entry in enumerate(await read_entries(parts, stored.entries)):
        if (rules := parts.intake.unread(entry)) is not None:
            unread.append((at, rules))
        parts.timeline.extend(entry)
        if at % _BREATH == _BREATH - 1:
            await asyncio.sleep(0)
    await _keep_rules(parts, unread)
    parts.timeline.version = stored.log_version
    parts.timeline.take_pins(decode_pins(stored.pins))
    parts.viewer.reopened = bool(stored.entries)
    await parts.worker.recall()
    for key, data in stored.activations:
        if (state := usable_state(parts, data)) is not None:
            parts.viewer.restore(key, state)
            for hash in parts.timeline.hashes[: state.leaves]:  # an earlier process has read what it covered
                parts.book.saw(hash)


async def _keep_rules(parts: Parts, rows: Sequence[tuple[int, StoredRules]]) -> None:
    """Keep what was read of messages on opening, so that it need not be read again."""
    if not rows or parts.read_only:
        return
    try:
        await parts.store.rules.save(parts.settings.session_id, rows)
    except StoreError as error:
        logger.warning("standing rules could not be kept; they are read again when it is opened", exc_info=error)


def usable_state(parts: Parts, data: bytes) -> ActivationState | None:
    """A stored state; None if it cannot be read, or if the log is cut otherwise than it was when the state was made:
    into other segments by other settings, into other groups by an earlier version."""
    try:
        state = decode_state(data)
    except (msgspec.MsgspecError, ValueError) as error:
        logger.warning("an activation state is not readable; it is made anew", extra={"cause": type(error).__name__})
        return None
    timeline = parts.timeline
    ends = [0, *(segment.stop for segment in timeline.segments[: state.leaves])]
    if len(ends) <= state.leaves or ends[state.leaves] != state.leaves_stop:
        return None
    fits = timeline.group_start(state.stop) == state.stop and max(state.stop, state.repeats_stop) <= len(timeline)
    return state if fits else None


async def read_entries(parts: Parts, stored: Sequence[StoredEntry]) -> list[Entry]:
    """Entries as the log holds them; the event loop turns meanwhile."""
    count, name = parts.counter.count, parts.counter.name
    entries: list[Entry] = []
    for at, entry in enumerate(stored, 1):
        entries.append(decode_entry(entry.message, entry.facts, count, name))
        if at % _BREATH == 0:
            await asyncio.sleep(0)
    return entries
