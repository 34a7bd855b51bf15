"""The room that a view shares out, and its raw tail: the newest groups as shown, kept up to date with the log."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from summarizing_context.log.entries import Bounds, PlacedMessage
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.repairs import NOTES, Passing, Piece, Repair, note, present, show_interrupted
from summarizing_context.messages.fences import fence, within_fence
from summarizing_context.messages.reading import Reading, read_content
from summarizing_context.messages.shapes import (
    CHAIN,
    Message,
    has_signed_thinking,
    metadata_of,
    needs_thinking,
    without_metadata,
    without_thinking,
)
from summarizing_context.views.shrinking import LONGEST_TOKEN, Price, shrink_message, shrink_note, water_level
from summarizing_context.worker.jobs import HEADER_TARGET

WHOLE_GROUPS = -1  # of `Tail.since`

AMPLE_SHARE = 0.75  # of the room, that a message with its thinking may take

TIGHT = 1  # squeezes with which everything is shrunk

BARE = 8  # squeezes with which a view is nothing but the newest message, in half of the room


class Shares(NamedTuple):
    """Shares of room; the meaning of each is in the table of settings."""

    high_water: float = 0.92
    low_water: float = 0.08
    min_free: float = 0.12
    header_target: float = HEADER_TARGET
    header_share: float = 0.50
    message_share: float = 0.25
    group_share: float = 0.40
    pin_share: float = 0.10
    keep_share: float = 0.20


@dataclass
class Room:
    """Tokens to share out; not changed once it is made. Each step of `squeeze` halves what pins, single messages and
    headers may take. A header may take more where that much is `spare`; where it `gives_way`, it takes no more.

    Messages that must stay are paid first, as the leading system rows are: shares are of what is left then.
    """

    tokens: int
    shares: Shares
    squeeze: int = 0
    staying: int = 0  # tokens of messages that must stay
    spare: float = 0.0  # tokens that nothing else takes
    cap: int = 0  # tokens of a message where all would not fit otherwise; 0 where they do
    gives_way: bool = False  # the header, to the messages behind it

    def __post_init__(self) -> None:
        tokens, shares, squeezed = self.tokens, self.shares, 1 << self.squeeze
        self.is_bare = self.squeeze >= BARE  # there is no room for anything but the newest message
        self.shared = shared = tokens - self.staying  # what is shared out

        # an activation is asked for by a view above `high`; it leaves about `low` of the raw tail, frees `min_free` at
        # least, and shows the newest group whole if that takes no more than its share
        self.high = self.staying + shares.high_water * shared
        self.low = shares.low_water * shared
        self.min_free = shares.min_free * tokens
        self.newest_share = 0.0 if self.squeeze else 0.4 * shared

        # messages that must stay may take all but the floor: with that the session goes on working, and an activation
        # can free what it has to
        self.staying_cap = 0 if self.is_bare else max(0, int(tokens - max(1 / 3 * tokens, 2 * self.min_free, 128)))

        # a header may take its share; above its target more of it is merged
        self.header_target, self.header_share = (
            min(share * shared, self.spare)
            if self.gives_way
            else max(share * shared / squeezed, min(share * shared, self.spare))
            for share in (shares.header_target, shares.header_share)
        )

        # what a shrunk message keeps at least, one pinned message may take, important groups that stay may take, and
        # a message and a group of the tail
        self.least_cap = 64 >> self.squeeze
        self.pin_cap = max(self.least_cap, int(shares.pin_share * shared / squeezed))
        self.keep_cap = int(shares.keep_share * shared / squeezed)
        self.message_share = shares.message_share * shared / squeezed
        self.group_share = shares.group_share * shared / squeezed

    def setting_aside(self, staying: int) -> Room:
        """Return the room in which messages that must stay cost so many tokens."""
        staying = min(staying, self.staying_cap)
        return self if staying == self.staying else replace(self, staying=staying)

    def holding(self, costs: Sequence[int]) -> Room:
        """Return the room in which messages of these costs fit together, and one more, in half of it: long ones are cut
        to the same length, and pins and the header take less."""
        level = water_level([*costs, inf], self.shared / 2)
        return replace(self, squeeze=self.squeeze + 2, cap=max(4, int(level)))

    def message_cap(self, shown_of_group: int) -> int:
        """Return what the next message of a group may take, of which so much is shown already."""
        if self.is_bare:
            return self.tokens // 2
        if self.cap:
            return self.cap
        return max(self.least_cap, int(min(self.message_share, (self.group_share - shown_of_group) / 2)))


class TailItem(NamedTuple):
    """A message as it stands in the view. Its dict is never handed out, only copies of it."""

    seq: int
    message: Message
    tokens: int
    left_out: int  # tokens that shrinking left out
    repairs: tuple[Repair, ...]


def shown_within(
    piece: Piece, cost: int, cap: int, price: Price, *, mute: bool = False, thinking: bool = False
) -> TailItem:
    """Return a piece that costs `cost` tokens, shrunk to `cap` tokens if it is larger; to nothing if it is `mute`.
    With `thinking` its thinking stays whole."""
    if cost <= cap:
        return TailItem(piece.seq, piece.message, cost, 0, piece.repairs)
    if NOTES.isdisjoint(piece.repairs):
        message, tokens = shrink_message(piece.message, cost, cap, price, mute=mute, thinking=thinking)
    else:
        message, tokens = shrink_note(piece.message, cost, cap, price, mute=mute)
    repairs: tuple[Repair, ...] = (*piece.repairs, "shrunk") if tokens < cost else piece.repairs
    return TailItem(piece.seq, message, tokens, cost - tokens, repairs)


class Mark(NamedTuple):
    """The end of a shown group: where the tail may be cut."""

    stop: int  # log entry
    items: int  # shown up to here, since the tail's beginning
    tokens: int


class Whole(NamedTuple):
    """Which messages are shown whole though they are long: those that were the newest at an activation, and those that
    came later, as long as the view has ample room."""

    first: int = 0  # log entry
    stop: int = 0  # entries of the log at the activation
    tokens: int = 0  # of the tail, up to which later ones are shown whole


NO_WHOLE = Whole()


class Tail:
    """Shown messages from `start` on. Feed it groups in order with `take`.

    Of a first group that is too wide for the room, only what came from entry `since` on is shown, each message by
    itself. Long messages are cut but for those that are `whole`.
    """

    def __init__(
        self,
        start: int,
        room: Room,
        price: Price,
        bounds: Bounds,
        *,
        since: int = WHOLE_GROUPS,
        whole: Whole = NO_WHOLE,
    ) -> None:
        self.start = start
        self.room = room
        self.bounds = bounds
        self.since = since
        self.whole = whole
        self.is_stale = False  # it shows a call that waited, and is given up by now
        self.next = start  # first entry whose group is not wholly shown
        self.items: list[TailItem] = []
        self.tokens = 0
        self.marks: list[Mark] = [Mark(start, 0, 0)]
        self.bound: list[int] = []  # items with thinking or a chain
        self.ephemeral_count = 0  # ephemeral messages of the log that were shown or passed by
        self._price = price
        self._thinking_from = inf
        self._open_tokens = 0
        self._open_staying = 0  # of what is shown of the open group, what must stay

    def take(
        self,
        group: Sequence[PlacedMessage],
        tokens: Sequence[int],
        *,
        closed: bool,
        staying: Collection[int] = (),
        passing: Sequence[Passing] = (),
        most: float = inf,
        thinking_from: float = inf,
    ) -> None:
        """Show a group, or what is new of an open one.

        Args:
            group: its messages.
            tokens: their costs.
            closed: nothing more will come.
            staying: log entries that must stay whole.
            passing: ephemeral messages and interruptions that came between or behind them.
            most: stop once the tail costs more tokens.
            thinking_from: the message that an answer went on from at the activation. In the open turn, thinking that a
                provider wants back stays whole; where everything is tighter than tight, from this entry on.
        """
        self._thinking_from = thinking_from
        pieces: Sequence[Piece | Passing]
        if self.since != WHOLE_GROUPS and group[0].seq == self.start:
            alone = [_alone(read) for read in group if read.seq >= self.since]
            pieces = [*alone, *(each for each in passing if each.message is not None)]
        else:
            pieces = show_interrupted(group, passing, closed=closed)
        shown = self.items[self.marks[-1].items :]  # of an open group
        for piece, item in zip(pieces, shown, strict=False):
            if isinstance(piece, Piece) and "pair_dropped" in piece.repairs:
                self.is_stale |= {"pair_dropped", "pin_note"}.isdisjoint(item.repairs)
        costs = {read.seq: cost for read, cost in zip(group, tokens, strict=True)}
        for piece in pieces[len(shown) :]:
            if isinstance(piece, Passing):
                self.show_passing(piece)
            else:
                self._show(piece, costs.get(piece.seq, 0), piece.seq in staying)
            if self.tokens > most:
                return
        if closed:
            self.ephemeral_count += sum(each.message is not None for each in passing)
            self.next = group[-1].seq + 1
            self._open_tokens = self._open_staying = 0
            self.marks.append(Mark(self.next, len(self.items), self.tokens))

    def mark(self, stop: int) -> Mark:
        """Return the mark at the end of the group that ends with entry `stop - 1`."""
        mark = self.marks[bisect_left(self.marks, stop, key=lambda mark: mark.stop)]
        assert mark.stop == stop, (mark.stop, stop)
        return mark

    def after(self, stop: int) -> int:
        """Return the tokens of the tail if it were cut at `stop`, which is the end of a shown group."""
        return self.tokens - self.mark(stop).tokens

    def stop_leaving(self, messages: int, present: int, ends: Container[int] | None = None) -> int | None:
        """Return the last cut behind the `present` one that leaves so many messages, if there is one. Where `ends` are
        given it is one of these."""
        shown = self.marks[-1].items
        stops = (mark.stop for mark in reversed(self.marks) if mark.stop > present and shown - mark.items >= messages)
        return next((stop for stop in stops if ends is None or stop in ends), None)

    def binds(self, bounds: Bounds) -> bool:
        """Tell whether what it shows would read differently within `bounds`."""
        return any(_unbound(self.items[at].seq, self.items[at].message, bounds)[1] for at in self.bound)

    def _show(self, piece: Piece, cost: int, stays: bool) -> None:
        message, repairs = _unbound(piece.seq, piece.message, self.bounds)
        if repairs:
            piece = Piece(piece.seq, message, (*piece.repairs, *repairs))
        # a note costs about what its message does; one for which there is no room in any case is not counted
        is_note, most = not NOTES.isdisjoint(piece.repairs), self.room.tokens
        is_huge = is_note and cost > most and len(piece.message["content"]) > LONGEST_TOKEN * most
        if not is_huge and not {"content_none", "chain_dropped"}.issuperset(piece.repairs):
            cost = self._price.message(piece.message)
        if stays and self._open_staying + cost <= self.room.staying_cap:
            self._open_staying += self._append(piece, cost, cost)
            return
        cap = self.room.message_cap(self._open_tokens)
        if cost <= cap or self.room.is_bare or is_note:
            self._open_tokens += self._append(piece, cost, cap)
            return
        uncut = self.whole
        if uncut.first <= piece.seq < uncut.stop or (piece.seq >= uncut.stop and self.tokens + cost <= uncut.tokens):
            self._open_tokens += self._append(piece, cost, cost)
            return

        # What travels whole is shown beside what else the message may take, and so is thinking that is wanted back.
        # Where everything is tight, a message that could not be cut enough is told of, unless an answer goes on from it
        # or it holds half of a pair.
        reading = read_content(piece.message)
        first = max(self.bounds.settled, 0 if self.room.squeeze <= TIGHT else self._thinking_from)
        thinks = self._thinking_from != inf and piece.seq >= first and needs_thinking(piece.message)
        whole = sum(self._price.count(text) for part in reading.parts if part.whole for text in part.sent)
        thought = [text for part in reading.parts if thinks and part.kind == "thinking" for text in part.sent]
        thoughts = sum(map(self._price.count, thought))
        if thinks := thinks and whole + thoughts + min(cost - whole - thoughts, cap) <= AMPLE_SHARE * self.room.shared:
            whole += thoughts
        is_newest = piece.seq >= self._thinking_from
        if self.room.squeeze and whole > cap and not is_newest and not any(part.half for part in reading.parts):
            if any(part.texts and not part.whole for part in reading.parts):
                piece = told_of(piece.seq, reading)
            else:
                silent = {"role": reading.role, "content": [{"type": "text", "text": "…"}]}
                piece = Piece(piece.seq, silent, (*piece.repairs, "shrunk"))
            whole = 0
            cost = self._price.message(piece.message)
        tokens = self._append(piece, cost, whole + min(max(0, cost - whole), cap), thinking=thinks)
        self._open_tokens += min(tokens, max(cap, tokens - whole))

    def show_passing(self, passing: Passing) -> None:
        """Show an ephemeral message."""
        assert passing.message is not None
        message, repairs = present(passing.message)
        self._append(Piece(passing.before, message, repairs), passing.tokens, self.room.message_cap(0))

    def _append(self, piece: Piece, cost: int, cap: int, *, thinking: bool = False) -> int:
        item = shown_within(piece, cost, cap, self._price, mute=self.room.is_bare, thinking=thinking)
        if has_signed_thinking(item.message) or CHAIN in metadata_of(item.message):
            self.bound.append(len(self.items))
        self.items.append(item)
        self.tokens += item.tokens
        return item.tokens


def _unbound(seq: int, message: Message, bounds: Bounds) -> tuple[Message, tuple[Repair, ...]]:
    """The message of log entry `seq` without what a rewritten beginning has made void, and what that took."""
    repairs: tuple[Repair, ...] = ()
    if seq < bounds.settled and has_signed_thinking(message):
        message, repairs = without_thinking(message), ("thinking_dropped",)
    if seq < bounds.rewritten and CHAIN in metadata_of(message):
        message, repairs = without_metadata(message, CHAIN), (*repairs, "chain_dropped")
    return message, repairs


def told_of(seq: int, reading: Reading) -> Piece:
    """What a message says, as a note: for one that cannot be shown as it is. What would travel whole is left out."""
    texts = [text for part in reading.parts if not part.whole for text in (part.name, *part.texts)]
    said = "\n".join(filter(None, texts)) or "[left out]"
    return Piece(seq, {"role": "user", "content": fence("earlier_message", said, role=reading.role)}, ("pin_note",))


def _alone(read: PlacedMessage) -> Piece:
    """A message without the rest of its group: results as a note, calls by their number."""
    if read.reading.answers:
        said = note(read)
        if words := [text for part in read.reading.parts if part.kind == "text" for text in part.texts]:
            content = within_fence(said.message["content"], lambda text: "\n".join([text, *words]))
            said = said._replace(message={**said.message, "content": content})
        return said
    if calls := len(read.reading.calls):
        what = f"{calls} call{'s' * (calls > 1)}"
        return Piece(read.seq, {"role": "user", "content": f"[{what} left out]"}, ("shrunk",))
    return Piece(read.seq, *present(read.message))


def extend_tail(log: MessageLog, tail: Tail, most: float = inf) -> None:
    """Show a tail what it has not shown yet. Costs what is new, not what the log holds.

    A tail that comes to cost more than `most` tokens is of no use: it is left as it is.
    """
    if most == inf and not log.ephemeral and len(tail.items) == tail.marks[-1].items:
        # Where the end of what is new alone fills the room four times, with each message cut to a few lines, the next
        # view shows only an end: what is before is not read, and counts as it was logged.
        at, left = len(log), 4 * tail.room.tokens
        while left > 0 and log.tokens[at] - log.tokens[tail.next] > left:
            at -= 1
            left -= min(log.cost(at), tail.room.least_cap)
        while left <= 0 and (stop := log.group_stop(tail.next)) <= at:
            tail.tokens += log.tokens[stop] - log.tokens[tail.next]
            tail.next = stop
            tail.marks.append(Mark(stop, len(tail.items), tail.tokens))
    while tail.tokens <= most:
        between = log.passing(tail.ephemeral_count, tail.next) if tail.ephemeral_count < len(log.ephemeral) else ()
        for passing in between:  # the groups
            if passing.before > tail.start or tail.start == log.leading_count:
                tail.show_passing(passing)
                tail.marks[-1] = tail.marks[-1]._replace(items=len(tail.items), tokens=tail.tokens)
            tail.ephemeral_count += 1
        start, closed = tail.next, tail.next < log.closed_groups_stop
        if start == len(log.entries):
            return
        stop = log.group_stop(start)
        group, costs = log.between(start, stop)
        tail.take(
            group,
            costs,
            closed=closed,
            staying=log.staying(start, stop),
            passing=log.passing_within(tail.ephemeral_count, start, stop),
            most=most,
            thinking_from=log.thinking_from(tail.whole.stop),
        )
        if not closed:
            return


def tail_at(log: MessageLog, price: Price, stop: int, room: Room, since: int) -> Tail:
    """Return the tail from entry `stop` on, by the log's bounds of now.

    One that costs more than its room is not made to its end.
    """
    length = len(log)

    # whole stay the newest groups in a third of the room, or the newest one alone in little more; none where the room
    # is tight
    whole = Whole(length, length)
    if not room.squeeze and length > stop:
        first = bisect_left(log.tokens, log.tokens[length] - 1 / 3 * room.shared, lo=stop, hi=length)
        if first < length and (begun := log.group_start(first)) < first:
            first = log.group_stop(begun)
        newest, _ = log.newest_group
        if newest < first and log.tokens[length] - log.tokens[newest] <= room.newest_share:
            first = newest
        whole = Whole(max(stop, first), length)

    tail = Tail(stop, room, price, log.bounds(), since=since, whole=whole)
    # where it is tight, ephemeral messages give way, those before the first group or all; but never the newest message
    if room.squeeze >= TIGHT:
        most = len(log.ephemeral) - bool(log.ephemeral and log.ephemeral[-1][0] == len(log))
        before = bisect_right(log.ephemeral, stop, key=lambda one: one[0])
        tail.ephemeral_count = most if room.is_bare or since != WHOLE_GROUPS else min(most, before)
    extend_tail(log, tail, room.tokens)
    return tail
