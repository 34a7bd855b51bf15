"""OpenAI's compaction session: after a run, the server replaces all but the user's messages by one sealed item.

The server here answers `responses.compact` as the real one is documented to: the messages of the user, then the item.
"""

from types import SimpleNamespace
from typing import Any

from agents import SQLiteSession
from agents.memory import OpenAIResponsesCompactionSession

from evals.performance.managers import TRIGGER, Manager
from evals.performance.tokens import Message, message_tokens, render, rows_of, tool_call


class Adapter(Manager):
    """The session of a runner: it is compacted when a run has ended, and read before each request."""

    async def open(self) -> None:
        self.new: list[Any] = []  # items of the run
        self.ended = False
        self.session = OpenAIResponsesCompactionSession(
            "one",
            SQLiteSession("one"),
            client=SimpleNamespace(responses=SimpleNamespace(compact=self._compact)),
            compaction_mode="input",
            should_trigger_compaction=lambda asked: self._tokens(asked["session_items"]) >= self.budget * TRIGGER,
        )

    def _tokens(self, items: Any) -> int:
        return sum(map(message_tokens, self.shown(items)))

    async def _compact(self, *, model: str, input: Any) -> Any:
        summary = await self.model.summarize(render(self.shown(input)))
        kept = [item for item in input if item.get("role") == "user"]
        return SimpleNamespace(output=[*kept, {"type": "compaction", "encrypted_content": summary}], usage=None)

    async def append(self, message: Message) -> None:
        role, content = message["role"], message["content"]
        if role == "user" and self.new:  # the run before has ended
            self.ended = True
            await self.stored()
        if role == "tool":
            self.new.append({"type": "function_call_output", "call_id": message["tool_call_id"], "output": content})
        else:
            self.new.append({"role": role, "content": content})
        for call in message.get("tool_calls") or ():
            self.new.append({"type": "function_call", "call_id": call["id"], **call["function"]})

    async def view(self) -> Any:
        if self.ended:  # the runner does it at the end of the run; the agent waits there
            self.ended = False
            await self.session.run_compaction({"compaction_mode": "input"})
        await self.stored()
        return await self.session.get_items()

    async def stored(self) -> None:
        new, self.new = self.new, []
        await self.session.add_items(new)

    def rows(self, messages: Any) -> list[Message]:
        rows: list[Message] = []
        for item in messages:
            match item.get("type"):
                case "function_call":
                    call = tool_call(item["call_id"], item["name"], item["arguments"])
                    rows[-1].setdefault("tool_calls", []).append(call)
                case "function_call_output":
                    rows += rows_of("tool", "", results=[(item["call_id"], item["output"])])
                case "compaction":
                    rows += rows_of("user", item["encrypted_content"])
                case _:
                    rows += rows_of(item["role"], item["content"])
        return rows
