"""Checkpoints of a session: made when asked and at intervals, gone back to, forked.

A checkpoint is the log's length and what each provider was shown then; the store keeps both without a copy. How the
log changes is in `session`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

import msgspec

from summarizing_context.core.entries import Entry
from summarizing_context.core.pinned import decode_pins
from summarizing_context.errors import SettingsError, StoreError, briefly
from summarizing_context.loading import read_entries, usable_state
from summarizing_context.session import Session
from summarizing_context.settings import Settings
from summarizing_context.shelves import (
    CHECKPOINT_ID,
    Checkpoint,
    CheckpointKeeper,
    StoredCheckpoint,
)
from summarizing_context.showing import Marks

_LONGEST_NAME = 200

logger = logging.getLogger(__name__)


class Checkpoints:
    """The checkpoints of one session. All methods belong to its event loop."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._keeper: CheckpointKeeper = session.parts.store.checkpoints
        self._every = session.parts.settings.checkpoint_interval_messages
        self._noted = session.place  # when it was last looked whether one is due

    async def save(self, name: str | None = None) -> Checkpoint:
        """Keep the present state."""
        check_name(name)
        async with self._session.changing:
            while True:
                made = await self._keeper.save(self._session.id, name, self._session.place, self._session.showings())
                if made is not None:  # else a cancelled replacement of the log was still on its way
                    if self._session.parts.learner is not None:
                        self._session.parts.learner.ask()
                    return made

    async def restore(self, id: str) -> Checkpoint:
        """Go back to a checkpoint; the checkpoint of the present that is made before."""
        _check_id(id)
        session, parts = self._session, self._session.parts
        async with session.changing:
            there = await self._keeper.load(session.id, id)
            entries = await read_entries(parts, there.entries)
            back = partial(self._go_back, entries, there)
            while True:
                made = await self._keeper.restore(
                    session.id, there.checkpoint.id, session.place, session.showings(), back
                )
                if made is not None:
                    break
            await parts.worker.recall(everything=True)
        return made

    async def fork(self, id: str, session_id: str) -> str:
        """Begin another session from a checkpoint; its id."""
        _check_id(id)
        fork = Settings(session_id=session_id).session_id
        await self._keeper.fork(self._session.id, id, fork)
        return fork

    async def listed(self) -> list[Checkpoint]:
        """All of them, oldest first."""
        return await self._keeper.listed(self._session.id)

    async def delete(self, id: str) -> None:
        """Forget one."""
        _check_id(id)
        await self._keeper.delete(self._session.id, id)

    @property
    def is_due(self) -> bool:
        """Whether a multiple of `checkpoint_interval_messages` was reached since the last one."""
        timeline, (version, noted) = self._session.parts.timeline, self._noted
        if version != timeline.version:  # the log was replaced, perhaps by a shorter one
            noted = min(noted, self._session.replaced_by)
        return self._every is not None and len(timeline) // self._every > noted // self._every

    async def save_if_due(self) -> None:
        """The automatic checkpoint. A message is in the log in any case: where the store fails, it is told."""
        if not self.is_due or self._session.changing.locked():
            return  # the next message will see to it
        self._noted = self._session.place
        try:
            await self.save()
        except StoreError as error:
            self._session.last_error = str(error)
            logger.warning("an automatic checkpoint could not be kept", exc_info=error)

    def _go_back(self, log: Sequence[Entry], there: StoredCheckpoint) -> None:
        """The store is back at the checkpoint: so are the log in memory, the pins and the views."""
        session = self._session
        session.replaced(log)
        session.parts.timeline.take_pins(decode_pins(there.pins))
        session.parts.viewer.start_anew()
        for key, data, marks in there.showings:
            if (state := usable_state(session.parts, data)) is not None:
                session.parts.viewer.restore(key, state, msgspec.json.decode(marks, type=Marks))
        session.asked_at = session.parts.clock.now()  # the view of then comes first, before any for a cold cache
        self._noted = self._session.place


def check_name(name: object) -> None:
    """Raise `SettingsError` unless a checkpoint may be called so."""
    if name is None:
        return
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise SettingsError(
            f"a checkpoint's name is 1-{_LONGEST_NAME} printable characters, or None; not {briefly(name, 60)}"
        )
    if CHECKPOINT_ID.fullmatch(name):
        raise SettingsError(f"a checkpoint cannot be named {name!r}: ids look like that; choose another name")


def _check_id(id: object) -> None:
    if not isinstance(id, str):
        raise SettingsError(f"a checkpoint's id is a string, as list_checkpoints() tells it; not {type(id).__name__}")
