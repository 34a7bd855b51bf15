"""Evals with a model, recorded through both SDKs against the provider on the loopback and replayed without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from summarizing_context.errors import (
    CassetteError,
    CassetteMissError,
    SettingsError,
    SummarizerError,
)
from summarizing_context.evaluation import models
from summarizing_context.evaluation.cassettes import Cassette, Mode
from summarizing_context.evaluation.cassettes import Request as Asked
from summarizing_context.evaluation.models import RecordedModel
from summarizing_context.evaluation.retention import Log, SessionOutcome, run_log
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.providers import make_model
from tests.evaluation.sessions import write

from .protocols import KEY, MODEL, OPENAI, PROTOCOLS, Json, Protocol, spoken_at, system_text
from .serve import honest
from .server import Answer, ProviderServer, Request, serving, storm

pytestmark = pytest.mark.anyio
SDKS = (anthropic, openai)  # imported before the clock of a call runs
SMALL = {"segment_min": 150, "segment_target": 360, "segment_max": 600, "summary_max_tokens": 40}
ASKED = Asked(kind="reader", maker="m", system="Answer.", user=("Which port?",), max_tokens=50)


def kind_of(body: Json) -> str:
    return "rules" if system_text(body).startswith("You read what the human") else "segment"


def says(body: Json) -> str:
    """An honest summarizer."""
    return "none" if kind_of(body) == "rules" else honest(body)


def answering(request: Request, text: Callable[[Json], str] = says) -> Answer:
    said = text(request.body)
    reply = spoken_at(request.path).reply(said)
    return Answer(body=json.dumps(reply).encode())


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(write(tmp_path / "logs", 1, turns=16) / "session-1.jsonl", name="one")


def settings(protocol: Protocol, server: ProviderServer | None = None, **more: Any) -> Settings:
    base_url = None if server is None else protocol.base_url(server.root)
    model = {"summarizer": protocol.name, "model": MODEL, "base_url": base_url, "max_tokens": 1_500}
    return Settings(**{**SMALL, **model, **more})


async def ran(log: Log, settings: Settings, mode: Mode) -> SessionOutcome:
    with Cassette.open(log.path.parent / "c.jsonl", mode) as cassette:
        return await run_log(log, settings, cassette)


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for protocol in PROTOCOLS:
        monkeypatch.setenv(protocol.keys[0], KEY)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
async def test_a_recorded_model_is_asked_again_in_bad_weather(
    protocol: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(models, "_pause", lambda _: 0.0)
    faults = {0: storm("rate_limited"), 1: storm("overloaded")}
    async with serving(lambda request: faults.get(request.number) or answering(request, lambda _: "8080")) as server:
        with Cassette.open(tmp_path / "c.jsonl", "record") as cassette:
            model = make_model(settings(protocol, server), read_only=False)
            reply = await RecordedModel(model, cassette).ask(ASKED)
            await model.close()
    assert reply.text == "8080"
    assert len(server.requests) == 3


async def test_a_model_that_is_down_ends_the_recording_and_is_told(log: Log):
    async with serving(lambda _: Answer(401, body=b"{}")) as server:
        with pytest.raises(CassetteError, match=r"were not recorded \(.*401"):
            await ran(log, settings(OPENAI, server, attempts=1), "record")
        model = make_model(settings(OPENAI, server), read_only=False)
        cassette_file = log.path.parent / "c.jsonl"
        with Cassette.open(cassette_file, "record") as cassette, pytest.raises(SummarizerError, match="key"):
            await RecordedModel(model, cassette).ask(ASKED)
        await model.close()


async def test_summaries_that_are_not_recorded_are_no_stand_ins(log: Log):
    with Cassette.open(log.path.parent / "c.jsonl", "record") as cassette:
        await cassette.reply(ASKED, lambda _: _text("8080"))
    with pytest.raises(CassetteMissError, match=r"(segment|rules) request"):
        await ran(log, settings(OPENAI), "replay")
    with pytest.raises(SettingsError, match="through a cassette"):
        await run_log(log, settings(OPENAI))


async def _text(text: str) -> str:
    return text
