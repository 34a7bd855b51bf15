"""Replaying logs: views where they belong, figures that tell the truth, the same ones every time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.assembly import open_context, open_store
from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.demo import demo_session
from summarizing_context.evaluation.replay import (
    TIMINGS,
    Plan,
    Recorder,
    Tally,
    free_session_id,
    make_costs,
    replay_all,
    replay_files,
    replay_log,
)
from summarizing_context.settings.values import Settings
from summarizing_context.transcripts import Compaction, Transcript

pytestmark = pytest.mark.anyio

ESTIMATE = Settings(token_counter="estimate")


def log_of(messages: list[dict[str, Any]], path: str = "x.jsonl", **more: Any) -> Transcript:
    return Transcript("x", "messages", tuple(messages), {}, tuple(range(1, len(messages) + 1)), path=Path(path), **more)


def says(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def untimed(tallies: list[Tally]) -> str:
    rows = [{name: value for name, value in tally.figures().items() if name not in TIMINGS} for tally in tallies]
    return json.dumps(rows)


def write(path: Path, messages: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(message) + "\n" for message in messages), encoding="utf8")
    return path


class OneView:
    """Stands where a context does, and hands out the views that it was given."""

    def __init__(self, *views: list[dict[str, Any]], activated: bool = False) -> None:
        self._views = list(views)
        self.last_view: Any = type("View", (), {"activation": "high_water" if activated else None})

    async def add_message(self, message: dict[str, Any]) -> None: ...

    async def get_messages_for_request(self, token_budget: int) -> list[dict[str, Any]]:
        return self._views.pop(0)


async def recorded(
    log: list[dict[str, Any]], *views: list[dict[str, Any]], activated: bool = False, budget: int = 1_000
) -> Tally:
    tally = Tally(file="x", budget=budget)
    recorder = Recorder(OneView(*views, activated=activated), await make_costs(ESTIMATE), tally)  # type: ignore[arg-type]
    for message in log:
        await recorder.add(message)
    for _ in views:
        await recorder.take_view()
    return tally


async def test_the_demo_session_keeps_every_law_at_16k():
    (tally,) = await replay_log("demo", log_of(demo_session()), Plan((16_000,), ESTIMATE))
    assert tally.broken_laws() == []
    assert tally.messages == len(demo_session())
    assert tally.views == sum(message["role"] == "assistant" for message in demo_session())
    assert tally.activations >= 5
    assert tally.max_view_tokens <= 16_000
    assert (tally.refused_views, tally.model_calls) == (0, 0)


async def test_a_view_is_taken_before_each_assistant_message_that_is_not_the_first():
    log = [says("assistant", "welcome"), says("user", "a"), says("assistant", "b"), says("assistant", "c")]
    (tally,) = await replay_log("x", log_of(log), Plan((1_000,), ESTIMATE))
    assert (tally.messages, tally.views, tally.activations) == (4, 2, 0)
    assert 0 < tally.hit_tokens < tally.view_tokens


async def test_a_budget_below_the_system_rows_is_counted_as_refused():
    log = [says("system", "word " * 400), says("user", "a"), says("assistant", "b")]
    low, high = await replay_log("x", log_of(log), Plan((100, 2_000), ESTIMATE))
    assert (low.refused_views, low.views, low.budget) == (1, 0, 100)
    assert (high.refused_views, high.views, high.budget) == (0, 1, 2_000)


async def test_a_message_refused_at_the_door_is_named_by_file_and_line():
    with pytest.raises(TranscriptError, match=r"^logs/x.jsonl:2: "):
        await replay_log(
            "x", log_of([says("user", "a"), {"content": "b"}], path="logs/x.jsonl"), Plan((1_000,), ESTIMATE)
        )


async def test_views_over_budget_are_counted():
    log = [says("user", "word " * 100)]
    assert (await recorded(log, log, budget=50)).over_budget_views == 1
    assert (await recorded(log, log, budget=500)).over_budget_views == 0


async def test_a_changed_prefix_is_a_break_unless_an_activation_is_reported():
    one, two, three = says("user", "a"), says("assistant", "b"), says("user", "c")
    views = ([one, two], [one, two, three], [one, three])
    tally = await recorded([one, two, three], *views)
    assert tally.append_only_breaks == 1
    assert (await recorded([one, two, three], *views, activated=True)).append_only_breaks == 0


async def test_the_prefix_hit_counts_what_the_view_before_began_with():
    one, two, other = says("user", "a b"), says("assistant", "c d"), says("user", "e f")
    tally = await recorded([one, two, other], [one, two], [one, two, other], [one, other], activated=True)
    cost = {str(m): (await make_costs(ESTIMATE)).of(m, b"") for m in (one, two, other)}
    a, b, c = cost.values()
    assert tally.hit_tokens == (a + b) + a
    assert tally.view_tokens == (a + b) + (a + b + c) + (a + c)


async def test_unsafe_and_disordered_views_are_counted():
    result = {"role": "tool", "tool_call_id": "x", "content": "ok"}
    one, two = says("user", "a"), says("assistant", "b")
    tally = await recorded([one, two], [one, result], [two, one], activated=True)
    assert (tally.tool_unsafe_views, tally.out_of_order_views, tally.newest_missing_views) == (1, 1, 1)
    assert "newest_missing_views" in tally.broken_laws()


async def test_a_second_run_gives_the_same_figures_but_for_the_timings():
    log = log_of(demo_session(turns=12))
    plan = Plan((4_000, 8_000), ESTIMATE)
    assert untimed(await replay_log("x", log, plan)) == untimed(await replay_log("x", log, plan))


async def test_images_cost_what_the_settings_say():
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}
    assert (await make_costs(Settings(token_counter="estimate", image_tokens=700))).of(image, b"") == 704


def test_files_side_by_side_give_the_same_as_one_after_the_other(tmp_path):
    files = [write(tmp_path / f"{n}.jsonl", [says("user", f"File {n}."), *demo_session(turns=6)]) for n in range(3)]
    plan = Plan((3_000,), ESTIMATE)
    one = replay_all(files, plan, jobs=1)
    two = replay_all(files, plan, jobs=2)
    assert untimed(one) == untimed(two)
    assert [tally.file for tally in one] == list(map(str, files))


def test_a_bad_file_is_told_in_its_place_and_the_others_are_replayed(tmp_path):
    files = [tmp_path / "1.jsonl", write(tmp_path / "2.jsonl", [says("user", "a")])]
    files[0].write_text("{", encoding="utf8")
    error, found = replay_files(files, Plan((1_000,), ESTIMATE), jobs=2)
    assert isinstance(error, TranscriptError)
    assert str(error).startswith(f"{files[0]}:1: ")
    assert isinstance(found, list)
    assert [tally.messages for tally in found] == [1]
    with pytest.raises(TranscriptError, match=r"1\.jsonl:1: "):
        replay_all(files, Plan((1_000,), ESTIMATE))


async def test_a_compaction_of_the_client_stands_beside_our_view_at_that_place():
    log = log_of(
        [says("user", "a"), says("assistant", "b"), says("user", "word " * 50), says("assistant", "c")],
        compactions=(Compaction(2, "auto", 9_000, 700, "word word"), Compaction(3)),
    )
    (tally,) = await replay_log("x", log, Plan((1_000,), ESTIMATE))
    one, encrypted = tally.figures()["compactions"]
    assert encrypted["client_summary"] is None
    assert (one["message"], one["trigger"], one["client_before"], one["client_after"]) == (3, "auto", 9_000, 700)
    assert one["client_summary"] == 2
    assert one["view_tokens"] == one["history_tokens"] == tally.max_view_tokens > 50


async def test_a_store_keeps_each_replay_as_a_session_of_its_own(tmp_path):
    settings = Settings(store=tmp_path / "run.db", token_counter="estimate")
    log = log_of([says("user", "a"), says("assistant", "b")])
    for _ in range(2):
        await replay_log("logs/my run.jsonl.gz", log, Plan((1_000,), settings))
    store = await open_store(tmp_path / "run.db", read_only=True)
    try:
        found = {info.session_id: info.messages for info in await store.sessions()}
    finally:
        await store.close()
    assert found == {"replay:my-run:1000": 2, "replay:my-run:1000:2": 2}


async def test_a_free_session_id_is_the_one_wanted_where_nothing_has_it(tmp_path):
    settings = Settings(store=tmp_path / "run.db", session_id="demo")
    assert await free_session_id(Settings(), "demo") == "demo"
    async with open_context(settings):
        pass
    assert await free_session_id(settings, "demo") == "demo:2"
    assert await free_session_id(settings, "other") == "other"
