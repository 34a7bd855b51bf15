"""Call a summarizer under limits: retries, time limits, a circuit breaker, caps, and a check of every reply.

When a call may be made, after a failure, while a provider is down, and within hard caps, is pure: every time is given.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from inspect import isawaitable
from math import inf
from pathlib import Path
from traceback import walk_tb
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    retry_if_not_exception_type,
    wait_random_exponential,
)

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
from summarizing_context.models import FREE, load_models
from summarizing_context.settings import Settings
from summarizing_context.summarizers.base import BreakerState, CallStatistics, Summarizer, SummaryJob, SummaryReply
from summarizing_context.summarizers.host import HostSummarizer
from summarizing_context.summarizers.sdk import Fault
from summarizing_context.summarizers.verification import Refusal, check_reply, plain_reply, read_items, verify


@dataclass(slots=True)
class _Failed:
    times: int
    at: float
    retry_at: float
    refused: bool  # an answer came, but none that can serve


class RetrySchedule:
    """When to try again, by range hash, for one session; times in seconds of the session's clock."""

    def __init__(self, cooldown: float) -> None:
        self._cooldown = cooldown
        self._failed: dict[str, _Failed] = {}

    def note(self, hash: str, error: Exception, now: float) -> None:
        """Note that an attempt failed with `error`. What is refused is asked for less and less often: half a minute
        becomes three weeks."""
        refused, before = isinstance(error, SummarizerRefused), self._failed.get(hash)
        times = before.times + 1 if before is not None and before.refused == refused else 1
        wait = getattr(error, "retry_after", None) or self._cooldown
        wait = self._cooldown * 2 ** min(times - 1, 16) if refused else wait
        self._failed[hash] = _Failed(times, now, now + wait, refused)

    def recover(self, hash: str, began: float) -> None:
        """Note that a summary came: what failed before it was asked for, for want of a summarizer, need not rest any
        longer."""
        self._failed.pop(hash, None)
        for failed in self._failed.values():
            if not failed.refused and failed.at <= began:
                failed.retry_at = began

    def rests(self, hash: str, now: float) -> bool:
        return hash in self._failed and self._failed[hash].retry_at > now

    def is_given_up(self, hash: str) -> bool:
        """Say whether two jobs, one after the other, ended with a refused reply. It is still asked for, less often."""
        failed = self._failed.get(hash)
        return failed is not None and failed.refused and failed.times >= 2

    def delays(self, now: float) -> list[float]:
        """Return the seconds until each that rests may be tried."""
        return [failed.retry_at - now for failed in self._failed.values() if failed.retry_at > now]


class Breaker:
    """Closed, until `failures` calls in a row fail; then open for `cooldown` seconds; then half-open.

    Half-open lets one probe through at a time: its success closes the breaker, its failure opens it again. A call that
    began before the breaker opened decides nothing. A failure's `retry_after` is honoured in every state.
    """

    def __init__(self, *, failures: int, cooldown: float) -> None:
        self._failures_allowed, self._cooldown = failures, cooldown
        self._failures = 0
        self._opened = 0  # times; the ticket of a call is what it was when the call began
        self.tripped = False  # it has opened and no probe has closed it since
        self._is_probing = False
        self._quiet_until = -inf

    def state(self, now: float) -> BreakerState:
        """Return the state; `open` also while a single `retry_after` is waited for: no job may start."""
        return "open" if now < self._quiet_until else "half_open" if self.tripped else "closed"

    def ready_in(self, now: float) -> float:
        """Return the seconds until a job may start; 0.0 is now. While a probe is under way, ask again in a second."""
        return self._quiet_until - now if now < self._quiet_until else float(self._is_probing)

    def begin(self, now: float) -> int | None:
        """Let a call through, or None. A closed breaker lets the next attempt of a started job through, which has
        waited for its own `retry_after`, whatever others have met since."""
        if self.tripped and (now < self._quiet_until or self._is_probing):
            return None
        self._is_probing = self.tripped
        return self._opened

    def succeeded(self, ticket: int) -> None:
        if ticket == self._opened:
            self._failures, self.tripped, self._is_probing = 0, False, False

    def failed(self, ticket: int, now: float, retry_after: float = 0.0, *, at_once: bool = False) -> bool:
        """Note a failed call; `at_once` opens the breaker without waiting for more. Return whether a closed breaker
        has opened."""
        self._quiet_until = max(self._quiet_until, now + retry_after)
        if ticket != self._opened:
            return False
        was_closed = not self.tripped
        self._failures += 1
        if self.tripped or at_once or self._failures >= self._failures_allowed:
            self.tripped, self._is_probing, self._failures, self._opened = True, False, 0, ticket + 1
            self._quiet_until = max(self._quiet_until, now + self._cooldown)
        return was_closed and self.tripped

    def abandoned(self, ticket: int) -> None:
        """Note a call that proves nothing, as one that was cancelled from outside; the next probe may go."""
        self._is_probing = self._is_probing and ticket != self._opened


