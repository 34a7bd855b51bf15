"""Failures are told: one warning, the last error for every process that looks, and no endless paid calls."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from summarizing_context import Settings, SummarizerError, SummarizingContext, SummaryJob, open_context
from summarizing_context.cli import main
from summarizing_context.contrib.inspector import inspector_app
from summarizing_context.testing import ScriptedSummarizer, range_name
from tests.behaviour import contexts
from tests.behaviour.contexts import said
from tests.providers.serve import serving_apart
from tests.providers.server import Answer, ProviderServer

KEY, MODEL, SECRET = "sk-secret-0123456789", "model-of-the-test", "launch-code-7431"
SMALL: dict[str, Any] = {"max_tokens": 2_000, "segment_min": 200, "segment_target": 400, "segment_max": 800}
SMALL |= {"token_counter": "estimate", "idle_after": "never"}
REFUSED = "the provider refuses the key"


def log(first: int, last: int) -> list[dict[str, Any]]:
    parts = [" ".join(f"step{at} looked at part {n} of the build" for n in range(20)) for at in range(first, last)]
    return [said(at, f"[{at}] {SECRET} {words}.") for at, words in enumerate(parts, first)]


async def fill(context: SummarizingContext, messages: int = 60) -> None:
    await contexts.fill(context, log(0, messages), every=1)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    ours = [one for one in caplog.records if one.name.startswith("summarizing_context")]
    return [one.getMessage() for one in ours if one.levelno >= logging.WARNING]


def model_of(reply: Callable[[SummaryJob], str]) -> ScriptedSummarizer:
    """A model that answers as `reply` says, and finds no rules."""
    return ScriptedSummarizer(lambda job: "none" if job.kind == "rules" else reply(job), recipe="model/of-the-test")


def good(job: SummaryJob) -> str:
    return f"## Done\n- The build was looked at, in part {range_name(job.range_hash)}."


def on(server: ProviderServer, summarizer: str = "openai", **given: Any) -> Settings:
    """Settings of a model at this server."""
    base_url = f"{server.root}/v1" if summarizer == "openai" else server.root
    return Settings(summarizer=summarizer, model=MODEL, base_url=base_url, api_key=KEY, **SMALL, **given)


@pytest.mark.parametrize("status", [401, 403, 404])
@pytest.mark.parametrize("summarizer", ["openai", "anthropic"])
async def test_a_wrong_key_or_model_is_one_warning_and_ends_the_calls(caplog, tmp_path, summarizer, status):
    with serving_apart(lambda _: Answer(status)) as one:
        async with open_context(on(one, summarizer, store=tmp_path / "run.db", concurrency=1)) as context:
            await fill(context)
            assert await context.wait_idle(60) is False, "all are missing"
            figures = context.statistics()
        assert len(one.requests) <= 2, "a summary, and standing rules at the same time"
        (warning,) = warnings(caplog)
        for part in (one.root.removeprefix("http://"), MODEL, str(status), "check"):
            assert part in warning
        assert not any(secret in caplog.text for secret in (KEY, SECRET))
    assert figures.breaker == "open"
    assert figures.summaries_pending > 0
    assert "check" in str(figures.last_error)


async def test_another_process_sees_the_last_error_and_when_it_happened(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "300")
    store = tmp_path / "run.db"
    with serving_apart(lambda _: Answer(401)) as one:
        settings = on(one, store=store, session_id="s1")
        async with open_context(settings) as context:
            await fill(context)
            await context.wait_idle(60)
            assert REFUSED in (await context.handle_command("status")).text
            async with open_context(settings, read_only=True) as reader:
                figures = reader.statistics()
                looked = await reader.handle_command("status")
    assert all(part in text for text in (figures.last_error, looked.text) for part in (MODEL, REFUSED))
    assert figures.last_error_at in looked.text
    assert figures.summaries_failed > 0
    inspector = httpx.ASGITransport(app=inspector_app(store, settings=settings))
    async with httpx.AsyncClient(transport=inspector, base_url="http://127.0.0.1:8378") as client:
        page = (await client.get("/api/session", params={"id": "s1"})).json()
    assert REFUSED in page["failure"]
    assert page["failed"] == figures.summaries_failed
    assert await anyio.to_thread.run_sync(main, ["status", "s1", "--store", str(store)]) == 0
    shown = capsys.readouterr().out
    assert REFUSED in shown
    assert f"{figures.summaries_failed} failed" in shown


async def test_an_outage_is_warned_of_once_and_again_only_after_a_recovery(caplog: pytest.LogCaptureFixture):
    is_down = True

    def reply(job: SummaryJob) -> str:
        if is_down:
            raise SummarizerError("down")
        return good(job)

    async def until(found: Callable[[], bool]) -> None:
        with anyio.fail_after(60):
            while not found():  # noqa: ASYNC110 - what a summarizer does in the background
                await anyio.sleep(0.01)

    settings = Settings(**SMALL, breaker_failures=1, breaker_cooldown=0.01, attempts=1)
    model = model_of(reply)
    async with open_context(settings, summarizer=model) as context:
        await fill(context)
        await until(lambda: len(model.jobs) > 10)
        assert len(warnings(caplog)) == 1
        is_down = False
        await until(lambda: context.statistics().summaries_pending == 0)
        assert await context.wait_idle(60)
        is_down = True
        await contexts.fill(context, log(60, 90), every=1)
        await until(lambda: len(warnings(caplog)) == 2)


async def test_waiting_says_whether_anything_is_missing():
    async with open_context(Settings(**SMALL), summarizer=model_of(good)) as context:
        await fill(context)
        assert await context.wait_idle(60) is True
        assert context.statistics().summaries_pending == 0

    def refuse(job: SummaryJob) -> str:
        return "" if job.start < 5 and job.kind == "segment" else good(job)

    async with open_context(Settings(**SMALL), summarizer=model_of(refuse)) as context:
        await fill(context)
        assert await context.wait_idle(60) is False
        assert context.statistics().summaries_pending > 0


async def test_replies_that_make_things_up_stop_the_calls():
    invented = "## Done\n- /srv/no/such/file.py:4711 was deployed to 10.9.8.7 with `--no-such-flag=99`."
    model = model_of(lambda job: invented)
    async with open_context(Settings(**SMALL, breaker_cooldown=3_600, concurrency=4), summarizer=model) as context:
        await fill(context, 150)
        assert await context.wait_idle(60) is False
        figures = context.statistics()
    assert figures.segments > 30
    assert figures.breaker == "open"
    assert figures.refused_replies > 0
    assert len([job for job in model.jobs if job.kind != "rules"]) <= 4 * 2 + 4


async def test_one_content_that_is_refused_again_and_again_stops_nothing(caplog: pytest.LogCaptureFixture):
    model = model_of(lambda job: "" if "[4]" in job.content else good(job))
    async with open_context(Settings(**SMALL, breaker_cooldown=0), summarizer=model) as context:
        await fill(context)
        with anyio.fail_after(60):
            while sum("[4]" in job.content for job in model.jobs) < 8:
                await context.wait_idle(0.05)
                await anyio.sleep(0.01)
        assert context.statistics().breaker == "closed"
    assert warnings(caplog) == []


async def test_paid_calls_have_a_default_cap_that_settings_raise_or_disable(tmp_path: Path):
    assert Settings().max_calls_per_hour == 1_000
    config = tmp_path / "agent.toml"
    config.write_text('[summarizing_context]\nmax_calls_per_hour = "none"\n')
    assert Settings.load(config).max_calls_per_hour is None
    assert Settings(max_calls_per_hour=5_000).max_calls_per_hour == 5_000


async def test_a_reached_cap_is_warned_of_once_and_views_go_on(caplog, tmp_path):
    model = model_of(good)
    settings = Settings(**SMALL, store=tmp_path / "run.db", max_calls_per_hour=5)
    async with open_context(settings, summarizer=model) as context:
        await fill(context, 100)
        assert await context.wait_idle(60) is False
        assert context.statistics().stand_ins > 0
        told = await context.handle_command("status")
        async with open_context(settings, read_only=True) as reader:
            elsewhere = reader.statistics().last_error
    assert len(model.jobs) == 5
    (warning,) = [one for one in warnings(caplog) if "reached" in one]
    assert "max_calls_per_hour = 5" in warning
    assert "reached" in told.text
    assert "max_calls_per_hour = 5" in elsewhere
