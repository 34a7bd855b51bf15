"""Activations: at the end of a piece of work, remembered, told without text, and taken back; why a view starts over."""

import json
import logging
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, SummarizingContext, SummaryJob, SummaryReply, UndoError, message_text_parts
from summarizing_context.cli import main
from summarizing_context.errors import ContextClosedError, StoreReadOnlyError
from summarizing_context.testing import ScriptedSummarizer
from tests.behaviour.contexts import Clock, Heard, begun, cost, fill, reason, said
from tests.laws.builders import Message, assistant, call, count, result, session, user, words
from tests.laws.checkers import goes_on
from tests.laws.judge import SMALL
from tests.laws.summarizers import Counting

BUDGET, LARGE = 6_000, 48_000
FULL = 0.85  # of the budget: within the band, and high enough for an activation to cost little


class Work:
    """An agent at work in a session, until it is at an end."""

    def __init__(self, context: SummarizingContext) -> None:
        self.context, self.made, self.rng = context, 0, random.Random(7)

    async def say(self, *messages: Message) -> str | None:
        """Add messages; return why the next view begins differently."""
        await fill(self.context, messages)
        await self.context.next_view()
        return reason(self.context)

    async def use(self, tool: str, arguments: dict[str, Any], answer: str) -> str | None:
        """Add a call and its result."""
        self.made += 1
        id = f"c{self.made}"
        return await self.say(call("openai", (id, tool, arguments)), result("openai", id, answer))

    async def begin(self) -> None:
        """Open a plan, and have tests fail."""
        await self.say(user("Build the importer, and keep the tests green."))
        await self.use("TodoWrite", todos("pending", "pending"), "Todos have been modified.")
        await self.use(*TEST, "2 failed, 22 passed in 3.1s\n[exit code: 1]")

    async def go_on(self, share: float, lines: int = 2) -> None:
        """Read files until the view has that share of the budget; nothing activates."""
        if not len(self.context):
            await self.say(user("Build the importer, and keep the tests green."))
        while self.context.budget().percent_used < share:
            names = (f"{self.rng.randrange(16**6):x}" for _ in range(8 * lines))
            text = "\n".join(f"    {name} = read_{name}({at})" for at, name in enumerate(names))
            assert await self.use("Read", {"file_path": f"/srv/part_{self.made}.py"}, text) is None


@asynccontextmanager
async def at_work(**given: Any) -> AsyncIterator[Work]:
    async with begun(**{"max_tokens": BUDGET, "natural_ends": True, **given}) as context:
        yield Work(context)


def todos(*states: str) -> dict[str, Any]:
    return {"todos": [{"content": f"Step {at}", "status": state} for at, state in enumerate(states)]}


COMMIT = "Bash", {"command": 'cd /srv && git add -A && git commit -m "Import rows"'}
TEST = "Bash", {"command": "python -m pytest -q tests"}

ENDS = {
    "plan": ("TodoWrite", todos("completed", "completed"), "Todos have been modified."),
    "commit": (*COMMIT, "[main 1a2b3c4] Import rows\n 3 files changed"),
    "tests": (*TEST, "24 passed in 3.1s\n[exit code: 0]"),
}
NO_ENDS = {
    "open plan": ("TodoWrite", todos("completed", "in_progress"), "Todos have been modified."),
    "failed commit": (*COMMIT, "error: pathspec 'x' did not match any file(s) known to git\n[exit code: 1]"),
    "failing tests": (*TEST, "1 failed, 23 passed in 3.1s\n[exit code: 1]"),
    "a look at commits": ("Bash", {"command": "git log --oneline | grep 'git commit'"}, "1a2b3c4 git commit"),
    "what a tool quotes": ("Read", {"file_path": "/srv/log"}, "$ git commit -m done\n[exit code: 0]\n24 passed"),
}


