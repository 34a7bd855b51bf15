"""The activations that a caller asks for."""

from __future__ import annotations

from anyio import to_thread

from summarizing_context.errors import SettingsError, briefly
from summarizing_context.messages.redaction import Redact
from summarizing_context.retrieval.memory import Memory
from summarizing_context.sessions.session import Session
from summarizing_context.views.activation import ActivationReport, ActivationRequest
from summarizing_context.worker.topic_notes import check_focus


class Compactor:
    """The activations that a caller asks for. All methods belong to the session's event loop."""

    def __init__(self, session: Session, memory: Memory, redact: Redact | None) -> None:
        self._session, self._memory = session, memory
        self._redact = redact  # what of a topic no model may read

    async def compact(self, focus: str | None) -> ActivationReport:
        """Cover what is beyond the low water."""
        return await self._activate(None, focus)

    async def summarize(self, keep_recent: int, focus: str | None) -> ActivationReport:
        """Cover all but the newest messages."""
        if isinstance(keep_recent, bool) or not isinstance(keep_recent, int) or keep_recent < 1:
            raise SettingsError(f"keep_recent is {briefly(keep_recent)}; it is a number of messages, at least 1")
        return await self._activate(ActivationRequest(keep_messages=keep_recent), focus)

    async def compress(self, threshold: float) -> ActivationReport:
        """Cover what is old, and keep of it word for word what is so important."""
        wrong = isinstance(threshold, bool) or not isinstance(threshold, int | float)
        if wrong or not 0 <= threshold <= 1:
            raise SettingsError(f"importance_threshold is {briefly(threshold)}; it is a number from 0 to 1")
        return await self._activate(ActivationRequest(keep_from=float(threshold)))

    def should_compress(self) -> bool:
        """Whether the next view would activate."""
        return self._session.would_compact(self._memory.chosen)

    async def _activate(self, request: ActivationRequest | None, focus: str | None = None) -> ActivationReport:
        session = self._session
        topic = None if focus is None else await to_thread.run_sync(check_focus, focus, self._redact)
        if topic is not None and session.settings.strategy == "truncate":
            raise SettingsError("focus has nothing to act on: strategy = 'truncate' makes no summaries; leave it out")
        memories = await self._memory.choose()
        report = await session.activate(session.key, session.budget, "explicit", memories, focus=topic, request=request)
        session.wake()
        if report is None:
            now, _ = session.views.tokens(session.key, session.budget)
            raw = session.views.raw_messages(session.key, session.budget, request)
            return ActivationReport(False, "explicit", now, now, 0, raw)
        return report
