"""The raw tail of a view: the newest groups as shown, kept up to date with the log."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from functools import lru_cache, partial
from itertools import islice
from math import inf
from typing import NamedTuple

from summarizing_context.concurrency import Pace
from summarizing_context.log.entries import PlacedMessage
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.repairs import NOTES, Passing, Piece, Repair, Run, present, show_interrupted
from summarizing_context.messages.provider_bindings import (
    Bounds,
    has_chain,
    has_signed_thinking,
    is_bound,
    without_chain,
    without_thinking,
)
from summarizing_context.messages.validation import Message
from summarizing_context.views.budget import MAX_SQUEEZE, Room
from summarizing_context.views.folds import Calls, Folded, Pairs, Remainder, calls_of, fold_note, pair, without_folded
from summarizing_context.views.shrunk_messages import LONGEST_TOKEN, Price
from summarizing_context.views.tail_items import Known, TailItem, holds_count, shown_once, shown_within

_SAME_PRICE = frozenset({"content_none", "chain_dropped"})


class Mark(NamedTuple):
    """The end of a shown group: where the tail may be cut."""

    stop: int  # log entry
    items: int  # shown up to here, since the tail's beginning
    tokens: int


_UNBOUND = Bounds()

_SPENT_AT_ONCE = 16  # messages shown, after which a pace is told

_SHRUNK = 8  # times what it takes to show a message whole

PARTS = 16  # of a group that are paired in the time in which one message is shown

Pieces = tuple[list[Piece | Passing], dict[int, int]]  # of a group, and the costs of its messages


def _unbound(seq: int, message: Message, bounds: Bounds) -> tuple[Message, tuple[Repair, ...]]:
    """The message of log entry `seq` without what a rewritten beginning has made void, and what that took."""
    repairs: tuple[Repair, ...] = ()
    if seq < bounds.settled and has_signed_thinking(message):
        message, repairs = without_thinking(message), ("thinking_dropped",)
    if seq < bounds.rewritten and has_chain(message):
        message, repairs = without_chain(message), (*repairs, "chain_dropped")
    return message, repairs


def _is_of_user(message: Message) -> bool:
    """Whether a message is words of the user, and answers no call."""
    content = message.get("content")
    is_text = isinstance(content, str) or all(block.get("type") == "text" for block in content or ())
    return message["role"] == "user" and is_text


class Tail:
    """Shown messages from `start` on. Feed it groups in order with `take`. `folded` are calls of its first group, of
    which nothing stands before entry `since`. Repeats are shown once as far as `repeats_stop`. A tail that shows the
    `whole_log` cuts no words of the user as long as there is ample room."""

    def __init__(
        self,
        start: int,
        room: Room,
        price: Price,
        folded: Folded = (),
        bounds: Bounds = _UNBOUND,
        *,
        since: int = 0,
        known: Known | None = None,
        repeats_stop: int = 0,
        whole_log: bool = False,
    ) -> None:
        self.start = start
        self.whole_log = whole_log
        self.is_eased = False  # it shows a message whole that a tail behind covered messages would cut
        self.room = room
        self.folded = folded
        self.since = since
        self.runs: list[Run] = []  # repeats that are shown once
        self.known = known  # what was shrunk for other tails
        self.bounds = bounds
        self.next = start  # first entry whose group is not wholly shown
        self.items: list[TailItem] = []
        self.tokens = 0
        self.marks: list[Mark] = [Mark(start, 0, 0)]
        self._price = price
        self.repeats_stop = repeats_stop if repeats_stop and self._can_join else 0
        self._open_items = 0
        self._open_tokens = 0
        self._open_staying = 0  # of what is shown of the open group, what must stay
        self.bound: list[tuple[int, TailItem]] = []  # shown with thinking or a chain, and where: counted as in marks
        self._taking: tuple[tuple[int, int, int, bool], Pieces] | None = None  # the group taken last
        self.ephemeral_count = 0  # ephemeral messages of the log that were shown or passed by
        self._base_items = 0  # dropped by `cut_at`: marks count from the first beginning
        self._base_tokens = 0

    def take(
        self,
        group: Sequence[PlacedMessage],
        tokens: Sequence[int],
        *,
        closed: bool,
        staying: Collection[int] = (),
        passing: Sequence[Passing] = (),
        most: float = inf,
        left: Remainder | None = None,
        pace: Pace | None = None,
    ) -> None:
        """Show a group, or what is new of an open one; of a tail that comes to cost more than `most`, nobody needs the
        rest. `tokens` are the costs of its messages, `staying` those that must stay, `passing` came between or behind
        them; `left` is what it leaves of a group of which it folds calls, where that is known. Where `pace` pauses it,
        it goes on from there when it is given the group again."""
        folds = self.folds_of(group[0].seq)
        rest = (left or without_folded(pair(group), self.folded)) if folds else None
        pieces, costs = self._pieces_of(group, tokens, rest, passing, closed=closed, pace=pace)
        work = 0
        for piece in islice(pieces, self._open_items - folds, None):
            if isinstance(piece, Passing):
                self._pass(piece)
            else:
                self._show(piece, costs.get(piece.seq, 0), piece.seq in staying)
            self._open_items += 1
            if self.tokens > most:
                return
            work += _SHRUNK if self.items[-1].left_out else 1
            if pace is not None and work >= _SPENT_AT_ONCE:
                pace.spend(work)
                work = 0
        if pace is not None and work:
            pace.spend(work)
        if closed:
            self.ephemeral_count += sum(each.message is not None for each in passing)
            self._close(group[-1].seq + 1)

    def folds_of(self, start: int) -> bool:
        """Whether it folds calls of the group that starts there."""
        return bool(self.folded) and start == self.start

    def take_repeats(self, read: PlacedMessage, cost: int, run: Run, *, staying: bool) -> None:
        """Show the first of messages that repeat it, for all of them."""
        message, repairs = present(read.message)
        piece = Piece(read.seq, message, repairs)
        item = shown_once(piece, cost, run.times, self.room.staying_cap if staying else 0, self._price)
        if item.left_out:
            item = shown_once(piece, cost, run.times, self.room.message_cap(0), self._price)
        self._add(item)
        self.runs.append(run)
        for stop in range(run.start + 1, run.stop + 1):
            self._close(stop)

    def pass_by(self, passing: Passing) -> None:
        """Show an ephemeral message after the groups taken so far; it belongs to none."""
        cost, last = self._pass(passing), self.marks[-1]
        self.marks[-1] = last._replace(items=last.items + 1, tokens=last.tokens + cost)

    def after(self, stop: int) -> int:
        """Tokens of the tail if it were cut at `stop`, which is the end of a shown group."""
        return self.tokens - (self.mark(stop).tokens - self._base_tokens)

    def mark(self, stop: int) -> Mark:
        """The mark at the end of the group that ends with entry `stop - 1`."""
        mark = self.marks[bisect_left(self.marks, stop, key=lambda mark: mark.stop)]
        assert mark.stop == stop, (mark.stop, stop)
        return mark

    def binds(self, stop: int, bounds: Bounds) -> bool:
        """Whether what it shows behind `stop` would read differently within `bounds`."""
        first = self.mark(stop).items if self.bound else 0
        return any(at >= first and _unbound(item.seq, item.message, bounds)[1] for at, item in self.bound)

    def joins(self, stop: int, runs: Sequence[Run]) -> bool:
        """Whether of what it shows behind `stop` these are the repeats that are shown once."""
        wanted = list(runs) if runs and self._can_join else []
        return [run for run in self.runs if run.stop > stop] == wanted

    def joined_of(self, items: Sequence[TailItem]) -> int:
        """How many of these items, which were shown each by itself, stand in others' rows here."""
        starts = [run.start for run in self.runs]
        ats = [(item.seq, bisect_right(starts, item.seq) - 1) for item in items] if starts else []
        return sum(at >= 0 and self.runs[at].start < seq < self.runs[at].stop for seq, at in ats)

    def cut_at(self, stop: int, bounds: Bounds | None = None, *, repeats_stop: int | None = None) -> Tail:
        """This tail without everything before `stop`, which is the end of a shown group. Within other `bounds` it
        must not `binds` anything, and up to another `repeats_stop` be what `joins` the repeats."""
        whole = Mark(stop, self._base_items, self._base_tokens)  # with ephemeral messages before its first group
        mark = whole if stop == self.start else self.mark(stop)
        within = self.bounds if bounds is None else bounds
        fold, since = (self.folded, self.since) if stop == self.start else ((), 0)
        repeats = self.repeats_stop if repeats_stop is None else repeats_stop
        whole_log = self.whole_log and stop == self.start
        rest = Tail(stop, self.room, self._price, fold, within, since=since, repeats_stop=repeats, whole_log=whole_log)
        rest.is_eased = self.is_eased and whole_log
        rest.runs = [run for run in self.runs if run.start >= stop]
        rest.next, rest._open_items, rest._open_tokens = self.next, self._open_items, self._open_tokens
        rest._open_staying = self._open_staying
        rest.items = self.items[mark.items - self._base_items :]
        rest.tokens = self.tokens - (mark.tokens - self._base_tokens)
        rest.marks = self.marks[bisect_left(self.marks, stop, key=lambda mark: mark.stop) :]
        rest._base_items, rest._base_tokens = mark.items, mark.tokens
        rest.bound = [(at, item) for at, item in self.bound if at >= mark.items]
        rest.ephemeral_count = self.ephemeral_count
        return rest

    @property
    def _can_join(self) -> bool:
        return not self.room.is_bare and holds_count(self.room.message_cap(0), self._price)

    def _pieces_of(
        self,
        group: Sequence[PlacedMessage],
        tokens: Sequence[int],
        left: Remainder | None,
        passing: Sequence[Passing],
        *,
        closed: bool,
        pace: Pace | None,
    ) -> Pieces:
        """The pieces of a group and the costs of its messages, without the calls that it folds if `left` is given."""
        name = (group[0].seq, len(group), len(passing), closed)
        if self._taking is None or self._taking[0] != name:
            costs = {read.seq: cost for read, cost in zip(group, tokens, strict=True)}
            rest, given_up = self._rest_of(group, costs, left) if left else (group, frozenset())
            self._taking = name, (show_interrupted(rest, passing, closed=closed, given_up=given_up), costs)
            parts = sum(1 + len(read.reading.parts) for read in group)
            work = parts if left else parts // PARTS  # what is left of a folded group is read and priced anew
            if pace is not None and work:
                pace.spend(work)
        return self._taking[1]

    def _rest_of(
        self, group: Sequence[PlacedMessage], costs: dict[int, int], left: Remainder
    ) -> tuple[Sequence[PlacedMessage], frozenset[int]]:
        """The group without its folded calls, which a note counts, and the messages whose open calls they have had
        given up; `costs` are brought up to date."""
        before = sum(costs.values())
        rest = [read for read in left.reads if read.seq >= self.since]
        whole = {id(read) for read in group}
        costs.update({one.seq: self._price.reading(one.message, one.reading) for one in rest if id(one) not in whole})
        if not self._open_items:
            seq, message, repairs = fold_note(self.start, len(self.folded), brief=self.room.is_bare)
            left_out = before - sum(costs[read.seq] for read in rest)
            self._add(TailItem(seq, message, self._price.message(message), left_out, repairs))
            self._open_items = 1
        return rest, left.given_up

    def _show(self, piece: Piece, cost: int, stays: bool) -> None:
        message, repairs = _unbound(piece.seq, piece.message, self.bounds)
        if repairs:
            piece = Piece(piece.seq, message, (*piece.repairs, *repairs))
        if not (_SAME_PRICE.issuperset(piece.repairs) or (cost > self.room.tokens and self._is_long_note(piece))):
            cost = self._price.message(piece.message)
        if stays and self._open_staying + cost <= self.room.staying_cap:
            self._open_staying += self._append(piece, cost, cost)
        else:
            cap = self.room.message_cap(self._open_tokens)
            if cost > cap and self.whole_log and self.tokens + cost <= self.room.ample and _is_of_user(piece.message):
                cap, self.is_eased = cost, True
            self._open_tokens += self._append(piece, cost, cap)

    def _pass(self, passing: Passing) -> int:
        assert passing.message is not None
        message, repairs = present(passing.message)
        return self._append(Piece(passing.before, message, repairs), passing.tokens, self.room.message_cap(0))

    def _is_long_note(self, piece: Piece) -> bool:
        """A note that costs about what the message does, and in any case more than there is room for."""
        long = LONGEST_TOKEN * self.room.tokens
        return not NOTES.isdisjoint(piece.repairs) and len(piece.message["content"]) > long

    def _append(self, piece: Piece, cost: int, cap: int) -> int:
        if cost <= cap:
            item = TailItem(piece.seq, piece.message, cost, 0, piece.repairs)
        else:
            item = shown_within(piece, cost, cap, self._price, known=self.known, mute=self.room.is_bare)
        self._add(item)
        return item.tokens

    def _add(self, item: TailItem) -> None:
        if is_bound(item.message):
            self.bound.append((self._base_items + len(self.items), item))
        self.items.append(item)
        self.tokens += item.tokens

    def _close(self, stop: int) -> None:
        self.next, self._taking = stop, None
        self._open_items = self._open_tokens = self._open_staying = 0
        self.marks.append(Mark(stop, self._base_items + len(self.items), self._base_tokens + self.tokens))


