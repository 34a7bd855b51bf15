"""The MCP server through the package's own client: in process and over stdio, beside a live writer."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client, MCPError, StdioServerParameters, stdio_client

from summarizing_context import Settings, open_context
from summarizing_context.adapters.mcp import make_server
from tests.behaviour.contexts import fill
from tests.docs.checkout import ROOT
from tests.laws.builders import assistant, user
from tests.providers.protocols import KEY, MODEL, OPENAI
from tests.providers.server import Answer, serving

FACT = "The port of the staging database is 6543."


@asynccontextmanager
async def writing(store: Path, session: str = "s1", fact: str = FACT, **settings: Any) -> AsyncIterator[Any]:
    """A session with a covered past, that its writer still has open."""
    async with open_context(Settings(store=store, session_id=session, max_tokens=4_000, **settings)) as context:
        await fill(context, [user(fact), *(assistant(f"Step {at}: " + "I read src/app.py. " * 20) for at in range(60))])
        await context.get_messages_for_request()
        yield context


def serve(store: Path, session: str | None = None) -> Any:
    return Client(make_server(Settings(store=store), session))


async def ask(client: Client, tool: str, *, refused: bool = False, **arguments: Any) -> str:
    """The answer of `context_<tool>`, which is well or `refused`."""
    result = await client.call_tool(f"context_{tool}", arguments)
    text: str = result.content[0].text
    assert bool(result.is_error) is refused, text
    return text


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


async def test_over_stdio_beside_the_writer(store, tmp_path):
    """Each tool finds the past, also what the writer adds meanwhile."""
    command = f"-m summarizing_context mcp --store {store} --session s1 --json {tmp_path / 'at'}"
    server = StdioServerParameters(command=sys.executable, args=command.split(), cwd=ROOT)
    async with writing(store) as writer, Client(stdio_client(server)) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == {"context_recall", "context_search", "context_expand", "context_compact"}
        assert "Noted" in await ask(client, "compact", keep="port 6543")
        assert "Nothing was done" in await ask(client, "compact", note="?", refused=True)
        assert "6543" in await ask(client, "recall", query="staging database port")
        assert "message s1 0: " in await ask(client, "search", query="staging port")
        assert FACT in await ask(client, "expand", range="0-3")
        await writer.add_message(user("The release is called Heron."))
        assert "Heron" in await ask(client, "expand", range=str(len(writer) - 1))
        assert f"message s1 {len(writer) - 1}: " in await ask(client, "search", query="Heron")
    assert json.loads((tmp_path / "at").read_text())["serves"] == "mcp"


async def test_nothing_is_written(store):
    async with writing(store):
        pass
    before = store.read_bytes()
    async with serve(store) as client:
        assert all(tool.annotations.read_only_hint for tool in (await client.list_tools()).tools)
        await ask(client, "recall", query="staging database port")
        await ask(client, "search", query="staging", scope="all")
    assert store.read_bytes() == before


async def test_without_a_session_calls_choose_one_and_the_last_changed_stands_first(store):
    old, new = writing(store, "old", FACT, project="shop"), writing(store, "new", "The port is 7777.", project="shop")
    async with old, new, serve(store) as client:
        assert (await ask(client, "expand", range="0")).startswith("Session 'new' of 61 messages")
        assert "7777" in await ask(client, "recall", query="which port")
        assert "6543" in await ask(client, "recall", query="which port", session="old")
        both = await ask(client, "search", query="port", scope="project")
        assert all(f"message {name} 0: " in both for name in ("old", "new"))
        assert "changed last: new, old" in await ask(client, "expand", range="0", session="other", refused=True)


async def test_a_server_of_one_session_reads_no_other(store):
    mine, other = writing(store, "mine", "Nothing is here."), writing(store, "other")
    async with mine, other, serve(store, "mine") as client:
        for tool in (await client.list_tools()).tools:
            assert not {"session", "scope"} & tool.input_schema["properties"].keys()
        assert "Nothing holds" in await ask(client, "search", query="staging")
        for tool, given in (("recall", {"session": "other"}), ("search", {"scope": "all"})):
            words = await ask(client, tool, query="staging", refused=True, **given)
            assert f"no argument '{next(iter(given))}'" in words


async def test_wrong_arguments_are_explained_to_the_model(store):
    async with writing(store), serve(store, "s1") as client:
        for tool, given, words in (
            ("recall", {}, "`query` is missing"),
            ("expand", {"range": "70-90"}, "it has the messages 0 to 60"),
            ("expand", {"range": "0", "detail": "all"}, "`detail` is one of"),
            ("recall", {"query": "port", "max_tokens": "many"}, "`max_tokens` is a number from 1 to 4,000"),
            *(("search", {"query": "port", "limit": limit}, "from 1 to 50") for limit in (0, -3, "some", True)),
        ):
            assert words in await ask(client, tool, refused=True, **given)
        with pytest.raises(MCPError, match="there is no tool 'forget'"):
            await client.call_tool("forget", {})


async def test_the_summaries_of_the_writer_are_read_with_its_settings_and_without(store):
    async with serving(lambda _: Answer(model=lambda body: "- The user told of a heron.")) as provider:
        place = {"summarizer": "openai", "model": MODEL, "api_key": KEY, "base_url": OPENAI.base_url(provider.root)}
        async with writing(store, **place) as writer:
            await writer.wait_idle()
            asked = len(provider.requests)
            for server in (Client(make_server(Settings(store=store, **place))), serve(store)):
                async with server as client:
                    assert "heron" in await ask(client, "expand", range="0-30", detail="paragraph")
            assert len(provider.requests) == asked
