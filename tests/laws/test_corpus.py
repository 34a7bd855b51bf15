"""Every transcript of our corpus, replayed at several budgets: all laws that can be seen from outside hold."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings
from tests.behaviour.contexts import begun

from .amounts import ALL
from .builders import Message, count
from .judge import SMALL
from .summarizers import Counting
from .transcripts import play

FILES = {path.name.split(".")[0]: path for path in (Path(__file__).parents[1] / "data" / "transcripts").iterdir()}


def read(name: str) -> list[Message]:
    """One transcript without its `_` keys; its oddities are listed in `tests/data/README.md`."""
    with (gzip.open if FILES[name].suffix == ".gz" else open)(FILES[name], "rt", encoding="utf8") as lines:
        rows = map(json.loads, lines)
        return [{key: value for key, value in row.items() if not key.startswith("_")} for row in rows]


# What must have been seen of each repair in a file that is about it, when it is replayed with room for the oddity.
EXPECTED = {
    "late_results": {"stand_in_result", "late_result_note"},
    "rows_between": {"stand_in_result", "late_result_note"},
    "abandoned_calls": {"stand_in_result"},
    "orphan_results": {"late_result_note"},
    "duplicate_results": {"late_result_note"},
    "results_of_several_groups": {"split_results"},
    "content_none": {"content_none"},
    "user_role_calls": {"content_none"},
    "huge_messages": {"shrunk"},
}
ROOMY = 8_000
LONG = ["split_parallel_calls", "amplifier_shapes", "huge_messages"]
CHOSEN = {1_000: FILES, 2_500: FILES if ALL else LONG, ROOMY: FILES if ALL else EXPECTED}  # for each budget


@pytest.mark.parametrize(("name", "budget"), [(name, budget) for budget in CHOSEN for name in sorted(CHOSEN[budget])])
async def test_a_transcript_gives_lawful_views(name: str, budget: int) -> None:
    """As the command plays it, of odd ones with a view behind each message, or each second one where there is little
    room. Half characters count as what is sent."""
    log, often = read(name)[: None if ALL else 80 if name == "forty_calls" else 60], name in {*LONG, *EXPECTED}
    found = await play(log, budget, often * (1 if ALL or budget == ROOMY else 2), Counting(), store=":memory:", **SMALL)
    assert (found["broken"], found["without_room"]) == ([], 0)
    assert found["views"] > (len(log) // 2 if often else 5)
    if sum(count(str(message.get("content"))) for message in log) > 2 * budget:
        assert min(found["activations"], found["covered"]) > 0
    seen, counted = ({kind for kind, times in found[whose].items() if times} for whose in ("repairs", "counted"))
    assert seen <= counted
    assert budget != ROOMY or EXPECTED.get(name, set()) <= seen


EVER = 10_000  # messages


@pytest.mark.parametrize(
    ("name", "budget", "each"),
    [("long_session", 4_000, EVER), ("split_parallel_calls", 1_500, EVER), ("long_session", 4_000, 40)],
)
async def test_a_message_is_summarized_once_wherever_views_are_cut_and_processes_end(
    name: str, budget: int, each: int, tmp_path: Path
) -> None:
    """In processes of so many messages `each`. Parts of one group count once."""
    model, log, activations = Counting(), read(name)[: EVER if each == EVER else 280], 0
    options: Any = {"max_tokens": budget, "idle_after": "never", "store": tmp_path / "a.db", "summarizer": model}
    for begin in range(0, len(log), each):
        async with begun(of=Settings, **options) as context:
            for message in log[begin : begin + each]:
                await context.add_message(message)
                if message.get("role") == "assistant" and not context.open_calls():
                    await context.wait_idle()
                    await context.get_messages_for_request()
            await context.wait_idle()
            activations += context.statistics().activations
    ranges = {(job.start, job.stop) for job in model.segments}
    times = Counter(at for start, stop in ranges for at in range(start, stop))
    assert activations > 0
    assert len(times) > len(log) // 4
    assert {*times.values()} == {1}
