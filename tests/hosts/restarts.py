"""What holds for a session that another process has opened again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from summarizing_context import SummarizingContext
from tests.laws.summarizers import Counting


async def assert_goes_on(context: SummarizingContext, last: Sequence[dict[str, Any]], model: Counting) -> None:
    """Its view begins as the last one did, its log was not replaced, and nothing is summarized twice."""
    assert (await context.get_messages_for_request())[: len(last)] == last
    assert context.statistics().activations == 0
    assert await context.list_checkpoints() == []
    await context.wait_idle()
    assert len({job.content for job in model.jobs}) == model.calls, "nothing is summarized twice"
