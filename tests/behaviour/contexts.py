"""A context for the tests of retrieval."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from summarizing_context import Settings, SummarizingContext, open_context
from tests.laws.builders import count
from tests.laws.judge import SMALL


@asynccontextmanager
async def opened(log: list[Any], **settings: Any) -> AsyncIterator[SummarizingContext]:
    """An open context with this log, its summaries made and one view taken."""
    async with open_context(Settings(**{**SMALL, "max_tokens": 2_000, **settings}), count_tokens=count) as context:
        await context.set_messages(log)
        await context.wait_idle()
        await context.get_messages_for_request()
        yield context
