"""Budget and room: the tokens that a view may use, how they are shared out, when an activation is due.

The budget follows from the caller, the provider and the settings, corrected by reported usage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple

from summarizing_context.errors import SettingsError, briefly
from summarizing_context.settings.values import HEADER_TARGET, Settings
from summarizing_context.summarizers.host import ProviderWindow

ANSWER = 4_096  # tokens kept for an answer of whose size nobody has told

LEAST_ROOM = 40  # tokens beside the system rows without which no view is worth sending

USEFUL_ROOM = 4_000  # tokens beside system rows and tools, below which a view holds a few steps of an agent

_MOST = 2**63 - 1  # tokens of a budget

AMPLE_SHARE = 0.75  # of the room, that a message with its thinking may take

_NEWEST_SHARE = 0.4  # of the room

LEAST_CAP = 64  # tokens that a shrunk message keeps; halved with every squeeze

TIGHT = 1  # squeezes with which everything is shrunk

BARE = 8  # squeezes with which a view is nothing but the newest message, in half of the room

FLOOR_SHARE = 1 / 3  # of room, that messages which must stay leave to all others

_LEAST_FLOOR = 128  # tokens

_SQUEEZED_TAIL = 0.5  # of what is shared out, that messages take together which are cut to the same length

_LEAST_HELD = 4  # tokens of each


def water_level(sizes: Sequence[float], share: float) -> float:
    """Return the cap at which parts of these sizes fill `share` together: small parts stay whole."""
    left = max(0.0, share)
    for done, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - done) >= left:
            return left / (len(sizes) - done)
        left -= size
    return max(sizes, default=0.0)


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


class Room(NamedTuple):
    """Tokens to share out. Each step of `squeeze` halves what pins, single messages and headers may take. A header may
    take more where that much is `spare`; where it `gives_way`, it takes no more.

    Messages that must stay are paid first, as the leading system rows are: shares are of what is left then.
    """

    tokens: int
    shares: Shares
    squeeze: int = 0
    staying: int = 0  # tokens of messages that must stay
    spare: float = 0.0  # tokens that nothing else takes
    cap: int = 0  # tokens of a message where all would not fit otherwise; 0 where they do
    gives_way: bool = False  # the header, to the messages behind it

    @property
    def staying_cap(self) -> int:
        """What messages that must stay may take. The rest is the floor: with it the session goes on working, and an
        activation can free what it has to."""
        if self.is_bare:
            return 0
        floor = max(FLOOR_SHARE * self.tokens, 2 * self.min_free, _LEAST_FLOOR)
        return max(0, int(self.tokens - floor))

    def setting_aside(self, staying: int) -> Room:
        """Return the room in which messages that must stay cost so many tokens."""
        return self._replace(staying=min(staying, self.staying_cap)) if staying or self.staying else self

    def holding(self, costs: Sequence[int]) -> Room:
        """Return the room in which messages of these costs fit together, and one more: long ones are cut to the same
        length, and pins and the header take less."""
        level = water_level([*costs, inf], _SQUEEZED_TAIL * self.shared)
        return self._replace(squeeze=self.squeeze + 2, cap=max(_LEAST_HELD, int(level)))

    @property
    def shared(self) -> int:
        """What is shared out."""
        return self.tokens - self.staying

    @property
    def is_bare(self) -> bool:
        """There is no room for anything but the newest message."""
        return self.squeeze >= BARE

    @property
    def high(self) -> float:
        """A view above this asks for an activation."""
        return self.staying + self.shares.high_water * self.shared

    @property
    def newest_share(self) -> float:
        """What the newest group may take at an activation and be shown whole."""
        return 0.0 if self.squeeze else _NEWEST_SHARE * self.shared

    @property
    def low(self) -> float:
        """What an activation leaves of the raw tail, about."""
        return self.shares.low_water * self.shared

    @property
    def min_free(self) -> float:
        """What an activation frees at least."""
        return self.shares.min_free * self.tokens

    @property
    def header_target(self) -> float:
        """What a header takes before more of it is merged."""
        return self._eased(self.shares.header_target)

    @property
    def header_share(self) -> float:
        """What a header may take."""
        return self._eased(self.shares.header_share)

    @property
    def least_cap(self) -> int:
        """What a shrunk message keeps at least."""
        return LEAST_CAP >> self.squeeze

    @property
    def pin_cap(self) -> int:
        """What one pinned message may take."""
        return max(self.least_cap, int(self._squeezed(self.shares.pin_share)))

    @property
    def keep_cap(self) -> int:
        """What important groups may take that stay word for word."""
        return int(self._squeezed(self.shares.keep_share))

    def message_cap(self, shown_of_group: int) -> int:
        """Return what the next message of a group may take, of which so much is shown already."""
        if self.is_bare:
            return self.tokens // 2
        if self.cap:
            return self.cap
        left_for_group = (self._squeezed(self.shares.group_share) - shown_of_group) / 2
        return max(self.least_cap, int(min(self._squeezed(self.shares.message_share), left_for_group)))

    def _eased(self, share: float) -> float:
        if self.gives_way:
            return min(share * self.shared, self.spare)
        return max(self._squeezed(share), min(share * self.shared, self.spare))

    def _squeezed(self, share: float) -> float:
        return share * self.shared / (1 << self.squeeze)


def choose_budget(
    token_budget: object, window: int | None, max_output: int | None, *, max_tokens: int, cap: bool, margin: int
) -> int:
    """Tokens a view may use: exactly `token_budget` if given, else the provider's window less its output and a
    margin (capped by `max_tokens` if the user set that), else `max_tokens`.

    Raises `SettingsError` unless `token_budget` is None or a positive int.
    """
    if token_budget is not None:
        if isinstance(token_budget, bool) or not isinstance(token_budget, int) or not 0 < token_budget <= _MOST:
            raise SettingsError(f"token_budget is {briefly(token_budget, 60)}; it is a positive int (tokens), or None")
        return token_budget
    if window is None or window <= 0:
        return max_tokens
    output = min(
        ANSWER if max_output is None else max_output, window // 2
    )  # tiny windows: never more than half for the answer
    budget = max(window - output - margin, (window - output) // 2)
    return min(budget, max_tokens) if cap else budget


_NOTIFIED_FROM = 0.02  # part of a budget by which it has to differ from the one told last

Notify = Callable[[str, dict[str, Any]], None]


class BudgetPolicy:
    """Chooses budgets and remembers the last. `notify` is told when they change, and what usage has taught."""

    def __init__(self, settings: Settings, notify: Notify) -> None:
        self._settings = settings
        self._max_tokens, self._is_capped = int(settings.max_tokens), settings.max_tokens_is_set
        self._notify = notify
        self._ratio, self._samples = 1.0, 0  # tokens that a provider counts for one counted here; of so many requests
        self._last_notified: tuple[str, int] | None = None  # provider key and budget

    def choose(self, token_budget: int | None, window: ProviderWindow) -> int:
        """The budget of a request, in tokens. `SettingsError` for a `token_budget` that is no positive int."""
        settings = self._settings
        # Never more than the window has: what made a provider count less, such as images that it has for less, may have
        # left the next view.
        tokens = window.window if window.window is None else int(window.window / max(1.0, self._ratio))
        return choose_budget(
            token_budget,
            tokens,
            settings.reserved_output if settings.reserved_output is not None else window.max_output,
            max_tokens=self._max_tokens,
            cap=self._is_capped,
            margin=settings.safety_margin,
        )

    def note(self, window: ProviderWindow, budget: int) -> bool:
        """A view was made for this provider and budget; whether they differ from those told last."""
        key, before = self._last_notified or (None, 0)
        is_new = key != window.key or abs(budget - before) > _NOTIFIED_FROM * before
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
