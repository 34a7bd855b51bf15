"""Data sets that a user has: LoCoMo in both of its shapes, LongMemEval."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from summarizing_context.errors import SettingsError, TranscriptError
from summarizing_context.evaluation.cases.sources import dataset_sources

TALK = [
    {"speaker": "Ann", "dia_id": "D1:1", "text": "I adopted Rex on Monday."},
    {"speaker": "Bo", "dia_id": "D1:2", "text": "How nice. " + "So much to tell. " * 40},
]
QUESTIONS = [
    {"question": "Whom did Ann adopt?", "answer": "Rex", "evidence": ["D1:1"], "category": 4},
    {"question": "How many?", "answer": 7, "evidence": ["D1:1; D9:9"], "category": 2},
    {"question": "Who is Zoe?", "answer": None, "evidence": [], "category": 5},
]
PUBLISHED = [
    {
        "sample_id": "conv-1",
        "conversation": {"speaker_a": "Ann", "session_1_date_time": "8 May", "session_1": TALK},
        "qa": QUESTIONS,
    }
]
CONVERTED = {"id": "conv-1", "sessions": [{"session": 1, "date_time": "8 May", "turns": TALK}], "qa": QUESTIONS}


@pytest.mark.parametrize("document", [PUBLISHED, CONVERTED])
def test_locomo_gives_probes_for_answers_that_stand_word_for_word(tmp_path: Path, document: object):
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps(document), encoding="utf8")
    (source,) = dataset_sources("locomo", path, budget=100)
    made = source.load()
    assert [message["role"] for message in made.messages] == ["user", "assistant"]
    assert [(probe.literals, probe.evidence) for probe in made.probes] == [(("Rex",), (0,))]


def test_longmemeval_gives_a_session_a_question(tmp_path: Path):
    chats = [
        [{"role": "user", "content": "My car is a Saab.", "has_answer": True}],
        [{"role": "assistant", "content": "Of course. " * 60}],
    ]
    question = {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "Which car?",
        "answer": "Saab",
        "haystack_dates": ["2023/05/01", "2023/05/02"],
        "haystack_session_ids": ["s1", "s2"],
        "haystack_sessions": chats,
        "answer_session_ids": ["s1"],
    }
    path = tmp_path / "longmemeval.json"
    path.write_text(json.dumps([question, {**question, "question_id": "q2_abs"}]), encoding="utf8")
    (source,) = dataset_sources("longmemeval", path, budget=100)
    made = source.load()
    assert [(probe.literals, probe.evidence) for probe in made.probes] == [(("Saab",), (0,))]


def test_an_unknown_data_set_is_refused(tmp_path: Path):
    with pytest.raises(SettingsError, match="locomo"):
        dataset_sources("squad", tmp_path, budget=100)


def test_a_file_of_something_else_is_refused(tmp_path: Path):
    path = tmp_path / "x.json"
    path.write_text('[{"a": 1}]', encoding="utf8")
    with pytest.raises(TranscriptError, match="not a LoCoMo conversation"):
        dataset_sources("locomo", path, budget=100)[0].load()
