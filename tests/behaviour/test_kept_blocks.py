"""The newest instruction files and the newest plan stay in every view, word for word, while they fit."""

import itertools
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Plan, SummarizingContext, message_text_parts
from tests.behaviour import contexts
from tests.behaviour.contexts import block, fill
from tests.laws.builders import Message, Script, assistant, call, count, result, user

begun = partial(contexts.begun, of=partial(contexts.small, max_tokens=4_000))


def rules_row(name: str, *lines: str) -> Message:
    head = f"Contents of {name} (project instructions, checked into the codebase):"
    return user("\n".join(["<system-reminder>", head, "", *lines, "</system-reminder>"]))


def planned(dialect: str, id: str, todos: list[Message], tool: str = "TodoWrite") -> list[Message]:
    """A call that sets the to-do list, and its result."""
    return [call(dialect, (id, tool, {"todos": todos})), result(dialect, id, "Todos have been modified.")]


class Work:
    """A session whose instruction files and to-do list change now and then."""

    def __init__(self, seed: int, dialect: str = "openai") -> None:
        self.rng, self.dialect, self.script = random.Random(seed), dialect, Script(seed, dialect=dialect, size=30)
        self.said: dict[str, list[str]] = {}  # what every view has to say: of each file, and of the plan

    def turn(self, number: int) -> list[Message]:
        if self.rng.random() < 0.08:
            name = self.rng.choice(["/srv/CLAUDE.md", "/srv/api/CLAUDE.md"])
            self.said[name] = [
                line for k in range(3) for line in (f"## Part {k} of {number}", "", f"Rule {k}.{number}.")
            ]
            return [rules_row(name, *self.said[name]), assistant("Understood.")]
        if self.rng.random() < 0.1:
            self.said["plan"] = [f"Step {k} of plan {number}" for k in range(self.rng.randint(1, 6))]
            states = itertools.cycle(("completed", "in_progress", "pending"))
            todos = [{"content": item, "status": next(states)} for item in self.said["plan"]]
            return planned(self.dialect, f"todo_{number}", todos)
        return self.script.turn()

    def missing(self, view: list[Message]) -> list[str]:
        said = "\n".join(text for message in view for text in message_text_parts(message))
        return [line for lines in self.said.values() for line in lines if line not in said]


BLOCKS = ("current_plan", "project_instructions")
FILE = rules_row("/srv/CLAUDE.md", "Use tabs.")


async def filled(context: SummarizingContext, *rows: Message) -> list[Message]:
    """The view in which these rows are covered."""
    await fill(context, [user("Build the shop."), assistant("ok"), *rows, *Script(7, size=40).session(28, rules="")])
    await context.compact()
    return await context.get_messages_for_request()


@pytest.mark.parametrize(("seed", "dialect"), [(1, "openai"), (2, "anthropic"), (3, "amplifier")])
async def test_every_view_has_the_newest_texts(seed: int, dialect: str):
    """In a room where they have none, views stay within that."""
    work, covered = Work(seed, dialect), 0
    async with begun() as context:
        for number in range(30):
            await fill(context, work.turn(number))
            for budget in (150, 900):
                assert contexts.cost(await context.get_messages_for_request(budget)) <= budget
            view = await context.get_messages_for_request()
            assert work.missing(view) == []
            covered += sum(bool(block(view, tag)) for tag in BLOCKS)
        assert context.statistics().activations > 2
        assert covered > 10


async def test_reopening_and_restoring_give_the_same_bytes(tmp_path: Path):
    work = Work(5)
    async with begun([row for at in range(60) for row in work.turn(at)], store=tmp_path / "s.db") as context:
        await context.compact()
        then = view, _ = await context.get_messages_for_request(), await context.plan()
        assert all(block(view, tag) for tag in BLOCKS)
        checkpoint = await context.checkpoint("here")
        await context.set_messages([user("Something else."), *Script(8).session(80)])
        await context.compact()
        other = await context.get_messages_for_request()
        assert ([tag for tag in BLOCKS if block(other, tag)], await context.plan()) == ([], None)
        await context.restore(checkpoint)
        assert (await context.get_messages_for_request(), await context.plan()) == then
    async with begun(store=tmp_path / "s.db") as context:
        assert (await context.get_messages_for_request(), await context.plan()) == then
        await context.compact()
        rebuilt = await context.get_messages_for_request()
        assert [block(rebuilt, tag) for tag in BLOCKS] == [block(view, tag) for tag in BLOCKS]


async def test_of_a_plan_without_room_the_open_items_stay_longest_and_in_order():
    todos = [{"content": f"Step {n} of the work", "status": ("completed", "pending")[n >= 270]} for n in range(300)]
    async with begun() as context:
        shown = block(await filled(context, *planned("openai", "1", todos)), "current_plan")
    still_open = [f"[ ] Step {n} of the work" for n in range(270, 300)]
    lines = [line for line in shown.split("\n") if line.startswith(("[x]", "[ ]"))]
    assert [line for line in lines if line in still_open] == (still_open if len(lines) > 30 else lines) != []
    assert f"{300 - len(lines)} more items" in shown


async def test_a_call_with_merge_changes_single_items_of_the_plan():
    """Cursor's tool sends the items alone that it changes, and says so."""
    items = [{"id": "1", "content": "Dig", "status": "pending"}, {"id": "2", "content": "Build", "status": "pending"}]
    changes = {"merge": True, "todos": [{"id": "1", "status": "completed"}]}
    rows = [*planned("openai", "a", items, "todo_write"), call("openai", ("b", "todo_write", changes))]
    async with begun() as context:
        await filled(context, *rows, result("openai", "b", "done"))
        assert await context.plan() == Plan("[x] Dig\n[ ] Build", 4)


