"""Instruction files are told from all else by the marks that hosts write before them."""

from __future__ import annotations

import pytest

from summarizing_context.messages.instruction_files import instruction_files
from summarizing_context.messages.reading import read_message
from tests.making import Message, assistant, result, system, user

CLAUDE = """<system-reminder>
As you answer the user's questions, you can use the following context:
# claudeMd
Codebase and user instructions are shown below. Be sure to adhere to these instructions.

Contents of /home/ana/.claude/CLAUDE.md (user's private global instructions for all projects):

Answer in short sentences.

Contents of /home/ana/shop/CLAUDE.md (project instructions, checked into the codebase):

# Shop

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
OPENCODE = """Instructions from: /srv/shop/AGENTS.md
Use tabs.

Instructions from: /home/ana/.config/opencode/AGENTS.md
Be brief."""


def found(message: Message) -> list[tuple[str, str]]:
    return [tuple(file) for file in instruction_files(read_message(message))]


@pytest.mark.parametrize("typed", ["", "\nFix the parser."])
def test_files_in_a_reminder_of_claude_code(typed: str):
    assert found(user(CLAUDE + typed)) == [
        ("/home/ana/.claude/CLAUDE.md", "Answer in short sentences."),
        ("/home/ana/shop/CLAUDE.md", "# Shop\n\n## Tests\nRun `make test`."),
    ]


def test_a_reminder_in_a_block_of_its_own_beside_what_a_person_typed():
    blocks = [{"type": "text", "text": CLAUDE}, {"type": "text", "text": "Fix the parser."}]
    assert [name for name, _ in found(user(blocks))] == ["/home/ana/.claude/CLAUDE.md", "/home/ana/shop/CLAUDE.md"]


def test_a_file_of_a_folder_that_was_entered_later():
    text = "<system-reminder>\nContents of /srv/shop/api/CLAUDE.md:\n\nUse ports above 8000.\n</system-reminder>"
    assert found(user(text)) == [("/srv/shop/api/CLAUDE.md", "Use ports above 8000.")]


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


@pytest.mark.parametrize("role", ["user", "system", "developer"])
@pytest.mark.parametrize(
    ("text", "files"),
    [
        (CODEX, [("/srv/shop/AGENTS.md", "# Shop\nUse tabs.")]),
        ("<user_instructions>\n\nUse tabs.\n\n</user_instructions>", [("AGENTS.md", "Use tabs.")]),
        (OPENCODE, [("/srv/shop/AGENTS.md", "Use tabs."), ("/home/ana/.config/opencode/AGENTS.md", "Be brief.")]),
        (
            "--- Context from: GEMINI.md ---\nUse tabs.\n--- End of Context from: GEMINI.md ---",
            [("GEMINI.md", "Use tabs.")],
        ),
        ("# CLAUDE.md\n\nUse tabs.", [("CLAUDE.md", "# CLAUDE.md\n\nUse tabs.")]),
        (AMPLIFIER, [("/srv/shop/AGENTS.md", "Use tabs."), ("CLAUDE.md", "# CLAUDE.md\nUse spaces.")]),
    ],
)
def test_files_of_other_hosts(role: str, text: str, files: list[tuple[str, str]]):
    assert found({"role": role, "content": text}) == files


@pytest.mark.parametrize(
    "message",
    [
        user("Read the instructions in CLAUDE.md and go on."),
        user('<context_file paths="docs/guide.md">\nAll about it.\n</context_file>'),
        user("Contents of the box: one lamp (see the instructions)."),
        user("<system-reminder>\nContents of /srv/notes.txt:\n\nUse tabs.\n</system-reminder>"),
        user("What does this mean?\nContents of /srv/CLAUDE.md (project instructions):\nUse tabs."),
        assistant(CODEX),
        result("openai", "1", CODEX),
        result("anthropic", "1", CLAUDE),
        system("Be brief."),
    ],
)
def test_what_a_person_typed_a_model_said_or_a_tool_told_is_no_file(message: Message):
    assert found(message) == []