@dataclass(slots=True, eq=False)
class Spent:
    """What one call has cost."""

    at: float
    tokens: int  # input tokens: the estimate, then what the provider reported
    output_tokens: int = 0


class Caps:
    """Hard caps on calls and input tokens, of an hour and of a session: a call that would exceed one is not let
    through. One that can never fit ends the calls of this session. So does the cap on dollars once it is reached.
    Calls are counted in `figures`."""

    def __init__(self, settings: Settings, figures: CallStatistics) -> None:
        self._figures = figures
        names = [f"max_{what}_per_{time}" for time in ("hour", "session") for what in ("calls", "input_tokens")]
        names.append("max_cost_per_session")
        self._caps = {name: inf if (cap := getattr(settings, name)) is None else cap for name in names}
        self.price = FREE
        self._spent: list[Spent] = []
        self._next = 1  # input tokens of the call that found no room: until one is let through, it is the next

    def waits(self, now: float, tokens: int | None = None) -> dict[str, float]:
        """Return the seconds until each cap, by its setting, may let a call through with so many input tokens, else the
        next; inf for never in this session."""
        tokens = self._next if tokens is None else max(tokens, 1)
        hour_calls, hour_tokens, most_calls, most_tokens, most_cost = self._caps.values()
        self._spent = [spent for spent in self._spent if spent.at + 3600 > now]
        later = self._spent[0].at + 3600 - now if self._spent else inf  # then the oldest counts no more
        used = sum(spent.tokens for spent in self._spent) + tokens
        is_over = [len(self._spent) >= hour_calls, used > hour_tokens]
        is_over += [self._figures.model_calls >= most_calls, self._figures.input_tokens + tokens > most_tokens]
        figures = self._figures
        cost = self.price.cost(figures.input_tokens, figures.output_tokens, figures.cached_tokens)
        is_over.append(cost >= most_cost)
        waits = (later, later if tokens <= hour_tokens else inf, inf, inf, inf)
        return {name: wait if over else 0.0 for name, wait, over in zip(self._caps, waits, is_over, strict=True)}

    def ready_in(self, now: float, tokens: int | None = None) -> float:
        return max(self.waits(now, tokens).values())

    def admit(self, now: float, tokens: int) -> Spent | None:
        """Count a call that is about to be sent, or None if it may not be."""
        if self.ready_in(now, tokens) != 0.0:
            self._next = max(tokens, 1)
            return None
        self._spent.append(spent := Spent(now, tokens))
        self._next = 1
        self._figures.model_calls += 1
        self._figures.input_tokens += tokens
        return spent

    def correct(self, spent: Spent, tokens: int) -> None:
        """Put what the provider reported in place of the estimate."""
        self._figures.input_tokens += tokens - spent.tokens
        spent.tokens = tokens


logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

LONGEST_DELAY = 3_600.0  # seconds; a provider that asks for more is asked again after this


