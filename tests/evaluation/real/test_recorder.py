"""Recording through an API: what is missing is asked, once, in its order; and a forecast asks nothing."""

from __future__ import annotations

import json

import anyio
import msgspec
import pytest

from summarizing_context.errors import CassetteError
from summarizing_context.evaluation.cassettes import Cassette, Chat, ModelPlan, RecordedModel
from summarizing_context.evaluation.real import recorder
from summarizing_context.evaluation.real.recorder import ABSTENTION, AnswerRecorder
from summarizing_context.evaluation.real.recording import Recording
from summarizing_context.evaluation.real.scores import replay
from summarizing_context.summarizers.base import SummaryReply
from tests.evaluation.real.building import WRITTEN, copied

CHAT = Chat(provider="openai", model="m")
PLAN = ModelPlan(reader=CHAT, judge=CHAT, concurrency=2)
ARMS = ("ours", "compact", "tail")


class Model:
    """Writes a fixed summary, answers the first question only, and holds every answer for right."""

    model = recipe = "m"

    def __init__(self, fence="{}"):
        self.asked = []
        self._fence = fence  # around JSON

    async def complete(self, system, user, max_tokens):
        kind = next((kind for words, kind in KINDS.items() if system.startswith(words)), "summary")
        self.asked.append(kind)
        if kind == "summary":
            return SummaryReply(WRITTEN["segment"])
        return SummaryReply(self._fence.format(json.dumps(answers(user) if kind == "reader" else marks(user))))


KINDS = {"You take a memory test": "reader", "You grade answers": "judge"}


def answers(user):
    questions = json.loads(user[user.rindex("Questions: ") + len("Questions: ") :])
    assert set(questions[0]) == {"id", "question"}
    return {questions[0]["id"]: "By day."}


def marks(user):
    document = json.loads(user[user.index("{") : user.rindex("}") + 1])
    return {one["id"]: dict.fromkeys(one["answers"], 2) for one in document["questions"]}


def ask(recording, model, tmp_path, *, mode="record", caps=None):
    async def run():
        with Cassette.open(tmp_path / "c.jsonl", mode, caps=caps) as cassette:
            recorded = RecordedModel(model, cassette)
            await AnswerRecorder(recording, PLAN, recorded, recorded, recorded, recorded).record(ARMS)
            return cassette.spent

    return anyio.run(run)


@pytest.mark.parametrize("fence", ["{}", "```json\n{}\n```", "Here it is:\n{}"])
def test_everything_missing_is_asked_and_kept(tmp_path, fence):
    recording, model = copied(tmp_path), Model(fence)
    ask(recording, model, tmp_path)
    assert sorted(set(model.asked), key=model.asked.index) == ["summary", "reader", "judge"]
    assert (model.asked.count("reader"), model.asked.count("judge")) == (3, 1)
    assert recording.answers["heating", "tail"].answers["q2"] == ABSTENTION
    recording.save()
    outcome = replay(Recording.open(recording.folder), ARMS)
    assert [view.reading for view in outcome.views] == ["this view"] * 3
    assert {score.score.mean.mean for score in outcome.arms} == {1}
    assert outcome.made_by["marks"] == ["m (15)"]


def test_a_forecast_asks_nothing_and_counts_all_that_recording_asks(tmp_path):
    recording, model = copied(tmp_path), Model()
    spent = ask(recording, model, tmp_path, mode="forecast")
    assert model.asked == []
    recording = Recording.open(recording.folder)
    assert (recording.replies, recording.answers) == ({}, {})
    ask(recording, model, tmp_path)
    assert spent.by_kind["reader"] + spent.by_kind["judge"] == 4
    assert spent.calls == len(model.asked)


def test_rules_that_follow_one_another_take_as_many_rounds_as_they_need(tmp_path, monkeypatch):
    monkeypatch.setattr("summarizing_context.worker.rule_calls._REQUEST", 3_000)  # characters: two messages
    recording, model = copied(tmp_path), Model()
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
            ask(recording, model, tmp_path)
    assert recorder._ROUNDS > 100
    ask(recording, model, tmp_path)
    assert sum(reply.purpose == "rules" for reply in recording.replies.values()) > 3
    assert ("heating", "ours") in recording.answers
