"""Checkpoints of a relational store: heads that are kept, with the activation state of each provider.

Equal states are kept once; the next one is kept as its difference to the last.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from summarizing_context.errors import CheckpointNotFoundError, StoreError
from summarizing_context.stores.base import (
    CHECKPOINT_ID,
    Checkpoint,
    Place,
    StoredCheckpoint,
    StoredEntry,
    StoredProviderView,
)
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.database import Access, Connection, Work

_PIECE = re.compile(rb'.*?(?:\\n|","|\},\{|\],\[)|.+', re.DOTALL)  # lines and values of JSON

_WINDOW = 32_768  # bytes that zlib looks back


class _Step(NamedTuple):
    """Pieces of the base from `start` on, so many, and after them so many new bytes."""

    start: int
    length: int
    new: int


def pack(data: bytes, base: bytes = b"") -> bytes:
    """The data, to be unpacked with the same base."""
    pieces, known = _PIECE.findall(data), _PIECE.findall(base)
    steps, new = _compared(pieces, known)
    listed = _deflated(b"".join(_listed(steps)), b"")
    return len(listed).to_bytes(3) + listed + _deflated(new, _dictionary(base, known, steps))


def unpack(packed: bytes, base: bytes = b"") -> bytes:
    """What `pack` was given."""
    length, known = int.from_bytes(packed[:3]), _PIECE.findall(base)
    steps = list(_read_steps(_inflated(packed[3 : 3 + length], b"")))
    new = _inflated(packed[3 + length :], _dictionary(base, known, steps))
    return b"".join(_put_together(steps, known, new))


def _deflated(data: bytes, dictionary: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9, zdict=dictionary)  # without a frame of 6 bytes
    return packer.compress(data) + packer.flush()


def _inflated(packed: bytes, dictionary: bytes) -> bytes:
    return zlib.decompressobj(-zlib.MAX_WBITS, zdict=dictionary).decompress(packed)


def _listed(steps: list[_Step]) -> Iterator[bytes]:
    """The steps as numbers of seven bits a byte, each start as its distance from where the step before ended."""
    after = 0
    for start, length, new in steps:
        distance = start - after
        for number in (2 * distance if distance >= 0 else -2 * distance - 1, length, new):
            while number > 127:
                yield bytes([number & 127 | 128])
                number >>= 7
            yield bytes([number])
        after = start + length


def _read_steps(listed: bytes) -> Iterator[_Step]:
    numbers, after = _numbers(listed), 0
    for folded, length, new in zip(numbers, numbers, numbers, strict=True):
        start = after + (folded // 2 if folded % 2 == 0 else -(folded + 1) // 2)
        yield _Step(start, length, new)
        after = start + length


def _numbers(listed: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in listed:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield number
            number = shift = 0


def _compared(pieces: list[bytes], known: list[bytes]) -> tuple[list[_Step], bytes]:
    places = {piece: at for at, piece in reversed(list(enumerate(known)))}
    steps, new, after = [_Step(0, 0, 0)], bytearray(), 0
    for piece in pieces:
        last = steps[-1]
        at = after if after < len(known) and known[after] == piece else places.get(piece)
        if at is None:
            steps[-1] = last._replace(new=last.new + len(piece))
            new += piece
            continue
        if at == last.start + last.length and not last.new and last.length:
            steps[-1] = last._replace(length=last.length + 1)
        else:
            steps.append(_Step(at, 1, 0))
        after = at + 1
    return steps, bytes(new)


def _dictionary(base: bytes, known: list[bytes], steps: list[_Step]) -> bytes:
    """What zlib may refer to: the base, and nearest what of it is not taken, which new pieces are most like."""
    taken = {at for step in steps for at in range(step.start, step.start + step.length)}
    left_over = b"".join(piece for at, piece in enumerate(known) if at not in taken)
    return (base + left_over)[-_WINDOW:]


def _put_together(steps: list[_Step], known: list[bytes], new: bytes) -> Iterator[bytes]:
    at = 0
    for step in steps:
        yield from known[step.start : step.start + step.length]
        yield new[at : at + step.new]
        at += step.new


DEEPEST = 96  # states that one may build on

_DIGEST = 16  # bytes

_REMEMBERED = 4  # states, of as many providers


class _Before(NamedTuple):
    """What a provider was shown at the checkpoint before."""

    id: int
    depth: int  # states that it builds on, at least
    digest: bytes


class _Packed(NamedTuple):
    """A state as its row has it."""

    state: bytes
    base: int | None
    depth: int


class NewestStates:
    """Keeps states, and remembers the newest unpacked: the next one is packed against it. For the writer's thread."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}  # by digest, so that what was rolled back does no harm

    def keep(self, connection: Connection, session_id: str, provider_key: str, state: bytes) -> int:
        """The number of a state, which is kept once."""
        digest = hashlib.sha256(state).digest()[:_DIGEST]
        row = connection.run("find_checkpoint_state", {"digest": digest}).fetchone()
        if row is not None:
            return int(row[0])
        packed = self._packed(connection, state, _newest(connection, session_id, provider_key))
        self._remember(digest, state)
        return connection.insert("add_checkpoint_state", {"digest": digest, **packed._asdict()})

    def _packed(self, connection: Connection, state: bytes, before: _Before | None) -> _Packed:
        alone = _Packed(zlib.compress(state, 9), None, 0)
        if before is None or before.depth >= DEEPEST:
            return alone
        base = self._known.get(before.digest) or read_state(connection, before.id)
        delta = _Packed(pack(state, base), before.id, before.depth + 1)
        return delta if len(delta.state) < len(alone.state) else alone

    def _remember(self, digest: bytes, state: bytes) -> None:
        self._known[digest] = state
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]


