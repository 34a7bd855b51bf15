"""A segment for which a view has no room ends early, so that a model has summarized it before a view shows it."""

from __future__ import annotations

from summarizing_context import SummaryJob, open_context
from summarizing_context.testing import range_name
from tests.behaviour.contexts import small
from tests.laws.builders import assistant, count, user
from tests.laws.summarizers import Counting

CAP = 150


class Model(Counting):
    """Writes more than it was asked for, by a tenth."""

    async def answer(self, job: SummaryJob) -> str:
        self.jobs.append(job)
        wanted = 4 * job.max_tokens * 11 // 10
        return f"- part {range_name(job.range_hash)}{' again and again' * wanted}"[:wanted]


async def test_a_model_has_summarized_what_a_view_covers_and_it_is_shown_whole():
    model, newest = Model("model/1"), []
    sizes = {"segment_min": 3_000, "segment_target": 3_500, "segment_max": 4_000, "summary_max_tokens": CAP}
    async with open_context(small(**sizes, idle_after="never"), summarizer=model, count_tokens=count) as context:
        for turn in range(150):
            for say, at in ((user, 2 * turn), (assistant, 2 * turn + 1)):
                await context.add_message(say(f"{at}: " + " ".join(f"word{at * 31 + word}" for word in range(12))))
            assert await context.wait_idle(60)
            if (await context.next_view()).activation is not None:
                newest.append(context.explain()[-1])
    assert len(newest) > 5
    assert {node.made_by for node in newest} == {"model"}
    written = {count(node.text) for node in newest}
    assert max(written) > CAP  # as long as the model wrote it
    contents = [job.content for job in model.segments]
    assert len(contents) == len(set(contents))
