"""A reply as long as it was asked for is taken, in rooms of any size."""

import pytest

from summarizing_context import Settings, SummaryJob, open_context
from summarizing_context.messages.tokens import estimate_text
from tests.laws.builders import assistant, user
from tests.laws.summarizers import Counting


class Full(Counting):
    """Writes as many tokens as it was asked for, by the built-in estimate."""

    async def answer(self, job: SummaryJob) -> str:
        self.jobs.append(job)
        words = [word for word in job.content.split() if word.startswith("word")]
        lines = ["## Done"]
        for at in range(0, len(words), 5):
            line = f"- did {' and '.join(words[at : at + 5])}"
            if estimate_text("\n".join([*lines, line])) > job.max_tokens:
                break
            lines.append(line)
        return "\n".join(lines)


@pytest.mark.parametrize("budget", [3_000, 4_000, 6_000, 16_000])
async def test_a_reply_as_long_as_it_was_asked_for_is_taken(budget: int):
    model = Full("full/1")
    settings = Settings(max_tokens=budget, token_counter="estimate", idle_after="never")
    async with open_context(settings, summarizer=model) as context:
        for turn in range(300):
            said = " ".join(f"word{turn * 61 + word}" for word in range(60))
            await context.add_message((user if turn % 2 == 0 else assistant)(f"{turn}: {said}"))
            assert await context.wait_idle(60)
            await context.get_messages_for_request()
        assert {job.kind for job in model.jobs} >= {"segment", "rollup"}
        assert context.statistics().refused_replies == 0
