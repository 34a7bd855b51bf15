"""Folding: calls that are left out of a view together with their results, where a group is too wide to be shown.

Pure. How many are folded is decided in `overflow`; `repairs` shows the others as if only they had been made. A note
before the group counts what is folded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from summarizing_context.log.entries import PlacedMessage
from summarizing_context.log.repairs import Piece, Repair
from summarizing_context.log.segments import OpenCalls
from summarizing_context.messages.parts import Part, call_id, is_result
from summarizing_context.messages.reading import read_message, read_parts
from summarizing_context.messages.validation import Message

Folded = tuple[int, ...]  # ordinals of calls within their group


class Calls(NamedTuple):
    """The calls of a group, as far as folding goes."""

    answered: tuple[Folded, ...]  # those with a result, in the order of the results; equal ids of a message together
    made: int

    def oldest(self, count: int) -> Folded:
        """The first `count` of the answered ones."""
        return tuple(sorted({ordinal for together in self.answered[:count] for ordinal in together}))

    @property
    def but_newest(self) -> Folded:
        """All but what was answered last, those in flight too; none where nothing is answered."""
        newest = frozenset(self.answered[-1]) if self.answered else frozenset[int](self.all)
        return tuple(ordinal for ordinal in range(self.made) if ordinal not in newest)

    @property
    def all(self) -> Folded:
        """Those in flight too."""
        return tuple(range(self.made))


class Paired(NamedTuple):
    """A message of a group, and the ordinals of the calls that it makes and answers; -1 where no call waits for it."""

    read: PlacedMessage
    made: list[tuple[str, int]]
    answered: list[tuple[Part, int]]


class Pairs(NamedTuple):
    """A group, paired."""

    lines: Sequence[Paired] = ()
    given_up: AbstractSet[int] = frozenset()  # calls that no result may answer any more

    @property
    def rows_given_up(self) -> frozenset[int]:
        """Log entries that make such calls."""
        if not self.given_up:
            return frozenset()
        return frozenset(
            read.seq for read, made, _ in self.lines if any(ordinal in self.given_up for _, ordinal in made)
        )


def pair(group: Sequence[PlacedMessage]) -> Pairs:
    """The messages of a group with the calls that they make and answer."""
    open_calls = OpenCalls()
    lines: list[Paired] = []
    for read in group:
        calls, answers = set(read.reading.calls), set(read.reading.answers)
        results = [part for part in read.reading.parts if part.kind == "result" and part.id in answers]
        ids = [part.id for part in read.reading.parts if part.kind == "call" and part.id in calls]
        first, places = open_calls.take(ids, [part.id for part in results])
        ordinals = [-1 if place is None else place[1] for place in places]
        lines.append(
            Paired(read, [(id, first + n) for n, id in enumerate(ids)], list(zip(results, ordinals, strict=True)))
        )
    return Pairs(lines, open_calls.given_up)


def calls_of(pairs: Pairs) -> Calls:
    """Which calls of a group could be folded: those of messages behind one that waits are not shown anyway."""
    came = [ordinal for _, _, results in pairs.lines for _, ordinal in results if ordinal >= 0]
    over = pairs.given_up | set(came)
    waits, together = False, dict[int, Folded]()
    for _, made, _ in pairs.lines:
        for same in () if waits else _together(made):
            together.update(dict.fromkeys(same, same))
        waits = waits or any(ordinal not in over for _, ordinal in made)
    answered = dict.fromkeys(together[ordinal] for ordinal in came if ordinal in together)
    return Calls(tuple(answered), sum(len(made) for _, made, _ in pairs.lines))


def without_calls(pairs: Pairs, folded: Collection[int]) -> list[PlacedMessage]:
    """The group as it would be if the folded calls had never been made."""
    rest: list[PlacedMessage] = []
    for read, made, answered in pairs.lines:
        if not made and len(answered) == 1 and answered[0][1] in folded and is_result(read.message):
            continue
        ids = {id for id, ordinal in made if ordinal in folded}
        blocks = {part.block for part, ordinal in answered if ordinal in folded}
        left = _without(read, ids, blocks) if ids or blocks else read
        if left is not None:
            rest.append(left)
    return rest


class Remainder(NamedTuple):
    """What is left of a group without folded calls."""

    reads: Sequence[PlacedMessage]
    given_up: frozenset[int]  # log entries whose open calls were given up


def without_folded(pairs: Pairs, folded: Collection[int]) -> Remainder:
    """What is left of a group without the folded calls."""
    return Remainder(without_calls(pairs, frozenset(folded)), pairs.rows_given_up)


def hides_newest(pairs: Pairs, folded: Collection[int]) -> bool:
    """Whether the last message of a group does nothing but answer folded calls."""
    last, gone = pairs.lines[-1], frozenset(folded)
    return not last.made and bool(last.answered) and all(ordinal in gone for _, ordinal in last.answered)


def _together(made: Sequence[tuple[str, int]]) -> Iterable[Folded]:
    """The calls of a message, those with equal ids together."""
    same: dict[str, list[int]] = {}
    for id, ordinal in made:
        same.setdefault(id, []).append(ordinal)
    return map(tuple, same.values())


def fold_note(seq: int, calls: int, *, brief: bool = False) -> Piece:
    """What stands before a group of which so many calls are folded."""
    what = "1 tool call and its result" if calls == 1 else f"{calls} tool calls and their results"
    what = f"{calls} calls" if brief else what
    repairs: tuple[Repair, ...] = tuple("calls_folded" for _ in range(calls))
    return Piece(seq, {"role": "user", "content": f"[{what} left out]"}, repairs)


def _without(read: PlacedMessage, ids: set[str], blocks: set[int]) -> PlacedMessage | None:
    """The message without these calls and result blocks; None if nothing is left. Words that stood beside calls go
    with the last of them."""
    message, reading = dict(read.message), read.reading
    if is_result(message) and blocks:
        return None
    words = not ids or any(id not in ids for id in reading.calls)
    gone = blocks | {part.block for part in reading.parts if part.kind == "call" and part.id in ids}
    results = {part.block for part in reading.parts if part.kind == "result"}
    listed, content = message.get("tool_calls"), message.get("content")
    if isinstance(listed, list):
        message["tool_calls"] = [each for each in listed if not (isinstance(each, dict) and _id(each) in ids)]
        if not message["tool_calls"]:
            del message["tool_calls"]
    places: list[int] = []
    if isinstance(content, list):
        places = [at for at in range(len(content)) if at not in gone and (words or at in results)]
        message["content"] = [content[at] for at in places]
    if not (places or "tool_calls" in message if isinstance(content, list) else words):
        return None
    if not words or "parts" in message or any(part.kind == "extra" for part in reading.parts):
        return PlacedMessage(read.seq, message, read_message(message))
    left = [part for part in reading.parts if not (part.kind == "call" and part.id in ids)]
    moved = {-1: -1, **{at: to for to, at in enumerate(places)}}
    parts = tuple(part._replace(block=moved[part.block]) for part in left if part.block in moved)
    return PlacedMessage(read.seq, message, read_parts(message, parts, reading.again))


def _id(call: Message) -> str:
    return call_id(call.get("id"))
