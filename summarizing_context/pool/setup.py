"""How a session comes to ask a pool: the checks of its settings, and the queue of its model."""

from __future__ import annotations

import hashlib
from typing import cast

from summarizing_context.errors import SettingsError
from summarizing_context.pool.client import Caller, PoolCaller
from summarizing_context.settings.providers import PROVIDERS
from summarizing_context.settings.values import Settings
from summarizing_context.stores.base import SessionStore
from summarizing_context.stores.requests import PoolStore
from summarizing_context.summarizers.verification.attribution import ATTRIBUTION_VERSION
from summarizing_context.summarizers.verification.gate import GATE_VERSION


def queue_name(recipe: str) -> str:
    """The queue for workers of one model, and of a version that checks replies alike."""
    made_by = f"{recipe} {GATE_VERSION} {ATTRIBUTION_VERSION}"
    return f"summaries_{hashlib.sha256(made_by.encode()).hexdigest()[:16]}"


def make_asking(settings: Settings, store: SessionStore, caller: Caller | None) -> PoolCaller:
    """How a session asks the pool; with `workers = "both"` also by `caller`, which is None where no model is asked.

    Raises `SettingsError`.
    """
    for_hosts = shared(store, f"workers = {settings.workers!r} needs a store that hosts share")
    if caller is None or caller.recipe is None:
        raise SettingsError(
            f"workers = {settings.workers!r} needs a summarizer that workers have too: "
            f"{' or '.join(map(repr, PROVIDERS))}, or an object of yours with an attribute `recipe`"
        )
    own = settings.concurrency if settings.workers == "both" else 0
    return PoolCaller(for_hosts, settings.session_id, for_hosts.queue(queue_name(caller.recipe)), caller, own=own)


def shared(store: SessionStore, needs: str) -> PoolStore:
    """A store that hosts share; `SettingsError` for any other, saying who needs it."""
    if not callable(getattr(store, "queue", None)):
        raise SettingsError(f"{needs}: store = 'postgresql://…'")
    return cast(PoolStore, store)
