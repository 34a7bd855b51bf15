"""Which session a request belongs to: by the id that the client sends, else by the end of the history before.

A client's own id holds several histories: the main one, those of its agents, and small requests for a title. They are
told apart by the agent, by whether tools are sent, and by what a person typed first. A client without ids goes on with
the session whose last messages stand in its history.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from summarizing_context.adapters.open_sessions import session_id_from
from summarizing_context.messages.reading import read_message
from summarizing_context.proxy.dialects.base import Asked, digest

_HEADERS = (  # of a session's id, and whose it is; the first that is sent holds
    ("x-claude-code-session-id", "claude-code"),
    ("thread-id", "codex"),
    ("session-id", "codex"),
    ("session_id", "codex"),
    ("x-session-id", "opencode"),
    ("x-session-affinity", "opencode"),
)

_IN_USER_ID = re.compile(r"session_(?:id\W+)?([0-9a-f]{8}-[0-9a-f-]{27})")  # where older Claude Code has it
_ANCHOR = 3  # messages by which the end of a history is known
_MOST_READ = 100  # messages of users in which what a person typed is looked for
_MOST = 10_000  # ends of histories that are remembered


class Client(NamedTuple):
    """Who asks, as far as its headers tell."""

    name: str
    id: str | None  # of the session
    agent: str | None


def client_of(headers: Mapping[str, str], fields: Mapping[str, Any]) -> Client:
    """Return who asks; `headers` by names in small letters."""
    for header, name in _HEADERS:
        if headers.get(header):
            return Client(name, headers[header], headers.get("x-claude-code-agent-id"))
    user = _IN_USER_ID.search(bytes(fields["metadata"]).decode("utf-8", "replace")) if "metadata" in fields else None
    return Client("claude-code" if user else "chat", user[1] if user else None, None)


class Names:
    """The session of each request."""

    def __init__(self) -> None:
        self._ends: OrderedDict[str, str] = OrderedDict()  # the end of a history -> its session
        self._end_of: dict[str, str] = {}

    def named(self, client: Client, asked: Asked) -> str | None:
        """Return the session that the client names; None where it names none."""
        if client.id is None:
            return None
        # what a person typed first, and whether tools are sent; what the client puts in beside may change
        users = islice((row.message for row in asked.rows if row.message["role"] == "user"), _MOST_READ)
        typed = next(filter(None, (read_message(message).typed for message in users)), [asked.rows[0].key])
        kind = "agent" if asked.has_tools else "plain"
        beginning = f"{kind}-{digest(*(text.encode('utf-8', 'surrogatepass') for text in typed))[:10]}"
        return session_id_from(":".join(filter(None, (client.name, client.id, client.agent, beginning))))

    def base(self, asked: Asked) -> str:
        """Return what the sessions begin with that the history of an unnamed client may belong to."""
        return f"chat:{asked.rows[0].key[:12]}:"

    def found(self, asked: Asked) -> str | None:
        """Return the session whose last messages stand in the history, the nearest to its end."""
        keys = [row.key for row in asked.rows]
        ends = (_end(keys[max(0, stop - _ANCHOR) : stop]) for stop in range(len(keys), 0, -1))
        return next((name for end in ends if (name := self._ends.get(end)) is not None), None)

    def new(self, asked: Asked) -> str:
        """Return a name for a history that goes on with no session."""
        return self.base(asked) + digest(*(row.key.encode() for row in asked.rows))[:12]

    def remember(self, name: str, keys: Sequence[str]) -> None:
        """The session's history ends like this now."""
        end = _end(keys[-_ANCHOR:])
        if (before := self._end_of.get(name)) is not None:
            self._ends.pop(before, None)
        self._ends[end], self._end_of[name] = name, end
        while len(self._ends) > _MOST:
            _, oldest = self._ends.popitem(last=False)
            self._end_of.pop(oldest, None)


def _end(keys: Iterable[str]) -> str:
    return digest(*(key.encode() for key in keys))
