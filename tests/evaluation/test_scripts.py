"""The scripts of evals that need no key, each on a log that is made up."""

import json
from argparse import Namespace
from pathlib import Path

from evals import moments, standing_rules
from summarizing_context.evaluation.datasets import Recording, add_case, cut_at, read_messages
from tests.cli.commands import write_transcript
from tests.evaluation.sessions import MADE_UP, session
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


async def test_standing_rules_holds_a_session_against_the_labels_of_its_log(tmp_path: Path, capsys):
    said = "Never push to main.", "Keep it short, as ever.", "Always run the tests before you commit."
    rules = [{"message": 2 * at, "quote": said[at], "strength": "must", "ended_by": None} for at in (0, 1)]
    write_transcript(tmp_path / "log.jsonl", [row for text in said for row in (user(text), assistant("ok"))])
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.json").write_text(json.dumps({"log": "log.jsonl", "rules": rules}))
    given = {"labels": tmp_path / "labels", "transcripts": tmp_path, "exchange": None}
    await standing_rules.main(Namespace(**given, budget=16_000))
    shown, wrong, missed, _ = capsys.readouterr().out.splitlines()
    assert shown == "a precision 1/2, recall 1/2, ended 0/0"
    assert (said[2] in wrong, said[1] in missed) == (True, True)


def test_a_log_is_added_as_far_as_its_cut(tmp_path):
    log = MADE_UP / "logs" / "heating.jsonl"
    messages = [json.loads(line) for line in log.read_text().splitlines()]
    about = {"budget": 300, "source": "made up", "licence": "MIT"}
    case = add_case(tmp_path, log, name=None, cut=0.6, **about)
    other = add_case(tmp_path, log, name="other", cut=5, session="heating", **about)
    assert (case.cut, messages[case.cut]["role"]) == (cut_at(messages, 0.6), "assistant")
    added = Recording.open(tmp_path)
    assert (added.cases, added.messages(case)) == ([case, other], messages[: case.cut])
    assert [(one.name, one.drawn_as) for one in added.cases] == [("heating", "heating"), ("other", "heating")]
