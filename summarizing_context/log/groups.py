"""Groups of messages, which may not be parted, and how each is shown as a provider accepts it.

Pure. A group is one message, or a message with calls and everything up to its last result. Split parallel call lines,
call rows one after the other before any result, are one group of up to `MAX_HELD` rows. A result gives up the calls of
earlier lines, for it can be shown only behind them. Whatever is no result of an open call gives up all of them. A call
that no host answers, as of a tool that runs at the provider, is held open until its result comes or the assistant's
turn ends: what comes meanwhile, up to `MAX_TURN` rows, belongs to its group.

What a provider would refuse is put right in the view: named, counted, never in the log. A group is shown with each
result right after its call. Calls without a result get a stand-in result; a result that came too late, or for no call,
is a fenced note; a message that answers calls of several messages is shown split. Split call lines behind one that
waits are held back. An ephemeral message, and an interruption, give up the open calls where they stand, in the view
only. Of a pair that no host makes, both halves are shown as they came, in the order of the log, or neither.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from summarizing_context.log.entries import PlacedMessage
from summarizing_context.messages.reading import (
    SHAPES,
    TEXT,
    Message,
    Part,
    blocks_of,
    content_key,
    encodable,
    is_result,
    read_block,
    read_message,
    result_message,
    shape_of,
    text_block,
)
from summarizing_context.messages.text import fence

MAX_HELD = 24  # split call lines that wait together, beside the first
MAX_TURN = 96  # rows of a group while a call is held open

Place = tuple[int, int]  # of a call in its group: its message among those with calls, its ordinal


@dataclass(slots=True, eq=False)
class OpenCalls:
    """The calls of one group: which are still unanswered, and which are given up. A result answers the nearest
    unanswered call of its id: of the latest message that made one, the first."""

    made: int = 0  # calls so far
    left: list[int] = field(default_factory=list)  # how many of each message with calls are unanswered
    open: dict[str, list[Place]] = field(default_factory=dict)  # the unanswered calls, by id, oldest first
    held: set[str] = field(default_factory=set)  # ids of calls that no host answers
    answered: bool = False  # a result has come since the first of the calls that are open
    given_up: set[int] = field(default_factory=set)  # ordinals of the calls that no result may answer any more

    def take(
        self, calls: Sequence[str], answers: Sequence[str], held: Sequence[str] = ()
    ) -> tuple[int, list[Place | None]]:
        """Note a message: the ordinal of its first call, and the calls that its results answer."""
        self.held.update(held)
        found = [self.answer(id) for id in answers]
        last = max([place[0] for place in found if place is not None], default=-1)
        if last >= 0 and self.open:  # no result will be taken any more for calls of earlier messages
            before = len(self.left) if calls else last
            for id, place in [(id, place) for id, waiting in self.open.items() for place in waiting]:
                if place[0] < before and id not in self.held:
                    self.given_up.add(place[1])
                    self._close(id, place)
        self.answered = (self.answered or last >= 0) and not calls
        return self.make(calls) if calls else -1, found

    def make(self, ids: Sequence[str]) -> int:
        """Note a message's calls; the ordinal of the first."""
        first, self.made = self.made, self.made + len(ids)
        for at, id in enumerate(ids, first):
            self.open.setdefault(id, []).append((len(self.left), at))
        self.left.append(len(ids))
        return first

    def answer(self, id: str) -> Place | None:
        """The call that a result answers, or None if no open call has this id."""
        if (waiting := self.open.get(id)) is None:
            return None
        place = next(one for one in waiting if one[0] == waiting[-1][0])
        self._close(id, place)
        return place

    def _close(self, id: str, place: Place) -> None:
        self.left[place[0]] -= 1
        self.open[id].remove(place)
        if not self.open[id]:
            del self.open[id]

    def waits_for(self, ids: Iterable[str]) -> bool:
        return not self.open.keys().isdisjoint(ids)

    def unanswered(self) -> set[int]:
        """Ordinals of the calls that wait for a result of a host."""
        return {at for id, waiting in self.open.items() if id not in self.held for _, at in waiting}


