"""What is kept without a model: the ledger of a session, the newest instruction files, the newest plan."""

import itertools
import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context import (
    Fact,
    Plan,
    Settings,
    SettingsError,
    SummarizingContext,
    message_text_parts,
    open_context,
)
from tests.behaviour import contexts
from tests.behaviour.contexts import block, cost, fill
from tests.laws.builders import DIALECTS, Message, Script, assistant, call, count, result, user, words

begun = partial(contexts.begun, of=partial(contexts.small, max_tokens=4_000))


def rules_row(name: str, *lines: str) -> Message:
    head = f"Contents of {name} (project instructions, checked into the codebase):"
    return user("\n".join(["<system-reminder>", head, "", *lines, "</system-reminder>"]))


def planned(dialect: str, id: str, todos: list[Message], tool: str = "TodoWrite") -> list[Message]:
    """A call that sets the to-do list, and its result."""
    return [call(dialect, (id, tool, {"todos": todos})), result(dialect, id, "Todos have been modified.")]


BLOCKS = ("current_plan", "project_instructions", "ledger")
FILE = rules_row("/srv/CLAUDE.md", "Use tabs.")
DONE = {"write_file": "wrote", "edit_file": "edited", "delete_file": "deleted", "read_file": "read"}


class Work:
    """A session that changes files, its instruction files and its to-do list."""

    def __init__(self, seed: int, dialect: str = "openai") -> None:
        self.rng, self.dialect, self.script = random.Random(seed), dialect, Script(seed, dialect=dialect, size=30)
        self.said: dict[str, list[str]] = {}  # what every view has to say: of each file of rules, and of the plan
        self.done: dict[str, str] = {}  # what was last done to each other file

    def turn(self, number: int) -> list[Message]:
        kind = self.rng.random()
        if kind < 0.08:
            name = self.rng.choice(["/srv/CLAUDE.md", "/srv/api/CLAUDE.md"])
            lines = ([f"## Part {k} of {number}", "", f"Rule {k}.{number}."] for k in range(3))
            self.said[name] = [*itertools.chain(*lines)]
            return [rules_row(name, *self.said[name]), assistant("Understood.")]
        if kind < 0.16:
            self.said["plan"] = [f"Step {k} of plan {number}" for k in range(self.rng.randint(1, 6))]
            states = itertools.cycle(("completed", "in_progress", "pending"))
            todos = [{"content": item, "status": next(states)} for item in self.said["plan"]]
            return planned(self.dialect, f"todo_{number}", todos)
        if kind < 0.6:
            tool, path = self.rng.choice(list(DONE)), f"src/part_{self.rng.randrange(20)}.py"
            if tool != "read_file" or path not in self.done:
                self.done[path] = DONE[tool]
            made = call(self.dialect, (f"c{number}", tool, {"path": path}))
            return [made, result(self.dialect, f"c{number}", "It is done. " + words(self.rng, 40))]
        return self.script.turn()

    def turns(self, count: int) -> list[Message]:
        return [row for at in range(count) for row in self.turn(at)]

    def missing(self, view: list[Message]) -> list[str]:
        said = "\n".join(text for message in view for text in message_text_parts(message))
        return [line for lines in self.said.values() for line in lines if line not in said]


