"""The tool calls at the end of a log that have no result yet, as a program needs them that runs or answers them.

Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from summarizing_context.log.message_log import MessageLog
from summarizing_context.messages.parts import Part
from summarizing_context.messages.validation import Message


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A tool call that has no result yet.

    `message` is the index in the log of the message that makes it. `arguments` are the JSON value that the model wrote,
    or its text where that is no JSON. `block` is the type of the content block that makes the call, such as `tool_use`;
    empty for a call in `tool_calls`.
    """

    message: int
    id: str
    name: str
    arguments: Any
    block: str = ""

    def result(self, content: str | list[Any]) -> Message:
        """Return the message that answers the call, in the shape in which the call was made, for `add_message`."""
        if self.block == "tool_use":
            return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": self.id, "content": content}]}
        return {"role": "tool", "tool_call_id": self.id, "content": content}


def open_calls_of(log: MessageLog) -> list[OpenCall]:
    """Return the calls that wait for a result, oldest first."""
    found: list[OpenCall] = []
    for index, ordinal in log.open_calls():
        reading = log.read(index)[0].reading
        made = [part for part in reading.parts if part.kind == "call" and part.id in reading.calls]
        part = made[ordinal]
        found.append(OpenCall(index, part.id, part.name, _arguments(part), part.shape))
    return found


def _arguments(part: Part) -> Any:
    text = part.texts[0] if part.texts else ""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
