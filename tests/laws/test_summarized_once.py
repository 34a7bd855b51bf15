"""No message of a log is in two requests for a segment's summary of one session, wherever views were cut."""

from collections import Counter
from pathlib import Path

import pytest

from summarizing_context import Settings, open_context

from . import corpus
from .builders import count
from .summarizers import Counting

EVER = 10_000  # messages


@pytest.mark.parametrize(
    ("name", "budget", "each"),
    [("long_session", 4_000, EVER), ("split_parallel_calls", 1_500, EVER), ("long_session", 4_000, 40)],
)
async def test_a_message_is_summarized_once_wherever_views_are_cut_and_processes_end(
    name: str, budget: int, each: int, tmp_path: Path
) -> None:
    """In processes of so many messages `each`. Parts of one group count once."""
    model, log, activations = Counting(), corpus.read(name), 0
    options = Settings(max_tokens=budget, idle_after="never", store=tmp_path / "a.db")
    for begin in range(0, len(log) if each == EVER else 280, each):
        async with open_context(options, summarizer=model, count_tokens=count) as context:
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
    assert len(times) > min(len(log), 280 if each != EVER else EVER) // 4
    assert [at for at, often in times.items() if often > 1] == []