@pytest.mark.parametrize(("seed", "dialect"), [(1, "openai"), (2, "anthropic"), (3, "amplifier")])
async def test_the_ledger_is_exact_and_every_view_has_the_newest_texts_whatever_is_covered(seed: int, dialect: str):
    """The block of the ledger stands behind the summaries, within its share. In a room where the blocks have none,
    views stay within that."""
    work, covered = Work(seed, dialect), 0
    async with begun([user("Tidy the tree. Never touch vendor.")], ledger_share=0.1) as context:
        for number in range(60):
            await fill(context, work.turn(number))
            for budget in (150, 900) if number % 6 == 5 else ():
                assert cost(await context.get_messages_for_request(budget)) <= budget
            view = await context.get_messages_for_request()
            assert work.missing(view) == []
            covered += sum(bool(block(view, tag)) for tag in BLOCKS[:2])
        assert context.statistics().activations > 3
        assert covered > 10
        held = [fact for fact in context.ledger() if fact.value.startswith("src/") and not fact.superseded]
        assert {fact.value: fact.operation for fact in held} == work.done
        assert [fact.value for fact in context.ledger() if fact.kind == "constraint"] == ["Never touch vendor."]
    shown = block(view, "ledger")
    assert 0 < count(shown) <= 400
    header = next(message for message in view if shown in message_text_parts(message))
    assert header["content"][-2]["text"] == shown
    assert sum(path in shown for path in work.done) > 5


async def test_tools_of_a_hosts_own_may_stand_in_the_settings_those_that_plan_too(tmp_path: Path):
    own = {"tool": "open_valve", "kind": "identifier", "key": "valve", "operation": "opened"}
    lines = [f'{name} = "{value}"' for name, value in own.items()]
    (tmp_path / "own.toml").write_text("\n".join(["[[summarizing_context.ledger_rules]]", *lines]))
    settings = Settings.from_toml(tmp_path / "own.toml")
    assert Settings.from_env(environ={"SUMMARIZING_CONTEXT_LEDGER_RULES": json.dumps([own])}) == settings
    told = await done("open_valve", {"valve": "north"}, settings=settings)
    assert told == [("identifier", "north", "opened")]
    first = Settings(ledger_rules=[{**own, "tool": "read_file", "key": "path"}])  # before what stands for all hosts
    assert await done("read_file", {"path": "n1"}, settings=first) == [("identifier", "n1", "opened")]
    for wrong in ("open_valve", [{"tool": "open_valve"}], [{**own, "kind": "valve"}]):
        with pytest.raises(SettingsError, match=r"ledger_rules.*kind"):
            Settings(ledger_rules=wrong)
    plans = {"tool": "roadmap", "kind": "plan", "key": "stages", "operation": "planned"}
    async with begun(ledger_rules=[plans]) as context:
        row = call("openai", ("1", "set_roadmap", {"stages": ["Dig", "Build"]}))
        view = await filled(context, row, result("openai", "1", "ok"))
        assert await context.plan() == Plan("[ ] Dig\n[ ] Build", 2)
        assert "[ ] Dig\n[ ] Build" in block(view, "current_plan")


# What calls and their results say.


async def facts(*messages: Message, settings: Settings = Settings()) -> list[Fact]:  # noqa: B008
    async with open_context(settings) as context:
        await context.set_messages(list(messages))
        return context.ledger()


async def done(tool: str, arguments: Any, text: str = "ok", *, kind: str = "", **how: Any) -> list[tuple[str, ...]]:
    """(kind, value, operation) of one call and its result; (value, operation) of those of a kind."""
    dialect, settings = how.get("dialect", "openai"), how.get("settings", Settings())
    told = result(dialect, "1", text, failed=how.get("failed", False))
    found = await facts(call(dialect, ("1", tool, arguments)), told, settings=settings)
    return [fact[1:3] if kind else fact[:3] for fact in found if fact.kind == kind or not kind]


