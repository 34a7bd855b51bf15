"""Activation: when a view begins to cover more of the past, and how much.

Pure. A view changes its prefix only here. An activation frees at least `min_free` of the room or does not
happen; only a view that would not fit its budget takes what it can get, by the ladder of `overflow`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Literal, NamedTuple, Protocol

from summarizing_context.log.segments import Segment
from summarizing_context.log.tree import Cut, cut_at
from summarizing_context.views.budget import Room
from summarizing_context.views.folding import Folded
from summarizing_context.views.header import Header
from summarizing_context.views.pins import Pins
from summarizing_context.views.tail import Tail
from summarizing_context.views.thresholds import Thresholds
from summarizing_context.worker.topic_notes import Focus

Reason = Literal[
    "high_water",
    "budget_lowered",
    "provider_changed",
    "system_changed",
    "log_replaced",
    "idle",
    "explicit",
    "restored",
]


class ActivationPlan(NamedTuple):
    """A view's prefix and tail as an activation would make them."""

    cut: Cut
    room: Room
    header: Header
    pins: Pins
    tail: Tail
    focus: Focus | None = None  # the topic of the note in the header
    keep_from: float | None = None  # a threshold of importance that a call has set

    @property
    def head_tokens(self) -> int:
        """Cost of everything between the system rows and the tail."""
        return self.header.tokens + self.pins.tokens

    @property
    def word_for_word(self) -> tuple[int, int]:
        """How many messages stay so: the newest ones, and older ones."""
        return len(self.tail.items), sum(item.seq >= 0 for item in (*self.pins.before, *self.pins.after))

    @property
    def tokens(self) -> int:
        """Cost of the view beside its system rows."""
        return self.head_tokens + self.tail.tokens


class ActivationReport(NamedTuple):
    """What an activation did; tokens are those of the whole view. `freed` is below 0 where all that an activation did
    was to add a note about a topic. `raw` and `kept` count what stays word for word where more is covered; `raw` also
    where nothing is done, for these messages were to stay so."""

    activated: bool
    reason: Reason
    tokens_before: int
    tokens_after: int
    freed: int
    raw: int = 0  # the newest messages
    kept: int = 0  # older ones: the first request, pinned and critical ones, and those that are important enough


class ActivationRequest(NamedTuple):
    """What an activation that is asked for has to do."""

    keep_messages: int | None = None  # leave these raw, and cover all before
    keep_from: float | None = None  # keep groups word for word that are so important


class Build(Protocol):
    """Composes a prefix and a tail; `folded` are calls of the tail's first group."""

    def __call__(self, cut: Cut, room: Room, folded: Folded = ()) -> ActivationPlan: ...


def cuts(tail: Tail, room: Room, present: Cut, segments: Sequence[Segment], keep: int = 0) -> list[Cut]:
    """Where the tail may be cut, best first: at the segment boundary nearest to the low water, then at the group
    boundary nearest to it. Never below half the low water; not below `keep` messages where that can be met."""
    found: list[Cut] = []
    ends = [segment.stop for segment in segments[present.leaves :] if segment.last_part]
    leaf = _nearest(tail, room, [stop for stop in ends if tail.start <= stop <= tail.marks[-1].stop], keep)
    if leaf is not None:
        found.append(cut_at(segments, leaf))
    stops = [mark.stop for mark in tail.marks if mark.stop > (leaf or present.stop)]
    group = _nearest(tail, room, stops, keep)
    if group is not None:
        found.append(cut_at(segments, group))
    return found


def cuts_to_count(
    tail: Tail, present: Cut, segments: Sequence[Segment], messages: int, ends: Container[int] | None = None
) -> list[Cut]:
    """The cut that leaves about `messages` messages, and no fewer if a group boundary allows. Where `ends` are given
    it is one of these."""
    stops = [mark.stop for mark in tail.marks if mark.stop > present.stop and (ends is None or mark.stop in ends)]
    enough = [stop for stop in stops if _messages_after(tail, stop) >= messages]
    return [cut_at(segments, enough[-1])] if enough else []


def decide(now: int, waters: Thresholds, found: Sequence[Cut], build: Build) -> ActivationPlan | None:
    """The activation to make of a view that costs `now` tokens beside its system rows and fits; None for none."""
    room = waters.room
    best: ActivationPlan | None = None
    for cut in found:
        proposal = build(cut, room)
        if now - proposal.tokens < room.min_free:
            continue
        if proposal.tokens <= waters.goal(proposal.head_tokens):
            return proposal
        if best is None or proposal.tokens < best.tokens:
            best = proposal
    return best


def decide_freely(now: int, found: Sequence[Cut], room: Room, build: Build) -> ActivationPlan | None:
    """The activation to make when one is asked for: the first that frees anything."""
    for cut in found:
        proposal = build(cut, room)
        if proposal.tokens < now and proposal.tokens <= room.tokens:
            return proposal
    return None


def decide_by_count(now: int, waters: Thresholds, found: Sequence[Cut], build: Build) -> ActivationPlan | None:
    """The activation to make when a view has too many messages: the first that is not too full, though it frees no
    tokens."""
    return decide_as_wished(now, waters, found, build, lambda _: True)


def decide_as_wished(
    now: int, waters: Thresholds, found: Sequence[Cut], build: Build, is_news: Callable[[ActivationPlan], bool]
) -> ActivationPlan | None:
    """The activation to make when a caller wishes for one: the first that changes anything and is not too full."""
    for cut in found:
        proposal = build(cut, waters.room)
        most = max(waters.high(proposal.head_tokens), now)
        if is_news(proposal) and proposal.tokens <= min(most, waters.room.tokens):
            return proposal
    return None


def decide_for_note(
    now: int, waters: Thresholds, found: Sequence[Cut], build: Build, is_news: Callable[[ActivationPlan], bool]
) -> ActivationPlan | None:
    """The activation to make when a note is asked for: the first that changes anything, whose header has one, and that
    is not too full."""

    def serves(proposal: ActivationPlan) -> bool:
        return (bool(proposal.header.notes) or proposal.tokens < now) and is_news(proposal)

    return decide_as_wished(now, waters, found, build, serves)


def _nearest(tail: Tail, room: Room, stops: Sequence[int], keep: int) -> int | None:
    """The stop that leaves about the low water, of those that leave at least half of it."""
    low = room.low
    fair = [stop for stop in stops if tail.after(stop) >= low / 2]
    kept = [stop for stop in fair if _messages_after(tail, stop) >= keep] if keep else fair
    return min(kept or fair, key=lambda stop: abs(tail.after(stop) - low), default=None)


def _messages_after(tail: Tail, stop: int) -> int:
    return tail.marks[-1].items - tail.mark(stop).items
