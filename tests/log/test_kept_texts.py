"""Instruction files and plans of a log follow from the log alone, however it came about."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from summarizing_context.log.kept_texts import KeptTexts, rendered
from tests.making import Message, answer, assistant, call, entries, one_call, timeline, user


def rules(version: int, name: str = "/srv/AGENTS.md") -> Message:
    folder = name.removesuffix("/AGENTS.md")
    return user(f"# AGENTS.md instructions for {folder}\n\n<INSTRUCTIONS>\nVersion {version}.\n</INSTRUCTIONS>")


def todo(id: str, *items: str, tool: str = "TodoWrite") -> Message:
    todos = [{"content": item, "status": "pending"} for item in items]
    return call("openai", (id, tool, {"todos": todos}))


def failed(id: str) -> Message:
    block = {"type": "tool_result", "tool_use_id": id, "content": "no", "is_error": True}
    return {"role": "user", "content": [block]}


def told(kept: KeptTexts, cut: int = 10**6) -> Any:
    plan = None if kept.plan is None else rendered(kept.plan)
    return [tuple(file) for file in kept.instructions(cut)], plan


def plan_of(*log: Message) -> tuple[str, int] | None:
    _, plan = told(timeline(log).kept_texts)
    return None if plan is None else (plan.text, plan.message)


def test_the_newest_text_of_each_file_counts_and_only_where_it_is_covered():
    log = [rules(1), assistant("ok"), rules(2), rules(1, "/srv/api/AGENTS.md"), assistant("ok")]
    kept = timeline(log).kept_texts
    api = (3, "/srv/api/AGENTS.md", "Version 1.")
    assert told(kept, 5)[0] == [(2, "/srv/AGENTS.md", "Version 2."), api]
    assert told(kept, 3)[0] == [(2, "/srv/AGENTS.md", "Version 2.")]
    assert told(kept, 2)[0] == []  # the newest stands behind the cut


def test_a_log_of_an_earlier_version_holds_its_files_too():
    made = timeline([user("go"), rules(1)])
    for entry in made.entries:
        entry.facts = msgspec.structs.replace(entry.facts, files=None)  # as that version stored them
    kept = KeptTexts()
    for index, entry in enumerate(made.entries):
        kept.add(index, entry)
    assert told(kept)[0] == [(1, "/srv/AGENTS.md", "Version 1.")]


def test_leading_rows_are_in_every_view_and_not_kept_again():
    leading = {"role": "system", "content": rules(1)["content"]}
    assert told(timeline([leading, user("hi")]).kept_texts) == ([], None)


def test_the_newest_plan_holds_and_an_emptied_one_does_not():
    log = [user("go"), todo("1", "Read it", "Fix it"), answer("1"), todo("2", "Fix it"), answer("2")]
    assert plan_of(*log[:3]) == ("[ ] Read it\n[ ] Fix it", 1)
    assert plan_of(*log) == ("[ ] Fix it", 3)
    assert plan_of(*log, todo("3"), answer("3")) is None


def test_a_call_that_failed_takes_its_plan_back():
    log = [user("go"), todo("1", "Read it"), answer("1"), todo("2", "Fix it")]
    assert plan_of(*log, failed("2")) == ("[ ] Read it", 1)
    assert plan_of(*log, answer("2")) == ("[ ] Fix it", 3)


def test_a_list_that_a_tool_tells_is_the_plan():
    log = [user("go"), call("openai", ("1", "todoread", {})), answer("1", '[{"content": "Fix it", "status": "done"}]')]
    assert plan_of(*log) == ("[x] Fix it", 2)


def test_tasks_that_are_made_and_changed_one_by_one_are_the_plan():
    made = [call("openai", (id, "TaskCreate", {"subject": words, "description": "all of it"})) for id, words in TASKS]
    log = [user("go"), made[0], answer("a", "Task #1 created successfully: Read it"), made[1]]
    log += [answer("b", "Task #2 created successfully: Fix it"), *changed("c", "1", "completed")]
    assert plan_of(*log) == ("[x] Read it\n[ ] Fix it", 1)
    assert plan_of(*log, *changed("d", "2", "in_progress"), *changed("e", "7", "completed")) == (
        "[x] Read it\n[>] Fix it",
        1,
    )
    assert plan_of(*log, *changed("d", "2", "in_progress")[:1], failed("d")) == plan_of(*log)


TASKS = [("a", "Read it"), ("b", "Fix it")]


def changed(id: str, task: str, status: str) -> list[Message]:
    return [call("openai", (id, "TaskUpdate", {"taskId": task, "status": status})), answer(id, f"Updated task #{task}")]


@pytest.mark.parametrize("seed", range(20))
def test_a_log_that_was_replaced_keeps_what_a_new_one_would(seed: int):
    rng = random.Random(seed)
    log: list[Message] = []
    for n in range(80):
        kind = rng.randrange(7)
        id = str(rng.randrange(30))
        if kind < 2:
            log.append(rules(rng.randrange(4), f"/srv/{rng.randrange(2)}/AGENTS.md"))
        elif kind < 4:
            log += [todo(id, *(f"Item {k} of {n}" for k in range(rng.randrange(3))))]
            log += [rng.choice([answer(id), failed(id), user("No answer.")])]
        elif kind == 4:
            log += [call("openai", (id, "todoread", {}))]
            log += [rng.choice([answer(id, f'["told {n}"]'), user("Go on."), assistant("well")])]
        elif kind == 5:
            log.append(answer(id, '["late"]'))
        else:
            log += [one_call(id, text="word " * 60), answer(id, "word " * 60)]
    grown = timeline(log)
    stop = rng.randrange(len(log))
    changed = [*log[:stop], user("Something else."), *log[stop + 1 : stop + 9]]
    grown.replace(entries(changed))
    assert told(grown.kept_texts) == told(timeline(changed).kept_texts)
    grown.replace(entries(log))
    assert told(grown.kept_texts) == told(timeline(log).kept_texts)
