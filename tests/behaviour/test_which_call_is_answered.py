"""Two results that change places say something else: they are summarized again."""

from pathlib import Path
from typing import Any

from summarizing_context import Settings, open_context
from summarizing_context.testing import ScriptedSummarizer
from tests.laws.builders import result, user


def log(*answered: str) -> list[dict[str, Any]]:
    calls = [
        {"id": id, "type": "function", "function": {"name": "deploy", "arguments": f'{{"to": "{id}"}}'}}
        for id in ("staging", "production")
    ]
    texts = ["It went well. " * 40, "It failed, and nothing was changed. " * 20]
    pairs = zip(answered, texts, strict=True)
    return [
        user("Deploy to both."),
        {"role": "assistant", "content": "", "tool_calls": calls},
        *(result("openai", id, text) for id, text in pairs),
        *({"role": role, "content": f"{at}: go on. " * 60} for at in range(12) for role in ("assistant", "user")),
    ]


async def calls_for(store: Path, session_id: str, messages: list[dict[str, Any]]) -> int:
    summarizer = ScriptedSummarizer(recipe="mine/1")
    sizes = {"segment_min": 200, "segment_target": 400, "segment_max": 800, "start_at": 0.0}
    settings = Settings(store=store, session_id=session_id, max_tokens=4_000, token_counter="estimate", **sizes)
    async with open_context(settings, summarizer=summarizer) as context:
        await context.set_messages(messages)
        await context.get_messages_for_request()
        await context.wait_idle(60)
    return len(summarizer.jobs)


async def test_results_that_change_places_are_paid_again_and_nothing_else_is(tmp_path: Path):
    store = tmp_path / "a.db"
    first = await calls_for(store, "one", log("staging", "production"))
    assert first > 2
    assert await calls_for(store, "two", log("staging", "production")) == 0
    assert 0 < await calls_for(store, "three", log("production", "staging")) < first
