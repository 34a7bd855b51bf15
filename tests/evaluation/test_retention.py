"""What views still hold at cuts of a session: hindsight probes, data sets, and baselines at equal tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from summarizing_context import Settings, TranscriptError
from summarizing_context.evaluation.outcomes import difference, mean_of
from summarizing_context.evaluation.retention import (
    ARMS,
    cuts_of,
    dataset_logs,
    hindsight,
    logs_of,
    read_session,
    run_logs,
    scores_of,
)
from tests.evaluation.sessions import session, value, write

SMALL = Settings(max_tokens=3_000)


def test_hindsight_asks_for_values_that_were_read_before_a_cut_and_used_after_it():
    rows = session(3)
    cut = cuts_of(rows)[1]
    probes = hindsight(read_session(rows), cut, 1_000)
    assert probes
    for probe in probes:
        assert probe.used_at is not None
        assert max(probe.evidence) < cut <= probe.used_at
        assert probe.literals[0] in json.dumps(rows[probe.used_at])
        assert any(probe.literals[0] in json.dumps(rows[at]) for at in probe.evidence)


def test_what_stands_in_the_newest_part_or_was_read_again_is_not_asked_for():
    rows = session(3)
    cut = cuts_of(rows)[1]
    wide = hindsight(read_session(rows), cut, 1_000_000)
    assert wide == []  # the newest part is everything
    again = [*rows[:cut], {"role": "user", "content": " ".join(value(3, n) for n in range(40))}, *rows[cut:]]
    assert hindsight(read_session(again), cut, 1_000) == []


def test_every_view_gets_as_many_tokens_and_two_runs_say_the_same(tmp_path: Path):
    logs, skipped = logs_of([write(tmp_path, 1, 2)])
    assert (len(logs), skipped) == (2, [])
    first, second = list(run_logs(logs, SMALL)), list(run_logs(logs, SMALL, jobs=2))
    assert first == second
    assert all(one.probes and one.view_tokens for one in first)
    assert all(tokens <= 3_000 for one in first for tokens in one.view_tokens)
    scores = {score.arm: score for score in scores_of(first)}
    assert set(scores) == set(ARMS)
    assert scores["ours"].retention is not None
    assert scores["tail"].ours_ahead is not None


def test_a_broken_file_is_told_before_anything_is_run(tmp_path: Path):
    write(tmp_path, 1)
    (tmp_path / "cut.jsonl").write_text('{"role": "us', encoding="utf8")
    with pytest.raises(TranscriptError, match=r"cut.jsonl:1"):
        logs_of([tmp_path])


def test_an_interval_is_of_sessions_and_paired():
    ours, theirs = {"a": 0.9, "b": 0.5, "c": 0.7}, {"a": 0.8, "b": 0.4, "c": 0.6}
    ahead = difference(ours, theirs)
    assert ahead is not None
    assert (round(ahead.low, 9), round(ahead.high, 9)) == (0.1, 0.1)
    mean = mean_of(ours)
    assert mean is not None
    assert mean.low < mean.mean < mean.high
    assert mean_of({}) is None


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


def test_locomo_gives_probes_for_answers_that_stand_word_for_word(tmp_path: Path):
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps(PUBLISHED), encoding="utf8")
    (log,) = dataset_logs("locomo", path)
    messages, probes = log.load()
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert probes is not None
    assert [(probe.literals, probe.evidence) for probe in probes] == [(("Rex",), (0,))]
    (outcome,) = run_logs([log], Settings(max_tokens=180))
    assert [one.literals for one in outcome.probes] == [["Rex"]]
