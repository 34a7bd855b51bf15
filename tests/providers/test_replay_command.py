"""`replay` with a model: transcripts through both SDKs against the provider on the loopback, judged by the laws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.cli import main
from summarizing_context.cli.replay import replay

from .protocols import KEY, PROTOCOLS, Protocol
from .serve import honestly, replay_arguments, serving_apart
from .server import Answer, Request, storm

LOADED = (replay,)  # imported before the clock of a call runs
FOLDER = Path(__file__).parents[1] / "data" / "transcripts"
FILES = [str(FOLDER / f"{name}.jsonl.gz") for name in ("long_session", "forty_calls")]


FAULTS = {3: "rate_limited", 6: "reset", 9: "stalled", 12: "broken", 15: "failing"}


def bad_weather(request: Request) -> Answer:
    """A call too many, a lost connection, a call that is never answered, no JSON, and a broken server."""
    return storm(FAULTS[request.number]) if request.number in FAULTS else Answer()


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
def test_transcripts_replay_through_the_sdk_and_the_laws_hold(
    protocol: Protocol, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv(protocol.keys[0], KEY)
    monkeypatch.setenv("SUMMARIZING_CONTEXT_CALL_TIMEOUT", "2")
    out = tmp_path / "figures.json"
    with serving_apart(honestly(bad_weather)) as server:
        arguments = replay_arguments(protocol, server, FILES, "4k")
        assert main([*arguments, "--jobs", "1", "--json", str(out)]) == 0
        asked = [request.body for request in server.requests]
        endings = {(answer.status, answer.ending) for answer in server.answers}
    document: dict[str, Any] = json.loads(out.read_text())
    total = document["total"]
    assert (total["unseen_tokens"], total["append_only_breaks"], total["over_budget_views"]) == (0, 0, 0)
    assert total["activations"] > 20
    assert 20 < len(asked) <= total["model_calls"]
    assert {(429, "whole"), (200, "reset"), (200, "stall"), (500, "whole")} < endings
    assert 0 < total["model_output_tokens"] < total["model_input_tokens"]
    assert {body["model"] for body in asked} == {"model-of-the-test"}
