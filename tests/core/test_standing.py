"""Which standing rules hold, and which a later one has replaced."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from summarizing_context.core.constraints import standing_rules
from summarizing_context.core.standing import NO_RULES, RuleBook, StandingRule


def said(*rows: str) -> RuleBook:
    book = RuleBook()
    for index, row in enumerate(rows):
        book.add(index, standing_rules([row]))
    return book


def texts(rules: Sequence[StandingRule]) -> list[str]:
    return [rule.text for rule in rules]


def test_rules_before_a_cut_are_told_the_newest_first():
    book = said("Never push to main.", "hello", "Please prefer short names.", "Always answer in French.")
    assert [(rule.message, rule.text) for rule in book.before(3).strict] == [(0, "Never push to main.")]
    found = book.before(9)
    assert texts(found.strict) == ["Always answer in French.", "Never push to main."]
    assert (texts(found.soft), found.held, found.first) == (["Please prefer short names."], 3, 0)
    assert RuleBook().before(9) == NO_RULES._replace(strict=[], soft=[], replaced=[])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Always use tabs.", "From now on use spaces, never tabs."),
        ("Never use tabs.", "Always use tabs."),
        ("Always answer in French.", "Always answer in German."),
        ("Always answer in English.", "From now on answer in German."),
        ("Always deploy to staging.", "Actually always deploy to production."),
        ("Never push to main.", "You may push to main now."),
        ("Always use port 8080 for the API.", "Actually use port 9090 for the API from now on."),
        ("Answers must have at most 100 words.", "Answers must have at most 50 words."),
    ],
)
def test_the_latest_of_two_that_conflict_holds(old: str, new: str):
    found = said(old, "hello", new).before(9)
    assert [*texts(found.strict), *texts(found.soft)] == [new]
    assert [(rule.text, rule.replaced_by) for rule in found.replaced] == [(old, 2)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Never push to main.", "Never push to release."),
        ("Never edit config.py.", "Never edit setup.py."),
        ("Always run the tests.", "Always run the linter."),
        ("Never open port 80.", "Never open port 81."),
        ("Always run the tests.", "Never run the tests on production databases."),
        ("Always add docs to README.", "Always add docs to CHANGELOG."),
        ("Always run ruff.", "From now on run mypy."),
    ],
)
def test_rules_about_different_things_both_hold(one: str, other: str):
    found = said(one, other).before(9)
    assert (texts(found.strict), found.replaced) == ([other, one], [])


def test_a_rule_that_is_said_again_is_told_once_where_it_was_said_last():
    found = said("Never push to main.", "ok", "Never push to main!").before(9)
    assert ([rule.message for rule in found.strict], found.held, found.replaced) == ([2], 1, [])


def test_softer_words_do_not_take_the_place_of_a_strict_rule_that_says_the_same():
    found = said("Always keep names short.", "Please keep names short, prefer it.").before(9)
    assert "Always keep names short." in texts(found.strict)


def test_what_replaces_a_strict_rule_is_as_strict():
    found = said("Always use requests for calls.", "Use httpx instead of requests for calls.").before(9)
    assert texts(found.strict) == ["Use httpx instead of requests for calls."]


def test_what_is_forgotten_was_never_said():
    book = said("Never use tabs.", "hello", "Always use tabs.", "Never push.")
    book.forget(2)
    assert book.before(9) == said("Never use tabs.").before(9)
    book.add(2, standing_rules(["Always use tabs."]))
    assert texts(book.before(9).strict) == ["Always use tabs."]


def test_a_later_rule_counts_wherever_it_stands():
    assert said("Never use tabs.", "hello", "Always use tabs.").before(1).strict == []
