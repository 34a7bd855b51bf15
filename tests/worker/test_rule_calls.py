"""Calls for standing rules: when they are made, what they tell of the log, and what a bad one may not do."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, SummarizerError, SummarizingContext, SummaryJob, open_context
from summarizing_context.concurrency import WorkerThread
from summarizing_context.errors import StoreError
from summarizing_context.log.segments import Limits
from summarizing_context.messages.redaction import Redact
from summarizing_context.stores.base import StoredRules, StoredSummary, SummaryKey
from summarizing_context.summarizers.base import SummaryReply
from summarizing_context.worker.jobs import Recipe
from summarizing_context.worker.rule_calls import RuleCalls
from tests.laws.builders import count
from tests.laws.judge import SMALL
from tests.making import Message, answer, assistant, call, entries, one_call, session, timeline, user

pytestmark = pytest.mark.anyio

PROMPT = "tell the rules"
NOTHING = "none"
TALK = [user("Build the shop, please."), assistant("Done."), user("i am done with prek"), assistant("Fine.")]
OPEN = Limits(10_000, 20_000, 40_000)  # no segment of the logs here is closed
LABEL = re.compile(r"^### user \[(\d+)\]$", re.MULTILINE)


class Desk:
    """Calls for a log, with a caller, a store and a clock that a test holds in its hand."""

    def __init__(
        self, *messages: Message, reply: Any = NOTHING, redact: Redact | None = None, limits: Limits = OPEN
    ) -> None:
        self.log = timeline(messages, limits)
        self.reply, self.time, self.fails = reply, 0.0, False
        self.jobs: list[SummaryJob] = []
        self.kept: list[tuple[int, StoredRules]] = []
        self.name, self.shared = "desk", dict[SummaryKey, StoredSummary]()
        self.thread = WorkerThread("background")
        recipe = Recipe("model", "seg", "roll", True, 20, 20, lambda kind, rank, most: PROMPT, redact)
        self.calls = RuleCalls(
            log=self.log,
            store=self,
            session_id="s",
            caller=self,
            recipe=recipe,
            clock=self,
            cooldown=30.0,
            background=self.thread,
        )

    async def __aenter__(self) -> Desk:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.thread.close()

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")

    def ready_in(self) -> float | None:
        return 0.0

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        self.jobs.append(job)
        reply = self.reply(job) if callable(self.reply) else self.reply
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, SummaryReply) else SummaryReply(reply)

    async def save_rules(self, session_id: str, rows: list[tuple[int, StoredRules]]) -> None:
        if self.fails:
            raise StoreError("the disk is gone")
        self.kept += rows

    async def find_summaries(self, session_id: str, keys: list[SummaryKey]) -> dict[SummaryKey, StoredSummary]:
        if self.fails:
            raise StoreError("the disk is gone")
        return {key: self.shared[key] for key in keys if key in self.shared}

    async def save_summary(self, session_id: str, key: SummaryKey, summary: StoredSummary) -> StoredSummary:
        if self.fails:
            raise StoreError("the disk is gone")
        return self.shared.setdefault(key, summary)

    async def finish(self) -> None:
        """Ask until nothing is due; each call has to say something of a message."""
        while self.calls.is_due:
            left = len(self.log.rules.open)
            await self.calls.ask()
            assert len(self.log.rules.open) < left

    @property
    def rules(self) -> list[tuple[int, str, str]]:
        return [(rule.message, rule.quote, rule.source) for rule in self.log.rules.all()]


async def test_a_call_says_what_it_is_and_a_verdict_takes_the_place_of_cues():
    reply = '- [2] must "i am done with prek"\n- [3] task "Never push to main."'
    async with Desk(*TALK, user("Never push to main."), reply=reply) as desk:
        assert desk.rules == [(4, "Never push to main.", "cues")]
        await desk.finish()
        (job,) = desk.jobs
        assert (job.kind, job.instructions, job.max_tokens) == ("rules", PROMPT, 600)
        assert (job.rank, job.start, job.stop) == (0, 0, 5)
        assert desk.rules == [(2, "i am done with prek", "model")]
        assert {row.version for _, row in desk.kept} >= {"model-1"}


async def test_a_reply_of_tasks_alone_is_a_verdict_without_rules():
    async with Desk(user("Never push to main."), reply='- [1] task "Never push"') as desk:
        await desk.finish()
        assert (desk.rules, [*desk.log.rules.open], len(desk.jobs)) == ([], [], 1)


async def test_only_what_a_human_typed_is_sent():
    rows = [
        {"role": "system", "content": "SECRET"},
        user("<system-reminder>SECRET</system-reminder>"),
        {**user("SECRET"), "metadata": {"source": "hook"}},
        user("Look it up.<system-reminder>SECRET</system-reminder>"),
        assistant("SECRET"),
        one_call("c1", text="SECRET"),
        answer("c1", "SECRET"),
        call("anthropic", ("c2", "read", {"path": "SECRET"})),
        user([{"type": "tool_result", "tool_use_id": "c2", "content": "SECRET"}, {"type": "text", "text": "And fix."}]),
        user("### user [7]\nThat is all."),
    ]
    async with Desk(*rows) as desk:
        await desk.finish()
        (job,) = desk.jobs
        assert "SECRET" not in job.prompt
        assert LABEL.findall(job.content) == ["1", "2", "3"]
        assert job.content.startswith("### user [1]\nLook it up.\n### user [2]\nAnd fix.\n### user [3]\n")
        assert job.content.endswith("\nThat is all.")


async def test_messages_without_words_of_a_human_cost_no_call():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    async with Desk(user([image]), user("   ")) as desk:
        await desk.finish()
        assert (desk.jobs, [*desk.log.rules.open]) == ([], [])


async def test_the_same_words_are_asked_about_once():
    async with Desk(user("be brief"), assistant("ok"), user("be brief"), reply='- [1] prefer "be brief"') as desk:
        await desk.finish()
        assert (len(desk.jobs), LABEL.findall(desk.jobs[0].content)) == (1, ["1"])
        assert [rule.message for rule in desk.log.rules.all()] == [0, 2]


async def test_long_messages_are_cut_and_many_go_in_several_calls_the_oldest_first():
    texts = [f"begin{n} " + "word " * 1_500 + f"end{n}" for n in range(5)]
    async with Desk(*map(user, texts)) as desk:
        await desk.finish()
        told = [job.content for job in desk.jobs]
        assert all(len(content) <= 17_000 for content in told)
        assert [LABEL.findall(content) for content in told] == [["1", "2"], ["1", "2"], ["1"]]
        assert re.findall(r"(?:begin|end)\d", "".join(told)) == [
            f"{at}{n}" for n in range(5) for at in ("begin", "end")
        ]
        assert told[0].count(f"[… {len(texts[0]) - 6_000} characters left out …]") == 2


async def test_a_request_lists_the_newest_earlier_rules_within_bounds():
    many = [user(f"Never touch folder number {n}.") for n in range(60)]

    def quoting(job: SummaryJob) -> str:
        said = re.findall(r"### user \[(\d+)\]\n(.+)", job.content)
        return "\n".join(f'- [{n}] must "{text}"' for n, text in said)

    async with Desk(*many, reply=quoting, limits=Limits(1_000, 2_000, 4_000)) as desk:
        await desk.finish()
        assert "rules so far" not in desk.jobs[0].content
        assert len(desk.rules) == 60
        desk.reply = NOTHING
        for message in session(3, 120):
            desk.log.extend(timeline([message]).entries[0])
        await desk.finish()
        lines = desk.jobs[1].content.split("### user [1]")[0].splitlines()
        wanted = [f'- must "Never touch folder number {n}"' for n in range(20, 60)]
        assert lines == ["### rules so far", *wanted]


def remarks(count: int, size: int) -> list[Message]:
    """Short or long turns, each of which fills a segment of `SEGMENTS`."""
    return [
        row for n in range(count) for row in (user(f"remark {n} " + "word " * size), assistant("text " * (400 - size)))
    ]


SEGMENTS = Limits(300, 400, 800)


@pytest.mark.parametrize(("size", "held"), [(2, [1, 1, 2, 4, 8, 8, 8]), (300, [1, 1, 2, 4, 6, 6, 6])])
async def test_a_request_waits_for_segments_or_for_words(size: int, held: list[int]):
    async with Desk(*remarks(32, size), limits=SEGMENTS) as desk:
        assert len(desk.log.segments) >= 31
        await desk.finish()
        told = [len(LABEL.findall(job.content)) for job in desk.jobs]
        assert told == held
        assert [job.start for job in desk.jobs[1:]] == [job.stop + 1 for job in desk.jobs[:-1]]


async def test_a_message_waits_for_eight_segments_at_most_whether_or_not_anybody_typed_in_them():
    alone = [assistant(f"step {n} " + "text " * 400) for n in range(7)]
    rows = [*remarks(16, 2), user("Never push to main."), *alone]
    async with Desk(*rows, limits=SEGMENTS) as desk:
        await desk.finish()
        asked, last = len(desk.jobs), len(desk.log.segments)
        assert not any("Never push" in job.content for job in desk.jobs)
        desk.log.extend(entries([assistant("text " * 400), assistant("text " * 400)])[0])
        desk.log.extend(entries([assistant("text " * 400), assistant("text " * 400)])[1])
        assert len(desk.log.segments) > last
        await desk.finish()
        assert len(desk.jobs) == asked + 1
        assert "Never push" in desk.jobs[-1].content


async def test_what_was_said_later_changes_no_request():
    rows = [*remarks(12, 2), user("Never push to main."), *remarks(8, 2), user("Never push to main."), *remarks(16, 2)]
    rows[6] = user("Never push to main.")
    async with Desk(*rows, limits=SEGMENTS) as whole, Desk(limits=SEGMENTS) as grown:
        await whole.finish()
        for entry in entries(rows):
            grown.log.extend(entry)
            if len(grown.log.segments) > 1:
                await grown.finish()
        assert [job.content for job in grown.jobs] == [job.content for job in whole.jobs]
        assert len(whole.jobs) > 4


async def test_a_reply_serves_who_asks_the_same_unless_it_was_cut_off():
    said = '- [2] must "i am done with prek"'
    async with Desk(*TALK, reply=said) as one, Desk(*TALK, reply=SummarizerError("no")) as two:
        two.shared = one.shared
        await one.finish()
        await two.finish()
        assert (len(one.jobs), two.jobs, two.rules) == (1, [], one.rules)
    async with Desk(*TALK, reply=SummaryReply(said, truncated=True)) as desk:
        await desk.calls.ask()
        assert (len(desk.jobs), desk.shared) == (1, {})


@pytest.mark.parametrize("reply", ["I cannot help.", "", SummaryReply("I cannot", truncated=True)])
async def test_a_reply_that_cannot_be_read_is_paid_for_once_and_cues_serve_all_who_ask_the_same(reply):
    talk = [*TALK, user("Never push to main.")]
    async with Desk(*talk, reply=reply) as one, Desk(*talk, reply=SummarizerError("no")) as two:
        two.shared = one.shared
        await one.finish()
        await two.finish()
        assert (len(one.jobs), two.jobs, [*two.log.rules.open]) == (1, [], [])
        assert one.rules == two.rules == [(4, "Never push to main.", "cues")]


async def test_a_failed_call_is_made_again_after_a_rest():
    async with Desk(*TALK, reply=SummarizerError("no")) as desk:
        await desk.calls.ask()
        assert (desk.calls.is_due, desk.calls.delays()) == (False, [30.0])
        desk.time, desk.reply = 31.0, '- [2] must "i am done with prek"'
        await desk.finish()
        assert (len(desk.jobs), len(desk.rules), desk.calls.delays()) == (2, 1, [])


@pytest.mark.parametrize("reply", ["", "The user wants a shop.", '["i am done with prek"]'])
async def test_a_strange_reply_leaves_the_messages_to_cues_for_good(reply: str):
    async with Desk(*TALK, user("Never push to main."), reply=reply) as desk:
        await desk.finish()
        assert (desk.rules, len(desk.jobs)) == ([(4, "Never push to main.", "cues")], 1)
        assert ([*desk.log.rules.open], desk.kept) == ([], [])


async def test_of_a_reply_that_was_cut_off_the_rest_is_asked_for_again():
    texts = ["done with one", "done with two", "done with three"]
    replies = iter([SummaryReply('- [1] must "done with one"\n- [2] must "done with two"', truncated=True), NOTHING])
    async with Desk(*map(user, texts), reply=lambda job: next(replies)) as desk:
        await desk.calls.ask()
        assert ([quote for _, quote, _ in desk.rules], [*desk.log.rules.open]) == (["done with one"], [1, 2])
        await desk.calls.ask()
        assert "done with one" in desk.jobs[1].content.split("### user [1]")[0]
        assert [*desk.log.rules.open] == []


async def test_where_the_store_fails_the_verdict_counts_and_is_not_asked_for_again():
    async with Desk(*TALK, reply='- [2] must "i am done with prek"') as desk:
        desk.fails = True
        await desk.finish()
        assert ([quote for _, quote, _ in desk.rules], len(desk.jobs), desk.kept) == (["i am done with prek"], 1, [])


KEY = "-----BEGIN KEY-----\n" + "MATERIAL" * 60 + "\n-----END KEY-----"
BLOCK = re.compile(r"-----BEGIN KEY-----\n[A-Z]+\n-----END KEY-----")


@pytest.mark.parametrize("at", [*range(3_400, 4_100, 90), *range(5_900, 6_300, 90)])
async def test_no_part_of_a_secret_is_sent_wherever_a_message_is_cut(at: int):
    text = ("word " * 1_700)[:at] + KEY + "word " * ((8_100 - at) // 5)
    reply = '- [1] must "always keep the MATERIAL"\n- [2] must "be brief always"'

    def hide(text: str) -> str:
        return BLOCK.sub("[key]", text)

    rows = [user(text), user("be brief always"), user("always keep the " + KEY)]
    async with Desk(*rows, reply=reply, redact=hide) as desk:
        await desk.finish()
        assert [job for job in desk.jobs if "MATERIAL" in job.prompt] == []
        assert [quote for _, quote, _ in desk.rules] == ["be brief always"]


async def test_verdicts_stay_with_messages_that_are_still_in_the_log_when_they_come():
    def reply(job: SummaryJob) -> str:
        kept = [desk.log.entries[2], *timeline([user("Another thing.")]).entries]
        desk.log.replace(kept)
        return '- [1] must "Build the shop"\n- [2] must "i am done with prek"'

    async with Desk(*TALK, reply=reply) as desk:
        await desk.calls.ask()
        assert desk.rules == [(0, "i am done with prek", "model")]
        assert [*desk.log.rules.open] == [1]
        assert [at for at, row in desk.kept if row.version == "model-1"] == [0]


# The same in whole sessions.


class Model:
    """Answers requests for rules with `rules`, or fails; summaries come all the same."""

    recipe = "model/1"

    def __init__(self, rules: str | Exception = NOTHING) -> None:
        self.rules = rules
        self.rule_jobs: list[SummaryJob] = []
        self.summaries = 0

    async def summarize(self, job: SummaryJob) -> str:
        if job.kind != "rules":
            self.summaries += 1
            return f"## Done\n- part {job.start} was done"
        self.rule_jobs.append(job)
        if isinstance(self.rules, Exception):
            raise self.rules
        return self.rules


def settings(path: Path | None = None, **changed: Any) -> Settings:
    return Settings(**{"store": path or ":memory:", "max_tokens": 2_000, **SMALL, **changed})


async def fill(context: SummarizingContext, *rows: Message) -> None:
    for row in rows:
        await context.add_message(row)
    await context.wait_idle(60)


async def test_the_first_call_comes_with_the_first_work_and_later_ones_are_few():
    model = Model()
    async with open_context(settings(), summarizer=model, count_tokens=count) as context:
        await fill(context, *TALK)
        assert (model.rule_jobs, model.summaries) == ([], 0)
        for message in session(2, 50, size=40):
            await fill(context, message)
            if model.rule_jobs:
                break
        assert (len(model.rule_jobs), model.rule_jobs[0].start) == (2, 0)  # one for each of the first two segments
        assert context.statistics().history_tokens >= 850  # half of what a view may take
        await fill(context, user("A short remark."))
        assert len(model.rule_jobs) == 2
        await fill(context, *session(3, 120, size=40))
        assert 2 < len(model.rule_jobs) <= 6 <= context.statistics().segments // 2
        assert all(later.start >= job.stop for job, later in itertools.pairwise(model.rule_jobs))


@pytest.mark.parametrize("rules", [SummarizerError("out"), "I cannot help with that."])
async def test_calls_that_fail_delay_no_summary_and_trip_nothing(rules: str | Exception):
    changed, told = settings(attempts=1, breaker_failures=1, breaker_cooldown=3_600.0), []
    for model in (Model(rules), Model()):
        async with open_context(changed, summarizer=model, count_tokens=count) as context:
            for message in session(2, 90, size=40):
                await fill(context, message)
            statistics = context.statistics()
            told.append((model.summaries, statistics.summaries_ready, statistics.summaries_failed))
            assert model.rule_jobs
            assert model.summaries > 2
    assert told[0] == told[1]


async def test_a_fork_and_a_restored_log_keep_their_verdicts_and_ask_nobody(tmp_path: Path):
    path, model = tmp_path / "run.db", Model('- [2] must "i am done with prek"')
    async with open_context(settings(path), summarizer=model, count_tokens=count) as context:
        await fill(context, *TALK, *session(2, 50, size=40))
        rules = context.standing_rules()
        mark = await context.checkpoint()
        await context.fork(mark, "fork")
        await context.clear()
        assert context.standing_rules() == []
        await context.restore(mark)
        asked = len(model.rule_jobs)
        assert ([rule.quote for rule in rules], context.standing_rules()) == (["i am done with prek"], rules)
        await context.wait_idle(60)
        assert len(model.rule_jobs) == asked
    for session_id in ("fork", "default"):
        again = Model()
        changed = settings(path, session_id=session_id)
        async with open_context(changed, summarizer=again, count_tokens=count) as context:
            await context.wait_idle(60)
            assert (context.standing_rules(), again.rule_jobs) == (rules, [])


async def test_a_reader_of_a_session_asks_nothing(tmp_path: Path):
    path, model = tmp_path / "run.db", Model()
    async with open_context(settings(path), count_tokens=count) as context:
        await fill(context, *TALK, *session(2, 50, size=40))
    async with open_context(settings(path), summarizer=model, count_tokens=count, read_only=True) as context:
        await context.get_messages_for_request()
        await context.wait_idle(60)
        assert model.rule_jobs == []
