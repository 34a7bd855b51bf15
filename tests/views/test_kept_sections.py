"""Blocks of instruction files and plans hold whole sections and items, within their tokens."""

from __future__ import annotations

import pytest

from summarizing_context.extraction.plans import Item
from summarizing_context.log.kept_texts import Instructions, PlanItems
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.views.instructions_section import instructions_block, markdown_sections
from summarizing_context.views.plan_section import plan_block

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
