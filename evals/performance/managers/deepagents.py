"""deepagents' summarization middleware: it wraps the model call, keeps the state and offloads old text to a file."""

from typing import Any

from deepagents.backends import FilesystemBackend
from deepagents.middleware.summarization import SUMMARIZATION_SESSION_ID_KEY, create_summarization_middleware
from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage

from evals.performance.managers import langchain


class Adapter(langchain.Adapter):
    """A request as `create_agent` makes it; what the middleware would send is the view."""

    async def open(self) -> None:
        self.messages: Any = []
        self.chat = langchain.ChatModel(manager=self, profile={"max_input_tokens": self.budget})
        self.state: dict[str, Any] = {"messages": self.messages, SUMMARIZATION_SESSION_ID_KEY: "one"}  # names its file
        backend = FilesystemBackend(str(self.folder), virtual_mode=True)
        self.middleware = create_summarization_middleware(self.chat, backend, token_counter=langchain.count_tokens)

    async def view(self) -> list[BaseMessage]:
        sent: list[BaseMessage] = []
        system = langchain.to_langchain(self.system[0]) if self.system else None
        about: Any = {"model": self.chat, "state": self.state, "runtime": None}
        request = ModelRequest(messages=list(self.messages), system_message=system, **about)

        async def send(request: ModelRequest) -> ModelResponse:
            sent.extend(request.messages)
            return ModelResponse(result=[AIMessage(content="")])

        done = await self.middleware.awrap_model_call(request, send)
        if isinstance(done, ExtendedModelResponse) and done.command is not None:
            self.state.update({name: value for name, value in done.command.update.items() if name != "messages"})
        return sent
