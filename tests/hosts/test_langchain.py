"""The middleware in LangChain's own agents: views are lawful and within the budget, and the state stays whole."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.hosts.langchain_agents import (
    SMALL,
    ScriptedModel,
    Sent,
    SummaryModel,
    always,
    problems,
    read,
    working,
)

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from summarizing_context import Settings
from summarizing_context.adapters.langchain import SummarizingMiddleware
from tests.laws.builders import count

THREAD = {"configurable": {"thread_id": "t1"}}


@pytest.fixture
def middleware() -> Iterator[Any]:
    """Makes middlewares that are closed at the end."""
    with ExitStack() as stack:

        def make(summarizer: Any = None, clock: Any = None, **options: Any) -> SummarizingMiddleware:
            beside = {"summarizer": summarizer} | ({} if clock is None else {"clock": clock})
            settings = Settings(**{**SMALL, **options})
            return stack.enter_context(SummarizingMiddleware(settings, count_tokens=count, **beside))

        yield make


def agent_of(model: Any, *middleware: Any, tools: Sequence[Any] = (read,), **options: Any) -> Any:
    return create_agent(model, list(tools), middleware=middleware, checkpointer=InMemorySaver(), **options)


def say(agent: Any, text: str, config: Any = THREAD) -> list[Any]:
    return agent.invoke({"messages": [HumanMessage(text)]}, config)["messages"]


def fix(agent: Any) -> None:
    """Two turns of work."""
    for turn in range(2):
        say(agent, f"Fix part {turn}.")


def test_messages_that_stay_word_for_word_are_the_states_own(middleware):
    sent = Sent()
    model = ScriptedModel(messages=working())
    agent = agent_of(model, middleware(), sent)
    fix(agent)
    for messages, state in sent.calls:
        ids = {id(message) for message in state}
        same = [message for message in messages if id(message) in ids]
        assert messages[-1] is state[-1]
        order = [next(at for at, message in enumerate(state) if message is each) for each in same]
        assert order == sorted(order)
    messages, _ = sent.calls[-1]
    assert [message.artifact for message in messages if isinstance(message, ToolMessage)][-1]["path"] == "src/b1_5.py"
    replies = [message for message in messages if isinstance(message, AIMessage)]
    assert replies[-1].usage_metadata["input_tokens"] == 900
    assert [block["type"] for block in replies[-1].content] == ["thinking", "text", "tool_use", "tool_use"]


@pytest.mark.parametrize(("name", "stays"), [("claude-opus-4-8", True), ("claude-opus-5-5", False)])
def test_thinking_of_the_open_turn_goes_where_the_model_refuses_it(middleware, name, stays):
    sent, model = Sent(), ScriptedModel(messages=working(), model_name=name)
    agent = agent_of(model, middleware(), sent)
    fix(agent)
    first = next(request for request in sent.requests if len(request.messages) < len(request.state["messages"]))
    assert any("thinking" in str(message.content) for message in first.messages) == stays


def test_system_messages_of_the_history_stay_behind_the_agents_prompt(middleware):
    sent, model = Sent(), ScriptedModel(messages=working())
    agent = agent_of(model, middleware(), sent, system_prompt="You fix code.")
    agent.update_state(THREAD, {"messages": [SystemMessage("The user is Ana.")]})
    say(agent, "Fix part 0.")
    agent.update_state(THREAD, {"messages": [SystemMessage("The tests are slow.")]})
    say(agent, "Fix part 1.")
    assert [str(message.content) for message in model.requests[-1][:2]] == ["You fix code.", "The user is Ana."]
    messages, state = sent.calls[-1]
    assert messages[0] is state[0]
    assert any(message.content == "The tests are slow." for message in messages)
    assert len(messages) < len(state)


def test_shrunk_messages_keep_their_ids_and_the_calls_their_blocks(middleware):
    @tool
    def dump() -> str:
        """Read everything."""
        return "everything; " * 3_000

    call = {"name": "dump", "args": {}, "id": "call_1"}
    said = AIMessage([{"type": "text", "text": "word " * 4_000}, {"type": "tool_use", **call}], tool_calls=[call])
    sent, model = Sent(), ScriptedModel(messages=iter([said, AIMessage("Done.")]))
    agent = agent_of(model, middleware(), sent, tools=[dump])
    say(agent, "Read everything.")
    messages, state = sent.calls[-1]
    assert [message.id for message in messages] == [message.id for message in state]
    _, reply, result = messages
    assert (reply.tool_calls, reply.content[-1]) == (state[1].tool_calls, said.content[-1])
    assert len(str(reply.content)) < 8_000 > len(result.content)
    assert result.tool_call_id == "call_1"
    assert len(state[2].content) == 36_000


def test_bytes_of_an_image_stay_also_where_its_message_is_joined_to_another(middleware):
    image = {"image": {"format": "png", "source": {"bytes": b"png"}}}
    sent, model = Sent(), ScriptedModel(messages=always("Done."))
    agent = create_agent(model, [], middleware=[middleware(merge_user_rows=True), sent])
    agent.invoke({"messages": [HumanMessage("Look."), HumanMessage([{"type": "text", "text": "Here."}, image])]})
    (message,) = sent.calls[-1][0]
    assert message.content[-1] == image


def test_child_agents_have_sessions_of_their_own(middleware):
    ours = middleware()
    helper_model = ScriptedModel(messages=always("Found nothing."))
    helper = create_agent(helper_model, [], middleware=[ours])

    @tool
    def research(question: str) -> str:
        """Ask the helper."""
        return helper.invoke({"messages": [HumanMessage(question)]})["messages"][-1].content

    asked = [{"name": "research", "args": {"question": f"Where is {name}?"}, "id": f"call_{name}"} for name in "ab"]
    model = ScriptedModel(messages=iter([AIMessage("", tool_calls=asked), AIMessage("Nowhere.")]))
    agent = agent_of(model, ours, tools=[research])
    say(agent, "Find a and b.")
    assert sorted(str(request[0].content) for request in helper_model.requests) == ["Where is a?", "Where is b?"]
    assert sorted(figures.messages for figures in ours.statistics().values()) == [1, 1, 4]
    names = sorted(ours.statistics())
    assert names[0] == "langchain:t1"
    assert all(name.startswith("langchain:t1:tools:") for name in names[1:])


def test_without_a_thread_a_history_handed_over_again_goes_on_with_its_session(middleware):
    ours, model = middleware(), ScriptedModel(messages=working(steps=0))
    agent = create_agent(model, [], middleware=[ours])
    talks: dict[str, list[Any]] = {"Blue.": [], "Red.": []}
    for turn in range(3):
        for color, talk in talks.items():
            talk.append({"role": "user", "content": color if not turn else f"{turn}. Go on."})
            reply = agent.invoke({"messages": talk})["messages"][-1]  # each message gets a new id
            talk.append({"role": "assistant", "content": reply.content})
            assert [message.content for message in model.requests[-1]] == [row["content"] for row in talk[:-1]]
    figures = list(ours.statistics().values())
    assert [(each.messages, each.activations) for each in figures] == [(5, 0), (5, 0)]


def test_async_agents_run_on_any_loop_and_share_sessions_with_sync_ones(middleware):
    ours, model = middleware(), ScriptedModel(messages=working())
    agent = agent_of(model, ours)

    async def tell(text: str, thread: str) -> Any:
        return await agent.ainvoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": thread}})

    async def tell_several() -> None:
        await asyncio.gather(*(tell("Fix it.", f"a{number}") for number in range(4)))

    asyncio.run(tell_several())
    asyncio.run(tell("Go on.", "a0"))
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: say(agent, "Again.", {"configurable": {"thread_id": f"a{n}"}}), range(4)))
    assert [problem for request in model.requests for problem in problems(request)] == []
    assert sorted(ours.statistics()) == [f"langchain:a{number}" for number in range(4)]
    assert all("log_replaced" not in each.activations_by_reason for each in ours.statistics().values())


def test_runs_at_the_same_time_on_one_thread_are_each_sent_their_own_history(middleware):
    model = ScriptedModel(messages=always("I see."))
    agent = create_agent(model, [], middleware=[middleware()])

    async def tell(number: int) -> None:
        history = [HumanMessage(f"run{number} says {text}") for text in range(300)]
        await agent.ainvoke({"messages": history}, THREAD)

    async def tell_several() -> None:
        await asyncio.gather(*map(tell, range(4)))

    asyncio.run(tell(4))
    asyncio.run(tell_several())
    said = [set(re.findall(r"run\d", str(request))) for request in model.requests]
    assert sorted(map(sorted, said)) == [["run0"], ["run1"], ["run2"], ["run3"], ["run4"]]


def test_what_a_summarizing_model_says_is_not_streamed_as_the_agents(middleware):
    helper = SummaryModel(text="summarized")
    ours, model = middleware(summarizer=helper), ScriptedModel(messages=working(steps=12), disable_streaming=True)
    agent = agent_of(model, ours)
    told = agent.stream({"messages": [HumanMessage("Fix it.")]}, THREAD, stream_mode="messages")
    texts = [str(message.content) for message, _ in told]
    assert ours.wait_idle()
    assert helper.requests
    assert "Part 0 is done." in texts
    assert "summarized" not in texts


def test_the_window_of_the_models_profile_is_the_budget():
    profile = {"max_input_tokens": 3_500, "max_output_tokens": 500}
    model = ScriptedModel(messages=working(), profile=profile)
    settings = Settings(segment_min=200, segment_target=400, segment_max=800)
    with SummarizingMiddleware(settings, count_tokens=count) as ours:
        fix(agent_of(model, ours))
        (figures,) = ours.statistics().values()
        assert figures.activations
    assert [problem for request in model.requests for problem in problems(request, 3_000)] == []


class Marks(AgentMiddleware):
    """Asks for the cache as LangChain's own middleware for Anthropic does."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(model_settings=self.settings))


@pytest.mark.parametrize(
    ("settings", "block", "expiries"),
    [
        ({}, {}, 1),
        ({"cache_control": {"type": "ephemeral", "ttl": "1h"}}, {}, 0),
        ({"cache_control": {"type": "ephemeral"}}, {}, 1),
        ({}, {"cache_control": {"type": "ephemeral", "ttl": "1h"}}, 0),
    ],
)
def test_a_cache_lives_as_long_as_the_request_asks_for(middleware, settings, block, expiries):
    now = [0.0]
    model = ScriptedModel(messages=iter([AIMessage("One."), AIMessage("Two.")]), model_name="claude-opus-5-5")
    ours = middleware(clock=lambda: now[0], max_tokens=20_000)
    agent = agent_of(model, Marks(settings), ours)
    for at in (0.0, 1_000.0):
        now[0] = at
        said = {"type": "text", "text": "Fix the parser. " * 400, **block}
        agent.invoke({"messages": [HumanMessage([said])]}, THREAD)
    [figures] = ours.statistics().values()
    assert (figures.cache.requests, figures.cache.expiries) == (2, expiries)