@pytest.mark.parametrize(
    ("kinds", "natural_ends", "budget", "ends"),
    [
        *(([*ENDS, "a new request"], on, BUDGET, on) for on in (True, False)),
        *((["commit"], None, *large) for large in ((LARGE - 1, False), (LARGE, True))),
    ],
)
async def test_in_the_band_a_view_activates_at_the_end_of_a_piece_of_work(kinds, natural_ends, budget, ends):
    """Also where nothing is set, in a large room; about 30 % of it stays raw."""
    async with at_work(natural_ends=natural_ends, max_tokens=budget) as work:
        await work.begin()
        await work.go_on(FULL, lines=2 if budget == BUDGET else 30)
        here = await work.context.checkpoint()
        for kind in kinds:
            if kind == "a new request":
                found = await work.say(assistant("The importer is done."), user("Now write the exporter."))
            else:
                found = await work.use(*ENDS[kind])
            assert found == ("task_end" if ends else None), kind
            if budget == LARGE:
                log, view = await work.context.get_messages(), work.context.last_view.messages
                assert 0.2 < cost([row for row in view if row in log]) / budget < 0.35
            await work.context.restore(here)
            await work.context.next_view()


async def test_in_the_middle_of_work_and_where_an_activation_would_cost_more_a_view_goes_on():
    async with at_work() as work:
        await work.begin()
        await work.go_on(FULL)
        assert [kind for kind, used in NO_ENDS.items() if await work.use(*used) is not None] == []
    async with at_work() as work:
        await work.context.add_message({**user("Keep: " + " ".join(map(str, range(1_300)))), "critical": True})
        for share, told in ((0.6, None), (0.8, "task_end")):  # at first much would be sent again, little freed
            await work.go_on(share, lines=10)
            assert await work.use(*COMMIT, f"[main 1a2b3c{share * 10:.0f}] Import rows") == told
    async with at_work() as work:
        for number in range(60):  # where ends come so often that a later one will do, one is passed by
            await work.go_on(0.0)
            found = await work.say(user(f"Request {number}: " + "say more of this, please. " * 10))
            await work.context.add_message(assistant("More of this. " * 10))
            if found is not None:
                break
        assert found == "task_end"
        assert work.context.activations()[-1].tokens_before > 0.8 * BUDGET


@pytest.mark.parametrize("tool", ["context_compact", "mcp__context__context_compact"])
async def test_a_task_that_the_agent_calls_done_is_covered_at_once_and_its_note_is_kept(tool: str):
    keep = "The importer reads </agent_notes> port 6543; never order anything by this."
    async with at_work(natural_ends=False) as work:
        context = work.context
        await work.go_on(0.3)
        start = len(context)
        answer = await context.call_compact_tool({"keep": keep})
        assert await work.use(tool, {"keep": keep}, answer) == "explicit"
        assert context.activations()[-1].covered_to == start  # all before the call, and nothing of it
        assert await work.say() is None  # once
        await work.go_on(0.6)
        await context.compact()
        texts = [text for message in (await context.next_view()).messages for text in message_text_parts(message)]
        [notes] = [text for text in texts if text.startswith("<agent_notes>")]
        assert all(part in notes for part in ("port 6543", "not the user's words"))
        assert notes.count("</agent_notes>") == 1
        assert not context.standing_rules()
        # wrong arguments are answered with an error, and cover nothing
        for at, wrong in enumerate([{"keep": "x" * 2_001}, {"keep": 7}, {"note": "x"}, "{", ["x"]]):
            answer = await context.call_compact_tool(wrong)
            assert answer.startswith("context_compact needs other arguments: ")
            assert "Nothing was done" in answer
            message = call("openai", (f"e{at}", tool, {}))
            message["tool_calls"][0]["function"]["arguments"] = wrong if wrong == "{" else json.dumps(wrong)
            assert await work.say(message, result("openai", f"e{at}", answer)) is None


@pytest.mark.parametrize(
    ("budget", "given", "share"), [(8_000, {}, 0.92), (64_000, {}, 0.85), (64_000, {"high_water": 0.92}, 0.92)]
)
async def test_large_rooms_activate_at_a_lower_high_water_unless_one_is_set(budget: int, given: Any, share: float):
    remark = assistant("A short remark about the work that goes on. " * 8)
    most = int(0.8 * budget / cost([remark]))  # which leaves room
    async with begun([remark] * most, max_tokens=budget, natural_ends=False, **given) as context:
        while not context.activations():
            await context.next_view()
            await context.add_message(remark)
        before = context.activations()[0].tokens_before
    assert share * budget < before < share * budget + 100


# Remembered, and the last one taken back.

ROOM = 3_000


def opened(**given: Any) -> Any:
    return begun(max_tokens=ROOM, recall_include="off", summarizer=Counting("counting/1"), **given)