def retry_after_of(error: Exception) -> float:
    """Return the provider's `retry_after`, up to `LONGEST_DELAY`; 0 where it is no sound number of seconds."""
    seconds: Any = error.retry_after if isinstance(error, SummarizerError) else None
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return min(float(seconds), LONGEST_DELAY) if is_number and 0 < seconds < inf else 0.0


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
    with suppress(Exception):  # attributes of foreign errors may be properties that raise
        for holder in (error, getattr(error, "response", None)):
            for name in ("status_code", "status"):
                code = getattr(holder, name, None)
                if isinstance(code, int) and 100 <= code < 600:
                    return code
    return None


def declared(summarizer: object, name: str) -> str | None:
    """Return a text that a summarizer has as an attribute; None if it has not."""
    try:
        value = getattr(summarizer, name, None)
    except Exception as error:
        about = f"the attribute {name} of the summarizer {type(summarizer).__name__} raised {type(error).__name__}"
        raise SettingsError(f"{about}; it is a text, or left out") from error
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
        raise SummarizerError("the call to the summarizer was cancelled by something else than its caller")
    if not isinstance(failure := task.exception(), Exception | KeyboardInterrupt | SystemExit | None):
        raise SummarizerError("the summarizer raised no Exception; let it raise SummarizerError") from failure
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


class NotAdmitted(SummarizerNotReady):
    """The breaker, a cap or the job's time let no call through. Never leaves this module."""


@dataclass(slots=True)
class _Run:
    job: SummaryJob
    deadline: float  # by the clock
    calls: int = 0
    failure: Exception | None = None  # of the last call
    refused: bool = False  # a reply was refused
    was_terse: bool = False
    unsupported: tuple[str, ...] = ()  # literals of the last reply, for the model alone
    salvaged: tuple[SummaryReply, int] | None = None  # what is left of a refused reply, and the lines it lost

    def checked(self, reply: object, input_tokens: int) -> tuple[SummaryReply, int]:
        """Return the reply without the lines whose values the source does not hold, and how many these are; of memories
        those that the source says. Raise `SummarizerRefused` where too little is left, and keep what there is."""
        checked = check_reply(reply, self.job)
        output_tokens = estimate_text(checked.text) if checked.output_tokens is None else checked.output_tokens
        checked = replace(checked, input_tokens=input_tokens, output_tokens=output_tokens)
        if self.job.kind == "rules":  # each of its lines is checked by itself
            return checked, 0
        if self.job.kind == "memory":
            if (items := read_items(checked.text, self.job.content)) is None:
                raise SummarizerRefused(Refusal.NO_ITEMS)
            return replace(checked, text=items), 0
        verified = verify(checked.text, self.job)
        self.unsupported = verified.unsupported
        kept = replace(checked, text=verified.text), verified.dropped_lines
        if verified.is_enough:
            return kept
        if verified.text and (self.salvaged is None or len(verified.text) > len(self.salvaged[0].text)):
            self.salvaged = kept
        raise SummarizerRefused(Refusal.UNSUPPORTED)


