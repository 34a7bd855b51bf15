"""What is asked about sessions: values that were needed later, and the answers of published data sets."""

import json
from pathlib import Path

import pytest

from summarizing_context import Settings, TranscriptError
from summarizing_context.evaluation import Arm, Dataset, Run
from summarizing_context.evaluation.datasets import cuts_of, hindsight, read_messages
from tests.evaluation.sessions import session, value, write


def test_hindsight_asks_for_values_that_were_read_before_a_cut_and_used_after_it():
    rows = session(3)
    cut = cuts_of(rows)[1]
    probes = hindsight(read_messages(rows), cut, 1_000)
    assert probes
    for probe in probes:
        used_at = int(probe.question.split()[2])
        assert max(probe.evidence) < cut <= used_at
        assert probe.values[0] in json.dumps(rows[used_at])
        assert any(probe.values[0] in json.dumps(rows[at]) for at in probe.evidence)
    assert hindsight(read_messages(rows), cut, 1_000_000) == []  # the newest part is everything
    again = [*rows[:cut], {"role": "user", "content": " ".join(value(3, n) for n in range(40))}, *rows[cut:]]
    assert hindsight(read_messages(again), cut, 1_000) == []


def test_a_broken_file_is_told_before_anything_is_run(tmp_path: Path):
    write(tmp_path, 1)
    (tmp_path / "cut.jsonl").write_text('{"role": "us', encoding="utf8")
    with pytest.raises(TranscriptError, match=r"cut.jsonl:1"):
        Dataset.load(tmp_path)


TALK = [
    {"speaker": "Ann", "dia_id": "D1:1", "text": "I adopted Rex on Monday."},
    {"speaker": "Bo", "dia_id": "D1:2", "text": "How nice. " + "So much to tell. " * 40},
]
QUESTIONS = [
    {"question": "Whom did Ann adopt?", "answer": "Rex", "evidence": ["D1:1"], "category": 4},
    {"question": "How many?", "answer": 7, "evidence": ["D1:1; D9:9"], "category": 2},
    {"question": "Who is Zoe?", "answer": None, "evidence": [], "category": 5},
]
SPOKEN = {"speaker_a": "Ann", "session_1_date_time": "8 May", "session_1": TALK}
PUBLISHED = [{"sample_id": "conv-1", "conversation": SPOKEN, "qa": QUESTIONS}]


def test_locomo_gives_probes_for_answers_that_stand_word_for_word(tmp_path: Path):
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps(PUBLISHED), encoding="utf8")
    dataset = Dataset.load(f"locomo:{path}")
    messages = [*dataset.logs[0].read()]
    ((_, questions),) = dataset.logs[0].ask(messages, 180)
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert [(one.values, one.evidence) for one in questions] == [(["Rex"], [0])]
    report = Run(dataset=dataset, arms=[Arm("ours", Settings(max_tokens=180))]).report()
    assert [one.gold for one in report.asked] == ["Rex"]
