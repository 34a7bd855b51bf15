"""deepagents' summarization middleware: it wraps the model call, keeps the state and offloads old text to a file."""

from __future__ import annotations

from typing import Any

from deepagents.backends import FilesystemBackend
from deepagents.middleware import summarization
from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage

from evals.performance.managers import Manager, Setup
from evals.performance.managers.langchain import ChatModel, count_tokens, from_langchain, to_langchain
from evals.performance.tokens import Message


class DeepAgents(Manager):
    """A request as `create_agent` makes it; what the middleware would send is the view."""

    session = summarization.SUMMARIZATION_SESSION_ID_KEY  # without it, its file has a random name

    def __init__(self, middleware: Any, model: ChatModel) -> None:
        self.middleware, self.model = middleware, model
        self.system: list[BaseMessage] = []
        self.state: dict[str, Any] = {"messages": [], self.session: "one"}

    async def add(self, message: Message) -> None:
        (self.system if message["role"] == "system" else self.state["messages"]).append(to_langchain(message))

    async def view(self) -> list[BaseMessage]:
        sent: list[BaseMessage] = []
        request = ModelRequest(
            model=self.model,
            messages=list(self.state["messages"]),
            system_message=self.system[0] if self.system else None,
            tools=[],
            tool_choice=None,
            response_format=None,
            state=self.state,
            runtime=None,
            model_settings={},
        )

        async def send(request: ModelRequest) -> ModelResponse:
            sent.extend(request.messages)
            return ModelResponse(result=[AIMessage(content="")])

        done = await self.middleware.awrap_model_call(request, send)
        if isinstance(done, ExtendedModelResponse) and done.command is not None:
            self.state.update({name: value for name, value in done.command.update.items() if name != "messages"})
        return [*self.system, *sent]

    def shown(self, view: Any) -> list[Message]:
        return from_langchain(view)


async def open_manager(setup: Setup) -> Manager:
    model = ChatModel(fake=setup.model, profile={"max_input_tokens": setup.budget})
    backend = FilesystemBackend(root_dir=str(setup.folder), virtual_mode=True)
    return DeepAgents(summarization.create_summarization_middleware(model, backend, token_counter=count_tokens), model)
