"""Which standing rules are about the same."""

from __future__ import annotations

import pytest

from summarizing_context.extraction.rule_topics import rule_topic


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Always push to main.", "Never push to main!"),
        ("Please always answer in French.", "From now on answer in German."),
        ("Never use tabs.", "Always use spaces"),
        ("Always use tabs in Makefiles", "From now on don’t use tabs in Makefiles."),
        ("Always install with npm.", "always install with pnpm instead"),
        ("Don't rebase.", "never rebase"),
    ],
)
def test_opposite_orders_and_another_choice_are_about_the_same(older: str, newer: str):
    assert rule_topic(older) == rule_topic(newer) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Never edit a.py.", "Never edit b.py."),
        ("Always run the tests.", "Always run the linter."),
        ("Never answer in French.", "Never answer in German."),
        ("Always answer in French.", "Always write commit messages in German."),
        ("Always wait 5 seconds.", "Always wait 10 seconds."),
        ("Never push to main.", "Never push to main-old."),
        ("Never delete src/tabs.", "Never delete src/spaces."),
        ("Use npm.json always", "Use yarn.json always"),
        ("Never commit.", "Always test."),
    ],
)
def test_all_else_stays_side_by_side(one: str, other: str):
    assert rule_topic(one) != rule_topic(other)


@pytest.mark.parametrize("said", ["", "Always.", "please never!", "…"])
def test_nothing_is_about_nothing(said: str):
    assert rule_topic(said) == ""
