"""Failures are told: one warning, the last error for every process that looks, and no endless paid calls."""

import logging
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

from summarizing_context import Settings, SummarizerError, SummarizingContext, SummaryJob, open_context
from summarizing_context.cli import main
from summarizing_context.contrib.inspector import inspector_app
from summarizing_context.testing import ScriptedSummarizer, default_summary
from tests.behaviour import contexts
from tests.behaviour.contexts import said
from tests.providers.serve import serving_apart
from tests.providers.server import Answer, ProviderServer

KEY, MODEL, SECRET = "sk-secret-0123456789", "model-of-the-test", "launch-code-7431"
SMALL: dict[str, Any] = {"max_tokens": 2_000, "segment_min": 200, "segment_target": 400, "segment_max": 800}
SMALL |= {"token_counter": "estimate", "idle_after": "never"}
REFUSED = "the provider refuses the key"


async def fill(context: SummarizingContext, last: int = 60, first: int = 0) -> None:
    parts = (" ".join(f"step{at} looked at part {n} of the build" for n in range(20)) for at in range(first, last))
    log = (said(at, f"[{at}] {SECRET} {words}.") for at, words in enumerate(parts, first))
    await contexts.fill(context, log, every=1)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    ours = [one for one in caplog.records if one.name.startswith("summarizing_context")]
    return [one.getMessage() for one in ours if one.levelno >= logging.WARNING]


def model_of(reply: Callable[[SummaryJob], Any]) -> ScriptedSummarizer:
    """A model that answers as `reply` says, and finds no rules."""
    return ScriptedSummarizer(lambda job: "none" if job.kind == "rules" else reply(job), recipe="model/of-the-test")


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
        parts = (one.root.removeprefix("http://"), MODEL, str(status), "check")
        assert [part for part in parts if part not in warning] == []
        assert not any(secret in caplog.text for secret in (KEY, SECRET))
    assert (figures.breaker, figures.summaries_pending > 0, "check" in str(figures.last_error)) == ("open", True, True)


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
                figures, looked = reader.statistics(), (await reader.handle_command("status")).text
    assert all(part in text for text in (figures.last_error, looked) for part in (MODEL, REFUSED))
    assert (figures.last_error_at in looked, figures.summaries_failed > 0) == (True, True)
    inspector = httpx.ASGITransport(app=inspector_app(store, settings=settings))
    async with httpx.AsyncClient(transport=inspector, base_url="http://127.0.0.1:8378") as client:
        page = (await client.get("/api/session", params={"id": "s1"})).json()
    assert (REFUSED in page["failure"], page["failed"]) == (True, figures.summaries_failed)
    assert await anyio.to_thread.run_sync(main, ["status", "s1", "--store", str(store)]) == 0
    shown = capsys.readouterr().out
    assert all(part in shown for part in (REFUSED, f"{figures.summaries_failed} failed"))


async def test_an_outage_is_warned_of_once_and_again_only_after_a_recovery(caplog: pytest.LogCaptureFixture):
    is_down = True

    def reply(job: SummaryJob) -> Any:
        return SummarizerError("down") if is_down else default_summary(job)

    async def until(found: Callable[[], bool]) -> None:
        with anyio.fail_after(60):
            while not found():  # noqa: ASYNC110 - what a summarizer does in the background
                await anyio.sleep(0.01)

    settings, model = Settings(**SMALL, breaker_failures=1, breaker_cooldown=0.01, attempts=1), model_of(reply)
    async with open_context(settings, summarizer=model) as context:
        await fill(context)
        await until(lambda: len(model.jobs) > 10)
        assert len(warnings(caplog)) == 1
        is_down = False
        await until(lambda: context.statistics().summaries_pending == 0)
        assert await context.wait_idle(60)
        is_down = True
        await fill(context, 90, first=60)
        await until(lambda: len(warnings(caplog)) == 2)


@pytest.mark.parametrize("refuses", [False, True])
async def test_waiting_says_whether_anything_is_missing(refuses: bool):
    model = model_of(lambda job: "" if refuses and job.start < 5 and job.kind == "segment" else default_summary(job))
    async with open_context(Settings(**SMALL), summarizer=model) as context:
        await fill(context)
        assert await context.wait_idle(60) is not refuses
        assert (context.statistics().summaries_pending > 0) is refuses


async def test_replies_that_make_things_up_stop_the_calls():
    invented = "## Done\n- /srv/no/such/file.py:4711 was deployed to 10.9.8.7 with `--no-such-flag=99`."
    model = model_of(lambda job: invented)
    async with open_context(Settings(**SMALL, breaker_cooldown=3_600, concurrency=4), summarizer=model) as context:
        await fill(context, 150)
        assert await context.wait_idle(60) is False
        figures = context.statistics()
    assert (figures.breaker, figures.segments > 30, figures.refused_replies > 0) == ("open", True, True)
    assert len([job for job in model.jobs if job.kind != "rules"]) <= 4 * 2 + 4


async def test_one_content_that_is_refused_again_and_again_stops_nothing(caplog: pytest.LogCaptureFixture):
    model = model_of(lambda job: "" if "[4]" in job.content else default_summary(job))
    async with open_context(Settings(**SMALL, breaker_cooldown=0), summarizer=model) as context:
        await fill(context)
        with anyio.fail_after(60):
            while sum("[4]" in job.content for job in model.jobs) < 8:
                await context.wait_idle(0.05)
                await anyio.sleep(0.01)
        assert context.statistics().breaker == "closed"
    assert warnings(caplog) == []


async def test_a_reached_cap_is_warned_of_once_and_views_go_on(caplog, tmp_path):
    model = model_of(default_summary)
    settings = Settings(**SMALL, store=tmp_path / "run.db", max_calls_per_hour=5)
    async with open_context(settings, summarizer=model) as context:
        await fill(context, 100)
        assert await context.wait_idle(60) is False
        told = (await context.handle_command("status")).text
        async with open_context(settings, read_only=True) as reader:
            elsewhere = reader.statistics().last_error
        assert (len(model.jobs), context.statistics().stand_ins > 0, "reached" in told) == (5, True, True)
    (warning,) = [one for one in warnings(caplog) if "reached" in one]
    assert all("max_calls_per_hour = 5" in text for text in (warning, elsewhere))
    assert Settings.from_env(environ={"SUMMARIZING_CONTEXT_MAX_CALLS_PER_HOUR": "none"}).max_calls_per_hour is None
