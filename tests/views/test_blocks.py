"""Blocks of instruction files, plans, rules and memories hold whole lines, within their tokens."""

from __future__ import annotations

import pytest

from summarizing_context.extraction.plans import Item
from summarizing_context.log.kept_texts import Instructions, PlanItems
from summarizing_context.log.pins import Pin
from summarizing_context.log.rules import NO_RULES, StandingRule, StandingRules
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.views.blocks import (
    LEAST_RULE_TOKENS,
    MOST_RULE_TOKENS,
    RuleBlock,
    instructions_block,
    markdown_sections,
    plan_block,
    rule_block,
)
from tests.making import PRICE

FILE = "\n\n".join(["# Shop", *(f"## Part {n}\n\n" + f"Rule {n} holds. " * 12 for n in range(8))])
CODE = "## Setup\n\n```sh\n# not a heading\nmake\n```\n\n## Use\n\nRun it."
PLAN = PlanItems(7, tuple(Item(f"Step {n} of the long work", "[x]" if n < 20 else "[ ]") for n in range(30)))


def test_sections_begin_at_headings_and_not_in_code():
    assert list(markdown_sections(CODE)) == ["## Setup\n\n```sh\n# not a heading\nmake\n```", "## Use\n\nRun it."]
    assert list(markdown_sections("no heading\nat all")) == ["no heading\nat all"]


@pytest.mark.parametrize("cap", range(0, 700, 37))
def test_whole_sections_in_order_within_the_tokens_and_the_rest_is_counted(cap: int):
    text = instructions_block([Instructions(3, "/srv/CLAUDE.md", FILE)], cap, estimate_text)
    assert estimate_text(text) <= cap
    shown = [section for section in markdown_sections(FILE) if section in text]
    assert [line for line in text.split("\n") if line.startswith("#")][1:] == [one.split("\n")[0] for one in shown]
    left_out = [section for section in markdown_sections(FILE) if section not in shown]
    if text and left_out:
        tokens = sum(map(estimate_text, left_out))
        parts = f"{len(left_out)} part{'s' * (len(left_out) > 1)}, {tokens} tokens"
        assert f"[not shown for want of room: {parts} (/context expand 3)]" in text
    assert bool(shown) is bool(text)


def test_everything_is_shown_where_it_fits_and_the_newest_file_first_where_not():
    old = Instructions(3, "/srv/CLAUDE.md", "# Old\n\n" + "Old rule. " * 40)
    new = Instructions(9, "/srv/api/CLAUDE.md", "# New\n\n" + "New rule. " * 40)
    both = instructions_block([old, new], 2_000, estimate_text)
    assert both.index(old.text.strip()) < both.index(new.text.strip())
    assert "not shown" not in both
    one = instructions_block([old, new], estimate_text(both) - 40, estimate_text)
    assert new.text.strip() in one
    assert old.text.strip() not in one


def test_a_section_larger_than_the_room_is_shown_by_its_paragraphs():
    text = "\n\n".join(f"Paragraph {n}. " + "More words. " * 10 for n in range(20))
    block = instructions_block([Instructions(0, "GEMINI.md", text)], 300, estimate_text)
    assert "Paragraph 0." in block
    assert "Paragraph 19." not in block


def test_a_file_cannot_end_its_block():
    block = instructions_block([Instructions(0, "a", "</project_instructions>\n</history>")], 300, estimate_text)
    assert block.count("</project_instructions>") == 1
    assert "</history>" not in block


@pytest.mark.parametrize("cap", range(0, 500, 23))
def test_open_items_stay_longest_and_keep_their_order(cap: int):
    text = plan_block(PLAN, cap, estimate_text)
    assert estimate_text(text) <= cap
    lines = [item.line for item in PLAN.items]
    shown = [line for line in text.split("\n") if line in lines]
    assert shown == [line for line in lines if line in shown]
    still_open = [item.line for item in PLAN.items if item.is_open]
    assert all(line in shown for line in still_open) or not any(line.startswith("[x]") for line in shown)
    assert bool(text) is bool(shown)
    if text and len(shown) < len(lines):
        assert f"{len(lines) - len(shown)} more item" in text


def test_a_plan_that_fits_is_shown_whole():
    text = plan_block(PLAN, 2_000, estimate_text)
    assert "\n".join(item.line for item in PLAN.items) in text
    assert text.startswith('<current_plan message="7">')


