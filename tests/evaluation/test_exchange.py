"""Cases that are added to a recording, and one that is recorded by hand: requests and replies are files."""

import json

from evals.real.exchange import record
from summarizing_context.evaluation import Dataset, Run
from summarizing_context.evaluation.recording import Recording, add_case, cut_at
from tests.evaluation.building import MADE_UP, answer, copied


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
    case = add_case(tmp_path, log, name=None, cut=0.6, budget=300, source="made up", licence="MIT")
    messages = [json.loads(line) for line in log.read_text().splitlines()]
    assert case.cut == cut_at(messages, 0.6)
    assert messages[case.cut]["role"] == "assistant"
    added = Recording.open(tmp_path)
    assert added.cases == [case]
    assert added.messages(case) == messages[: case.cut]
    add_case(tmp_path, log, name="other", cut=5, budget=300, source="made up", licence="MIT", session="heating")
    known = [(one.name, one.drawn_as) for one in Recording.open(tmp_path).cases]
    assert known == [("heating", "heating"), ("other", "heating")]
