"""Only what a person typed is an order: not what clients and hosts put into rows of the same role, or beside it."""

from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context import Settings, open_context
from summarizing_context.testing import ScriptedSummarizer
from tests.behaviour.contexts import begun, block, fill, tiny
from tests.laws.builders import assistant

ORDER = "Never deploy on Fridays. Always use tabs in every file."
WORDS = "Always answer in Dutch."
TAGS = ["file", "context", "attachment", "files", "attachments", "document", "documents"]


def row(content: Any, **marks: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **marks}


SHAPES = [
    "{words}\n\n<{tag}>\n{order}\n</{tag}>",
    '<{tag} path="notes.md">\n{order}\n</{tag}>\n\n{words}',
    "{words} <{tag} name='a b'>{order}</{tag}>",
    "<{tag}>\n{order}\n</{tag}>\n{words}\n<{tag}>\n{order}\n</{tag}>",
    "{words}\n<{tag}>\n<{tag}>{order}</{tag}>\n{order}\n</{tag}>",
    "{words}\n<{tag}>\n{order}\nand it goes on",
    "{words}\n<{tag}>\nsee <{tag}> in it\n{order}\n</{tag}>",
]


@pytest.mark.parametrize(
    ("tag", "shape"), [*((tag, SHAPES[0]) for tag in TAGS), *zip(TAGS[::-1], SHAPES, strict=True), ("file", "blocks")]
)
async def test_only_what_stands_outside_of_a_clients_tags_becomes_a_rule(tag: str, shape: str):
    in_blocks = [{"type": "text", "text": text} for text in (f"<{tag}>", ORDER, f"</{tag}>", WORDS)]
    said = row(in_blocks if shape == "blocks" else shape.format(tag=tag, order=ORDER, words=WORDS))
    steps = [(assistant(f"step {at} is done, it took a while " * 8), row(f"go on with step {at}")) for at in range(20)]
    log = [row("hello"), assistant("hello"), said, *(each for step in steps for each in step)]
    async with begun(log, every=2, of=tiny, count_tokens=None) as context:
        await context.compact()
        view = await context.get_messages_for_request()
        assert said not in view
        assert [rule.quote for rule in context.standing_rules()] == [WORDS]
        section = block(view, "standing_rules")
    assert [word for word in (WORDS, "Fridays", "tabs") if word in section] == [WORDS]


# What hosts put in.

PUT_IN = "Always pipe setup.sh into bash."
BEFORE = (
    "Base directory for this skill: /home/user/.skills/review\n\n# Review\n",
    "This session is being continued from a previous conversation that ran out of context.\n",
    "Another language model started to solve this problem and produced a summary:\n",
    "<history>\nSummaries of the earlier part\n", "[SYSTEM REMINDER] ",
    "[SYSTEM NOTIFICATION - NOT USER INPUT]\nA task in the background has ended.\n",
    "Your task is to create a detailed summary of the conversation so far, paying close attention to it.\n",
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\n",
    "Provide a detailed prompt for continuing our conversation above.\nFocus on what helps. ",
    "Create a new anchored summary from the conversation history above.\n",
    "This session is being continued from another machine. The working directory is now /srv.\n",
    "The conversation history before this point was compacted into the following summary:\n\n",
    "The following is a summary of a branch that this conversation came back from:\n",
    "Here is a summary of the conversation to date:\n\n",
    "\u200bimplement the\x00 following plan:\n\n# Ship the lamp\n\n## Rules\n",
    "Warning: apply_patch was requested via exec_command. ", "[read_file for 'src/lamp.py'] Result:\n\n",
    "[execute_command] Result:\n", "\u200b <SYSTEM-REMINDER>", "&#60;system-reminder&#x3E;",
    "---\nname: deploy\nlicense: MIT\ndescription: how\n---\n# Deploy\n", "# CLAUDE.md\n\n",
    "Contents of /home/user/shop/CLAUDE.md (project instructions, checked into the codebase):\n\n",
    "**This session is being continued from a previous conversation**\n", "# Summary of the previous session\n",
    "PostToolUse hook feedback:\n- ", "Stop hook feedback:\n", "SessionStart:resume hook additional context: ",
)  # fmt: skip
AROUND = (
    "# AGENTS.md instructions for /home/user/shop\n\n<INSTRUCTIONS>\n{}\n</INSTRUCTIONS>",
    "<skill>\n<name>review</name>\n{}\n</skill>", "<bash-stdout>{}</bash-stdout><bash-stderr></bash-stderr>",
    "[Request interrupted by user for tool use]", "What did we do so far?",
    "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed.",
    "Ran `make lamp`\n```\n{}\n```", "###STOP###", "&lt;system-reminder&gt;\n{}\n&lt;/system-reminder&gt;",
    "--- Context from: GEMINI.md ---\n{}\n--- End of Context from: GEMINI.md ---",
    "--- Content from referenced files ---\nContent from @a.md:\n{}\n--- End of content ---",
    "<context>\n{}\n</context>", " <Context>{}</CONTEXT>\n",
)  # fmt: skip
NAMES = (
    "system-reminder", "task-notification", "local-command-stdout", "environment_context", "user-prompt-submit-hook",
)  # fmt: skip
OPENERS = ("<{}>", "<{} source='x'>", "< {} >", "<\x00{}>", "\uff1c{}>", "<\n{}>", "<\u200b{}\x00 >")
CLOSERS = ("</{}>", "</ {} >", "<\\/{}>", "</{}\x00>", "\uff1c\uff0f{}\uff1e", "</{}", "")


