"""The scripts of evals that need no key, each on a log that is made up."""

import json
from argparse import Namespace
from pathlib import Path

import pytest

from evals import moments, standing_rules
from evals.real.exchange import record
from summarizing_context.evaluation import Dataset, Run
from summarizing_context.evaluation.datasets import read_messages
from summarizing_context.evaluation.recording import Recording, add_case, cut_at
from tests.evaluation.sessions import MADE_UP, answer, copied, session
from tests.laws.builders import assistant, call, result, user


async def test_moments_counts_activations_at_ends_and_plans_that_they_leave_open():
    todo = {"todos": [{"content": "Find the faults", "status": "pending"}]}
    prompt, task, *rows = session(turns=40, later=6)
    log = [prompt, task, call("openai", ("t", "TodoWrite", todo)), result("openai", "t", "ok"), *rows]
    found = {arm: await moments.play(log, read_messages(log), 8_000, arm) for arm in moments.ARMS}
    for figures in found.values():
        assert figures["views"] == sum(row["role"] == "assistant" for row in log)
        assert figures["unfinished"] == figures["activations"] > 0
    assert found["ends"]["at_end"] == found["ends"]["activations"]
    assert found["lower"]["viewed"] < found["full"]["viewed"]


async def test_standing_rules_holds_a_session_against_the_labels_of_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    said = "Never push to main.", "Keep it short, as ever.", "Always run the tests before you commit."
    rows = (json.dumps(row) for text in said for row in (user(text), assistant("ok")))
    (tmp_path / "log.jsonl").write_text("\n".join(rows))
    rules = [{"message": 2 * at, "quote": said[at], "strength": "must", "ended_by": None} for at in (0, 1)]
    labels = {"log": "log.jsonl", "rules": rules}
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.json").write_text(json.dumps(labels))
    given = {"labels": tmp_path / "labels", "transcripts": tmp_path, "exchange": None}
    await standing_rules.main(Namespace(**given, budget=16_000))
    shown, wrong, missed, _ = capsys.readouterr().out.splitlines()
    assert shown == "a precision 1/2, recall 1/2, ended 0/0"
    assert (said[2] in wrong, said[1] in missed) == (True, True)


def test_a_case_is_recorded_by_files_alone(tmp_path):
    recording, folder = copied(tmp_path), tmp_path / "exchange"
    (folder / "replies").mkdir(parents=True)
    for _ in range(9):
        if not record(recording, folder, "a person, by hand", ("ours", "tail")):
            break
        for request in (folder / "todo").iterdir():
            user = request.read_text("utf8").partition("=== USER ===")[2]
            (folder / "replies" / request.name).write_text(answer(user), "utf8")
    report = Run(dataset=Dataset.load(tmp_path / "data")).report()
    assert (list(report.arms), report.missing) == (["ours", "tail"], 0)
    assert {one.reading for one in report.views} == {"this view"}
    assert {answer.mark for one in report.asked for answer in one.answers.values()} == {2}
    assert report.made_by["summaries"] == ["a person, by hand (1)"]


def test_a_log_is_added_as_far_as_its_cut(tmp_path):
    log = MADE_UP / "logs" / "heating.jsonl"
    messages = [json.loads(line) for line in log.read_text().splitlines()]
    about = {"budget": 300, "source": "made up", "licence": "MIT"}
    case = add_case(tmp_path, log, name=None, cut=0.6, **about)
    other = add_case(tmp_path, log, name="other", cut=5, session="heating", **about)
    assert (case.cut, messages[case.cut]["role"]) == (cut_at(messages, 0.6), "assistant")
    added = Recording.open(tmp_path)
    assert added.cases == [case, other]
    assert added.messages(case) == messages[: case.cut]
    assert [(one.name, one.drawn_as) for one in added.cases] == [("heating", "heating"), ("other", "heating")]
