"""A provider is a class and a row of the table: the recipe in CONTRIBUTING.md with a toy; and what a host's tells."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

from summarizing_context import Settings, SettingsError, open_context
from summarizing_context.settings import PROVIDERS
from summarizing_context.testing import ScriptedSummarizer
from tests.behaviour.contexts import begun
from tests.laws.builders import user


class ToyProvider(ScriptedSummarizer):
    closed = False

    def __init__(self, model: str | None, **_: Any) -> None:
        super().__init__(lambda job: f"- The toy read messages of the {job.kind}.", recipe="toy/1")

    async def close(self) -> None:
        ToyProvider.closed = True


async def test_a_row_of_the_table_is_all_that_a_toy_provider_needs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(PROVIDERS, "openai", f"{__name__}:ToyProvider")
    log = (user(f"{number} " * 100) for number in range(300))
    async with begun(log, of=partial(Settings, summarizer="openai"), max_tokens=8_000) as context:
        await context.wait_idle()
        assert "The toy read messages" in str(await context.get_messages_for_request())
        assert context.statistics().model_calls > 0
    assert ToyProvider.closed


class Raising(dict[str, Any]):
    """Cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("secret")

    def get(self, *_: Any) -> Any:
        raise RuntimeError("secret")


def provider(config: Any = None, **defaults: Any) -> SimpleNamespace:
    info = SimpleNamespace(id="house", defaults={"context_window": 50_000, **defaults})
    return SimpleNamespace(name="house", config=config, get_info=lambda: info)


@pytest.mark.parametrize(
    ("told", "reserved"),
    [
        (provider(), 4_096),
        (provider({"max_tokens": 2_000}), 2_000),
        (provider({"max_tokens": 900}, max_output_tokens=700, max_tokens=800), 700),
        (provider({"max_tokens": 900}, max_tokens=800), 800),
        (provider({"max_tokens": 900}, max_tokens="many"), 900),
        (provider(SimpleNamespace(max_tokens=900)), 900),
        (provider({"max_tokens": -1}), 4_096),
        (provider("odd"), 4_096),
        (SimpleNamespace(**vars(provider({"max_tokens": 900})), get_model_info=lambda: 1 // 0), 900),
    ],
)
async def test_an_answer_has_the_room_that_the_model_or_its_configuration_says(told: Any, reserved: int) -> None:
    async with open_context() as context:
        await context.get_messages_for_request(provider=told)
        assert context.budget().max_tokens == 50_000 - reserved - 1_000


ODD = [{"name": Raising(a=1)}, {"get_info": lambda: {"defaults": Raising()}}, {"get_model_info": checkpoint}]


@pytest.mark.parametrize("told", ODD, ids=["name", "defaults", "awaited"])
async def test_a_provider_that_cannot_be_read_gets_its_view(told: dict[str, Any]) -> None:
    async with open_context() as context:
        await context.add_message({"role": "user", "content": "hello"})
        assert len(await context.get_messages_for_request(provider=SimpleNamespace(**told))) == 1


@pytest.mark.parametrize("name", ["recipe", "model", "host"])
async def test_a_summarizer_whose_attribute_raises_is_a_mistake_in_the_settings(name: str) -> None:
    odd: Any = type("Odd", (), {"summarize": print, name: property(lambda _: Raising().get())})()
    with pytest.raises(SettingsError, match=f"attribute {name} of the summarizer Odd raised RuntimeError") as caught:
        await open_context(summarizer=odd).__aenter__()
    assert "secret" not in str(caught.value)
    if name == "recipe":  # a method: all would be paid for again at each start
        odd = type("Odd", (), {"summarize": print, name: lambda self: "mine"})()
        with pytest.raises(SettingsError, match="recipe of Odd is a method"):
            await open_context(summarizer=odd).__aenter__()
