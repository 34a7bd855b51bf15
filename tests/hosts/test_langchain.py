"""The middleware in LangChain's own agents: what the contract of all hosts does not ask for."""

import asyncio
import json
import multiprocessing
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, wrap_model_call
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from summarizing_context import ContextClosedError, Settings
from summarizing_context.adapters.langchain import SummarizingMiddleware
from tests.docs import documents
from tests.hosts.contract.judge import Call, Row, cost
from tests.hosts.contract.langchain_host import message_of, row_of
from tests.laws.builders import count
from tests.laws.judge import SMALL

THREAD = {"configurable": {"thread_id": "t1"}}
CACHED = {"cache_read": 700, "cache_creation": 100}
USAGE = {"input_tokens": 900, "output_tokens": 20, "total_tokens": 920, "input_token_details": CACHED}


class ScriptedModel(GenericFakeChatModel):
    """Says what the script says, and keeps each request."""

    requests: list[list[BaseMessage]] = []  # noqa: RUF012 - a field of pydantic's, copied for each model
    model_name: str = "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *rest: Any, **named: Any) -> Any:
        self.requests.append(messages)
        return super()._generate(messages, *rest, **named)


@tool(response_format="content_and_artifact")
def read(path: str) -> tuple[str, dict[str, str]]:
    """Read a file."""
    return f"{path}: " + "a line of code; " * 40, {"path": path}


def working(turns: int = 100, steps: int = 6) -> Iterator[AIMessage]:
    """In each turn so many replies with signed thinking and two parallel calls, then an answer."""
    for turn in range(turns):
        for step in range(steps):
            paths = [f"src/{name}{turn}_{step}.py" for name in "ab"]
            asked = tuple(Call(f"call_{path}", "read", json.dumps({"path": path})) for path in paths)
            said = message_of(Row("assistant", "I read on.", asked, thinking="Which one?"))
            yield said.model_copy(update={"usage_metadata": USAGE})
        yield AIMessage(f"Part {turn} is done.")


def always(text: str) -> Iterator[AIMessage]:
    while True:
        yield AIMessage(text)


@pytest.fixture
def middleware() -> Iterator[Any]:
    """Makes middlewares that are closed at the end."""
    with ExitStack() as stack:

        def make(**options: Any) -> SummarizingMiddleware:
            given = {name: options.pop(name) for name in ("summarizer", "clock", "open_sessions") if name in options}
            settings = Settings(**{"max_tokens": 4_000, **SMALL, **options})
            return stack.enter_context(SummarizingMiddleware(settings, count_tokens=count, **given))

        yield make


def kept() -> tuple[list[Any], AgentMiddleware]:
    """The requests that have passed ours, and the middleware that keeps them behind it."""
    sent: list[Any] = []
    return sent, wrap_model_call(lambda request, handler: sent.append(request) or handler(request))


def agent_of(model: Any, *middleware: Any, tools: Any = (read,), **options: Any) -> Any:
    return create_agent(model, list(tools), middleware=middleware, checkpointer=InMemorySaver(), **options)


def say(agent: Any, text: Any, config: Any = THREAD) -> list[Any]:
    return agent.invoke({"messages": [HumanMessage(text)]}, config)["messages"]


def test_what_stays_is_the_states_own_in_its_order_and_system_messages_stay_behind_the_agents_prompt(middleware):
    (sent, keeping), model = kept(), ScriptedModel(messages=working())
    agent = agent_of(model, middleware(), keeping, system_prompt="You fix code.")
    for turn, told in enumerate(("The user is Ana.", "The tests are slow.")):
        agent.update_state(THREAD, {"messages": [SystemMessage(told)]})
        say(agent, f"Fix part {turn}.")
    for request in sent:
        state = {id(message): at for at, message in enumerate(request.state["messages"])}
        places = [state[id(message)] for message in request.messages if id(message) in state]
        assert places == sorted(places)
        assert (places[0], places[-1]) == (0, len(state) - 1)
    messages = request.messages
    *_, reply, first, last = messages
    assert (last.artifact["path"], {id(one) in state for one in (reply, first, last)}) == ("src/b1_5.py", {True})
    assert [message.content for message in model.requests[-1][:2]] == ["You fix code.", "The user is Ana."]
    assert any(message.content == "The tests are slow." for message in messages)
    assert len(messages) < len(state)


