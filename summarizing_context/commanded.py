"""What `/context` commands need of a context, and no more.

The commands themselves are in `commands`.
"""

from __future__ import annotations

from typing import Literal, Protocol

from summarizing_context.core.activation import ActivationReport
from summarizing_context.core.facts import Fact
from summarizing_context.core.header import HeaderNode
from summarizing_context.core.paging import Page
from summarizing_context.core.pinned import Pin
from summarizing_context.expanding import Detail
from summarizing_context.memories import Memory
from summarizing_context.shelves import Checkpoint, SearchHit
from summarizing_context.spending import BudgetReport
from summarizing_context.statistics import Statistics


class Commanded(Protocol):
    """A session, as far as commands ask it."""

    @property
    def memory(self) -> Memory: ...

    def statistics(self) -> Statistics: ...

    def budget(self) -> BudgetReport: ...

    def explain(self) -> list[HeaderNode]: ...

    def ledger(self) -> list[Fact]: ...

    async def summarize(self, keep_recent: int = 10, *, focus: str | None = None) -> ActivationReport: ...

    async def compress(self, importance_threshold: float) -> ActivationReport: ...

    async def pin(self, index_or_text: int | str) -> str: ...

    async def unpin(self, id: str) -> None: ...

    def pins(self) -> list[Pin]: ...

    async def checkpoint(self, name: str | None = None) -> str: ...

    async def restore(self, id: str) -> str: ...

    async def list_checkpoints(self) -> list[Checkpoint]: ...

    async def search(
        self, query: str, *, scope: Literal["session", "project", "all"] = "session", limit: int = 10
    ) -> list[SearchHit]: ...

    async def expand(
        self, node_or_range: str, detail: Detail = "full", max_tokens: int = 2_000, cursor: str | None = None
    ) -> Page: ...

    async def recall(self, query: str, max_tokens: int = 2_000) -> Page: ...
