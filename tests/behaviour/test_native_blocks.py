"""With `native = "prefer"` a view begins with the block that its provider has written; without one it is as ever."""

import asyncio
import logging
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from summarizing_context import Settings, SettingsError, SummarizingContext, message_text_parts, open_context
from summarizing_context.contrib.proxy.server import ProxySettings, make_app
from tests.behaviour.contexts import Provider
from tests.laws.builders import Message, Script, assistant, count, system, user
from tests.providers.compacting import BETA, Compacting
from tests.providers.server import Answer, ProviderServer, Request, serving

MODEL = "claude-opus-5-5"
TOOLS = [{"name": name, "description": "…", "input_schema": {"type": "object"}} for name in ("read", "run", "search")]
SYSTEM = "You are a careful helper."


def opened(server: ProviderServer, redact: Any = None, **changed: Any) -> Any:
    sizes = {"segment_min": 200, "segment_target": 400, "segment_max": 800, "summary_max_tokens": 40}
    given = {"summarizer": "anthropic", "model": MODEL, "base_url": server.root, "api_key": "sk-test"}
    given |= {"max_tokens": 3_000, "native": "prefer", "breaker_cooldown": 3_600.0}
    return open_context(Settings(**{**sizes, **given, **changed}), count_tokens=count, redact=redact)


async def view_of(context: SummarizingContext, *where: Any) -> list[Message]:
    return await context.get_messages_for_request(*where, tools=TOOLS)


def block_of(view: list[Message]) -> Message | None:
    """The block with which a view begins, behind the system prompt."""
    first = view[1]["content"]
    return first[0] if isinstance(first, list) and first[0].get("type") == "compaction" else None


def texts(view: list[Message]) -> list[str]:
    return [text for message in view for text in message_text_parts(message)]


async def play(context: SummarizingContext, server: ProviderServer, rows: list[Message]) -> list[list[Message]]:
    """Add the rows of a session, and send the view before each answer of the model. Return the views."""
    views, sent = [], {"model": MODEL, "max_tokens": 500, "system": SYSTEM, "tools": TOOLS}
    async with httpx.AsyncClient(base_url=server.root, headers={"anthropic-beta": BETA}, trust_env=False) as client:
        for row in rows:
            if row["role"] == "assistant":
                views.append(view := await view_of(context))
                assert view[0]["content"] == SYSTEM
                (await client.post("/v1/messages", json={**sent, "messages": view[1:]})).raise_for_status()
            await context.add_message(row)
            await context.wait_idle(5)
    return views


def session(turns: int, seed: int = 3) -> list[Message]:
    """A session whose parallel calls are answered in one row, as the provider wants it."""
    script = Script(seed, dialect="anthropic", size=40)
    rows = [system(SYSTEM), user("Build the shop."), assistant("I begin.")]
    rows += [user("Never push to main."), assistant("Understood.")]
    for row in (row for _ in range(turns) for row in script.turn()):
        is_result = row["role"] == "user" and isinstance(row["content"], list)
        if is_result and rows[-1]["role"] == "user":
            rows[-1]["content"] += row["content"]
        else:
            rows.append(row)
    return rows


async def test_views_begin_with_the_block_and_grow_and_the_provider_refuses_none():
    provider = Compacting()
    async with serving(provider) as server, opened(server) as context:
        views = await play(context, server, session(34))
        activations = context.activations()
        nodes = context.explain()
    assert provider.refused == []
    assert len(activations) > 4
    assert provider.carried > 20
    assert len(provider.asked) >= 3

    # what the provider is asked is what it was sent, and the next block stands for the last
    last = provider.asked[-1]
    assert last["messages"][0]["content"][0]["type"] == "compaction"
    assert any(view[1 : 1 + len(last["messages"])] == last["messages"] for view in views)
    assert (last["system"], last["tools"]) == ([{"type": "text", "text": SYSTEM}], TOOLS)
    assert all(part in last["compaction"]["instructions"] for part in ("Never push to main", '<summary messages="'))

    # a view changes its beginning at activations only, and says in words what another reader needs
    changes = sum(after[: len(before)] != before for before, after in pairwise(views))
    assert changes <= len(activations)
    assert any("<standing_rules>" in text and "Never push to main" in text for text in texts(views[-1]))
    assert all(sum(map(count, texts(view))) <= 3_000 for view in views)

    # the block stands for the oldest messages; the summaries of what it covers are there too
    assert [node.made_by for node in nodes].count("provider") == 1
    assert nodes[0].text.startswith("The provider's own words")