class GroupCutter:
    """Cuts a growing log into groups, one message at a time; O(1) amortised."""

    def __init__(self, position: int = 0) -> None:
        self.position = position  # messages seen
        self.start = position  # of the open group
        self._open_calls: OpenCalls | None = None
        self._run = position  # where a second message with calls joined the open group

    def add(
        self, calls: Sequence[str], answers: Sequence[str], *, turn: bool = False, held: Sequence[str] = ()
    ) -> tuple[list[tuple[int, int]], int, list[int]]:
        """Take the next message, given the ids of the calls that it makes and answers, those of them that no host
        answers, and whether it begins a turn of the user's. Return the ranges of the groups that it closes, oldest
        first, the ordinal of its first call within its group, and those of the calls that it answers; -1 for none."""
        open_calls, closed = self._open_calls, list[tuple[int, int]]()
        if open_calls is None and not calls:  # most messages are a group by themselves
            self.start, self.position = self.position, self.position + 1
            return [(self.start, self.position)], -1, [-1] * len(answers)
        if open_calls is None or not self._joins(open_calls, calls, answers, turn):
            closed += [] if open_calls is None else [(self.start, self.position)]
            self.start, self._open_calls = self.position, (open_calls := OpenCalls())
        first_call, found = open_calls.take(calls, answers, held)
        if len(open_calls.left) == 1 or (calls and len(open_calls.left) == 2):
            self._run = self.position
        self.position += 1
        if not open_calls.open or (not calls and (turn or None in found)):
            closed.append((self.start, self.position))
            self._open_calls = None
        return closed, first_call, [-1 if place is None else place[1] for place in found]

    def _joins(self, open_calls: OpenCalls, calls: Sequence[str], answers: Sequence[str], turn: bool) -> bool:
        """Whether a message answers a call of the open group, is split from a call line, or comes while one is held."""
        if open_calls.waits_for(open_calls.held):
            return self.position - self.start < MAX_TURN and (not turn or open_calls.waits_for(answers))
        if calls and len(open_calls.left) > 1 and self.position - self._run >= MAX_HELD:
            return False
        return open_calls.waits_for(answers) or (bool(calls) and not answers and not open_calls.answered)


# -- how a group is shown

Repair = Literal[
    "shrunk",
    "stand_in_result",
    "late_result_note",
    "split_results",
    "content_none",
    "surrogates_replaced",
    "thinking_dropped",
    "chain_dropped",
    "pair_dropped",
    "pin_note",
]

NOTES: frozenset[Repair] = frozenset({"late_result_note", "pin_note"})  # fenced texts
_PAIR_LEFT_OUT = "[a call without its result is left out]"
NO_RESULT = "[no result of this call was recorded]"


class Piece(NamedTuple):
    """One message as it is to be shown, or an interruption: the place where a view has given up the open calls."""

    seq: int  # of the log entry that it shows, that made it necessary, or that it stands before
    message: Message  # empty for an interruption
    repairs: tuple[Repair, ...] = ()
    passing: int = -1  # tokens of an ephemeral message


class LogGroup(NamedTuple):
    """Messages of a group, and what a view has to know of them."""

    reads: Sequence[PlacedMessage]  # with their costs
    staying: Collection[int] = ()  # log entries that must stay whole
    passing: Sequence[Piece] = ()  # ephemeral messages and interruptions that came between or behind them


