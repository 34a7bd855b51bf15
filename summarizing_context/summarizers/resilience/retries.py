"""Retries: how far a job's attempts have come, what is asked next, and when a failed summary is tried again."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass, replace

from summarizing_context.errors import (
    SummarizerError,
    SummarizerNotReady,
    SummarizerRateLimited,
    SummarizerRefused,
    SummarizerTimeout,
)
from summarizing_context.extraction.memory_items import encode_items, read_items
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.sdk import Fault
from summarizing_context.summarizers.verification.grounding import keeps_enough, verify
from summarizing_context.summarizers.verification.replies import Refusal

LONGEST_DELAY = 3_600.0  # seconds

_REFUSED_JOBS = 2  # after which a summary is not waited for any longer; it is still asked for, less and less often

_DOUBLINGS = 16  # of the pause before what was refused is asked for again: half a minute becomes three weeks


@dataclass(slots=True)
class FailedSummary:
    """A summary that could not be made, and when to try again."""

    times: int
    at: float
    retry_at: float
    refused: bool  # an answer came, but none that can serve


class RetrySchedule:
    """Those of one session, by range hash; times in seconds of the session's clock."""

    def __init__(self, cooldown: float) -> None:
        self._cooldown = cooldown
        self._failed: dict[str, FailedSummary] = {}

    def note(self, hash: str, error: Exception, now: float) -> None:
        """An attempt failed with `error`."""
        refused, before = isinstance(error, SummarizerRefused), self._failed.get(hash)
        times = before.times + 1 if before is not None and before.refused == refused else 1
        wait = getattr(error, "retry_after", None) or self._cooldown
        if refused:  # its content may never do: ask for it less and less often
            wait = self._cooldown * 2 ** min(times - 1, _DOUBLINGS)
        self._failed[hash] = FailedSummary(times, now, now + wait, refused)

    def recover(self, hash: str, began: float) -> None:
        """A summary came: what failed before it was asked for, for want of a summarizer, need not rest any longer."""
        self._failed.pop(hash, None)
        for failed in self._failed.values():
            if not failed.refused and failed.at <= began:
                failed.retry_at = began

    def rests(self, hash: str, now: float) -> bool:
        """Whether it is not to be tried yet."""
        failed = self._failed.get(hash)
        return failed is not None and failed.retry_at > now

    def is_given_up(self, hash: str) -> bool:
        """Whether no usable answer is to be expected: one job after another ended with a refused reply."""
        failed = self._failed.get(hash)
        return failed is not None and failed.refused and failed.times >= _REFUSED_JOBS

    def delays(self, now: float) -> list[float]:
        """Seconds until each that rests may be tried."""
        return [failed.retry_at - now for failed in self._failed.values() if failed.retry_at > now]


LONGEST_PAUSE = 3600.0  # seconds; a provider that asks for more is asked again after this

TERSE = (
    "Your last answer could not be used. Answer with the summary alone, in at most {words} words: "
    "no preamble, no code fence, no copied passages."
)

UNSUPPORTED = (
    "Your last answer held values that the record does not: {values}. Write the summary again: copy every path, "
    "number, id, address and quote as it stands in the record, and leave out what does not stand there."
)

NO_ITEMS = "Your last answer could not be used. Answer with one JSON object a line, as described, or with [] alone."

_MOST_NAMED = 12

_LONGEST_NAME = 80  # characters

DISTINCT_ERRORS = (SummarizerNotReady, SummarizerTimeout, SummarizerRefused, SummarizerRateLimited)  # told apart


class NotAdmitted(SummarizerError):
    """The breaker, a cap or the job's time let no call through. Never leaves this package: see `final_error`."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What is left of a reply without the values that its source does not hold."""

    reply: SummaryReply
    dropped: int = 0  # lines and clauses


