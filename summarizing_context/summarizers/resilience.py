"""Call a summarizer under limits: retries, time limits, a circuit breaker, caps, and a check of every reply."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from inspect import isawaitable
from math import inf
from pathlib import Path
from traceback import walk_tb
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from summarizing_context.concurrency import Clock
from summarizing_context.errors import (
    SettingsError,
    SummarizerError,
    SummarizerNotReady,
    SummarizerRateLimited,
    SummarizerRefused,
    SummarizerTimeout,
)
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.models import FREE, field_of, load_models
from summarizing_context.settings import Settings
from summarizing_context.summarizers.base import BreakerState, CallStatistics, Summarizer, SummaryJob, SummaryReply
from summarizing_context.summarizers.host import HostSummarizer
from summarizing_context.summarizers.sdk import Fault
from summarizing_context.summarizers.verification import Refusal, check_reply, plain_reply, verify

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class _Failed:
    refusals: int  # one after the other: answers that cannot serve; none where no answer came
    at: float
    retry_at: float


class RetrySchedule:
    """When to try again, by range hash, for one session; times in seconds of the session's clock."""

    def __init__(self, cooldown: float) -> None:
        self._cooldown = cooldown
        self._failed: dict[str, _Failed] = {}

    def note(self, hash: str, error: Exception, now: float) -> None:
        """Note that an attempt failed with `error`. What is refused is asked for less and less often: half a minute
        becomes three weeks."""
        wait, refusals = getattr(error, "retry_after", None) or self._cooldown, 0
        if isinstance(error, SummarizerRefused):
            refusals = self._failed[hash].refusals + 1 if hash in self._failed else 1
            wait = self._cooldown * 2 ** min(refusals - 1, 16)
        self._failed[hash] = _Failed(refusals, now, now + wait)

    def recover(self, hash: str, began: float) -> None:
        """Note that a summary came: what failed before it was asked for, for want of a summarizer, need not rest any
        longer."""
        failed = self._failed.items()
        self._failed = {one: kept for one, kept in failed if one != hash and (kept.refusals or kept.at > began)}

    def rests(self, hash: str, now: float) -> bool:
        return hash in self._failed and self._failed[hash].retry_at > now

    def is_given_up(self, hash: str) -> bool:
        """Say whether two jobs, one after the other, ended with a refused reply. It is still asked for, less often."""
        return hash in self._failed and self._failed[hash].refusals >= 2

    def delays(self, now: float) -> list[float]:
        """Return the seconds until each that rests may be tried."""
        return [failed.retry_at - now for failed in self._failed.values() if failed.retry_at > now]


LONGEST_DELAY = 3_600.0  # seconds; a provider that asks for more is asked again after this


def retry_after_of(error: Exception) -> float:
    """Return the provider's `retry_after`, up to `LONGEST_DELAY`; 0 where it is no sound number of seconds."""
    seconds: Any = error.retry_after if isinstance(error, SummarizerError) else None
    return min(float(seconds), LONGEST_DELAY) if type(seconds) in (int, float) and 0 < seconds < inf else 0.0


def describe_failure(error: BaseException) -> str:
    """Return one short line on a failure: class names, status codes and our own constants.

    Never an exception's own words: those of a provider, or of a user's summarizer, may hold the text of messages.
    """
    parts: list[str] = []
    for each in [error, error.__cause__] if isinstance(error.__cause__, Exception) else [error]:
        parts.append(type(each).__name__[:80])
        if code := status_code(each):
            parts[-1] += f" {code}"
        elif each.__traceback__ and type(each).__module__ == "builtins" and not isinstance(each, OSError):
            *_, (frame, line) = walk_tb(each.__traceback__)  # where a fault of a program was raised
            parts[-1] += f" at {Path(frame.f_code.co_filename).name}:{line}"
    said = error.args[0] if error.args else None
    return " from ".join(parts) + (f": {said.value}" if isinstance(said, Refusal | Fault) else "")


