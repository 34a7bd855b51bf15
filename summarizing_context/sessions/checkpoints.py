"""Checkpoints and pins of a session: made when asked and at intervals, gone back to, forked."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from summarizing_context.concurrency import in_turns
from summarizing_context.errors import PinNotFoundError, SettingsError, StoreError, briefly
from summarizing_context.log.entries import Entry, stored_rules
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.pins import PinList, encode_pins
from summarizing_context.sessions.activations import closings_of
from summarizing_context.sessions.session import Session
from summarizing_context.settings.values import Settings
from summarizing_context.stores.base import CHECKPOINT_ID, Checkpoint, StoredCheckpoint

_LONGEST_NAME = 200

logger = logging.getLogger(__name__)


class Checkpoints:
    """The checkpoints of one session. All methods belong to its event loop."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._store = session.store.checkpoints
        self._every = session.settings.checkpoint_interval_messages  # between two automatic ones
        self._noted = session.place  # when it was last looked whether one is due

    async def save(self, name: str | None = None) -> Checkpoint:
        """Keep the present state."""
        if name is not None:
            if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
                raise SettingsError(
                    f"a checkpoint's name is 1-{_LONGEST_NAME} printable characters, or None; not {briefly(name, 60)}"
                )
            if CHECKPOINT_ID.fullmatch(name):
                raise SettingsError(f"a checkpoint cannot be named {name!r}: ids look like that; choose another name")
        async with self._session.changing:
            while True:
                made = await self._store.save(
                    self._session.id, name, self._session.place, self._session.provider_views()
                )
                if made is not None:  # else a cancelled replacement of the log was still on its way
                    if self._session.learner is not None:
                        self._session.learner.read_to_end()
                    return made

    async def restore(self, id: str) -> Checkpoint:
        """Go back to a checkpoint; the checkpoint of the present that is made before."""
        _check_id(id)
        session = self._session
        async with session.changing:
            there = await self._store.load(session.id, id)
            entries = await session.decoded(there.entries)
            filled = await session.filled(entries, closings_of(one.state for one in there.provider_views))
            back = session.changing_log(partial(self._go_back, entries, filled, there))
            while True:
                made = await self._store.restore(
                    session.id, there.checkpoint.id, session.place, session.provider_views(), back
                )
                if made is not None:
                    break
            await session.worker.recall(everything=True)
            rows = []
            async for at, entry in in_turns(list(enumerate(session.log.entries))):
                rows += [(at, row) for row in stored_rules(entry, session.log.verdicts)]
            await session.keep_rules(rows)
        return made

    async def fork(self, id: str, session_id: str) -> str:
        """Begin another session from a checkpoint; its id."""
        _check_id(id)
        fork = Settings(session_id=session_id).session_id
        await self._store.fork(self._session.id, id, fork)
        return fork

    async def listed(self) -> list[Checkpoint]:
        """All of them, oldest first."""
        return await self._store.listed(self._session.id)

    async def delete(self, id: str) -> None:
        """Forget one."""
        _check_id(id)
        await self._store.delete(self._session.id, id)

    @property
    def is_due(self) -> bool:
        """Whether a multiple of `checkpoint_interval_messages` was reached since the last one."""
        log, (version, noted) = self._session.log, self._noted
        if version != log.version:  # the log was replaced, perhaps by a shorter one
            noted = min(noted, self._session.replaced_by)
        return self._every is not None and len(log) // self._every > noted // self._every

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

    def _go_back(self, log: Sequence[Entry], filled: MessageLog | None, there: StoredCheckpoint) -> None:
        self._session.go_back(log, filled, there)
        self._noted = self._session.place


def _check_id(id: object) -> None:
    if not isinstance(id, str):
        raise SettingsError(f"a checkpoint's id is a string, as list_checkpoints() tells it; not {type(id).__name__}")


_LONGEST = 2_000  # characters of a pinned text


class PinEditor:
    """The pins of one session. All methods belong to its event loop."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def pin(self, what: int | str) -> str:
        """Pin a message or a text; the id of the pin."""
        log = self._session.log
        if isinstance(what, str):
            if not what.strip() or len(what) > _LONGEST:
                raise SettingsError(
                    f"a pinned text has 1-{_LONGEST:,} characters; pin the message it stands in by its index"
                )
            try:
                what.encode()
            except UnicodeEncodeError:
                raise SettingsError("a pinned text holds half a character (a lone surrogate); leave it out") from None
        elif isinstance(what, bool) or not isinstance(what, int):
            raise SettingsError(f"what is pinned is a message's index (int) or a text (str), not {type(what).__name__}")
        async with self._session.changing:
            if isinstance(what, str):
                changed, id = log.pinned.with_text(what)
            elif 0 <= what < len(log):
                changed, id = log.pinned.with_message(what, log.entries[what].facts.content)
            else:
                raise SettingsError(f"there is no message {briefly(what)} to pin; the log has {len(log)}, from 0 on")
            await self._keep(changed)
        return id

    async def unpin(self, id: str) -> None:
        """Give up a pin."""
        if not isinstance(id, str):
            raise SettingsError(f"a pin's id is a string, as pin() and pins() tell it; not {type(id).__name__}")
        async with self._session.changing:
            changed = self._session.log.pinned.without(id)
            if changed is None:
                has = ", ".join(pin.id for pin in self._session.log.pinned.pins) or "none"
                raise PinNotFoundError(f"the session has no pin of this id; it has {has:.200}")
            await self._keep(changed)

    async def _keep(self, changed: PinList) -> None:
        """Commit first, then show it: with the next view, whose prefix ends before the first pin that changes."""
        session = self._session

        def committed() -> None:
            session.log.pinned = changed
            session.views.refresh_pins()

        if changed != session.log.pinned:
            await session.store.save_pins(session.id, encode_pins(changed), session.changing_log(committed))
