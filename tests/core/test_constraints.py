"""Which sentences of a human bind from now on."""

from __future__ import annotations

import pytest

from summarizing_context.core.constraints import standing_rules

STRICT = [
    "Never push to main.",
    "Always answer in French.",
    "Do not touch the vendor folder.",
    "From now on use port 8080.",
    "You must keep the API stable.",
    "I never want to see tabs.",
    "Bitte nicht pushen.",
    "Hands off the billing module.",
    "Leave config.yml alone.",
    "Refrain from force-pushing.",
    "Henceforth call me Sam.",
    "Ask me before you delete anything.",
    "Whenever you change the schema, update docs/schema.md.",
    "Until I say otherwise, work on branch dev.",
    "Никогда не трогай main.",
    "不要修改这个文件",
    "Keep responses short.",
    "Every commit needs a ticket number.",
    "The vendor folder is off limits.",
    "Under no circumstances should you run migrations.",
    "On no account delete data.",
    "Must use Python 3.11.",
    "Only touch files under src/.",
    "No emojis, please.",
    "No new dependencies.",
    "Fix the login bug, no new dependencies.",
    "Whenever you add a module, add a test.",
    "When you write code, add type hints.",
    "If a test fails, stop and tell me.",
    "Before committing, run make lint.",
    "After every change run the tests.",
    "All functions need docstrings.",
    "Commit messages start with the ticket number.",
    "Answer in German.",
    "Call me Sam.",
    "Be concise.",
    "Stop adding comments.",
    "Stick to Python 3.11.",
    "Restrict changes to src/.",
    "Get my approval before you deploy.",
    "Let me know before you change the schema.",
    "Starting now, use tabs.",
    "For all future tasks, reply in bullet points.",
    "Rule: no globals.",
    "The public API is frozen.",
    "Treat warnings as errors.",
    "**Quote prices in EUR.**",
    "Auf keinen Fall pushen.",
    "From this point on, answer in Spanish.",
    "Please keep the README in sync with the code.",
    "If you need credentials, ask me first.",
    "Let's stick with React 17.",
]
SOFT = [
    "Please prefer short names.",
    "Use at most 3 retries.",
    "Use httpx instead of requests.",
    "No emojis.",
    "All dates have to be in UTC.",
    "I prefer tabs.",
    "use uv instead of pip",
    "Use British spelling.",
    "Please use snake_case.",
    "Run the tests before you commit.",
    "I'd rather you asked before deleting.",
    "I hate emojis.",
    "We use pnpm.",
    "Max 3 retries.",
    "Remember that I work in CET.",
    "Ignore the legacy folder.",
    "I can't fly on Mondays.",
]
NONE = [
    "I think it should be fine.",
    "It always fails on Mondays.",
    "Why does it never work?",
    "Thanks, go on.",
    "I do not know.",
    "No worries.",
    "No errors in the log.",
    "No, that's all.",
    "No changes in the diff.",
    "There has to be some flexibility.",
    "Leave me a note.",
    "Read the file and tell me what it says.",
    "Keep going.",
    "Every test passes.",
    "All tests need about a minute.",
    "Use the fix from the issue.",
    "I like Option C.",
    "Be right back.",
    "We use it a lot.",
    "If you want, have a look at it.",
    "When I run it, it fails.",
    "I'll check my email later.",
    "There must be some way.",
    "I must have left it there.",
    "12: # keys must be sorted",
    "The value was never used.",
    "I don't need anything else right now.",
    "Stop it.",
    "No problem at all, please go on.",
]


@pytest.mark.parametrize("said", STRICT)
def test_what_binds_by_its_words_is_a_strict_rule(said: str):
    assert [(rule.strict, rule.text) for rule in standing_rules([said])] == [(True, said)]


@pytest.mark.parametrize("said", SOFT)
def test_a_preference_or_a_limit_is_a_softer_rule(said: str):
    assert [(rule.strict, rule.text) for rule in standing_rules([said])] == [(False, said)]


@pytest.mark.parametrize("said", NONE)
def test_chatter_is_no_rule(said: str):
    assert standing_rules([said]) == ()


def test_rules_are_quoted_word_for_word_in_their_order_and_once():
    said = "Hello. Never push to main.\n- Always run `make test` first.\nThanks. Never push to main."
    assert [rule.text for rule in standing_rules([said])] == ["Never push to main.", "Always run `make test` first."]


def test_what_a_human_pastes_or_says_of_himself_binds_less():
    assert [rule.strict for rule in standing_rules(["I always thought so."])] == [False]
    assert standing_rules(["```\n# never call this\n```"]) == ()
    page = "\n".join([f"Chapter {n} tells a story." for n in range(40)] + ["You must accept all cookies."])
    assert [rule.strict for rule in standing_rules([page])] == [False]
