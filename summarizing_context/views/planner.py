"""The activation planner: whether a provider's next view activates, and what it would begin with."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache, partial

from summarizing_context.log.ledger import SessionLedger
from summarizing_context.log.rules import NO_RULES
from summarizing_context.log.tree import Cut, HeaderNode, Node, cut_at, notes, stand_ins
from summarizing_context.views.activation import (
    ActivationPlan,
    ActivationRequest,
    Build,
    Reason,
    cuts,
    cuts_to_count,
    decide,
    decide_as_wished,
    decide_by_count,
    decide_for_note,
    decide_freely,
)
from summarizing_context.views.budget import Room
from summarizing_context.views.folding import Folded, hides_newest
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
from summarizing_context.views.overflow import Newest, fit, last_cuts
from summarizing_context.views.pins import NO_PINS, Pins, Staying, choose_pins, choose_staying, keep_groups, with_kept
from summarizing_context.views.provider_view import ProviderView, ViewPolicy
from summarizing_context.views.rule_section import LEAST_TOKENS, rule_block
from summarizing_context.views.shrinking import Price
from summarizing_context.views.tail import Reads, Tail, TailItem, Tails, log_name
from summarizing_context.views.thresholds import Thresholds, economy_thresholds
from summarizing_context.views.view import ActivationState
from summarizing_context.worker.open_ranges import CoveredRange
from summarizing_context.worker.summary_cache import SummaryCache
from summarizing_context.worker.topic_notes import Focus, note_text

_LEAF = 48  # times what it takes to show a message, to read a segment

_BUILD = 32  # times what it takes to show a message, to compose what stands before the tail

_KEEP_BESIDE_NOTE = 10  # messages that a note leaves raw where nothing was covered before and nothing has to be

_SUMMARY = 0.4  # of its source, that a model's summary takes, about

_NOTES = 3  # the note about a topic takes at most this part of the header's share


class ActivationPlanner:
    """Decides about activations of one session. Plain functions: nothing here waits."""

    def __init__(
        self, reads: Reads, book: SummaryCache, policy: ViewPolicy, price: Price, ledger: SessionLedger | None
    ) -> None:
        self._timeline = reads.timeline
        self._reads = reads
        self._book = book
        self._policy = policy
        self._price = price
        self._ledger = ledger
        self.memories: Sequence[str] = ()  # for the next activation, the most relevant first
        self._style = Style(price.remembered(), policy.header_role, policy.summary_cap, policy.flat)

    def waters(self, room: Room) -> Thresholds:
        """Where the next activation is due: a function of the log, the settings and the room alone."""
        economy = self._policy.economy
        return Thresholds(room) if economy is None else economy_thresholds(room, economy, self._timeline.step_tokens)

    def propose(
        self,
        showing: ProviderView,
        tail: Tail,
        room: Room,
        skipped: int,
        asked: Reason | None,
        *,
        focus: str | None = None,
        wish: ActivationRequest | None = None,
    ) -> ActivationPlan | None:
        """The activation to make of `showing`, whose tail would be `tail` with `skipped` tokens before it, or none.

        `asked` is a reason to activate although there is no need; with it may come a topic of which the header has to
        keep a note, or a wish.
        """
        found = self._proposed(showing, tail, room, skipped, asked, focus=focus, wish=wish)
        return self._refreshed(showing, tail, room) if found is None and asked == "idle" else found

    def _proposed(
        self,
        showing: ProviderView,
        tail: Tail,
        room: Room,
        skipped: int,
        asked: Reason | None,
        *,
        focus: str | None,
        wish: ActivationRequest | None,
    ) -> ActivationPlan | None:
        present, keep, head = showing.state.cut, self._policy.keep_recent or 0, showing.state.head_tokens
        waters, shown = self.waters(room), showing.tail.room
        now = head + tail.tokens
        overflow = skipped > 0 or now > room.tokens or (shown.is_bare and room.tokens > shown.tokens)
        overflow = overflow or self._hides_newest(showing)
        high, too_many = now > waters.high(head), self._too_many(showing, tail)
        needed = overflow or high or too_many or asked == "explicit"
        if not needed and (asked is None or tail.tokens < room.low + self._policy.leaf):
            return None
        ahead = self._cuts_ahead(tail, room, present) if too_many else []
        if not (overflow or asked == "explicit" or ahead or self._may_attempt(showing, room, too_many)):
            return None
        if needed:  # what could be done on a cold cache alone may soon have to be
            showing.attempted_at, showing.attempted_length = self._timeline.history_tokens, len(self._timeline)
        self._reads.pace.once("begun", self._book.begin)
        segments = self._timeline.segments
        found = self._allowed(cuts(tail, room, present, segments, keep), present)
        tails = Tails(self._reads, self._price, tail)
        build = self._builder(showing, tails, focus, wish)
        if asked == "explicit" and not (overflow or high):
            found = self._worthwhile(found, showing, tail, room)
        if focus is not None and wish is None and not (found or self._covered(present)):
            wish = ActivationRequest(keep_messages=_KEEP_BESIDE_NOTE)  # a note needs something covered
        if wish is not None:
            least = max(wish.keep_messages or 1, keep)
            wished = self._allowed(cuts_to_count(tail, present, segments, least), present)
            found = [*wished, *found] if overflow or wish.keep_messages is None else wished
        if overflow:
            last = self._allowed(last_cuts(tail, present, segments), present)
            gentle = [*found, present] if tail.start == present.stop else found
            return fit(room, gentle, last, self._newest(present, tails), build)
        if focus is not None:
            present_cut, is_news = self._covered(present), partial(self._is_news, showing.state)
            return decide_for_note(now, waters, [*found, *present_cut], build, is_news)
        if wish is not None:
            made = self._as_wished(showing, now, waters, build, found, most=now)
            if made is None and found and wish.keep_messages is not None:
                self._have_made(build(found[0], room), now)
            most = None if wish.keep_from is None else now
            return made or self._as_wished(showing, now, waters, build, self._covered(present), most=most)
        if high:
            return decide(now, waters, found, build)
        if too_many:
            found = self._allowed([*ahead, *cuts_to_count(tail, present, segments, self._least_left(room))], present)
            return decide_by_count(now, waters, found, build)
        if asked == "explicit":
            present_cut = self._covered(present)
            return decide_freely(now, found, room, build) or self._as_wished(showing, now, waters, build, present_cut)
        return decide(now, waters, found, build)

    def _refreshed(self, showing: ProviderView, tail: Tail, room: Room) -> ActivationPlan | None:
        """On a cold cache the same view with summaries that have become ready in the place of stand-ins."""
        shown = stand_ins(showing.state.nodes)
        if not shown:
            return None
        build = self._builder(showing, Tails(self._reads, self._price, tail), None, None)
        now, found = showing.state.head_tokens + tail.tokens, self._covered(showing.state.cut)
        return decide_as_wished(
            now, self.waters(room), found, build, lambda proposal: stand_ins(proposal.header.nodes) < shown
        )

    def _as_wished(
        self,
        showing: ProviderView,
        now: int,
        waters: Thresholds,
        build: Build,
        found: list[Cut],
        *,
        most: int | None = None,
    ) -> ActivationPlan | None:
        """The first cut that changes anything, in at most `most` tokens where that is given."""

        def serves(proposal: ActivationPlan) -> bool:
            return self._is_news(showing.state, proposal) and (most is None or proposal.tokens <= most)

        return decide_as_wished(now, waters, found, build, serves)

    def _have_made(self, refused: ActivationPlan, now: int) -> None:
        """Have a model summarize what a view covers that is refused for its size, where that may make it smaller."""
        tokens, least = self._timeline.tokens, refused.tokens
        for node in refused.header.nodes:
            if stand_ins([node]):
                least -= max(0, node.tokens - int(_SUMMARY * (tokens[node.stop] - tokens[node.start])))
        if least < min(now, refused.tokens):
            self._book.open.ask(CoveredRange(refused.cut.stop, refused.header.nodes))

    def _is_news(self, state: ActivationState, proposal: ActivationPlan) -> bool:
        """Whether anybody would see a difference to the present view."""
        after = tuple(pin.message for pin in proposal.pins.after)
        fewer = stand_ins(proposal.header.nodes) < stand_ins(state.nodes)
        same = proposal.cut.stop == state.stop and after == state.after and proposal.header.notes == notes(state.nodes)
        return fewer or not same

    def _cuts_ahead(self, tail: Tail, room: Room, present: Cut) -> list[Cut]:
        """The cut to make for the number of messages where a model summarizes ahead for it: at the end of what it was
        asked for. None where nothing more was."""
        if not self._book.open.goes_ahead:
            return []
        segments = self._timeline.segments
        ends = [segment.stop for segment in segments[present.leaves :] if segment.last_part]
        return cuts_to_count(tail, present, segments, self._least_left(room), [*ends, *self._book.open.ends()])

    def _least_left(self, room: Room) -> int:
        """How many messages an activation for their number leaves raw, at least."""
        left = (self._policy.max_messages or 0) * room.shares.low_water / room.shares.high_water
        return max(int(left), self._policy.keep_recent or 0, 1)

    def _newest(self, present: Cut, tails: Tails) -> Newest:
        start, stop = self._timeline.newest_group
        cut = Cut(0, 0, start) if self._policy.truncate else cut_at(self._timeline.segments, start)
        is_open = stop > self._timeline.closed_groups_stop
        return Newest(cut, tails.newest_calls, is_open, is_covered=start < present.stop)

    def _hides_newest(self, showing: ProviderView) -> bool:
        """Whether calls are folded of which the newest message is a result."""
        folded, (start, stop) = showing.state.folded, self._timeline.newest_group
        if not folded or showing.state.stop != start or stop != len(self._timeline):
            return False
        return hides_newest(Tails(self._reads, self._price, showing.tail).newest, folded)

    def _worthwhile(self, found: list[Cut], showing: ProviderView, tail: Tail, room: Room) -> list[Cut]:
        """The cuts that bring the tail nearer to the low water, so that asking twice does what asking once does: where
        nothing was said since the view was cut at the end of a segment, another group is no reason to cut again."""
        state = showing.state
        found = [cut for cut in found if abs(tail.after(cut.stop) - room.low) < abs(tail.tokens - room.low)]
        is_known = state.bounds.rewritten == len(self._timeline) and state.room == room.tokens
        at_end = state.stop == state.leaves_stop > self._timeline.leading
        if is_known and at_end and all(cut.stop > cut.leaves_stop for cut in found):
            return []
        return found

    def _allowed(self, found: list[Cut], present: Cut) -> list[Cut]:
        """Without summaries there are no segments to cover, only messages to leave out."""
        found = [cut for cut in found if cut.stop != present.stop]
        return [Cut(0, 0, cut.stop) for cut in found] if self._policy.truncate else found

    def _covered(self, present: Cut) -> list[Cut]:
        """The present cut, where anything is covered; with the segments that have closed since, once all are ready."""
        if present.stop <= self._timeline.leading:
            return []
        anew = present if self._policy.truncate else cut_at(self._timeline.segments, present.stop)
        is_ready = all(self._book.is_ready(Node(0, leaf)) for leaf in range(present.leaves, anew.leaves))
        return [anew if is_ready else present]

    def _may_attempt(self, showing: ProviderView, room: Room, too_many: bool) -> bool:
        """At most one attempt for every `min_free` new tokens, or for half of `max_messages` new ones."""
        fresh = len(self._timeline) - showing.attempted_length
        if showing.attempted_at is None or (too_many and 2 * fresh >= (self._policy.max_messages or 0)):
            return True
        return self._timeline.history_tokens - showing.attempted_at >= room.min_free

    def _too_many(self, showing: ProviderView, tail: Tail) -> bool:
        """Whether the view has more messages than it should; half of them at least are the tail's."""
        most = self._policy.max_messages
        if most is None:
            return False
        head = max(self._timeline.leading, bool(showing.state.system)) + len(showing.state.head)
        return len(tail.items) > max(most - head, most // 2, self._policy.keep_recent or 1)

    def _builder(self, showing: ProviderView, tails: Tails, topic: str | None, wish: ActivationRequest | None) -> Build:
        """Composes a prefix and a tail for a cut; no prefix where the tail is too large, or has to be alone."""
        keep_from = showing.state.keep_from if wish is None or wish.keep_from is None else wish.keep_from

        @lru_cache
        def staying_of(cut: Cut, room: Room) -> tuple[Staying, int]:
            return self._staying(cut, room)

        state, pace = showing.state, self._reads.pace
        name = id(state), log_name(self._timeline), topic, wish, id(self.memories), self._timeline.pinned

        def build(cut: Cut, room: Room, folded: Folded = ()) -> ActivationPlan:
            return pace.once(("build", name, cut, room, folded), lambda: (state, made(cut, room, folded)), _BUILD)[1]

        def made(cut: Cut, room: Room, folded: Folded) -> ActivationPlan:
            staying, aside = (Staying(), 0) if room.is_bare else staying_of(cut, Room(room.tokens, room.shares))
            room = room.setting_aside(aside)
            tail = tails.at(cut.stop, room, folded)
            if room.is_bare or tail.tokens > room.tokens:
                return ActivationPlan(cut, room, NO_HEADER, NO_PINS, tail, showing.state.focus, keep_from)
            focus = self._focus(showing, cut, topic)
            header = self._header(showing, cut, room, focus)
            pins = self._pins(cut, room, keep_from, staying, header.tokens + tail.tokens)
            return ActivationPlan(cut, room, header, pins, tail, focus, keep_from)

        return build

    def _header(self, showing: ProviderView, cut: Cut, room: Room, focus: Focus | None) -> Header:
        open_from = max(cut.leaves_stop, self._timeline.leading)
        pieces = self._book.open.pieces(open_from, cut.stop, showing.state.nodes)
        tree, leading, note = showing.state.tree_nodes, self._timeline.leading, self._note(focus, room)
        plan = HeaderPlan(tree, cut.leaves, open_from, cut.stop, leading, tuple(pieces), note)
        if self._policy.truncate:
            return left_out_header(plan, self._style)
        self._make_leaves(tree[-1][0].leaves.stop if tree else 0, cut.leaves)
        header = compose_header(plan, self._book, room, self._style)
        return with_ledger(header, self._ledger_block(cut, room, header), self._price.count)

    def _make_leaves(self, start: int, stop: int) -> None:
        """Have what stands for each of these segments; of a log that nobody has summarized, a few in a slice."""
        for leaf in (Node(0, number) for number in range(start, stop)):
            if not self._book.is_known(leaf):
                self._book.text_of(leaf)
                self._reads.pace.spend(_LEAF)

    def _focus(self, showing: ProviderView, cut: Cut, topic: str | None) -> Focus | None:
        """What a note is kept about: a new topic goes before that of the state, in the past that will be covered. The
        same topic in the same past keeps its note."""
        known = showing.state.focus
        if (
            topic is None
            or cut.stop <= self._timeline.leading
            or (known and (known.text, known.stop) == (topic, cut.stop))
        ):
            return known
        return Focus(topic, self._book.notes.start_of(cut.leaves, cut.stop), cut.stop)

    def _note(self, focus: Focus | None, room: Room) -> HeaderNode | None:
        """The note about a topic, in at most a third of the header's share; None where it has nothing to say."""
        most, count = int(room.header_share / _NOTES), self._style.count
        if focus is None or self._policy.truncate:
            return None
        made = self._book.notes.text_of(focus, most)
        text = note_text(focus.text, made.text, lambda text: note_node(text, focus, made.made_by, count).tokens <= most)
        return note_node(text, focus, made.made_by, count) if text else None

    def _staying(self, cut: Cut, room: Room) -> tuple[Staying, int]:
        """What must stay of the past before a cut, with the tokens to set aside for it and for such rows behind."""
        timeline = self._timeline
        behind = timeline.staying(cut.stop, len(timeline))
        raw = sum(cost for cost in map(timeline.cost, behind) if cost <= room.staying_cap)
        staying = choose_staying(timeline.candidates(cut.stop), self._reads, room, raw, self._price)
        return staying, raw + staying.tokens

    def _pins(self, cut: Cut, room: Room, keep_from: float | None, staying: Staying, beside: int) -> Pins:
        """What stays word for word of the past before a cut, in a view that has `beside` tokens beside it."""
        pins = choose_pins(self._timeline.candidates(cut.stop), staying, self._reads, room, self._price)
        pins = self._with_memories(self._with_rules(pins, cut, room), room)
        return self._with_kept(pins, cut, room, self._policy.keep_from if keep_from is None else keep_from, beside)

    def _with_kept(self, pins: Pins, cut: Cut, room: Room, threshold: float | None, beside: int) -> Pins:
        """With the groups that are too important to be summarized only; never so many that little would be freed."""
        left = min(room.keep_cap, int(room.high - room.min_free) - beside - pins.tokens)
        if threshold is None or left <= 0:
            return pins
        timeline = self._timeline
        ranked = timeline.importance.ranked(bisect_left(timeline.group_starts, cut.stop), threshold)
        within = (timeline.bounds(), self._price)
        return with_kept(pins, keep_groups(ranked, self._reads.group, room, left, within=within, pins=pins))

    def _with_rules(self, pins: Pins, cut: Cut, room: Room) -> Pins:
        """With the block of standing rules and pinned texts. What a pin shows whole is not said twice."""
        whole = {pin.seq for pin in (*pins.before, *pins.after) if not pin.left_out}
        rules = NO_RULES if self._policy.truncate else self._timeline.rules.before(cut.stop).without(whole)
        cap = max(room.pin_cap, LEAST_TOKENS) if pins.unshown and room.staying_cap else room.pin_cap
        block = rule_block(self._timeline.pinned.texts, rules, pins.unshown, cap, self._price)
        return _with_block(pins, block.item)._replace(rules_left_out=block.left_out)

    def _with_memories(self, pins: Pins, room: Room) -> Pins:
        return _with_block(pins, self.memory_block(room))

    def pins(self, showing: ProviderView) -> Pins:
        """The pins of a view as they are chosen now, for what it covers."""
        state = showing.state
        beside = state.head_tokens - state.pin_tokens + showing.tail.tokens
        room = showing.tail.room
        staying, _ = self._staying(state.cut, Room(room.tokens, room.shares))
        return self._pins(state.cut, room, state.keep_from, staying, beside)

    def _ledger_block(self, cut: Cut, room: Room, header: Header) -> str:
        """The ledger of what is covered, in its share of the room; none where the room had to be squeezed."""
        cap = 0 if room.squeeze else int(self._policy.ledger_share * room.shared)
        if self._ledger is None or not cap or header.message is None:
            return ""
        known = "\n".join(node.text for node in header.nodes)
        return ledger_block(self._ledger.current(), cut.stop, known, cap, self._price.count)

    def memory_block(self, room: Room) -> TailItem | None:
        """The memories that fit into the room, as one message."""
        return memory_block(self.memories, min(self._policy.memory_tokens, room.pin_cap), self._price)


def _with_block(pins: Pins, block: TailItem | None) -> Pins:
    """Pins with one more message behind the others."""
    return pins if block is None else pins._replace(after=(*pins.after, block), tokens=pins.tokens + block.tokens)