def _show_group(group: Sequence[PlacedMessage], *, closed: bool) -> list[Piece]:
    """The pieces of a group in the order of the view. Those of an open group are a prefix of what it will show."""
    head, *others = [read.reading for read in group]
    parts = [part for reading in others for part in reading.parts]
    ids = {part.id for part in parts if part.kind == "result" and not part.whole}
    is_plain = not head.answers and not (others and any(part.half and part.whole for part in head.parts))
    is_plain = is_plain and all(reading.answers for reading in others)
    if is_plain and len(parts) == len(ids) == len(head.calls) and ids == set(head.calls):
        # no calls, or a result of each right behind them and nothing else
        return [Piece(read.seq, read.message) for read in group]
    if closed and (alone := _alone(group)):
        left = [_without(read, alone) for read in group]
        cut = {read.seq for read, before in zip(left, group, strict=True) if read is not before}
        pieces = _show_group(left, closed=True)
        return [each._replace(repairs=(*each.repairs, "pair_dropped")) if each.seq in cut else each for each in pieces]
    open_calls, deferred = OpenCalls(), list[Piece]()
    # each message with calls: notes of what it answers too late, itself, and what answers it; and its calls by ordinal
    units: list[tuple[list[Piece], dict[int, Part]]] = []
    in_order = any(read.reading.held for read in group)  # a pair is shown that no host makes
    for read in group:
        parts = [part for part in read.reading.parts if part.kind != "extra"]  # these go with what they stand beside
        answers, made = set(read.reading.answers), set(read.reading.calls)
        results = [part for part in parts if part.half == "result" and part.id in answers]
        calls = [part for part in parts if part.half == "call" and part.id in made]
        first, places = open_calls.take([part.id for part in calls], [part.id for part in results], read.reading.held)
        found = [(part, at) for part, at in zip(results, places, strict=True) if part.kind == "result"]
        answered = sorted({place[0] for _, place in found if place is not None})
        orphans = [part for part, place in found if place is None]
        rest = any(part.kind != "result" for part in parts) or bool(made)
        if len(answered) == 1 and not orphans and not made and not (rest and open_calls.left[answered[0]]):
            units[answered[0]][0].append(Piece(read.seq, read.message))
            continue
        for unit in answered:
            blocks = {part.block for part, place in found if place is not None and place[0] == unit}
            units[unit][0].append(_split(read, blocks, calls=False))
        pieces = [note(read, orphans)] if orphans else []
        if not found:
            pieces.append(Piece(read.seq, read.message))
        elif rest:
            pieces.append(_split(read, {part.block for part in parts} - {part.block for part, _ in found}))
        if (rest or not found) and (calls or in_order):
            units.append((pieces, {first + n: part for n, part in enumerate(calls)}))
        else:
            deferred += pieces

    shown, waiting = list[Piece](), open_calls.unanswered()
    lost = waiting | open_calls.given_up
    for pieces, ordinals in units:
        shown += pieces
        if not closed and not waiting.isdisjoint(ordinals):
            return shown
        shown += _stand_ins(pieces[0].seq, [part for ordinal, part in ordinals.items() if ordinal in lost])
    return shown + deferred if closed else shown


def show_groups(groups: Sequence[LogGroup], *, closed: bool) -> list[list[Piece]]:
    """The pieces of groups, each with what passed within it, which ends open calls. Only the last may be open."""
    shown: list[Piece] = []
    ends = [0]
    for group in groups:
        start, is_closed = 0, closed or group is not groups[-1]
        shown += [] if group.passing else _show_group(group.reads, closed=is_closed)
        for each in (*group.passing, None) if group.passing else ():
            stop, cutter = len(group.reads), GroupCutter(start)
            if each is not None:
                stop = bisect_left(group.reads, each.seq, lo=start, key=lambda read: read.seq)
            for read in group.reads[start:stop] if group.passing else ():  # in groups of their own, one by one
                for first, last in cutter.add(read.reading.calls, read.reading.answers, held=read.reading.held)[0]:
                    shown += _show_group(group.reads[first:last], closed=True)
                    start = last
            if start < stop:
                shown += _show_group(group.reads[start:stop], closed=is_closed or each is not None)
            shown += [each] if each is not None and each.message else []
            start = stop
        ends.append(len(shown))
    shown = present(shown)
    return [shown[start:stop] for start, stop in pairwise(ends)]


