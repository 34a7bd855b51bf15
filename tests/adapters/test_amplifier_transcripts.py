"""Real conversations, as the host would log them, cut at every answer: no request that a provider repairs or refuses.

The gate takes the bundled sample; `make host-corpus CORPUS=<folder>` any folder of transcripts.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path

import pytest

from summarizing_context import BudgetError
from summarizing_context.adapters.amplifier import SummarizingContextManager
from summarizing_context.messages.reading import read_message
from summarizing_context.messages.tokens import estimate_text
from tests.adapters.converting import Row, host_rows, read_rows
from tests.adapters.validity import refusals

pytestmark = pytest.mark.anyio

SAMPLE = Path(__file__).parents[1] / "data" / "transcripts"
FOLDER = Path(os.environ.get("HOST_CORPUS") or SAMPLE)
FILES = sorted(path for path in FOLDER.rglob("*") if path.name.endswith((".jsonl", ".jsonl.gz")))
BUDGETS = [int(number) for number in os.environ.get("HOST_BUDGETS", "3000").split(",")]
CALM = {"summarizer": "extractive", "token_counter": "estimate", "idle_after": "never"}
SMALL = {"segment_min": 200, "segment_target": 600, "segment_max": 1200, "summary_max_tokens": 60}


@pytest.mark.parametrize("shape", ["host", "raw"])
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
async def test_every_request_of_a_real_conversation_is_one_that_both_providers_take(
    path: Path, budget: int, shape: str
) -> None:
    messages = read_rows(path)
    found = await faults(host_rows(messages) if shape == "host" else messages, budget)
    assert found == []


async def faults(messages: list[Row], budget: int) -> list[str]:
    """What is wrong with the requests made before each answer; the first few."""
    manager = SummarizingContextManager(CALM, **(SMALL if budget < 8_000 else {}))
    found: list[str] = []
    last: list[Row] = []
    for at, message in enumerate(messages):
        if message["role"] == "assistant" and at:
            rows = await request(manager, budget)
            if rows is None:
                break
            found += [f"request before message {at}: {fault}" for fault in refusals(rows)]
            found += [f"request before message {at}: {tokens} tokens"] if (tokens := cost(rows)) > budget else []
            last = rows
            if len(found) > 5:
                break
        await manager.add_message(message)
    assert last or len(messages) < 3 or budget < 16_000
    await manager.close()
    return found


async def request(manager: SummarizingContextManager, budget: int) -> list[Row] | None:
    """The next request; None where the transcript's own system rows are larger than the budget."""
    try:
        return await manager.get_messages_for_request(token_budget=budget)
    except BudgetError as error:
        if error.what == "leading system rows" and sum(tokens for _, tokens in error.rows) + 40 > budget:
            return None
        raise


def cost(rows: list[Row]) -> int:
    return sum(_cost(json.dumps(row)) for row in rows)


@lru_cache(maxsize=10_000)
def _cost(row: str) -> int:
    reading = read_message(json.loads(row))
    return 4 + sum(map(estimate_text, reading.texts)) + 1_600 * reading.media
