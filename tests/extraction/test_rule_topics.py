"""Which standing rules are about the same."""

from __future__ import annotations

import pytest

from summarizing_context.extraction.rule_topics import Topic, rule_topic


def are_alike(one: str, other: str) -> bool:
    first, second = rule_topic(one), rule_topic(other)
    return first.order == second.order != "" or first.choice == second.choice != ""


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Always push to main.", "Never push to main!"),
        ("Never use tabs.", "Always use tabs"),
        ("Always use npm.", "Never use npm any more."),
        ("Always answer in French.", "Do not answer in French again."),
        ("Don't rebase.", "never rebase"),
        ("You must always sign commits.", "You must never sign commits."),
        ("Prefer single quotes.", "Prefer double quotes."),
        ("Never deploy if the tests pass.", "Always deploy if the tests pass."),
        ("Please always answer in French.", "From now on answer in German."),
        ("Always write commit messages in English.", "going forward, write commit messages in Dutch"),
        ("Always use tabs.", "Always use spaces."),
        ("Always indent with tabs", "We don\u2019t indent with tabs"),
        ("Always install with npm.", "always install with pnpm instead"),
        ("Always use port 8080.", "From now on always use port 9090."),
        ("Always use Python 3.11.", "From now on use Python 3.12"),
    ],
)
def test_opposite_orders_and_another_choice_are_about_the_same(older: str, newer: str):
    assert are_alike(older, newer)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Never edit a.py.", "Never edit b.py."),
        ("Always run the tests.", "Always run the linter."),
        ("Never answer in French.", "Never answer in German."),
        ("Always answer in French.", "Always write commit messages in German."),
        ("Always wait 5 seconds.", "Always wait 10 seconds."),
        ("Always use port 8080 for web.", "Always use port 9090 for the database."),
        ("Never use port 8080.", "Never use port 9090."),
        ("Never push to main.", "Never push to main-old."),
        ("Never delete src/tabs.", "Never delete src/spaces."),
        ("Never commit.", "Always test."),
        ("Never deploy if the tests don't pass.", "Always deploy if the tests pass."),
        ("Always merge when the checks pass.", "Never merge when the checks do not pass."),
        ("Always keep the French translation in sync.", "Always keep the German translation in sync."),
        ("Always translate German tickets into English.", "Always translate French tickets into English."),
        ("Always translate from English to French.", "Always translate from French to English."),
        ("Always test in light mode.", "Always test in dark mode."),
        ("Always test in German.", "Always test in French."),
        ("Always update the npm lockfile.", "Always update the yarn lockfile."),
        ("Always remove trailing spaces.", "Always remove trailing tabs."),
        ("Always write to the English channel.", "Always write to the German channel."),
        ("Never skip the npm audit.", "Never skip the yarn audit."),
        ("Always run npm ci in web/ and yarn in api/.", "Always run yarn in web/ and npm ci in api/."),
        ("Never commit if CI is down and don't push.", "Always commit if CI is down and push."),
        ("Always warn me when you don't know.", "Never warn me when you know."),
        ("Always lint before commit, never after.", "Always lint before commit, after."),
        ("Never stop the server.", "Never start the server."),
        ("Always answer Ana in French.", "Always answer Bob in German."),
        ("Always use just.", "Always use ok."),
        ("Always use npm in web.", "Always use yarn in api."),
    ],
)
def test_all_else_stays_side_by_side(one: str, other: str):
    assert not are_alike(one, other)


@pytest.mark.parametrize("said", ["", "Always.", "please never!", "\u2026"])
def test_nothing_is_about_nothing(said: str):
    assert rule_topic(said) == Topic("", "")
