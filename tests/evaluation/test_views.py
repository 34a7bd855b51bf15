"""Cases that are added to a recording."""

from __future__ import annotations

import json

from summarizing_context.evaluation.recording import Recording, add_case, cut_at
from tests.evaluation.building import MADE_UP


def test_a_log_is_added_as_far_as_its_cut(tmp_path):
    log = MADE_UP / "logs" / "heating.jsonl"
    case = add_case(tmp_path, log, name=None, cut=0.6, budget=300, source="made up", licence="MIT")
    messages = [json.loads(line) for line in log.read_text().splitlines()]
    assert case.cut == cut_at(messages, 0.6)
    assert messages[case.cut]["role"] == "assistant"
    added = Recording.open(tmp_path)
    assert added.cases == [case]
    assert added.messages(case) == messages[: case.cut]
    add_case(tmp_path, log, name="other", cut=5, budget=300, source="made up", licence="MIT", session="heating")
    assert [(one.name, one.drawn_as) for one in Recording.open(tmp_path).cases] == [
        ("heating", "heating"),
        ("other", "heating"),
    ]