def status_code(error: BaseException | None) -> int | None:
    """Return the HTTP status code that an error of an SDK carries, if any."""
    holders = error, field_of(error, "response")
    codes = (field_of(holder, name) for holder in holders for name in ("status_code", "status"))
    return next((code for code in codes if isinstance(code, int) and 100 <= code < 600), None)


def _is_unread(error: Exception) -> bool:
    """Say whether a provider refuses a request for what it is, such as its length: it will refuse it again."""
    return error.args[:1] == (Fault.REQUEST,) or status_code(error) in (400, 413, 422)


def declared(summarizer: object, name: str) -> str | None:
    """Return a text that a summarizer has as an attribute; None if it has not."""
    try:
        value = getattr(summarizer, name, None)
    except Exception as error:
        about = f"the attribute {name} of the summarizer {type(summarizer).__name__} raised {type(error).__name__}"
        raise SettingsError(f"{about}; it is a text, or left out") from error
    if name == "recipe" and not isinstance(value, str | None):  # without one, all is paid for again at each start
        raise SettingsError(f"the attribute recipe of {type(summarizer).__name__} is a {type(value).__name__}, no text")
    return value if isinstance(value, str) else None


_left_behind: set[asyncio.Task[Any]] = set()  # asyncio itself keeps only weak references to its tasks


async def call_within(seconds: float, call: Coroutine[Any, Any, Reply]) -> Reply:
    """Return or raise what `call` does; `SummarizerTimeout` after so many seconds.

    A call that takes too long is cancelled, and after half a second left behind. When the caller is cancelled, so is
    the call, and the cancellation goes on. A call that is cancelled by anything else has failed: `SummarizerError`.
    """
    task = asyncio.create_task(call)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # looked at, or asyncio complains
    try:
        in_time, _ = await asyncio.wait({task}, timeout=max(seconds, 0.0))
    finally:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task}, timeout=0.5)
        if not task.done():
            _left_behind.add(task)
            task.add_done_callback(_left_behind.discard)
            logger.warning("a summarizer did not end when it was cancelled; its call was left behind")
    if not in_time:
        raise SummarizerTimeout(f"no reply within {seconds:g} seconds")
    if task.cancelled():
        raise SummarizerError(Fault.ENDED)
    if not isinstance(failure := task.exception(), Exception | KeyboardInterrupt | SystemExit | None):
        raise SummarizerError(Fault.NO_EXCEPTION) from failure
    return task.result()


# The calls.

_TERSE = (
    "Your last answer could not be used. Answer with the summary alone, in at most {words} words: "
    "no preamble, no code fence, no copied passages."
)
_UNSUPPORTED = (
    "Your last answer held values that the record does not: {values}. Write the summary again: copy every path, "
    "number, id, address and quote as it stands in the record, and leave out what does not stand there."
)
_NO_ITEMS = "Your last answer could not be used. Answer with one JSON object a line, as described, or with [] alone."
_KINDS = (SummarizerNotReady, SummarizerTimeout, SummarizerRefused, SummarizerRateLimited)  # of failures, by rank
_NOTHING = SummaryReply("")


@dataclass(slots=True, eq=False)
class Call:
    """One call that was let through, and what it has cost."""

    at: float
    tokens: int  # input tokens: the estimate, then what the provider reported
    openings: int  # how often the breaker had opened before
    output_tokens: int = 0


class NotAdmitted(SummarizerNotReady):
    """The breaker, a cap or the job's time let no call through. Never leaves this module."""


