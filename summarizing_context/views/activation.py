"""Activation: what one is asked to do, what it would make, and what it has done.

Values. Whether one happens, and where a view is cut, is decided in `planner`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from summarizing_context.log.tree import Cut
from summarizing_context.views.budget import Room
from summarizing_context.views.header import Header
from summarizing_context.views.pins import Pins
from summarizing_context.views.tail import Tail
from summarizing_context.worker.summary_cache import Focus

Reason = Literal[
    "high_water",
    "budget_lowered",
    "budget_raised",
    "provider_changed",
    "system_changed",
    "log_replaced",
    "idle",
    "explicit",
    "restored",
]

REASON_WORDS: dict[str, str] = {
    "high_water": "nearly full",
    "budget_lowered": "smaller budget",
    "budget_raised": "larger budget",
    "provider_changed": "other provider",
    "system_changed": "other system prompt",
    "log_replaced": "log replaced",
    "idle": "cache was cold",
    "explicit": "asked for",
    "restored": "gone back",
}


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


class ActivationRecord(NamedTuple):
    """One activation of a session as it is remembered. Tokens are those of the whole view."""

    number: int  # from 1 on, within the session
    time: str  # ISO 8601, UTC
    provider: str  # whose view it changed; empty where requests name none
    reason: Reason
    tokens_before: int
    tokens_after: int
    covered_from: int  # messages of the log that the view no longer showed word for word, until then
    covered_to: int  # and from then on; fewer where an activation was undone
    messages: int  # of the log
    blocks: int  # summaries in the header
    stand_ins: int  # of these, made without a model until the model's own are ready
    prefix_kept: int  # tokens at the beginning of the view that stayed, so that a prompt cache still serves them
    budget: int = 0  # tokens that the view might take; 0 where it was not noted
    log_version: int = 0  # how often the log was replaced before it
    undoes: int | None = None  # the number of the activation that it took back
    is_undone: bool = False
    can_undo: bool = False  # whether `undo_activation` could take it back once it is the last one

    @property
    def why(self) -> str:
        """Why the view changed, in a few words, and whether that was undone."""
        if self.undoes is not None:
            return f"undo of {self.undoes}"
        moved = self.covered_from != self.covered_to
        words = REASON_WORDS[self.reason] if moved or self.reason != "high_water" else "newest did not fit"
        return f"{words}, undone" if self.is_undone else words


class ActivationRequest(NamedTuple):
    """What an activation that is asked for has to do."""

    keep_messages: int | None = None  # leave these raw, and cover all before
    keep_from: float | None = None  # keep groups word for word that are so important


class ViewRequest(NamedTuple):
    """What is asked for with a view."""

    reason: Reason | None = None  # why to activate although there is no need
    focus: str | None = None  # a topic of which the header has to keep a note
    activation: ActivationRequest | None = None
    memories: tuple[str, ...] = ()  # of earlier sessions, the most relevant first
