"""Composing: what stands before the tail of a view that is cut somewhere, and the drafts that the planner asks for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

from summarizing_context.log.ledger import SessionLedger
from summarizing_context.log.rules import NO_RULES
from summarizing_context.log.tree import Cut, HeaderNode, Node, cut_at
from summarizing_context.views.activation import ActivationPlan
from summarizing_context.views.budget import Room
from summarizing_context.views.cuts import cuts_leaving, cuts_to_low_water, last_cuts
from summarizing_context.views.folding import Folded
from summarizing_context.views.header import (
    NO_HEADER,
    Header,
    HeaderPlan,
    Style,
    compose_header,
    left_out_header,
    note_node,
    with_ledger,
)
from summarizing_context.views.ledger_section import ledger_block
from summarizing_context.views.memory_section import memory_block
from summarizing_context.views.overflow import Newest
from summarizing_context.views.pins import NO_PINS, Pins, Staying, choose_pins, choose_staying, keep_groups, with_kept
from summarizing_context.views.planner import Candidates, Situation
from summarizing_context.views.provider_view import ProviderView, ViewPolicy
from summarizing_context.views.rule_section import LEAST_TOKENS, rule_block
from summarizing_context.views.shrinking import Price
from summarizing_context.views.tail import Reads, Tail, TailItem, Tails, log_name
from summarizing_context.views.thresholds import Thresholds, economy_thresholds
from summarizing_context.views.view import ActivationState
from summarizing_context.worker.summary_cache import SummaryCache
from summarizing_context.worker.topic_notes import Focus, note_text

_LEAF = 48  # times what it takes to show a message, to read a segment

_BUILD = 32  # times what it takes to show a message, to compose what stands before the tail

_NOTES = 3  # the note about a topic takes at most this part of the header's share


class Composer:
    """Composes what views of one session show before their tails. Plain functions: nothing here waits."""

    def __init__(
        self, reads: Reads, book: SummaryCache, policy: ViewPolicy, price: Price, ledger: SessionLedger | None
    ) -> None:
        self.reads = reads
        self.book = book
        self.policy = policy
        self.price = price
        self.memories: Sequence[str] = ()  # for the next activation, the most relevant first
        self._timeline = reads.timeline
        self._ledger = ledger
        self._style = Style(price.remembered(), policy.header_role, policy.summary_cap, policy.flat)

    def thresholds(self, room: Room) -> Thresholds:
        """Where the next activation is due: a function of the log, the settings and the room alone."""
        economy = self.policy.economy
        return Thresholds(room) if economy is None else economy_thresholds(room, economy, self._timeline.step_tokens)

    def plan(self, now: Situation, cut: Cut, room: Room, tail: Tail, staying: Staying) -> ActivationPlan:
        """The prefix for a cut that leaves this tail; none where the tail is too large, or has to be alone."""
        state, request = now.state, now.request
        keep_from = state.keep_from if request is None or request.keep_from is None else request.keep_from
        if room.is_bare or tail.tokens > room.tokens:
            return ActivationPlan(cut, room, NO_HEADER, NO_PINS, tail, state.focus, keep_from)
        focus = self._focus(state.focus, cut, now.focus)
        header = self._header(state, cut, room, focus)
        pins = self._pins(cut, room, keep_from, staying, header.tokens + tail.tokens)
        return ActivationPlan(cut, room, header, pins, tail, focus, keep_from)

    def _header(self, state: ActivationState, cut: Cut, room: Room, focus: Focus | None) -> Header:
        open_from = max(cut.leaves_stop, self._timeline.leading)
        pieces = self.book.open.pieces(open_from, cut.stop, state.nodes)
        tree, leading, note = state.tree_nodes, self._timeline.leading, self._note(focus, room)
        plan = HeaderPlan(tree, cut.leaves, open_from, cut.stop, leading, tuple(pieces), note)
        if self.policy.truncate:
            return left_out_header(plan, self._style)
        self._make_leaves(tree[-1][0].leaves.stop if tree else 0, cut.leaves)
        header = compose_header(plan, self.book, room, self._style)
        return with_ledger(header, self._ledger_block(cut, room, header), self.price.count)

    def _make_leaves(self, start: int, stop: int) -> None:
        """Have what stands for each of these segments; of a log that nobody has summarized, a few in a slice."""
        for leaf in (Node(0, number) for number in range(start, stop)):
            if not self.book.is_known(leaf):
                self.book.text_of(leaf)
                self.reads.pace.spend(_LEAF)

    def _focus(self, known: Focus | None, cut: Cut, topic: str | None) -> Focus | None:
        """What a note is kept about: a new topic goes before that of the state, in the past that will be covered. The
        same topic in the same past keeps its note."""
        if (
            topic is None
            or cut.stop <= self._timeline.leading
            or (known and (known.text, known.stop) == (topic, cut.stop))
        ):
            return known
        return Focus(topic, self.book.notes.start_of(cut.leaves, cut.stop), cut.stop)

    def _note(self, focus: Focus | None, room: Room) -> HeaderNode | None:
        """The note about a topic, in at most a third of the header's share; None where it has nothing to say."""
        most, count = int(room.header_share / _NOTES), self._style.count
        if focus is None or self.policy.truncate:
            return None
        made = self.book.notes.text_of(focus, most)
        text = note_text(focus.text, made.text, lambda text: note_node(text, focus, made.made_by, count).tokens <= most)
        return note_node(text, focus, made.made_by, count) if text else None

    def staying(self, cut: Cut, room: Room) -> tuple[Staying, int]:
        """What must stay of the past before a cut, with the tokens to set aside for it and for such rows behind."""
        timeline = self._timeline
        behind = timeline.staying(cut.stop, len(timeline))
        raw = sum(cost for cost in map(timeline.cost, behind) if cost <= room.staying_cap)
        staying = choose_staying(timeline.candidates(cut.stop), self.reads, room, raw, self.price)
        return staying, raw + staying.tokens

    def _pins(self, cut: Cut, room: Room, keep_from: float | None, staying: Staying, beside: int) -> Pins:
        """What stays word for word of the past before a cut, in a view that has `beside` tokens beside it."""
        pins = choose_pins(self._timeline.candidates(cut.stop), staying, self.reads, room, self.price)
        pins = self._with_memories(self._with_rules(pins, cut, room), room)
        return self._with_kept(pins, cut, room, self.policy.keep_from if keep_from is None else keep_from, beside)

    def _with_kept(self, pins: Pins, cut: Cut, room: Room, threshold: float | None, beside: int) -> Pins:
        """With the groups that are too important to be summarized only; never so many that little would be freed."""
        left = min(room.keep_cap, int(room.high - room.min_free) - beside - pins.tokens)
        if threshold is None or left <= 0:
            return pins
        timeline = self._timeline
        ranked = timeline.importance.ranked(bisect_left(timeline.group_starts, cut.stop), threshold)
        within = (timeline.bounds(), self.price)
        return with_kept(pins, keep_groups(ranked, self.reads.group, room, left, within=within, pins=pins))

    def _with_rules(self, pins: Pins, cut: Cut, room: Room) -> Pins:
        """With the block of standing rules and pinned texts. What a pin shows whole is not said twice."""
        whole = {pin.seq for pin in (*pins.before, *pins.after) if not pin.left_out}
        rules = NO_RULES if self.policy.truncate else self._timeline.rules.before(cut.stop).without(whole)
        cap = max(room.pin_cap, LEAST_TOKENS) if pins.unshown and room.staying_cap else room.pin_cap
        block = rule_block(self._timeline.pinned.texts, rules, pins.unshown, cap, self.price)
        return _with_block(pins, block.item)._replace(rules_left_out=block.left_out)

    def _with_memories(self, pins: Pins, room: Room) -> Pins:
        return _with_block(pins, self.memory_block(room))

    def pins(self, state: ActivationState, tail: Tail) -> Pins:
        """The pins of a view as they are chosen now, for what it covers."""
        beside, room = state.head_tokens - state.pin_tokens + tail.tokens, tail.room
        staying, _ = self.staying(state.cut, Room(room.tokens, room.shares))
        return self._pins(state.cut, room, state.keep_from, staying, beside)

    def _ledger_block(self, cut: Cut, room: Room, header: Header) -> str:
        """The ledger of what is covered, in its share of the room; none where the room had to be squeezed."""
        cap = 0 if room.squeeze else int(self.policy.ledger_share * room.shared)
        if self._ledger is None or not cap or header.message is None:
            return ""
        known = "\n".join(node.text for node in header.nodes)
        return ledger_block(self._ledger.current(), cut.stop, known, cap, self.price.count)

    def memory_block(self, room: Room) -> TailItem | None:
        """The memories that fit into the room, as one message."""
        return memory_block(self.memories, min(self.policy.memory_tokens, room.pin_cap), self.price)


