"""What leads every request: the log's own system and developer rows, or a system prompt brought by the request; and
the definitions of tools that are sent beside the messages.

A prompt that the host makes anew for each request is no part of the log. It stands in the place of the log's plain
leading system rows; developer rows and rows of hooks stay behind it. Tools stand in no view, they only cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from summarizing_context.errors import MessageError, SettingsError
from summarizing_context.log.entries import Facts, Role, output_hash
from summarizing_context.log.message_log import MessageLog
from summarizing_context.messages.shapes import Message, canonical_json, check_message, encodable
from summarizing_context.views.shrunk_messages import Price

Prompt = str | Sequence[Mapping[str, Any]]  # a text, or blocks


class ShownRows(NamedTuple):
    """Leading rows of the log that a view shows."""

    name: object  # of the log and the prompt
    messages: list[Message]
    costs: list[int]  # tokens of each
    tokens: int


class SystemRows:
    """The leading rows of the next view and the tools sent with it, and what they cost."""

    def __init__(self, log: MessageLog, price: Price) -> None:
        self._log = log
        self._price = price
        self._prompt: str | None = None  # as text, or the JSON of its blocks
        self._row: Message | None = None
        self._row_tokens = 0
        self.name = ""  # of the prompt; empty where the log's own rows lead
        self._tools = ""  # as JSON
        self.tool_tokens = 0
        self._shown = ShownRows(None, [], [], 0)

    def set_request(self, prompt: Prompt | None, tools: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Set the prompt and the tools of the request to come; None for none. An empty prompt leads with no row.

        Raises `SettingsError`, and then nothing has changed.
        """
        row = None if prompt is None else _prompt_row(prompt)
        written = _written(tools) if tools else ""
        if written is None or written != self._tools:
            definitions = _checked_list("tools", tools) if tools else []
            self.tool_tokens = sum(self._price.count(canonical_json(definition)) for definition in definitions)
            self._tools = canonical_json(definitions) if definitions else ""
        content = None if row is None else row["content"]
        text = content if content is None or isinstance(content, str) else canonical_json(content)
        if text != self._prompt:
            self._row = row if content else None
            self._row_tokens = self._price.message(self._row) if self._row else 0
            self._prompt, self.name = text, "" if text is None else output_hash(text)

    @property
    def fixed_tokens(self) -> int:
        """Cost of what the request has brought: prompt and tools."""
        return self._row_tokens + self.tool_tokens

    @property
    def tokens(self) -> int:
        """Cost of all leading rows, and of the tools."""
        return self.fixed_tokens + self.log_rows().tokens

    @property
    def what(self) -> str:
        """What leads, in words."""
        rows = "leading system rows" if self.costs() else "no leading system rows"
        return f"{rows}, {self.tool_tokens} tokens of tools" if self._tools else rows

    def messages(self) -> list[Message]:
        """Return the rows. To be read only: later views show the same."""
        return [*([self._row] if self._row else []), *self.log_rows().messages]

    def costs(self) -> list[tuple[int, int]]:
        """Return the index in the view and the tokens of each row."""
        return list(enumerate([*([self._row_tokens] if self._row else []), *self.log_rows().costs]))

    def log_rows(self) -> ShownRows:
        """Return the log's own leading rows that are shown."""
        log = self._log
        name = log.version, log.leading_count, self._prompt is None
        if self._shown.name != name:
            at = [at for at in range(log.leading_count) if self._prompt is None or _stays(log.entries[at].facts)]
            costs = [log.cost(n) for n in at]
            self._shown = ShownRows(name, [encodable(log.entries[n].message()) for n in at], costs, sum(costs))
        return self._shown


def _stays(row: Facts) -> bool:
    """Whether a leading row of the log is shown behind a prompt that the request brings."""
    return row.role != Role.SYSTEM or row.hook


def _written(tools: object) -> str | None:
    """Definitions as JSON; None where they are not checked by writing them."""
    plain = isinstance(tools, list | tuple) and set(map(type, tools)) == {dict}
    try:
        return canonical_json(tools) if plain else None
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


def _prompt_row(prompt: object) -> Message:
    content = prompt if isinstance(prompt, str) else _checked_list("system", prompt)
    try:
        row: Message = encodable(check_message({"role": "system", "content": content}))
    except MessageError as error:
        raise SettingsError(f"system cannot be sent: {error}") from error
    return row


def _checked_list(name: str, value: object) -> list[Any]:
    """The JSON objects of a list, as copies."""
    what = {"system": "the text of the system prompt, its blocks", "tools": "a list of definitions of tools"}[name]
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise SettingsError(f"{name} is {type(value).__name__}; it is {what}, or None")
    for at, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise SettingsError(f"{name}[{at}] is {type(item).__name__}; {name} is {what}, or None; each is an object")
    try:
        checked: list[Any] = check_message({"role": "user", name: [dict(item) for item in value]})[name]
    except MessageError as error:
        raise SettingsError(f"{name} cannot be sent: {error}") from error
    return checked
