"""LangChain's `create_agent` with its own middleware, deepagents' or this package's, and a checkpointer."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from evals.hosts_beside.play import Stage
from evals.hosts_beside.rows import DESCRIPTION, PROMPT, Call, Row, tokens, wire

CONFIG: Any = {"configurable": {"thread_id": "beside"}, "recursion_limit": 100}
_ROLES = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}


class Model(BaseChatModel):
    """The agent's model: it says what the script says, and what it was sent as usage."""

    stage: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError("the session is played asynchronously")

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        rows = [row_of(message) for message in messages]
        reply = await self.stage.reply(rows)
        calls = [{"name": "read", "args": {"path": call.path}, "id": call.id} for call in reply.calls]
        read, said = tokens(wire(rows)), tokens(reply.wire)
        usage: Any = {"input_tokens": read, "output_tokens": said, "total_tokens": read + said}
        return _result(AIMessage(reply.text, tool_calls=calls, usage_metadata=usage))


class SummaryModel(BaseChatModel):
    """The model that summarizes, for a middleware of LangChain's."""

    reader: Any

    @property
    def _llm_type(self) -> str:
        return "reader"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return _result(AIMessage(self.reader.summarize_here([row_of(message) for message in messages])))

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return _result(AIMessage(await self.reader.summarize([row_of(message) for message in messages])))


class LangChainHost:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def __aenter__(self) -> LangChainHost:
        @tool(description=DESCRIPTION)
        async def read(path: str) -> str:
            return self._stage.result(path)

        self._middleware: Any = _middleware(self._stage)
        self._saver = InMemorySaver()
        self._agent: Any = create_agent(
            Model(stage=self._stage),
            [read],
            system_prompt=PROMPT,
            middleware=[self._middleware],
            checkpointer=self._saver,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._stage.arm == "ours in LangChain":
            self._middleware.close()

    async def ask(self, prompt: str) -> None:
        await self._agent.ainvoke({"messages": [HumanMessage(prompt)]}, CONFIG, durability="exit")
        self._forget()

    def _forget(self) -> None:
        """Checkpoints but the newest: a session of thousands of messages would be kept hundreds of times."""
        for spaces in self._saver.storage.values():
            for checkpoints in spaces.values():
                for old in sorted(checkpoints)[:-1]:
                    del checkpoints[old]
        (newest,) = self._saver.storage[CONFIG["configurable"]["thread_id"]][""].values()
        versions = self._saver.serde.loads_typed(newest[0])["channel_versions"]  # without what the channels hold
        for key in list(self._saver.blobs):
            if versions.get(key[2]) != key[3]:
                del self._saver.blobs[key]


def _middleware(stage: Stage) -> AgentMiddleware[Any, Any]:
    model = SummaryModel(reader=stage.reader)
    if stage.arm == "LangChain":
        from langchain.agents.middleware import SummarizationMiddleware

        return SummarizationMiddleware(model, trigger=("tokens", stage.setting))
    if stage.arm == "deepagents":
        from deepagents.backends import FilesystemBackend
        from deepagents.middleware.summarization import create_summarization_middleware

        model.profile = {"max_input_tokens": stage.setting}
        backend = FilesystemBackend(root_dir=str(stage.folder), virtual_mode=True)
        return create_summarization_middleware(model, backend)
    from evals.hosts_beside.ours import options
    from summarizing_context.adapters.langchain import SummarizingMiddleware

    settings, beside = options(stage.setting, stage.reader)
    return SummarizingMiddleware(settings, **beside)


def row_of(message: BaseMessage) -> Row:
    calls = tuple(Call(str(call["id"]), call["args"]["path"]) for call in getattr(message, "tool_calls", ()))
    return Row(_ROLES[message.type], str(message.text), calls, getattr(message, "tool_call_id", ""))


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])
