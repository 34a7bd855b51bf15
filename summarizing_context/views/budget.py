"""Budget and room: the tokens that a view may use, how they are counted and shared out, when an activation is due.

The budget follows from the caller, the provider and the settings, corrected by reported usage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from summarizing_context.errors import SettingsError, briefly
from summarizing_context.messages.reading import read_content
from summarizing_context.messages.rendering import Count
from summarizing_context.messages.shapes import Message
from summarizing_context.messages.tokens import MESSAGE_TOKENS
from summarizing_context.settings.values import HEADER_TARGET, Settings
from summarizing_context.summarizers.host import ProviderWindow

LEAST_ROOM = 40  # tokens beside the system rows without which no view is worth sending

USEFUL_ROOM = 4_000  # tokens beside system rows and tools, below which a view holds a few steps of an agent

AMPLE_SHARE = 0.75  # of the room, that a message with its thinking may take

TIGHT = 1  # squeezes with which everything is shrunk

BARE = 8  # squeezes with which a view is nothing but the newest message, in half of the room


def water_level(sizes: Sequence[float], share: float) -> float:
    """Return the cap at which parts of these sizes fill `share` together: small parts stay whole."""
    left = max(0.0, share)
    for done, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - done) >= left:
            return left / (len(sizes) - done)
        left -= size
    return max(sizes, default=0.0)


class Price(NamedTuple):
    """How tokens are counted in this session."""

    count: Count
    image_tokens: int

    def message(self, message: Message) -> int:
        """Cost of a message: 4 + its texts + its images."""
        reading = read_content(message)
        return MESSAGE_TOKENS + sum(map(self.count, reading.texts + reading.unread)) + self.image_tokens * reading.media


class Shares(NamedTuple):
    """Shares of room; the meaning of each is in the table of settings."""

    high_water: float = 0.92
    low_water: float = 0.08
    min_free: float = 0.12
    header_target: float = HEADER_TARGET
    header_share: float = 0.50
    message_share: float = 0.25
    group_share: float = 0.40
    pin_share: float = 0.10
    keep_share: float = 0.20


@dataclass
class Room:
    """Tokens to share out; not changed once it is made. Each step of `squeeze` halves what pins, single messages and
    headers may take. A header may take more where that much is `spare`; where it `gives_way`, it takes no more.

    Messages that must stay are paid first, as the leading system rows are: shares are of what is left then.
    """

    tokens: int
    shares: Shares
    squeeze: int = 0
    staying: int = 0  # tokens of messages that must stay
    spare: float = 0.0  # tokens that nothing else takes
    cap: int = 0  # tokens of a message where all would not fit otherwise; 0 where they do
    gives_way: bool = False  # the header, to the messages behind it

    def __post_init__(self) -> None:
        tokens, shares, squeezed = self.tokens, self.shares, 1 << self.squeeze
        self.is_bare = self.squeeze >= BARE  # there is no room for anything but the newest message
        self.shared = shared = tokens - self.staying  # what is shared out

        # an activation is asked for by a view above `high`; it leaves about `low` of the raw tail, frees `min_free` at
        # least, and shows the newest group whole if that takes no more than its share
        self.high = self.staying + shares.high_water * shared
        self.low = shares.low_water * shared
        self.min_free = shares.min_free * tokens
        self.newest_share = 0.0 if self.squeeze else 0.4 * shared

        # messages that must stay may take all but the floor: with that the session goes on working, and an activation
        # can free what it has to
        self.staying_cap = 0 if self.is_bare else max(0, int(tokens - max(1 / 3 * tokens, 2 * self.min_free, 128)))

        # a header may take its share; above its target more of it is merged
        self.header_target, self.header_share = (
            min(share * shared, self.spare)
            if self.gives_way
            else max(share * shared / squeezed, min(share * shared, self.spare))
            for share in (shares.header_target, shares.header_share)
        )

        # what a shrunk message keeps at least, one pinned message may take, important groups that stay may take, and
        # a message and a group of the tail
        self.least_cap = 64 >> self.squeeze
        self.pin_cap = max(self.least_cap, int(shares.pin_share * shared / squeezed))
        self.keep_cap = int(shares.keep_share * shared / squeezed)
        self.message_share = shares.message_share * shared / squeezed
        self.group_share = shares.group_share * shared / squeezed

    def setting_aside(self, staying: int) -> Room:
        """Return the room in which messages that must stay cost so many tokens."""
        staying = min(staying, self.staying_cap)
        return self if staying == self.staying else replace(self, staying=staying)

    def holding(self, costs: Sequence[int]) -> Room:
        """Return the room in which messages of these costs fit together, and one more, in half of it: long ones are cut
        to the same length, and pins and the header take less."""
        level = water_level([*costs, inf], self.shared / 2)
        return replace(self, squeeze=self.squeeze + 2, cap=max(4, int(level)))

    def message_cap(self, shown_of_group: int) -> int:
        """Return what the next message of a group may take, of which so much is shown already."""
        if self.is_bare:
            return self.tokens // 2
        if self.cap:
            return self.cap
        return max(self.least_cap, int(min(self.message_share, (self.group_share - shown_of_group) / 2)))


class BudgetPolicy:
    """Chooses budgets and remembers the last. `notify` is told when they change, and what usage has taught."""

    def __init__(self, settings: Settings, notify: Callable[[str, dict[str, Any]], None]) -> None:
        self._settings = settings
        self._notify = notify
        self._ratio, self._samples = 1.0, 0  # tokens that a provider counts for one counted here; of so many requests
        self._last_notified: tuple[str, int] | None = None  # provider key and budget

    def choose(self, token_budget: int | None, window: ProviderWindow) -> int:
        """The budget of a request, in tokens: exactly `token_budget` if given, else the provider's window less its
        output and a margin (capped by `max_tokens` if the user set that), else `max_tokens`.

        Raises `SettingsError` for a `token_budget` that is no positive int.
        """
        settings = self._settings
        if token_budget is not None:
            is_int = isinstance(token_budget, int) and not isinstance(token_budget, bool)
            if not is_int or not 0 < token_budget < 2**63:
                raise SettingsError(
                    f"token_budget is {briefly(token_budget, 60)}; it is a positive int (tokens), or None"
                )
            return token_budget
        # Never more than the window has: what made a provider count less, such as images that it has for less, may have
        # left the next view.
        tokens = int((window.window or 0) / max(1.0, self._ratio))
        if tokens <= 0:
            return int(settings.max_tokens)
        output = settings.reserved_output if settings.reserved_output is not None else window.max_output
        output = min(4_096 if output is None else output, tokens // 2)  # never more than half for the answer
        budget = max(tokens - output - settings.safety_margin, (tokens - output) // 2)
        return min(budget, int(settings.max_tokens)) if settings.max_tokens_is_set else budget

    def note(self, window: ProviderWindow, budget: int) -> bool:
        """A view was made for this provider and budget; whether they differ from those told last, a budget by 2 %."""
        key, before = self._last_notified or (None, 0)
        is_new = key != window.key or abs(budget - before) > 0.02 * before
        if is_new:
            self._last_notified = (window.key, budget)
            data = {"budget": budget, "before": before or None, "provider": window.key, "window": window.window}
            self._notify("budget_changed", data)
        return is_new

    def observe(self, total: int, view_tokens: int) -> None:
        """The provider counted so many tokens for a view of so many tokens by this counter. Requests too small to tell
        teach nothing, nor do figures that cannot be about the same text."""
        if view_tokens < 200 or not view_tokens / 5 <= total <= view_tokens * 5:
            return
        self._samples += 1  # a plain mean at first, then a moving one, within bounds
        ratio = min(max(total / view_tokens, 0.5), 2.5)
        self._ratio += max(0.2, 1 / self._samples) * (ratio - self._ratio)
        data = {"ratio": round(self._ratio, 4), "samples": self._samples, "reported": total, "counted": view_tokens}
        self._notify("usage_calibrated", data)
