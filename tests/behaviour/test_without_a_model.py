"""What a view keeps of a long past when no model summarizes: rules first, and no room stays empty."""

import random
import re

import pytest

from summarizing_context import Settings, SummarizingContext, open_context
from tests.laws.builders import assistant, count, result, user

TOPICS = ["harbours", "lamps", "rivers", "gardens", "bridges", "markets", "trains", "letters", "windows", "orchards"]
VERBS = ["shows", "explains", "lists", "compares", "describes", "mentions", "follows", "supports", "improves", "covers"]

RULES = [
    "From now on, never deploy on Fridays.",
    "I'm allergic to peanuts, so no recipe may contain them.",
    "Please keep all answers under 200 words.",
    "HARD CONSTRAINT: the budget must not exceed $4,300.",
    "Du darfst die Datei preise.csv auf keinen Fall ändern.",
    "Il ne faut jamais modifier la branche principale.",
    "No uses nunca emojis en los correos.",
    "Você deve sempre perguntar antes de apagar um arquivo.",
    "今後は必ず日本語のコメントを付けてください。",
    "请务必在每次回答的最后列出参考资料。",
    "يجب دائمًا ذكر المصدر في كل إجابة.",
]


def sentences(dice: random.Random, number: int) -> str:
    said = (f"The {dice.choice(TOPICS)} {dice.choice(VERBS)} {dice.choice(TOPICS)} {at}." for at in range(number))
    return " ".join(said)


async def view_of(context: SummarizingContext) -> str:
    await context.wait_idle()
    await context.compact()
    return str(await context.get_messages_for_request())


def words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text))


async def test_rules_of_a_chat_stand_in_the_last_view_in_eight_languages():
    dice = random.Random(3)
    async with open_context(Settings(max_tokens=16_000)) as context:
        for turn in range(110):
            rule = f" {RULES[turn // 9]}" if turn % 9 == 4 and turn // 9 < len(RULES) else ""
            asked = f"What do you know about {dice.choice(TOPICS)} of {turn}?{rule}"
            await context.add_message(user(asked))
            await context.add_message(assistant(sentences(dice, 60)))
        shown = words(await view_of(context))
        assert [rule for rule in RULES if words(rule) not in shown] == []


@pytest.mark.parametrize(("segments", "fixed"), [(16, 0), (32, 0), (32, 8_000)])
async def test_no_room_of_the_header_stays_empty(segments: int, fixed: int):
    """Its share is one of the room that a system row leaves."""
    dice = random.Random(5)
    async with open_context(Settings(max_tokens=16_000), count_tokens=count) as context:
        if fixed:
            await context.add_message({"role": "system", "content": "rule" * fixed})
        while context.statistics().segments < segments:
            for role in ("user", "assistant"):
                await context.add_message({"role": role, "content": sentences(dice, 90)})
        await view_of(context)
        assert 0.3 < sum(node.tokens for node in context.explain()) / (16_000 - fixed) < 0.55


@pytest.mark.parametrize(
    ("tool", "arguments"), [("read_file", '{"path":"docs/guide.md"}'), ("bash", '{"command":"cat docs/guide.md"}')]
)
async def test_rules_of_a_guide_that_a_tool_has_read_stay(tool: str, arguments: str):
    dice, rule = random.Random(7), "Releases must be signed with the key in vault/release.asc."
    guide = f"# Guide\n\n{sentences(dice, 40)}\n\n- {rule}\n\n{sentences(dice, 40)}"
    call = {"id": "c1", "type": "function", "function": {"name": tool, "arguments": arguments}}
    async with open_context(Settings(max_tokens=16_000)) as context:
        await context.add_message(user("Read the guide."))
        await context.add_message({"role": "assistant", "content": "", "tool_calls": [call]})
        await context.add_message(result("openai", "c1", guide))
        for _ in range(120):
            await context.add_message(assistant(sentences(dice, 60)))
            await context.add_message(user("Go on."))
        assert f"guide.md: {rule}" in await view_of(context)
