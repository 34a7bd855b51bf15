"""`summarizing-context eval`: transcripts of one's own, comparing runs, and recorded answers."""

import html
import json
import re
from contextvars import copy_context
from itertools import product
from pathlib import Path
from time import sleep
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.progress import Progress

from summarizing_context.cli import output
from summarizing_context.cli.output import told_lines
from summarizing_context.evaluation.replay import PLAYED, for_each
from tests.cli.commands import Runner, says
from tests.evaluation.sessions import answered, write
from tests.privacy import open_to_others


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two transcripts without any label."""
    return write(tmp_path_factory.mktemp("logs"), 1, 2, turns=14, later=5)


def test_transcripts_without_labels_are_run_and_runs_are_compared(run: Runner, folder: Path, tmp_path: Path):
    place, config = (folder, "--budget", "3k", "--jobs"), tmp_path / "mine.json"
    ran = run("eval", "run", *place, 1, "--out", tmp_path / "a", "--json", "-")
    assert (ran.status, set(ran.document["arms"])) == (0, {"ours", "tail", "masking"})
    assert ran.document["questions"] > 0
    assert ran.document["arms"]["ours"]["laws"] == 0
    sizes = [arm["tokens"] for arm in ran.document["arms"].values()]
    assert max(sizes) - min(sizes) < 300
    others = {name: ran.document["arms"][name]["held"]["mean"] for name in ("tail", "masking")}
    assert ran.document["baseline"] == max(others, key=others.get)  # the table's arm is the one of the verdict
    assert f"Against {ran.document['baseline']}: " in ran.document["verdict"]
    assert open_to_others(tmp_path) == []
    assert "No law was broken." in run("eval", "run", *place, 2, "--out", tmp_path / "b").out
    pages = [tmp_path / name / "report.html" for name in ("a", "b")]
    unscripted, _, scripted = pages[0].read_text("utf8").partition("<script")
    assert "session-1" in scripted
    assert html.escape(ran.document["verdict"]) in unscripted  # where a CI shows artifacts without scripts
    assert pages[0].read_bytes() == pages[1].read_bytes()
    compared = run("eval", "compare", tmp_path / "a", tmp_path / "b", "--json", "-")
    assert (compared.status, compared.document["worse"]) == (0, False)
    assert compared.document["verdict"].startswith("Too few sessions to tell whether the new run is worse")
    said = {one["words"] for one in compared.document["changes"] if one["what"] == "held"}
    assert said == {"equal on every question, 2 sessions"}
    config.write_text('{"segment_target": 900, "segment_max": 1200, "segment_min": 300}', encoding="utf8")
    assert run("eval", "run", *place, 1, "--config", config, "--out", tmp_path / "b").status == 0
    settings = json.loads((tmp_path / "b" / "report.json").read_text("utf8"))["settings"]
    assert settings["ours"]["segment_target"] == 900  # settings of one's own reach the run
    assert run("eval", "run", *place, 1, "--prompts", tmp_path / "nowhere").status == 2


@pytest.mark.parametrize(
    ("command", "total"),
    [
        ("eval run {logs} --arms ours,extractive --budget 3k --jobs 1 --out {out}", 2),
        ("tune {logs} --dry-run --model gpt-5.4-mini --prompt prompts --budget 3k --out {out}", 4),
        ("replay {logs} --budget 3k,4k,5k --jobs 1", 2),
        ("prompts render segment {logs}/session-1.jsonl", 1),
        ("import {logs} --store {out}", 2),
    ],
)
def test_the_bar_moves_with_each_message_so_that_it_can_tell_what_time_is_left(
    run: Runner, tmp_path: Path, command, total, monkeypatch
):
    logs, shown, update = write(tmp_path / "logs", 1, 2), list[float](), Progress.update

    def watched(self: Progress, *task: Any, **given: Any) -> None:
        shown.append(given["completed"])
        update(self, *task, **given)

    monkeypatch.setattr(Progress, "update", watched)
    ran = run(*command.format(logs=logs, out=tmp_path / "out").split())
    assert (ran.status, shown[-1]) == (0, pytest.approx(total))
    assert any(0 < one < 0.9 for one in shown)  # before the first session is done
    assert shown == sorted(shown)


def play_half(seen: Path) -> bool:
    """Play half of a log, and wait until another process has seen that."""
    PLAYED.get()(0.5)
    for _ in range(300):
        if seen.exists():
            return True
        sleep(0.1)
    return False


def test_the_bar_moves_with_what_other_processes_play(tmp_path: Path):
    def watch(share: float) -> None:
        if share:
            (tmp_path / "seen").touch()

    context = copy_context()
    context.run(PLAYED.set, watch)
    assert context.run(lambda: [*for_each([tmp_path / "seen"] * 2, play_half, 2)]) == [True, True]


def test_where_no_bar_is_seen_lines_tell_how_far_a_run_is(capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output, "_TOLD", 0.0)
    with output.progress("sessions", 4, "Measuring 4 sessions.") as update:
        update("a")
        update("b", steps=2)
    assert capsys.readouterr().err.splitlines() == ["Measuring 4 sessions.", "1 of 4 sessions", "3 of 4 sessions"]


def test_a_remark_on_what_was_measured_all_the_same_is_no_skipped_line():
    assert told_lines(["a.jsonl:1: not JSON"], notes=["mine: 1"]) == ["skipped: a.jsonl:1: not JSON", "note: mine: 1"]


def test_a_worse_run_is_told_and_is_exit_status_1(run: Runner, tmp_path: Path):
    logs, old = write(tmp_path / "many", *range(5), turns=14, later=5), tmp_path / "old"
    assert run("eval", "run", logs, "--budget", "3k", "--jobs", 1, "--out", old).status == 0
    document = json.loads((old / "report.json").read_text("utf8"))

    def changed(name: str, **held: float) -> Path:
        for asked, (arm, points) in product(document["asked"], held.items()):
            asked["answers"][arm]["points"]["held"] = points
        (tmp_path / name).write_text(json.dumps(document), encoding="utf8")
        return tmp_path / name

    document["settings"]["ours"]["max_tokens"] = 8_000
    for one in document["views"]:
        one["tokens"] *= 2 if one["arm"] == "ours" else 1
    worse = changed("worse.json", ours=0.0)  # a run in which our views hold nothing
    told = run("eval", "compare", old, worse, "--junit", tmp_path / "compare.xml", "--json", "-")
    assert (told.document["worse"], told.status) == (True, 1)
    assert "ours: max_tokens was 3000 in the old run, 8000 in the new one" in told.err
    assert re.findall(r"(\w+): its views have [\d,]+ tokens, in the old run [\d,]+", told.err) == ["ours"]
    assert {(one["arm"], one["what"]) for one in told.document["changes"]} >= {("ours", "held"), ("ours", "evidence")}
    assert ElementTree.parse(tmp_path / "compare.xml").getroot().get("failures") != "0"
    better = run("eval", "compare", worse, old)
    assert (better.status, "The new run is not surely worse." in better.out) == (0, True)
    document["asked"] = [one for one in document["asked"] if one["session"] == document["asked"][0]["session"]]
    few, junit = (old, changed("few.json", ours=0.0)), ("--junit", tmp_path / "compare.xml")  # of a single session
    for more, status, counts in (((), 0, (0, 3)), (("--max-drop", 5), 1, (1, 1)), (("--max-drop", 100), 0, (0, 1))):
        assert run("eval", "compare", *few, *more, *junit).status == status
        suite = ElementTree.parse(tmp_path / "compare.xml").getroot()
        assert (int(suite.get("failures")), int(suite.get("skipped"))) == counts
    document = json.loads((old / "report.json").read_text("utf8"))
    others = changed("others.json", ours=1.0, tail=0.0)  # only what ours is measured against has become worse
    assert run("eval", "compare", old, others).status == 0
    assert run("eval", "compare", old, tmp_path / "nowhere").status == 2


def test_a_gate_for_ci_is_the_exit_status_and_a_file(run: Runner, folder: Path, tmp_path: Path):
    place = (folder, "--budget", "3k", "--jobs", 1, "--out", tmp_path / "a", "--junit", tmp_path / "a.xml")
    assert run("eval", "run", *place, "--fail-under", "held=0.05,evidence=0.05,laws=0,tokens=10k").status == 0
    assert ElementTree.parse(tmp_path / "a.xml").getroot().get("failures") == "0"
    failed = run("eval", "run", *place, "--fail-under", "held=100%")
    assert (failed.status, "failed" in failed.out) == (1, True)
    assert ElementTree.parse(tmp_path / "a.xml").getroot().get("failures") == "1"
    assert run("eval", "run", "nowhere", *place[1:]).status == 2
    assert "nowhere" in (ElementTree.parse(tmp_path / "a.xml").find("testcase/failure").text or "")
    marked, recorded = "are held, evidence, laws, tokens, cost\n", ("evals/real", "--out", tmp_path / "b")
    for sources, wrong, told in (
        *((place, f"laws=0,{wrong}", f": '{wrong}'; write it") for wrong in ("held", "held=much", "tokens=1m")),
        (place, "riht=0.9", f"no 'riht' is measured here; there {marked}"),
        (place, "right=0.9", "tokens, cost; right answers are those of a folder that `eval ask` has recorded"),
        (place, "laws=2, held = 90", "held is a share; for 90 % write held=0.9"),
        *((place, wrong, "a share is from 0 to 1") for wrong in ("held=-1", "held=nan", "held=150%", "laws=-1")),
        (recorded, "held=0.9", "no 'held' is measured here; there are right, evidence, laws"),
    ):
        ran = run("eval", "run", *sources, "--fail-under", wrong)
        assert (ran.status, told in ran.err, "Measuring" in ran.err) == (2, True, False)
    for gate in ((), ("--fail-under", "evidence=0.1")):  # where nothing was measured nothing passes
        ran = run("eval", "run", *place, "--budget", "900k", *gate)
        assert (ran.status, "Nothing was measured" in ran.out) == (1, True)
        assert ElementTree.parse(tmp_path / "a.xml").getroot().get("skipped") == str(len(list(folder.iterdir())))


RULE = "Always give distances in kilometres when I ask about routes."
SAID = {6: RULE, 2: "We moor at Port Elm on 14 May.", 4: "The crew has a dog.", 38: "We moor at Port Elm on 19 May."}
ASKED = {
    "instruction_following": {"instruction_being_tested": RULE, "source_chat_ids": [6]},
    "knowledge_update": {"answer": "On 19 May", "source_chat_ids": {"original_info": [2], "updated_info": [38]}},
    "temporal_reasoning": {"rubric": ["LLM response should state: 14 May"], "source_chat_ids": [[2], 38, 99]},
    "information_extraction": {"answer": "The crew has a dog", "source_chat_ids": [4]},  # no fact: only small words
    "abstention": {"ideal_response": "Nothing was said about it."},
}


def beam(folder: Path, chats: int = 2) -> Path:
    """A folder of chats in the format of BEAM."""
    told = [SAID.get(at, f"Day {at}: " + "the wind turned and we went on. " * 12) for at in range(40)]
    said = [says(("user", "assistant")[at % 2], text) | {"id": at} for at, text in enumerate(told)]
    turns = [said[at : at + 2] for at in range(0, 40, 2)]
    batches = [{"batch_number": 1, "turns": turns[:10]}, {"batch_number": 2, "turns": turns[10:]}]
    asked = {category: [{"question": f"Of {category}?", **one}] for category, one in ASKED.items()}
    for number in range(chats):
        (folder / str(number) / "probing_questions").mkdir(parents=True)
        for name, content in (("chat", batches), ("probing_questions/probing_questions", asked)):
            (folder / str(number) / f"{name}.json").write_text(json.dumps(content), encoding="utf8")
    return folder


def test_the_evidence_of_beams_questions_is_measured_by_category(run: Runner, tmp_path: Path):
    command = ("eval", "run", f"beam:{beam(tmp_path / 'chats')}", "--budget", "2k", "--jobs", 1, "--out", tmp_path)
    ran = run(*command, "--json", "-")
    assert ran.status == 0
    arms = ran.document["arms"]
    held = {name: {arm: arms[arm]["categories"][name]["mean"] for arm in arms} for name in arms["ours"]["categories"]}
    assert set(held) == {"instruction_following", "knowledge_update", "temporal_reasoning"}
    assert held["instruction_following"] == {"ours": 1.0, "tail": 0.0, "masking": 0.0}  # a rule
    assert held["knowledge_update"] == {"ours": 1.0, "tail": 1.0, "masking": 1.0}  # said last
    assert held["temporal_reasoning"]["tail"] == 0.0
    whole = json.loads((tmp_path / "report.json").read_text("utf8"))
    assert [one["session"] for one in whole["asked"]] == ["0"] * 3 + ["1"] * 3  # each question as much as any other
    assert arms["tail"]["held"]["mean"] == pytest.approx(1 / 3)
    assert "knowledge_update" in (tmp_path / "report.html").read_text("utf8")
    assert "knowledge" in run(*command).out


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("chat", None, "the folder holds no chat.json"),
        ("chat", "[{", "not JSON"),
        ("chat", "[]", "length >= 1"),
        ("chat", '[{"turns": [[{"role": "user", "id": 0}]]}]', "missing required field `content` - at `$[0]`"),
        ("chat", json.dumps([{"role": "user", "id": 0, "content": "a"}] * 2), "two messages have one id"),
        ("probing_questions/probing_questions", None, "no probing_questions.json is in its folder"),
        ("probing_questions/probing_questions", "[]", "Expected `object`, got `array`"),
    ],
)
def test_what_is_wrong_in_a_folder_of_beam_is_told(run: Runner, tmp_path: Path, file: str, content, told: str):
    place = beam(tmp_path / "chats", 1) / "0" / f"{file}.json"
    place.unlink()
    if content is not None:
        place.write_text(content, encoding="utf8")
    ran = run("eval", "run", f"beam:{tmp_path / 'chats'}", "--out", tmp_path / "report")
    assert (ran.status, told in " ".join(ran.err.split())) == (2, True)
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("command", ["eval run", "tune --propose 1"])
def test_a_missing_key_is_named_before_all_is_priced(run: Runner, folder: Path, tmp_path: Path, command, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asked = (*command.split(), folder, "--budget", "3k", "--model", "gpt-5.4-mini", "--out", tmp_path / "report")
    ran = run(*asked, "--yes")
    assert (ran.status, "OPENAI_API_KEY" in ran.err, "Pricing" in ran.err) == (2, True, False)
    assert run(*asked, "--dry-run").status == 0  # a price needs none
    talk = "".join(json.dumps(says("user", f"Day {at}. " * 60)) + "\n" for at in range(40))  # nothing is asked about it
    (tmp_path / "talk.jsonl").write_text(talk, encoding="utf8")
    if command == "eval run":
        unasked = run("eval", "run", tmp_path / "talk.jsonl", *asked[3:], "--dry-run", "--json", "-")
        assert unasked.document["calls"] == 0
    (tmp_path / "given.jsonl").touch()  # where replies are given, those that are missing are what is wrong
    assert f"{tmp_path / 'given.jsonl'} lacks replies" in run(*asked, "--cassette", tmp_path / "given.jsonl").err


@pytest.mark.parametrize("command", ["eval run", "tune --propose 1 --model m --dry-run", "replay"])
def test_views_have_the_tokens_of_the_users_settings(run: Runner, folder: Path, tmp_path: Path, command: str):
    (tmp_path / "own.toml").write_text("[summarizing_context]\nmax_tokens = 3_000\n", encoding="utf8")
    out = () if command == "replay" else ("--out", tmp_path / "report")
    said = [run(*command.split(), folder, *out, *more).err for more in ((), ("--config", tmp_path / "own.toml"))]
    assert ("16,000 tokens" in said[0], "3,000 tokens" in said[1]) == (True, True)


def test_a_recording_is_replayed_with_tables_and_reports(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    answered(tmp_path)
    (tmp_path / "evals").mkdir()
    (tmp_path / "data").rename(tmp_path / "evals" / "real")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    ran = run("eval", "run", "real", "--jobs", 1, "--arms", "ours,compact,tail")
    assert ran.status == 0
    assert "For 2 of 3 views the answers belong to exactly this view." in ran.out
    assert "Others: heating tail: not read." in ran.out
    report = json.loads((tmp_path / "eval-report" / "report.json").read_text())
    assert [one["id"] for one in report["asked"]] == ["q1", "q2", "q3", "q4", "q5"]
    assert open_to_others(tmp_path / "eval-report") == []
    gate = ("--arms", "ours,compact", "--fail-under", "evidence=1,right=1", "--json", "-")
    ran = run("eval", "run", "real", "--jobs", 1, *gate)
    assert (ran.status, ran.document["gates"][0]["passed"]) == (1, False)
