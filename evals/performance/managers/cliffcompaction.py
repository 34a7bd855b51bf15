"""CliffCompaction: the engine of its proxy rewrites a whole request, mechanically; here in process, without HTTP."""

from typing import Any

from cliffcompaction.config import Config
from cliffcompaction.dialects.openai_chat import DIALECT
from cliffcompaction.engine import Engine

from evals.performance.managers import TRIGGER, Manager
from evals.performance.tokens import Message


class Adapter(Manager):
    """The client sends all its history each time."""

    async def open(self) -> None:
        self.engine = Engine(Config(threshold_tokens=int(self.budget * TRIGGER)))
        self.messages: list[Message] = []

    async def add(self, message: Message) -> None:
        self.messages.append(message)

    async def view(self) -> Any:
        return self.engine.prepare({"messages": self.messages}, DIALECT).outgoing_body()["messages"]
