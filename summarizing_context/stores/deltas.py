"""Bytes packed as what they differ in from others that are nearly equal, such as one activation state from the next.

Pure. What is packed against what, and how long such a chain may become, is said in `states`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

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