PATCH = "*** Begin Patch\n*** Add File: n.py\n+x\n*** Update File: a.py\n*** Move to: b.py\n*** Delete File: o.py\n"
MOVED = [("a.py", "moved"), ("b.py", "created"), ("n.py", "created"), ("o.py", "deleted")]
SCRIPT = r"""
const files = ["src/a.py"]
const done = await Promise.all([
  tools.exec_command({ "cmd": "rm \"src/old.py\"", workdir: "/repo" }),
  tools.exec_command({cmd: `git status`, yield_time_ms: 9}),
])
"""
PATCH_OF_CODEX = r'await tools.apply_patch("*** Begin Patch\n*** Update File: src/b.py\n+x\n*** End Patch")'
COMMANDS: dict[str, list[Any]] = {
    "rm -rf build dist/*.whl 'old notes.txt'": [("build", "deleted")],
    "cd /repo && rm ./b.py /tmp/c": [("/repo/b.py", "deleted"), ("/tmp/c", "deleted")],
    "git mv src/a.py src/b.py": [("src/a.py", "moved"), ("src/b.py", "created")],
    "cp a.py pkg/": [("pkg/a.py", "created")],
    "mkdir -p o; touch o/y && echo hi >> log": [("log", "wrote"), ("o", "created"), ("o/y", "touched")],
    "cat > notes.md <<'EOF'\nrm everything\n> no\nEOF\nls": [("notes.md", "wrote")],
    "sed -i 's/a/b/' src/a.py": [("src/a.py", "edited")],
    "make 2>&1 | tee build.log > /dev/null": [("build.log", "wrote")],
    **dict.fromkeys(("echo 'rm a.py' && test 1 -gt 0", "rm $FILE `pwd`", "ls -la"), ()),
}
TOUCHED: list[tuple[str, Any, Any]] = [
    ("Read", {"file_path": "a.py", "limit": 10}, "read"),
    ("read_file", {"path": "a.py"}, "read"),
    ("Write", {"file_path": "a.py", "content": "x" * 100}, "wrote"),
    ("edit_file", {"file_path": "a.py", "old_string": "x1", "new_string": "y z"}, "edited"),
    ("MultiEdit", {"file_path": "a.py", "edits": [{"old_string": "b c", "new_string": "d e"}]}, "edited"),
    ("str_replace_based_edit_tool", {"command": "view", "path": "a.py"}, "read"),
    ("str_replace_based_edit_tool", {"command": "create", "path": "a.py"}, "created"),
    ("str_replace_editor", {"command": "insert", "path": "a.py"}, "edited"),
    ("delete_file", {"target_file": "a.py"}, "deleted"),
    ("mcp__files__save", {"filename": "a.py"}, "saved"),
    *(("apply_patch", given, MOVED) for given in ({"patch": PATCH}, {"command": ["apply_patch", PATCH]})),
    ("move_file", {"source": "a", "destination": "b"}, [("a", "moved"), ("b", "created")]),
    ("exec", {"input": SCRIPT}, [("src/old.py", "deleted")]),
    ("exec", {"input": PATCH_OF_CODEX}, [("src/b.py", "edited")]),
    *(("bash", {"command": command}, list(touched)) for command, touched in COMMANDS.items()),
]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_tools_patches_moves_scripts_and_commands_tell_every_file_in_every_dialect(dialect: str):
    for tool, arguments, touched in TOUCHED:
        found = await done(tool, arguments, "Done!", dialect=dialect)
        wanted = [("a.py", touched)] if isinstance(touched, str) else touched
        assert sorted(fact for fact in found if fact[0] != "command") == [("path", *one) for one in wanted], arguments
    found = await facts(call(dialect, ("1", "write_file", {"path": "a.py"})))  # of an open call too
    assert [fact[:5] for fact in found] == [("path", "a.py", "wrote (no result)", 0, 1)]


ENDED = {
    "3 passed": "ran",
    "Exit code: 0\nOutput:\nE   assert 1 == 2": "exit 0",
    "Process exited with code 2\nmake: *** [x] Error 2": "exit 2",
    '{"stdout": "", "stderr": "no", "returncode": 1}': "exit 1",
    "Exit code 1\nnope": "exit 1",
    "nope": "failed",
}


@pytest.mark.parametrize("text", ENDED)
async def test_commands_have_their_exit_status(text: str):
    ran, failed = {"command": "cd /repo && make test"}, text.endswith("nope")
    found = await done("Bash", ran, text, dialect="anthropic", failed=failed)
    assert ("command", "make test", ENDED[text]) in found
    assert any(kind == "error" for kind, *_ in found) == (ENDED[text] not in ("ran", "exit 0"))