_LONG = 400_000  # bytes of a message that is read in a thread

_TAILS_MANY = 400  # calls or blocks of one, about

_FEW = 8  # messages of a group that is put together anew whenever it is asked for

_BRIEF = 10_000  # bytes of one that cannot have so many

_AGAIN = 4  # such messages that are kept for later decisions: each shows the opening request


class MessageReader:
    """The log as a decision reads it: each message once, long ones in a thread."""

    def __init__(self, log: MessageLog, pace: Pace) -> None:
        self.log = log
        self.pace = pace
        self._again = lru_cache(maxsize=_AGAIN)(lambda entry, index: log.read(index)[0])  # an entry has one place

    def read(self, index: int) -> tuple[PlacedMessage, int]:
        """A log entry, read, and its cost."""
        entry, tokens = self.log.entries[index], self.log.tokens
        cost = tokens[index + 1] - tokens[index]
        if (fresh := entry.fresh) is not None:
            return PlacedMessage(index, *fresh), cost
        name = ("read", entry, index)
        if _is_long(entry.data):
            return self.pace.once_apart(name, partial(entry.read, index)), cost
        if len(entry.data) <= _BRIEF:
            return self.pace.once(name, lambda: self._again(entry, index), 1), cost
        return self.pace.once(name, lambda: self.log.read(index)[0], 1), cost

    def cost(self, index: int) -> int:
        """Tokens that a log entry costs when it is sent."""
        return self.log.cost(index)

    def repeats(self, index: int, stop: int) -> Run:
        """The entry with those right behind it that repeat it, as far as `stop`."""
        return self.log.repeats(index, stop)

    def group(self, number: int) -> tuple[Sequence[PlacedMessage], Sequence[int]]:
        """The messages of a closed group, read, and their costs."""
        return self.between(*self.log.group_range(number))

    def between(self, start: int, stop: int) -> tuple[Sequence[PlacedMessage], Sequence[int]]:
        """Log entries, read, and their costs."""
        if stop - start <= _FEW:
            return self._each(start, stop)
        return self.pace.once(("between", self.log.name, start, stop), lambda: self._each(start, stop))

    def pairs(self, start: int, stop: int) -> Pairs:
        """The group of these log entries, paired."""
        name = ("pairs", self.log.name, start, stop)
        return self.pace.once(name, lambda: pair(self.between(start, stop)[0]), self.pairing_work(start, stop))

    def left(self, start: int, stop: int, tail: Tail) -> Remainder | None:
        """What a tail leaves of the group of these log entries, if it folds calls of it: the same messages for all
        tails that do, so that they are shrunk once."""
        if not tail.folds_of(start):
            return None
        name = ("left", self.log.name, start, stop, tail.folded)
        pairs, work = self.pairs(start, stop), self.pairing_work(start, stop)
        return self.pace.once(name, lambda: without_folded(pairs, tail.folded), work)

    def pairing_work(self, start: int, stop: int) -> int:
        """What it takes to pair them: about their number and that of the calls which the first of them makes."""
        return (stop - start + len(self.log.entries[start].facts.calls)) // PARTS if start < stop else 0

    def _each(self, start: int, stop: int) -> tuple[Sequence[PlacedMessage], Sequence[int]]:
        found = [self.read(index) for index in range(start, stop)]
        return [read for read, _ in found], [cost for _, cost in found]


