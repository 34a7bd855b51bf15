"""What a viewer works with: the policy of a session, what each provider is shown, and a change to be committed.

Values; how they come about is in `builder`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from summarizing_context.messages.provider_bindings import Bounds
from summarizing_context.messages.validation import Message
from summarizing_context.settings.values import Settings
from summarizing_context.views.activation import ActivationReport, Reason
from summarizing_context.views.budget import CachePrices, Economy, Shares
from summarizing_context.views.tail import Tail, TailItem
from summarizing_context.views.view import ActivationState


class ViewPolicy(NamedTuple):
    """The settings that shape a view."""

    shares: Shares
    summary_cap: int  # tokens
    leaf: int  # estimated tokens of a typical segment
    header_role: str = "user"
    merge_user_rows: bool = False
    truncate: bool = False  # say only how much is left out
    flat: bool = False  # never roll up
    max_messages: int | None = None
    keep_recent: int | None = None
    memory_tokens: int = 1_000  # that a block of memories may take
    ledger_share: float = 0.0  # of room
    keep_from: float | None = None  # how important a covered group has to be to stay word for word; None: none stays
    economy: Economy | None = None  # activate as early as pays; None for as late as may be


def policy_of(settings: Settings) -> ViewPolicy:
    """The policy that the settings ask for."""
    shares = Shares(
        settings.high_water,
        settings.low_water,
        settings.min_free,
        settings.header_target,
        settings.header_share,
        settings.message_share,
        settings.group_share,
        settings.pin_share,
        settings.keep_share,
    )
    return ViewPolicy(
        shares,
        settings.summary_max_tokens,
        settings.segment_target,
        settings.header_role,
        settings.merge_user_rows,
        settings.strategy == "truncate",
        settings.strategy == "summarize",
        settings.max_messages,
        settings.keep_recent,
        settings.memory_max_tokens,
        0.0 if settings.strategy == "truncate" else settings.ledger_share,
        settings.importance_threshold if settings.strategy == "importance" else None,
        _economy(settings) if settings.band == "economy" else None,
    )


def _economy(settings: Settings) -> Economy:
    """An activation of the cheapest band covers about two of the largest segments."""
    segments = 2 * settings.segment_max / settings.segment_target
    prices = CachePrices(settings.cache_read_price, settings.cache_write_price)
    return Economy(prices, settings.segment_max, segments * settings.summary_max_tokens)


class ViewMarks(NamedTuple):
    """What the next view of a provider depends on beside its state and the log; as in `Showing`."""

    attempted_at: int | None = None
    attempted_length: int = 0
    ends: tuple[int, ...] = ()
    shown: int = 0  # messages of the view handed out last


@dataclass(slots=True)
class ProviderView:
    """What one provider is shown."""

    key: str
    state: ActivationState
    tail: Tail
    last: list[Message] = field(default_factory=list)  # the messages of the view handed out last
    merged: list[Message] = field(default_factory=list)  # the same with neighbouring user rows joined
    ends: frozenset[int] = frozenset()  # how many messages earlier views had, as far as they still lead this one
    attempted_at: int | None = None  # history tokens at the last attempt to activate
    attempted_length: int = 0  # messages of the log then
    pending: Reason | None = None  # why the next view may begin differently
    pins_changed: bool = False  # by a call, since they were chosen for this view
    counted: int = 0  # items whose repairs are counted
    resumed: int | None = None  # messages of this log's view that was handed out last, before going back to it

    def has_turn_ended(self, bounds: Bounds) -> bool:
        """Whether a turn that went on across an activation has ended, as the log's `bounds` say: what was signed in it
        has to go then."""
        was = self.state.bounds
        now = was._replace(settled=min(was.rewritten, bounds.settled))
        return now.settled > was.settled and self.tail.binds(self.tail.start, now)

    @property
    def marks(self) -> ViewMarks:
        shown = len(self.last) if self.resumed is None else self.resumed
        return ViewMarks(self.attempted_at, self.attempted_length, tuple(sorted(self.ends)), shown)


class Change(NamedTuple):
    """An activation that is to be committed."""

    showing: ProviderView
    before: ActivationState
    state: ActivationState
    tail: Tail
    pins: tuple[TailItem, ...]
    report: ActivationReport
