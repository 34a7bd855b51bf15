"""A client without npm: an agent that streams, thinks, runs commands and hands work on, by Anthropic's SDK.

Its commands are read by a few lines here and run on files in memory, so nothing of the machine is touched.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anthropic

_SYSTEM = "You are an agent for code. You read files with Bash, and hand large pieces of work to agents. " * 12

_TEXT = {"type": "string"}

_TOOLS = [
    {
        "name": name,
        "description": about,
        "input_schema": {"type": "object", "properties": dict.fromkeys(fields, _TEXT), "required": list(fields)},
    }
    for name, about, fields in (
        ("Bash", "Run a command in the folder of the session.", ("command", "description")),
        ("Agent", "Let an agent do a piece of the work.", ("description", "prompt", "subagent_type")),
    )
]

_FIELDS = {"text": ("text",), "thinking": ("thinking", "signature"), "tool_use": ("id", "name", "input")}


@dataclass
class Agent:
    """One history; `told` hears of each reply: after how many seconds it was there."""

    client: anthropic.AsyncAnthropic
    files: Mapping[str, str]
    told: Callable[[float], None] = lambda seconds: None
    session: str = field(default_factory=lambda: str(uuid.uuid4()))
    agent: str | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    model: str = "claude-opus-4-8"
    opening: str = ""  # what its system says behind the first words, as Claude Code tells its machine and its agents
    effort: str = "medium"

    async def say(self, text: str) -> str:
        """Say something and do what is asked for, until the model only talks; its last words."""
        said: list[dict[str, Any]] = [{"type": "text", "text": text}]
        while True:
            blocks = await self._reply(said)
            calls = [block for block in blocks if block["type"] == "tool_use"]
            if not calls:
                return "\n".join(block["text"] for block in blocks if block["type"] == "text")
            said = [
                {"type": "tool_result", "tool_use_id": call["id"], "content": await self._done(call)} for call in calls
            ]

    async def _reply(self, said: list[dict[str, Any]]) -> list[dict[str, Any]]:
        marked = [*said[:-1], {**said[-1], "cache_control": {"type": "ephemeral"}}]
        told = self._system()
        sent: Any = [*self.history, {"role": "user", "content": marked}, *told]
        self.history += [{"role": "user", "content": said}, *told]
        named = {"x-claude-code-session-id": self.session, "anthropic-beta": "per-turn-control-2026-07-01"}
        if self.agent is not None:
            named["x-claude-code-agent-id"] = self.agent
        began = time.perf_counter()
        async with self.client.messages.stream(
            model=self.model,
            max_tokens=4_000,
            system=_SYSTEM,
            tools=_TOOLS,  # type: ignore[arg-type]
            thinking={"type": "enabled", "budget_tokens": 1_024},
            messages=sent,
            extra_headers=named,
        ) as stream:
            message = await stream.get_final_message()
        self.told(time.perf_counter() - began)
        blocks = [{"type": b.type, **{name: getattr(b, name) for name in _FIELDS[b.type]}} for b in message.content]
        self.history.append({"role": "assistant", "content": blocks})
        return blocks

    def _system(self) -> list[dict[str, Any]]:
        """What the system says behind the newest words: the opening, and later an effort that has changed."""
        efforts = [row["output_config"]["effort"] for row in self.history if "output_config" in row]
        if not self.opening or efforts[-1:] == [self.effort]:
            return []
        said = [] if self.history else [{"type": "text", "text": self.opening}]
        return [{"role": "system", "content": said, "output_config": {"effort": self.effort}}]

    async def _done(self, call: Mapping[str, Any]) -> str:
        if call["name"] == "Agent":
            other = Agent(self.client, self.files, session=self.session, agent=uuid.uuid4().hex[:16], model=self.model)
            return await other.say(call["input"]["prompt"])
        return "\n".join(self._output(command.split()) for command in call["input"]["command"].split("; "))

    def _output(self, words: list[str]) -> str:
        """What a command of the script prints: cat, grep -n def, head -c, echo."""
        text = self.files.get(words[-1], "")
        if words[0] == "cat":
            return text
        if words[0] == "grep":
            numbered = enumerate(text.splitlines(), 1)
            return "\n".join(f"{number}:{line}" for number, line in numbered if words[2] in line)
        return text[: int(words[2])] if words[0] == "head" else " ".join(words[1:])


def sdk(address: str) -> anthropic.AsyncAnthropic:
    """A client of the SDK for an address of the loopback; the caller closes it."""
    return anthropic.AsyncAnthropic(base_url=address, api_key="sk-none", max_retries=0)
