"""Where a view may be cut, what stands before its tail then, and the drafts that the planner asks for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.segments import Segment
from summarizing_context.log.tree import Cut, Node, cut_at
from summarizing_context.views.activation import ActivationPlan
from summarizing_context.views.budget import Room
from summarizing_context.views.folds import Folded
from summarizing_context.views.header import NO_HEADER
from summarizing_context.views.overflow import Newest
from summarizing_context.views.pins import NO_PINS, Pins, Staying, choose_staying
from summarizing_context.views.planner import Candidates, Situation
from summarizing_context.views.sections import SECTIONS, Draft, Section, Sources, memories
from summarizing_context.views.tail import Mark, Tail, Tails
from summarizing_context.views.tail_items import TailItem
from summarizing_context.views.view import ActivationState, ProviderView
from summarizing_context.worker.covered_ranges import Foreseen, piece_shown

_AHEAD = 1.25  # times `low_water` below `high_water`, from where on a cut inside a segment is foreseen

_BUILD = 32  # times what it takes to show a message, to compose what stands before the tail


class Composer:
    """Composes what views of one session show before their tails. Plain functions: nothing here waits."""

    def __init__(self, sources: Sources, sections: Sequence[Section] = SECTIONS) -> None:
        self.sources = sources
        self._sections = sections

    def plan(self, now: Situation, cut: Cut, room: Room, tail: Tail, staying: Staying) -> ActivationPlan:
        """The prefix for a cut that leaves this tail; none where the tail is too large, or has to be alone."""
        state, request = now.state, now.request
        keep_from = state.keep_from if request is None or request.keep_from is None else request.keep_from
        if room.is_bare or tail.tokens > room.tokens:
            return ActivationPlan(cut, room, NO_HEADER, NO_PINS, tail, state.focus, keep_from)
        draft = replace(self._draft(now, cut, room, tail.tokens, staying), keep_from=keep_from, topic=now.focus)
        return ActivationPlan(cut, room, draft.header, draft.pins, tail, draft.focus, keep_from)

    def staying(self, cut: Cut, room: Room) -> tuple[Staying, int]:
        """What must stay of the past before a cut, with the tokens to set aside for it and for such rows behind."""
        log, reader = self._log, self.sources.reader
        behind = log.staying(cut.stop, len(log))
        raw = sum(cost for cost in map(log.cost, behind) if cost <= room.staying_cap)
        staying = choose_staying(log.candidates(cut.stop), reader, room, raw, self.sources.price)
        return staying, raw + staying.tokens

    def pins(self, now: Situation, tail: Tail) -> Pins:
        """The pins of the present view as they are chosen now, for what it covers."""
        state, room = now.state, tail.room
        staying, _ = self.staying(state.cut, Room(room.tokens, room.shares))
        draft = self._draft(now, state.cut, room, tail.tokens, staying)
        return replace(draft, present_header=state.head_tokens - state.pin_tokens).pins

    def memories(self, now: Situation) -> TailItem | None:
        """The memories that fit into the room, as one message."""
        return next(iter(memories(self._draft(now, now.state.cut, now.room, now.tail_tokens, Staying()))), None)

    def foreseen(self, provider_view: ProviderView, room: Room) -> Foreseen:
        """What the next activation of a view may cover; nothing while that is not near. Where its messages are counted,
        it may be near at any time."""
        state, tail, log, opened = provider_view.state, provider_view.tail, self._log, self.sources.summaries.open
        near = room.high - room.min_free
        if state.head_tokens + tail.tokens <= near and self.sources.policy.max_messages is None:
            return Foreseen()
        segments = range(state.leaves, len(log.segments))
        if (cut := self.foreseen_cut(state, tail, room)) is None:
            return Foreseen(segments)
        pieces = tuple(opened.pieces(max(cut.leaves_stop, log.leading_count), cut.stop, state.nodes))
        is_late = cut.stop < log.covered_by_segments and not opened.is_foreseen(pieces)
        return Foreseen(segments, () if is_late else pieces)  # once the segment has closed, its own summary is made

    def foreseen_cut(self, state: ActivationState, tail: Tail, room: Room) -> Cut | None:
        """Where the next activation of a view cuts inside a segment, if it does and a model summarizes the part."""
        summaries = self.sources.summaries
        if not summaries.open.may_foresee or self.sources.policy.truncate:
            return None
        return _foreseen_cut(state, tail, room, self._log.segments, summaries.shown_tokens)

    @property
    def _log(self) -> MessageLog:
        return self.sources.reader.log

    def _draft(self, now: Situation, cut: Cut, room: Room, tail_tokens: int, staying: Staying) -> Draft:
        state, sections = now.state, self._sections
        return Draft(
            self.sources, sections, state, cut, room, staying, tail_tokens, now.memories, keep_from=state.keep_from
        )


@dataclass(frozen=True)
class ProviderDrafts:
    """What the planner may ask for about the next view of one provider."""

    _composer: Composer
    _provider_view: ProviderView
    _tail: Tail
    _now: Situation
    _staying: dict[tuple[Cut, Room], tuple[Staying, int]] = field(default_factory=dict)

    @cached_property
    def _sources(self) -> Sources:
        return self._composer.sources

    @cached_property
    def _log(self) -> MessageLog:
        return self._sources.reader.log

    @cached_property
    def _tails(self) -> Tails:
        return Tails(self._sources.reader, self._sources.price, self._tail)

    @cached_property
    def _build_name(self) -> tuple[object, ...]:
        """What names the plans of this decision beside cut, room and folded calls."""
        now, log = self._now, self._log
        return id(now.state), log.name, now.focus, now.request, now.memories, log.pinned

    def candidates(self) -> Candidates:
        """Where the view may be cut."""
        self._sources.reader.pace.once("begun", self._sources.summaries.begin)
        now, tail, segments = self._now, self._tail, self._log.segments
        present = now.state.cut
        cuts = cuts_to_low_water(tail, now.room, present, segments, now.policy.keep_recent or 0)
        low = self._allowed(self._with_foreseen([*self._shown_beside(cuts), *cuts]))
        keeps = now.request is not None or now.focus is not None
        to_keep = cuts_leaving(tail, present, segments, now.messages_to_keep) if keeps else ()
        fewest = cuts_leaving(tail, present, segments, now.fewest_messages) if now.has_too_many else ()
        last = last_cuts(tail, present, segments) if now.overflows else ()
        raw = [tail.after(cut.stop) for cut in low]
        return Candidates(low, raw, self._allowed(to_keep), self._allowed(fewest), self._allowed(last))

    def _shown_beside(self, cuts: Sequence[Cut]) -> list[Cut]:
        """The cut of the view that was shown in a smaller room, where it covers less than these do."""
        beside, tail = self._provider_view.beside, self._tail
        if beside is None or not max(tail.start, self._now.state.stop) < beside.stop <= tail.marks[-1].stop:
            return []
        return [] if any(cut.stop <= beside.stop for cut in cuts) else [cut_at(self._log.segments, beside.stop)]

    def _with_foreseen(self, cuts: list[Cut]) -> list[Cut]:
        """These cuts, and the one that was foreseen before all others inside a segment; before those at the end of one
        too, where a model has summarized what it shows and not what they show."""
        now, summaries = self._now, self._sources.summaries
        cut = self._composer.foreseen_cut(now.state, self._tail, now.room)
        if cut is None or messages_after(self._tail, cut.stop) < (now.policy.keep_recent or 0):
            return cuts
        whole = [one for one in cuts if one.stop == one.leaves_stop]
        inside = [one for one in cuts if one.stop != one.leaves_stop]
        leaves = range(now.state.leaves, max((one.leaves for one in whole), default=0))
        pieces = summaries.open.pieces(max(cut.leaves_stop, self._log.leading_count), cut.stop, now.state.nodes)
        is_late = not all(summaries.is_ready(Node.leaf(leaf)) for leaf in leaves)
        is_first = is_late and all(summaries.open.text_of(piece) for piece in pieces)
        return [cut, *whole, *inside] if is_first else [*whole, cut, *inside]

    def ahead(self) -> tuple[Cut, ...]:
        """The cut to make for the number of messages where a model summarizes ahead for it: at the end of what it was
        asked for. None where nothing more was."""
        pieces, present, segments = self._sources.summaries.open, self._now.state.cut, self._log.segments
        if not pieces.goes_ahead:
            return ()
        ends = [segment.stop for segment in segments[present.leaves :] if segment.last_part]
        least = self._now.fewest_messages
        return tuple(self._allowed(cuts_leaving(self._tail, present, segments, least, [*ends, *pieces.ends()])))

    def _allowed(self, cuts: Sequence[Cut]) -> list[Cut]:
        """Without summaries there are no segments to cover, only messages to leave out."""
        cuts = [cut for cut in cuts if cut.stop != self._now.state.stop]
        return [Cut(0, 0, cut.stop) for cut in cuts] if self._now.policy.truncate else cuts

    def covered(self) -> list[Cut]:
        """The present cut, where anything is covered; with the segments that have closed since, once all are ready."""
        present = self._now.state.cut
        if present.stop <= self._log.leading_count:
            return []
        anew = present if self._now.policy.truncate else cut_at(self._log.segments, present.stop)
        leaves = range(present.leaves, anew.leaves)
        is_ready = all(self._sources.summaries.is_ready(Node.leaf(leaf)) for leaf in leaves)
        return [anew if is_ready else present]

    def newest(self) -> Newest:
        """The newest group, and the cut that leaves nothing else."""
        start, stop = self._log.newest_group
        cut = Cut(0, 0, start) if self._now.policy.truncate else cut_at(self._log.segments, start)
        is_open = stop > self._log.closed_groups_stop
        return Newest(
            cut,
            self._tails.newest_calls,
            is_open,
            is_covered=start < self._now.state.stop,
            tokens=self.log_tokens(start, stop),
        )

    def plan(self, cut: Cut, room: Room, folded: Folded = ()) -> ActivationPlan:
        """What an activation would make at a cut; `folded` are calls of the tail's first group."""
        name = ("build", self._build_name, cut, room, folded)
        state = self._now.state  # kept with the plan, for it is named by its identity
        return self._sources.reader.pace.once(name, lambda: (state, self._planned(cut, room, folded)), _BUILD)[1]

    def _planned(self, cut: Cut, room: Room, folded: Folded) -> ActivationPlan:
        staying, aside = (Staying(), 0) if room.is_bare else self._staying_of(cut, Room(room.tokens, room.shares))
        room = room.setting_aside(aside)
        return self._composer.plan(self._now, cut, room, self._tails.at(cut.stop, room, folded), staying)

    def _staying_of(self, cut: Cut, room: Room) -> tuple[Staying, int]:
        if (cut, room) not in self._staying:
            self._staying[cut, room] = self._composer.staying(cut, room)
        return self._staying[cut, room]

    def pins(self) -> Pins:
        """The pins of the present view as they would be chosen now."""
        return self._composer.pins(self._now, self._provider_view.tail)

    def memories(self) -> TailItem | None:
        """The memories that fit into the room, as one message."""
        return self._composer.memories(self._now)

    def has_turn_ended(self) -> bool:
        """Whether what was signed in a turn has to go with its end; a view that goes back to another shows it."""
        provider_view = self._provider_view
        return provider_view.resumed is None and provider_view.has_turn_ended(self._log.bounds())

    def log_tokens(self, start: int, stop: int) -> int:
        """What these log entries cost."""
        tokens = self._log.tokens
        return tokens[stop] - tokens[start]


