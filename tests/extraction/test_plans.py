"""Plans are read in the shapes in which agents' tools write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from summarizing_context.extraction.plans import Item, plan_in_call, plan_in_result
from summarizing_context.settings.ledger_rules import LedgerRule, PlanTools


def lines(arguments: Any, *keys: str, before: tuple[Item, ...] = ()) -> list[str] | None:
    items = plan_in_call(json.dumps(arguments), keys or ("todos", "plan"), before)
    return None if items is None else [item.line for item in items]


@pytest.mark.parametrize(
    "arguments",
    [
        {
            "todos": [
                {"content": "Read it", "status": "completed", "activeForm": "Reading it"},
                {"content": "Fix it", "status": "in_progress", "activeForm": "Fixing it"},
                {"content": "Test it", "status": "pending", "activeForm": "Testing it"},
                {"content": "Sell it", "status": "cancelled", "priority": "low", "id": "4"},
            ]
        },
        {
            "explanation": "as agreed",
            "plan": [
                {"step": "Read it", "status": "completed"},
                {"step": "Fix it", "status": "in_progress"},
                {"step": "Test it", "status": "pending"},
                {"step": "Sell it", "status": "skipped"},
            ],
        },
    ],
)
def test_items_are_marked_with_their_states(arguments: Any):
    assert lines(arguments) == ["[x] Read it", "[>] Fix it", "[ ] Test it", "[-] Sell it"]


def test_an_emptied_list_is_a_plan_without_items_and_other_arguments_are_none():
    assert lines({"todos": []}) == []
    for other in ({}, {"todos": None}, {"todos": [1]}, {"todos": {"a": 1}}, [], "todos", {"path": "a"}, {"todos": " "}):
        assert lines(other) is None
    assert plan_in_call("{", ("todos",), ()) is None


def test_a_plan_may_be_a_text_or_a_list_of_texts():
    assert lines({"plan": "1. Read it\n2. Fix it\n"}) == ["1. Read it\n2. Fix it"]
    assert lines({"plan": ["Read it", "Fix it"]}) == ["[ ] Read it", "[ ] Fix it"]


def test_a_merge_changes_items_by_their_ids():
    before = (Item("Read it", "[>]", "a"), Item("Fix it", "[ ]", "b"))
    new = [{"id": "a", "status": "completed"}, {"id": "c", "content": "Test it", "status": "pending"}]
    assert lines({"merge": True, "todos": new}, before=before) == ["[x] Read it", "[ ] Fix it", "[ ] Test it"]
    assert lines({"merge": False, "todos": new}, before=before) == ["[x] ", "[ ] Test it"]


def test_a_result_tells_a_list_or_an_object_that_holds_one():
    items = [{"content": "Fix it", "status": "pending"}]
    for told in (items, {"status": "listed", "todos": items}):
        assert plan_in_result(json.dumps(told), ("todos",)) == (Item("Fix it", "[ ]"),)
    for told in ("done", {"todos": "see above"}, {"count": 1}):
        assert plan_in_result(json.dumps(told), ("todos",)) is None


@pytest.mark.parametrize("tool", ["TodoWrite", "todowrite", "todoread", "todo", "todo_write", "update_plan"])
def test_tools_that_plan(tool: str):
    assert PlanTools().keys_of(tool)


def test_other_tools_plan_where_a_rule_says_so():
    assert PlanTools().keys_of("ExitPlanMode") == PlanTools().keys_of("read_file") == ()
    tools = PlanTools([LedgerRule("exit_plan_mode", "plan", "plan", "planned")])
    assert tools.keys_of("ExitPlanMode") == ("plan",)
    assert tools.may_stand_in(b'{"name":"ExitPlanMode"}')
    assert not tools.may_stand_in(b'{"name":"read_plan"}')


def test_a_list_that_stands_as_json_in_a_text_is_read():
    items = [{"content": "Read it", "status": "completed"}, {"content": "Fix it", "status": "pending"}]
    assert lines({"todos": json.dumps(items)}) == ["[x] Read it", "[ ] Fix it"]
    assert lines({"plan": "[draft] Read it, then fix it"}) == ["[draft] Read it, then fix it"]