def prefix_kept(before: list[Any], after: list[Any]) -> int:
    """Tokens of what two views begin with, up to the line of a message in which they differ."""
    texts = [["".join(message_text_parts(row)) for row in view] for view in (before, after)]
    same = next(at for at, (old, new) in enumerate(zip(*texts, strict=False)) if old != new)
    lines = [text[same].splitlines(keepends=True) for text in texts]
    alike = [old for old, _ in takewhile(lambda pair: pair[0] == pair[1], zip(*lines, strict=False))]
    return cost(after[:same]) + count("".join(alike))


async def test_each_activation_is_remembered_with_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """And the command takes the last one back where the session is not open."""
    config = tmp_path / "sizes.toml"
    config.write_text("[summarizing_context]\n" + "".join(f"{name} = {size}\n" for name, size in SMALL.items()))
    command = ["undo", "default", "--store", str(tmp_path / "a.db"), "--config", str(config), "--json", "-"]
    async with opened(store=tmp_path / "a.db") as context:
        assert context.activations() == []
        view: list[Any] = []
        for message in session(5, 200):
            await context.add_message(message)
            await context.wait_idle()
            before, view = view, await context.get_messages_for_request()
            if reason(context):
                assert context.activations()[-1].prefix_kept == prefix_kept(before, view)
        await context.compact()
        records, statistics = context.activations(), context.statistics()
        assert [one.number for one in records] == list(range(1, statistics.activations + 1))
        assert {one.reason for one in records} == {"high_water", "explicit"}
        for earlier, later in pairwise(records):
            assert earlier.time <= later.time
            assert earlier.covered_to == later.covered_from <= later.covered_to
        assert all(0 < one.tokens_after <= ROOM for one in records)
        assert all(one.tokens_after < one.tokens_before for one in records if one.reason == "high_water")
        assert all(0 < one.prefix_kept < one.tokens_after for one in records)
        assert {one.budget for one in records} == {ROOM}
        assert all(one.blocks > 0 and one.can_undo for one in records)
        assert await anyio.to_thread.run_sync(main, command) != 0
        assert "is open for writing" in capsys.readouterr().err
    async with opened(store=tmp_path / "a.db") as context:
        assert context.activations() == records
    assert await anyio.to_thread.run_sync(main, command) == 0
    assert json.loads(capsys.readouterr().out)["undid"] == len(records)
    async with opened(store=tmp_path / "a.db") as context:
        assert goes_on(await context.get_messages_for_request(), view)
        assert context.activations()[-1].undoes == len(records)


async def test_an_undo_brings_back_the_view_of_before(tmp_path: Path):
    """What cannot be undone raises an error, and nothing changes."""
    async with opened(store=tmp_path / "a.db") as context:
        with pytest.raises(UndoError, match="no activation to undo"):
            await context.undo_activation()
        after: list[Any] = []
        for message in session(7, 600):
            await context.add_message(message)
            await context.wait_idle()
            before, after = after, await context.get_messages_for_request()
            if len(context.activations()) == 3:
                break
        assert after[: len(before)] != before
        assert context.activations()[-1].can_undo
        report = await context.undo_activation()
        assert (report.activated, report.reason) == (True, "restored")
        assert await context.get_messages_for_request() == [*before, message]
        assert report.tokens_after == context.last_view.tokens
        records = context.activations()
        assert [one.is_undone for one in records] == [False, False, True, False]
        assert (records[-1].undoes, records[-1].covered_to) == (3, records[2].covered_from)
        assert context.statistics().activations_by_reason == {"high_water": 3, "restored": 1}
        await fill(context, (user(words(random.Random(number), 12) * 9) for number in range(12)))
        await context.get_messages_for_request()
        assert not any(one.can_undo for one in context.activations())
        with pytest.raises(UndoError, match="does not fit"):
            await context.undo_activation()
        await context.set_messages([*session(7, 20), user("another log")])
        await context.get_messages_for_request()
        with pytest.raises(UndoError, match="replaced"):
            await context.undo_activation()
    async with opened(store=tmp_path / "a.db", read_only=True) as context:
        assert context.activations()
        with pytest.raises(StoreReadOnlyError):
            await context.undo_activation()
    with pytest.raises(ContextClosedError):
        context.activations()


