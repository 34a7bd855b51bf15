"""Folding: calls that are left out of a view together with their results, where a group is too wide to be shown.

Pure. How many are folded is decided in `activation`; `repairs` shows the others as if only they had been made. A note
before the group counts what is folded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from summarizing_context.core.door import Message
from summarizing_context.core.groups import CallBook
from summarizing_context.core.messages import Part, call_id, is_result, read_message
from summarizing_context.core.repairs import Piece, Read, Repair

Folded = tuple[int, ...]  # ordinals of calls within their group


class Calls(NamedTuple):
    """The calls of a group, as far as folding goes."""

    answered: tuple[Folded, ...]  # those with a result, in the order of the results; equal ids of a message together
    made: int

    def oldest(self, count: int) -> Folded:
        """The first `count` of the answered ones."""
        return tuple(sorted({ordinal for together in self.answered[:count] for ordinal in together}))

    @property
    def all(self) -> Folded:
        """Those in flight too."""
        return tuple(range(self.made))


class _Paired(NamedTuple):
    """A message, and the ordinals of the calls that it makes and answers; -1 where no call waits for a result."""

    read: Read
    made: list[tuple[str, int]]
    answered: list[tuple[Part, int]]


def calls_of(group: Sequence[Read]) -> Calls:
    """Which calls of a group could be folded: those of messages behind one that waits are not shown anyway."""
    paired = list(_paired(group))
    came = [ordinal for _, _, results in paired for _, ordinal in results if ordinal >= 0]
    waits, together = False, dict[int, Folded]()
    for _, made, _ in paired:
        for id, ordinal in () if waits else made:
            together[ordinal] = tuple(other for same, other in made if same == id)
        waits = waits or not {ordinal for _, ordinal in made} <= set(came)
    answered = dict.fromkeys(together[ordinal] for ordinal in came if ordinal in together)
    return Calls(tuple(answered), sum(len(made) for _, made, _ in paired))


def without_calls(group: Sequence[Read], folded: Collection[int]) -> list[Read]:
    """The group as it would be if the folded calls had never been made."""
    rest: list[Read] = []
    for read, made, answered in _paired(group):
        ids = {id for id, ordinal in made if ordinal in folded}
        blocks = {part.block for part, ordinal in answered if ordinal in folded}
        message = _without(read, ids, blocks) if ids or blocks else read.message
        if message is read.message:
            rest.append(read)
        elif message is not None:
            rest.append(Read(read.seq, message, read_message(message)))
    return rest


def fold_note(seq: int, calls: int) -> Piece:
    """What stands before a group of which so many calls are folded."""
    what = "1 tool call and its result" if calls == 1 else f"{calls} tool calls and their results"
    repairs: tuple[Repair, ...] = tuple("calls_folded" for _ in range(calls))
    return Piece(seq, {"role": "user", "content": f"[{what} left out]"}, repairs)


def _paired(group: Sequence[Read]) -> Iterator[_Paired]:
    book = CallBook()
    for read in group:
        parts, reading = read.reading.parts, read.reading
        results = [part for part in parts if part.kind == "result" and part.id in reading.answers]
        answered = [(part, -1 if (place := book.answer(part.id)) is None else place[1]) for part in results]
        ids = [part.id for part in parts if part.kind == "call" and part.id in reading.calls]
        first = book.make(ids) if ids else 0
        yield _Paired(read, [(id, first + n) for n, id in enumerate(ids)], answered)


def _without(read: Read, ids: set[str], blocks: set[int]) -> Message | None:
    """The message without these calls and result blocks; None if nothing is left. Words that stood beside calls go
    with the last of them."""
    message = dict(read.message)
    if is_result(message) and blocks:
        return None
    words = not ids or any(id not in ids for id in read.reading.calls)
    gone = blocks | {part.block for part in read.reading.parts if part.kind == "call" and part.id in ids}
    results = {part.block for part in read.reading.parts if part.kind == "result"}
    listed, content = message.get("tool_calls"), message.get("content")
    if isinstance(listed, list):
        message["tool_calls"] = [each for each in listed if not (isinstance(each, dict) and _id(each) in ids)]
        if not message["tool_calls"]:
            del message["tool_calls"]
    if isinstance(content, list):
        kept = [block for at, block in enumerate(content) if at not in gone and (words or at in results)]
        message["content"] = kept
        return message if kept or "tool_calls" in message else None
    return message if words else None


def _id(call: Message) -> str:
    return call_id(call.get("id"))
