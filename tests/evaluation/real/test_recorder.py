"""Recording through an API: what is missing is asked in as many rounds as it takes."""

from __future__ import annotations

import json

import anyio
import msgspec
import pytest

from summarizing_context.errors import CassetteError
from summarizing_context.evaluation.cassettes import Cassette
from summarizing_context.evaluation.models import Chat, ModelPlan, RecordedModel
from summarizing_context.evaluation.real import recorder
from summarizing_context.evaluation.real.recorder import AnswerRecorder
from summarizing_context.summarizers.base import SummaryReply
from tests.evaluation.real.building import WRITTEN, copied

CHAT = Chat(provider="openai", model="m")
PLAN = ModelPlan(reader=CHAT, judge=CHAT, concurrency=2)
ARMS = ("ours", "compact", "tail")


class Model:
    """Writes a fixed summary, answers the first question only, and holds every answer for right."""

    model = recipe = "m"

    async def complete(self, system, user, max_tokens):
        if system.startswith("You take a memory test"):
            questions = json.loads(user[user.rindex("Questions: ") + len("Questions: ") :])
            return SummaryReply(json.dumps({questions[0]["id"]: "By day."}))
        if system.startswith("You grade answers"):
            asked = json.loads(user[user.index("{") : user.rindex("}") + 1])["questions"]
            return SummaryReply(json.dumps({one["id"]: dict.fromkeys(one["answers"], 2) for one in asked}))
        return SummaryReply(WRITTEN["segment"])


def ask(recording, tmp_path):
    async def run():
        with Cassette.open(tmp_path / "c.jsonl", "record") as cassette:
            recorded = RecordedModel(Model(), cassette)
            await AnswerRecorder(recording, PLAN, recorded, recorded, recorded, recorded).record(ARMS)

    anyio.run(run)


def test_rules_that_follow_one_another_take_as_many_rounds_as_they_need(tmp_path, monkeypatch):
    monkeypatch.setattr("summarizing_context.worker.rule_calls._REQUEST", 3_000)  # characters: two messages
    recording = copied(tmp_path)
    said = [
        {"role": role, "content": f"{role} {number}: always keep port {8000 + number}. " + "Nothing else is new. " * 60}
        for number in range(12)
        for role in ("user", "assistant")
    ]
    log = recording.folder / "logs" / "heating.jsonl"
    log.write_text("".join(json.dumps(message) + "\n" for message in said))
    recording.cases = [msgspec.structs.replace(recording.cases[0], cut=len(said))]
    with monkeypatch.context() as few:
        few.setattr(recorder, "_ROUNDS", 5)
        with pytest.raises(CassetteError, match="missing after 5 rounds"):
            ask(recording, tmp_path)
    assert recorder._ROUNDS > 100
    ask(recording, tmp_path)
    assert sum(reply.purpose == "rules" for reply in recording.replies.values()) > 3
    assert ("heating", "ours") in recording.answers
