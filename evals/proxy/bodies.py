"""Requests of a session that grows, as clients of each protocol send them: the whole history, and two new messages.

The newest message of an Anthropic request is marked for the cache, and loses the mark in the request after.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from evals.clients.rules import Seal

SEAL = Seal(b"measured")  # what a provider signs with

PATHS = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}

MODELS = {"anthropic": "claude-sonnet-5", "chat": "gpt-5", "responses": "gpt-5-codex"}

_TEXT = (
    "the parser reads a token list and returns nodes when tests pass because line cache store value error path "
    "module file request answer index window budget session writer reader commit branch deploy server client"
)

_TOOLS = 30  # that a request brings, of about 1.3 KB each


class Session:
    """The history of one session in one protocol."""

    def __init__(self, dialect: str, seed: int = 7, *, mark: str = "", tools: int = _TOOLS) -> None:
        self.dialect = dialect
        self.made = 0  # steps
        self.mark = mark  # stands in each text, with the number of the step
        self._random = random.Random(f"{dialect}{seed}")
        self._items: list[bytes] = []
        self._size = 0
        definitions = [_tool(dialect, number) for number in range(tools)]
        self._beside: dict[str, Any] = {"model": MODELS[dialect], "tools": definitions}
        self._add(_said(dialect, f"{self.marker}Session {seed}: fix the parser. Never push to main."))

    @property
    def marker(self) -> str:
        """What the newest texts begin with."""
        return f"{self.mark}#{self.made}. " if self.mark else ""

    def grow(self, size: int) -> None:
        """Go on until the history has so many bytes."""
        while self._size < size:
            self.step()

    def step(self) -> None:
        """A call of the model's, and its result; now and then an answer and new words of the user's."""
        self.made += 1
        number, text = self.made, self._text(30, 90)
        if number % 12 == 0:
            self._add(_answered(self.dialect, text))
            self._add(_said(self.dialect, f"Go on. {self._text(10, 40)}"))
            return
        for item in _called(self.dialect, number, text):
            self._add(item)
        self._add(_result(self.dialect, number, self._text(60, 900)))

    def body(self) -> bytes:
        """The request as a client would send it now."""
        items = list(self._items)
        fields = dict(self._beside)
        if self.dialect == "anthropic":
            newest = msgspec.json.decode(items[-1])
            newest["content"][-1]["cache_control"] = {"type": "ephemeral"}
            items[-1] = msgspec.json.encode(newest)
            fields |= {"max_tokens": 8_000, "system": [{"type": "text", "text": "You fix code. " * 300}]}
        name = "input" if self.dialect == "responses" else "messages"
        return msgspec.json.encode({**fields, name: [msgspec.Raw(item) for item in items]})

    def _add(self, item: dict[str, Any]) -> None:
        self._items.append(msgspec.json.encode(item))
        self._size += len(self._items[-1])

    def _text(self, least: int, most: int) -> str:
        return self.marker + " ".join(self._random.choices(_TEXT.split(), k=self._random.randint(least, most)))


def _tool(dialect: str, number: int) -> dict[str, Any]:
    schema = {"type": "object", "properties": {f"field_{at}": {"type": "string"} for at in range(6)}}
    named = {"name": f"tool_{number}", "description": "Reads a file of the project and returns its lines. " * 18}
    if dialect == "anthropic":
        return {**named, "input_schema": schema}
    function = {**named, "parameters": schema}
    return {"type": "function", "function": function} if dialect == "chat" else {"type": "function", **function}


def _said(dialect: str, text: str) -> dict[str, Any]:
    if dialect == "chat":
        return {"role": "user", "content": text}
    if dialect == "anthropic":
        return {"role": "user", "content": [{"type": "text", "text": text}]}
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def _answered(dialect: str, text: str) -> dict[str, Any]:
    if dialect == "chat":
        return {"role": "assistant", "content": text}
    if dialect == "anthropic":
        return {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def _called(dialect: str, number: int, text: str) -> Iterator[dict[str, Any]]:
    given = {"path": f"src/module_{number}.py", "offset": number}
    if dialect == "anthropic":
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": f"tool_{number % 4}", "input": given}
        yield {"role": "assistant", "content": [{"type": "text", "text": text}, call]}
        return
    function = {"name": f"tool_{number % 4}", "arguments": msgspec.json.encode(given).decode()}
    if dialect == "chat":
        call = {"id": f"call_{number}", "type": "function", "function": function}
        yield {"role": "assistant", "content": text, "tool_calls": [call]}
        return
    id = f"rs_{number}"
    yield {"type": "reasoning", "id": id, "summary": [], "encrypted_content": SEAL.sign(id)}
    yield _answered(dialect, text)
    yield {"type": "function_call", "call_id": f"call_{number}", **function}


def _result(dialect: str, number: int, text: str) -> dict[str, Any]:
    if dialect == "anthropic":
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}]}
    if dialect == "chat":
        return {"role": "tool", "tool_call_id": f"call_{number}", "content": text}
    return {"type": "function_call_output", "call_id": f"call_{number}", "output": text}