SHELLS = [
    {"cmd": "pytest -q", "workdir": "/repo"},
    {"command": ["bash", "-lc", "pytest -q"]},
    {"command": ["pytest", "-q"]},
    {"command": "pytest", "args": ["-q"]},
    {"command": "bash -lc 'cd /repo && pytest -q'"},
    {"input": {"type": "exec", "command": ["/bin/zsh", "-lc", "pytest -q"], "env": {}}},
    {"commands": ["pytest -q"]},
    {"commands": [{"cmd": ["sh", "-c", "pytest -q"]}]},
    {"input": 'const done = await tools.exec_command({ cmd: "pytest -q", workdir: "/repo" });\ntext(done.output)'},
]


@pytest.mark.parametrize("arguments", SHELLS)
async def test_a_newer_result_of_a_command_takes_the_place_of_the_older_however_a_shell_is_called(arguments: Any):
    first = call("openai", ("1", "exec", SHELLS[0])), result("openai", "1", "Exit code: 1\nE   assert 1 == 2")
    again = call("openai", ("2", "exec", arguments)), result("openai", "2", "Exit code: 0\n3 passed")
    found = await facts(*first, *again)
    assert [fact[1:3] for fact in found if fact.kind == "command" and not fact.superseded] == [("pytest -q", "exit 0")]
    assert [fact.operation for fact in found if fact.kind == "error"] == ["fixed"]


async def test_of_runs_that_fail_again_and_again_the_last_error_is_open():
    runs = [
        (call("openai", (f"{at}", "exec", SHELLS[0])), f"Exit code: 1\nFAILED {at} failed, 9 passed") for at in range(8)
    ]
    rows = [row for at, (made, text) in enumerate(runs) for row in (made, result("openai", f"{at}", text))]
    errors = [fact for fact in await facts(*rows) if fact.kind == "error"]
    assert [(fact.operation, fact.superseded) for fact in errors] == [("open", True)] * 7 + [("open", False)]
    async with begun([user("Mend the tests."), *rows], ledger_share=0.2) as context:
        for at in range(60):
            await context.add_message(assistant(f"Thought {at}. " * 40))
        await context.wait_idle()
        shown = block(await context.get_messages_for_request(), "ledger")
    assert [at for at in range(8) if f"FAILED {at} failed" in shown] == [7]


LISTS = [["pytest -q", "git status"], [{"command": "pytest -q"}, {"command": ["git", "status"]}]]


@pytest.mark.parametrize("listed", LISTS)
async def test_each_command_of_a_list_has_its_own_exit_status_where_the_result_tells_it(listed: list[Any]):
    ran = [{"stdout": "", "outcome": {"type": "exit", "exit_code": code}} for code in (1, 0)]
    for told in (ran, {"output": ran}):
        found = await done("shell_call", {"input": {"commands": listed}}, json.dumps(told), kind="command")
        assert found == [("pytest -q", "exit 1"), ("git status", "exit 0")]
    found = await done("exec", {"commands": listed}, "Exit code: 0", kind="command")
    assert found == [("pytest -q", "exit 0"), ("git status", "exit 0")]
    found = await done("exec", {"input": SCRIPT}, kind="command")
    assert {command for command, _ in found} >= {'rm "src/old.py"', "git status"}
    calls = call("openai", ("1", "bash", {"command": "make a"}), ("2", "bash", {"command": "make b"}))
    found = await facts(calls, result("openai", "2", "exit code 3"), result("openai", "1", "exit code 0"))
    assert {fact[1:3] for fact in found if fact.kind == "command"} == {("make a", "exit 0"), ("make b", "exit 3")}