@pytest.mark.parametrize(("name", "stays"), [("claude-opus-4-8", True), ("claude-opus-5-5", False)])
def test_thinking_of_the_open_turn_goes_where_the_model_refuses_it(middleware, name, stays):
    sent, keeping = kept()
    agent = agent_of(ScriptedModel(messages=working(steps=20), model_name=name), middleware(), keeping)
    say(agent, "Fix it.")
    first = next(request for request in sent if len(request.messages) < len(request.state["messages"]))
    assert any("thinking" in str(message.content) for message in first.messages) == stays


def test_bytes_of_an_image_stay_also_where_its_message_is_joined_to_another(middleware):
    sent, keeping = kept()
    image = {"image": {"format": "png", "source": {"bytes": b"png"}}}
    ours, model = middleware(merge_user_rows=True), ScriptedModel(messages=always("Done."))
    agent = create_agent(model, [], middleware=[ours, keeping])
    agent.invoke({"messages": [HumanMessage("Look."), HumanMessage([{"type": "text", "text": "Here."}, image])]})
    (message,) = sent[-1].messages
    assert message.content[-1] == image


def test_child_agents_have_sessions_of_their_own(middleware):
    ours, helper_model = middleware(), ScriptedModel(messages=always("Found nothing."))
    helper = create_agent(helper_model, [], middleware=[ours])

    @tool
    def research(question: str) -> str:
        """Ask the helper."""
        return helper.invoke({"messages": [HumanMessage(question)]})["messages"][-1].content

    asked = [{"name": "research", "args": {"question": f"Where is {name}?"}, "id": f"call_{name}"} for name in "ab"]
    model = ScriptedModel(messages=iter([AIMessage("", tool_calls=asked), AIMessage("Nowhere.")]))
    say(agent_of(model, ours, tools=[research]), "Find a and b.")
    assert sorted(str(request[0].content) for request in helper_model.requests) == ["Where is a?", "Where is b?"]
    figures = sorted((name[:19], one.messages) for name, one in ours.statistics().items())
    assert figures == [("langchain:t1", 4), *[("langchain:t1:tools:", 1)] * 2]


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
    assert [(each.messages, each.activations) for each in ours.statistics().values()] == [(5, 0), (5, 0)]


def test_async_agents_run_on_any_loop_and_share_sessions_with_sync_ones(middleware):
    ours, model = middleware(), ScriptedModel(messages=working())
    agent = agent_of(model, ours)
    threads: list[Any] = [{"configurable": {"thread_id": f"a{number}"}} for number in range(4)]

    async def ask(*configs: Any) -> None:
        await asyncio.gather(*(agent.ainvoke({"messages": [HumanMessage("Fix it.")]}, config) for config in configs))

    asyncio.run(ask(*threads))
    asyncio.run(ask(threads[0]))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda config: say(agent, "Again.", config), threads))
    assert max(sum(cost(row_of(message)) for message in request) for request in model.requests) <= 4_000
    assert sorted(ours.statistics()) == [f"langchain:a{number}" for number in range(4)]
    assert all("log_replaced" not in each.activations_by_reason for each in ours.statistics().values())


def test_runs_at_the_same_time_on_one_thread_are_each_sent_their_own_history(middleware):
    model = ScriptedModel(messages=always("I see."))
    agent = create_agent(model, [], middleware=[middleware()])

    async def run(*numbers: int) -> None:
        histories = [[HumanMessage(f"run{number} says {text}") for text in range(300)] for number in numbers]
        await asyncio.gather(*(agent.ainvoke({"messages": history}, THREAD) for history in histories))

    asyncio.run(run(4))
    asyncio.run(run(0, 1, 2, 3))
    said = [set(re.findall(r"run\d", str(request))) for request in model.requests]
    assert sorted(map(sorted, said)) == [["run0"], ["run1"], ["run2"], ["run3"], ["run4"]]


