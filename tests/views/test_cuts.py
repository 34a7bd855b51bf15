"""Where a view may be cut."""

from __future__ import annotations

from summarizing_context.log.segments import Segment
from summarizing_context.log.tree import Cut, cut_at
from summarizing_context.views.activation import ActivationPlan
from summarizing_context.views.budget import Room
from summarizing_context.views.composition import cuts_leaving, cuts_to_low_water, last_cuts
from summarizing_context.views.header import Header
from summarizing_context.views.pins import Pins
from summarizing_context.views.tail import Tail
from tests.making import PRICE, room, tail_of, timeline, user

PRESENT = Cut(0, 0, 0)
ROOM = room(1_000)  # high 850, low 160, min_free 120


def even_log(groups: int, tokens: int = 40) -> Tail:
    """A tail of one-message groups of so many tokens each."""
    message = user("x" * 10_000)
    while PRICE.message(message) > tokens:
        message = user(message["content"][: -max(1, PRICE.message(message) - tokens)])
    return tail_of(timeline([message] * groups), room(100_000))


def proposal(tokens: int, cut: Cut = PRESENT, room: Room = ROOM, folded: tuple[int, ...] = ()) -> ActivationPlan:
    empty = Tail(cut.stop, room, PRICE, folded)
    return ActivationPlan(cut, room, Header(None, tokens, ()), Pins((), (), 0, 0), empty)


def builder(costs: dict[int, int]):
    """A build that costs `costs[stop]`, halved with each squeeze, less 20 a folded call; remembers what is asked."""
    asked: list[tuple[int, int]] = []

    def build(cut: Cut, room: Room, folded: tuple[int, ...] = ()) -> ActivationPlan:
        asked.append((cut.stop, room.squeeze))
        return proposal((costs[cut.stop] >> room.squeeze) - 20 * len(folded), cut, room, folded)

    return build, asked


def at(*stops: int) -> list[Cut]:
    return [Cut(0, 0, stop) for stop in stops]


def test_the_cut_stands_at_the_segment_boundary_nearest_to_the_low_water():
    tail = even_log(20)
    segments = [Segment(0, 10, 400), Segment(10, 15, 200), Segment(15, 18, 120)]
    found = cuts_to_low_water(tail, ROOM, PRESENT, segments)
    assert found[0] == Cut(2, 15, 15)  # leaves 200, nearest to 160 of those not below 40
    assert found[1] == Cut(2, 15, 16)


def test_without_a_segment_the_cut_stands_at_a_group():
    assert cuts_to_low_water(even_log(20), ROOM, PRESENT, []) == [Cut(0, 0, 16)]


def test_no_cut_leaves_less_than_a_quarter_of_the_low_water():
    (cut,) = cuts_to_low_water(even_log(3, 300), ROOM, PRESENT, [])
    assert cut.stop == 2
    assert cuts_to_low_water(even_log(3, 12), ROOM, PRESENT, []) == []


def test_the_messages_to_keep_are_kept_where_they_can_be():
    assert cuts_to_low_water(even_log(20), ROOM, PRESENT, [], keep=9)[0].stop == 11
    assert cuts_to_low_water(even_log(20), ROOM, PRESENT, [], keep=50)[0].stop == 16


def test_a_cut_never_goes_back():
    assert all(cut.stop > 17 for cut in cuts_to_low_water(even_log(20), ROOM, Cut(0, 0, 17), []))


def test_a_group_in_several_leaves_is_covered_whole():
    segments = [Segment(0, 5, 300), Segment(5, 6, 900, 0, 2), Segment(5, 6, 900, 1, 2)]
    assert cut_at(segments, 6) == Cut(3, 6, 6)
    assert cut_at(segments, 5) == cut_at(segments[:2], 6)._replace(stop=5) == Cut(1, 5, 5)
    assert cut_at([], 4) == Cut(0, 0, 4)


def test_a_cut_to_a_count_leaves_no_fewer():
    assert cuts_leaving(even_log(20), PRESENT, [], 7) == [Cut(0, 0, 13)]
    assert cuts_leaving(even_log(5), PRESENT, [], 7) == []


def test_the_last_cuts_are_before_and_behind_the_newest_group():
    assert [cut.stop for cut in last_cuts(even_log(5), PRESENT, [])] == [4, 5]
    assert [cut.stop for cut in last_cuts(even_log(5), Cut(0, 0, 4), [])] == [5]
