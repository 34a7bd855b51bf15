"""What a context tells of the values that its summaries do not hold."""

from __future__ import annotations

import pytest

from summarizing_context import Settings, SummaryJob, open_context
from tests.laws.builders import assistant, count, user
from tests.laws.judge import SMALL

pytestmark = pytest.mark.anyio


class Terse:
    """Names no value at all."""

    async def summarize(self, job: SummaryJob) -> str:
        return "## Done\n- several steps were taken, and all is well"


async def test_explain_and_expand_tell_which_values_a_summary_does_not_hold() -> None:
    log = [user("Keep an eye on src/pay.py, please."), *(assistant(f"Read src/f{at}.py. " * 9) for at in range(60))]
    async with open_context(
        Settings(**{**SMALL, "max_tokens": 2_000}), count_tokens=count, summarizer=Terse()
    ) as context:
        await context.set_messages(log)
        await context.wait_idle()
        await context.get_messages_for_request()
        node = next(node for node in context.explain() if node.rank == 0 and node.made_by == "model")
        assert f"src/f{node.start}.py" in node.drops
        assert context.explain(drops=False)[0].drops == ()
        page = await context.expand(node, "paragraph")
        assert f"Not in this summary: {', '.join(node.drops)}" in page.text
        assert "Not in this summary" not in (await context.expand(node, "line")).text
