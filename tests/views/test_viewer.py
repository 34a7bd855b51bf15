"""Views for each provider: when they change, and what stays."""

from __future__ import annotations

import pytest

from summarizing_context.errors import BudgetError
from summarizing_context.log.message_log import MessageLog
from summarizing_context.settings.values import SummarySizes
from summarizing_context.summarizers.extractive.summarizer import Extracts
from summarizing_context.views.activation import Reason
from summarizing_context.views.builder import MAX_KEYS, Viewer
from summarizing_context.views.view import Replaced, View, ViewPolicy
from summarizing_context.worker.summary_cache import SummaryCache
from tests.making import PRICE, SMALL, answer, entry, fixed_shares, one_call, session, system, user

BUDGET = 2_000


def passes() -> Extracts:
    """Extractive passes that tell how much they read."""
    return Extracts(
        thorough=lambda content, *, kind, max_tokens, yield_now=None: f"{kind} of {len(content)}",
        skim=lambda content, max_tokens: f"skimmed {len(content)}",
        brief=lambda text, max_tokens: text[:5],
        cut=lambda text, max_tokens: text[:7],
        key_lines=lambda text, max_tokens: [f"{len(text)} characters"],
        about=lambda content, topic, max_tokens: "",
        excerpt=lambda content, topic, max_tokens: "",
    )


class Host:
    """A host with a viewer: adds messages, asks for views, applies what changes."""

    def __init__(self, **policy: object) -> None:
        self.timeline = MessageLog(SMALL, PRICE.image_tokens)
        sizes = SummarySizes(20, 40, 4, 320.0)
        self.book = SummaryCache(self.timeline, passes(), maker="extractive", sizes=sizes)
        self.policy = ViewPolicy(fixed_shares(), 20, 200)._replace(**policy)
        self.viewer = self.fresh()
        self.reasons: list[Reason] = []

    def fresh(self, counter: str = "estimate") -> Viewer:
        return Viewer(self.timeline, self.book, self.policy, PRICE, counter)

    def add(self, *messages: dict) -> None:
        for message in messages:
            self.timeline.extend(entry(message))

    def view(self, key: str = "", budget: int = BUDGET, asked: Reason | None = None) -> View:
        change = self.viewer.change(key, budget, asked)
        if change is not None:
            assert self.viewer.apply(change)
            self.reasons.append(change.report.reason)
        return self.viewer.view(key, budget, change.report if change else None)

    def run(self, messages: list[dict], key: str = "") -> View:
        """Add messages one by one, with a view after each."""
        for message in messages:
            self.add(message)
            view = self.view(key)
        return view


def cost(view: View) -> int:
    return sum(map(PRICE.message, view.messages))


def test_a_short_log_is_shown_as_it_is():
    host, log = Host(), [system("rules"), user("hi")]
    host.add(*log)
    assert (host.view().messages, host.view().activation) == (log, None)


def test_views_stay_within_budget_cost_what_they_say_and_begin_with_the_one_before():
    host, before = Host(), []
    for message in session(messages=200):
        host.add(message)
        view = host.view()
        assert view.tokens == cost(view) <= BUDGET
        if view.activation is None:
            assert view.messages[: len(before)] == before
            assert view.stable_prefix_messages == len(before)
        before = view.messages
    assert host.reasons.count("high_water") > 5


def test_a_view_is_the_callers_own():
    host = Host()
    host.run(session(messages=60))
    host.view().messages[1]["content"] = "changed"
    assert host.view().messages[1]["content"] != "changed"


def test_a_change_is_nothing_until_it_is_applied():
    host = Host()
    host.add(*session(messages=100))
    first, second = host.viewer.change("", BUDGET), host.viewer.change("", BUDGET)
    assert first is not None
    assert second is not None
    assert first.state == second.state
    assert host.viewer.latest is None


def test_a_change_decided_before_the_log_was_replaced_is_not_applied():
    host = Host()
    host.run(session(messages=100))
    host.add(*session(seed=2, messages=60))
    change = host.viewer.change("", BUDGET)
    covered_histories, old = host.viewer.covered_histories(), Replaced(list(host.timeline.entries), 0)
    host.timeline.replace([entry(user("new"))])
    host.book.reset()
    host.viewer.replaced(old, covered_histories)
    assert not host.viewer.apply(change)
    assert host.view().messages == [user("new")]
    assert host.reasons[-1] == "log_replaced"


def test_a_lower_budget_is_its_own_reason():
    host = Host()
    host.run(session(messages=60))
    assert host.view(budget=700).tokens <= 700
    assert host.reasons[-1] == "budget_lowered"


def test_a_budget_that_follows_usage_is_no_reason_where_the_view_is_full_anyway():
    host = Host()
    host.run(session(messages=60))
    for step, message in enumerate(session(seed=3, messages=120)):
        host.add(message)
        host.view(budget=BUDGET - step % 3)
    assert len(host.reasons) > 4
    assert set(host.reasons) == {"high_water"}


def test_alternating_providers_keep_a_view_each():
    host = Host()
    host.run(session(messages=100), "one")
    host.view("two")
    one, two = host.view("one"), host.view("two")
    assert (one.activation, two.activation) == (None, None)
    assert one.stable_prefix_messages == len(one.messages)
    assert two.stable_prefix_messages == len(two.messages)
    assert "provider_changed" in host.reasons


def test_only_the_newest_providers_are_kept():
    host = Host()
    host.add(user("hi"))
    for n in range(MAX_KEYS + 1):
        host.view(str(n))
    assert host.view(str(MAX_KEYS)).stable_prefix_messages == 1
    assert host.view("0").stable_prefix_messages == 0


