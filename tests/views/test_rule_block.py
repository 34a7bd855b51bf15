"""The block of standing rules: what it says, and what gives way."""

from __future__ import annotations

from summarizing_context.log.pins import Pin
from summarizing_context.log.rules import NO_RULES, StandingRule, StandingRules
from summarizing_context.views.rule_section import LEAST_TOKENS, MOST_TOKENS, RuleBlock, rule_block
from tests.making import PRICE


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
        assert block.item is None or block.item.tokens <= min(cap, MOST_TOKENS)
        assert block.left_out == 200 - (len(listed(block)) if block.item else 0)


def test_messages_without_room_are_named_even_where_there_are_no_rules():
    assert "2 pinned messages: 4, 9 (/context expand 4-9)" in text(rule_block([], NO_RULES, [4, 9], 200, PRICE))


def test_messages_without_room_are_told_in_the_least_block_however_many_they_are():
    many = range(10_000, 99_999)
    block = rule_block([], NO_RULES, many, LEAST_TOKENS, PRICE)
    assert "89999 pinned messages: 10000" in text(block)
    assert "(/context expand 10000-99998)" in text(block)
    with_rules = rule_block([], rules("Never push to main."), many, LEAST_TOKENS, PRICE)
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
