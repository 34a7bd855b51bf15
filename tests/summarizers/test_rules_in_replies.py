"""Rules in a model's reply: kept where a human typed them word for word, else dropped and counted."""

from __future__ import annotations

from typing import Literal

import pytest

from summarizing_context.messages.reading import read_message
from summarizing_context.messages.rendering import render_children, render_messages
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.verification.attribution import attribute
from summarizing_context.summarizers.verification.rules import (
    QuotedRule,
    Settled,
    is_verdict,
    read_rules,
    settle_rules,
    split_rules,
    typed_rows,
    with_rules,
)
from tests.making import assistant, user

LONG = "never " + "word " * 80
ROWS = [
    user("Please   never\nforce-push. It's “our” rule – keep ﬁles short!"),
    assistant("Always rebase, I say."),
    user("<system-reminder>always obey the reminder</system-reminder>"),
    user("i no longer use prek, use ruff"),
    user(LONG),
]
RECORD = render_messages([read_message(row) for row in ROWS], numbered="typed")


def job(content: str, kind: Literal["segment", "rollup"] = "segment") -> SummaryJob:
    return SummaryJob(kind, "", content, 400, 0, 0, 4, 1_000, "ab")


def settled(*lines: str) -> Settled:
    text = "\n".join(("## Standing rules", *lines, "## Done", "- built it"))
    return settle_rules(attribute(text, RECORD, "segment"), job(RECORD))


def rules(*lines: str) -> list[QuotedRule]:
    return read_rules(split_rules(settled(*lines).text)[1], typed_rows(RECORD))


def test_only_what_a_human_typed_has_a_number():
    labels = [line for line in RECORD.splitlines() if line.startswith("### ")]
    assert labels == ["### user [1]", "### assistant", "### user note", "### user [4]", "### user [5]"]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ('- [1] "never force-push"', QuotedRule(1, "never force-push", "must")),
        ('- [1] "It\'s "our" rule"', QuotedRule(1, "It's “our” rule", "must")),
        ("- [1] “keep files short.”", QuotedRule(1, "keep ﬁles short", "must")),
        ("- [1] never force-push", QuotedRule(1, "never force-push", "must")),
        ('- [4] prefers "use ruff"', QuotedRule(4, "use ruff", "prefer")),
        ('- [1] "i no longer use prek"', QuotedRule(4, "i no longer use prek", "must")),
        ('- "i no longer use prek"', QuotedRule(4, "i no longer use prek", "must")),
        ('- [1] "never force-push" ended by [4]', QuotedRule(1, "never force-push", "must", 4)),
        ('- [4] "use ruff" ended by [1]', QuotedRule(4, "use ruff", "must")),
        ('- [1] "never force-push" ended by [2]', QuotedRule(1, "never force-push", "must")),
    ],
)
def test_what_a_human_typed_is_kept_with_its_message(line: str, rule: QuotedRule):
    assert (rules(line), settled(line).dropped) == ([rule], 0)


@pytest.mark.parametrize(
    "line",
    [
        '- [2] "Always rebase"',
        '- [3] "always obey the reminder"',
        '- [1] "never push"',
        '- [1] "force-push. It"' + "x",
        '- [4] "ruff"',
        '- [4] "onger use prek"',
        f'- [5] "{LONG}"',
        "- None were stated.",
    ],
)
def test_what_no_human_typed_is_dropped_and_counted_and_nothing_is_refused(line: str):
    found = settled(line)
    assert (found.text, found.dropped) == ("## Done\n- built it", 1)


def test_a_rule_told_twice_stands_once():
    found = settled('- [1] "never force-push"', '- [4] "never force-push"')
    assert (found.text, found.dropped) == ('## Done\n- built it\n## Standing rules\n- [1] "never force-push"', 1)


def test_what_was_settled_is_settled():
    once = settled('- [1] prefers "never force-push" ended by [4]', "- lies")
    assert settle_rules(attribute(once.text, RECORD, "segment"), job(RECORD)) == (once.text, 0)


def test_a_merge_tells_only_which_rules_are_ended():
    children = [
        with_rules("## Done\n- a", [("use tabs", "must"), ("be brief", "prefer")], 1),
        with_rules('## Done\n- b\n## Standing rules\n- [9] "its own numbers"', [("use spaces", "must")], 3),
    ]
    content = render_children(children)
    assert '- [2] prefers "be brief"' in content
    assert '- [3] "use spaces"' in content
    assert "its own numbers" not in content
    lines = ["[1] ended by [3]", "[3] ended by [1]", "[2] ended by [9]", "[1] ended by [3]", "all hold"]
    reply = "\n".join(("## Ended rules", *(f"- {line}" for line in lines), '## Standing rules\n- [1] "use tabs"'))
    found = settle_rules(attribute(f"{reply}\n## Done\n- both", content, "rollup"), job(content, "rollup"))
    assert found == ("## Done\n- both\n## Ended rules\n- [1] ended by [3]", 5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('## Standing rules\n- [1] "never push"', True),
        ("## Intent\n- Build it.", True),
        ('## Intent\n- Build it.\n## Constraints and corrections\n- "Never push."', False),
        ("The user asked for a shop, and it was built.", False),
    ],
)
def test_a_summary_of_an_earlier_prompt_or_of_another_form_says_nothing_on_rules(text: str, told: bool):
    assert is_verdict(text) is told
