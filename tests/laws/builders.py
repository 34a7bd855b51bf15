"""Build messages and whole agent sessions for tests, from a seed."""

import json
import random
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]
DIALECTS = ("openai", "anthropic", "amplifier")
RULES = "You are a careful helper."
WORDS = (
    "branch", "build", "cache", "change", "check", "client", "commit", "config", "copy", "counter", "cursor",
    "deploy", "diff", "driver", "entry", "error", "event", "field", "file", "filter", "flag", "folder", "handler",
    "header", "hook", "index", "input", "job", "key", "layer", "limit", "line", "link", "list", "lock", "log",
    "loop", "mark", "menu", "merge", "module", "mount", "name", "node", "note", "order", "output", "owner", "page",
    "parser", "patch", "path", "plan", "point", "port", "probe", "queue", "range", "reader", "record", "release",
    "report", "result", "root", "route", "rule", "sample", "schema", "scope", "script", "section", "seed", "server",
    "session", "setting", "shell", "signal", "socket", "source", "stack", "state", "step", "store", "stream",
)  # fmt: skip


def count(text: str) -> int:
    """The tests' token counter: a token for every four characters, at least one for some text."""
    return (len(text) + 3) // 4


def words(rng: random.Random, tokens: int) -> str:
    """About as many tokens of plain sentences."""
    parts: list[str] = []
    left = tokens * 4
    while left > 0:
        sentence = " ".join(rng.choices(WORDS, k=rng.randint(5, 14))).capitalize() + ". "
        parts.append(sentence[:left])
        left -= len(sentence)
    return "".join(parts).strip()


def system(text: str | Sequence[Message], role: str = "system") -> Message:
    return {"role": role, "content": text if isinstance(text, str) else list(text)}


def user(text: str | Sequence[Message]) -> Message:
    return system(text, "user")


def assistant(text: str | Sequence[Message]) -> Message:
    return system(text, "assistant")


def call(dialect: str, *calls: tuple[str, str, Message], text: str = "", role: str = "assistant") -> Message:
    """A message that makes the calls (id, tool, arguments)."""
    if dialect == "openai":
        listed = [
            {"id": i, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
            for i, tool, arguments in calls
        ]
        return {"role": role, "content": text, "tool_calls": listed}
    kind = "tool_use" if dialect == "anthropic" else "tool_call"
    content: list[Message] = [{"type": "text", "text": text}] if text else []
    content += [{"type": kind, "id": i, "name": tool, "input": arguments} for i, tool, arguments in calls]
    message: Message = {"role": role, "content": content}
    if dialect == "amplifier":
        for block in content:
            block["visibility"] = None
        message["tool_calls"] = [{"id": i, "tool": tool, "arguments": arguments} for i, tool, arguments in calls]
        message["metadata"] = {"timestamp": "2026-11-20T10:00:00.000Z"}
    return message


def result(dialect: str, identity: str, text: Any, *, failed: bool = False) -> Message:
    """A message that answers one call."""
    if dialect == "anthropic":
        block: Message = {"type": "tool_result", "tool_use_id": identity, "content": text}
        return {"role": "user", "content": [block | ({"is_error": True} if failed else {})]}
    return {"role": "tool", "tool_call_id": identity, "content": text}


def results(*pairs: tuple[str, Any]) -> Message:
    """One Anthropic row that answers several calls."""
    return user([{"type": "tool_result", "tool_use_id": i, "content": text} for i, text in pairs])


class Script:
    """Writes an agent session: asks, parallel calls, results of all sizes, answers; the same for the same seed."""

    def __init__(self, seed: int = 0, *, dialect: str = "openai", size: int = 60, wild: float = 0.1) -> None:
        self.rng = random.Random(seed)
        self.dialect = dialect
        self.size = size  # tokens of an ordinary text
        self.wild = wild  # share of texts that are much longer
        self.calls = 0

    def text(self) -> str:
        low, high = (self.size * 4, self.size * 8) if self.rng.random() < self.wild else (4, self.size)
        return words(self.rng, self.rng.randint(low, high))

    def step(self) -> list[Message]:
        """One call row with all its results."""
        fresh = [f"call_{self.calls + n}" for n in range(self.rng.choice((1, 1, 1, 2, 3)))]
        self.calls += len(fresh)
        made = [(i, self.rng.choice(("read", "run", "search")), {"path": self.rng.choice(WORDS)}) for i in fresh]
        answers = list(fresh)
        self.rng.shuffle(answers)
        said = self.text() if self.rng.random() < 0.4 else ""
        return [call(self.dialect, *made, text=said), *(result(self.dialect, i, self.text()) for i in answers)]

    def turn(self) -> list[Message]:
        """A human row, some steps, an answer."""
        rows = [user(self.text())]
        for _ in range(self.rng.randint(1, 4)):
            rows += self.step()
        return [*rows, assistant(self.text())]

    def session(self, messages: int, *, rules: str = RULES) -> list[Message]:
        """At least that many messages, whole turns."""
        rows = [system(rules)] if rules else []
        while len(rows) < messages:
            rows += self.turn()
        return rows


def session(seed: int = 0, messages: int = 200, *, rules: str = RULES, **options: Any) -> list[Message]:
    """A scripted session in one call."""
    return Script(seed, **options).session(messages, rules=rules)


def marked(start: int, tokens: int) -> tuple[str, list[str]]:
    """A text with a marker every 40 characters, and its markers, numbered from `start`."""
    marks = [f"mk{start + n:07d}x" for n in range(max(1, tokens * 4 // 40))]
    filler = "and then some more of the old work "
    return "".join((mark + " " + filler)[:39] + "\n" for mark in marks), marks
