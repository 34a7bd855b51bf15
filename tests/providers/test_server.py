"""The SDKs against the server on the loopback: what only a real connection shows."""

import asyncio
import threading
import tracemalloc
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.errors import SettingsError, SummarizerError, SummarizerRefused, SummarizerTimeout
from summarizing_context.summarizers.base import SummaryReply
from summarizing_context.summarizers.sdk import Fault
from summarizing_context.summarizers.verification import Refusal
from tests.summarizers.scripted import job

from .protocols import KEY, MODEL, PROTOCOLS, Protocol
from .server import Answer, ProviderServer, serving

pytestmark = pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)


async def ask(protocol: Protocol, server: ProviderServer, *, times: int = 1, **options: Any) -> list[SummaryReply]:
    summarizer = protocol.made(base_url=protocol.base_url(server.root), **options)
    try:
        return [await summarizer.summarize(job()) for _ in range(times)]
    finally:
        await summarizer.close()


async def test_the_server_answers_in_the_protocol_and_one_connection_serves_many_calls(protocol):
    async with serving() as server:
        replies = await ask(protocol, server, times=3)
        assert {reply.text for reply in replies} == {replies[0].text}
        assert replies[0].text.startswith("## Done")
        assert [request.path for request in server.requests] == [protocol.path] * 3
        assert len(server.connections) <= 1


@pytest.mark.parametrize("ending", ["stall", "cut", "reset"])
async def test_a_fault_on_the_wire_is_an_error_and_one_call(protocol, ending):
    kind, fault = (SummarizerTimeout, Fault.TIMEOUT) if ending == "stall" else (SummarizerError, Fault.CONNECTION)
    async with serving(lambda _: Answer(ending=ending)) as server:
        with anyio.fail_after(120), pytest.raises(SummarizerError) as caught:
            await ask(protocol, server, timeout=0.1 if ending == "stall" else 60.0)
        assert (type(caught.value), caught.value.args, len(server.requests)) == (kind, (fault,), 1)


@pytest.mark.parametrize("status", [200, 500])
async def test_a_body_of_100_mb_is_not_taken_into_memory(protocol, status):
    async with serving(lambda _: Answer(status, ending="flood")) as server:
        tracemalloc.start()
        try:
            with pytest.raises(SummarizerError) as caught:
                await ask(protocol, server)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert caught.value.args == ((Refusal.TOO_LARGE if status == 200 else Fault.SERVER),)
        assert isinstance(caught.value, SummarizerRefused) == (status == 200)
        assert server.flooded < 50_000_000
        assert peak < 60_000_000  # the SDK's own modules are among it


async def test_a_call_that_is_cancelled_ends_at_once_and_leaves_nothing(protocol):
    before = asyncio.all_tasks()
    async with serving(lambda _: Answer(ending="stall")) as server:
        summarizer = protocol.made(base_url=protocol.base_url(server.root))
        with anyio.move_on_after(0.2) as scope:
            await summarizer.summarize(job())
        assert scope.cancelled_caught
        await summarizer.close()
    if left := asyncio.all_tasks() - before:  # the server's own, of a connection, may need some turns of the loop
        await asyncio.wait(left, timeout=30)
    assert asyncio.all_tasks() == before


def settings(protocol: Protocol, **changes: Any) -> Settings:
    return Settings(**{"session_id": "s", "summarizer": protocol.name, "model": MODEL, "api_key": KEY, **changes})


async def test_without_a_model_or_a_key_a_context_is_not_opened_but_to_be_read(protocol, monkeypatch, tmp_path):
    keyless = settings(protocol, store=str(tmp_path / "run.db"), api_key=None)
    for variable in protocol.keys:
        monkeypatch.delenv(variable, raising=False)
    no_model = f"'{protocol.name}' needs a model .* for example model = '[a-z]"
    for wrong, said in ((settings(protocol, model=None), no_model), (keyless, protocol.keys[0])):
        with pytest.raises(SettingsError, match=said):
            await open_context(wrong).__aenter__()
    for variable in protocol.keys:
        with monkeypatch.context() as one:
            one.setenv(variable, KEY)
            async with open_context(keyless) as context:
                await context.add_message({"role": "user", "content": "hello"})
    async with open_context(keyless, read_only=True) as context:
        assert len(await context.get_messages()) == len(protocol.keys)


async def test_a_context_closes_its_summarizer(protocol):
    threads = set(threading.enumerate())
    async with serving() as server:
        place = protocol.base_url(server.root)
        async with open_context(settings(protocol, base_url=place, max_tokens=4_000)) as context:
            for number in range(120):
                await context.add_message({"role": "user", "content": f"part {number} " + "of the work " * 80})
            assert await context.wait_idle(120)
            assert context.statistics().model_calls == len(server.requests) > 0
            assert context.statistics().model_input_tokens == 900 * len(server.requests)
            assert server.connections
        if server.connections:  # each ends when it sees that its client has gone
            await asyncio.wait(server.connections, timeout=120)
        assert not server.connections
    left = {thread.name for thread in set(threading.enumerate()) - threads}
    assert {name for name in left if not name.startswith(("AnyIO worker", "asyncio_"))} == set()  # of the loop itself
