"""Recording by hand: requests go out as files, and replies come in until every answer has a mark."""

from __future__ import annotations

import json

from evals.real.exchange import record
from tests.evaluation.building import WRITTEN, copied


def reply(request: str) -> str:
    """What a model would say to a request: a summary, answers, or a judge's marks."""
    user = request.partition("=== USER ===")[2]
    if '"gold"' in user:
        asked = json.loads(user[user.index("{") : user.rindex("}") + 1])["questions"]
        return json.dumps({one["id"]: dict.fromkeys(one["answers"], 2) for one in asked})
    if "Questions: [" in user:
        asked = json.loads(user.partition("Questions: ")[2])
        return json.dumps({one["id"]: "8080" for one in asked})
    return WRITTEN["segment"]


def test_a_case_is_recorded_by_files_alone(tmp_path):
    recording, folder = copied(tmp_path), tmp_path / "exchange"
    (folder / "replies").mkdir(parents=True)
    for _ in range(9):
        if not record(recording, folder, "a person, by hand", ("ours", "tail")):
            break
        for request in (folder / "todo").iterdir():
            (folder / "replies" / request.name).write_text(reply(request.read_text("utf8")), "utf8")
    name = recording.cases[0].name
    assert sorted(recording.answers) == [(name, "ours"), (name, "tail")]
    assert {mark.mark for mark in recording.marks.values()} == {2}
    assert {one.model for one in recording.replies.values()} == {"a person, by hand"}
