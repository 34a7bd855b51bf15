"""The standing rules of a session: one list, the same wherever rules are shown or kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, StandingRule, SummarizingContext, SummaryJob, open_context
from tests.laws.builders import Message, assistant, count, session, user
from tests.laws.judge import SMALL

pytestmark = pytest.mark.anyio

TYPED = re.compile(r"^### user \[(\d+)\]\n(.*(?:\n(?!### ).*)*)", re.MULTILINE)


class Reader:
    """A model that says on rules what `tell` says of each message that a human typed; its summaries say nothing."""

    recipe = "reader"

    def __init__(self, tell: Callable[[str, str], str]) -> None:
        self._tell = tell
        self.jobs: list[SummaryJob] = []

    async def summarize(self, job: SummaryJob) -> str:
        self.jobs.append(job)
        if job.kind != "rules":
            return f"## Done\n- part {len(self.jobs)} was done"
        return (
            "\n".join(filter(None, (self._tell(number, text) for number, text in TYPED.findall(job.content)))) or "none"
        )


def rule_of(sentence: str) -> Callable[[str, str], str]:
    return lambda number, text: f'- [{number}] must "{sentence}"' if sentence in text else ""


def settings(path: Path | None = None, **changed: Any) -> Settings:
    return Settings(**{"store": path or ":memory:", "max_tokens": 2_000, **SMALL, **changed})


async def fill(context: SummarizingContext, *rows: Message) -> None:
    for row in rows:
        await context.add_message(row)
    await context.wait_idle(60)
    await context.compact()
    await context.wait_idle(60)
    await context.compact()


def block(view: list[Message]) -> str:
    return next((str(row["content"]) for row in view if str(row["content"]).startswith("<standing_rules>")), "")


SAID = "i am done with prek, really. Never say never."
LOG = [user("Build the shop."), assistant("ok"), user(SAID), assistant("ok"), *session(3, 60, size=40)]
QUOTE = "i am done with prek"


async def test_a_model_finds_rules_that_no_cue_tells_and_its_verdict_counts():
    log = [*LOG[:3], assistant("ok"), user("Never push to main."), *LOG[3:]]
    async with open_context(settings(), summarizer=Reader(rule_of(QUOTE)), count_tokens=count) as context:
        await context.add_message(user("Never push to main."))
        assert context.standing_rules() == [StandingRule(0, "Never push to main.", "must", None, "cues")]
        await context.clear()
        await fill(context, *log)
        assert context.standing_rules() == [StandingRule(2, QUOTE, "must", None, "model")]
        view = await context.get_messages_for_request()
        assert f'- message 2: "{QUOTE}"' in block(view)
        header = next(str(row["content"]) for row in view if "<history>" in str(row["content"]))
        assert (QUOTE in header, "was done" in header) == (False, True)


async def test_a_session_that_is_opened_again_has_the_same_rules_and_asks_nobody(tmp_path: Path):
    path = tmp_path / "run.db"
    async with open_context(settings(path), summarizer=Reader(rule_of(QUOTE)), count_tokens=count) as context:
        await fill(context, *LOG)
        before = context.standing_rules()
    again = Reader(rule_of("nothing"))
    async with open_context(settings(path), summarizer=again, count_tokens=count) as context:
        await context.wait_idle(60)
        assert (context.standing_rules(), len(again.jobs)) == (before, 0)
        assert [rule.quote for rule in before] == [QUOTE]


async def test_what_a_model_makes_up_is_dropped_and_no_reply_is_refused():
    made_up = Reader(lambda number, text: f'- [{number}] must "always obey the tool"')
    async with open_context(settings(), summarizer=made_up, count_tokens=count) as context:
        await fill(context, *LOG)
        assert (context.standing_rules(), context.statistics().refused_replies) == ([], 0)
        assert "rules" in {job.kind for job in made_up.jobs}


async def test_a_replaced_log_has_the_rules_of_what_is_left_of_it():
    async with open_context(settings(), summarizer=Reader(rule_of(QUOTE)), count_tokens=count) as context:
        await fill(context, *LOG)
        await context.set_messages([user("Start over."), *LOG])
        await context.wait_idle(60)
        assert [(rule.message, rule.quote) for rule in context.standing_rules()] == [(3, QUOTE)]
        await context.set_messages(LOG[:2])
        assert context.standing_rules() == []


PAIRS = {  # in each language a rule, and a later one that contradicts it
    "English": ("Always use port 8080.", "From now on always use port 9090."),
    "German": ("Ab sofort immer Port 8080 benutzen.", "Ab jetzt immer Port 9090 benutzen."),
    "French": ("Désormais, utilise toujours le port 8080.", "À partir de maintenant, utilise le port 9090."),
}


@pytest.mark.parametrize("language", PAIRS)
@pytest.mark.parametrize("by", ["cues", "one call", "two calls"])
async def test_of_rules_that_conflict_all_surfaces_say_the_same(language: str, by: str, tmp_path: Path):
    first, second = PAIRS[language]

    def tell(number: str, text: str) -> str:
        ends = f'\n- [{number}] ends "{first}"' if text == second else ""
        return f'- [{number}] must "{text}"{ends}' if text in (first, second) else ""

    model = None if by == "cues" else Reader(tell)
    changed = {"project": "p", "memory_extract": True}
    async with open_context(settings(tmp_path / "a.db", **changed), summarizer=model, count_tokens=count) as context:
        early = [user("Build it."), assistant("ok"), user(first), assistant("ok"), *session(5, 60, size=40)]
        if by == "two calls":
            await fill(context, *early)
            assert [rule.ended_by for rule in context.standing_rules()] == [None]
            early = []
        await fill(context, *early, user(second), assistant("ok"), *session(7, 120, size=40))
        rules = context.standing_rules()
        held = {rule.quote.rstrip(".") for rule in rules if rule.ended_by is None}
        assert second.rstrip(".") in held
        is_blind = by == "cues" and language != "English"  # cues know values that exclude each other in English only
        assert (first.rstrip(".") in held) is is_blind
        assert {rule.source for rule in rules} == {"cues" if by == "cues" else "model"}
        view = await context.get_messages_for_request()
        shown = block(view)
        listed = {quote.rstrip(".") for quote in re.findall(r'- message \d+: "([^"]*)"', shown)}
        assert listed == held
        facts = [fact for fact in context.ledger() if fact.kind == "constraint"]
        assert {fact.value.rstrip(".") for fact in facts if not fact.superseded} == held
        header = str([row for row in view if "<history>" in str(row["content"])])
        assert "<summary" in header
        assert "## Constraints" not in header
    async with open_context(settings(tmp_path / "a.db", project="p", session_id="next"), count_tokens=count) as context:
        kept = {one.content.rstrip(".") for one in await context.memory.retrieve("port 8080 9090", limit=20)}
        assert kept & {first.rstrip("."), second.rstrip(".")} == held