@dataclass
class JobRun:
    """One job on its way."""

    job: SummaryJob
    deadline: float  # by the clock
    calls: int = 0
    failure: Exception | None = None  # of the last call
    refused: bool = False  # a reply was refused
    was_terse: bool = False
    unsupported: tuple[str, ...] = ()  # literals of the last reply, for the model alone
    salvaged: Checked | None = None  # what is left of a refused reply

    def next_job(self) -> SummaryJob:
        """What to ask now: the job with its attempt's number, and tersely after a refused reply."""
        if not self.refused or self.job.kind == "rules":
            return replace(self.job, attempt=self.calls + 1)
        if self.job.kind == "memory":
            return replace(self.job, attempt=self.calls + 1, instructions=f"{self.job.instructions}\n\n{NO_ITEMS}")
        line = self._naming() if self.unsupported else TERSE.format(words=max(self.job.max_tokens // 2, 1))
        return replace(self.job, attempt=self.calls + 1, instructions=f"{self.job.instructions}\n\n{line}")

    def _naming(self) -> str:
        named = [json.dumps(value[:_LONGEST_NAME], ensure_ascii=False) for value in self.unsupported[:_MOST_NAMED]]
        return UNSUPPORTED.format(values=", ".join(named))

    def note_call(self) -> None:
        self.calls += 1
        self.was_terse = self.refused

    def check_against_source(self, reply: SummaryReply) -> Checked:
        """The reply without the lines whose values the source does not hold; of memories those that the source says.

        `SummarizerRefused` where too little is left, and what can be kept is.
        """
        if self.job.kind == "memory":
            if (items := read_items(reply.text, self.job.content)) is None:
                raise SummarizerRefused(Refusal.NO_ITEMS)
            return Checked(replace(reply, text=encode_items(items)))
        if self.job.kind == "rules":  # each of its lines is checked by itself
            return Checked(reply)
        verified = verify(reply.text, self.job)
        self.unsupported = verified.unsupported
        checked = Checked(replace(reply, text=verified.text), verified.dropped_lines)
        if not verified.unsupported or keeps_enough(reply.text, verified):
            return checked
        if verified.text and (self.salvaged is None or len(verified.text) > len(self.salvaged.reply.text)):
            self.salvaged = checked
        raise SummarizerRefused(Refusal.UNSUPPORTED)

    def note_failure(self, error: Exception) -> None:
        self.failure = error
        self.refused = self.refused or isinstance(error, SummarizerRefused)


def retry_after_of(error: Exception) -> float:
    """The provider's `retry_after`, up to `LONGEST_PAUSE`; 0 where it is no sound number of seconds."""
    seconds = error.retry_after if isinstance(error, SummarizerError) else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return 0.0
    return min(float(seconds), LONGEST_PAUSE) if math.isfinite(seconds) and seconds > 0 else 0.0


def describe_failure(error: BaseException) -> str:
    """One short line on a failure: class names, status codes and our own constants.

    Never an exception's own words: those of a provider, or of a user's summarizer, may hold the text of messages.
    """
    cause = error.__cause__
    name = f"{_name(error)} from {_name(cause)}" if isinstance(cause, Exception) else _name(error)
    said = error.args[0] if error.args else None
    return f"{name}: {said.value}" if isinstance(said, Refusal | Fault) else name


def needs_a_person(error: BaseException) -> bool:
    """Whether calls fail until somebody changes something: a wrong key, model or address (401, 403, 404)."""
    said = error.args[0] if error.args else None
    codes = {status_code(error), status_code(error.__cause__)}
    return (isinstance(said, Fault) and said in (Fault.KEY, Fault.NOT_FOUND)) or bool(codes & {401, 403, 404})


def final_error(run: JobRun, error: Exception, *, ready_in: float | None) -> SummarizerError:
    """What to raise when a job is given up: of the kind of its last failure, naming the job by its hash only.

    Its `retry_after` is the provider's for this job; for a job that was not begun, the time until one may be. So a
    job that fails again and again can be put off for longer than the others, and is not each time the probe.
    """
    failure = error if isinstance(error, SummarizerNotReady) else run.failure or error
    kind = next((kind for kind in DISTINCT_ERRORS if isinstance(failure, kind)), SummarizerError)
    kind = kind if run.calls else SummarizerNotReady
    reason = str(failure) if isinstance(failure, NotAdmitted) else describe_failure(failure)
    calls = "1 call" if run.calls == 1 else f"{run.calls} calls"
    return kind(
        f"no summary of {run.job.kind} {run.job.range_hash[:8]} after {calls}: {reason}; "
        "the log is safe, a stand-in is shown until it is tried again",
        retry_after=(ready_in if kind is SummarizerNotReady else retry_after_of(failure)) or None,
    )


def _name(error: BaseException) -> str:
    code = status_code(error)
    return type(error).__name__[:80] + (f" {code}" if code is not None else "")


def status_code(error: BaseException | None) -> int | None:
    """The HTTP status code that an error of an SDK carries, if any."""
    with suppress(Exception):  # attributes of foreign errors may be properties that raise
        for holder in (error, getattr(error, "response", None)):
            for name in ("status_code", "status"):
                code = getattr(holder, name, None)
                if isinstance(code, int) and 100 <= code < 600:
                    return code
    return None
