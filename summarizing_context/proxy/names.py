"""Which session a request belongs to: by the id that the client sends, else by the end of the history before.

A client's own id holds several histories: the main one, those of its agents, and small requests for a title. They are
told apart by the agent, by whether tools are sent, and by what a person typed first. A client without ids goes on with
the session whose last messages stand in its history.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from summarizing_context.adapters.open_sessions import session_id_from
from summarizing_context.messages.reading import read_message
from summarizing_context.proxy.dialects.base import Asked, Row, digest

_HEADERS = (  # of a session's id, and whose it is; the first that is sent holds
    ("x-claude-code-session-id", "claude-code"),
    ("thread-id", "codex"),
    ("session-id", "codex"),
    ("session_id", "codex"),
    ("x-session-id", "opencode"),
    ("x-session-affinity", "opencode"),
)

_AGENT = "x-claude-code-agent-id"

_IN_USER_ID = re.compile(r"session_(?:id\W+)?([0-9a-f]{8}-[0-9a-f-]{27})")  # where older Claude Code has it

_ANCHOR = 3  # messages by which the end of a history is known

_MOST = 10_000  # ends of histories that are remembered


class Client(NamedTuple):
    """Who asks, as far as its headers tell."""

    name: str
    id: str | None  # of the session
    agent: str | None


def client_of(headers: Mapping[str, str], fields: Mapping[str, Any]) -> Client:
    """Who asks; `headers` by names in small letters."""
    for header, name in _HEADERS:
        if headers.get(header):
            return Client(name, headers[header], headers.get(_AGENT))
    user = _IN_USER_ID.search(bytes(fields["metadata"]).decode("utf-8", "replace")) if "metadata" in fields else None
    return Client("claude-code" if user else "chat", user[1] if user else None, None)


class Names:
    """The session of each request."""

    def __init__(self) -> None:
        self._ends: OrderedDict[str, str] = OrderedDict()  # the end of a history -> its session
        self._end_of: dict[str, str] = {}
        self._typed: dict[str, str] = {}  # what names what a person typed in a message, by its key

    def named(self, client: Client, asked: Asked) -> str | None:
        """The session that the client names; None where it names none."""
        if client.id is None:
            return None
        parts = [client.name, client.id, *([client.agent] if client.agent else []), self._beginning(asked)]
        return session_id_from(":".join(parts))

    def base(self, asked: Asked) -> str:
        """What the sessions begin with that the history of an unnamed client may belong to."""
        return f"chat:{asked.rows[0].key[:12]}:"

    def found(self, asked: Asked) -> str | None:
        """The session whose last messages stand in the history, the nearest to its end."""
        keys = [row.key for row in asked.rows]
        for stop in range(len(keys), 0, -1):
            if (name := self._ends.get(_end(keys[max(0, stop - _ANCHOR) : stop]))) is not None:
                return name
        return None

    def new(self, asked: Asked) -> str:
        """A name for a history that goes on with no session."""
        return self.base(asked) + digest(*(row.key.encode() for row in asked.rows))[:12]

    def remember(self, name: str, keys: Iterable[str]) -> None:
        """The session's history ends like this now."""
        end = _end(list(keys)[-_ANCHOR:])
        if (before := self._end_of.get(name)) is not None:
            self._ends.pop(before, None)
        self._ends[end], self._end_of[name] = name, end
        while len(self._ends) > _MOST:
            _, oldest = self._ends.popitem(last=False)
            self._end_of.pop(oldest, None)

    def _beginning(self, asked: Asked) -> str:
        """What a person typed first, and whether tools are sent. What the client puts in beside may change."""
        typed = next((name for row in asked.rows if (name := self._typed_in(row))), None)
        kind = "agent" if asked.has_tools else "plain"
        return f"{kind}-{typed or _named([asked.rows[0].key])}"

    def _typed_in(self, row: Row) -> str:
        """What names what a person typed in a message; empty where nobody typed."""
        if row.key not in self._typed:
            if len(self._typed) > _MOST:
                self._typed.clear()
            texts = read_message(row.message).typed if row.message["role"] == "user" else []
            self._typed[row.key] = _named(texts) if texts else ""
        return self._typed[row.key]


def _named(texts: Iterable[str]) -> str:
    return digest(*(text.encode("utf-8", "surrogatepass") for text in texts))[:10]


def _end(keys: Sequence[str]) -> str:
    return digest(*(key.encode() for key in keys))
