"""Names for content: message digests, range hashes, recipe hashes.

Pure. Equal content has an equal name in any process, on any host, in any session: only what a model can read
enters, in one spelling. Timestamps, metadata, usage and provider-minted ids do not; calls and results are tied
by their ordinal within the group instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from summarizing_context.messages.reading import Reading
from summarizing_context.messages.validation import canonical_json

_RANGE, _ROLLUP, _RECIPE = b"range/v1", b"rollup/v1", b"recipe/v1"


def content_digest(reading: Reading) -> bytes:
    """32 bytes that name what a message says, apart from which call a result answers."""
    said = [
        (part.kind, part.name, part.failed, part.texts, part.media)
        for part in reading.parts
        if part.texts or part.kind != "extra"  # else it holds nothing but ids and seals
    ]
    readable = (reading.role, reading.turn, said)
    try:
        data = msgspec.json.encode(readable)
    except UnicodeEncodeError:  # lone surrogates
        data = canonical_json(readable).encode()
    return hashlib.sha256(data).digest()


def message_digest(content: bytes, first_call: int, answered: Sequence[int]) -> bytes:
    """A content digest tied to its place in the group: its first call's ordinal and those that it answers."""
    if first_call < 0 and not answered:
        return content
    places = ",".join(map(str, (first_call, *answered)))
    return hashlib.sha256(content + places.encode()).digest()


def group_digest(digests: Sequence[bytes]) -> bytes:
    """32 bytes that name a group."""
    return digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()


def range_hash(digests: Iterable[bytes], part: int = 0, parts: int = 1) -> str:
    """The name of a range of messages; `part` of `parts` where one group fills several leaves."""
    place = f"{part}/{parts}".encode() if parts > 1 else b""
    return hashlib.sha256(_RANGE + place + b"".join(digests)).hexdigest()


def prefix_hashes(digests: Iterable[bytes]) -> Iterator[str]:
    """The names of the ranges that begin a range: of its first message, of its first two, and so on."""
    begun = hashlib.sha256(_RANGE)
    for digest in digests:
        begun.update(digest)
        yield begun.hexdigest()


def rollup_hash(rank: int, children: Sequence[str]) -> str:
    """The name of a rollup: its rank and the hashes of its children's texts, in order.

    Texts, not ranges, because two runs of a model over one range differ.
    """
    return hashlib.sha256(_ROLLUP + f"{rank}:{','.join(children)}".encode()).hexdigest()


def output_hash(text: str) -> str:
    """The name of a summary's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def recipe_hash(recipe: Mapping[str, object]) -> str:
    """The name of how a summary is made: prompt, model, parameters, caps, renderer, redaction."""
    return hashlib.sha256(_RECIPE + canonical_json(dict(recipe)).encode()).hexdigest()
