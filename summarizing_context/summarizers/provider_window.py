"""What a provider object tells of its window. Foreign code: whatever it does, a view is made."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple

logger = logging.getLogger(__name__)


class ProviderWindow(NamedTuple):
    """A provider as far as budgets go; `key` tells providers apart."""

    key: str
    window: int | None  # tokens
    max_output: int | None  # tokens
    name: str = ""
    model: str = ""


NO_PROVIDER = ProviderWindow("", None, None)  # where a request names none


def read_provider(provider: Any) -> ProviderWindow:
    """Return the provider's name, model and window: from `get_model_info()`, else from `get_info().defaults`.

    Where neither tells of `max_output_tokens`, an answer takes the `max_tokens` that it is configured to ask for. A
    provider that misbehaves tells only its type.
    """
    if provider is None:
        return NO_PROVIDER
    info, model = _answer(provider, "get_info"), _answer(provider, "get_model_info")
    defaults = field_of(info, "defaults")
    defaults = defaults if isinstance(defaults, Mapping) else {}
    window = _whole(field_of(model, "context_window")) or _whole(defaults.get("context_window"))
    configured = field_of(field_of(provider, "config"), "max_tokens")
    told = (field_of(model, "max_output_tokens"), defaults.get("max_output_tokens"), defaults.get("max_tokens"))
    output = next(filter(None, map(_whole, (*told, configured))), None)
    name = str(field_of(provider, "name") or field_of(info, "id") or type(provider).__name__)[:100]
    which = str(field_of(model, "id") or defaults.get("model") or "")[:100]
    return ProviderWindow(f"{name}/{which}/{window or ''}", window, output, name, which)


def _answer(provider: Any, method: str) -> Any:
    """Return what a provider says of itself; None where it fails, or would have to be awaited."""
    try:
        found = getattr(provider, method, None)
        answer = found() if callable(found) else None
    except Exception as error:
        logger.warning("a provider does not tell its window", extra={"method": method, "cause": type(error).__name__})
        return None
    if isinstance(answer, Coroutine):
        answer.close()
    return None if hasattr(answer, "__await__") else answer


def field_of(holder: Any, name: str) -> Any:
    """Return a field of a mapping or of any object; None where there is none, or it cannot be read."""
    try:
        return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
    except Exception:
        return None


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value > 0 and value == value // 1 else None  # neither inf nor nan is one