def read_state(connection: Connection, number: int) -> bytes:
    """A state, unpacked."""
    chain: list[bytes] = []
    base: int | None = number
    while base is not None:
        packed, base = connection.run("checkpoint_state", {"id": base}).fetchone()
        chain.append(packed)
    state = zlib.decompress(chain.pop())
    while chain:
        state = unpack(chain.pop(), state)
    return state


def forget_unused_states(connection: Connection) -> None:
    """Remove the states that no checkpoint has; those that were packed against one are packed by themselves."""
    for (number,) in connection.run("states_on_unused").fetchall():
        values = {"id": number, "state": zlib.compress(read_state(connection, number))}
        connection.run("pack_state_alone", values)
    connection.run("remove_unused_states")


def _newest(connection: Connection, session_id: str, provider_key: str) -> _Before | None:
    row = connection.run("newest_showings", {"session_id": session_id}).fetchone()
    for key, number, _ in json.loads(row[0]) if row is not None else []:
        if key == provider_key:
            return _Before(*connection.run("state_depth", {"id": number}).fetchone())
    return None


class RelationalCheckpoints:
    """The `CheckpointStore` of a relational store."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._states = NewestStates()

    async def save(
        self, session_id: str, name: str | None, place: Place, provider_views: Sequence[StoredProviderView]
    ) -> Checkpoint | None:
        def work(connection: Connection) -> Checkpoint:
            connection.run("guard_states")
            _check_current(connection, session_id, place)
            head = log.head_of(connection, session_id)
            if place.messages > head.stop:
                raise StoreError(f"session {session_id!r} has {head.stop} entries; no checkpoint of more can be kept")
            head = head._replace(stop=place.messages)
            return _add(connection, session_id, name, self._kept(connection, session_id, head, provider_views))

        return await self._unless_overtaken(session_id, work)

    async def load(self, session_id: str, id: str) -> StoredCheckpoint:
        def work(connection: Connection) -> StoredCheckpoint:
            found = _find(connection, session_id, id)
            head = log.Head(found.kept.branch, found.kept.stop, False)
            entries = log.read_entries(connection, head, self._access.name)
            return StoredCheckpoint(found.checkpoint, entries, _provider_views(connection, found.kept), found.kept.pins)

        return await self._access.read(work)

    async def restore(
        self,
        session_id: str,
        id: str,
        place: Place,
        provider_views: Sequence[StoredProviderView],
        committed: Callable[[], None],
    ) -> Checkpoint | None:
        def work(connection: Connection) -> Checkpoint:
            connection.run("guard_states")
            _check_current(connection, session_id, place)
            found = _find(connection, session_id, id)
            present = self._present(connection, session_id, f"before restoring {found.checkpoint.id}", provider_views)
            log.move(connection, session_id, found.kept.branch, found.kept.stop)
            _show_again(connection, session_id, found.kept)
            return present

        return await self._unless_overtaken(session_id, work, committed)

    async def replace(
        self,
        session_id: str,
        place: Place,
        provider_views: Sequence[StoredProviderView],
        keep: int,
        entries: Sequence[StoredEntry],
        *,
        committed: Callable[[], None],
    ) -> Checkpoint | None:
        """Make a checkpoint of the present, whole log, then let the log go on from its first `keep` entries."""
        new = tuple(entries)
        name = f"before the log was {'replaced' if keep or new else 'cleared'}"

        def work(connection: Connection) -> Checkpoint:
            connection.run("guard_states")
            _check_current(connection, session_id, place)
            present = self._present(connection, session_id, name, provider_views)
            log.replace(connection, session_id, keep, new)
            return present

        return await self._unless_overtaken(session_id, work, committed)

    async def fork(self, session_id: str, id: str, new_id: str) -> None:
        self._access.refuse_if_read_only("fork a session")

        def work(connection: Connection) -> None:
            connection.run("guard_states")
            found = _find(connection, session_id, id)
            if connection.run("hold_checkpoint", {"id": found.number}).fetchone() is None:
                found = _find(connection, session_id, id)  # it was removed meanwhile
            kept = found.kept
            log.fork(connection, session_id, new_id, log.Head(kept.branch, kept.stop, False))
            _show_again(connection, new_id, kept)

        await self._access.submit(work)

    async def listed(self, session_id: str) -> list[Checkpoint]:
        known = {"session_id": session_id}
        return await self._access.read(
            lambda connection: [_checkpoint(row) for row in connection.run("checkpoints", known)]
        )

    async def delete(self, session_id: str, id: str) -> None:
        def work(connection: Connection) -> None:
            connection.run("guard_removal")
            found = _find(connection, session_id, id)
            connection.run("remove_checkpoint", {"id": found.number})
            forget_unused_states(connection)

        await self._access.write(session_id, work)

    def _present(
        self, connection: Connection, session_id: str, name: str, provider_views: Sequence[StoredProviderView]
    ) -> Checkpoint:
        """The checkpoint of the present, whole log: the one that there is, or a new one of this name."""
        kept = self._kept(connection, session_id, log.head_of(connection, session_id), provider_views)
        row = connection.run("same_checkpoint", {"session_id": session_id, **kept._asdict()}).fetchone()
        return _add(connection, session_id, name, kept) if row is None else _checkpoint(row)

    def _kept(
        self,
        connection: Connection,
        session_id: str,
        head: log.Head,
        provider_views: Sequence[StoredProviderView],
    ) -> _Kept:
        keep = self._states.keep
        listed = [(key, keep(connection, session_id, key, state), marks) for key, state, marks in provider_views]
        (pins,) = connection.run("pins", {"session_id": session_id}).fetchone()
        return _Kept(log.owner(connection, head), head.stop, json.dumps(listed), pins)

    async def _unless_overtaken(
        self, session_id: str, work: Work[Checkpoint], committed: Callable[[], None] | None = None
    ) -> Checkpoint | None:
        try:
            return await self._access.write(session_id, work, committed=committed)
        except _Overtaken:
            return None


class _Overtaken(StoreError):
    """The log was replaced since the caller looked at it."""


class _Kept(NamedTuple):
    """A checkpoint's row, as far as going back needs it."""

    branch: int
    stop: int
    showings: str  # of provider views; JSON: [provider key, state id, marks] each
    pins: str