def cuts_to_low_water(tail: Tail, room: Room, present: Cut, segments: Sequence[Segment], keep: int = 0) -> list[Cut]:
    """Where the tail may be cut, best first: at the segment boundary nearest to the low water, then at the group
    boundary nearest to it. Never below a quarter of the low water; not below `keep` messages where that can be met."""
    found: list[Cut] = []
    ends = {segment.stop for segment in segments[present.leaves :] if segment.last_part}
    leaf = _nearest(tail, room, [mark for mark in tail.marks if mark.stop in ends], keep)
    if leaf is not None:
        found.append(cut_at(segments, leaf))
    group = _nearest(tail, room, [mark for mark in tail.marks if mark.stop > (leaf or present.stop)], keep)
    if group is not None:
        found.append(cut_at(segments, group))
    return found


def cuts_leaving(
    tail: Tail, present: Cut, segments: Sequence[Segment], messages: int, ends: Container[int] | None = None
) -> list[Cut]:
    """The cut that leaves about `messages` messages, and no fewer if a group boundary allows. Where `ends` are given
    it is one of these."""
    stops = [mark.stop for mark in tail.marks if mark.stop > present.stop and (ends is None or mark.stop in ends)]
    enough = [stop for stop in stops if messages_after(tail, stop) >= messages]
    return [cut_at(segments, enough[-1])] if enough else []


