"""Seeded text and ordinary agent work for the corpus; the oddities are in `corpus_calls` and `corpus_contents`."""

from __future__ import annotations

import json
import random
from typing import Any

Message = dict[str, Any]
SUBJECTS = ("the parser", "the cache", "the build", "the router", "the scheduler", "the index", "the login page")
VERBS = ("keeps", "drops", "reads", "writes", "returns", "skips", "sorts", "retries", "checks", "merges")
OBJECTS = ("old rows", "an empty list", "two headers", "the wrong path", "a stale key", "every third page", "no error")
ENDS = ("under load", "on a cold start", "after the last change", "when the folder is missing", "in the nightly run")
SYSTEM: Message = {"role": "system", "content": "You are a coding agent. Answer briefly. Never push to main."}
TOOLS = ("read_file", "run_tests", "search", "edit_file")


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


def assistant(content: Any) -> Message:
    return {"role": "assistant", "content": content}


class Writer:
    """Texts, ids and ordinary rounds of work, all from one seed."""

    def __init__(self, seed: int, dialect: str = "openai") -> None:
        self.rng = random.Random(seed)
        self.dialect = dialect
        self.made = 0

    def sentence(self) -> str:
        parts = [self.rng.choice(part) for part in (SUBJECTS, VERBS, OBJECTS, ENDS)]
        return f"{' '.join(parts).capitalize()} ({self.rng.randint(1, 9999)})."

    def text(self, sentences: int) -> str:
        return " ".join(self.sentence() for _ in range(sentences))

    def listing(self, lines: int) -> str:
        """Like a tool's output: numbered lines."""
        return "\n".join(f"{n:5d}\t{self.sentence()}" for n in range(1, lines + 1))

    def fresh(self) -> str:
        self.made += 1
        return f"{'toolu' if self.dialect == 'anthropic' else 'call'}_{self.rng.randrange(16**8):08x}{self.made:03d}"

    def call(self, *identities: str, say: str = "", role: str = "assistant", arguments: Any = None) -> Message:
        """One row that calls a tool for each id."""
        path = {"path": f"src/part{self.rng.randint(1, 40)}.py"}
        tools = [(i, self.rng.choice(TOOLS), arguments or path) for i in identities]
        if self.dialect == "openai":
            listed = [
                {"id": i, "type": "function", "function": {"name": name, "arguments": as_text(given)}}
                for i, name, given in tools
            ]
            return {"role": role, "content": say, "tool_calls": listed}
        kind = "tool_use" if self.dialect == "anthropic" else "tool_call"
        said: list[Message] = [{"type": "text", "text": say}] if say else []
        content = said + [{"type": kind, "id": i, "name": name, "input": given} for i, name, given in tools]
        if self.dialect == "anthropic":
            return {"role": role, "content": content}
        for block in content:
            block["visibility"] = None
        listed = [{"id": i, "tool": name, "arguments": given} for i, name, given in tools]
        return {"role": role, "content": content, "tool_calls": listed, "metadata": None}

    def result(self, identity: str, content: Any, *, failed: bool = False) -> Message:
        if self.dialect == "anthropic":
            block = {"type": "tool_result", "tool_use_id": identity, "content": content}
            return {"role": "user", "content": [block | ({"is_error": True} if failed else {})]}
        return {"role": "tool", "tool_call_id": identity, "content": content}

    def step(self, calls: int = 1, lines: int = 12) -> list[Message]:
        """A call row and its results."""
        ids = [self.fresh() for _ in range(calls)]
        say = self.text(1) if self.rng.random() < 0.5 else ""
        return [self.call(*ids, say=say), *(self.result(i, self.listing(self.rng.randint(2, lines))) for i in ids)]

    def turn(self, steps: int = 2, lines: int = 12) -> list[Message]:
        """An ask, some steps, an answer."""
        rows: list[Message] = [{"role": "user", "content": "Please look at this. " + self.text(2)}]
        for _ in range(steps):
            rows += self.step(self.rng.choice((1, 1, 2, 3)), lines)
        return [*rows, {"role": "assistant", "content": self.text(3)}]

    def work(self, turns: int, lines: int = 12) -> list[Message]:
        return [row for _ in range(turns) for row in self.turn(lines=lines)]

    def between(self, *oddities: list[Message], turns: int = 2) -> list[Message]:
        """The oddities with ordinary work before, between and after them."""
        rows = self.work(turns)
        for oddity in oddities:
            rows += oddity + self.work(turns)
        return rows


def as_text(arguments: Any) -> str:
    """Arguments as OpenAI writes them: a JSON text, or whatever text was given."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