@dataclass(slots=True)
class _Run:
    job: SummaryJob
    deadline: float  # by the clock
    most: int  # calls; after a refused reply one more
    calls: int = 0
    failure: Exception | None = None  # of the last call
    refused: bool = False  # a reply was refused
    unsupported: tuple[str, ...] = ()  # literals of the last reply, for the model alone
    kept: SummaryReply = _NOTHING  # the best so far, without lines whose values the source does not hold
    dropped_lines: int = 0  # of it

    def check(self, reply: object, input_tokens: int) -> None:
        """Keep what of a reply its source bears out. Raise `SummarizerRefused` where that is too little."""
        checked = check_reply(reply, self.job)
        output_tokens = checked.output_tokens or estimate_text(checked.text)
        checked = replace(checked, input_tokens=input_tokens, output_tokens=output_tokens)
        if self.job.kind in ("memory", "rules"):  # each of their lines is checked by itself
            self.kept = checked
            return
        verified = verify(checked.text, self.job)
        self.unsupported = verified.unsupported
        if verified.is_enough or len(verified.text) > len(self.kept.text):
            self.kept, self.dropped_lines = replace(checked, text=verified.text), verified.dropped_lines
        if not verified.is_enough:
            raise SummarizerRefused(Refusal.UNSUPPORTED)


