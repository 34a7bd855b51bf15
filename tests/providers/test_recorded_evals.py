"""Evals with a model, recorded through both SDKs against the provider on the loopback and replayed without it."""

from __future__ import annotations

import hashlib
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
from summarizing_context.evaluation import questions, readers
from summarizing_context.evaluation.cases.sources import read_case
from summarizing_context.evaluation.cassettes import Caps, Cassette, Mode
from summarizing_context.evaluation.outcomes import SessionOutcome
from summarizing_context.evaluation.questions import Chat, ReaderPlan, Tape
from summarizing_context.evaluation.runner import Plan, run_case
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers import prompts as prompt_library

from .protocols import KEY, MODEL, OPENAI, PROTOCOLS, Json, Protocol, answer, completion, system_text, user_text
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
ARMS = ("hierarchical", "tail", "everything", "stored")


def kind_of(body: Json) -> str:
    beginnings = {"You mark one": "judge", "You answer one": "reader", "You read what the human": "rules"}
    return next((kind for words, kind in beginnings.items() if system_text(body).startswith(words)), "segment")


def says(body: Json) -> str:
    """An honest reader, which copies what it finds; a judge that trusts it; an honest summarizer."""
    if kind_of(body) == "rules":
        return "none"
    if kind_of(body) != "reader":
        return "RIGHT" if kind_of(body) == "judge" else honest(body)
    view, _, question = user_text(body).rpartition("Question: ")
    (probe,) = (probe for probe in CASE.probes if probe.question == question)
    found = [literal for literal in (*probe.literals, *probe.any_of) if literal.lower() in view.lower()]
    return ", ".join(found) if found else "The record does not say."


def answering(request: Request, text: Callable[[Json], str] = says) -> Answer:
    said = text(request.body)
    reply = completion(said) if request.path == OPENAI.path else answer(said)
    return Answer(body=json.dumps(reply).encode())


def reading(protocol: Protocol, server: ProviderServer | None = None) -> ReaderPlan:
    base_url = protocol.base_url(server.root) if server is not None else None
    chat = Chat(provider=protocol.name, model=MODEL, base_url=base_url)  # type: ignore[arg-type]
    return ReaderPlan(reader=chat, judge=chat, replicates=2, arms=ARMS)


def plan(path: Path, protocol: Protocol, server: ProviderServer | None = None, **settings: Any) -> Plan:
    reader_plan = reading(protocol, server)
    if settings:
        settings = {**settings, "base_url": reader_plan.reader.base_url}
    return Plan(Settings(**{**SMALL, **settings}), ARMS[1:], Tape(path / "c.jsonl", reader_plan))


async def ran(plan: Plan, mode: Mode, caps: Caps | None = None) -> SessionOutcome:
    assert plan.tape is not None
    with Cassette.open(plan.tape.path, mode, caps=caps, today=lambda: "2026-11-21") as cassette:
        return await run_case(CASE, plan, cassette)


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
        kinds = [kind_of(request.body) for request in server.requests]
        assert await ran(plan(tmp_path, protocol, server, **model), "record") == recorded
        assert len(server.requests) == len(kinds)
    assert kinds.count("reader") == 2 * 4 * len(CASE.probes)
    assert kinds.count("segment") > 2
    assert KEY not in (tmp_path / "c.jsonl").read_text("utf8")
    monkeypatch.delenv(f"{protocol.name.upper()}_API_KEY")
    replayed = await ran(plan(tmp_path, protocol, **model), "replay")
    assert msgspec.json.encode(replayed) == msgspec.json.encode(recorded)
    assert replayed.sums["everything"]["answered"] == (len(CASE.probes), len(CASE.probes))
    assert replayed.sums["tail"]["answered"][0] < replayed.sums["stored"]["answered"][0]


async def test_lines_with_inventions_are_dropped_and_counted(tmp_path: Path):
    def inventing(body: Json) -> str:
        told = "## Done\n- The import was looked at, and the customer was answered.\n- Edited src/never/said.py"
        return told if kind_of(body) == "segment" else says(body)

    model = {"summarizer": "openai", "model": MODEL}
    async with serving(partial(answering, text=inventing)) as server:
        recorded = await ran(plan(tmp_path, OPENAI, server, **model), "record")
    of, sessions = recorded.sums["hierarchical"]["dropped_lines"]
    assert of > 1
    assert sessions == 1
    assert "dropped_lines" not in recorded.sums["tail"]
    assert recorded.sums["hierarchical"]["unsupported"][0] == 0


async def test_a_reader_sees_one_question_and_the_view_as_data(tmp_path: Path):
    async with serving(answering) as server:
        await ran(plan(tmp_path, OPENAI, server), "record")
    asked = [user_text(request.body) for request in server.requests if kind_of(request.body) == "reader"]
    assert {message.count("Question: ") for message in asked} == {1}
    assert all(message.startswith("<session_record>\n") for message in asked)
    assert {message.count("</session_record>") for message in asked} == {1}
    assert {message.partition("</session_record>")[2].partition(": ")[0].strip() for message in asked} == {"Question"}


