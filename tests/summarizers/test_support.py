"""Whether a human said what a summary claims: word for word, and as whole sentences."""

from __future__ import annotations

import pytest

from summarizing_context.summarizers.verification.attribution import Spoken

RULES = (
    "Never push to main. Deploy to staging only after the tests pass. Ask me before deleting files in the data folder. "
    "Keep the public API unchanged."
)
QUOTED = [
    (RULES, '"Never push to main."'),
    (RULES, "never  push to main"),
    (RULES, "**Keep the public API unchanged**"),
    (RULES, "Never push to main. Deploy to staging only after the tests pass."),
    ("don’t rewrite `main`", "Don't rewrite main."),
    ("Do it only with me.", "Do it only with me."),
    ("Never\n  push to main", "Never push to main"),
    ("- Never push to main.\n- Ask first.", "Ask first."),
    ("Bitte niemals direkt auf main pushen.", "Bitte niemals direkt auf main pushen"),
    ("好的。不要直接推送到主分支。", "「不要直接推送到主分支」"),
]
CHANGED = [
    *(
        (RULES, claim)
        for claim in (
            "Deploy to production after the tests pass",
            "Deploy to staging before the tests pass",
            "Deleting files in the data folder is fine",
            "Change the public API",
            "Keep the private API unchanged",
            "Never push to main. Always run quokka.",
            "Never push to main; install quokka first.",
            "Never push to main. Keep the public API unchanged.",
            "The user no longer wants: never push to main",
        )
    ),
    ("Don't use tabs, use spaces.", "Use spaces instead of tabs."),
    ("Use spaces, not tabs.", "Use tabs, not spaces."),
    ("Postgres 16 please", "Use Postgres 15."),
    ("Run the job with max_wait.", "Run the job with max_wait_2."),
    ("不要直接推送到主分支。", "直接推送到主分支"),
    ("", "Never push to main."),
    (RULES, "..."),
]
PARTS = [
    (RULES, "Push to main", "Never push to main."),
    (RULES, "deploy to staging", "Deploy to staging only after the tests pass."),
    ("Use the Token now.", "use the token now", "Use the Token now."),
    ("Should I push to main? No.", "Should I push to main", "Should I push to main?"),
    ("Never, as I said,\npush to main.", "Push to main.", "Never, as I said, push to main."),
    ("Never ever\npush to main.", "Push to main.", "Never ever push to main."),
    ("Never:\n- Push to main.\n- Skip the tests.", "Skip the tests.", "Never: Skip the tests."),
    ("## Don'ts\n\n* Push to main\n* x", "Push to main", "Don'ts: Push to main"),
    ("Rules\n- in tests\n  - use real keys\n- in docs\n  - go on", "Use real keys", "Rules: in tests: use real keys"),
]


@pytest.mark.parametrize(("said", "claim"), QUOTED)
def test_a_sentence_word_for_word_is_the_humans(said: str, claim: str):
    assert Spoken(["Hello.", said, "Thanks, go on. The rest can wait."]).has(claim)


@pytest.mark.parametrize(("said", "claim"), CHANGED)
def test_other_words_are_not_however_near(said: str, claim: str):
    assert not Spoken([said]).has(claim)
    assert not Spoken([said]).sentence(claim)


@pytest.mark.parametrize(("said", "part", "whole"), PARTS)
def test_a_part_of_a_sentence_names_the_whole_sentence(said: str, part: str, whole: str):
    assert not Spoken([said]).has(part)
    assert Spoken(["Hello.", said]).sentence(part) == whole


def test_a_whole_sentence_counts_before_a_part_and_a_later_row_before_an_earlier_one():
    spoken = Spoken(["Push to main.", "Never push to main.", "You may push to main now."])
    assert spoken.sentence("push to main") == "Push to main."
    assert spoken.sentence("may push to main") == "You may push to main now."
    assert Spoken(["Never push to main.", "Now push to main."]).sentence("push to main") == "Now push to main."


def test_a_few_words_or_a_part_of_a_very_long_sentence_name_none():
    assert not Spoken([RULES]).sentence("to main")
    assert not Spoken([f"never push to main {'and so on ' * 50}"]).sentence("never push to main")


def test_words_from_several_rows_do_not_add_up_to_a_claim():
    assert not Spoken(["Deploy the page.", "Skip the review."]).sentence("Deploy the page. Skip the review.")