def _is_long(data: bytes) -> bool:
    """Whether it would hold the event loop up to read a message."""
    return len(data) > _LONG or (len(data) > _BRIEF and data.count(b"{") > _TAILS_MANY)


def extend_tail(reader: MessageReader, tail: Tail, most: float = inf) -> None:
    """Show a tail what it has not shown yet. Costs what is new, not what the log holds. A tail that comes to cost more
    than `most` tokens is of no use: it is left as it is."""
    log, pace = reader.log, reader.pace
    number = bisect_left(log.group_starts, tail.next)
    while number < len(log.group_starts):
        _feed_ephemeral(log, tail)
        start, stop, staying, run = log.closed_group(number, tail.repeats_stop)
        times = run.stop - run.start
        number += times
        if times > 1:
            read, cost = reader.read(start)
            tail.take_repeats(read, cost, run, staying=bool(staying))
        else:
            group, costs = reader.between(start, stop)
            left = reader.left(start, stop, tail)
            passing = log.passing_within(tail.ephemeral_count, start, stop)
            tail.take(group, costs, closed=True, staying=staying, passing=passing, most=most, left=left, pace=pace)
        if tail.tokens > most:
            return
    _feed_ephemeral(log, tail)
    start, stop = log.closed_groups_stop, len(log.entries)
    if stop > start:
        group, costs = reader.between(start, stop)
        left, staying = reader.left(start, stop, tail), log.staying(start, stop)
        passing = log.passing_within(tail.ephemeral_count, start, stop)
        tail.take(group, costs, closed=False, staying=staying, passing=passing, most=most, left=left, pace=pace)


