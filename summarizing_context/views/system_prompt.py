"""What leads every request: the log's own system and developer rows, or a system prompt brought by the request; and
the definitions of tools that are sent beside the messages.

A prompt that the host makes anew for each request is no part of the log. It stands in the place of the log's plain
leading system rows; developer rows and rows of hooks stay behind it. Tools stand in no view, they only cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from summarizing_context.errors import MessageError, SettingsError
from summarizing_context.log.digests import output_hash
from summarizing_context.log.entries import Entry, Role
from summarizing_context.log.message_log import MessageLog
from summarizing_context.messages.validation import Message, canonical_json, check_message
from summarizing_context.views.shrinking import Price

Prompt = str | Sequence[Mapping[str, Any]]  # a text, or blocks


class SystemRows:
    """The leading rows of the next view and the tools sent with it, and what they cost."""

    def __init__(self, timeline: MessageLog, price: Price) -> None:
        self._timeline = timeline
        self._price = price
        self._prompt: str | None = None  # as text, or the JSON of its blocks
        self._row: Message | None = None
        self._row_tokens = 0
        self.name = ""  # of the prompt; empty where the log's own rows lead
        self._tools: list[str] = []  # as JSON
        self.tool_tokens = 0

    def bring(self, prompt: Prompt | None, tools: Sequence[Mapping[str, Any]] | None = None) -> None:
        """The prompt and the tools of the request to come; None for none. An empty prompt leads with no row of its own.

        Raises `SettingsError`, and then nothing has changed.
        """
        row = None if prompt is None else _prompt_row(prompt)
        definitions = _checked_list("tools", tools or ())
        self._bring_tools([canonical_json(definition) for definition in definitions])
        content = None if row is None else row["content"]
        text = content if content is None or isinstance(content, str) else canonical_json(content)
        if text != self._prompt:
            self._row = row if content else None
            self._row_tokens = self._price.message(self._row) if self._row else 0
            self._prompt, self.name = text, "" if text is None else output_hash(text)

    @property
    def tokens(self) -> int:
        """Cost of all leading rows, and of the tools."""
        timeline = self._timeline
        if self._prompt is None:
            return self.tool_tokens + timeline.tokens[timeline.leading]
        return self.fixed_tokens + sum(cost for _, _, cost in self._kept())

    @property
    def fixed_tokens(self) -> int:
        """Cost of what the request has brought: prompt and tools."""
        return self._row_tokens + self.tool_tokens

    @property
    def what(self) -> str:
        """What leads, in words."""
        rows = "leading system rows" if self.costs() else "no leading system rows"
        return f"{rows}, {self.tool_tokens} tokens of tools" if self._tools else rows

    def messages(self) -> list[Message]:
        """The rows, as fresh values."""
        return [*([self._row] if self._row else []), *(entry.message() for _, entry, _ in self._kept())]

    def costs(self) -> list[tuple[int, int]]:
        """Index in the view and tokens of each row."""
        rows = [*([self._row_tokens] if self._row else []), *(cost for _, _, cost in self._kept())]
        return list(enumerate(rows))

    def _bring_tools(self, tools: list[str]) -> None:
        if tools != self._tools:
            self._tools, self.tool_tokens = tools, sum(map(self._price.count, tools))

    def _kept(self) -> list[tuple[int, Entry, int]]:
        """The log's leading rows that are shown: place, entry, tokens."""
        tokens, entries = self._timeline.tokens, self._timeline.entries
        rows = [(at, entries[at], tokens[at + 1] - tokens[at]) for at in range(self._timeline.leading)]
        if self._prompt is None:
            return rows
        return [row for row in rows if row[1].facts.role != Role.SYSTEM or row[1].facts.hook]


def _prompt_row(prompt: object) -> Message:
    content = prompt if isinstance(prompt, str) else _checked_list("system", prompt)
    try:
        return check_message({"role": "system", "content": content})
    except MessageError as error:
        raise SettingsError(f"system cannot be sent: {error}") from error


def _checked_list(name: str, value: object) -> list[Any]:
    """The JSON objects of a list, as copies."""
    what = {"system": "the text of the system prompt, its blocks", "tools": "a list of definitions of tools"}[name]
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise SettingsError(f"{name} is {type(value).__name__}; it is {what}, or None")
    for at, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise SettingsError(f"{name}[{at}] is {type(item).__name__}; {name} is {what}, or None; each is an object")
    try:
        checked: list[Any] = check_message({"role": name, name: [dict(item) for item in value]})[name]
    except MessageError as error:
        raise SettingsError(f"{name} cannot be sent: {error}") from error
    return checked
