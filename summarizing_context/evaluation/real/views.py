"""Our views at a cut, as the agent would have seen them: with summaries by a model, and without a model.

Messages come one by one, and each message of the assistant is preceded by a view. Summaries are replayed. A request
without a reply is noted, and a placeholder stands for its summary; what contains a placeholder is not asked. Where no
reply tells the rules of some messages there are none, and of later ones nothing is asked until there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import msgspec

from summarizing_context.assembly import open_context
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import BudgetError
from summarizing_context.evaluation.real.recording import Case, Reply, digest
from summarizing_context.evaluation.real.rendering import Message, text_of, tokens_of
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.settings.values import Settings, without_default_cap
from summarizing_context.summarizers.base import SummaryJob

PENDING = "Nothing is recorded for this part of the session yet."


class Request(msgspec.Struct, frozen=True):
    """What a model is asked to write."""

    system: str
    user: str
    max_tokens: int
    purpose: str  # the kind of a job of this package; `compact` or `brief`
    case: str
    start: int  # first message that it is about
    stop: int  # one past the last

    @property
    def key(self) -> str:
        """Its name: the first characters of the SHA-256 of both texts."""
        return digest(f"{self.system}\0{self.user}")[:20]


class Summary(NamedTuple):
    """One segment's own summary."""

    start: int
    stop: int
    text: str


class OurView(NamedTuple):
    """The view at the cut, the summaries of all segments, and what has no reply yet."""

    text: str
    leaves: list[Summary]
    missing: list[Request]
    waiting: int  # requests that cannot be asked before others have a reply


class RecordedSummarizer:
    """Answers from recorded replies. Notes the requests that have none."""

    recipe = "recorded"

    def __init__(self, case: str, replies: Mapping[str, Reply]) -> None:
        self._case, self._replies = case, replies
        self.missing: dict[str, Request] = {}
        self.waiting: set[str] = set()

    async def summarize(self, job: SummaryJob) -> str:
        """Return the recorded reply, or the placeholder; of rules without a reply there are none."""
        request = Request(job.instructions, job.content, job.max_tokens, job.kind, self._case, job.start, job.stop)
        if (reply := self._replies.get(request.key)) is not None:
            return reply.reply
        follows = job.kind == "rules" and any(other.purpose == "rules" for other in self.missing.values())
        if PENDING in job.content or (follows and request.key not in self.missing):
            self.waiting.add(request.key)
        else:
            self.missing[request.key] = request
        return "none" if job.kind == "rules" else PENDING


async def our_view(
    case: Case, messages: Sequence[Message], replies: Mapping[str, Reply], own: Settings | None = None
) -> OurView:
    """Return our view at the cut, with recorded summaries."""
    summarizer = RecordedSummarizer(case.name, replies)
    async with open_context(_settings(case.budget, own), summarizer=summarizer, count_tokens=estimate_text) as context:
        text = text_of(await _view_at_cut(context, messages, case.budget))
        nodes = context.summaries() or context.explain(drops=False)  # a short log may have no whole segment yet
        leaves = [Summary(node.start, node.stop, node.text) for node in nodes]
    missing = sorted(summarizer.missing.values(), key=lambda request: (request.purpose != "segment", request.start))
    return OurView(text, leaves, missing, len(summarizer.waiting))


async def extractive_view(
    case: Case, messages: Sequence[Message], tokens: int, own: Settings | None = None
) -> tuple[str, int]:
    """Return our view without a model, of at most so many tokens, and the first message of its raw tail.

    The view at the cut is taken if it fits closely. Else other budgets are tried, each as after a restart.
    """
    best, start = "", len(messages)
    async with open_context(_settings(case.budget, own), count_tokens=estimate_text) as context:
        view = await _view_at_cut(context, messages, case.budget)
        low, high, budget = 0.0, 0.0, float(case.budget)
        for tried in range(10):
            text = text_of(view)
            size = tokens_of(text)
            if size <= tokens and size > tokens_of(best):
                explained = context.explain(drops=False)
                best, start = text, explained[-1].stop if explained else 0
            if tokens * 0.98 <= size <= tokens:
                break
            low, high = (max(low, budget), high) if size <= tokens else (low, min(high or budget, budget))
            elsewhere = min(4.0, max(0.25, (0.99 * tokens / max(1, size)) ** 1.5))  # a view follows its budget slowly
            budget = (low * high) ** 0.5 if low and high else budget * elsewhere
            try:
                provider = SimpleNamespace(name=f"try-{tried}")
                view = await context.get_messages_for_request(token_budget=round(budget), provider=provider)
            except BudgetError:
                break
    return best, start


async def _view_at_cut(context: SummarizingContext, messages: Sequence[Message], budget: int) -> list[Message]:
    """The view after all messages, with all work of the background done before each view."""
    for message in messages:
        if message.get("role") == "assistant":
            await context.wait_idle()
            await context.get_messages_for_request(token_budget=budget)
        await context.add_message(message)
    await context.wait_idle()
    return await context.get_messages_for_request(token_budget=budget)


def _settings(budget: int, own: Settings | None) -> Settings:
    """The shipped settings, or those of the user's, in memory, counting alike on every machine."""
    return replace(
        without_default_cap(own or Settings()),
        summarizer="extractive",  # a model's summaries come from the recording
        store=":memory:",
        session_id="real",
        max_tokens=budget,
        idle_after=None,
        breaker_failures=1_000,  # in a row: a request without a reply is no failure of a model
    )
