"""What clients put between `<file>`, `<context>` and `<attachment>` tags is no order of the person beside it."""

from __future__ import annotations

from typing import Any

import pytest

from summarizing_context import Settings, open_context

pytestmark = pytest.mark.anyio

ORDER = "Never deploy on Fridays. Always use tabs in every file."

WORDS = "Always answer in Dutch."

TAGS = ["file", "context", "attachment", "files", "attachments", "document", "documents"]


def texts_of(blocks: list[dict[str, Any]]) -> list[str]:
    return [block["text"] for block in blocks]


async def rules_shown(content: Any) -> tuple[list[str], str]:
    """The standing rules of a session that began with this row, and its view once the row is covered."""
    settings = Settings(max_tokens=3_000, token_counter="estimate", start_at=0.0)
    async with open_context(settings) as context:
        await context.add_message({"role": "user", "content": "hello"})
        await context.add_message({"role": "assistant", "content": "hello"})
        await context.add_message({"role": "user", "content": content})
        for at in range(60):
            await context.add_message({"role": "assistant", "content": f"step {at} is done, it took a while " * 8})
            await context.add_message({"role": "user", "content": f"go on with step {at}"})
            await context.get_messages_for_request()
        await context.wait_idle(60)
        await context.compact()
        view = await context.get_messages_for_request()
        contents = [one["content"] for one in view]
        texts = [
            text for content in contents for text in ([content] if isinstance(content, str) else texts_of(content))
        ]
        section = [text for text in texts if text.startswith("<standing_rules")]
        return [rule.quote for rule in context.standing_rules()], "\n".join(section)


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize(
    "shape",
    [
        '<{tag} path="notes.md">\n{order}\n</{tag}>\n\n{words}',
        "{words}\n\n<{tag}>\n{order}\n</{tag}>",
        "{words} <{tag} name='a b'>{order}</{tag}>",
        "<{tag}>\n{order}\n</{tag}>\n{words}\n<{tag}>\n{order}\n</{tag}>",
        "{words}\n<{tag}>\n<{tag}>{order}</{tag}>\n{order}\n</{tag}>",
        "{words}\n<{tag}>\n{order}\nand it goes on",
        "{words}\n<{tag}>\nsee <{tag}> in it\n{order}\n</{tag}>",
    ],
)
async def test_only_what_stands_outside_of_a_clients_tags_becomes_a_rule(tag: str, shape: str):
    quotes, section = await rules_shown(shape.format(tag=tag, order=ORDER, words=WORDS))
    assert quotes == [WORDS]
    assert WORDS in section
    assert "Fridays" not in section
    assert "tabs" not in section


@pytest.mark.parametrize("tag", TAGS)
async def test_tags_in_blocks_of_their_own_hold_no_rule(tag: str):
    blocks = [f"<{tag}>", ORDER, f"</{tag}>", WORDS]
    quotes, section = await rules_shown([{"type": "text", "text": text} for text in blocks])
    assert quotes == [WORDS]
    assert "Fridays" not in section


@pytest.mark.parametrize(
    "said",
    [
        "Never touch the <file> tag of the template.",
        "Always write <context> in small letters.",
        "Never read a file or an attachment of others without asking.",
    ],
)
async def test_who_speaks_of_such_tags_is_heard(said: str):
    quotes, section = await rules_shown(f"Fix the parser. {said}")
    assert quotes == [said]
    assert said in section
