"""The activations of a session are remembered, and the last one can be taken back."""

import json
import random
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, SummarizingContext, UndoError, message_text_parts
from summarizing_context.cli import main
from summarizing_context.errors import ContextClosedError, StoreReadOnlyError
from tests.behaviour.contexts import Clock, begun, fill, reason, small
from tests.laws.builders import assistant, count, result, session, user, words
from tests.laws.checkers import goes_on, view_tokens
from tests.laws.judge import SMALL
from tests.laws.summarizers import Counting

BUDGET = 3_000
SIZES: dict[str, Any] = {"of": small, "max_tokens": BUDGET, "session_id": "s", "recall_include": "off"}


def opened(**given: Any) -> Any:
    return begun(**SIZES, **given, summarizer=Counting("counting/1"))


async def until_activated(context: SummarizingContext, seed: int, times: int = 1) -> tuple[list[Any], list[Any], Any]:
    """Add messages until so many activations have happened: the view before the last, that with it, and what came."""
    before: list[Any] = []
    for message in session(seed, 600):
        await context.add_message(message)
        await context.wait_idle()
        after = await context.get_messages_for_request()
        if len(context.activations()) == times:
            return before, after, message
        before = after
    raise AssertionError("no activation")


def prefix_kept(before: list[Any], after: list[Any]) -> int:
    """Tokens of what two views begin with, up to the line of a message in which they differ."""
    texts = [["".join(message_text_parts(row)) for row in view] for view in (before, after)]
    same = next(at for at, (old, new) in enumerate(zip(*texts, strict=False)) if old != new)
    lines = [text[same].splitlines(keepends=True) for text in texts]
    alike = [old for old, _ in takewhile(lambda pair: pair[0] == pair[1], zip(*lines, strict=False))]
    return view_tokens(after[:same], count, 1_600, message_text_parts) + count("".join(alike))


async def test_each_activation_is_remembered_with_its_figures(tmp_path: Path):
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
        assert all(0 < one.tokens_after <= BUDGET for one in records)
        assert all(one.tokens_after < one.tokens_before for one in records if one.reason == "high_water")
        assert all(0 < one.prefix_kept < one.tokens_after for one in records)
        assert {one.budget for one in records} == {BUDGET}
        assert all(one.blocks > 0 and one.can_undo for one in records)
    async with opened(store=tmp_path / "a.db") as context:
        assert context.activations() == records


async def test_an_undo_brings_back_the_view_of_before(tmp_path: Path):
    """What cannot be undone raises an error, and nothing changes."""
    async with opened(store=tmp_path / "a.db") as context:
        with pytest.raises(UndoError, match="no activation to undo"):
            await context.undo_activation()
        before, after, message = await until_activated(context, 7, times=3)
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
    async with begun(**SIZES, store=tmp_path / "a.db", read_only=True) as context:
        assert context.activations()
        with pytest.raises(StoreReadOnlyError):
            await context.undo_activation()
    with pytest.raises(ContextClosedError):
        context.activations()


async def test_a_session_that_nobody_has_open_is_undone_by_the_command(tmp_path, capsys):
    path, config = tmp_path / "a.db", tmp_path / "sizes.toml"
    config.write_text("[summarizing_context]\n" + "".join(f"{name} = {size}\n" for name, size in SMALL.items()))
    command = ["undo", "s", "--store", str(path), "--config", str(config), "--json", "-"]
    async with opened(store=path) as context:
        before, _, message = await until_activated(context, 10, times=2)
        assert await anyio.to_thread.run_sync(main, command) != 0
        assert "is open for writing" in capsys.readouterr().err
    assert await anyio.to_thread.run_sync(main, command) == 0
    assert json.loads(capsys.readouterr().out)["undid"] == 2
    async with opened(store=path) as context:
        assert goes_on(await context.get_messages_for_request(), [*before, message])
        assert context.activations()[-1].undoes == 2


# Why a view begins differently.


async def test_asking_whether_to_compact_knows_every_reason_and_does_nothing():
    clock, reasons, log = Clock(), set(), list[dict[str, Any]]()
    for number in range(25):  # turns with signed thinking and a call
        signed = {"type": "thinking", "thinking": "hm " * 5, "signature": f"s{number}"}
        called = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {"at": number}}
        log += [user(f"{number}: " + "Tell me of pears. " * (number % 7 + 1)), assistant([signed, called])]
        log += [result("anthropic", f"c{number}", "a pear " * 40)]
        log += [assistant([signed, {"type": "text", "text": "A pear. " * 20}])]
    options = {"max_tokens": 3_000, "idle_after": 60.0, "memory_include": "auto", "token_counter": "estimate"}
    async with begun(of=Settings, clock=clock, count_tokens=None, **options) as context:
        await context.memory.store("The pear tree is old.")
        for at, message in enumerate(log):
            clock.time += 100.0 if at % 8 == 7 else 1.0
            await context.add_message(message)
            if at % 13 == 12:
                await context.pin(at // 2)
            asked = await context.should_compact(), context.should_compress(), await context.should_compact()
            before = context.statistics()
            await context.get_messages_for_request()
            told = reason(context)
            assert asked == (told is not None,) * 3, (at, told)
            assert before.activations == context.statistics().activations - (told is not None)
            reasons.add(told)
    assert reasons >= {None, "high_water", "idle", "explicit", "restored"}, "the first begins with a memory"
