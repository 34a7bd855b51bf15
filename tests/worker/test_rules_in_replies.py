"""A model's reply on standing rules: what a human typed word for word counts, and nothing else."""

from __future__ import annotations

import pytest

from summarizing_context.extraction.rules import Rule
from summarizing_context.worker.rule_calls import SaidRules, last_message, read_rules

LONG = "never " + "word " * 80
TYPED = [
    "Please   never\nforce-push. It's “our” rule – keep ﬁles short!",
    "Build the shop.",
    "i no longer use prek, use ruff",
    LONG,
]
NOTHING = SaidRules()


def said(*lines: str, earlier: tuple[str, ...] = ()) -> list[SaidRules]:
    found = read_rules("\n".join(lines), TYPED, earlier)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "message", "rule"),
    [
        ('- [1] must "never force-push"', 1, Rule("never force-push", "must")),
        ('- [1] must "It\'s "our" rule"', 1, Rule("It's “our” rule", "must")),
        ("1. [1] must: “keep files short.”", 1, Rule("keep ﬁles short", "must")),
        ("* [1] must never force-push", 1, Rule("never force-push", "must")),
        ('[3] **Prefer** "use ruff"', 3, Rule("use ruff", "prefer")),
        ('- [3] prefers "use ruff"', 3, Rule("use ruff", "prefer")),
        ('- [1] must "i no longer use prek"', 3, Rule("i no longer use prek", "must")),
        ('- [99] must "never force-push"', 1, Rule("never force-push", "must")),
    ],
)
def test_what_a_human_typed_counts_for_the_message_in_which_it_stands(line: str, message: int, rule: Rule):
    found = said(line)
    assert found.pop(message - 1) == SaidRules((rule,))
    assert found == [NOTHING] * 3


@pytest.mark.parametrize(
    "line",
    [
        '- [2] must "Always rebase"',
        '- [1] must "never push"',
        '- [1] must "force-push. Itx"',
        '- [3] must "ruff"',
        '- [3] must "onger use prek"',
        f'- [4] must "{LONG}"',
        '- [1] ends "never force-push"',
        '- [2] task "Build the shop."',
    ],
)
def test_what_nobody_typed_is_dropped_and_the_reply_is_a_verdict_all_the_same(line: str):
    assert said(line) == [NOTHING] * 4


@pytest.mark.parametrize("reply", ["none", "None.", "- none", "*none*"])
def test_none_is_a_verdict(reply: str):
    assert said(reply) == [NOTHING] * 4


@pytest.mark.parametrize("reply", ["", "The user wants a shop.", '- must "never force-push"', "[1] " + "must x " * 200])
def test_a_reply_without_any_line_of_the_form_is_no_verdict(reply: str):
    assert read_rules(reply, TYPED, ()) is None


def test_a_rule_told_twice_counts_once_and_other_lines_do_no_harm():
    found = said("Here you are:", '- [1] must "never force-push"', "- [3] nothing", '- [3] prefer "never  force-push."')
    assert found[0] == SaidRules((Rule("never force-push", "must"),))
    assert found[1:] == [NOTHING] * 3


def test_a_message_ends_rules_of_messages_before_it_alone():
    earlier = ("use “tabs” always",)
    found = said(
        '- [1] must "never force-push"',
        '- [3] must "use ruff"',
        '- [3] ends "Never force-push"',  # in other letters: another quote
        '- [3] ends "never force-push."',
        '- [1] ends "use ruff"',
        "- [2] ends 'use \"tabs\" always'",
        '- [3] ends "what nobody said"',
        '- [9] ends "never force-push"',
        earlier=earlier,
    )
    assert [one.ends for one in found] == [(), earlier, ("never force-push",), ()]


def test_the_last_message_that_a_reply_names_is_known():
    assert last_message('- [2] must "a b"\n- [11] task "c"\n- [3] lies') == 11
    assert last_message("none") == 0