def note(read: PlacedMessage, parts: Iterable[Part] | None = None) -> Piece:
    """Results that no call waits for, as a message that anybody may send."""
    said, ids, message = list[str](), list[str](), read.message
    for part in [part for part in (read.reading.parts if parts is None else parts) if part.kind == "result"]:
        ids.append("".join(char for char in part.id if char.isalnum() or char in "-_.:")[:64])
        if not part.whole:
            said += part.texts
            continue
        content = message.get("content") if part.block < 0 else read_block(blocks_of(message)[part.block]).said
        texts = [block for block in content if shape_of(block) is TEXT] if isinstance(content, list) else []
        said += (block if isinstance(block, str) else read_block(block).said for block in texts)
    text = fence("late_result", "\n".join(said), call=" ".join(ids))
    return Piece(read.seq, {"role": "user", "content": text}, ("late_result_note",))


def present(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces as every provider accepts them: content never missing, never null, texts valid Unicode."""
    shown: list[Piece] = []
    for piece, message in zip(pieces, encodable([piece.message for piece in pieces]), strict=True):
        if message != piece.message:
            piece = piece._replace(message=message, repairs=(*piece.repairs, "surrogates_replaced"))
        if message.get("content") is None and content_key(message) == "content":
            piece = piece._replace(message={**message, "content": ""}, repairs=(*piece.repairs, "content_none"))
        shown.append(piece)
    return shown


def _alone(group: Sequence[PlacedMessage]) -> set[str]:
    """The ids of lone halves, of pairs that no host makes, and of the calls that were made from within them."""
    parts = [part for read in group for part in read.reading.parts if part.whole and part.half and part.shape in SHAPES]
    calls, results = ({part.id for part in parts if part.half == half} for half in ("call", "result"))
    alone = (calls ^ results) & {part.id for part in parts if part.kind == "opaque"}
    for read in group if alone else ():
        for block in [*blocks_of(read.message), *(read.message.get("tool_calls") or ())]:
            caller = block.get("caller") if isinstance(block, dict) else None
            if isinstance(caller, dict) and alone & {caller.get("tool_id"), caller.get("caller_id")}:
                alone.add(block.get("call_id") or block.get("id"))
    return alone


def _without(read: PlacedMessage, ids: set[str]) -> PlacedMessage:
    places = {part.block for part in read.reading.parts if part.half and part.id in ids}
    if not places:
        return read
    message = dict(read.message)
    if isinstance(listed := message.get("tool_calls"), list):
        message["tool_calls"] = [call for call in listed if not isinstance(call, dict) or call.get("id") not in ids]
    if -1 in places and is_result(message):
        message = {"role": "user", "content": _PAIR_LEFT_OUT}
    elif blocks := blocks_of(message):
        left = [block for at, block in enumerate(blocks) if at not in places]
        message[content_key(message)] = left or [text_block(message, _PAIR_LEFT_OUT)]
    return PlacedMessage(read.seq, message, read_message(message))


def _split(read: PlacedMessage, blocks: set[int], *, calls: bool = True) -> Piece:
    """The message with only some of its content blocks. A tool message, which has none, stays whole."""
    message = {key: value for key, value in read.message.items() if calls or key != "tool_calls"}
    content, key = blocks_of(message), content_key(message)
    if not content or is_result(message):
        return Piece(read.seq, message)
    chosen = [block for at, block in enumerate(content) if at in blocks]
    return Piece(read.seq, {**message, key: chosen}, ("split_results",))


def _stand_ins(index: int, missing: Sequence[Part]) -> list[Piece]:
    """Results for calls that never got one, in the shape of the calls: those in blocks as one message."""
    pieces: list[Piece] = []
    blocks: dict[str, Message] = {}
    for part in missing:
        answer = result_message(part.shape, part.id, part.name, NO_RESULT, failed=True)
        key = content_key(answer)
        if answer["role"] == "tool":
            pieces.append(Piece(index, answer, ("stand_in_result",)))
        elif part.shape in blocks:
            blocks[part.shape][key] += answer[key]
        else:
            blocks[part.shape] = answer
    lost: Repair = "stand_in_result"
    return pieces + [Piece(index, answer, (lost,) * len(answer[content_key(answer)])) for answer in blocks.values()]
