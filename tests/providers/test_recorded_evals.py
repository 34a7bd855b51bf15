"""Evals with a model, recorded through both SDKs against the provider on the loopback and replayed without it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import msgspec
import openai
import pytest

from summarizing_context.errors import (
    CassetteError,
    CassetteLimitError,
    CassetteMissError,
    SettingsError,
    SummarizerError,
)
from summarizing_context.evaluation import models
from summarizing_context.evaluation.cases.sources import read_case
from summarizing_context.evaluation.cassettes import Cassette, Mode
from summarizing_context.evaluation.models import CassetteFile, Chat, ModelPlan, RecordedModel
from summarizing_context.evaluation.outcomes import SessionOutcome
from summarizing_context.evaluation.requests import Caps
from summarizing_context.evaluation.requests import Request as Asked
from summarizing_context.evaluation.runner import Plan, run_case
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.providers import make_model

from .protocols import KEY, MODEL, OPENAI, PROTOCOLS, Json, Protocol, spoken_at, system_text
from .serve import honest
from .server import Answer, ProviderServer, Request, serving, storm

pytestmark = pytest.mark.anyio
SDKS = (anthropic, openai)  # imported before the clock of a call runs
WHOLE = read_case(Path(__file__).parents[2] / "evals" / "data" / "support-broken-import.jsonl", budget=1)
CASE = replace(WHOLE, probes=WHOLE.probes[::2])
SMALL = {"segment_min": 150, "segment_target": 360, "segment_max": 600, "summary_max_tokens": 40}
SMALL |= {
    "low_water": 0.16,
    "high_water": 0.85,
    "header_target": 0.12,
    "header_share": 0.28,
}  # cover whole segments only
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


def plan(path: Path, protocol: Protocol, server: ProviderServer | None = None, **settings: Any) -> Plan:
    model = {"summarizer": protocol.name, "model": MODEL}
    model["base_url"] = None if server is None else protocol.base_url(server.root)
    return Plan(Settings(**{**SMALL, **model, **settings}), ("tail", "everything"), CassetteFile(path / "c.jsonl"))


async def ran(plan: Plan, mode: Mode, caps: Caps | None = None) -> SessionOutcome:
    assert plan.cassette_file is not None
    with Cassette.open(plan.cassette_file.path, mode, caps=caps, today=lambda: "2026-11-21") as cassette:
        return await run_case(CASE, plan, cassette)


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for protocol in PROTOCOLS:
        monkeypatch.setenv(protocol.keys[0], KEY)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
async def test_what_was_recorded_is_replayed_to_the_byte_without_a_key(
    protocol: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with serving(answering) as server:
        recorded = await ran(plan(tmp_path, protocol, server), "record")
        kinds = [kind_of(request.body) for request in server.requests]
        assert await ran(plan(tmp_path, protocol, server), "record") == recorded
        assert len(server.requests) == len(kinds)
    assert kinds.count("segment") > 2
    assert KEY not in (tmp_path / "c.jsonl").read_text("utf8")
    monkeypatch.delenv(f"{protocol.name.upper()}_API_KEY")
    replayed = await ran(plan(tmp_path, protocol), "replay")
    assert msgspec.json.encode(replayed) == msgspec.json.encode(recorded)


async def test_lines_with_inventions_are_dropped_and_counted(tmp_path: Path):
    def inventing(body: Json) -> str:
        told = "## Done\n- The import was looked at, and the customer was answered.\n- Edited src/never/said.py"
        return told if kind_of(body) == "segment" else says(body)

    async with serving(partial(answering, text=inventing)) as server:
        recorded = await ran(plan(tmp_path, OPENAI, server), "record")
    of, sessions = recorded.sums["hierarchical"]["dropped_lines"]
    assert of > 1
    assert sessions == 1
    assert "dropped_lines" not in recorded.sums["tail"]
    assert recorded.sums["hierarchical"]["unsupported"][0] == 0


async def test_a_cap_and_an_interrupt_keep_what_was_recorded_and_it_goes_on(tmp_path: Path):
    async with serving(answering) as server:
        for _ in range(2):
            with pytest.raises(CassetteLimitError):
                await ran(plan(tmp_path, OPENAI, server), "record", caps=Caps(max_calls=1))
        stopped = len(server.requests)
        assert stopped == len(Cassette.open(tmp_path / "c.jsonl")) == 2
        whole = await ran(plan(tmp_path, OPENAI, server), "record")
    assert len(server.requests) == len(Cassette.open(tmp_path / "c.jsonl")) > 2
    assert await ran(plan(tmp_path, OPENAI), "replay") == whole


async def test_a_forecast_needs_no_key_and_tells_what_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with serving(answering) as server:
        await ran(plan(tmp_path, OPENAI, server), "record")
        monkeypatch.delenv("OPENAI_API_KEY")
        other = CassetteFile(tmp_path / "other.jsonl")
        with Cassette.open(other.path, "forecast") as cassette:
            await run_case(CASE, replace(plan(tmp_path, OPENAI, server), cassette_file=other), cassette)
    firsts = [one.body for one in server.requests if "last answer could not be used" not in system_text(one.body)]
    assert cassette.spent.by_kind["segment"] == Counter(map(kind_of, firsts))["segment"] > 2
    assert not other.path.exists()


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
async def test_a_recorded_model_is_asked_again_in_bad_weather(
    protocol: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(models, "_backoff", lambda _: 0.0)
    faults = {0: storm("rate_limited"), 1: storm("overloaded")}
    async with serving(lambda request: faults.get(request.number) or answering(request, lambda _: "8080")) as server:
        settings = Settings(summarizer=protocol.name, model=MODEL, base_url=protocol.base_url(server.root))
        chat = Chat(provider=protocol.name, model=MODEL)
        with Cassette.open(tmp_path / "c.jsonl", "record") as cassette:
            model = make_model(settings, read_only=False)
            reply = await RecordedModel(model, cassette, ModelPlan(reader=chat, judge=chat)).ask(ASKED)
            await model.close()
    assert reply.text == "8080"
    assert len(server.requests) == 3


async def test_a_model_that_is_down_ends_the_recording_and_is_told(tmp_path: Path):
    async with serving(lambda _: Answer(401, body=b"{}")) as server:
        with pytest.raises(CassetteError, match=r"were not recorded \(.*401"):
            await ran(plan(tmp_path, OPENAI, server, attempts=1), "record")
        model = make_model(plan(tmp_path, OPENAI, server).settings, read_only=False)
        chat = Chat(provider=OPENAI.name, model=MODEL)
        with Cassette.open(tmp_path / "c.jsonl", "record") as cassette, pytest.raises(SummarizerError, match="key"):
            await RecordedModel(model, cassette, ModelPlan(reader=chat, judge=chat)).ask(ASKED)
        await model.close()


async def test_summaries_that_are_not_recorded_are_no_stand_ins(tmp_path: Path):
    with Cassette.open(tmp_path / "c.jsonl", "record") as cassette:
        await cassette.reply(ASKED, lambda _: _text("8080"))
    with pytest.raises(CassetteMissError, match=r"(segment|rules) request"):
        await ran(plan(tmp_path, OPENAI), "replay")
    with pytest.raises(SettingsError, match="through a cassette"):
        await run_case(CASE, Plan(Settings(summarizer="openai", model=MODEL)))


async def _text(text: str) -> str:
    return text