async def test_a_block_is_asked_for_once_what_it_covers_has_been_summarized():
    provider, may_answer = Compacting(), asyncio.Event()

    def held(request: Request) -> Answer:
        is_summary = not request.body.get("tools")
        return replace(provider(request), after=may_answer if is_summary else None)

    async with serving(held) as server, opened(server) as context:
        rows = iter(session(14))
        while context.last_view is None or context.last_view.tokens < 2_450:  # then an activation is near
            await context.add_message(next(rows))
            await view_of(context)
            await context.wait_idle(0.02)
        assert context.statistics().summaries_pending > 1
        assert provider.asked == []
        may_answer.set()
        await context.wait_idle(5)
        [asked] = provider.asked
        covered = len([SYSTEM, *asked["messages"]])
    places = [tuple(map(int, place)) for place in re.findall(r'<summary messages="(\d+)-(\d+)"', str(asked))]
    assert [start for start, _ in places] == [1, *(stop + 1 for _, stop in places[:-1])]
    assert places[-1][1] == covered - 1


async def test_a_block_survives_a_restart_is_paid_once_and_is_read_by_its_own_model_alone(tmp_path: Path):
    """Also before a view has shown it, after an undo and a narrow request, but not where what it covers is edited. Any
    other provider or model reads summaries, and so does the next view where the setting is switched off."""
    provider, rows, at = Compacting(), session(42), 0
    kept = {"store": tmp_path / "s.db", "max_tokens": 4_000}
    async with serving(provider) as server:
        async with opened(server, **kept) as context:
            while not provider.asked:
                await play(context, server, rows[at : at + 1])
                at += 1
            assert block_of(await view_of(context)) is None
        async with opened(server, **kept) as context:
            await view_of(context)
            await context.wait_idle(5)
            await context.compact()
            assert (block_of(await view_of(context)) is not None, len(provider.asked)) == (True, 1)
            await play(context, server, rows[at:120])
            paid = len(provider.asked)
            before = await view_of(context)
        assert block_of(before) is not None
        async with opened(server, **kept) as context:
            assert await view_of(context) == before
            await context.wait_idle(5)
            await context.compact()
            before = await view_of(context)
            assert len(provider.asked) == paid
            await context.summarize(keep_recent=4)
            await context.undo_activation()
            assert await view_of(context) == before
            await play(context, server, rows[120:130])
            assert sum(map(count, texts(await view_of(context, 1_200)))) <= 1_200
            assert rows[6]["role"] == "assistant"
            await context.set_messages([*rows[:6], assistant("Something else was said here."), *rows[7:130]])
            assert block_of(await view_of(context)) is None
            await play(context, server, rows[130:])
            assert block_of(await view_of(context)) is not None
            for name, model in (("openai", MODEL), ("anthropic", "claude-haiku-5-5")):
                view = await view_of(context, 6_000, Provider(name, model, context_window=11_096))
                assert block_of(view) is None
                assert any("<summary messages=" in text for text in texts(view))
            await view_of(context)
        async with opened(server, **kept, native="off") as context:
            assert block_of(view := await view_of(context)) is None
            assert context.activations()[-1].reason == "provider_changed"
            assert await view_of(context) == view
    assert provider.refused == []


async def test_without_a_block_views_are_as_ever_and_never_wait(caplog: pytest.LogCaptureFixture):
    views, rows = [], session(10)
    for native, ending in (("off", "whole"), ("prefer", "whole"), ("prefer", "stall")):
        provider = Compacting(fails=lambda ending=ending: Answer(500, body=b"{}", ending=ending))
        caplog.clear()
        limit = 1.0 if ending == "stall" else 60.0  # seconds
        async with serving(provider) as server, opened(server, native=native, call_timeout=limit) as context:
            views.append(await play(context, server, rows))
            told = context.statistics().last_error
        assert provider.refused == []
        assert views[-1] == views[0]
        assert bool(provider.asked) == (native == "prefer")
        warned = [one for one in caplog.records if "no block by" in one.getMessage() and one.levelno == logging.WARNING]
        assert len(warned) == (native == "prefer")
        assert native == "off" or ending == "stall" or "no block by anthropic itself" in str(told)


async def test_where_no_block_could_be_shown_opening_says_so():
    async with serving(Compacting()) as server:
        for changed in ({"summarizer": "extractive"}, {"summarizer": "openai"}, {"redact": str.upper}):
            with pytest.raises(SettingsError, match="native = 'prefer'"):
                async with opened(server, **changed):
                    pass
    with pytest.raises(SettingsError, match="native = 'prefer' is not for the proxy"):
        make_app(ProxySettings(Settings(native="prefer")), "127.0.0.1")