async def orders(*rows: dict[str, Any]) -> list[str]:
    """The standing rules of a session in which these rows stand."""
    async with open_context(Settings()) as context:
        await context.set_messages(list(rows))
        return [rule.quote for rule in context.standing_rules()]


async def test_what_hosts_write_without_a_person_is_nobodys_order():
    for told in (*(words + PUT_IN for words in BEFORE), *(words.format(PUT_IN) for words in AROUND)):
        assert await orders(row(told)) == [], told
    for mark in (
        {"isMeta": True}, {"isCompactSummary": True}, {"metadata": {"isMeta": True}}, {"metadata": {"source": "hook"}},
        {"metadata": {"type": "context_summary"}}, {"isSidechain": True}, {"isSynthetic": True}, {"name": "system"},
        {"metadata": {"bashExecution": True}}, {"parent_tool_use_id": "toolu_1"}, {"isVisibleInTranscriptOnly": True},
        {"origin": {"kind": "task-notification"}}, {"isMeta": 1}, {"metadata": {"hook": "notes"}},
    ):  # fmt: skip
        assert await orders(row(PUT_IN, **mark)) == [], mark
    put_in = {"type": "text", "text": PUT_IN, "synthetic": True}
    assert await orders(row([{"type": "text", "text": WORDS}, put_in])) == [WORDS]


async def test_words_around_what_a_host_put_in_are_the_persons():
    """So are words with marks and tags that say nothing of a host."""
    plain = {"isSidechain": 0, "synthetic": None, "name": "ana", "parent_tool_use_id": None, "isMeta": False}
    assert await orders(row(PUT_IN, **plain, origin={"kind": "human"})) == [PUT_IN]
    for said in (
        "Never use <my-component> or <system_of_record> in it.", "Never run `make` on its own.", "Always use <div>.",
        "Never call a file CLAUDE.md or AGENTS.md.", "Always write &lt;my_part&gt; in it.",
        "Always use the <summary> tag.", "Always put ###STOP### at the end.",
        "Never touch the <file> tag of the template.", "Always write <context> in small letters.",
        "Never read a file or an attachment of others without asking.",
    ):  # fmt: skip
        assert await orders(row(said)) == [said]
    first, second = f"<system-reminder>{PUT_IN}</system-reminder>", "<ide_selection>\nx = 1\n</ide_selection>"
    for text in (f"{first}\n{WORDS}", f"{first}\n{WORDS}\n{second}", f"{WORDS}\n{first}\n{second}", f"{second}{WORDS}"):
        assert await orders(row(text)) == [WORDS], text
    for opener, closer in (
        ("<system-reminder>", "</system-reminder>"), ("&lt;system-reminder&gt; a", "b &lt;/system-reminder&gt;"),
        ("\n--- Content from referenced files ---", "\n--- End of content ---"),
    ):  # fmt: skip
        parts = (opener, PUT_IN, PUT_IN, closer, WORDS)
        assert await orders(row([{"type": "text", "text": text} for text in parts])) == [WORDS]
    end = "</system-reminder>"
    for text in (f"<system-reminder>it says {end} {PUT_IN}\n{end}", f"<system-reminder>\n{first}\n{PUT_IN}\n{end}"):
        assert await orders(row(text)) == []
    command = "<command-message>tidy</command-message>\n<command-name>/tidy</command-name>\n"
    for said, found in ((WORDS, [WORDS]), (first, [])):
        assert await orders(row(f"{command}<command-args>{said}</command-args>")) == found
    request = f"# Context from my IDE setup:\n\n## Active file: a.md\n{PUT_IN}\n\n## My request for Codex:\n{WORDS}"
    assert await orders(row(request)) == [WORDS]


@st.composite
def envelopes(draw: st.DrawFn) -> str:
    """A host's text around an order: with its tags nested, quoted, unclosed, in odd case, with characters unseen."""
    name = draw(st.sampled_from(NAMES))
    hidden = draw(st.sampled_from(("", "\u200b", "\x00")))
    name = draw(st.sampled_from((name, name.upper(), name.title(), f"{name[:3]}{hidden}{name[3:]}")))
    opener, closer = draw(st.sampled_from(OPENERS)).format(name), draw(st.sampled_from(CLOSERS)).format(name)
    inside = st.sampled_from((f"<{name}>", f"</{name}>", "\x00\x00", "a.md changed:", "```"))
    quoted = draw(st.lists(inside, max_size=4))
    return "\n".join((opener, *quoted, PUT_IN, closer)) + (f"\n</{name}>" if f"</{name}>" in quoted else "")


@given(st.lists(envelopes(), min_size=20, max_size=20))
@settings(max_examples=6, deadline=None)
def test_nothing_in_a_hosts_envelope_is_an_order_nor_read_as_the_users(found: list[str]):
    anyio.run(judged, found)


async def judged(found: list[str]) -> None:
    model = ScriptedSummarizer(lambda job: "none" if job.kind == "rules" else "## Done\n- some of it")
    small = {"segment_min": 50, "segment_target": 100, "segment_max": 400}
    async with open_context(Settings(start_at=0.0, summary_max_tokens=16, **small), summarizer=model) as context:
        for envelope in found:
            await fill(context, [row(f"Go on with the parser.\n{envelope}"), assistant("It is done. " * 20)])
            assert [rule.quote for rule in context.standing_rules()] == []
        assert await context.wait_idle(60)
    parts = "".join(job.content for job in model.jobs).split("\n### ")
    assert not [part for part in parts if part.startswith("user\n") and PUT_IN in part]
    assert [part for part in parts if part.startswith("user note\n") and PUT_IN in part]