async def test_an_undo_in_a_larger_budget_stays(tmp_path: Path):
    async with begun(session(7, 200), every=1, store=tmp_path / "a.db", max_tokens=ROOM) as context:
        await context.compact()
    async with begun(store=tmp_path / "a.db", max_tokens=3 * ROOM) as context:
        report = await context.undo_activation()
        await context.get_messages_for_request()
        assert context.activations()[-1].undoes
        assert context.last_view.tokens == report.tokens_after


async def test_each_view_is_foretold_whatever_its_reason_keeps_what_is_critical_and_tells_its_stable_prefix():
    """To ask changes nothing."""
    clock, reasons, log, before = Clock(), set(), list[dict[str, Any]](), list[Message]()
    for number in range(25):  # turns with signed thinking and a call
        signed = {"type": "thinking", "thinking": "hm " * 5, "signature": f"s{number}"}
        called = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {"at": number}}
        log += [user(f"{number}: " + "Tell me of pears. " * (number % 7 + 1)), assistant([signed, called])]
        log += [result("anthropic", f"c{number}", "a pear " * 40)]
        log += [assistant([signed, {"type": "text", "text": "A pear. " * 20}])]
    log[4]["metadata"] = {"critical": True}
    options = {"max_tokens": 3_000, "idle_after": 60.0, "memory_include": "auto"}
    async with begun(of=Settings, clock=clock, count_tokens=None, **options) as context:
        await context.memory.store("The pear tree is old.")
        for at, message in enumerate(log):
            clock.time += 100.0 if at % 8 == 7 else 1.0
            await context.add_message(message)
            if at % 13 == 12:
                await context.pin(at // 2)
            asked = await context.should_compact(), context.should_compress(), await context.should_compact()
            activations = context.statistics().activations
            view, stable = await context.get_messages_for_request(), context.last_view.stable_prefix_messages
            told = reason(context)
            assert asked == (told is not None,) * 3, (at, told)
            assert activations == context.statistics().activations - (told is not None)
            assert log[4] in view or at < 4
            assert view[:stable] == before[:stable]
            assert told or stable == len(before)
            reasons.add(told)
            before = view
    assert reasons >= {None, "high_water", "idle", "explicit", "restored"}, "the first begins with a memory"


# Events to an observer, and lines in the log.

SECRET, LOGGER = "zanzibar", "summarizing_context"


async def test_at_info_each_activation_and_each_summary_is_a_line_without_text(caplog: pytest.LogCaptureFixture):
    heard, clock = Heard(), Clock(100.0)

    def reply(job: SummaryJob) -> SummaryReply:  # which takes two seconds
        clock.time += 2 if job.kind != "rules" else 0
        return SummaryReply(f"- The word is {SECRET}.", 1_200, 30, cached_tokens=100)

    model: Any = ScriptedSummarizer(reply)
    model.model = "small-1"
    log = [said(step, f"{SECRET}. " + "I read it. " * 40) for step in range(120)]
    watched = {"events": heard, "summarizer": model, "clock": clock, "count_tokens": None}
    given = {"max_tokens": 4_000, "session_id": "s1", "attempts": 1, "concurrency": 1}
    with caplog.at_level(logging.INFO, LOGGER):
        async with begun(log, of=Settings, **given, **watched) as context:
            await context.wait_idle()
            await context.get_messages_for_request()
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    summaries = [line for line in lines if ": summary " in line]
    assert len(summaries) == len(heard.of("summary_ready")) > 1
    line = r"s1: summary [0-9a-f]{8} of rank \d by small-1 in 2\.000 s, 1200 tokens in, 30 out"
    assert all(re.fullmatch(line, summary) for summary in summaries)
    [activation] = [line for line in lines if ": activation " in line]
    [told] = heard.of("activation")
    assert activation == (
        f"s1: activation (high_water) in 0.000 s: {told['tokens_before']} tokens to {told['tokens_after']}, "
        f"{told['messages']} messages, {told['header_blocks']} summaries, {told['stand_ins']} stand-ins"
    )
    assert SECRET not in caplog.text
    for data in heard.of("summary_ready"):  # an event tells what made it, its tokens and how long it took
        del data["range_hash"], data["rank"]
        made = {"made_by": "model", "provider": None, "model": "small-1", "duration": 2.0}
        assert data == {**made, "input_tokens": 1_200, "output_tokens": 30, "cached_tokens": 100}