class Tails:
    """Makes the tails of one decision. One that costs more than its room is not made to its end."""

    def __init__(self, reader: MessageReader, price: Price, shown: Tail) -> None:
        self._reader = reader
        self._log = reader.log
        self._price = price
        self._shown = shown
        self._bounds = reader.log.bounds()
        self._log_name = reader.log.name
        self._known: Known = reader.pace.once(("known", self._log_name), dict)

    @property
    def newest(self) -> Pairs:
        """The newest group."""
        return self._reader.pairs(*self._log.newest_group)

    @property
    def newest_calls(self) -> Calls:
        """Its calls."""
        pairs, work = self.newest, self._reader.pairing_work(*self._log.newest_group)
        return self._reader.pace.once(("calls", self._log_name), lambda: calls_of(pairs), work)

    def at(self, stop: int, room: Room, folded: Folded) -> Tail:
        """The tail from entry `stop` on: that which is shown, cut shorter, or where the room is another, a new one."""
        shown = self._shown
        same = shown.room == room
        tightest = room.squeeze >= MAX_SQUEEZE  # then ephemeral messages before the first group give way too
        fits = same and not folded and not room.is_bare and stop >= shown.start + tightest
        fits = fits and not (shown.is_eased and stop > shown.start)  # what it shows whole is cut beside a header
        log, end = self._log, len(self._log)
        if fits and not shown.binds(stop, self._bounds) and shown.joins(stop, log.runs(stop, end)):
            return shown.cut_at(stop, self._bounds, repeats_stop=end)
        name = ("tail", self._log_name, stop, room, folded, tightest)
        tail = self._reader.pace.once(name, lambda: self._begun(stop, room, folded, tightest=tightest))
        extend_tail(self._reader, tail, room.tokens)
        tail.known = None
        return tail

    def _begun(self, stop: int, room: Room, folded: Folded, *, tightest: bool) -> Tail:
        """A new tail that shows nothing yet."""
        since = len(self._log) - 1 if room.is_bare and folded else 0
        tail = Tail(
            stop,
            room,
            self._price,
            folded,
            self._bounds,
            since=since,
            known=self._known,
            repeats_stop=len(self._log),
            whole_log=stop == self._log.leading_count,
        )
        tail.ephemeral_count = self._passed_ephemeral(stop, room) if tightest else 0
        return tail

    def _passed_ephemeral(self, stop: int, room: Room) -> int:
        """How many ephemeral messages give way: those before its first group, or all; but never the newest message."""
        ephemeral = self._log.ephemeral
        most = len(ephemeral) - bool(ephemeral and ephemeral[-1][0] == len(self._log))
        return most if room.is_bare else min(most, bisect_right(ephemeral, stop, key=lambda one: one[0]))


def late_start(log: MessageLog, first: int, room: Room) -> int:
    """The last segment boundary after `first` behind which a room's worth of messages stands."""
    tokens, cap = log.tokens, room.message_cap(0)
    total, at = 0, len(log)
    for segment in reversed(log.segments):
        if segment.stop <= first:
            break
        total += sum(min(cap, tokens[n + 1] - tokens[n]) for n in range(segment.stop, at))
        at = segment.stop
        if total > room.tokens:
            return segment.stop
    return first


def _feed_ephemeral(log: MessageLog, tail: Tail) -> None:
    if tail.ephemeral_count == len(log.ephemeral):
        return
    for passing in log.passing(tail.ephemeral_count, tail.next):
        if passing.before > tail.start or tail.start == log.leading_count:
            tail.pass_by(passing)
        tail.ephemeral_count += 1