class ResilientSummarizer:
    """A summarizer that fails only with `SummarizerError`, within limits, and whose replies can be used. Safe for any
    number of tasks of one event loop. A job may take three times `call_timeout`.

    Its breaker is closed until `breaker_failures` calls in a row fail; then open for `breaker_cooldown` seconds; then
    half-open: it lets one probe through at a time, whose success closes it, and whose failure opens it again. A call
    that began before it opened decides nothing. A failure's `retry_after` is honoured in every state.

    Caps are on calls and input tokens, of an hour and of a session: a call that would exceed one is not let through.
    One that can never fit ends the calls of this session. So does the cap on dollars once it is reached; no call begins
    while those under way would reach it with their longest replies.
    """

    def __init__(
        self,
        inner: Summarizer,
        *,
        settings: Settings,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        close: Callable[[], Awaitable[None]] | None = None,  # ends `inner`, if it is this one's
    ) -> None:
        self._inner, self._settings, self._clock = inner, settings, clock
        self._sleep, self._close = sleep, close
        self.recipe = declared(inner, "recipe")  # its name for the shared cache, if it has one
        self.model = declared(inner, "model")  # whose prices count, if it has a name
        host = declared(inner, "host")
        name = self.model or self.recipe or type(inner).__name__
        self._name = f"{name} at {host}" if host else name  # in warnings
        self._advice = ". `summarizing-context check` makes one call and says what is wrong" if host else ""
        self.on_trouble: Callable[[str], None] = lambda text: None  # gets each warning, for a session to keep
        self._figures = CallStatistics()
        self._checking = anyio.Lock()
        self._held_until = -inf  # the inner one has asked not to be called before

        # the caps
        price = FREE if settings.max_cost_per_session is None else load_models(settings.prices).price_of(self.model)
        if price is None:
            missing = f"no price of {self.model} is known; name it in the file of `prices`"
            unnamed = f"{name} has no `model` whose price counts; set max_input_tokens_per_session"
            raise SettingsError(f"max_cost_per_session: {missing if self.model else unnamed}")
        self._price = price
        names = [f"max_{what}_per_{time}" for time in ("hour", "session") for what in ("calls", "input_tokens")]
        names.append("max_cost_per_session")
        self._caps = {name: inf if (cap := getattr(settings, name)) is None else cap for name in names}
        self._reached: set[str] = set()  # those that were warned of
        self._spent: list[Call] = []
        self._under_way = 0  # output tokens that calls may still take
        self._next = 1  # input tokens of the call that found no room: until one is let through, it is the next

        # the breaker
        self._tripped = False  # it has opened and no probe has closed it since
        self._refused: set[str] = set()  # jobs whose reply was, by range hash, since one was good
        self._failures = self._openings = 0
        self._is_probing = False
        self._quiet_until = -inf

    def ready_in(self) -> float | None:
        """Return the seconds until a job may be started; 0.0 is now, None is never again in this session (a cap is
        reached)."""
        held = self._inner.held() if isinstance(self._inner, HostSummarizer) else 0.0
        open_for = self._quiet() or float(self._is_probing)  # while a probe is under way, ask again in a second
        ready = max(self._room_in(), open_for, held, self._held_until - self._clock.now())
        return None if ready == inf else ready

    def statistics(self) -> CallStatistics:
        state: BreakerState = "open" if self._quiet() else "half_open" if self._tripped else "closed"
        ends_in = max(self._waits().values())
        left = ends_in if 0 < ends_in < inf else None
        return replace(self._figures, breaker=state, cap_reached=ends_in > 0, cap_ends_in=left)

    async def close(self) -> None:
        if self._close is not None:
            await self._close()

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return a checked summary of the job, its usage filled in.

        Raise `SummarizerError`, of the kind of the last failure, when the job is given up, with the provider's
        `retry_after` for it; `SummarizerNotReady` without a call when `ready_in` is not 0.
        """
        run = _Run(job, self._clock.now() + 3 * self._settings.call_timeout, self._settings.attempts)
        backoff = wait_random_exponential(multiplier=1, min=0.5, max=8)

        def wait(state: RetryCallState) -> float:
            """A refused reply is answered at once, a failure after a while."""
            return max(0.0 if run.refused else backoff(state), self._quiet())

        def is_over(state: RetryCallState) -> bool:
            is_spent = run.calls >= run.most or self._clock.now() + state.upcoming_sleep >= run.deadline
            return is_spent or self._tripped or self._room_in() != 0

        retry = retry_if_exception(lambda one: isinstance(one, Exception) and not isinstance(one, SummarizerNotReady))
        retrying = AsyncRetrying(sleep=self._sleep, retry=retry, wait=wait, stop=is_over, reraise=True)
        try:
            if (ready := self.ready_in()) is None:
                raise NotAdmitted("a cap of this session is reached; raise it to go on")
            if ready > 0:
                raise NotAdmitted(f"calls wait for {ready:.1f} seconds, for the breaker, an hourly cap or the host")
            await retrying(self._attempt, run)
        except Exception as error:
            if not run.kept.text:  # what is left of a refused reply serves
                failure = run.failure or error
                other = SummarizerRefused if _is_unread(failure) else SummarizerError
                kind = next((kind for kind in _KINDS if isinstance(failure, kind)), other)
                reason = str(failure) if isinstance(failure, NotAdmitted) else describe_failure(failure)
                raise kind(
                    f"no summary of {job.kind} {job.range_hash[:8]} after {run.calls} call{'s' * (run.calls != 1)}: "
                    f"{reason}; the log is safe, a stand-in is shown until it is tried again",
                    retry_after=(self.ready_in() if kind is SummarizerNotReady else retry_after_of(failure)) or None,
                ) from failure
        finally:
            self._warn_of_caps()
        self._figures.dropped_lines += run.dropped_lines
        return run.kept

    async def admitted(self, call: Coroutine[Any, Any, SummaryReply], tokens: int) -> SummaryReply:
        """Return what another call to the provider returns, of about so many input tokens, within the caps and three
        times `call_timeout`, and count it. One that finds no room keeps none from the summaries: it raises
        `SummarizerNotReady`, or `SummarizerError` where it never fits."""
        ready, room = self.ready_in(), self._room_in(tokens)
        if ready != 0.0 or room != 0.0:
            call.close()
            if ready is not None and room == inf:
                raise SummarizerError(f"a cap on input tokens has no room for its request of {tokens:,}")
            wait = None if ready is None else max(ready, room)
            raise SummarizerNotReady("no call goes through now", retry_after=wait)
        try:
            return await self._paid(self._count(tokens), 3 * self._settings.call_timeout, call)
        finally:
            self._warn_of_caps()

    async def _attempt(self, run: _Run) -> None:
        """Let a call through and count it, or raise `NotAdmitted`; check its reply."""
        now, job = self._clock.now(), replace(run.job, attempt=run.calls + 1)
        if now >= run.deadline:
            raise NotAdmitted("the job's time is used up")
        if run.refused and job.kind != "rules":
            line = _NO_ITEMS if job.kind == "memory" else _TERSE.format(words=max(job.max_tokens // 2, 1))
            if run.unsupported:
                named = (json.dumps(value[:80], ensure_ascii=False) for value in run.unsupported[:12])
                line = _UNSUPPORTED.format(values=", ".join(named))
            job = replace(job, instructions=f"{job.instructions}\n\n{line}")

        # A closed breaker lets the next attempt of a started job through, which has waited for its own `retry_after`,
        # whatever others have met since. A request for rules says nothing of summaries, well or ill, and is no probe.
        is_summary, tokens = job.kind != "rules", estimate_text(job.prompt)
        if self._tripped and (self._quiet() or self._is_probing or not is_summary):
            raise NotAdmitted("the breaker is open")
        if self._room_in(tokens) != 0.0:
            self._next = max(tokens, 1)
            raise NotAdmitted("a cap on calls or input tokens has no room for it")
        self._is_probing = self._tripped
        call = self._count(tokens)
        run.calls += 1
        try:
            seconds = min(self._settings.call_timeout, run.deadline - now)
            reply = await self._paid(call, seconds, _asked(self._inner, job), job.max_tokens)

            # The check reads the whole source, which takes milliseconds, so a thread does it; one at a time, or the
            # event loop would have to wait for many of them before its turn comes.
            async with self._checking:
                await anyio.to_thread.run_sync(run.check, reply, call.tokens, abandon_on_cancel=True)
        except SummarizerNotReady as error:  # no failure, but it is not called again before it says so
            wait = retry_after_of(error) or self._settings.breaker_cooldown
            self._held_until = max(self._held_until, self._clock.now() + wait)
            raise
        except Exception as error:
            refused = isinstance(error, SummarizerRefused)
            run.failure, run.refused = error, run.refused or refused
            self._figures.last_error = describe_failure(error)
            if refused:
                run.most = min(run.most, run.calls + 1)
                self._figures.refused_replies += 1
                self._figures.refused_input_tokens += call.tokens
                self._figures.refused_output_tokens += call.output_tokens

            # calls fail until a person changes something: a wrong key, model or address, an account without money
            status, unread = status_code(error) or status_code(error.__cause__), _is_unread(error)
            run.most = run.calls if unread else run.most
            is_final = status in (401, 402, 403, 404) or error.args[:1] in ((Fault.KEY,), (Fault.NOT_FOUND,))
            is_missed = is_summary and not (refused and job.kind == "memory")
            is_known = (refused or unread) and job.range_hash in self._refused and not self._tripped
            if refused and run.kept.text:  # enough of it serves
                self._succeeded(call)
            elif not is_known and (is_missed or is_final):  # what is refused again says nothing of other contents
                self._refused |= {job.range_hash} if refused or unread else set()
                self._failed(call, retry_after_of(error), at_once=is_final)
            raise
        finally:  # the next probe goes behind one that has proved nothing, such as one that was cancelled from outside
            self._is_probing = self._is_probing and call.openings != self._openings
        if is_summary:
            self._succeeded(call)

    async def _paid(self, call: Call, seconds: float, asked: Coroutine[Any, Any, Reply], most: int = 0) -> Reply:
        """Return the reply to a call that was let through, and count what it cost, as the reply tells, else as we
        estimate. Input is paid for where a reply came, also one that cannot serve. It may take `most` output tokens."""
        self._under_way += most
        try:
            reply = await call_within(seconds, asked)
        except SummarizerRefused as error:
            if isinstance(error.usage, SummaryReply):
                self._cost(call, error.usage)
            raise
        except BaseException:
            self._correct(call, 0)
            raise
        finally:
            self._under_way -= most
        self._cost(call, plain_reply(reply))
        return reply

    def _cost(self, call: Call, said: SummaryReply) -> None:
        """Count what a reply says that it took."""
        if said.input_tokens is not None:
            self._correct(call, said.input_tokens)
        call.output_tokens = said.output_tokens or estimate_text(said.text[:200_000])
        self._figures.model_output_tokens += call.output_tokens
        self._figures.model_cached_tokens += said.cached_tokens or 0

    def _count(self, tokens: int) -> Call:
        """Count a call that is about to be sent, of so many input tokens by our estimate."""
        call = Call(self._clock.now(), tokens, self._openings)
        self._spent.append(call)
        self._next = 1
        self._figures.model_calls += 1
        self._figures.model_input_tokens += tokens
        return call

    def _correct(self, call: Call, tokens: int) -> None:
        """Put what the provider reported in place of the estimate."""
        self._figures.model_input_tokens += tokens - call.tokens
        call.tokens = tokens

    def _succeeded(self, call: Call) -> None:
        if call.openings == self._openings:
            self._failures, self._tripped, self._is_probing = 0, False, False
        self._refused.clear()

    def _failed(self, call: Call, retry_after: float, *, at_once: bool) -> None:
        """Note a failed call; `at_once` opens the breaker without waiting for more. Warn where a closed one opens."""
        now, cooldown = self._clock.now(), self._settings.breaker_cooldown
        self._quiet_until = max(self._quiet_until, now + retry_after)
        if call.openings != self._openings:
            return
        was_closed = not self._tripped
        self._failures += 1
        if self._tripped or at_once or self._failures >= self._settings.breaker_failures:
            self._tripped, self._is_probing, self._failures, self._openings = True, False, 0, self._openings + 1
            self._quiet_until = max(self._quiet_until, now + cooldown)
            if was_closed:
                self._warn(
                    f"no summaries by {self._name}: {self._figures.last_error}. Views show stand-ins; it is asked "
                    f"again after {max(retry_after, cooldown):g} seconds{self._advice}"
                )

    def _quiet(self) -> float:
        """Return the seconds that the breaker stays open, or a single `retry_after` is waited for."""
        return max(self._quiet_until - self._clock.now(), 0.0)

    def _room_in(self, tokens: int | None = None) -> float:
        """Return the seconds until the caps let a call through; inf for never in this session. While calls under way
        may reach the cap on dollars, that is a second."""
        most = self._caps["max_cost_per_session"]
        return max(self._waits(tokens).values()) or float(self._dollars(self._under_way) >= most)

    def _dollars(self, more: int = 0) -> float:
        """Return what calls have cost, with so many output tokens more."""
        figures = self._figures
        output = figures.model_output_tokens + more
        return self._price.cost(figures.model_input_tokens, output, figures.model_cached_tokens)

    def _waits(self, tokens: int | None = None) -> dict[str, float]:
        """Return the seconds until each cap, by its setting, may let a call through with so many input tokens, else the
        next; inf for never in this session."""
        now, figures, tokens = self._clock.now(), self._figures, self._next if tokens is None else max(tokens, 1)
        hour_calls, hour_tokens, most_calls, most_tokens, most_cost = self._caps.values()
        self._spent = [call for call in self._spent if call.at + 3600 > now]
        later = self._spent[0].at + 3600 - now if self._spent else inf  # then the oldest counts no more
        used = sum(call.tokens for call in self._spent) + tokens
        waits = (
            later if len(self._spent) >= hour_calls else 0.0,
            0.0 if used <= hour_tokens else later if tokens <= hour_tokens else inf,
            inf if figures.model_calls >= most_calls else 0.0,
            inf if figures.model_input_tokens + tokens > most_tokens else 0.0,
            inf if self._dollars() >= most_cost else 0.0,
        )
        return dict(zip(self._caps, waits, strict=True))

    def _warn_of_caps(self) -> None:
        for name, wait in self._waits().items():
            if wait and name not in self._reached:
                self._reached.add(name)
                self._warn(
                    f"{name} = {getattr(self._settings, name)} is reached. {self._name} is not asked until that allows "
                    "more; views show stand-ins. Raise this setting, or set it to none"
                )

    def _warn(self, text: str) -> None:
        logger.warning("summarizer: %s", text)
        self.on_trouble(text)


async def _asked(inner: Summarizer, job: SummaryJob) -> object:
    """Return what a user's object does, in a task of its own."""
    reply = inner.summarize(job)
    if not isawaitable(reply):
        raise SummarizerError(Fault.NOT_ASYNC)
    return await reply
