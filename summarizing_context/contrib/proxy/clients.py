"""What a request tells of its client: who asks, which session it belongs to, and how large its model's window is.

A client's own id holds several histories: the main one, those of its agents, and small requests for a title. They are
told apart by the agent, by whether tools are sent, and by what a person typed first.

Windows are those of 2026-11-26, by the pages of platform.claude.com and developers.openai.com on their models, the
table of `genai-prices` 0.2.3, and the models that Codex 0.169 and 0.171 bring along, in which they get less of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

from summarizing_context.adapters.open_sessions import session_id_from
from summarizing_context.contrib.proxy.dialects import Asked, digest
from summarizing_context.messages.reading import read_message

_HEADERS = (  # of a session's id, and whose it is; the first that is sent holds
    ("x-claude-code-session-id", "claude-code"),
    ("thread-id", "codex"),
    ("session-id", "codex"),
    ("session_id", "codex"),
    ("x-session-id", "opencode"),
    ("x-session-affinity", "opencode"),
)

_IN_USER_ID = re.compile(r"session_(?:id\W+)?([0-9a-f]{8}-[0-9a-f-]{27})")  # where older Claude Code has it


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


def session_of(client: Client, asked: Asked) -> str:
    """Return the name of the session of a client with an id: by what a person typed first, for what the client puts in
    beside may change, and by whether tools are sent."""
    users = (row.message for row in asked.rows if row.message["role"] == "user")
    typed = next(filter(None, (read_message(message).typed for message in islice(users, 100))), [asked.rows[0].key])
    kind = "agent" if asked.has_tools else "plain"
    beginning = f"{kind}-{digest(*(text.encode('utf-8', 'surrogatepass') for text in typed))[:10]}"
    return session_id_from(":".join(filter(None, (client.name, client.id, client.agent, beginning))))


USUAL_WINDOW = 128_000  # of a model that is not known

_WINDOWS = (  # tokens of input, by the beginning of a name; the first that fits holds
    (r"claude-[a-z]+-(?:4[.-][6-9]|[5-9]|[1-9]\d)(?!\d)", 1_000_000),
    (r"claude", 200_000),
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-4|gpt-oss|chatgpt", 128_000),
    (r"gpt-3", 16_000),
    (r"gpt-6\.2-sol", 500_000),
    (r"gpt-5\.[4-9](?!\d|.*mini|.*nano)|gpt-[6-9]", 922_000),  # of 1,050,000, less the answer
    (r"gpt-5|codex", 272_000),  # of 400,000, less the answer
    (r"o[134]\b", 200_000),
    (r"gemini|deepseek-(?:v[4-9]|flash|pro)|kimi-k[3-9]|glm-5[.p][2-9]", 1_000_000),
    (r"grok-(?:4\.[2-9]|[5-9])", 500_000),
    (r"kimi|grok-[4c]", 256_000),
    (r"deepseek|qwen|glm|mistral|devstral|llama|grok", 128_000),
)

_OF_CODEX = ((r"gpt-6\.(?:1-terra|2-sol)", 500_000), (r"gpt-[5-9]", 272_000))


def window_of(model: str, betas: str = "", client: str = "") -> int | None:
    """Return the tokens of a model's window, None where it is not known; `betas` is the header `anthropic-beta`,
    `client` the program that asks."""
    # without a provider's or a region's name in front, as in `us.anthropic.claude-opus-4-6-v1:0`
    name = model.lower().rpartition("/")[2]
    found = re.search(r"(?:^|[.~])((?:claude|gpt-|o[134]\b|gemini|deepseek|qwen|kimi|glm|mistral|llama|grok).*)", name)
    name = found[1] if found else name
    if name.startswith("claude") and ("context-1m" in betas or "[1m]" in name):
        return 1_000_000
    rows = (*_OF_CODEX, *_WINDOWS) if client == "codex" else _WINDOWS
    return next((tokens for beginning, tokens in rows if re.match(beginning, name)), None)
