"""What a view keeps of a long past: rules first, and no room stays empty, by a model or without one."""

import random
import re

import pytest

from summarizing_context import Settings, SummarizingContext, SummaryJob, open_context
from summarizing_context.testing import ScriptedSummarizer, default_summary
from tests.behaviour.contexts import begun, fill, said
from tests.laws.builders import assistant, call, count, result, user, words

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


async def view_of(context: SummarizingContext) -> str:
    await context.wait_idle()
    await context.compact()
    return str(await context.get_messages_for_request())


def letters(text: str) -> str:
    return " ".join(re.findall(r"\w+", text))


async def test_rules_of_a_chat_stand_in_the_last_view_in_eight_languages():
    dice = random.Random(3)
    async with open_context(Settings(max_tokens=16_000)) as context:
        for turn in range(110):
            rule = f" {RULES[turn // 9]}" if turn % 9 == 4 and turn // 9 < len(RULES) else ""
            await fill(context, [user(f"What do you know about part {turn}?{rule}"), assistant(words(dice, 400))])
        shown = letters(await view_of(context))
        assert [rule for rule in RULES if letters(rule) not in shown] == []


@pytest.mark.parametrize(
    ("tool", "arguments"), [("read_file", {"path": "docs/guide.md"}), ("bash", {"command": "cat docs/guide.md"})]
)
async def test_rules_of_a_guide_that_a_tool_has_read_stay(tool: str, arguments: dict[str, str]):
    dice, rule = random.Random(7), "Releases must be signed with the key in vault/release.asc."
    guide = f"# Guide\n\n{words(dice, 250)}\n\n- {rule}\n\n{words(dice, 250)}"
    called = call("openai", ("c1", tool, arguments))
    log = [user("Read the guide."), called, result("openai", "c1", guide)]
    async with begun(log, max_tokens=16_000, of=Settings) as context:
        for _ in range(120):
            await fill(context, [assistant(words(dice, 400)), user("Go on.")])
        assert f"guide.md: {rule}" in await view_of(context)


def at_length(job: SummaryJob) -> str:
    """A summary of about the length that it may have."""
    dice = random.Random(job.range_hash)
    lines = (f"\n- {words(dice, 9)}" for _ in range(job.max_tokens // 12 - 5))
    return default_summary(job) + ("".join(lines) if job.kind in ("segment", "rollup") else "")


@pytest.mark.parametrize(
    ("budget", "system", "segments", "least", "by_model"),
    [
        *((8_000, *room, True) for room in ((0.0, 1, 0.0), (0.0, 40, 0.11), (0.7, 16, 0.0), (0.7, 40, 0.0))),
        *((32_000, *room, 0.11, True) for room in ((0.0, 16), (0.5, 40))),
        *((16_000, *room, 0.3, False) for room in ((0.0, 16), (0.0, 32), (0.5, 32))),
    ],
)
async def test_no_room_of_the_header_stays_empty(budget: int, system: float, segments: int, least: float, by_model):
    """Its share is one of the room that a system row leaves; merges keep it too."""
    dice, fixed, model = random.Random(5), int(system * budget), ScriptedSummarizer(at_length) if by_model else None
    settings = Settings(max_tokens=budget, idle_after="never", start_at=0.0)
    async with open_context(settings, summarizer=model, count_tokens=count) as context:
        if fixed:
            await context.add_message({"role": "system", "content": "rule" * (fixed - 8)})
        number = 0
        while context.statistics().segments < segments:
            await context.add_message(said(number, words(dice, 1_000)))
            number += 1
        for _ in range(4):
            await context.wait_idle()
            await context.summarize(1)
        assert least < sum(node.tokens for node in context.explain()) / (budget - fixed) < 0.55
