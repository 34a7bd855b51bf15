"""Two results that change places say something else: they are summarized again."""

from pathlib import Path

from summarizing_context import Settings
from summarizing_context.testing import ScriptedSummarizer
from tests.behaviour.contexts import begun
from tests.laws.builders import assistant, call, result, user


async def test_results_that_change_places_are_paid_again_and_nothing_else_is(tmp_path: Path):
    calls = [(id, "deploy", {"to": id}) for id in ("staging", "production")]
    texts = ["It went well. " * 40, "It failed, and nothing was changed. " * 20]
    talk = [row(f"{at}: go on. " * 60) for at in range(12) for row in (assistant, user)]

    async def calls_for(session_id: str, *answered: str) -> int:
        answers = [result("openai", id, text) for id, text in zip(answered, texts, strict=True)]
        given = {"session_id": session_id, "max_tokens": 4_000, "start_at": 0.0, "count_tokens": None}
        sizes = {"segment_min": 200, "segment_target": 400, "segment_max": 800, "store": tmp_path / "a.db"}
        summarizer = ScriptedSummarizer(recipe="mine/1")
        async with begun(of=Settings, summarizer=summarizer, **sizes, **given) as context:
            await context.set_messages([user("Deploy to both."), call("openai", *calls), *answers, *talk])
            await context.get_messages_for_request()
            await context.wait_idle(60)
        return len(summarizer.jobs)

    first = await calls_for("one", "staging", "production")
    assert first > 2
    assert await calls_for("two", "staging", "production") == 0
    assert 0 < await calls_for("three", "production", "staging") < first