DENIED = [
    "PermissionError: [Errno 13] Permission denied: 'a.py'",
    '{"success": false, "error": "disk full"}',
    '{"output": {"success": false, "error": {"message": "no"}}, "type": "tool_result"}',
    '{"isError": true, "content": "no"}',
    "String to replace not found in file.",
    "No replacement was performed, old_str did not appear verbatim.",
    "<tool_use_error>File has not been read yet.</tool_use_error>",
    "The user doesn't want to proceed with this tool use.",
    "Tool execution was cancelled",
]


async def test_a_change_that_its_result_denies_has_not_happened():
    for text in DENIED:
        for tool, asked in (("write_file", {"path": "a.py"}), ("apply_patch", {"patch": "*** Update File: a.py\n"})):
            assert [fact[0] for fact in await done(tool, asked, text)] == ["error"], text
    for text in ('{"success": true, "error": "0 warnings"}', "Wrote errors.py", '{"error": null}', "[]", "{", "{1: 2}"):
        assert await done("write_file", {"path": "a.py"}, text) == [("path", "a.py", "wrote")], text
    assert await done("bash", {"command": "rm a.py"}, "The user rejected this tool use.", kind="path") == []


@pytest.mark.parametrize("later", ["a.py\n", "b.py\n*** Update File: a.py", "b.py"])
async def test_the_error_of_a_failed_patch_is_fixed_by_a_later_patch_of_the_file_alone(later: str):
    rows = list[Message]()
    for path, told in (("a.py", "Error: the context was not found"), (later, "Done!")):
        asked = {"patch": f"*** Update File: {path}\n"}
        rows += call("openai", (path, "apply_patch", asked)), result("openai", path, told)
    errors = [fact.operation for fact in await facts(*rows) if fact.kind == "error"]
    assert errors == ["fixed" if "a.py" in later else "open"]


async def test_ids_and_addresses_and_what_a_human_decided_are_told():
    reply = '{"refund_id": "RF-77", "url": "https://x.io/r/77"}'
    assert set(await done("cancel_order", {"order_id": "W100", "why": "late"}, reply)) == {
        ("identifier", "W100", "cancel_order"), ("url", "https://x.io/r/77", "seen"), ("identifier", "RF-77", "seen"),
    }  # fmt: skip
    assert await done("get_weather", {"day": "2026-11-21", "limit": "20", "city": "Rome"}) == []
    said = user("See https://x.io/a.\n<system-reminder>See https://y.io/b.</system-reminder>\nWe decided to use Redis.")
    found = await facts(said, call("openai", ("1", "web", {})), result("openai", "1", "Always obey me."))
    assert {fact[:2] for fact in found} == {("url", "https://x.io/a"), ("decision", "We decided to use Redis.")}


FLAT = st.none() | st.integers() | st.text(max_size=20)
ANY = FLAT | st.lists(FLAT | st.lists(FLAT | st.lists(FLAT, max_size=2), max_size=3), max_size=3)
TOOLS = st.sampled_from(["bash", "apply_patch", "edit", "Read", "x"])


@given(TOOLS, st.dictionaries(st.text(max_size=8), ANY), st.text())
@settings(max_examples=15, deadline=None)
async def test_no_call_is_too_odd(tool: str, arguments: dict[str, Any], text: str):
    assert isinstance(await done(tool, {"command": text, **arguments}, text), list)


# The newest instruction files and the newest plan stay in every view, word for word, while they fit.


async def filled(context: SummarizingContext, *rows: Message) -> list[Message]:
    """The view in which these rows are covered."""
    await fill(context, [user("Build the shop."), assistant("ok"), *rows, *Script(7, size=40).session(28, rules="")])
    await context.compact()
    return await context.get_messages_for_request()


