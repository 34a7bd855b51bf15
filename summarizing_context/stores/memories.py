"""Who replaces whom among memories: decided on what a store holds, whatever store that is.

A memory replaces older ones about the same: their metadata have the same `choice`, or the same `subject` and, where
both name one, the same `relation`; its metadata then have their texts as `replaces`. One that was said later stays: by
`message` within one session, else by `said_at`. First of all, a memory of the same message of the same session, one
`quote` within the other, is the same memory: it takes the newer words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from summarizing_context.errors import MemoryNotFoundError
from summarizing_context.stores.base import MemoryEdit, MemoryScope, MemoryStore, StoredMemory


class NewMemory(NamedTuple):
    content: str
    metadata: Mapping[str, Any]
    said_at: str = ""  # no later than this, ISO 8601, UTC; empty: now


class KeptMemory(NamedTuple):
    id: str
    change: Literal["known", "stored", "replaced"]


async def keep_memories(
    store: MemoryStore,
    scope: MemoryScope,
    memories: Sequence[NewMemory],
    gone: Sequence[str] = (),
    *,
    reader: str = "",
    marks: Sequence[str] = (),
    again: bool = True,
    renew: bool = False,
) -> list[KeptMemory]:
    """Keep memories one after the other, remove those of the contents `gone` that a session taught, and note the marks
    of what a reader has read; all or nothing.

    The metadata of a memory that is there word for word stay, or are renewed. Without `again` nothing is done where all
    marks are noted already.
    """
    changes = _Changes(scope, ())

    def decide(known: Sequence[StoredMemory], marked: set[str]) -> list[MemoryEdit]:
        nonlocal changes
        changes = _Changes(scope, known)
        if again or not marked.issuperset(marks):
            for content in gone:
                if (old := changes.same(content)) and old.metadata.get("source") == "session":
                    changes.remove(old.id)
            for memory in memories:
                changes.keep(memory, renew)
        return list(changes.edits.values())

    given = await store.edit(scope, decide, reader, marks)
    ids = dict(zip(changes.edits, given, strict=True))
    return [KeptMemory(ids.get(id, id), change) for id, change in changes.kept]


async def update_memory(
    store: MemoryStore, scope: MemoryScope, id: str, content: str, metadata: Mapping[str, Any] | None
) -> None:
    """Replace a memory's content, and its metadata where some are given. Raise `MemoryNotFoundError`."""

    def decide(known: Sequence[StoredMemory], _: object) -> list[MemoryEdit]:
        old = _found(known, id).metadata
        return [MemoryEdit(id, content, old if metadata is None else metadata)]

    await store.edit(scope, decide)


async def forget_memory(store: MemoryStore, scope: MemoryScope, id: str) -> None:
    """Remove a memory; its bytes leave the file with the next `purge`. Raise `MemoryNotFoundError`."""
    await store.edit(scope, lambda known, _: [MemoryEdit(_found(known, id).id, None)])


def _found(known: Sequence[StoredMemory], id: str) -> StoredMemory:
    if found := next((one for one in known if one.id == id), None):
        return found
    raise MemoryNotFoundError("there is no memory of this id here; retrieve() and store() return the ids")


class _Changes:
    """The memories of a scope as they become. One that is new has a passing id that begins with `new`."""

    def __init__(self, scope: MemoryScope, known: Sequence[StoredMemory]) -> None:
        self._scope = scope
        self._all = {one.id: one for one in known}  # oldest first
        self.edits: dict[str, MemoryEdit] = {}
        self.kept: list[tuple[str, Literal["known", "stored", "replaced"]]] = []

    def same(self, content: str) -> StoredMemory | None:
        return next((one for one in self._all.values() if one.content == content), None)

    def remove(self, id: str) -> None:
        del self._all[id]
        if self.edits.pop(id, None) is None or not id.startswith("new"):
            self.edits[id] = MemoryEdit(id, None)

    def keep(self, memory: NewMemory, renew: bool) -> None:
        content, metadata = memory.content, memory.metadata

        # the same text
        if old := self.same(content):
            if renew:
                self._put(old.id, content, metadata)
            self.kept.append((old.id, "known"))
            return

        # the same words of the same message, learnt by rules or by a model
        quote, session_id, message = (metadata.get(name) for name in ("quote", "session_id", "message"))
        if quote and session_id == self._scope.session_id:
            for old in self._all.values():
                is_same = old.metadata.get("session_id") == session_id and old.metadata.get("message") == message
                old_quote = str(old.metadata.get("quote", ""))
                if is_same and message is not None and old_quote and (old_quote in quote or quote in old_quote):
                    self._put(old.id, content, {**old.metadata, **metadata})
                    self.kept.append((old.id, "known"))
                    return

        # others about the same: the newest takes their place, unless it was said later than this
        same = [one for one in self._all.values() if _are_about_the_same(one.metadata, metadata)]
        if not same:
            id = f"new {len(self.kept)}"
            self._put(id, content, metadata)
            self.kept.append((id, "stored"))
            return
        ids = list(self._all)
        newest, *others = sorted(same, key=lambda one: (one.updated_at, ids.index(one.id)), reverse=True)
        if newest.metadata.get("session_id") == session_id is not None:
            at = newest.metadata.get("message")
            is_newer = isinstance(at, int) and isinstance(message, int) and at > message
        else:  # parts of a log are read in any order, and long after they were said
            is_newer = newest.updated_at > memory.said_at != ""
        if not is_newer:
            for other in others:
                self.remove(other.id)
                self.kept = [(newest.id if id == other.id else id, change) for id, change in self.kept]
            replaced = " ".join(one.content for one in (newest, *others))
            self._put(newest.id, content, {**metadata, "replaces": replaced})
        self.kept.append((newest.id, "known" if is_newer else "replaced"))

    def _put(self, id: str, content: str, metadata: Mapping[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        self._all[id] = StoredMemory(id, content, metadata, now, now)
        self.edits[id] = MemoryEdit(None if id.startswith("new") else id, content, metadata)


def _are_about_the_same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    choice, subject, relation = (new.get(name) for name in ("choice", "subject", "relation"))
    if choice and isinstance(choice, str) and old.get("choice") == choice:
        return True
    is_same = subject and isinstance(subject, str) and old.get("subject") == subject
    return bool(is_same) and (not isinstance(relation, str) or not relation or old.get("relation") in (None, relation))
