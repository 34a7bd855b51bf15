"""`summarizing-context eval`: transcripts of one's own, comparing runs, and recorded answers."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.commands import Runner, says
from tests.evaluation.sessions import answered, write
from tests.privacy import open_to_others


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two transcripts without any label."""
    return write(tmp_path_factory.mktemp("logs"), 1, 2)


def test_transcripts_without_labels_are_run_and_runs_are_compared(run: Runner, folder: Path, tmp_path: Path):
    place = (folder, "--budget", "3k", "--jobs", 1)
    ran = run("eval", "run", *place, "--out", tmp_path / "a", "--json", "-")
    assert (ran.status, set(ran.document["arms"])) == (0, {"ours", "tail", "masking"})
    assert ran.document["questions"] > 0
    assert ran.document["arms"]["ours"]["laws"] == 0
    assert open_to_others(tmp_path) == []
    pages = [tmp_path / name / "report.html" for name in ("a", "b")]
    assert "session-1" in pages[0].read_text("utf8")
    assert "No law was broken." in run("eval", "run", *place, "--out", tmp_path / "b").out
    assert pages[0].read_bytes() == pages[1].read_bytes()
    compared = run("eval", "compare", tmp_path / "a", tmp_path / "b", "--json", "-")
    assert (compared.status, compared.document["worse"]) == (0, False)
    said = {one["words"] for one in compared.document["changes"] if one["what"] == "held"}
    assert said == {"equal on every question, 2 sessions"}

    config = tmp_path / "mine.json"  # settings of one's own reach the run
    config.write_text('{"segment_target": 900, "segment_max": 1200, "segment_min": 300}', encoding="utf8")
    assert run("eval", "run", *place, "--config", config, "--out", tmp_path / "report").status == 0
    settings = json.loads((tmp_path / "report" / "report.json").read_text("utf8"))["settings"]
    assert settings["ours"]["segment_target"] == 900
    assert run("eval", "run", *place, "--prompts", tmp_path / "nowhere").status == 2


def test_a_worse_run_is_told_and_is_exit_status_1(run: Runner, tmp_path: Path):
    logs, junit = write(tmp_path / "many", *range(5)), tmp_path / "compare.xml"
    assert run("eval", "run", logs, "--budget", "3k", "--jobs", 1, "--out", tmp_path / "old").status == 0
    document = json.loads((tmp_path / "old" / "report.json").read_text("utf8"))
    for one in document["asked"]:  # a run in which our views hold nothing
        one["answers"]["ours"]["points"]["held"] = 0.0
    document["settings"]["ours"]["max_tokens"] = 8_000
    for one in document["views"]:
        one["tokens"] *= 2 if one["arm"] == "ours" else 1
    (tmp_path / "new.json").write_text(json.dumps(document), encoding="utf8")
    told = run("eval", "compare", tmp_path / "old", tmp_path / "new.json", "--junit", junit, "--json", "-")
    assert (told.document["worse"], told.status) == (True, 1)
    assert "ours: max_tokens was 3000 in the old run, 8000 in the new one" in told.err
    assert re.findall(r"(\w+): its views have [\d,]+ tokens, in the old run [\d,]+", told.err) == ["ours"]
    assert ElementTree.parse(junit).getroot().get("failures") != "0"
    assert run("eval", "compare", tmp_path / "new.json", tmp_path / "old").status == 0
    for one in document["asked"]:  # only what ours is measured against has become worse
        one["answers"]["ours"]["points"]["held"], one["answers"]["tail"]["points"]["held"] = 1.0, 0.0
    (tmp_path / "others.json").write_text(json.dumps(document), encoding="utf8")
    assert run("eval", "compare", tmp_path / "old", tmp_path / "others.json").status == 0
    assert run("eval", "compare", tmp_path / "old", tmp_path / "nowhere").status == 2


def test_a_gate_for_ci_is_the_exit_status_and_a_file(run: Runner, folder: Path, tmp_path: Path):
    place = (folder, "--budget", "3k", "--jobs", 1, "--out", tmp_path / "a", "--junit", tmp_path / "a.xml")
    assert run("eval", "run", *place, "--fail-under", "held=0.05,evidence=0.05,laws=0").status == 0
    assert ElementTree.parse(tmp_path / "a.xml").getroot().get("failures") == "0"
    failed = run("eval", "run", *place, "--fail-under", "held=100%")
    assert (failed.status, "failed" in failed.out) == (1, True)
    assert ElementTree.parse(tmp_path / "a.xml").getroot().get("failures") == "1"
    for wrong in ("held", "held=much", "riht=0.9"):
        assert run("eval", "run", *place, "--fail-under", wrong).status == 2


