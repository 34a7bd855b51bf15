"""The newest instruction files and the newest plan stay in every view, word for word, while they fit."""

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
        self.files: dict[str, list[str]] = {}
        self.items: list[str] = []
        self.made = 0

    def turn(self) -> list[Message]:
        self.made += 1
        if self.rng.random() < 0.08:
            name = self.rng.choice(["/srv/CLAUDE.md", "/srv/api/CLAUDE.md"])
            self.files[name] = [f"## Part {k} of {self.made}\n\nRule {k}.{self.made} holds." for k in range(3)]
            return [rules_row(name, *self.files[name]), assistant("Understood.")]
        if self.rng.random() < 0.1:
            self.items = [f"Step {k} of plan {self.made}" for k in range(self.rng.randint(1, 6))]
            states = ("completed", "in_progress", "pending")
            todos = [{"content": item, "status": states[k % 3]} for k, item in enumerate(self.items)]
            return planned(self.dialect, f"todo_{self.made}", todos)
        return self.script.turn()

    def missing(self, view: list[Message]) -> list[str]:
        """What every view has to say, and this does not."""
        lines = [*(line for text in self.files.values() for line in "\n".join(text).split("\n")), *self.items]
        said = "\n".join(text for message in view for text in message_text_parts(message))
        return [line for line in lines if line not in said]


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
        for _ in range(30):
            await fill(context, work.turn())
            for budget in (150, 900):
                assert contexts.cost(await context.get_messages_for_request(budget)) <= budget
            view = await context.get_messages_for_request()
            assert work.missing(view) == []
            covered += sum(bool(block(view, tag)) for tag in BLOCKS)
        assert context.statistics().activations > 2
        assert covered > 10


async def test_reopening_and_restoring_give_the_same_bytes(tmp_path: Path):
    work = Work(5)
    async with begun([row for _ in range(60) for row in work.turn()], store=tmp_path / "s.db") as context:
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
        anew = await context.get_messages_for_request()
        assert [block(anew, tag) for tag in BLOCKS] == [block(view, tag) for tag in BLOCKS]


async def test_of_a_plan_without_room_the_open_items_stay_longest_and_in_order():
    todos = [{"content": f"Step {n} of the work", "status": ("completed", "pending")[n >= 270]} for n in range(300)]
    async with begun() as context:
        shown = block(await filled(context, *planned("openai", "1", todos)), "current_plan").split("\n")
    still_open = [f"[ ] Step {n} of the work" for n in range(270, 300)]
    lines = [line for line in shown if line.startswith(("[x]", "[ ]"))]
    assert [line for line in lines if line in still_open] == (still_open if len(lines) > 30 else lines)
    assert lines
    assert f"{300 - len(lines)} more items" in "\n".join(shown)


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
    async with begun() as context:
        view = await filled(context, pinned)
        assert (pinned in view, block(view, "project_instructions")) == (True, "")
    async with begun([FILE]) as context:
        view = await filled(context)
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
CODEX = """# AGENTS.md instructions for /srv/shop

<INSTRUCTIONS>
# Shop
Use tabs.
</INSTRUCTIONS>"""
OPENCODE = "Instructions from: {}\nUse tabs.\n\nInstructions from: {}\nBe brief."
AMPLIFIER = """<context_file paths="@AGENTS.md → /srv/shop/AGENTS.md">
Use tabs.
</context_file>
<context_file paths="docs/guide.md">
All about it.
</context_file>
<context_file>
# CLAUDE.md
Use spaces.
</context_file>"""
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
    said = [
        user("Read the instructions in CLAUDE.md and go on."),
        user("Contents of the box: one lamp (see the instructions)."),
        user("<system-reminder>\nContents of /srv/notes.txt:\n\nUse tabs.\n</system-reminder>"),
        user("What does this mean?\nContents of /srv/CLAUDE.md (project instructions):\nUse tabs."),
        assistant(CODEX),
    ]
    async with begun() as context:
        assert block(await filled(context, *said), "project_instructions") == ""
