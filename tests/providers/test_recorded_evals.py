"""Evals with a model, recorded through both SDKs against the provider on the loopback and replayed without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import msgspec
import openai
import pytest

from summarizing_context.evaluation.answering.plan import Asking, Chat, Tape
from summarizing_context.evaluation.cases.files import read_case
from summarizing_context.evaluation.cases.model import Case
from summarizing_context.evaluation.cassettes import Caps, Cassette, Mode
from summarizing_context.evaluation.outcomes import SessionOutcome
from summarizing_context.evaluation.runner import Plan, run_case
from summarizing_context.settings import Settings

from .protocols import KEY, MODEL, OPENAI, PROTOCOLS, Json, Protocol, answer, completion, system_text, user_text
from .serve import honest
from .server import Answer, ProviderServer, Request, serving

pytestmark = pytest.mark.anyio
SDKS = (anthropic, openai)  # imported before the clock of a call runs
CASE = read_case(Path(__file__).parents[2] / "evals" / "data" / "support-broken-import.jsonl", budget=1)
SMALL = {"segment_min": 150, "segment_target": 360, "segment_max": 600, "summary_max_tokens": 40}
ARMS = ("hierarchical", "tail", "everything")


def says(body: Json) -> str:
    """An honest reader, which copies what it finds; a judge that trusts it; an honest summarizer."""
    system, user = system_text(body), user_text(body)
    if system.startswith("You mark one answer"):
        return "RIGHT"
    if not system.startswith("You answer one question"):
        return honest(body)
    view, _, question = user.rpartition("Question: ")
    (probe,) = (probe for probe in CASE.probes if probe.question == question)
    found = [literal for literal in (*probe.literals, *probe.any_of) if literal.lower() in view.lower()]
    return ", ".join(found) if found else "The record does not say."


def answering(request: Request, text: Callable[[Json], str] = says) -> Answer:
    said = text(request.body)
    reply = completion(said) if request.path == OPENAI.path else answer(said)
    return Answer(body=json.dumps(reply).encode())


def plan(path: Path, protocol: Protocol, server: ProviderServer | None = None, **settings: Any) -> Plan:
    base_url = protocol.base_url(server.root) if server is not None else None
    chat = Chat(provider=protocol.name, model=MODEL, base_url=base_url)  # type: ignore[arg-type]
    asking = Asking(reader=chat, judge=chat, replicates=2, arms=ARMS)
    if settings:
        settings = {**settings, "base_url": base_url}
    return Plan(Settings(**{**SMALL, **settings}), ARMS[1:], Tape(path / "c.jsonl", asking))


async def ran(plan: Plan, mode: Mode, case: Case = CASE, caps: Caps | None = None) -> SessionOutcome:
    assert plan.tape is not None
    with Cassette.open(plan.tape.path, mode, caps=caps, today=lambda: "2026-11-21") as cassette:
        return await run_case(case, plan, cassette)


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, KEY)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
async def test_what_was_recorded_is_replayed_to_the_byte_without_a_key(
    protocol: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = {"summarizer": protocol.name, "model": MODEL}
    async with serving(answering) as server:
        recorded = await ran(plan(tmp_path, protocol, server, **model), "record")
        asked = len(server.requests)
        assert KEY not in (tmp_path / "c.jsonl").read_text("utf8")
        assert await ran(plan(tmp_path, protocol, server, **model), "record") == recorded
        assert len(server.requests) == asked > 20
    monkeypatch.delenv(f"{protocol.name.upper()}_API_KEY")
    replayed = await ran(plan(tmp_path, protocol, **model), "replay")
    assert msgspec.json.encode(replayed) == msgspec.json.encode(recorded)
    print(replayed.sums["hierarchical"], [p.answers for p in replayed.probes])


async def test_x(tmp_path: Path):
    pass
