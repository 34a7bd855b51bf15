"""The fakes that users' tests may use."""

import json
from functools import partial

import pytest

from summarizing_context import Settings, SummarizerError
from summarizing_context.testing import Conversation, ScriptedSummarizer, range_name
from tests.behaviour.contexts import begun

small = partial(begun, of=Settings, max_tokens=3_000, count_tokens=None)


@pytest.mark.parametrize("shape", ["openai", "anthropic"])
async def test_a_scripted_summarizer_answers_for_a_conversation_of_each_shape(shape):
    summarizer = ScriptedSummarizer()
    async with small(Conversation(shape).turns(40), every=1, summarizer=summarizer) as context:
        assert await context.wait_idle(30)
        view = json.dumps(await context.get_messages_for_request())
        statistics = context.statistics()
    segments = [job for job in summarizer.jobs if job.kind == "segment"]
    assert segments
    assert statistics.refused_replies == 0
    assert any(f"called {range_name(job.range_hash)}" in view for job in summarizer.jobs)


async def test_a_script_may_fail_and_then_answer():
    summarizer = ScriptedSummarizer([SummarizerError("down")] * 2)
    async with small(Conversation().turns(40), summarizer=summarizer) as context:
        await context.compact()
        await context.wait_idle(60)  # a failed call is tried again after a moment
    assert len(summarizer.jobs) > 2
    messages = list(Conversation().turns(10))  # it is the same each time and answers each call
    assert messages == list(Conversation().turns(10))
    made = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert made == [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert len(set(made)) == len(made) == 12
    # calls are answered among blocks of other types
    talk = Conversation("anthropic")
    called = talk.call("read_file")
    (call,) = called["content"]
    thought = {"type": "thinking", "thinking": "Where?", "signature": "s"}
    called["content"] = [thought, {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}, call]
    (answer,) = talk.results(called, "It is there.")
    assert [block["tool_use_id"] for block in answer["content"]] == [call["id"]]
