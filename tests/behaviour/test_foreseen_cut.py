"""A segment for which a view has no room ends early, so that a model has summarized it before a view shows it."""

from functools import partial

from summarizing_context import SummaryJob
from summarizing_context.testing import range_name
from tests.behaviour import contexts
from tests.behaviour.contexts import Held, said
from tests.laws.builders import count
from tests.laws.summarizers import Counting

begun = partial(contexts.begun, idle_after="never")
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
    async with begun(summarizer=model, **sizes) as context:
        for at in range(300):
            await context.add_message(said(at, " ".join(f"word{at * 31 + word}" for word in range(12))))
            if at % 2:
                assert await context.wait_idle(60)
                if (await context.next_view()).activation is not None:
                    newest.append(context.explain()[-1])
    assert len(newest) > 5
    assert {node.made_by for node in newest} == {"model"}
    assert max(count(node.text) for node in newest) > CAP  # as long as the model wrote it
    contents = [job.content for job in model.segments]
    assert len(contents) == len(set(contents))


async def test_a_view_goes_on_in_the_room_above_its_high_water_while_a_summary_is_missing():
    model = Held("held/1")
    async with begun(summarizer=model) as context:
        for at in range(200):
            await context.add_message(said(at, "some words " * 12))
            view = await context.next_view()
            if model.may_answer.is_set():
                break
            if view.tokens > 0.92 * 2_000:
                assert view.activation is None
                model.may_answer.set()
                assert await context.wait_idle(60)
        assert view.activation.reason == "high_water"
        assert {node.made_by for node in context.explain()} == {"model"}


async def test_a_view_without_room_takes_extracts_and_to_ask_whether_it_would_activate_closes_no_segment():
    async with begun(max_tokens=1_500, summarizer=Held()) as context:
        for at in range(40):
            await context.add_message(said(at, "some words " * 120))
            segments = context.statistics().segments
            context.should_compress()
            assert context.statistics().segments == segments
            if (await context.next_view()).activation is not None:
                assert {node.made_by for node in context.explain()} <= {"stand-in", "provisional"}
        assert context.statistics().activations > 2
        assert max(one.tokens_before for one in context.activations()) > 1_500, "it did not wait"


async def test_steps_that_fill_a_large_part_of_the_room_are_summarized_before_they_are_covered():
    shown = []
    async with begun(max_tokens=1_500, summarizer=Counting("model/1")) as context:
        for at in range(120):
            await context.add_message(said(at, f"word{at} " * 110))
            assert await context.wait_idle(60)
            if (await context.next_view()).activation is not None:
                shown += [node.made_by for node in context.explain()]
    assert len(shown) > 20
    assert set(shown) == {"model"}
