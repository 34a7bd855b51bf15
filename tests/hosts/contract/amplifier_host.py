"""A session of `amplifier-core` with the loop and the kind of provider of the adapter's own tests."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Self

from amplifier_core import ChatResponse, ProviderInfo

from summarizing_context.adapters.amplifier import SummarizingContextManager
from summarizing_context.assembly import Options
from tests.adapters import host
from tests.hosts.contract.judge import Call, Row, unchanged
from tests.hosts.contract.script import PROMPT, SIZES, Conversation, Host
from tests.laws.builders import call, result


@dataclass(eq=False)
class Provider:
    """Says what the script says. It tells no window."""

    conversation: Conversation
    name: ClassVar[str] = "scripted"

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id=self.name, display_name="Scripted")

    async def complete(self, request: Any, **_: Any) -> ChatResponse:
        front, *rows = [row_of(message.model_dump()) for message in request.messages]
        assert (front.role, front.text) == ("system", PROMPT)
        said = message_of(self.conversation.reply(rows))
        calls = [{**each, "name": each["tool"]} for each in said.get("tool_calls", ())]
        content = said["content"] if calls else [{"type": "text", "text": said["content"]}]
        return ChatResponse.model_validate({"content": content, "tool_calls": calls or None})


class AmplifierHost(Host):
    async def __aenter__(self) -> Self:
        self.manager = SummarizingContextManager({"store": str(self.store), **SIZES}, Options(**self.options))
        await self.manager.set_system_prompt_factory(lambda: PROMPT)
        host.register("amplifier_module_context_contract", "context", self.manager)
        given: Any = {"model": Provider(self.conversation), "tool": host.Read(self.conversation.result)}
        self._session = host.session_of({}, session_id=self.session, context="context-contract", **given)
        self._host = await self._session.__aenter__()
        self.manager.use_host(self._host.coordinator)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.manager.close()
        await self._session.__aexit__(None, None, None)

    async def ask(self, prompt: str) -> None:
        await self._host.execute(prompt)

    async def put(self, log: Sequence[Row]) -> None:
        rows = await self.manager.get_messages()
        same = unchanged(list(map(row_of, rows)), log)
        await self.manager.set_messages([*rows[:same], *map(message_of, log[same:])])

    async def history(self) -> list[Row]:
        return [row_of(row) for row in await self.manager.get_messages()]

    async def restart(self) -> None:
        transcript = await self.manager.get_messages()
        await super().restart()
        await self.manager.set_messages(transcript)

    async def figures(self) -> Any:
        return self.manager.statistics() or SimpleNamespace(activations=0)


def message_of(row: Row) -> dict[str, Any]:
    if row.role == "tool":
        return result("amplifier", str(row.answers), row.text)
    if not row.calls:
        return {"role": row.role, "content": row.text}
    asked = [(each.id, each.name, json.loads(each.arguments)) for each in row.calls]
    message = call("amplifier", *asked, text=row.text)
    if row.thinking:
        message["content"].insert(0, {"type": "thinking", "thinking": row.thinking, "signature": "c2lnbmVk"})
    return message


def row_of(message: Any) -> Row:
    content = message["content"]
    blocks: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    thinking = [block["thinking"] for block in blocks if block["type"] == "thinking"]
    asked = [block for block in blocks if block["type"] == "tool_call"]
    calls = [Call(block["id"], block["name"], json.dumps(block["input"])) for block in asked]
    wire = json.dumps([message["role"], content, message.get("tool_call_id")])
    answers = message.get("tool_call_id")
    return Row(message["role"], "\n".join(texts), tuple(calls), answers, "\n".join(thinking), wire)