def _with_block(pins: Pins, block: TailItem | None) -> Pins:
    """Pins with one more message behind the others."""
    return pins if block is None else pins._replace(after=(*pins.after, block), tokens=pins.tokens + block.tokens)


class ProviderDrafts:
    """What the planner may ask for about the next view of one provider."""

    def __init__(self, composer: Composer, provider: ProviderView, tail: Tail, now: Situation) -> None:
        self._composer = composer
        self._provider = provider
        self._tail = tail
        self._now = now
        self._timeline = composer.reads.timeline
        self._staying: dict[tuple[Cut, Room], tuple[Staying, int]] = {}

    @cached_property
    def _tails(self) -> Tails:
        return Tails(self._composer.reads, self._composer.price, self._tail)

    @cached_property
    def _build_name(self) -> tuple[object, ...]:
        """What names the plans of this decision beside cut, room and folded calls."""
        now, timeline = self._now, self._timeline
        memories = id(self._composer.memories)
        return id(now.state), log_name(timeline), now.focus, now.request, memories, timeline.pinned

    def candidates(self) -> Candidates:
        """Where the view may be cut."""
        self._composer.reads.pace.once("begun", self._composer.book.begin)
        now, tail, segments = self._now, self._tail, self._timeline.segments
        present = now.state.cut
        low = self._allowed(cuts_to_low_water(tail, now.room, present, segments, now.policy.keep_recent or 0))
        keeps = now.request is not None or now.focus is not None
        to_keep = cuts_leaving(tail, present, segments, now.messages_to_keep) if keeps else ()
        fewest = cuts_leaving(tail, present, segments, now.fewest_messages) if now.has_too_many else ()
        last = last_cuts(tail, present, segments) if now.overflows else ()
        raw = [tail.after(cut.stop) for cut in low]
        return Candidates(low, raw, self._allowed(to_keep), self._allowed(fewest), self._allowed(last))

    def ahead(self) -> tuple[Cut, ...]:
        """The cut to make for the number of messages where a model summarizes ahead for it: at the end of what it was
        asked for. None where nothing more was."""
        pieces, present, segments = self._composer.book.open, self._now.state.cut, self._timeline.segments
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
        if present.stop <= self._timeline.leading:
            return []
        anew = present if self._now.policy.truncate else cut_at(self._timeline.segments, present.stop)
        leaves = range(present.leaves, anew.leaves)
        is_ready = all(self._composer.book.is_ready(Node(0, leaf)) for leaf in leaves)
        return [anew if is_ready else present]

    def newest(self) -> Newest:
        """The newest group, and the cut that leaves nothing else."""
        start, stop = self._timeline.newest_group
        cut = Cut(0, 0, start) if self._now.policy.truncate else cut_at(self._timeline.segments, start)
        is_open = stop > self._timeline.closed_groups_stop
        return Newest(cut, self._tails.newest_calls, is_open, is_covered=start < self._now.state.stop)

    def plan(self, cut: Cut, room: Room, folded: Folded = ()) -> ActivationPlan:
        """What an activation would make at a cut; `folded` are calls of the tail's first group."""
        name = ("build", self._build_name, cut, room, folded)
        state = self._now.state  # kept with the plan, for it is named by its identity
        return self._composer.reads.pace.once(name, lambda: (state, self._planned(cut, room, folded)), _BUILD)[1]

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
        return self._composer.pins(self._now.state, self._provider.tail)

    def memories(self) -> TailItem | None:
        """The memories that fit into the room, as one message."""
        return self._composer.memory_block(self._now.room)

    def has_turn_ended(self) -> bool:
        """Whether what was signed in a turn has to go with its end; a view that goes back to another shows it."""
        provider = self._provider
        return provider.resumed is None and provider.has_turn_ended(self._timeline.bounds())

    def log_tokens(self, start: int, stop: int) -> int:
        """What these log entries cost."""
        tokens = self._timeline.tokens
        return tokens[stop] - tokens[start]
