"""A summarizer that is the same for every manager, of known latency or by steps of the agent. It fails on demand."""

import asyncio
import hashlib
import re
import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field

from evals.performance.tokens import CHARACTERS, Message, shared_characters, text_tokens

MODES = ("works", "fails", "never")  # how a model behaves; `never` is without an answer
CACHEABLE = 1_024  # tokens: providers cache no shorter beginning

view_number: ContextVar[int] = ContextVar("view_number", default=0)  # of the view that is being made


def filler(request: str, max_tokens: int) -> str:
    """A summary without a fact, as long as is allowed; another request has another one."""
    number = hashlib.sha256(request.encode()).hexdigest()[:8]
    says = f"Summary s{number}: the goal, what was decided, and what is next. "
    rest = "Read the files, edited the lines, ran the tests, noted the errors and how they were mended. "
    return (says + rest * max_tokens)[: max_tokens * CHARACTERS]


class Reader:
    """Summarizes by the sentences of a chat that stand in the request: those with most numbers and names, in order."""

    def __init__(self, messages: Iterable[Message]) -> None:
        lines = (line for message in messages for line in message["content"].splitlines())
        found = (sentence for line in lines for sentence in re.split(r"(?<=[.!?])\s+", line.strip()))
        sentences = dict.fromkeys(sentence for sentence in found if len(sentence) <= 400 and sentence.count(" ") > 4)
        facts = [len(re.findall(r"\S*\d\S*|(?<=\s)[A-Z]\w+", sentence)) / len(sentence) for sentence in sentences]
        self.ranked = sorted(enumerate(sentences), key=lambda pair: -facts[pair[0]])

    def __call__(self, request: str, max_tokens: int) -> str:
        left, chosen = max_tokens * CHARACTERS - len("## Facts\n"), []
        for at, sentence in self.ranked:
            if len(sentence) + 3 <= left and sentence in request:
                left -= len(sentence) + 3
                chosen.append((at, sentence))
        return "## Facts\n" + "\n".join(f"- {sentence}" for _, sentence in sorted(chosen))


@dataclass
class FakeModel:
    """A summarizer of any manager. Without a latency it answers when released."""

    latency: float | None  # seconds
    mode: str = "works"  # of MODES
    write: Callable[[str, int], str] = filler
    max_tokens: int = 300  # of a summary, where its request names no other number
    is_open: bool = False  # answer at once
    agent_request: str = ""  # the last one, which a provider has in its cache
    waits: int = 0  # answers for which the agent stood still; without a latency
    calls: int = 0
    input_tokens: int = 0  # of the calls that were answered
    cached_tokens: int = 0  # of these
    output_tokens: int = 0
    pending: list[tuple[int, asyncio.Future[None]]] = field(default_factory=list)  # by the view in which it was asked

    async def summarize(self, text: str, max_tokens: int | None = None) -> str:
        self.calls += 1
        if self.mode == "never":
            await asyncio.Event().wait()
        if self.latency is not None:
            await asyncio.sleep(self.latency)
        elif threading.current_thread() is not threading.main_thread():
            self.waits += 1  # the event loop stands still until this thread has its answer
        elif not self.is_open:
            answer = asyncio.get_running_loop().create_future()
            self.pending.append((view_number.get(), answer))
            await answer
        if self.mode == "fails":
            raise RuntimeError("503: the summarizer is unavailable (as asked for)")
        shared, tokens = shared_characters(self.agent_request, text) // CHARACTERS, text_tokens(text)
        self.cached_tokens += shared if shared >= CACHEABLE else 0
        self.input_tokens += tokens
        summary = self.write(text, max_tokens or self.max_tokens)
        self.output_tokens += text_tokens(summary)
        return summary

    def release(self, view: int | None = None) -> int:
        """Answer what waits, of one view if it is named; return how many these were."""
        ready = [one for one in self.pending if view in (None, one[0])]
        self.pending = [one for one in self.pending if one not in ready]
        for answer in (answer for _, answer in ready if not answer.done()):
            answer.set_result(None)
        return len(ready)