def test_leading_rows_that_leave_no_room_are_named():
    host = Host()
    host.add(system("word " * 3_000), user("hi"))
    with pytest.raises(BudgetError) as refused:
        host.view()
    assert refused.value.rows == ((0, PRICE.message(system("word " * 3_000))),)
    assert refused.value.required_tokens == refused.value.rows[0][1] + 40


def test_system_rows_that_come_after_an_empty_view_still_lead():
    host = Host()
    host.view()
    host.add(system("rules"), user("hi"))
    view = host.view()
    assert view.messages == [system("rules"), user("hi")]
    assert view.tokens == cost(view)


def test_a_restored_state_gives_the_same_view():
    host = Host()
    view = host.run(session(messages=150))
    again = host.fresh()
    again.restore("", host.viewer.latest.state)
    assert again.change("", BUDGET) is None
    assert again.view("", BUDGET, None).messages == view.messages


def test_a_restored_state_is_priced_by_the_present_counter():
    host = Host()
    host.run(session(messages=150))
    state = host.viewer.latest.state
    again = host.fresh("other")
    again.restore("", state.__class__(**{**_fields(state), "head_tokens": 1}))
    assert again.change("", BUDGET) is None
    assert again.view("", BUDGET, None).tokens == host.view().tokens


def _fields(state: object) -> dict[str, object]:
    return {name: getattr(state, name) for name in state.__struct_fields__}  # type: ignore[attr-defined]


def test_truncating_tells_only_how_much_is_left_out():
    host = Host(truncate=True)
    view = host.run(session(messages=150))
    (header,) = [row for row in view.messages if isinstance(row["content"], list) and row["role"] == "user"]
    assert header["content"][0]["text"].endswith("earlier messages left out]")


def test_a_flat_header_shows_segments_only():
    host = Host(flat=True)
    host.run(session(messages=300))
    assert {node.rank for node in host.viewer.latest.state.nodes} <= {0, -1}


def test_a_large_newest_group_takes_from_the_header_only_what_it_needs():
    host = Host(flat=True)
    host.run(session(messages=200))
    before = sum(node.tokens for node in host.viewer.latest.state.nodes)
    calls = [f"c{number}" for number in range(8)]
    view = host.run([one_call(*calls), *(answer(name, "big " * 900) for name in calls)])
    state = host.viewer.latest.state
    assert (host.reasons[-1], state.squeeze) == ("high_water", 1)
    assert view.tokens <= BUDGET - fixed_shares().min_free * state.room
    assert before > sum(node.tokens for node in state.nodes) > 0.8 * before


def test_too_many_messages_ask_for_an_activation_and_some_are_kept():
    host = Host(max_messages=20)
    for message in session(messages=300, size=30):
        host.add(message)
        host.view(budget=100_000)
        assert len(host.viewer.latest.tail.items) <= 24  # a group is never split for it
    assert 10 < host.reasons.count("high_water") < 40


def test_recent_messages_are_kept_where_they_fit():
    plain, keeping = Host(), Host(keep_recent=25)
    for host in (plain, keeping):
        shown = []
        for message in session(messages=300, size=15, wild=0):
            host.add(message)
            if host.view().activation is not None:
                shown.append(len(host.viewer.latest.tail.items))
        host.least = min(shown)
    assert plain.least < 25 <= keeping.least


def test_merged_user_rows_are_never_joined_to_what_was_sent():
    host, before = Host(merge_user_rows=True), []
    for text in "abcdef":
        host.add(user(text), user(text.upper()))
        view = host.view()
        assert view.messages[: len(before)] == before
        assert view.stable_prefix_messages == len(before)
        assert view.tokens == cost(view)
        before = view.messages
    assert len(before) == 6


def test_merged_views_of_a_long_session_stay_lawful():
    host, before = Host(merge_user_rows=True), []
    for message in session(messages=200):
        host.add(message, user("by the way"))
        view = host.view()
        assert view.tokens == cost(view) <= BUDGET
        assert view.messages[: view.stable_prefix_messages] == before[: view.stable_prefix_messages]
        if view.activation is None:
            assert view.messages[: len(before)] == before
        before = view.messages


def test_a_long_backlog_is_covered_at_once_and_nothing_of_it_unread():
    host = Host()
    host.add(*session(messages=1_500))
    view = host.view()
    assert view.tokens == cost(view) <= BUDGET
    assert view.activation.tokens_before > 10 * BUDGET
    assert host.book.unseen_tokens(host.viewer.latest.state.leaves) == 0


def test_repairs_are_counted_once_each_as_they_are_shown():
    host = Host()
    host.add(user("task"), user("word " * 2_000), one_call("a"), user("stop"))
    host.view()
    host.view()
    assert dict(host.viewer.repairs.kinds) == {"shrunk": 1, "stand_in_result": 1}
    assert host.viewer.repairs.left_out > 0


def test_tokens_tell_the_whole_view_and_its_high_water():
    host = Host()
    host.add(system("rules"), user("hi"))
    view = host.view()
    tokens, high = host.viewer.tokens("", BUDGET)
    system_tokens = PRICE.message(system("rules"))
    assert tokens == view.tokens
    assert high == system_tokens + 0.85 * (BUDGET - system_tokens)


def test_a_cold_cache_that_is_not_worth_using_does_not_put_off_what_is_due():
    host = Host()
    for message in session(messages=300):
        host.add(message)
        now, high = host.viewer.tokens("", BUDGET)
        view = host.view(asked="idle")
        assert view.activation is not None or now <= high
    assert "idle" in host.reasons
