"""The budget of each request: what the caller, the provider and the settings say, corrected by reported usage.

How a budget is worked out is in `core.budget`; what a view then holds, the viewer's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from summarizing_context.core.budget import choose_budget
from summarizing_context.provider_window import ProviderWindow
from summarizing_context.settings import Settings
from summarizing_context.tokens import Calibration

_TOLD_FROM = 0.02  # part of a budget by which it has to differ from the one told last

Notify = Callable[[str, dict[str, Any]], None]


class Budgeting:
    """Chooses budgets and remembers the last. `notify` is told when they change, and what usage has taught."""

    def __init__(self, settings: Settings, notify: Notify) -> None:
        self._settings = settings
        self._notify = notify
        self._calibration = Calibration()
        self._told: tuple[str, int] | None = None  # provider key and budget

    def choose(self, token_budget: int | None, window: ProviderWindow) -> int:
        """The budget of a request, in tokens. `SettingsError` for a `token_budget` that is no positive int."""
        settings = self._settings
        tokens = window.window if window.window is None else self._calibration.own_tokens(window.window)
        return choose_budget(
            token_budget,
            tokens,
            settings.reserved_output if settings.reserved_output is not None else window.max_output,
            max_tokens=int(settings.max_tokens),
            cap=settings.max_tokens_is_set,
            margin=settings.safety_margin,
        )

    def note(self, window: ProviderWindow, budget: int) -> None:
        """A view was made for this provider and budget."""
        key, before = self._told or (None, 0)
        if key != window.key or abs(budget - before) > _TOLD_FROM * before:
            self._told = (window.key, budget)
            told = {"budget": budget, "before": before or None, "provider": window.key, "window": window.window}
            self._notify("budget_changed", told)

    def observe(self, total: int, view_tokens: int | None) -> None:
        """The provider counted so many tokens for a view of so many tokens of ours."""
        if view_tokens is None or total == 0:
            return
        before, self._calibration = self._calibration, self._calibration.observed(total, view_tokens)
        if self._calibration is not before:
            ratio, samples = self._calibration.ratio, self._calibration.samples
            told = {"ratio": round(ratio, 4), "samples": samples, "reported": total, "counted": view_tokens}
            self._notify("usage_calibrated", told)
