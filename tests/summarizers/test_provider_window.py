"""What a provider tells of its window, and of how long an answer may be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from summarizing_context import open_context
from summarizing_context.summarizers.provider_window import read_provider

pytestmark = pytest.mark.anyio


def provider(config: Any = None, **defaults: Any) -> SimpleNamespace:
    info = SimpleNamespace(id="house", defaults={"context_window": 50_000, **defaults})
    return SimpleNamespace(name="house", config=config, get_info=lambda: info)


@pytest.mark.parametrize(
    ("told", "output"),
    [
        (provider({"max_tokens": 9}, max_output_tokens=7, max_tokens=8), 7),
        (provider({"max_tokens": 9}, max_tokens=8), 8),
        (provider({"max_tokens": 9}, max_tokens="many"), 9),
        (provider(SimpleNamespace(max_tokens=9)), 9),
        (provider({"max_tokens": -1}), None),
        (provider("odd"), None),
    ],
)
def test_an_answer_is_as_long_as_the_model_says_or_as_it_is_configured(told: Any, output: int | None) -> None:
    assert read_provider(told).max_output == output


@pytest.mark.parametrize(("told", "reserved"), [(provider(), 4_096), (provider({"max_tokens": 2_000}), 2_000)])
async def test_a_provider_without_max_output_tokens_has_room_for_an_answer(told: Any, reserved: int) -> None:
    async with open_context() as context:
        await context.get_messages_for_request(provider=told)
        assert context.budget().max_tokens == 50_000 - reserved - 1_000
