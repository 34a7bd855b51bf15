"""Choosing one of the providers that the host has mounted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_USUAL_PRIORITY = 100  # of a provider that names none; the lowest comes first


def choose_provider(mounted: Any, name: str | None = None) -> Any:
    """The provider of that name; without one, that which the host would choose first. None if there is none."""
    if not isinstance(mounted, Mapping):
        return None
    return min(mounted.values(), key=_priority, default=None) if name is None else mounted.get(name)


def _priority(provider: Any) -> float:
    found = getattr(provider, "priority", None)
    if found is None and isinstance(config := getattr(provider, "config", None), Mapping):
        found = config.get("priority")
    return found if isinstance(found, int | float) and not isinstance(found, bool) else _USUAL_PRIORITY
