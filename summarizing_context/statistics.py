"""The figures of a session since it was opened."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from summarizing_context.concurrency import Clock, Events, Foreground
from summarizing_context.log.intake import Intake
from summarizing_context.log.ledger import SessionLedger
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import Node, stand_ins
from summarizing_context.messages.counters import TokenCounter
from summarizing_context.messages.redaction import Redact
from summarizing_context.settings.values import Settings
from summarizing_context.stores.base import SessionStore
from summarizing_context.summarizers.prices import ModelPrice
from summarizing_context.views.builder import Viewer
from summarizing_context.views.view import ActivationState
from summarizing_context.worker.summary_cache import SummaryCache
from summarizing_context.worker.worker import Worker


class CallFigures(Protocol):
    """What the calls to a model have come to; all zero where none is called."""

    @property
    def model_calls(self) -> int: ...

    @property
    def input_tokens(self) -> int: ...

    @property
    def output_tokens(self) -> int: ...

    @property
    def cached_tokens(self) -> int: ...

    @property
    def refused_replies(self) -> int: ...

    @property
    def dropped_lines(self) -> int: ...

    @property
    def breaker(self) -> str: ...

    @property
    def last_error(self) -> str | None: ...


class MemoryLearner(Protocol):
    """What a session asks of the background task that extracts memories."""

    dropped: int  # memories that a model proposed and the log did not bear out
    last_error: str | None

    def ask(self) -> None:
        """Read the log up to its present end."""

    def forget(self) -> None:
        """The log was replaced: nothing of it has been read."""

    async def settle(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to read; False after `timeout` seconds."""

    async def leave(self, within: float) -> None:
        """The session ends: read the rest, within so many seconds."""

    async def close(self) -> None:
        """End what is under way."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts, and tokens where the name says so; since the session was opened, unless a line says `present`.

    Tokens of a model are those of calls that got a reply, also one that was refused: as the provider reported them,
    else estimated. A call that failed counts as a call, also for the caps on calls, and costs no tokens.
    """

    messages: int  # in the present log
    history_tokens: int  # of the present log
    segments: int  # closed ones of the present log
    summaries_ready: int  # present segments with a summary of their own
    summaries_pending: int  # at present: still to be made
    summaries_failed: int  # times that one was given up, to be tried again later
    activations: int
    activations_by_reason: Mapping[str, int]
    model_calls: int  # attempts sent to a summarizer that is not extractive, those that failed too
    model_input_tokens: int
    model_cached_tokens: int  # of the input, what the provider read from its prompt cache
    model_output_tokens: int
    estimated_cost: float | None  # US dollars for these tokens; None where the model's price is not known
    stand_ins: int  # in the present header
    stand_ins_total: int  # extractive summaries made to stand in
    refused_replies: int  # that came and could not serve
    dropped_lines: int  # out of summaries, for they held literals that their source does not hold
    memories_dropped: int  # that a model proposed, for the message that they name does not say so
    repairs: Mapping[str, int]  # by kind
    pins_left_out: int  # pinned, critical and system messages that the present view has no room to show whole
    rules_left_out: int  # standing rules and pinned texts for which it has no room
    elided_tokens: int  # left out of shrunk messages
    max_passes: int  # summarizations that the oldest fact of the present header went through
    breaker: str  # at present: closed, open, half_open
    lag_tokens: int  # in present segments without a summary of their own
    token_counter: str  # its name
    store: str  # path of the file, or :memory:
    last_error: str | None  # of a call, else of the background work, else of an activation; without message text


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a context is made of; `assembly` puts it together."""

    settings: Settings
    timeline: MessageLog
    book: SummaryCache
    ledger: SessionLedger
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
    redact: Redact | None = None  # what of a topic no model may read
    learner: MemoryLearner | None = None  # where memories are learnt
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
