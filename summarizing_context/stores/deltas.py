"""Bytes packed as what they differ in from others that are nearly equal, such as one activation state from the next.

Pure. What is packed against what, and how long such a chain may become, is said in `states`.
"""

from __future__ import annotations

import json
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
    listed = zlib.compress(json.dumps([number for step in steps for number in step], separators=(",", ":")).encode(), 9)
    packer = zlib.compressobj(9, zdict=_dictionary(base, known, steps))
    return len(listed).to_bytes(4) + listed + packer.compress(new) + packer.flush()


def unpack(packed: bytes, base: bytes = b"") -> bytes:
    """What `pack` was given."""
    length, known = int.from_bytes(packed[:4]), _PIECE.findall(base)
    numbers = iter(json.loads(zlib.decompress(packed[4 : 4 + length])))
    steps = [_Step(*step) for step in zip(numbers, numbers, numbers, strict=True)]
    new = zlib.decompressobj(zdict=_dictionary(base, known, steps)).decompress(packed[4 + length :])
    return b"".join(_put_together(steps, known, new))


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
