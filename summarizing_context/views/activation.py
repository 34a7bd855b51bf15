"""Activation: what one is asked to do, what it would make, and what it has done.

Values. Whether one happens is decided in `planner`; where a view may be cut, in `composing`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

from summarizing_context.log.tree import Cut
from summarizing_context.views.budget import Room
from summarizing_context.views.folding import Folded
from summarizing_context.views.header import Header
from summarizing_context.views.pins import Pins
from summarizing_context.views.tail import Tail
from summarizing_context.worker.topic_notes import Focus

Reason = Literal[
    "high_water",
    "budget_lowered",
    "provider_changed",
    "system_changed",
    "log_replaced",
    "idle",
    "explicit",
    "restored",
]


class ActivationPlan(NamedTuple):
    """A view's prefix and tail as an activation would make them."""

    cut: Cut
    room: Room
    header: Header
    pins: Pins
    tail: Tail
    focus: Focus | None = None  # the topic of the note in the header
    keep_from: float | None = None  # a threshold of importance that a call has set

    @property
    def head_tokens(self) -> int:
        """Cost of everything between the system rows and the tail."""
        return self.header.tokens + self.pins.tokens

    @property
    def word_for_word(self) -> tuple[int, int]:
        """How many messages stay so: the newest ones, and older ones."""
        return len(self.tail.items), sum(item.seq >= 0 for item in (*self.pins.before, *self.pins.after))

    @property
    def tokens(self) -> int:
        """Cost of the view beside its system rows."""
        return self.head_tokens + self.tail.tokens


class ActivationReport(NamedTuple):
    """What an activation did; tokens are those of the whole view. `freed` is below 0 where all that an activation did
    was to add a note about a topic. `raw` and `kept` count what stays word for word where more is covered; `raw` also
    where nothing is done, for these messages were to stay so."""

    activated: bool
    reason: Reason
    tokens_before: int
    tokens_after: int
    freed: int
    raw: int = 0  # the newest messages
    kept: int = 0  # older ones: the first request, pinned and critical ones, and those that are important enough


class ActivationRequest(NamedTuple):
    """What an activation that is asked for has to do."""

    keep_messages: int | None = None  # leave these raw, and cover all before
    keep_from: float | None = None  # keep groups word for word that are so important


class Build(Protocol):
    """Composes a prefix and a tail; `folded` are calls of the tail's first group."""

    def __call__(self, cut: Cut, room: Room, folded: Folded = ()) -> ActivationPlan: ...
