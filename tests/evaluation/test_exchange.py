"""Recording by hand: requests go out as files, and replies come in until every answer has a mark."""

from __future__ import annotations

from evals.real.exchange import record
from summarizing_context.evaluation import Dataset, Run
from tests.evaluation.building import answer, copied


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
