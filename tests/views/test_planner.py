"""What the planner decides in each case: a situation in, a decision out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from summarizing_context.log.tree import Cut, HeaderNode
from summarizing_context.messages.provider_bindings import Bounds
from summarizing_context.views.activation import ActivationPlan, ActivationRequest
from summarizing_context.views.budget import BARE
from summarizing_context.views.folds import Calls
from summarizing_context.views.header import Header
from summarizing_context.views.memory_section import memory_block
from summarizing_context.views.overflow import Newest
from summarizing_context.views.pins import NO_PINS, Pins
from summarizing_context.views.planner import CASES, Candidates, Reshape, Situation, plan_activation
from summarizing_context.views.tail import Tail
from summarizing_context.views.tail_items import TailItem
from summarizing_context.views.view import ActivationState, ViewPolicy
from tests.making import PRICE, fixed_shares, user
from tests.views.test_cuts import ROOM, at

STAND_IN = HeaderNode(0, 0, 0, 4, "full", "stand-in", 1, "text", 300)
BY_MODEL = STAND_IN._replace(made_by="model")
NOTE = HeaderNode(-1, 0, 0, 4, "note", "extractive", 1, "about it", 20)
COVERED = ActivationState(stop=4, leaves=1, leaves_stop=4, head_tokens=100, nodes=(STAND_IN,), room=1_000)


@dataclass
class Fake:
    """Drafts of given sizes, by the place where they cut."""

    sizes: dict[int, int]
    nodes: tuple[HeaderNode, ...] = (STAND_IN,)
    low_water: tuple[int, ...] = ()
    to_keep: tuple[int, ...] = ()
    fewest: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    present: tuple[int, ...] = ()
    raw: dict[int, int] = field(default_factory=dict)
    chosen: Pins = NO_PINS
    block: TailItem | None = None
    turn_ended: bool = False
    tried: list[int] = field(default_factory=list)

    def candidates(self) -> Candidates:
        raw = [self.raw.get(stop, 160) for stop in self.low_water]
        return Candidates(at(*self.low_water), raw, at(*self.to_keep), at(*self.fewest), at(*self.last))

    def covered(self) -> list[Cut]:
        return at(*self.present)

    def newest(self) -> Newest:
        return Newest(at(9)[0], Calls((), 0), is_open=False)

    def plan(self, cut: Cut, room: Any, folded: tuple[int, ...] = ()) -> ActivationPlan:
        self.tried.append(cut.stop)
        tail = Tail(cut.stop, room, PRICE, folded)
        return ActivationPlan(cut, room, Header(None, self.sizes[cut.stop], self.nodes), Pins((), (), 0), tail)

    def pins(self) -> Pins:
        return self.chosen

    def memories(self) -> TailItem | None:
        return self.block

    def has_turn_ended(self) -> bool:
        return self.turn_ended

    def log_tokens(self, start: int, stop: int) -> int:
        return 100 * (stop - start)


def situation(tokens: int, **other: Any) -> Situation:
    """A view of so many tokens in a room of 1,000: high water 850, low water 160, `min_free` 120."""
    policy = ViewPolicy(fixed_shares(), 20, 200)._replace(**other.pop("policy", {}))
    state = other.pop("state", COVERED)
    made = Situation(state, policy, ROOM, ROOM, 4, tokens - state.head_tokens, 20, log_length=30)
    return made._replace(**other)


def stop_of(decision: Any) -> int | None:
    return decision.change.cut.stop if isinstance(decision.change, ActivationPlan) else None


def test_a_view_below_the_high_water_goes_on_and_nothing_is_drafted():
    fake = Fake({})
    decision = plan_activation(situation(850), fake)
    assert (decision.change, decision.is_attempt, fake.tried) == (None, False, [])


def test_above_the_high_water_the_first_cut_that_brings_the_view_well_below_is_taken():
    fake = Fake({6: 900, 7: 500, 8: 100}, low_water=(6, 7, 8))
    decision = plan_activation(situation(900), fake)
    assert (stop_of(decision), decision.is_attempt, fake.tried) == (7, True, [6, 7])


@pytest.mark.parametrize(("size", "stop"), [(781, None), (780, 6)])
def test_an_activation_that_frees_less_than_min_free_does_not_happen_and_counts_as_an_attempt(size, stop):
    decision = plan_activation(situation(900), Fake({6: size}, low_water=(6,)))
    assert (stop_of(decision), decision.is_attempt) == (stop, True)


def test_of_cuts_that_free_too_little_for_long_the_smallest_is_taken():
    fake = Fake({6: 770, 7: 760, 8: 765}, low_water=(6, 7, 8))
    assert stop_of(plan_activation(situation(900), fake)) == 7


@pytest.mark.parametrize(("fresh", "stop"), [(119, None), (120, 6)])
def test_the_next_attempt_waits_for_min_free_new_tokens(fresh: int, stop: int | None):
    fake = Fake({6: 300}, low_water=(6,))
    assert stop_of(plan_activation(situation(900, new_tokens=fresh), fake)) == stop


@pytest.mark.parametrize(
    "why",
    [
        {"tail_tokens": 901},
        {"skipped": 1},
        {"hides_newest": True},
        {"shown_room": ROOM._replace(tokens=9, squeeze=BARE)},
    ],
)
def test_what_cannot_be_sent_as_it_is_goes_by_the_ladder_at_once(why: dict[str, Any]):
    now = situation(600, new_tokens=0)._replace(**why)
    decision = plan_activation(now, Fake({6: 300, 7: 200, 4: 900}, low_water=(6,), last=(7,)))
    assert (now.overflows, stop_of(decision), decision.is_attempt) == (True, 6, True)


def test_a_view_that_overflows_may_be_squeezed_where_it_is_cut_already():
    decision = plan_activation(situation(1_001), Fake({4: 700}))
    assert stop_of(decision) == 4


def test_nothing_is_reshaped_where_nothing_fits():
    fake = Fake({4: 2_000, 9: 2_000})
    assert plan_activation(situation(1_001, pending="restored"), fake).change is None


def test_a_topic_gets_a_note_where_something_is_covered():
    now = situation(300, reason="explicit", focus="tea")
    assert stop_of(plan_activation(now, Fake({4: 320}, (NOTE,), present=(4,)))) == 4
    assert stop_of(plan_activation(now, Fake({4: 320}, (STAND_IN,), present=(4,)))) is None


def test_a_topic_without_anything_covered_covers_all_but_some_messages():
    now = situation(300, reason="explicit", focus="tea")
    fake = Fake({6: 310}, (NOTE,), to_keep=(6,))
    assert (now.messages_to_keep, stop_of(plan_activation(now, fake))) == (10, 6)


def test_a_number_of_messages_to_keep_is_met_or_nothing_is_covered():
    now = situation(500, reason="explicit", request=ActivationRequest(keep_messages=3))
    fake = Fake({6: 499, 7: 100}, low_water=(7,), to_keep=(6,))
    assert (stop_of(plan_activation(now, fake)), fake.tried) == (6, [6])


def test_a_refused_request_is_summarized_where_that_could_make_it_small_enough():
    now = situation(500, reason="explicit", request=ActivationRequest(keep_messages=3))
    decision = plan_activation(now, Fake({6: 600}, to_keep=(6,)))
    assert (decision.change, decision.to_summarize.cut.stop) == (None, 6)  # 300 tokens become 160
    assert plan_activation(now, Fake({6: 640}, to_keep=(6,))).to_summarize is None
    assert plan_activation(now, Fake({6: 600}, (BY_MODEL,), to_keep=(6,))).to_summarize is None


def test_a_threshold_of_importance_alone_covers_no_more_than_is_smaller():
    now = situation(500, reason="explicit", request=ActivationRequest(keep_from=0.5))
    fake = Fake({6: 501, 7: 400, 4: 501}, (NOTE,), low_water=(6,), present=(4,))
    assert stop_of(plan_activation(now, fake)) is None
    fake.to_keep = (7,)
    assert stop_of(plan_activation(now, fake)) == 7


def test_too_many_messages_may_free_no_tokens():
    now = situation(600, policy={"max_messages": 12})
    fake = Fake({6: 601, 7: 599}, fewest=(6,))
    assert (now.has_too_many, now.fewest_messages, stop_of(plan_activation(now, fake))) == (True, 2, 6)
    fewer = now._replace(tail_messages=11)
    assert plan_activation(fewer, fake).is_attempt is False


def test_what_a_model_has_summarized_ahead_is_covered_at_once():
    now = situation(600, policy={"max_messages": 12}, new_tokens=0, new_messages=1)
    fake = Fake({6: 601, 7: 599}, fewest=(6,))
    assert plan_activation(now, fake).change is None
    assert stop_of(plan_activation(now._replace(ahead=tuple(at(7))), fake)) == 7


def test_when_asked_anything_that_frees_a_token_will_do():
    now = situation(500, reason="explicit", new_tokens=0)
    fake = Fake({6: 500, 7: 499}, low_water=(6, 7))
    assert stop_of(plan_activation(now, fake)) == 7
    assert plan_activation(situation(499, reason="explicit"), fake).change is None


def test_when_asked_again_with_nothing_new_no_further_group_is_covered():
    fake = Fake({6: 300}, low_water=(6,))
    now = situation(500, reason="explicit")
    known = now._replace(state=type(COVERED)(**{**_fields(COVERED), "bounds": Bounds(rewritten=30)}))
    assert (stop_of(plan_activation(now, fake)), stop_of(plan_activation(known, fake))) == (6, None)


def test_when_asked_no_cut_is_made_that_leaves_the_tail_farther_from_the_low_water():
    fake = Fake({6: 100}, low_water=(6,), raw={6: 60})
    assert stop_of(plan_activation(situation(361, reason="explicit"), fake)) == 6
    assert stop_of(plan_activation(situation(360, reason="explicit"), fake)) is None


def test_when_asked_with_nothing_to_free_summaries_that_are_ready_are_shown():
    now = situation(300, reason="explicit")
    assert stop_of(plan_activation(now, Fake({4: 350}, (BY_MODEL,), present=(4,)))) == 4
    assert stop_of(plan_activation(now, Fake({4: 350}, (STAND_IN,), present=(4,)))) is None


@pytest.mark.parametrize(("tail", "stop"), [(359, None), (360, 6)])
def test_a_cold_cache_is_used_where_a_segment_more_than_the_low_water_is_raw(tail: int, stop: int | None):
    decision = plan_activation(situation(100 + tail, reason="idle"), Fake({6: 200}, low_water=(6,)))
    assert (stop_of(decision), decision.is_attempt) == (stop, False)


def test_a_cold_cache_shows_at_least_the_summaries_that_are_ready():
    fake = Fake({4: 300}, (BY_MODEL,), present=(4,))
    assert stop_of(plan_activation(situation(300, reason="idle"), fake)) == 4
    assert plan_activation(situation(300, reason="provider_changed"), fake).change is None


def test_a_pending_reason_is_told_though_nothing_changes():
    assert plan_activation(situation(300, pending="restored"), Fake({})).change == Reshape("restored")
    ended = plan_activation(situation(300, pending="explicit"), Fake({}, turn_ended=True))
    assert ended.change == Reshape("explicit", None, True)
    another = plan_activation(situation(300, pending="system_changed", system_changed=True), Fake({}))
    assert another.change == Reshape("system_changed", None, True)


def test_changed_pins_are_shown_where_they_fit_and_are_others():
    pin = TailItem(2, user("pinned"), 40, 0, ())
    pins = Pins((), (pin,), 40)
    decision = plan_activation(situation(300, pins_changed=True), Fake({}, chosen=pins))
    assert (decision.change, decision.pins_seen) == (Reshape("explicit", pins, True), True)
    large = plan_activation(situation(300, pins_changed=True), Fake({}, chosen=pins._replace(tokens=701)))
    assert (large.change, large.pins_seen) == (None, True)
    same = plan_activation(situation(300, pins_changed=True), Fake({}))
    assert (same.change, same.pins_seen) == (None, True)


def test_pins_wait_for_the_first_message():
    decision = plan_activation(situation(300, pins_changed=True, leading_count=30), Fake({}))
    assert (decision.change, decision.pins_seen) == (None, False)


@pytest.mark.parametrize(("tokens", "is_shown"), [(50, True), (51, False)])
def test_the_first_view_takes_up_memories_where_they_leave_it_below_the_high_water(tokens: int, is_shown: bool):
    fake = Fake({}, block=TailItem(-1, user("remembered"), tokens, 0, ()))
    change = plan_activation(situation(800, is_first=True), fake).change
    assert change == (Reshape("restored", memories=fake.block) if is_shown else None)
    assert plan_activation(situation(100), fake).change is None


def test_memories_go_beside_what_changes_anyway_and_are_taken_up_once():
    block = memory_block(["The port is 8080."], 1_000, PRICE)
    pins = Pins((), (TailItem(2, user("pinned"), 40, 0, ()),), 40)
    now, fake = situation(300, is_first=True, pins_changed=True), Fake({}, block=block, chosen=pins)
    assert plan_activation(now, fake).change == Reshape("restored", pins, True, block)
    fake.chosen = Pins((), (block,), block.tokens)
    assert plan_activation(now, fake).change == Reshape("explicit", fake.chosen, True)


def test_every_case_has_a_name_of_its_own():
    assert len({case.name for case in CASES}) == len(CASES) == 7


def _fields(state: ActivationState) -> dict[str, Any]:
    return {name: getattr(state, name) for name in state.__struct_fields__}
