"""The managers that are compared: what each has to do, and the table of them.

Only `view` is timed, not what turns messages into the framework's own and its view back into plain ones. Adapters are
imported only where they run: each framework has an environment of its own, a venv with the pinned package.
"""

import importlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from evals.performance.fake_model import FakeModel
from evals.performance.tokens import Message

TRIGGER = 0.85  # of the budget, where a framework has no default of its own
KEEP = 20  # messages, likewise
ENVIRONMENTS = Path(__file__).parents[1] / ".environments"
LIMIT = 900  # seconds for one installation


@dataclass(eq=False, repr=False)  # frameworks may want to hash it
class Manager:
    """One session of one framework; each module here has an `Adapter`."""

    name: str  # in the table of managers
    budget: int  # tokens
    model: FakeModel
    folder: Path  # of its own; empty, or that of the session that is opened again
    system: list[Message] = field(default_factory=list)  # its rows, where the framework keeps them apart

    async def open(self) -> None:
        """Begin the session, or open it again."""

    async def add(self, message: Message) -> None:
        """Append a message."""
        await self.append(message) if message["role"] != "system" else self.system.append(message)

    async def append(self, message: Message) -> None:
        """Append a message that is none of the system, in the framework's own form."""
        raise NotImplementedError

    async def load(self, messages: Sequence[Message]) -> None:
        """A whole history at once, as a host does that has no saved state."""
        for message in messages:
            await self.add(message)

    async def view(self) -> Any:
        """The next request, in the framework's own form."""
        raise NotImplementedError

    def shown(self, view: Any) -> list[Message]:
        """That request as plain messages."""
        return [*self.system, *self.rows(view)]

    def rows(self, messages: Any) -> list[Message]:
        """Messages of the framework as plain ones."""
        return [row for message in messages for row in self.plain(message)]

    def plain(self, message: Any) -> list[Message]:
        """One message of the framework as plain ones."""
        return [message]

    async def settle(self) -> None:
        """Wait for background work, if there is any."""

    async def close(self) -> None:
        """End the session."""


class Entry(NamedTuple):
    module: str  # here
    package: str  # in an environment of its own; "" for this one
    defaults: str  # what it runs with


HARNESS, FRAMEWORK = "pydantic-ai-harness==0.62.0", "agent-framework-core==1.23.0"
MANAGERS: dict[str, Entry] = {
    "ours": Entry("ours", "", "Settings(max_tokens=budget), durable SQLite file, summaries by the fake model"),
    "ours-extractive": Entry("ours", "", "the same without a model: the built-in extractive summarizer"),
    "langchain": Entry("langchain", "langchain==1.5.2", "SummarizationMiddleware, trigger 85 %, keeps 20 messages"),
    "deepagents": Entry("deepagents", "deepagents==0.7.32", "its summarization middleware, trigger 85 %, keeps 10 %"),
    "pydantic": Entry("pydantic_harness", HARNESS, "SummarizingCompaction, trigger 85 %, keeps 20 messages"),
    "pydantic-background": Entry("pydantic_harness", HARNESS, "FallbackCompaction, start 85 % of 85 %, keeps 10 %"),
    "openai": Entry("openai_agents", "openai-agents==0.24.0", "OpenAIResponsesCompactionSession, trigger 85 %"),
    "agent-framework": Entry("agent_framework", FRAMEWORK, "SummarizationStrategy to 85 %, keeps 20 messages"),
    "adk": Entry("adk", "google-adk==2.13.0", "EventsCompactionConfig: token_threshold 85 %, retains 20 events"),
    "strands": Entry("strands", "strands-agents==1.62.0", "SummarizingConversationManager at 85 %, ratio 30 %"),
    "cliffcompaction": Entry("cliffcompaction", "cliffcompaction==0.1.0", "its engine in process, threshold 85 %"),
}


async def open_manager(name: str, budget: int, model: FakeModel, folder: Path) -> Manager:
    """Open one session of a manager; its environment must be the present one."""
    module = importlib.import_module(f"evals.performance.managers.{MANAGERS[name].module}")
    manager: Manager = module.Adapter(name, budget, model, folder)
    await manager.open()
    return manager


def ensure(package: str) -> Path:
    """Return the Python of an environment, made unless it is there. Raise `CalledProcessError` if it cannot be made."""
    if not package:
        return Path(sys.executable)
    folder = ENVIRONMENTS / package
    python, mark = folder / "bin" / "python", folder / ".ready"
    if not mark.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=LIMIT)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", package], check=True, timeout=LIMIT)
        mark.touch()
    return python
