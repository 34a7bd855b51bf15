"""For tests of programs that use the package: a scripted summarizer, a store in memory, a writer of messages, and
`session_check`, which says whether a session in a budget still answers what it has to.

    summarizer = ScriptedSummarizer()
    async with open_context(Settings(max_tokens=4_000), summarizer=summarizer) as context:
        for message in Conversation().turns(50):
            await context.add_message(message)
        view = await context.get_messages_for_request()

No fake needs a network, a file or a key. All of them do the same each time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import anyio

from summarizing_context import Settings, SettingsError, open_store
from summarizing_context.stores.base import SessionStore
from summarizing_context.summarizers.base import Summarizer, SummaryJob, SummaryReply

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
        self._answer = answers if callable(answers) else default_summary
        self._script = [] if callable(answers) else list(answers)
        self._delay = delay
        if recipe is not None:
            self.recipe = recipe

    async def summarize(self, job: SummaryJob) -> str | SummaryReply:
        """Answer a job as the script says."""
        self.jobs.append(job)
        await anyio.sleep(self._delay)
        answer = self._script.pop(0) if self._script else self._answer(job)
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
        called = [(f"call_{self._number}_{at}", name) for at, name in enumerate(names or ("read_file",))]
        self._number += 1
        if self._shape == "anthropic":
            blocks: list[Message] = [{"type": "text", "text": text}] if text else []
            blocks += [{"type": "tool_use", "id": id, "name": name, "input": arguments} for id, name in called]
            return {"role": "assistant", "content": blocks}
        given = json.dumps(arguments)
        calls = [{"id": id, "type": "function", "function": {"name": name, "arguments": given}} for id, name in called]
        return {"role": "assistant", "content": text, "tool_calls": calls}

    def results(self, call: Message, text: str | None = None) -> list[Message]:
        """Return the messages that answer all calls of a message."""
        calls = call.get("tool_calls") or [one for one in call["content"] if one["type"] == "tool_use"]
        said = [(one["id"], self.text() if text is None else text) for one in calls]
        if self._shape == "anthropic":
            blocks = [{"type": "tool_result", "tool_use_id": id, "content": content} for id, content in said]
            return [{"role": "user", "content": blocks}]
        return [{"role": "tool", "tool_call_id": id, "content": content} for id, content in said]

    def turns(self, count: int) -> Iterator[Message]:
        """Yield turns of a question, a call with its result, and an answer; every fifth makes two calls at once."""
        for turn in range(count):
            yield self.user()
            call = self.call(*["read_file"] * (2 if turn % 5 == 4 else 1), path=f"src/module_{turn % 17}.py")
            yield call
            yield from self.results(call)
            yield self.assistant()


class SessionCheck:
    """What the view of one session in one budget still answers: the fixture `session_check` makes it.

        def test_the_release_rules_are_still_answered(session_check):
            check = session_check("run.jsonl", budget=16_000)
            check.answers("never force-push", "src/release.py")
            check.keeps_the_laws()

    Views are those that the agent would have been shown, each judged by the laws, and this is the last one.
    """

    def __init__(self, view: str, broken: dict[str, int], tokens: int, budget: int) -> None:
        self.view, self.broken, self.tokens, self.budget = view, broken, tokens, budget

    def missing(self, *facts: str) -> list[str]:
        """Return those facts that the view does not hold, as whole words, in any case."""
        from summarizing_context.evaluation.views import Text

        text = Text([self.view])
        return [fact for fact in facts if not text.holds(fact)]

    def answers(self, *facts: str) -> None:
        """Fail unless the view holds all these facts."""
        if missing := self.missing(*facts):
            raise AssertionError(f"the view of {self.tokens:,} tokens (budget {self.budget:,}) lacks {missing}")

    def keeps_the_laws(self) -> None:
        """Fail if any view of the session broke a law, such as one that is over its budget or parts a call."""
        if self.broken:
            raise AssertionError(f"laws were broken: {self.broken}")


def check_session(
    session: str | Path | Sequence[Message],
    *,
    budget: int,
    settings: Settings | None = None,
    summarizer: Summarizer | None = None,
) -> SessionCheck:
    """Play a session in a budget, a transcript of any known format or messages, and return its check.

    Without `summarizer` no model is asked, whatever the settings name. Raise `SettingsError` where a view was refused.
    """
    from summarizing_context.evaluation.views import play
    from summarizing_context.messages.tokens import estimate_text
    from summarizing_context.transcripts import read_session

    messages = list(read_session(Path(session)).messages if isinstance(session, str | Path) else session)
    chosen = replace(settings or Settings(), max_tokens=budget, summarizer="extractive", model=None)
    played = anyio.run(lambda: play(messages, [len(messages)], chosen, summarizer))
    if refused := played.tally.counts["refused_views"]:  # an agent would have had none
        raise SettingsError(f"budget = {budget}: {refused} views of this session do not fit; take a larger budget")
    view = played.views[len(messages)]
    return SessionCheck(view, played.tally.broken_laws(), estimate_text(view), budget)


if "pytest" in sys.modules:  # as a plug-in, by `pytest_plugins = ["summarizing_context.testing"]`
    import pytest

    @pytest.fixture
    def session_check() -> Callable[..., SessionCheck]:
        """Return `check_session`."""
        return check_session
