"""Summarizers as the worker calls them, with a gate before them: the extractive one, a provider's, and the host's.

Retries and limits are `resilient`'s; which of them a session has is decided in `assembly`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from summarizing_context.ports import Clock, Summarizer, SummaryJob, SummaryReply
from summarizing_context.summarizers.extractive import ExtractiveSummarizer
from summarizing_context.summarizers.host_provider import CANCEL_CHECK, HostSummarizer
from summarizing_context.summarizers.parameters import SHIPPED, ExtractiveParameters
from summarizing_context.summarizers.resilient import Limits, ResilientStatistics, ResilientSummarizer


class ClosableSummarizer(Summarizer, Protocol):
    """A summarizer that holds connections."""

    async def close(self) -> None: ...


class ChatModel(ClosableSummarizer, Protocol):
    """A model behind a provider's SDK: it summarizes, and answers whatever else it is asked."""

    model: str
    recipe: str

    async def complete(self, system: str, user: str, max_tokens: int) -> SummaryReply:
        """Its answer. Raise `SummarizerError` if there is none now."""


class ExtractiveCaller:
    """The extractive summarizer behind a gate that is always open."""

    def __init__(self, count: Callable[[str], int], parameters: ExtractiveParameters = SHIPPED) -> None:
        self._summarizer = ExtractiveSummarizer(count=count, parameters=parameters)
        self.recipe = self._summarizer.recipe

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        return await self._summarizer.summarize(job)

    def ready_in(self) -> float | None:
        return 0.0

    def statistics(self) -> ResilientStatistics:
        return ResilientStatistics(0, 0, 0, 0, 0, "closed", None)

    async def close(self) -> None:
        await self._summarizer.close()


class ModelCaller(ResilientSummarizer):
    """A provider's summarizer, made for one context and closed with it."""

    def __init__(self, inner: ClosableSummarizer, *, limits: Limits, clock: Clock, count: Callable[[str], int]) -> None:
        super().__init__(inner, limits=limits, clock=clock, count=count)
        self._close = inner.close

    async def close(self) -> None:
        await self._close()


class HostCaller(ResilientSummarizer):
    """A provider that the host has mounted; while the host is being cancelled it is asked nothing."""

    def __init__(self, inner: HostSummarizer, *, limits: Limits, clock: Clock, count: Callable[[str], int]) -> None:
        super().__init__(inner, limits=limits, clock=clock, count=count)
        self._is_cancelled = inner.is_cancelled

    def ready_in(self) -> float | None:
        room = super().ready_in()
        return max(room, CANCEL_CHECK) if room is not None and self._is_cancelled() else room
