"""Which sentences of a human's are standing rules without a model, and which of them are about the same."""

from __future__ import annotations

import time

import pytest

from summarizing_context.extraction.rule_topics import Topic, rule_topic
from summarizing_context.extraction.rules import CueRules, Rule


def quotes(*texts: str) -> list[str]:
    return [rule.quote for rule in CueRules().rules(texts)]


@pytest.mark.parametrize(
    "said",
    [
        "Never push to main.",
        "Please always run the linter before you commit.",
        "From now on, write commit messages in German.",
        "just run the dashboard directly going forward",
        "i no longer use prek",
        "Ok, whenever you change the schema, add a migration",
        "We don’t use tabs",
        "Do not ever rebase a shared branch!",
        "keep it short and under no circumstances mention the customer",
        "Don't touch the vendor folder.",
        "Bitte immer auf Deutsch antworten.",
        "Before each commit run the linter.",
        "Going forward the tests must pass before you commit.",
        "In Zukunft bitte die Tests laufen lassen.",
    ],
)
def test_a_sentence_that_says_that_it_lasts_is_a_rule(said: str):
    assert CueRules().rules([said]) == (Rule(said, "must"),)


@pytest.mark.parametrize(
    "said", ["I prefer short names.", "Ideally, always squash before merging.", "We prefer tabs over spaces"]
)
def test_a_wish_is_a_preference(said: str):
    assert CueRules().rules([said]) == (Rule(said, "prefer"),)


@pytest.mark.parametrize(
    "said",
    [
        "Please fix the build.",
        "can you ensure we have an example that runs.",
        "Should we always run the linter?",
        "It always fails on Mondays.",
        "This is never called.",
        "I think it must be the cache.",
        "Never mind, go on.",
        "Don't push yet.",
        "Always use the mock for now.",
        "the hook must be installed before the test runs",
        "That dereference can panic, which was never seen before.",
        "use port 9090 instead",
        "Go ahead whenever you’re ready.",
        "Every time you run it, it crashes.",
        "Going forward the API returns 404.",
        "Before each test the db is wiped.",
        "Whenever you click save, the page reloads.",
        "In Zukunft wird das Modul ersetzt.",
        "The server answers in JSON from now on.",
        "Always crashes on save.",
        "no",
        "always",
    ],
)
def test_requests_questions_and_reports_are_none(said: str):
    assert quotes(said) == []


@pytest.mark.parametrize(
    "said",
    [
        "```\nAlways push.\n```",
        "~~~ text\nAlways push.\n~~~",
        "```\nAlways push.",
        "> Always push.",
        "| Always push. | yes |",
        "# Always push",
        "    Always push.",
        "┃  Always push.",
        "<rule>Always push.</rule>",
        "\n".join(f"- always do {at}" for at in range(12)),
        "Fine. " * 30 + "Always push.",
        "word " * 2_000 + ".\nAlways push.",
    ],
)
def test_what_is_quoted_or_pasted_is_not_spoken(said: str):
    assert quotes(said) == []


def test_rules_are_told_in_order_each_once_among_other_sentences():
    said = "Hi. Always run `make test`. Go on.\n- never push to main\nGood."
    assert quotes(said, "Never answer in French.", "Always run `make test`.") == [
        "Always run `make test`.",
        "never push to main",
        "Never answer in French.",
    ]


def test_a_sentence_that_was_wrapped_is_quoted_whole():
    said = "From now on write every commit message in German, as the\nwhole team has agreed to do.\nThanks"
    assert quotes(said) == [
        "From now on write every commit message in German, as the whole team has agreed to do.",
    ]


def test_a_number_at_the_end_of_a_sentence_is_no_item_of_a_list():
    assert quotes("Always pay with the card ending in 34. That is the one that I use.") == [
        "Always pay with the card ending in 34."
    ]


def test_a_sentence_too_long_to_be_quoted_whole_is_not_quoted_in_part():
    assert quotes(f"Always {'very ' * 80}carefully push.") == []


def test_control_characters_and_surrogates_are_not_quoted():
    assert quotes("Never \x1b[31mpush\x1b[0m\x07 to \ud800 main.") == ["Never push to \ufffd main."]


def test_the_version_is_the_same_every_time():
    assert CueRules().version == CueRules().version
    assert CueRules().version.startswith("cues-")


@pytest.mark.parametrize(
    "said",
    [
        "note that " * 29,
        "please, " * 36,
        "you should " * 26,
        "always " * 42,
        "```\n" * 1_400,
        "- \n" * 1_900,
        ". " * 2_900,
    ],
)
def test_hostile_texts_are_read_quickly(said: str):
    started = time.thread_time()
    quotes(said)
    assert time.thread_time() - started < 20  # what is quadratic or worse takes minutes


@pytest.mark.parametrize(
    "said",
    [
        "Immer noch kaputt.",
        "Immer mehr Tests schlagen fehl.",
        "Niemals hätte ich das gedacht!",
        "Toujours la même erreur.",
        "Toujours pas de réponse.",
    ],
)
def test_a_report_that_begins_like_an_order_is_no_rule(said):
    assert CueRules().rules([said]) == ()


@pytest.mark.parametrize(
    "said", ["Immer auf Deutsch antworten.", "Niemals auf main pushen.", "Toujours répondre en français."]
)
def test_an_order_in_german_or_french_is_a_rule(said):
    assert [rule.quote for rule in CueRules().rules([said])] == [said]


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