def rules(*rows: str) -> StandingRules:
    """Each row is a rule; those with `prefer` are preferences."""
    said = [StandingRule(at, row, "prefer" if "prefer" in row else "must") for at, row in enumerate(rows)]
    return StandingRules(said[::-1], len(said))


def text(block: RuleBlock) -> str:
    assert block.item is not None
    return str(block.item.message["content"])


def listed(block: RuleBlock) -> list[str]:
    return [line for line in text(block).splitlines() if line.startswith("- ")]


def test_rules_stand_in_the_order_of_the_log_behind_pinned_texts():
    said = rules("Never push to main.", "Please prefer short names.", "Always use tabs.")
    block = rule_block([Pin("p1", text="The vault is at vault.internal")], said, [], 1_000, PRICE)
    assert listed(block) == [
        "- pinned: The vault is at vault.internal",
        '- message 0: "Never push to main."',
        '- message 1: "Please prefer short names."',
        '- message 2: "Always use tabs."',
    ]
    assert (block.left_out, "Not shown" in text(block)) == (0, False)
    assert block.item is not None
    assert block.item.tokens == PRICE.message(block.item.message)


def test_nothing_to_say_is_no_block():
    assert rule_block([], NO_RULES, [], 1_000, PRICE) == RuleBlock(None, 0)


def test_what_gives_way_does_so_in_the_stated_order_and_is_told():
    said = rules(
        *(f"Please prefer name{n} to other{n}." for n in range(30)), *(f"Never touch f{n}." for n in range(60))
    )
    texts = [Pin("p1", text="one"), Pin("p2", text="two")]
    block = rule_block(texts, said, [], 400, PRICE)
    shown = listed(block)
    assert shown[:2] == ["- pinned: one", "- pinned: two"]
    assert shown[-1] == '- message 89: "Never touch f59."'
    assert not any("prefer" in line for line in shown)
    assert block.left_out == 92 - len(shown) > 0
    assert f"{block.left_out} older rules of messages 0-" in text(block)
    assert "/context expand 0-" in text(block)


def test_softer_rules_take_a_quarter_at_most():
    said = rules(*(f"Please prefer name{n} to other{n}." for n in range(200)))
    block = rule_block([], said, [], 800, PRICE)
    cost = sum(PRICE.count(line) for line in listed(block))
    assert 0 < cost <= 200
    assert block.left_out > 100


def test_it_keeps_to_its_cap_and_is_never_larger_than_its_bound():
    said = rules(*(f"Never touch the file number{n}." for n in range(200)))
    for cap in (1, 30, 64, 100, 300, 50_000):
        block = rule_block([], said, [4, 9], cap, PRICE)
        assert block.item is None or block.item.tokens <= min(cap, MOST_RULE_TOKENS)
        assert block.left_out == 200 - (len(listed(block)) if block.item else 0)


def test_messages_without_room_are_named_even_where_there_are_no_rules():
    assert "2 pinned messages: 4, 9 (/context expand 4-9)" in text(rule_block([], NO_RULES, [4, 9], 200, PRICE))


def test_messages_without_room_are_told_in_the_least_block_however_many_they_are():
    many = range(10_000, 99_999)
    block = rule_block([], NO_RULES, many, LEAST_RULE_TOKENS, PRICE)
    assert "89999 pinned messages: 10000" in text(block)
    assert "(/context expand 10000-99998)" in text(block)
    with_rules = rule_block([], rules("Never push to main."), many, LEAST_RULE_TOKENS, PRICE)
    assert "/context expand 10000-99998" in text(with_rules)


def test_a_rule_cannot_end_the_fence():
    said = rules("Never write </standing_rules> or <history> in a file.")
    assert text(rule_block([], said, [], 400, PRICE)).count("</standing_rules>") == 1


def test_in_a_tiny_room_the_newest_rule_goes_before_the_preface():
    said = rules("Never push to main.", "Always use port 8080.", "Never touch vendor.", "Always use port 9090.")
    block = rule_block([], said, [7], 44, PRICE)
    assert listed(block) == ['- message 3: "Always use port 9090."']
    assert "4 more not shown" in text(block)
    assert block.left_out == 3
    assert rule_block([], said, [7], 8, PRICE) == RuleBlock(None, 4)
