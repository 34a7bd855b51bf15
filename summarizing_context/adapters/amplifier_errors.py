"""Our `BudgetError` as the error that Amplifier knows for it, where amplifier-core is installed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from summarizing_context.errors import BudgetError


def budget_error(
    required: int, budget: int, rows: Iterable[tuple[int, int]] = (), what: str = "leading system rows"
) -> BudgetError:
    """A `BudgetError`; where amplifier-core is installed, its `ContextLengthError` too."""
    return _class()(required, budget, tuple(rows), what)


@contextmanager
def as_host_error() -> Iterator[None]:
    """Let a `BudgetError` out as the host's error too."""
    try:
        yield
    except BudgetError as error:
        raise budget_error(error.required_tokens, error.budget_tokens, error.rows, error.what) from error


@cache
def _class() -> type[BudgetError]:
    try:
        from amplifier_core import ContextLengthError
    except ImportError:
        return BudgetError
    both: type[BudgetError] = type("HostBudgetError", (BudgetError, ContextLengthError), {"__reduce__": _reduce})
    return both


def _reduce(error: BudgetError) -> tuple[Any, ...]:
    return budget_error, (error.required_tokens, error.budget_tokens, error.rows, error.what)