def test_where_nothing_was_measured_nothing_passes(run: Runner, folder: Path, tmp_path: Path):
    ran = run("eval", "run", folder, "--budget", "900k", "--jobs", 1, "--out", tmp_path / "a")
    assert (ran.status, "Nothing was measured" in ran.out) == (1, True)


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
    for number in range(chats):
        told = [SAID.get(at, f"Day {at}: " + "the wind turned and we went on. " * 12) for at in range(40)]
        said = [says(("user", "assistant")[at % 2], text) | {"id": at} for at, text in enumerate(told)]
        turns = [said[at : at + 2] for at in range(0, 40, 2)]
        batches = [{"batch_number": 1, "turns": turns[:10]}, {"batch_number": 2, "turns": turns[10:]}]
        (folder / str(number) / "probing_questions").mkdir(parents=True)
        (folder / str(number) / "chat.json").write_text(json.dumps(batches), encoding="utf8")
        asked = {category: [{"question": f"Of {category}?", **one}] for category, one in ASKED.items()}
        place = folder / str(number) / "probing_questions" / "probing_questions.json"
        place.write_text(json.dumps(asked), encoding="utf8")
    return folder


def test_the_evidence_of_beams_questions_is_measured_by_category(run: Runner, tmp_path: Path):
    place = ("--budget", "2k", "--jobs", 1, "--out", tmp_path / "report")
    ran = run("eval", "run", f"beam:{beam(tmp_path / 'chats')}", *place, "--json", "-")
    assert ran.status == 0
    arms = ran.document["arms"]
    held = {name: {arm: arms[arm]["categories"][name]["mean"] for arm in arms} for name in arms["ours"]["categories"]}
    assert set(held) == {"instruction_following", "knowledge_update", "temporal_reasoning"}
    assert held["instruction_following"] == {"ours": 1.0, "tail": 0.0, "masking": 0.0}  # a rule
    assert held["knowledge_update"] == {"ours": 1.0, "tail": 1.0, "masking": 1.0}  # said last
    assert held["temporal_reasoning"]["tail"] == 0.0
    whole = json.loads((tmp_path / "report" / "report.json").read_text("utf8"))
    assert [one["session"] for one in whole["asked"]] == ["0"] * 3 + ["1"] * 3  # each question as much as any other
    assert arms["tail"]["held"]["mean"] == pytest.approx(1 / 3)
    page = (tmp_path / "report" / "report.html").read_text("utf8")
    assert "knowledge_update" in page
    assert "knowledge" in run("eval", "run", f"beam:{tmp_path / 'chats'}", *place).out


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("chat.json", None, "the folder holds no chat.json"),
        ("chat.json", "[{", "not JSON"),
        ("chat.json", "[]", "length >= 1"),
        ("chat.json", '[{"turns": [[{"role": "user", "id": 0}]]}]', "missing required field `content` - at `$[0]`"),
        ("chat.json", json.dumps([{"role": "user", "id": 0, "content": "a"}] * 2), "two messages have one id"),
        ("probing_questions/probing_questions.json", None, "no probing_questions.json is in its folder"),
        ("probing_questions/probing_questions.json", "[]", "Expected `object`, got `array`"),
    ],
)
def test_what_is_wrong_in_a_folder_of_beam_is_told(run: Runner, tmp_path: Path, file: str, content, told: str):
    place = beam(tmp_path / "chats", 1) / "0" / file
    place.unlink()
    if content is not None:
        place.write_text(content, encoding="utf8")
    ran = run("eval", "run", f"beam:{tmp_path / 'chats'}", "--out", tmp_path / "report")
    assert ran.status == 2
    assert told in " ".join(ran.err.split())
    assert not (tmp_path / "report").exists()


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
    for least, status in ((0.5, 0), (1.5, 1)):
        gate = ("--fail-under", f"right={least}", "--json", "-")
        ran = run("eval", "run", "real", "--jobs", 1, "--arms", "ours,compact", *gate)
        assert (ran.status, ran.document["gates"][0]["passed"]) == (status, status == 0)