def vague(body: Json) -> str:
    """A reader that paraphrases, and a judge who is of two minds."""
    if kind_of(body) == "judge":
        return "RIGHT" if hash_of(user_text(body)) % 2 else "WRONG."
    return "Something of that kind, I believe."


def hash_of(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


async def test_what_literals_leave_open_is_the_judges_and_a_disagreement_is_no_pass(tmp_path: Path):
    asked: Counter[str] = Counter()

    def wavering(body: Json) -> str:
        asked[user_text(body)] += 1
        return vague(body) if kind_of(body) == "judge" else f"It is a matter of {asked[user_text(body)]} seats."

    async with serving(partial(answering, text=wavering)) as server:
        found = await ran(plan(tmp_path, OPENAI, server), "record")
    told = [answers for probe in found.probes for answers in probe.answers.values()]
    split = [answers for answers in told if len({answer.right for answer in answers}) == 2]
    passed = [answers for answers in told if all(answer.right for answer in answers)]
    assert {answer.by for answers in told for answer in answers} == {"judge"}
    assert split
    assert passed
    assert sum(found.sums[arm]["answered"][0] for arm in found.sums if "answered" in found.sums[arm]) == len(passed)
    agreed = sum(found.sums[arm]["agreement"][0] for arm in found.sums if "agreement" in found.sums[arm])
    assert agreed == len(told) - len(split)


async def test_a_changed_judge_cannot_use_old_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with serving(partial(answering, text=vague)) as server:
        await ran(plan(tmp_path, OPENAI, server), "record")
    judge = replace(prompt_library.latest("judge"), text=prompt_library.latest("judge").text + " {{verdict_right}}!")
    monkeypatch.setattr(questions, "latest", lambda name: judge if name == "judge" else prompt_library.latest(name))
    with pytest.raises(CassetteMissError, match=r"judge request .* differs in prompt, system") as missed:
        await ran(plan(tmp_path, OPENAI), "replay")
    assert any("judge/v1" in line for line in missed.value.difference)


async def test_a_cap_and_an_interrupt_keep_what_was_recorded_and_it_goes_on(tmp_path: Path):
    async with serving(answering) as server:
        for _ in range(2):
            with pytest.raises(CassetteLimitError):
                await ran(plan(tmp_path, OPENAI, server), "record", caps=Caps(max_calls=10))
        stopped = len(server.requests)
        assert stopped == len(Cassette.open(tmp_path / "c.jsonl")) == 20
        whole = await ran(plan(tmp_path, OPENAI, server), "record")
    assert len(server.requests) == len(Cassette.open(tmp_path / "c.jsonl")) > 20
    assert await ran(plan(tmp_path, OPENAI), "replay") == whole


async def test_a_forecast_needs_no_key_and_tells_at_least_what_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = {"summarizer": "openai", "model": MODEL}
    async with serving(answering) as server:
        await ran(plan(tmp_path, OPENAI, server, **model), "record")
        monkeypatch.delenv("OPENAI_API_KEY")
        other = Tape(tmp_path / "other.jsonl", reading(OPENAI))
        with Cassette.open(other.path, "forecast") as cassette:
            await run_case(CASE, replace(plan(tmp_path, OPENAI, server, **model), tape=other), cassette)
    firsts = [one.body for one in server.requests if "last answer could not be used" not in system_text(one.body)]
    kinds = Counter(map(kind_of, firsts))
    assert {kind: cassette.spent.by_kind[kind] for kind in ("reader", "segment")} == {
        "reader": kinds["reader"],
        "segment": kinds["segment"],
    }
    assert cassette.spent.by_kind["judge"] >= kinds["judge"]
    assert not other.path.exists()


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
async def test_bad_weather_is_sat_out_and_leaves_the_same_answers(
    protocol: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(readers, "_backoff", lambda _: 0.0)
    faults = {3: storm("rate_limited"), 9: storm("failing"), 12: storm("cut"), 20: storm("overloaded")}
    (tmp_path / "fine").mkdir()
    async with serving(answering) as server:
        fine = await ran(plan(tmp_path / "fine", protocol, server), "record")
    async with serving(lambda request: faults.get(request.number) or answering(request)) as server:
        assert await ran(plan(tmp_path, protocol, server), "record") == fine


async def test_a_model_that_is_down_ends_the_recording_and_is_told(tmp_path: Path):
    async with serving(lambda _: Answer(401, body=b"{}")) as server:
        with pytest.raises(SummarizerError, match="key"):
            await ran(plan(tmp_path, OPENAI, server), "record")
        with pytest.raises(CassetteError, match=r"were not recorded \(.*401"):
            await ran(plan(tmp_path, OPENAI, server, summarizer="openai", model=MODEL, attempts=1), "record")


async def test_summaries_that_are_not_recorded_are_no_stand_ins(tmp_path: Path):
    async with serving(answering) as server:
        await ran(plan(tmp_path, OPENAI, server), "record")
    with pytest.raises(CassetteMissError, match=r"(segment|rules) request"):
        await ran(plan(tmp_path, OPENAI, summarizer="openai", model=MODEL), "replay")
    with pytest.raises(SettingsError, match="through a cassette"):
        await run_case(CASE, Plan(Settings(summarizer="openai", model=MODEL)))
