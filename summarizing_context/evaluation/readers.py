"""The models of a run, called through its cassette: reader, judge and summarizer.

Literals mark an answer where they decide it: all required words and no forbidden word is right. The judge marks the
other answers. A replay calls no model and needs no key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import NamedTuple, TypeVar

import anyio
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from summarizing_context.errors import SummarizerError, SummarizerRefused, SummarizingContextError
from summarizing_context.evaluation.arms.views import ArmView
from summarizing_context.evaluation.cases.model import Probe
from summarizing_context.evaluation.cases.verdicts import Text, folded
from summarizing_context.evaluation.cases.verdicts import judge as look_for
from summarizing_context.evaluation.cassettes import Cassette, CassetteSummarizer, Mode, Reply, Request
from summarizing_context.evaluation.cassettes.cassette import maker_of
from summarizing_context.evaluation.outcomes import AnswerOutcome
from summarizing_context.evaluation.questions import (
    ANSWER_TOKENS,
    Chat,
    Evidence,
    ReaderPlan,
    judge_request,
    read_verdict,
    reader_request,
    view_text,
)
from summarizing_context.settings.providers import PROVIDERS
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.base import SummaryReply
from summarizing_context.summarizers.providers import make_model
from summarizing_context.summarizers.resilience.caller import ChatModel, call_within
from summarizing_context.summarizers.resilience.retries import retry_after_of
from summarizing_context.summarizers.sdk import Fault

_LASTING = (Fault.KEY, Fault.NOT_FOUND, Fault.REQUEST, Fault.REDIRECT)

_backoff = wait_random_exponential(multiplier=1, min=0.5, max=8)  # seconds


class RecordedModel:
    """One model, asked through the cassette."""

    def __init__(self, model: ChatModel, cassette: Cassette, reader_plan: ReaderPlan) -> None:
        self.maker = maker_of(model)
        self._model, self._cassette, self._reader_plan = model, cassette, reader_plan

    @property
    def mode(self) -> Mode:
        """What its cassette does."""
        return self._cassette.mode

    async def ask(self, request: Request, *, assumed: str = "") -> Reply:
        """The reply to a request. Raises as `Cassette.reply` does."""
        return await self._cassette.reply(request, self._send, assumed=assumed)

    async def _send(self, request: Request) -> SummaryReply:
        retrying = AsyncRetrying(
            sleep=anyio.sleep,
            retry=retry_if_exception(_is_passing),
            wait=lambda state: max(_backoff(state), retry_after_of(_error_of(state))),
            stop=stop_after_attempt(self._reader_plan.attempts),
            reraise=True,
        )
        return await retrying(self._call, request)

    async def _call(self, request: Request) -> SummaryReply:
        call = self._model.complete(request.system, request.message, request.max_tokens)
        return await call_within(self._reader_plan.call_timeout, call)


def _is_passing(error: BaseException) -> bool:
    """Whether asking again may help; a refusal is an answer, and a wrong key stays wrong."""
    if isinstance(error, SummarizerRefused) or not isinstance(error, SummarizerError):
        return False
    return not error.args or error.args[0] not in _LASTING


def _error_of(state: RetryCallState) -> Exception:
    error = state.outcome.exception() if state.outcome is not None else None
    return error if isinstance(error, Exception) else SummarizerError()


ABSTAINED = "the record does not say"

_AROUND = " .!\"'`*“”‘’"

_IN_ONE_LINE = ("constraint", "decision")


class Mark(NamedTuple):
    """What became of one answer."""

    right: bool
    by: str  # literals or judge
    why: str  # one short sentence
    abstained: bool = False


def mark_by_literals(probe: Probe, answer: str) -> Mark | None:
    """The mark that literals give; None where they leave it open."""
    if not answer.strip():
        return Mark(False, "literals", "gave no answer")
    if folded(answer).strip(_AROUND) == ABSTAINED:
        right = probe.kind == "abstention"
        return Mark(right, "literals", "abstains" if right else "abstains, but it was said", abstained=True)
    text = Text([" ".join(answer.split())]) if probe.kind in _IN_ONE_LINE else Text([answer])
    if probe.kind == "abstention":
        stale = [literal for literal in probe.forbid if text.holds(literal)]
        return Mark(False, "literals", f"says what was never said: {', '.join(stale[:3])}") if stale else None
    if not (probe.literals or probe.any_of):
        return None
    found = look_for(probe, text)
    if found.kept and not _forbidden(probe, text):
        return Mark(True, "literals", "says it")
    if _forbidden(probe, text) and not any(text.holds(literal) for literal in (*probe.literals, *probe.any_of)):
        return Mark(False, "literals", "says what must not be said, and nothing of what must")
    return None


def _forbidden(probe: Probe, text: Text) -> bool:
    """Whether a forbidden word stands there. One that stands beside the right one may be told as replaced: open."""
    return any(text.holds(literal) for literal in probe.forbid)


Answers = dict[str, dict[str, list[AnswerOutcome]]]  # by probe, by arm

Result = TypeVar("Result")

_ASSUMED = " ".join(["an answer that nobody has given yet"] * (ANSWER_TOKENS // 7))  # in a forecast: so long, and open


class Models:
    """What a run asks of models."""

    def __init__(
        self,
        reader_plan: ReaderPlan | None,
        reader: RecordedModel | None,
        judge: RecordedModel | None,
        summarizer: CassetteSummarizer | None,
    ) -> None:
        self.summarizer = summarizer
        self._reader_plan, self._reader, self._judge = reader_plan, reader, judge

    async def answers(
        self, probes: Sequence[Probe], views: Mapping[str, ArmView], evidence: Mapping[str, Evidence]
    ) -> Answers:
        """The answers to the probes of one cut from the views that are asked."""
        if self._reader_plan is None:
            return {}
        questions = [
            (probe, arm, replicate)
            for probe in self._reader_plan.chosen(probes)
            for arm in self._reader_plan.arms
            if arm in views
            for replicate in range(self._reader_plan.replicates)
        ]
        shown = {arm: view_text(views[arm].texts) for arm in self._reader_plan.arms if arm in views}
        jobs = [
            partial(self._answer, probe, shown[arm], evidence.get(probe.id, ()), replicate)
            for probe, arm, replicate in questions
        ]
        found = await _all_of(jobs, self._reader_plan.concurrency)
        answers: Answers = {}
        for (probe, arm, _), outcome in zip(questions, found, strict=True):
            answers.setdefault(probe.id, {}).setdefault(arm, []).append(outcome)
        return answers

    async def _answer(self, probe: Probe, view: str, evidence: Evidence, replicate: int) -> AnswerOutcome:
        assert self._reader is not None
        request = reader_request(self._reader.maker, view, probe, replicate)
        reply = await self._reader.ask(request, assumed=f"{_ASSUMED} {request.key[:8]}")
        words = reply.text.strip()
        if reply.fault:
            return AnswerOutcome(words, False, "literals", f"gave no answer: {reply.fault}")
        mark = mark_by_literals(probe, words)
        mark = mark or await self._marked_by_judge(probe, evidence, words, replicate)
        return AnswerOutcome(words, mark.right, mark.by, mark.why, mark.abstained)

    async def _marked_by_judge(self, probe: Probe, evidence: Evidence, answer: str, replicate: int) -> Mark:
        assert self._judge is not None
        reply = await self._judge.ask(judge_request(self._judge.maker, probe, evidence, answer, replicate))
        right = None if reply.fault else read_verdict(reply.text)
        if right is None:
            return Mark(False, "judge", "the judge gave no verdict")
        return Mark(right, "judge", "right in other words" if right else "not what the session says")


@asynccontextmanager
async def open_models(settings: Settings, reader_plan: ReaderPlan | None, cassette: Cassette) -> AsyncIterator[Models]:
    """The models of one session's run, for the length of an `async with`. Raises `SettingsError` without a key."""
    async with AsyncExitStack() as stack:

        def opened(wanted: Settings) -> ChatModel:
            model = make_model(wanted, read_only=not cassette.sends)
            stack.push_async_callback(model.close)
            return model

        def recorded(chat: Chat, plan: ReaderPlan) -> RecordedModel:
            wanted = Settings(
                summarizer=chat.provider,
                model=chat.model,
                base_url=chat.base_url,
                call_timeout=plan.call_timeout,
            )
            return RecordedModel(opened(wanted), cassette, plan)

        reader = judge = None
        if reader_plan is not None:
            reader, judge = recorded(reader_plan.reader, reader_plan), recorded(reader_plan.judge, reader_plan)
        summarizer = CassetteSummarizer(opened(settings), cassette) if summarizes_by_model(settings) else None
        yield Models(reader_plan, reader, judge, summarizer)


def summarizes_by_model(settings: Settings) -> bool:
    """Whether these settings let a model summarize."""
    return settings.summarizer in PROVIDERS


async def _all_of(jobs: Sequence[Callable[[], Awaitable[Result]]], at_a_time: int) -> list[Result]:
    """What all jobs give, some side by side, in their order. After a failure none is begun; those under way, which may
    be paid for, come to their end before it is raised."""
    results: dict[int, Result] = {}
    failures: list[SummarizingContextError] = []
    waiting = iter(range(len(jobs)))

    async def work() -> None:
        for at in waiting:
            try:
                results[at] = await jobs[at]()
            except SummarizingContextError as error:
                failures.append(error)
            if failures:
                return

    async with anyio.create_task_group() as tasks:
        for _ in range(min(at_a_time, len(jobs))):
            tasks.start_soon(work)
    if failures:
        raise failures[0]
    return [results[at] for at in range(len(jobs))]
