"""The store that a command names: it is checked, opened for one act, and asked for a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from summarizing_context.cli.output import InputError, plain
from summarizing_context.errors import StoreError
from summarizing_context.settings.addresses import check_scheme, is_address, shown_store

if TYPE_CHECKING:
    from summarizing_context.settings.values import Settings
    from summarizing_context.stores.base import SessionInfo, SessionStore


T = TypeVar("T")


def check_store(store: str | Path) -> None:
    """Refuse a store that is not there, rather than make one."""
    check_scheme(store)
    if not (is_address(store) or Path(store).exists()):
        raise StoreError(f"{shown_store(store)}: there is no such file; check --store")


def with_store(store: str | Path, act: Callable[[SessionStore], Awaitable[T]], *, read_only: bool = False) -> T:
    """Return what `act` makes of the opened store."""
    import anyio

    from summarizing_context.assembly import open_store

    check_store(store)

    async def run() -> T:
        opened = await open_store(store, read_only=read_only)
        try:
            return await act(opened)
        finally:
            await opened.close()

    return anyio.run(run)


def find_session(store: str | Path, session: str) -> SessionInfo:
    """What the store knows of a session; an error that names the nearest one if it has none of this name."""
    known = {info.session_id: info for info in with_store(store, lambda opened: opened.sessions(), read_only=True)}
    if session in known:
        return known[session]
    near = get_close_matches(session, known, n=1, cutoff=0.4)
    hint = (
        f"did you mean {near[0]!r}?"
        if near
        else "it holds none"
        if not known
        else "see: summarizing-context sessions list"
    )
    raise InputError(f"{shown_store(store)}: there is no session {plain(session, 60)!r}; {hint}")


def settings_for(info: SessionInfo, config: Path | None = None, **given: Any) -> Settings:
    """Settings for a look at a session. Its budget is the one that was set, else the one of its last request."""
    from summarizing_context.settings.values import Settings

    settings = Settings.load(config, session_id=info.session_id, **given)
    if settings.max_tokens_is_set or info.budget is None:
        return settings
    return replace(settings, max_tokens=info.budget)


def prompt_names(incomplete: str) -> list[str]:
    """Prompts that are shipped, each with its version."""
    from summarizing_context.summarizers.prompts import names

    return [name for name in names(None) if name.startswith(incomplete)]