async def test_a_ledger_rule_names_tools_that_plan():
    rule = {"tool": "roadmap", "kind": "plan", "key": "stages", "operation": "planned"}
    row = call("openai", ("1", "set_roadmap", {"stages": ["Dig", "Build"]}))
    async with begun(ledger_rules=[rule]) as context:
        view = await filled(context, row, result("openai", "1", "ok"))
        assert await context.plan() == Plan("[ ] Dig\n[ ] Build", 2)
        assert "[ ] Dig\n[ ] Build" in block(view, "current_plan")


@pytest.mark.parametrize(("changed", "tags"), [({}, BLOCKS), ({"strategy": "truncate"}, ())])
async def test_each_block_can_be_switched_off(changed: dict[str, Any], tags: tuple[str, ...]):
    plan = planned("openai", "1", [{"content": "Fix it", "status": "in_progress"}], "todo_write")
    async with begun(**changed) as context:
        view = await filled(context, FILE, assistant("ok"), *plan)
        assert tuple(tag for tag in BLOCKS if block(view, tag)) == tags
        assert ("[>] Fix it" in block(view, "current_plan")) == bool(tags)


async def test_instructions_that_are_pinned_are_not_repeated_and_those_that_open_a_log_leave_room_to_the_request():
    pinned = {**FILE, "critical": True}
    async with begun() as context, begun([FILE]) as opening:
        view = await filled(context, pinned)
        assert (pinned in view, block(view, "project_instructions")) == (True, "")
        view = await filled(opening)
        assert (FILE in view, user("Build the shop.") in view) == (False, True)
        assert "Use tabs." in block(view, "project_instructions")


async def test_human_messages_stay_word_for_word_the_newest_first():
    said = [f"Wish {n}: {'word ' * 20}" for n in range(40)]
    rows = [row for text in said for row in (user(text), assistant("done " * 40))]
    for keeps in (False, True):
        async with begun([user("Build the shop."), assistant("ok"), *rows], keep_human_messages=keeps) as context:
            await context.summarize(2)
            view = await context.get_messages_for_request()
            for budget in (150, 900):
                assert contexts.cost(await context.get_messages_for_request(budget)) <= budget
        kept = [text for text in said if user(text) in view]
        assert kept == said[-len(kept) :]
        assert len(kept) > 10 if keeps else len(kept) <= 2
        assert sum(4 + count(text) for text in kept) <= 4_000 * 0.1 * 3  # twice the pin share, and the latest message


CLAUDE = """<system-reminder>
As you answer the user's questions, you can use the following context:
# claudeMd
Codebase and user instructions are shown below. Be sure to adhere to these instructions.

Contents of /home/ana/.claude/CLAUDE.md (user's private global instructions for all projects):

Answer in short sentences.

Contents of /home/ana/shop/CLAUDE.md (project instructions, checked into the codebase):

## Tests
Run `make test`.
# currentDate
Today's date is 2026-11-23.

      IMPORTANT: this context may or may not be relevant to your tasks.
</system-reminder>"""
CODEX = "# AGENTS.md instructions for /srv/shop\n\n<INSTRUCTIONS>\n# Shop\nUse tabs.\n</INSTRUCTIONS>"
OPENCODE = "Instructions from: {}\nUse tabs.\n\nInstructions from: {}\nBe brief."
AMPLIFIER = """<context_file paths="@AGENTS.md → /srv/shop/AGENTS.md">\nUse tabs.\n</context_file>
<context_file paths="docs/guide.md">\nAll about it.\n</context_file>
<context_file>\n# CLAUDE.md\nUse spaces.\n</context_file>"""
TWO = ["/srv/shop/AGENTS.md", "/home/ana/.config/opencode/AGENTS.md"]
HOSTS = {
    CLAUDE: ["/home/ana/.claude/CLAUDE.md", "Answer in short sentences."],
    CLAUDE + "\nFix the parser.": ["/home/ana/shop/CLAUDE.md", "Run `make test`."],
    CODEX: ["/srv/shop/AGENTS.md", "# Shop\nUse tabs."],
    "<user_instructions>\n\nUse tabs.\n\n</user_instructions>": ["AGENTS.md", "Use tabs."],
    OPENCODE.format(*TWO): [*TWO, "Use tabs.", "Be brief."],
    "--- Context from: GEMINI.md ---\nUse tabs.\n--- End of Context from: GEMINI.md ---": ["GEMINI.md", "Use tabs."],
    "# CLAUDE.md\n\nUse tabs.": ["CLAUDE.md", "Use tabs."],
    AMPLIFIER: ["/srv/shop/AGENTS.md", "Use tabs.", "CLAUDE.md", "Use spaces."],
}


@pytest.mark.parametrize("text", HOSTS)
async def test_instruction_files_are_known_by_the_marks_of_their_hosts(text: str):
    async with begun() as context:
        shown = block(await filled(context, user(text)), "project_instructions")
    assert [said for said in HOSTS[text] if said not in shown] == []
    assert "guide.md" not in shown


async def test_what_a_person_typed_or_a_model_said_is_no_instruction_file():
    said = (
        "Read the instructions in CLAUDE.md and go on.",
        "Contents of the box: one lamp (see the instructions).",
        "<system-reminder>\nContents of /srv/notes.txt:\n\nUse tabs.\n</system-reminder>",
        "What does this mean?\nContents of /srv/CLAUDE.md (project instructions):\nUse tabs.",
    )
    async with begun() as context:
        assert block(await filled(context, *map(user, said), assistant(CODEX)), "project_instructions") == ""
