"""Activations when asked: down to the low water, to the newest messages, or to what is important.

What is important is said in `core.importance`; when a view activates by itself, in `deciding`.
"""

from __future__ import annotations

from anyio import to_thread

from summarizing_context.core.activation import ActivationReport, Wish
from summarizing_context.core.focus import check_focus
from summarizing_context.errors import SettingsError, briefly
from summarizing_context.session import Session


class Compressing:
    """The activations that a caller wishes for. All methods belong to the session's event loop."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def compact(self, focus: str | None) -> ActivationReport:
        """Cover what is beyond the low water."""
        return await self._activate(None, focus)

    async def summarize(self, keep_recent: int, focus: str | None) -> ActivationReport:
        """Cover all but the newest messages."""
        if isinstance(keep_recent, bool) or not isinstance(keep_recent, int) or keep_recent < 1:
            raise SettingsError(f"keep_recent is {briefly(keep_recent)}; it is a number of messages, at least 1")
        return await self._activate(Wish(keep_messages=keep_recent), focus)

    async def compress(self, threshold: float) -> ActivationReport:
        """Cover what is old, and keep of it word for word what is so important."""
        wrong = isinstance(threshold, bool) or not isinstance(threshold, int | float)
        if wrong or not 0 <= threshold <= 1:
            raise SettingsError(f"importance_threshold is {briefly(threshold)}; it is a number from 0 to 1")
        return await self._activate(Wish(keep_from=float(threshold)))

    def should_compress(self) -> bool:
        """Whether the next view would activate."""
        return self._session.would_compact()

    async def _activate(self, wish: Wish | None, focus: str | None = None) -> ActivationReport:
        session, viewer = self._session, self._session.parts.viewer
        topic = None if focus is None else await to_thread.run_sync(check_focus, focus, session.parts.redact)
        if topic is not None and session.parts.settings.strategy == "truncate":
            raise SettingsError("focus has nothing to act on: strategy = 'truncate' makes no summaries; leave it out")
        report = await session.activate(session.key, session.budget, "explicit", focus=topic, wish=wish)
        session.parts.worker.wake()
        if report is None:
            now, _ = viewer.tokens(session.key, session.budget)
            raw = viewer.raw_messages(session.key, wish)
            return ActivationReport(False, "explicit", now, now, 0, raw)
        return report
