"""A summarizer without a model, for tests: `summarizing_context.testing` has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from summarizing_context.summarizers.base import SummaryJob, SummaryReply

Answer = str | SummaryReply | Exception


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
