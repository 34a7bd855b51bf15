"""Learning: memories read off a log in the background, and kept.

Nothing waits for it: one piece is read at a time, behind the summaries, and what fails is tried again at a later
occasion. What reads them is in `memory_readers`; which pieces there are, in `memory_pieces`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from summarizing_context.core.memory_block import stems
from summarizing_context.core.memory_items import Item, Lessons, normal_subject
from summarizing_context.errors import StoreError, SummarizerError, SummarizerNotReady
from summarizing_context.memory_pieces import MemoryPieces, Piece
from summarizing_context.memory_readers import Reader
from summarizing_context.ports import Clock
from summarizing_context.setbacks import Setbacks
from summarizing_context.shelves import KeptMemory, MemoryKeeper, MemoryScope, NewMemory

_AT_ONCE = 200  # leaves whose marks are looked up in one go
_END_WITHIN = 0.5  # seconds

logger = logging.getLogger(__name__)


class Learner:
    """What one session teaches. All methods belong to its event loop; none but the waiting ones wait."""

    def __init__(
        self,
        pieces: MemoryPieces,
        readers: tuple[Reader, Reader],  # the first reads; on leaving the second what the first has not read
        keeper: MemoryKeeper,
        scope: MemoryScope,
        *,
        clock: Clock,
        cooldown: float,
        notify: Callable[[str, dict[str, object]], None],
    ) -> None:
        self._pieces, self._keeper, self._scope = pieces, keeper, scope
        self._reader, self._last_reader = readers
        self._clock, self._notify = clock, notify
        self._setbacks = Setbacks(cooldown)
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._is_new = True  # nothing is known yet of what was read of the log
        self.dropped = 0  # proposals that the record did not bear out
        self.last_error: str | None = None

    def ask(self) -> None:
        """Read the log as it stands, in the background."""
        self._pieces.ask()
        self.wake()

    def wake(self) -> None:
        """Go on reading, if there is anything to read."""
        if not self._closed and (self._task is None or self._task.done()) and (self._is_new or self._next()):
            self._task = asyncio.create_task(self._run(), name="learning")

    def forget(self) -> None:
        """The log is another one."""
        self._pieces.reset()
        self._is_new = True

    async def settle(self, timeout: float | None = None) -> bool:
        """Wait until all that is to be read was; whether it was, within so many seconds."""
        self.wake()
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=timeout)
        return not self._is_new and next(self._pieces.wanted(), None) is None

    async def leave(self, within: float) -> None:
        """The session ends: read what has not been read yet. What the first reader does not manage within so many
        seconds is left to the last one, and to the first when the session is opened again."""
        self.ask()
        is_read = await self.settle(within)
        await self.close()
        try:
            if not is_read and not self._is_new and (pieces := list(self._pieces.wanted())):
                self._reader = self._last_reader
                if (lessons := await self._reader.read(pieces)) is not None:
                    await self._keep(pieces, lessons)
        except Exception as error:  # of what was left behind
            self._fail(error)

    async def close(self) -> None:
        """End what is under way."""
        self._closed = True
        if self._task is not None and self._task.cancel():
            await asyncio.wait({self._task}, timeout=_END_WITHIN)

    def _next(self) -> Sequence[Piece]:
        if self._closed or not self._reader.ready():
            return ()
        now = self._clock.now()
        return self._reader.next(one for one in self._pieces.wanted() if not self._setbacks.rests(one.hash, now))

    async def _run(self) -> None:
        if self._is_new and not await self._recall():
            return
        while pieces := self._next():
            began = self._clock.now()
            try:
                lessons = await self._reader.read(pieces)
                if lessons is not None:
                    await self._keep(pieces, lessons)
                self._setbacks.recover(pieces[0].hash, began)
            except SummarizerNotReady:
                return  # nothing was tried
            except Exception as error:  # the session goes on without
                for piece in pieces:
                    self._setbacks.note(piece.hash, error, self._clock.now())
                self._fail(error)
            if self._is_new and not await self._recall():
                return

    async def _recall(self) -> bool:
        """Find out what of a log was read before; whether that is known now."""
        self._is_new, leaves = False, self._pieces.leaves
        try:
            for first in range(0, leaves, _AT_ONCE):
                marks = self._pieces.marks(range(first, min(first + _AT_ONCE, leaves)))
                known = await self._keeper.marked(self._scope, self._reader.name, list(marks))
                if self._is_new:  # replaced meanwhile
                    return await self._recall()
                self._pieces.take(marks[mark] for mark in known)
        except StoreError as error:
            self._is_new = True
            self._fail(error)
            return False
        return True

    async def _keep(self, pieces: Sequence[Piece], lessons: Lessons) -> None:
        memories = [_memory(item, self._scope.session_id) for item in lessons.items]
        marks = [piece.mark for piece in pieces]
        kept = await self._keeper.learn(self._scope, self._reader.name, marks, memories, lessons.gone)
        self.dropped += lessons.dropped
        for piece in pieces:
            self._pieces.note(piece)
        for one, memory in zip(kept, memories, strict=False):
            tell(self._notify, one, memory.metadata)

    def _fail(self, error: Exception) -> None:
        known = isinstance(error, SummarizerError | StoreError)
        self.last_error = str(error) if known else type(error).__name__
        logger.warning("memories could not be learnt", extra={"cause": type(error).__name__})


def tell(notify: Callable[[str, dict[str, object]], None], kept: KeptMemory, metadata: Any) -> None:
    """Tell of a memory that is new, or that has taken the place of another; never its text."""
    if kept.change != "known":
        told = {name: metadata.get(name) for name in ("kind", "source") if isinstance(metadata.get(name), str)}
        try:
            notify(f"memory_{kept.change}", {"id": kept.id, **told})
        except Exception as error:  # an observer's fault is not ours
            logger.warning("an observer failed", extra={"event": kept.change, "cause": type(error).__name__})


def _memory(item: Item, session_id: str) -> NewMemory:
    is_clear = not item.about or stems(item.about) <= stems(item.text)
    metadata = {"source": "session", "session_id": session_id, "kind": item.kind, "said_by": item.said_by}
    place = {"message": item.message, "quote": item.text} if item.message >= 0 else {}
    subject = {"about": item.about, "subject": normal_subject(item.about)} if item.about else {}
    return NewMemory(item.text if is_clear else f"{item.about}: {item.text}", {**metadata, **place, **subject})