class _Found(NamedTuple):
    number: int
    checkpoint: Checkpoint
    kept: _Kept


def _check_current(connection: Connection, session_id: str, place: Place) -> None:
    row = connection.run("log_version", {"session_id": session_id}).fetchone()
    if row != (place.log_version,):
        raise _Overtaken(f"the log of session {session_id!r} was replaced meanwhile; try again")


def _find(connection: Connection, session_id: str, id: str) -> _Found:
    match = CHECKPOINT_ID.fullmatch(id)
    name = id if id.isprintable() else None  # what no checkpoint is called; half a character cannot even be asked for
    values = {"session_id": session_id, "id": int(match[1]) if match else None, "name": name}
    row = connection.run("checkpoint", values).fetchone()
    if row is None:
        newest = [f"c{number}" for (number,) in connection.run("newest_checkpoints", values)]
        has = f"its newest: {', '.join(newest)}" if newest else "it has none yet"
        raise CheckpointNotFoundError(f"session {session_id!r} has no checkpoint of this id or name; {has}")
    return _Found(row[0], _checkpoint(row[:4]), _Kept(row[4], row[2], row[5], row[6]))


def _checkpoint(row: Sequence[Any]) -> Checkpoint:
    id, name, stop, created_at = row
    return Checkpoint(f"c{id}", name, stop, created_at)


def _add(connection: Connection, session_id: str, name: str | None, kept: _Kept) -> Checkpoint:
    values = {"session_id": session_id, "name": name, "now": log.now(), **kept._asdict()}
    id = connection.insert("add_checkpoint", values)
    return _checkpoint((id, name, kept.stop, values["now"]))


def _provider_views(connection: Connection, kept: _Kept) -> list[StoredProviderView]:
    found = []
    for key, number, marks in json.loads(kept.showings):
        found.append(StoredProviderView(key, read_state(connection, number), marks))
    return found


def _show_again(connection: Connection, session_id: str, kept: _Kept) -> None:
    connection.run("save_pins", {"session_id": session_id, "pins": kept.pins})
    for provider_view in _provider_views(connection, kept):
        log.save_activation(connection, session_id, provider_view.provider_key, provider_view.state)
