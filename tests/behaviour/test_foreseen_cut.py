"""A segment for which a view has no room ends early, so that a model has summarized it before a view shows it."""

from __future__ import annotations

from typing import Any

from summarizing_context import Settings, SummarizingContext, SummaryJob, open_context
from tests.laws.builders import Message, assistant, count, user
from tests.laws.summarizers import Counting

CAP = 150
ROOM = 2_000


class Model(Counting):
    """Writes more than it was asked for, by a tenth."""

    async def answer(self, job: SummaryJob) -> str:
        self.jobs.append(job)
        wanted = 4 * job.max_tokens * 11 // 10
        name = job.range_hash[:8].translate(
            str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
        )  # also cut it is no value
        return f"- part {name}{' again and again' * wanted}"[:wanted]


def small(**changed: Any) -> Settings:
    """Segments of 3,000 tokens, of which a view has room for less than one."""
    sizes = {"segment_min": 3_000, "segment_target": 3_500, "segment_max": 4_000, "summary_max_tokens": CAP}
    return Settings(**{**sizes, "max_tokens": ROOM, "idle_after": "never", "session_id": "s", **changed})


def talk(messages: int) -> list[Message]:
    """Messages of about 30 tokens, no two of them alike."""
    say = [user, assistant]
    return [say[n % 2](f"{n}: " + " ".join(f"word{n * 31 + k}" for k in range(12))) for n in range(messages)]


async def play(context: SummarizingContext, messages: list[Message], *, settled: bool = True) -> list[list[Any]]:
    """A view after every second message; the headers of those that activated."""
    headers = []
    for at, message in enumerate(messages):
        await context.add_message(message)
        if at % 2:
            if settled:
                assert await context.wait_idle(60)
            await context.get_messages_for_request()
            if context.last_view is not None and context.last_view.activation is not None:
                headers.append(context.explain(drops=False))
    return headers


async def test_a_model_has_summarized_what_a_view_covers_and_it_is_shown_whole():
    model = Model("model/1")
    async with open_context(small(), summarizer=model, count_tokens=count) as context:
        headers = await play(context, talk(300))
    newest = [header[-1] for header in headers]
    assert len(newest) > 5
    assert {node.made_by for node in newest} == {"model"}
    written = {count(node.text) for node in newest}
    assert max(written) > CAP  # as long as the model wrote it
    contents = [job.content for job in model.segments]
    assert len(contents) == len(set(contents))