def last_cuts(tail: Tail, present: Cut, segments: Sequence[Segment]) -> list[Cut]:
    """Cuts for a view that fits no other way: before the newest closed group, then behind it."""
    stops = [mark.stop for mark in tail.marks[-2:] if mark.stop > present.stop]
    return [cut_at(segments, stop) for stop in stops]


def _nearest(tail: Tail, room: Room, marks: Sequence[Mark], keep: int) -> int | None:
    """The stop that leaves about the low water, of those that leave at least a quarter of it."""
    low, last = room.low, tail.marks[-1]
    end = last.tokens + tail.after(last.stop)
    fair = [mark for mark in marks if end - mark.tokens >= low / 4]
    kept = [mark for mark in fair if last.items - mark.items >= keep] if keep else fair
    best = min(kept or fair, key=lambda mark: abs(end - mark.tokens - low), default=None)
    return None if best is None else best.stop


def messages_after(tail: Tail, stop: int) -> int:
    return tail.marks[-1].items - tail.mark(stop).items


def _foreseen_cut(
    state: ActivationState,
    tail: Tail,
    room: Room,
    segments: Sequence[Segment],
    summary_tokens: Callable[[int | None], int],
) -> Cut | None:
    """Where the next activation will cut inside a segment, told a little ahead so that its summaries are there: at the
    last end of a group that the view had room for, a little below its high water.

    None while it is not so near, and where whole segments free enough. The log, the view and the settings alone say
    where, whatever has been summarized by then.

    Args:
        state: of the view.
        tail: the view's, with all that it shows.
        room: of the view.
        segments: of the log.
        summary_tokens: what the summary of a segment takes, about; for None that of a part.
    """
    head = state.head_tokens
    before = room.high - _AHEAD * room.low - head
    if tail.start != state.stop or tail.tokens <= before:
        return None
    at = bisect_right(tail.marks, before + tail.marks[0].tokens, key=lambda mark: mark.tokens) - 1
    stop = tail.marks[max(0, at)].stop
    cut = cut_at(segments, stop)
    replaced = sum(node.tokens for node in state.nodes if piece_shown(node) is not None)
    added = sum(map(summary_tokens, range(state.leaves, cut.leaves)))
    whole = 0
    if cut.leaves_stop > state.stop:
        whole, added = tail.tokens - tail.after(cut.leaves_stop) - added + replaced, added - replaced
    freed = tail.tokens - tail.after(stop) - added - summary_tokens(None)
    is_partial = stop > max(cut.leaves_stop, state.stop)
    return cut if is_partial and whole < room.min_free <= freed else None