def test_what_a_summarizing_model_says_is_not_streamed_as_the_agents(middleware):
    helper = ScriptedModel(messages=always("- summarized"))
    ours, model = middleware(summarizer=helper), ScriptedModel(messages=working(steps=12), disable_streaming=True)
    streamed = agent_of(model, ours).stream({"messages": [HumanMessage("Fix it.")]}, THREAD, stream_mode="messages")
    texts = [str(message.content) for message, _ in streamed]
    ours.wait_idle()
    assert helper.requests
    assert "Part 0 is done." in texts
    assert "- summarized" not in texts


def test_the_window_of_the_models_profile_is_the_budget_and_usage_is_taken_in():
    model = ScriptedModel(messages=working(), profile={"max_input_tokens": 3_500, "max_output_tokens": 500})
    with SummarizingMiddleware(Settings(**SMALL), count_tokens=count) as ours:
        agent = agent_of(model, ours)
        for turn in range(2):
            say(agent, f"Fix part {turn}.")
        (figures,) = ours.statistics().values()
        assert figures.activations
    used = figures.cache
    assert (used.reported, used.read_tokens, used.written_tokens, used.output_tokens) == (12, 8_400, 1_200, 240)
    assert max(sum(cost(row_of(message)) for message in request) for request in model.requests) <= 3_000


LASTING = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


@pytest.mark.parametrize(
    ("settings", "block", "expiries"),
    [({}, {}, 1), (LASTING, {}, 0), ({"cache_control": {"type": "ephemeral"}}, {}, 1), ({}, LASTING, 0)],
)
def test_a_cache_lives_as_long_as_the_request_asks_for(middleware, settings, block, expiries):
    # as LangChain's own middleware for Anthropic does
    marks = wrap_model_call(lambda request, handler: handler(request.override(model_settings=settings)))
    now = [0.0]
    model = ScriptedModel(messages=always("Done."), model_name="claude-opus-5-5")
    ours = middleware(clock=lambda: now[0], max_tokens=20_000)
    agent = agent_of(model, marks, ours)
    for now[0] in (0.0, 1_000.0):
        say(agent, [{"type": "text", "text": "Fix the parser. " * 400, **block}])
    [figures] = ours.statistics().values()
    assert (figures.cache.requests, figures.cache.expiries) == (2, expiries)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_was_forked_is_told_so_and_does_not_hang(middleware):
    agent = create_agent(ScriptedModel(messages=always("Done.")), [], middleware=[middleware()])
    say(agent, "Fix it.")
    raises: Any = {"target": pytest.raises, "args": (ContextClosedError, say, agent, "Fix it.")}
    process = multiprocessing.get_context("fork").Process(**raises, daemon=True)
    process.start()
    process.join(20)
    assert process.exitcode == 0


def test_what_is_documented_takes_the_place_of_the_summarization_of_deepagents(monkeypatch):
    given: dict[str, Any] = {}
    monkeypatch.setitem(sys.modules, "deepagents", SimpleNamespace(create_deep_agent=given.update))
    [block] = [block for block in documents.blocks("python") if block.mark == "needs deepagents"]
    exec(block.text, {"__name__": "documented"})
    assert [each.name for each in given["middleware"]] == ["SummarizationMiddleware"]


def test_the_figures_are_without_a_session_that_is_just_being_closed(middleware):
    agent = agent_of(ScriptedModel(messages=always("Done.")), ours := middleware(open_sessions=1))
    for name in "abcdefghi":
        say(agent, "Fix it.", {"configurable": {"thread_id": name}})
        assert f"langchain:{name}" in ours.statistics()


def test_what_is_bound_to_reasoning_that_a_view_leaves_out_goes_without_its_ids(middleware):
    (sent, keeping), text = kept(), {"type": "text", "id": "msg_1", "text": "I see. " * 5_000}
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": "{}"}
    said = [{"type": "reasoning", "id": "rs_1", "summary": []}, text, call]
    reply = AIMessage(said, tool_calls=[{"name": "read", "args": {}, "id": "c1"}])
    agent = create_agent(ScriptedModel(messages=always("Done.")), [], middleware=[middleware(), keeping])
    agent.invoke({"messages": [HumanMessage("Fix it."), reply, ToolMessage("Here.", tool_call_id="c1")]})
    shown = next(message for message in sent[0].messages if isinstance(message, AIMessage))
    assert (type(shown.content), shown.tool_calls[0]["id"]) == (str, "c1")
