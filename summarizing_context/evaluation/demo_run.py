"""Playing the demo session to a context as an agent would, and what there is to tell afterwards.

The session is written by `demo_session`; how it is shown on a terminal is the command line's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from summarizing_context.assembly import open_context
from summarizing_context.evaluation.demo_session import demo_questions
from summarizing_context.evaluation.finding import Finding, find_answers
from summarizing_context.evaluation.replay import Recorder, Tally, free_session_id, make_costs
from summarizing_context.settings.values import Settings

SLOW_VIEW_MS = 250.0  # less than any model needs for an answer

_PACE = 0.004  # seconds that the agent takes for a message, so that the worker has its turn


@dataclass(frozen=True, slots=True)
class Moment:
    """Where the demo stands."""

    messages: int
    view_tokens: int
    summaries_ready: int
    activations: int


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What the demo has shown."""

    session_id: str
    tally: Tally
    activations_by_reason: dict[str, int]
    summaries: int
    waited_views: int  # that took as long as a model would
    slowest_ms: float
    token_counter: str
    findings: tuple[Finding, ...]

    def document(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "session": self.session_id,
            **self.tally.figures(),
            "activations_by_reason": self.activations_by_reason,
            "summaries": self.summaries,
            "waited_for_model": self.waited_views,
            "token_counter": self.token_counter,
            "questions": [
                {
                    "question": f.question,
                    "answer": list(f.answer),
                    "found": f.found,
                    "where": list(f.parts),
                    "words": f.words,
                }
                for f in self.findings
            ],
        }


async def play_demo(
    messages: Sequence[dict[str, Any]],
    settings: Settings,
    budget: int,
    *,
    watch: Callable[[Moment], None] | None = None,
) -> DemoReport:
    """Add the messages one by one, take a view before each answer, and look into the last view.

    The worker runs beside it and is never waited for.
    """
    settings = replace(settings, session_id=await free_session_id(settings, "demo"))
    async with open_context(settings) as context:
        recorder = Recorder(context, await make_costs(settings), Tally(file="demo", budget=budget))
        for message in messages:
            if message["role"] == "assistant":
                await recorder.take_view()
            await recorder.add(message)
            await anyio.sleep(_PACE)
            if watch is not None:
                now = context.statistics()
                watch(Moment(now.messages, recorder.view_tokens, now.summaries_ready, now.activations))
        await recorder.take_view()
        tally, statistics = recorder.finish(), context.statistics()
        return DemoReport(
            settings.session_id,
            tally,
            dict(sorted((str(reason), count) for reason, count in statistics.activations_by_reason.items() if count)),
            statistics.summaries_ready,
            sum(elapsed >= SLOW_VIEW_MS for elapsed in tally.view_ms),
            max(tally.view_ms, default=0.0),
            statistics.token_counter,
            tuple(find_answers(demo_questions(messages), recorder.view, messages)),
        )
