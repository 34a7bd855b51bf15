"""The rules of a session: read once for each message, repeats told apart, kept beside the log."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from summarizing_context.extraction.rules import CueRules, Rule
from summarizing_context.log.entries import PASSED, RuleReader, Verdict
from summarizing_context.log.rules import RuleLog, StandingRule, StandingRules
from summarizing_context.stores.base import StoredRules
from tests.making import assistant, entry, result, user

PUSH, LINT, SHORT = Rule("Never push.", "must"), Rule("Always lint.", "must"), Rule("Prefer short names.", "prefer")


class Counting(CueRules):
    """Tells what was read."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def rules(self, human_texts: Sequence[str]) -> tuple[Rule, ...]:
        self.asked += human_texts
        return super().rules(human_texts)


def log(*rows: Sequence[Rule]) -> RuleLog:
    made = RuleLog()
    for index, rules in enumerate(rows):
        made.add(index, rules)
    return made


def before(rules: RuleLog, cut: int) -> StandingRules:
    return rules.before(cut)


def test_the_newest_rule_comes_first_and_says_where_it_stands():
    found = before(log([PUSH], [], [LINT, SHORT]), 3)
    assert found.newest == [
        StandingRule(2, "Prefer short names.", "prefer"),
        StandingRule(2, "Always lint.", "must"),
        StandingRule(0, "Never push.", "must"),
    ]
    assert (found.held, found.first) == (3, 0)


def test_an_identical_later_rule_takes_the_place_of_the_older_one_wherever_it_stands():
    again = Rule("never  PUSH.", "must")
    rules = log([PUSH], [LINT], [again])
    assert [rule.message for rule in before(rules, 3).newest] == [2, 1]
    assert [rule.message for rule in before(rules, 2).newest] == [1]
    assert before(rules, 0).newest == []


def test_another_rule_on_the_same_thing_ends_nothing():
    rules = log([Rule("Always wait 1 second.", "must")], [Rule("Always wait 2 seconds.", "must")])
    assert before(rules, 2).held == 2


def test_a_later_rule_that_chooses_otherwise_ends_the_older_one():
    french, push, german = (Rule(f"Always answer in {name}.", "must") for name in ("French", "capitals", "German"))
    found = log([french], [push], [german]).all()
    assert [rule.ended_by for rule in found] == [2, None, None]


def test_of_very_many_rules_the_newest_are_handed_out_and_all_are_counted():
    rules = log(*([Rule(f"Never do {at}.", "must")] for at in range(5_000)))
    found = before(rules, 4_000)
    assert (len(found.newest), found.held, found.newest[0].message) == (400, 4_000, 3_999)
    assert found.without({3_999, 3_998}).held == 3_998


def said(*quotes: str, ends: Sequence[str] = ()) -> Verdict:
    return Verdict(tuple(Rule(quote, "must") for quote in quotes), tuple(ends))


def test_going_back_is_as_if_the_rest_had_never_been_said():
    rng = random.Random(2)
    rows = [rng.sample((PUSH, LINT, SHORT), rng.randrange(3)) for _ in range(40)]
    verdicts = [rng.choice((None, PASSED, said("Be brief."), said(ends=["Be brief.", "Never push."]))) for _ in rows]

    def made(stop: int) -> RuleLog:
        rules = RuleLog()
        for index, (row, verdict) in enumerate(zip(rows[:stop], verdicts, strict=False)):
            rules.add(index, row, verdict)
        return rules

    for stop in (0, 1, 20, 40):
        rules = made(40)
        rules.forget(stop)
        assert (rules.all(), rules.open) == (made(stop).all(), made(stop).open)


def test_a_verdict_takes_the_place_of_cues_wherever_its_message_stands():
    rules = log([PUSH], [LINT, SHORT], [PUSH])
    rules.judge(1, said("Be brief."))
    assert rules.all()[1] == StandingRule(1, "Be brief.", "must", None, "model")
    assert [rule.message for rule in rules.before(2).newest] == [1]
    rules.judge(0, said())
    assert [rule.message for rule in rules.all()] == [1, 2]
    rules.judge(2, PASSED)
    assert (len(rules.all()), [*rules.open]) == (2, [])
    assert [fact.value for fact in rules.facts()] == ["Be brief.", "Never push."]


def test_a_rule_is_ended_by_the_next_message_that_takes_it_back_whenever_that_is_known():
    rules = log([], [], [], [])
    rules.judge(2, said(ends=["Use tabs."]))
    rules.judge(1, said(ends=["Use tabs."]))
    rules.judge(0, said("Use tabs."))
    rules.judge(3, said("Use tabs."))
    assert [(rule.message, rule.ended_by) for rule in rules.all()] == [(0, 1), (3, None)]


def test_a_message_is_read_once_and_only_where_a_human_wrote_in_it():
    extractor = Counting()
    reader = RuleReader(extractor)
    said = entry(user("Never push."))
    assert reader.of(said) == reader.of(entry(user("Never push."))) == (PUSH,)
    assert extractor.asked == ["Never push."]
    hook = {**user("Always push."), "metadata": {"source": "hook"}}
    for message in (assistant("Always push."), result("openai", "c", "Always push."), hook):
        assert (reader.of(entry(message)), reader.stored(entry(message))) == ((), ())
    assert extractor.asked == ["Never push."]


def test_words_that_a_host_put_in_never_share_the_rules_of_the_same_words_typed():
    blocks = [{"type": "text", "text": "Always push."}, {"type": "text", "text": "Go on."}]
    marked = [{**blocks[0], "isMeta": True}, blocks[1]]
    reader = RuleReader(CueRules())
    assert [rule.quote for rule in reader.of(entry(user(blocks)))] == ["Always push."]
    assert reader.of(entry(user(marked))) == ()


def test_what_a_store_has_kept_of_the_present_version_is_not_read_again():
    extractor, said = Counting(), [entry(user("Never push.")), entry(user("hello"))]
    rows = [row for one in said for row in RuleReader(CueRules()).stored(one)]
    reader = RuleReader(extractor)
    reader.learn(rows)
    assert [reader.of(one) for one in said] == [(PUSH,), ()]
    assert extractor.asked == []


@pytest.mark.parametrize("change", [{"version": "cues-0"}, {"rules": b"junk"}, {"rules": b'[{"quote":1}]'}])
def test_rows_of_another_version_or_unreadable_ones_are_read_again(change: dict[str, object]):
    extractor, said = Counting(), entry(user("Never push."))
    (row,) = RuleReader(CueRules()).stored(said)
    assert isinstance(row, StoredRules)
    reader = RuleReader(extractor)
    reader.learn([row._replace(**change)])
    again = entry(user("Never push."))
    assert not reader.recognize(again)
    assert reader.of(again) == (PUSH,)
    assert extractor.asked == ["Never push."]


def test_of_messages_without_rules_nothing_is_kept_once_the_log_is_loaded():
    extractor, said = Counting(), [entry(user("Never push.")), entry(user("hello"))]
    rows = [row for one in said for row in RuleReader(CueRules()).stored(one)]
    reader = RuleReader(extractor)
    reader.learn(rows)
    assert all(reader.recognize(entry(user(text))) for text in ("Never push.", "hello"))
    reader.settle()
    assert reader.recognize(entry(user("Never push.")))
    assert not reader.recognize(entry(user("hello")))
    assert extractor.asked == []