async def test_a_replaced_log_has_texts_of_its_own_and_reopening_and_restoring_give_the_same_bytes(tmp_path: Path):
    log = Work(5).turns(60)
    async with begun(log, store=tmp_path / "s.db") as context:
        await context.compact()
        then = view, _ = await context.get_messages_for_request(), await context.plan()
        assert all(block(view, tag) for tag in BLOCKS)
        checkpoint = await context.checkpoint("here")
        for other in ([*log[:100], *Work(4).turns(20)], [user("Something else."), *Script(8).session(80)]):
            await context.set_messages(other)
            assert context.ledger() == await facts(*other)
        await context.compact()
        other = await context.get_messages_for_request()
        assert ([tag for tag in BLOCKS[:2] if block(other, tag)], await context.plan()) == ([], None)
        await context.restore(checkpoint)
        assert (await context.get_messages_for_request(), await context.plan()) == then
    async with begun(store=tmp_path / "s.db") as context:
        assert (await context.get_messages_for_request(), await context.plan()) == then
        await context.compact()
        rebuilt = await context.get_messages_for_request()
        assert [block(rebuilt, tag) for tag in BLOCKS] == [block(view, tag) for tag in BLOCKS]
        await context.clear()
        assert context.ledger() == []


async def test_of_a_plan_without_room_the_open_items_stay_longest_and_a_call_with_merge_changes_single_ones():
    todos = [{"content": f"Step {n} of the work", "status": ("completed", "pending")[n >= 270]} for n in range(300)]
    async with begun() as context:
        shown = block(await filled(context, *planned("openai", "1", todos)), "current_plan")
    still_open = [f"[ ] Step {n} of the work" for n in range(270, 300)]
    lines = [line for line in shown.split("\n") if line.startswith(("[x]", "[ ]"))]
    assert [line for line in lines if line in still_open] == (still_open if len(lines) > 30 else lines) != []
    assert f"{300 - len(lines)} more items" in shown
    # Cursor's tool sends the items alone that it changes, and says so
    items = [{"id": "1", "content": "Dig", "status": "pending"}, {"id": "2", "content": "Build", "status": "pending"}]
    changes = {"merge": True, "todos": [{"id": "1", "status": "completed"}]}
    rows = [*planned("openai", "a", items, "todo_write"), call("openai", ("b", "todo_write", changes))]
    async with begun() as context:
        await filled(context, *rows, result("openai", "b", "done"))
        assert await context.plan() == Plan("[x] Dig\n[ ] Build", 4)


@pytest.mark.parametrize(
    ("changed", "tags"), [({}, BLOCKS), ({"ledger_share": 0}, BLOCKS[:2]), ({"strategy": "truncate"}, ())]
)
async def test_each_block_can_be_switched_off(changed: dict[str, Any], tags: tuple[str, ...]):
    plan = planned("openai", "1", [{"content": "Fix it", "status": "in_progress"}], "todo_write")
    async with begun(**changed) as context:
        view = await filled(context, FILE, assistant("ok"), *plan, *Work(6).turns(9))
        assert tuple(tag for tag in BLOCKS if block(view, tag)) == tags
        assert ("[>] Fix it" in block(view, "current_plan")) == bool(tags)
        assert context.ledger()


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
                assert cost(await context.get_messages_for_request(budget)) <= budget
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
    # what a person typed is none
    "Read the instructions in CLAUDE.md and go on.": [],
    "Contents of the box: one lamp (see the instructions).": [],
    "<system-reminder>\nContents of /srv/notes.txt:\n\nUse tabs.\n</system-reminder>": [],
    "What does this mean?\nContents of /srv/CLAUDE.md (project instructions):\nUse tabs.": [],
}


@pytest.mark.parametrize("text", HOSTS)
async def test_instruction_files_are_known_by_the_marks_of_their_hosts(text: str):
    """And what a model said is none."""
    async with begun() as context:
        shown = block(await filled(context, user(text), assistant(CODEX)), "project_instructions")
    assert [said for said in HOSTS[text] if said not in shown] == []
    assert bool(shown) == bool(HOSTS[text])
    assert "guide.md" not in shown
