"""What a context is made of, and the figures that its parts add up to."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from summarizing_context.core.header import stand_ins
from summarizing_context.core.redaction import Redact
from summarizing_context.core.tree import Node
from summarizing_context.core.view import ActivationState
from summarizing_context.foreground import Foreground
from summarizing_context.intake import Intake
from summarizing_context.learning import Learner
from summarizing_context.ledgers import LedgerBook
from summarizing_context.meaning import Meaning
from summarizing_context.ports import Clock, Events, TokenCounter
from summarizing_context.prices import ModelPrice
from summarizing_context.settings import Settings
from summarizing_context.shelves import SessionStore
from summarizing_context.statistics import CallFigures, Statistics
from summarizing_context.summaries import SummaryBook
from summarizing_context.timeline import Timeline
from summarizing_context.viewer import Viewer
from summarizing_context.worker import Worker

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a context is made of; `assembly` puts it together."""

    settings: Settings
    timeline: Timeline
    book: SummaryBook
    ledger: LedgerBook
    viewer: Viewer
    worker: Worker
    foreground: Foreground
    store: SessionStore
    intake: Intake
    apart: Callable[[Callable[[], object]], Awaitable[object]]  # runs in a thread what takes long
    counter: TokenCounter
    clock: Clock
    calls: Callable[[], CallFigures]
    price: ModelPrice | None  # of the model that makes the summaries
    closing: Sequence[Callable[[], Awaitable[None]]]  # after the worker has stopped, in order
    events: Events | None = None
    read_only: bool = False
    meaning: Meaning | None = None
    redact: Redact | None = None  # what of a topic no model may read
    learner: Learner | None = None  # where memories are learnt
    announce: Callable[[dict[str, Any]], Awaitable[None]] | None = None  # awaited before an activation; not for long

    def tell(self, name: str, data: dict[str, Any]) -> None:
        """Hand an event to whoever observes; an observer's fault must not cost a view."""
        if self.events is not None:
            try:
                self.events.emit(name, data)
            except Exception as error:
                logger.warning("an observer failed", extra={"event": name, "cause": type(error).__name__})


def estimated_cost(price: ModelPrice | None, calls: CallFigures) -> float | None:
    """Dollars for what was sent and received. A call that got no reply costs nothing."""
    return None if price is None else price.cost(calls.input_tokens, calls.output_tokens, calls.cached_tokens)


def gather(parts: Parts, activations: Counter[str], last_error: str | None) -> Statistics:
    """The figures of a session as they stand now."""
    calls, timeline, book, repairs = parts.calls(), parts.timeline, parts.book, parts.viewer.repairs
    missing = [at for at in range(len(timeline.segments)) if not book.is_ready(Node(0, at))]
    state = parts.viewer.latest.state if parts.viewer.latest is not None else ActivationState()
    nodes = state.nodes
    return Statistics(
        messages=len(timeline) + len(timeline.riders),
        history_tokens=timeline.history_tokens,
        segments=len(timeline.segments),
        summaries_ready=len(timeline.segments) - len(missing),
        summaries_pending=parts.worker.pending,
        summaries_failed=parts.worker.failed,
        activations=activations.total(),
        activations_by_reason=dict(activations),
        model_calls=calls.model_calls,
        model_input_tokens=calls.input_tokens,
        model_cached_tokens=calls.cached_tokens,
        model_output_tokens=calls.output_tokens,
        estimated_cost=estimated_cost(parts.price, calls),
        stand_ins=stand_ins(nodes),
        stand_ins_total=book.stand_ins_made,
        refused_replies=calls.refused_replies,
        dropped_lines=calls.dropped_lines,
        memories_dropped=parts.learner.dropped if parts.learner else 0,
        repairs=dict(repairs.kinds),
        pins_left_out=state.pins_left_out,
        rules_left_out=state.rules_left_out,
        elided_tokens=repairs.left_out,
        max_passes=max((node.passes for node in nodes), default=0),
        breaker=calls.breaker,
        lag_tokens=sum(timeline.segments[at].size // timeline.segments[at].parts for at in missing),
        token_counter=parts.counter.name,
        store=parts.store.name,
        last_error=calls.last_error
        or parts.worker.last_error
        or last_error
        or (parts.learner.last_error if parts.learner else None),
    )