class ResilientSummarizer:
    """A summarizer that fails only with `SummarizerError`, within limits, and whose replies can be used. Safe for any
    number of tasks of one event loop. A job may take three times `call_timeout`."""

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
        self._breaker = Breaker(failures=settings.breaker_failures, cooldown=settings.breaker_cooldown)
        self._figures = CallStatistics()
        self._caps = Caps(settings, self._figures)
        if settings.max_cost_per_session is not None:
            price = load_models(settings.prices).price_of(self.model)
            if price is None:
                missing = f"no price of {self.model} is known; name it in the file of `prices`"
                unnamed = f"{name} has no `model` whose price counts; set max_input_tokens_per_session"
                raise SettingsError(f"max_cost_per_session: {missing if self.model else unnamed}")
            self._caps.price = price
        self._reached: set[str] = set()  # caps that were warned of
        self._refused_jobs: set[str] = set()  # by range hash, since a reply was good
        self._checking = anyio.Lock()
        self._held_until = -inf  # the inner one has asked not to be called before

    def ready_in(self) -> float | None:
        """Return the seconds until a job may be started; 0.0 is now, None is never again in this session (a cap is
        reached)."""
        now = self._clock.now()
        room = self._caps.ready_in(now)
        held = self._inner.held() if isinstance(self._inner, HostSummarizer) else 0.0
        return None if room == inf else max(room, held, self._breaker.ready_in(now), self._held_until - now)

    def statistics(self) -> CallStatistics:
        now = self._clock.now()
        return replace(self._figures, breaker=self._breaker.state(now), cap_ends_in=self._caps.ready_in(now))

    async def close(self) -> None:
        if self._close is not None:
            await self._close()

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return a checked summary of the job, its usage filled in.

        Raise `SummarizerError`, of the kind of the last failure, when the job is given up, with the provider's
        `retry_after` for it; `SummarizerNotReady` without a call when `ready_in` is not 0.
        """
        run = _Run(job, self._clock.now() + 3 * self._settings.call_timeout)
        backoff = wait_random_exponential(multiplier=1, min=0.5, max=8)

        def wait(state: RetryCallState) -> float:
            """A refused reply is answered at once, a failure after a while."""
            return max(0.0 if run.refused else backoff(state), self._breaker.ready_in(self._clock.now()))

        def is_over(state: RetryCallState) -> bool:
            now = self._clock.now()
            is_late = now + state.upcoming_sleep >= run.deadline
            is_spent = is_late or run.was_terse or run.calls >= self._settings.attempts
            return is_spent or self._breaker.tripped or self._caps.ready_in(now) != 0

        retry = retry_if_exception_type(Exception) & retry_if_not_exception_type(SummarizerNotReady)
        retrying = AsyncRetrying(sleep=self._sleep, retry=retry, wait=wait, stop=is_over, reraise=True)
        try:
            if (ready := self.ready_in()) is None:
                raise NotAdmitted("a cap of this session is reached; raise it to go on")
            if ready > 0:
                raise NotAdmitted(f"calls wait for {ready:.1f} seconds, for the breaker, an hourly cap or the host")
            return await retrying(self._attempt, run)
        except Exception as error:
            if run.salvaged is not None:
                reply, dropped = run.salvaged
                self._figures.dropped_lines += dropped
                return reply
            failure = run.failure or error
            self._figures.failed_jobs += run.failure is not None
            kind = next((kind for kind in _KINDS if isinstance(failure, kind)), SummarizerError)
            reason = str(failure) if isinstance(failure, NotAdmitted) else describe_failure(failure)
            raise kind(
                f"no summary of {job.kind} {job.range_hash[:8]} after {run.calls} call{'s' * (run.calls != 1)}: "
                f"{reason}; the log is safe, a stand-in is shown until it is tried again",
                retry_after=(self.ready_in() if kind is SummarizerNotReady else retry_after_of(failure)) or None,
            ) from failure

    async def admitted(self, call: Coroutine[Any, Any, SummaryReply], tokens: int) -> SummaryReply:
        """Return what another call to the provider returns, of about so many input tokens, within the caps and three
        times `call_timeout`, and count it. One that finds no room keeps none from the summaries: it raises
        `SummarizerNotReady`, or `SummarizerError` where it never fits."""
        now, ready = self._clock.now(), self.ready_in()
        room = self._caps.ready_in(now, tokens)
        spent = self._caps.admit(now, tokens) if ready == 0.0 and room == 0.0 else None
        self._warn_of_caps()
        if spent is None:
            call.close()
            if ready is not None and room == inf:
                raise SummarizerError(f"a cap on input tokens has no room for its request of {tokens:,}")
            wait = None if ready is None else max(ready, room)
            raise SummarizerNotReady("no call goes through now", retry_after=wait)
        return await self._paid(spent, 3 * self._settings.call_timeout, call)

    async def _paid(self, spent: Spent, seconds: float, call: Coroutine[Any, Any, Reply]) -> Reply:
        """Return the reply to a call that was let through, and count what it cost, as the reply tells, else as we
        estimate. Input is paid for where a reply came, also one that cannot serve."""
        try:
            reply = await call_within(seconds, call)
        except SummarizerRefused:
            raise
        except BaseException:
            self._caps.correct(spent, 0)
            raise
        said = plain_reply(reply)
        if said.input_tokens is not None:
            self._caps.correct(spent, said.input_tokens)
        spent.output_tokens = said.output_tokens or estimate_text(said.text[:200_000])
        self._figures.output_tokens += spent.output_tokens
        self._figures.cached_tokens += said.cached_tokens or 0
        self._warn_of_caps()
        return reply

    async def _attempt(self, run: _Run) -> SummaryReply:
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
        no_probe = self._breaker.tripped and job.kind == "rules"  # a summary is to be the next that is tried
        if no_probe or (ticket := self._breaker.begin(now)) is None:
            raise NotAdmitted("the breaker is open")
        spent = self._caps.admit(now, estimate_text(job.prompt))
        self._warn_of_caps()
        if spent is None:
            self._breaker.abandoned(ticket)
            raise NotAdmitted("a cap on calls or input tokens has no room for it")
        run.calls += 1
        run.was_terse = run.refused
        try:
            seconds = min(self._settings.call_timeout, run.deadline - now)
            reply = await self._paid(spent, seconds, _asked(self._inner, job))

            # The check reads the whole source, which takes milliseconds, so a thread does it; one at a time, or the
            # event loop would have to wait for many of them before its turn comes.
            async with self._checking:
                check = partial(run.checked, reply, spent.tokens)
                kept, dropped = await anyio.to_thread.run_sync(check, abandon_on_cancel=True)
        except SummarizerNotReady as error:  # no failure, but it is not called again before it says so
            self._breaker.abandoned(ticket)
            wait = retry_after_of(error) or self._settings.breaker_cooldown
            self._held_until = max(self._held_until, self._clock.now() + wait)
            raise
        except Exception as error:
            refused = isinstance(error, SummarizerRefused)
            run.failure, run.refused = error, run.refused or refused
            self._figures.last_error = describe_failure(error)
            if refused:
                self._figures.refused_replies += 1
                self._figures.refused_input_tokens += spent.tokens
                self._figures.refused_output_tokens += spent.output_tokens

            # calls fail until a person changes something: a wrong key, model or address
            is_final = error.args[:1] in ((Fault.KEY,), (Fault.NOT_FOUND,))
            is_final = is_final or not {401, 403, 404}.isdisjoint((status_code(error), status_code(error.__cause__)))
            is_missed = job.kind != "rules" and not (refused and job.kind == "memory")  # a summary is
            is_known = refused and job.range_hash in self._refused_jobs and not self._breaker.tripped
            if refused and run.salvaged is not None:  # enough of it serves
                self._note_success(ticket)
            elif is_known or not (is_missed or is_final):  # what is refused again says nothing of other contents
                self._breaker.abandoned(ticket)
            else:
                self._refused_jobs |= {job.range_hash} if refused else set()
                wait = retry_after_of(error)
                if self._breaker.failed(ticket, self._clock.now(), wait, at_once=is_final):
                    self._warn(
                        f"no summaries by {self._name}: {self._figures.last_error}. Views show stand-ins; it is asked "
                        f"again after {max(wait, self._settings.breaker_cooldown):g} seconds{self._advice}"
                    )
            raise
        except BaseException:
            self._breaker.abandoned(ticket)
            raise
        if job.kind == "rules":  # says nothing of summaries, well or ill
            self._breaker.abandoned(ticket)
        else:
            self._note_success(ticket)
        self._figures.dropped_lines += dropped
        return kept

    def _note_success(self, ticket: int) -> None:
        self._breaker.succeeded(ticket)
        self._refused_jobs.clear()

    def _warn_of_caps(self) -> None:
        for name, wait in self._caps.waits(self._clock.now()).items():
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
