"""The measurement of the literal gate on transcripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.performance.literals import Tally, document, measure, summaries_of

pytestmark = pytest.mark.anyio

SAMPLE = Path(__file__).parents[1] / "data" / "transcripts"


async def test_honest_summaries_of_a_transcript_pass_and_altered_ones_do_not():
    tally = Tally()
    path = max(SAMPLE.rglob("*.jsonl*"), key=lambda path: path.stat().st_size)
    for job, reply in (await summaries_of(path))[:12]:
        measure(job, reply, path.name, tally)
    assert tally.summaries > 3
    assert tally.refused == []
    assert sum(map(len, tally.through.values())) < 0.1 * tally.altered.total() > 5
    assert document(tally)["refused_share"] == 0


async def test_a_refusal_is_counted_with_its_literals():
    tally = Tally()
    path = max(SAMPLE.rglob("*.jsonl*"), key=lambda path: path.stat().st_size)
    job, _ = (await summaries_of(path))[0]
    measure(job, "- All of it was done with HAT-4711.", path.name, tally)
    assert tally.refused == [(path.name, ["hat-4711"])]
