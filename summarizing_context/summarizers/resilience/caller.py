"""Call a summarizer under limits: retries, time limits, breaker, caps, and a check of every reply."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from summarizing_context.concurrency import Clock
from summarizing_context.errors import (
    SettingsError,
    SummarizerError,
    SummarizerNotReady,
    SummarizerRefused,
    SummarizerTimeout,
)
from summarizing_context.summarizers.base import CallStatistics, Summarizer, SummaryJob, SummaryReply
from summarizing_context.summarizers.resilience.limits import Breaker, Caps, Limits, Spent, Ticket
from summarizing_context.summarizers.resilience.retries import (
    JobRun,
    NotAdmitted,
    describe_failure,
    final_error,
    needs_a_person,
    retry_after_of,
)
from summarizing_context.summarizers.verification.replies import (
    check_reply,
    reply_text,
    reported_cached,
    reported_usage,
)

logger = logging.getLogger(__name__)

GRACE = 0.5  # seconds that a cancelled call has to end

Reply = TypeVar("Reply")
Result = TypeVar("Result")

_left_behind: set[asyncio.Task[Any]] = set()  # asyncio itself keeps only weak references to its tasks


async def call_within(seconds: float, call: Coroutine[Any, Any, Reply], *, grace: float = GRACE) -> Reply:
    """What `call` returns or raises; `SummarizerTimeout` after so many seconds.

    When the caller is cancelled, so is the call, and the cancellation goes on. A cancellation that nobody asked of
    the caller (the call awaited something that was cancelled elsewhere) is a failure of the call: `SummarizerError`.
    """
    task = asyncio.create_task(call)
    try:
        await asyncio.wait({task}, timeout=max(seconds, 0.0))
    except BaseException:
        await _end(task, grace)
        _failure_of(task)  # looked at, or asyncio would complain that nobody did
        raise
    in_time = task.done()
    await _end(task, grace)
    if task.done() and not task.cancelled() and (in_time or not isinstance(task.exception(), Exception)):
        return _result_of(task)
    if not in_time:
        raise SummarizerTimeout(f"no reply within {seconds:g} seconds") from _failure_of(task)
    raise SummarizerError("the call to the summarizer was cancelled by something else than its caller")


def declared(summarizer: object, name: str) -> str | None:
    """A text that a summarizer tells of itself in an attribute; None if it does not."""
    try:
        value = getattr(summarizer, name, None)
    except Exception as error:
        raise SettingsError(
            f"the attribute {name} of the summarizer {type(summarizer).__name__} raised {type(error).__name__}; "
            "it is a text, or left out"
        ) from error
    return value if isinstance(value, str) else None


def _result_of(task: asyncio.Task[Reply]) -> Reply:
    """What the call returned or raised. Beside `Exception` only what ends a program passes."""
    failure = task.exception()
    if failure is None or isinstance(failure, Exception | KeyboardInterrupt | SystemExit):
        return task.result()
    raise SummarizerError("the summarizer raised what is not an Exception; let it raise a SummarizerError") from failure


async def _end(task: asyncio.Task[Any], grace: float) -> None:
    """Cancel the call and give it a moment; what does not end then is left behind."""
    if task.done():
        return
    task.cancel()
    task.add_done_callback(_note_end)
    _left_behind.add(task)
    with anyio.CancelScope(shield=True):
        await asyncio.wait({task}, timeout=grace)
    if not task.done():
        logger.warning("a summarizer did not end when it was cancelled; its call was left behind")


def _note_end(task: asyncio.Task[Any]) -> None:
    """Forget an ended call, and look at its error, or asyncio would complain that nobody did."""
    _left_behind.discard(task)
    _failure_of(task)


def _failure_of(task: asyncio.Task[Any]) -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None


COUNTED_CHARS = 20_000  # a longer reply is estimated, as counting it would hold up the loop

_backoff = wait_random_exponential(multiplier=1, min=0.5, max=8)  # seconds


@dataclass(slots=True)
class _Call:
    """A call that was let through."""

    job: SummaryJob
    ticket: Ticket
    spent: Spent
    seconds: float  # its time limit
    output_tokens: int = 0  # of its reply


class ResilientSummarizer:
    """A summarizer that fails only with `SummarizerError`, within limits, and whose replies can be used.

    Ask `ready_in` before starting a job. Safe for any number of tasks of one event loop.

    A call that takes too long is cancelled once. If it swallows that, it is left behind after half a second, with a
    warning; it may go on running until its event loop ends, but holds up neither its job nor the closing of a
    context. The same happens when a job is cancelled: its cancellation is passed to the call and always goes on.
    """

    def __init__(
        self,
        inner: Summarizer,
        *,
        limits: Limits,
        clock: Clock,
        count: Callable[[str], int],  # must measure as `SummaryJob.source_tokens` does
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        held: Callable[[], float] = lambda: 0.0,  # seconds for which `inner` wants no call
        close: Callable[[], Awaitable[None]] | None = None,  # ends `inner`, if it is this one's
    ) -> None:
        self._inner = inner
        self.recipe = declared(inner, "recipe")  # its name for the shared cache, if it has one
        self.model = declared(inner, "model")  # whose prices count, if it tells
        host = declared(inner, "host")
        name = self.model or self.recipe or type(inner).__name__
        self._name = f"{name} at {host}" if host else name  # in warnings
        self._advice = ". `summarizing-context check` makes one call and says what is wrong" if host else ""
        self.on_trouble: Callable[[str], None] = lambda text: None  # gets each warning, for a session to keep
        self._limits = limits
        self._clock = clock
        self._count = count
        self._sleep = sleep
        self._held = held
        self._close = close
        self._breaker = Breaker(failures=limits.breaker_failures, cooldown=limits.breaker_cooldown)
        self._caps = Caps(limits)
        self._output_tokens = self._cached_tokens = self._refused_replies = self._failed_jobs = 0
        self._dropped_lines = self._refused_input = self._refused_output = 0
        self._refused_jobs: set[str] = set()  # by range hash, since a reply was good
        self._checking = anyio.Lock()
        self._held_until = float("-inf")  # the inner one has asked not to be called before
        self._last_error: str | None = None

    def ready_in(self) -> float | None:
        """Seconds until a job may be started; 0.0 is now, None is never again in this session (a cap is reached)."""
        now = self._clock.now()
        room = self._caps.ready_in(now)
        return None if room is None else max(room, self._breaker.ready_in(now), self._held_until - now, self._held())

    def statistics(self) -> CallStatistics:
        cap_ends_in = self._caps.ready_in(self._clock.now())
        return CallStatistics(
            model_calls=self._caps.calls,
            input_tokens=self._caps.tokens,
            output_tokens=self._output_tokens,
            refused_replies=self._refused_replies,
            refused_input_tokens=self._refused_input,
            refused_output_tokens=self._refused_output,
            failed_jobs=self._failed_jobs,
            breaker=self._breaker.state(self._clock.now()),
            last_error=self._last_error,
            cached_tokens=self._cached_tokens,
            dropped_lines=self._dropped_lines,
            cap_ends_in=inf if cap_ends_in is None else cap_ends_in,
        )

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """A checked summary of the job, its usage filled in.

        Raises `SummarizerError` or a subclass when the job is given up. When `ready_in` is not 0 it does so at once
        and without a call, and `retry_after` says when to come back.
        """
        run = JobRun(job, self._clock.now() + self._limits.job_timeout)
        retrying = AsyncRetrying(
            sleep=self._sleep,
            retry=retry_if_exception_type(Exception),
            wait=lambda state: self._wait(state, run),
            stop=lambda state: self._is_over(state, run),
            reraise=True,
        )
        try:
            self._refuse_unless_ready()
            return await retrying(self._attempt, run)
        except Exception as error:
            if run.salvaged is not None:
                self._dropped_lines += run.salvaged.dropped
                return run.salvaged.reply
            self._failed_jobs += run.calls > 0 and not isinstance(error, SummarizerNotReady)
            raise final_error(run, error, ready_in=self.ready_in()) from (run.failure or error)

    async def close(self) -> None:
        """Close the summarizer, if it was made for this one."""
        if self._close is not None:
            await self._close()

    async def _attempt(self, run: JobRun) -> SummaryReply:
        call = self._begin(run)
        try:
            reply = await self._answer(call)
            call.output_tokens = self._note_usage(call, reply)
            checked = await self._in_thread(lambda: check_reply(reply, run.job, self._count))
            output_tokens = self._count(checked.text) if checked.output_tokens is None else checked.output_tokens
            usage = replace(checked, input_tokens=call.spent.tokens, output_tokens=output_tokens)
            found = await self._in_thread(lambda: run.check_against_source(usage))
        except SummarizerNotReady as error:
            self._note_held(call, error)
            raise
        except Exception as error:
            self._note_failure(run, call, error)
            raise
        except BaseException:
            self._breaker.abandoned(call.ticket)
            raise
        if call.job.kind == "rules":  # says nothing of summaries, well or ill
            self._breaker.abandoned(call.ticket)
        else:
            self._note_success(call)
        self._dropped_lines += found.dropped
        return found.reply

    async def _answer(self, call: _Call) -> object:
        """The reply to a call. Input is paid for where one came, also one that cannot serve; else it is not counted."""
        try:
            return await call_within(call.seconds, self._ask(call.job))
        except SummarizerRefused:
            raise
        except BaseException:
            self._caps.correct(call.spent, 0)
            raise

    async def _ask(self, job: SummaryJob) -> object:
        return await self._inner.summarize(job)

    async def _in_thread(self, check: Callable[[], Result]) -> Result:
        """What a check says. It reads the whole source, which takes milliseconds, so a thread does it; one at a time,
        or the event loop would have to wait for many of them before its turn comes."""
        async with self._checking:
            return await anyio.to_thread.run_sync(check, abandon_on_cancel=True)

    def _refuse_unless_ready(self) -> None:
        wait = self.ready_in()
        if wait is None:
            raise NotAdmitted("a cap of this session is reached; raise it to go on")
        if wait > 0:
            raise NotAdmitted(f"calls are held back for {wait:.1f} seconds by the breaker, an hourly cap or the host")

    def _begin(self, run: JobRun) -> _Call:
        """Let a call through and count it, or raise `NotAdmitted`."""
        now, job = self._clock.now(), run.next_job()
        if now >= run.deadline:
            raise NotAdmitted("the job's time is used up")
        tokens = self._count(job.prompt)
        is_probe = self._breaker.tripped and job.kind == "rules"  # a summary is to be the next that is tried
        ticket = None if is_probe else self._breaker.begin(now)
        if ticket is None:
            raise NotAdmitted("the breaker is open")
        spent = self._caps.admit(now, tokens)
        if spent is None:
            self._breaker.abandoned(ticket)
            self._warn_of_caps(now)
            raise NotAdmitted("a cap on calls or input tokens has no room for it")
        run.note_call()
        self._warn_of_caps(now)
        return _Call(job, ticket, spent, min(self._limits.call_timeout, run.deadline - now))

    def _is_over(self, state: RetryCallState, run: JobRun) -> bool:
        """Whether to give the job up rather than sleep and try again."""
        if run.calls >= self._limits.attempts or run.was_terse or self._breaker.tripped:
            return True
        if isinstance(_error_of(state), NotAdmitted | SummarizerNotReady):
            return True
        now = self._clock.now()
        return self._caps.ready_in(now) != 0.0 or now + state.upcoming_sleep >= run.deadline

    def _wait(self, state: RetryCallState, run: JobRun) -> float:
        """Seconds before the next attempt: a refused reply is answered at once, a failure after a while."""
        backoff = 0.0 if run.refused else _backoff(state)
        return max(backoff, self._breaker.ready_in(self._clock.now()))

    def _note_usage(self, call: _Call, reply: object) -> int:
        """Count what the call cost, whether or not its reply will do, and return the output tokens."""
        input_tokens, output_tokens = reported_usage(reply)
        self._cached_tokens += reported_cached(reply) or 0
        if input_tokens is not None:
            self._caps.correct(call.spent, input_tokens)
            self._warn_of_caps(self._clock.now())
        if output_tokens is None:
            text = reply_text(reply) or ""
            output_tokens = self._count(text) if len(text) <= COUNTED_CHARS else len(text) // 4
        self._output_tokens += output_tokens
        return output_tokens

    def _note_failure(self, run: JobRun, call: _Call, error: Exception) -> None:
        run.note_failure(error)
        self._last_error = describe_failure(error)
        refused, is_final = isinstance(error, SummarizerRefused), needs_a_person(error)
        known = refused and call.job.range_hash in self._refused_jobs
        if refused:
            self._refused_replies += 1
            self._refused_input += call.spent.tokens
            self._refused_output += call.output_tokens
        if (call.job.kind == "rules" or (refused and call.job.kind == "memory")) and not is_final:  # no summary waits
            return self._breaker.abandoned(call.ticket)
        if refused and run.salvaged is not None:  # enough of it serves
            return self._note_success(call)
        if known and not self._breaker.tripped:  # what is refused again says nothing of other contents
            return self._breaker.abandoned(call.ticket)
        if refused:
            self._refused_jobs.add(call.job.range_hash)
        wait = retry_after_of(error)
        if self._breaker.failed(call.ticket, self._clock.now(), wait, at_once=is_final):
            self._warn(
                f"no summaries by {self._name}: {self._last_error}. Views show stand-ins; it is asked again after "
                f"{max(wait, self._limits.breaker_cooldown):g} seconds{self._advice}"
            )
        return None

    def _note_success(self, call: _Call) -> None:
        self._breaker.succeeded(call.ticket)
        self._refused_jobs.clear()

    def _note_held(self, call: _Call, error: SummarizerNotReady) -> None:
        """The inner one can answer nobody now: no failure, but it is not called again before it says so."""
        self._breaker.abandoned(call.ticket)
        wait = retry_after_of(error) or self._limits.breaker_cooldown
        self._held_until = max(self._held_until, self._clock.now() + wait)

    def _warn_of_caps(self, now: float) -> None:
        for warning in self._caps.new_warnings(now):
            if warning.is_reached:
                self._warn(
                    f"{warning.name} = {warning.cap} is reached. {self._name} is not asked until that allows more; "
                    "views show stand-ins. Raise this setting, or set it to none"
                )
            else:
                logger.warning("summarizer: %d of %d used of %s", warning.used, warning.cap, warning.name)

    def _warn(self, text: str) -> None:
        logger.warning("summarizer: %s", text)
        self.on_trouble(text)


def _error_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None
