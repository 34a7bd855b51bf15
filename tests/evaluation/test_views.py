"""The views of all arms: equal tokens, what each shows, and what is asked before they are right."""

from __future__ import annotations

import json

from summarizing_context.evaluation.recording import Recording, add_case, cut_at
from summarizing_context.evaluation.views import ARMS
from summarizing_context.messages.tokens import estimate_text
from tests.evaluation.building import MADE_UP, WRITTEN, built, copied, replied


def test_without_replies_requests_are_missing_and_no_view_is_given(tmp_path):
    found = built(copied(tmp_path))
    assert (found.missing > 2, found.views) == (True, {})


def test_every_arm_has_the_tokens_of_ours_and_the_system_rows(tmp_path):
    views = built(replied(tmp_path)).views
    assert list(views) == list(ARMS)
    most = estimate_text(views["ours"])
    least = dict.fromkeys(ARMS, 0.75) | {"cliff": 0.65}  # a mechanical cut of so short a log has no more to show
    assert all(least[arm] * most <= estimate_text(view) <= most + 2 for arm, view in views.items())
    assert all(view.startswith("[system]\nYou help with the software") for view in views.values())


def test_each_arm_shows_what_it_stands_for(tmp_path):
    views = built(replied(tmp_path)).views
    assert WRITTEN["segment"] in views["ours"]
    assert WRITTEN["compact"] in views["compact"]
    assert WRITTEN["compact"] in views["compact_reread"]
    assert "[old tool result omitted]" in views["masking"]
    assert not any(words in views["tail"] for words in WRITTEN.values())
    assert "[assistant calls edit_file]" in views["cliff"]


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
