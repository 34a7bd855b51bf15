"""The providers' own compaction: blocks that only they can write, asked for on demand and sent again as they came.

By the pages of platform.claude.com on compaction on demand and of developers.openai.com on `/responses/compact`, as of
November 2026.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from summarizing_context.errors import SummarizerError, SummarizerRefused
from summarizing_context.summarizers.base import SummaryReply
from summarizing_context.summarizers.sdk import Fault, SdkSummarizer, counted
from summarizing_context.summarizers.verification import Refusal

Message = Mapping[str, Any]

MOST_INSTRUCTIONS = 16_384  # characters that Anthropic takes


class NativeRequest(NamedTuple):
    """A conversation that its provider is to compact, as far as it has been sent already."""

    model: str
    system: Sequence[Message]  # its leading rows
    head: Sequence[Message]  # what stands for the past
    messages: Sequence[Message]  # the newest, which end where no call is open
    tools: Sequence[Message]
    instructions: str
    tokens: int  # of all of it, as we count


class Compactor:
    """Asks the provider that makes the summaries for a block; `recipe` names it, its server and the account."""

    def __init__(self, model: SdkSummarizer, recipe: str) -> None:
        self._model, self.provider, self.recipe = model, model.provider, recipe

    async def compact(self, asked: NativeRequest) -> SummaryReply:
        """Return the provider's blocks or items as JSON. Raise `SummarizerError` or a subclass."""
        try:
            if self.provider == "anthropic":
                system = [block for row in asked.system for block in _blocks(row)]
                beside = {"system": system, "tools": list(asked.tools)}
                reply = await self._model.connection.request(
                    "beta.messages.with_streaming_response.create",
                    model=asked.model,
                    max_tokens=16_000,  # tokens of a block, with what the model thinks before
                    messages=[
                        {name: value for name, value in row.items() if name != "metadata" and not name.startswith("_")}
                        for row in (*asked.head, *asked.messages)
                    ],
                    compaction={"type": "summarize", "instructions": asked.instructions},
                    betas=["compact-2026-09-04"],  # of each request to Anthropic that asks for a block, or carries one
                    **{name: value for name, value in beside.items() if value},
                )
                content, reason = reply["content"], reply["stop_reason"]
                if reason != "compaction" or len(content) != 1 or not content[0].get("content"):
                    raise SummarizerRefused(Refusal.DECLINED if reason == "refusal" else Refusal.EMPTY)
                return counted(json.dumps(content), next(iter(reply["usage"].get("iterations") or ()), {}))

            # all rows of a user are kept in the window, so those that views will bring again come as a developer's
            head = [row if is_compacted(row) else {**row, "role": "developer"} for row in asked.head]
            items = [item for message in (*asked.system, *head, *asked.messages) for item in items_of(message)]
            reply = await self._model.connection.request(
                "responses.with_streaming_response.compact",
                model=asked.model,
                input=items,
                instructions=asked.instructions,
            )
            if not is_compacted({"role": "assistant", "content": reply["output"]}):
                raise SummarizerRefused(Refusal.EMPTY)
            return counted(json.dumps(reply["output"]), reply["usage"])
        except (AttributeError, KeyError, TypeError):
            raise SummarizerError(Fault.SHAPE) from None


def is_compacted(message: Message) -> bool:
    """Return whether a message of a view holds nothing but what a provider has compacted."""
    content = message.get("content")
    last = content[-1] if isinstance(content, list) and content else None
    return isinstance(last, dict) and last.get("type") == "compaction" and message["role"] == "assistant"


def items_of(message: Message) -> Iterator[dict[str, Any]]:
    """Yield a message of a chat as items of the Responses API; what the provider has compacted as it came."""
    if is_compacted(message):
        yield from message["content"]
        return
    text = "\n".join(block["text"] for block in _blocks(message) if isinstance(block.get("text"), str))
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": text}
        return
    if text:
        yield {"role": message["role"], "content": text}
    for call in message.get("tool_calls") or ():
        said = {name: call["function"][name] for name in ("name", "arguments")}
        yield {"type": "function_call", "call_id": call["id"], **said}


def _blocks(message: Message) -> list[dict[str, Any]]:
    content = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
