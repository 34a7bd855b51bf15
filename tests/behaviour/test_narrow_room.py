"""A view beside long system rows: the header gives way before the newest messages are cut short."""

from __future__ import annotations

import json
import random

import pytest

from summarizing_context import Settings, open_context
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.testing import ScriptedSummarizer, default_summary


def at_length(job: SummaryJob) -> str:
    lines = "\n- It was done then." * (job.max_tokens // 5 - 5)
    return default_summary(job) + (lines if job.kind in ("segment", "rollup") else "")


@pytest.mark.parametrize("seed", range(9, 12))
async def test_a_long_result_keeps_its_share_beside_a_full_header(seed: int) -> None:
    dice = random.Random(seed)
    settings = Settings(max_tokens=8_000, idle_after="never", segment_min=200, segment_target=400, segment_max=800)
    summarizer, long, cut_short, activations = ScriptedSummarizer(at_length), 0, list[int](), 0

    def words(number: int) -> str:
        return " ".join(f"word{dice.randrange(999)}" for _ in range(number))

    async with open_context(settings, summarizer=summarizer, count_tokens=lambda text: -(-len(text) // 4)) as context:
        await context.add_message({"role": "system", "content": "rule " * 4_800})
        await context.add_message({"role": "user", "content": "Please do it. " + "alpha beta " * 545})
        for step in range(40):
            if step % 8 == 7:
                await context.add_message({"role": "user", "content": words(12)})
            arguments = {"path": f"src/{words(1)}.py", "command": f"pytest {words(3)}"}
            call = {"name": dice.choice(["read", "write", "bash"]), "arguments": json.dumps(arguments)}
            calls = [{"id": f"c{step}", "type": "function", "function": call}]
            await context.add_message({"role": "assistant", "content": words(14), "tool_calls": calls})
            result = words(dice.randrange(3, 400))
            await context.add_message({"role": "tool", "tool_call_id": f"c{step}", "content": result})
            view = await context.get_messages_for_request()
            await context.wait_idle()
            activations += context.last_view is not None and context.last_view.activation is not None
            long += sum(len(row["content"]) >= 1_000 for row in view if row["role"] == "tool")
            cut_short += [len(row["content"]) for row in view if row["role"] == "tool" and "left out" in row["content"]]
    assert activations > 5
    assert long > 20
    assert min(cut_short, default=1_000) >= 1_000, (
        "what is cut short keeps about 290 tokens of the 2,000 beside the system row"
    )
