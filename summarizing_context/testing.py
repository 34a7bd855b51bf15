"""Fakes for tests of programs that use the package: a scripted summarizer, a store in memory, a writer of messages.

    summarizer = ScriptedSummarizer()
    async with open_context(Settings(max_tokens=4_000), summarizer=summarizer) as context:
        for message in Conversation().turns(50):
            await context.add_message(message)
        view = await context.get_messages_for_request()

No fake needs a network, a file or a key. All of them do the same each time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import anyio

from summarizing_context import open_store
from summarizing_context.stores.base import SessionStore
from summarizing_context.summarizers.base import SummaryJob, SummaryReply

Message = dict[str, Any]
Answer = str | SummaryReply | Exception

_TEXT = "read the parser and fix its tests then run them again and note what the log says about the cache"
_WORDS = _TEXT.split()


class ScriptedSummarizer:
    """A summarizer without a model. It keeps each job that it gets in `jobs`.

    `answers` says what comes back: a function of the job, or a list that is used up in order and then answered by
    default; an exception is raised. By default a segment or merge gets a short summary that names its range, a request
    for rules `none`. `recipe` names the summarizer in the cache of a store; without one, sessions share no summaries.
    `delay` is in seconds; `float("inf")` never answers.
    """

    def __init__(
        self,
        answers: Callable[[SummaryJob], Answer] | Sequence[Answer] = (),
        *,
        recipe: str | None = None,
        delay: float = 0.0,
    ) -> None:
        self.jobs: list[SummaryJob] = []
        self._answers = answers if callable(answers) else list(answers)
        self._delay = delay
        if recipe is not None:
            self.recipe = recipe

    async def summarize(self, job: SummaryJob) -> str | SummaryReply:
        """Answer a job as the script says."""
        self.jobs.append(job)
        await anyio.sleep(self._delay)
        if callable(self._answers):
            answer = self._answers(job)
        elif self._answers:
            answer = self._answers.pop(0)
        else:
            answer = default_summary(job)
        if isinstance(answer, Exception):
            raise answer
        return answer


def default_summary(job: SummaryJob) -> str:
    """Return a summary of a few tokens that no check refuses and that differs from job to job."""
    if job.kind in ("rules", "memory"):
        return "none"
    return f"## Done\n- The part called {range_name(job.range_hash)}, of rank {job.rank}."


def range_name(range_hash: str) -> str:
    """Return a word for a range, which no check takes for a value that the source lacks."""
    return range_hash[:8].translate(str.maketrans("0123456789", "ghijklmnop"))


async def memory_store() -> SessionStore:
    """Return an open store that is kept in memory by SQLite; `open_context(settings, store=...)` closes it."""
    return await open_store(":memory:")


class Conversation:
    """Writes messages of an agent session, with new ids for its calls.

    `shape` is `openai` (Chat Completions) or `anthropic` (content blocks). `tokens` is the size of a text, at four
    characters a token.
    """

    def __init__(self, shape: Literal["openai", "anthropic"] = "openai", *, tokens: int = 60) -> None:
        self._shape = shape
        self._tokens = tokens
        self._number = 0

    def text(self, tokens: int | None = None) -> str:
        """Return a text of that size that begins with a number of its own."""
        self._number += 1
        size = 4 * (self._tokens if tokens is None else tokens)
        words = (_WORDS[at % len(_WORDS)] for at in range(self._number, self._number + size))
        return f"{self._number}: {' '.join(words)}"[:size]

    def user(self, text: str | None = None) -> Message:
        """Return a message of the human."""
        return {"role": "user", "content": self.text() if text is None else text}

    def assistant(self, text: str | None = None) -> Message:
        """Return words of the model, without calls."""
        return {"role": "assistant", "content": self.text() if text is None else text}

    def call(self, *names: str, text: str = "", **arguments: Any) -> Message:
        """Return a message that calls each of these tools (one, `read_file`, if none is named) with these arguments."""
        ids = [f"call_{self._number}_{at}" for at in range(len(names) or 1)]
        self._number += 1
        called = list(zip(ids, names or ("read_file",), strict=True))
        if self._shape == "anthropic":
            blocks: list[Message] = [{"type": "text", "text": text}] if text else []
            blocks += [{"type": "tool_use", "id": id, "name": name, "input": arguments} for id, name in called]
            return {"role": "assistant", "content": blocks}
        given = json.dumps(arguments)
        calls = [{"id": id, "type": "function", "function": {"name": name, "arguments": given}} for id, name in called]
        return {"role": "assistant", "content": text, "tool_calls": calls}

    def results(self, call: Message, text: str | None = None) -> list[Message]:
        """Return the messages that answer all calls of a message."""
        if self._shape == "anthropic":
            ids = [block["id"] for block in call["content"] if block["type"] == "tool_use"]
            said = [(id, self.text() if text is None else text) for id in ids]
            blocks = [{"type": "tool_result", "tool_use_id": id, "content": content} for id, content in said]
            return [{"role": "user", "content": blocks}]
        return [
            {"role": "tool", "tool_call_id": one["id"], "content": self.text() if text is None else text}
            for one in call["tool_calls"]
        ]

    def turns(self, count: int) -> Iterator[Message]:
        """Yield turns of a question, a call with its result, and an answer; every fifth makes two calls at once."""
        for turn in range(count):
            yield self.user()
            call = self.call(*["read_file"] * (2 if turn % 5 == 4 else 1), path=f"src/module_{turn % 17}.py")
            yield call
            yield from self.results(call)
            yield self.assistant()
