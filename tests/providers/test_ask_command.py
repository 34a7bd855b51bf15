"""`eval ask`: one model asks about a log, another answers and marks, on the loopback; replayed without it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.cli import main
from summarizing_context.evaluation.demo import demo_session
from summarizing_context.summarizers.prompts import latest, write_prompt
from tests.cli.commands import write_transcript
from tests.privacy import open_to_others

from .asking import JUDGE, QUESTIONS, WRITER, answering, kind_of, says
from .protocols import KEY, OPENAI, completion, system_text
from .serve import command, same_reports, serving_apart
from .server import Answer, ProviderServer, Request

SECRET = "sk-abcdefghijklmnop1234"
ROLES = {WRITER: {"questions", "summary"}, JUDGE: {"reader", "judge"}}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("COLUMNS", "80")
    messages = [{"role": "user", "content": f"The key is {SECRET}."}, *demo_session(turns=4)[:20]]
    return write_transcript(tmp_path / "run.jsonl", messages)


def ask(log: Path, server: ProviderServer | None, *more: object, budget: object = "2k") -> int:
    url = OPENAI.base_url(server.root if server else "http://127.0.0.1:1")
    models = ("--model", WRITER, "--judge-model", JUDGE, "--base-url", url)
    return command("eval", "ask", log, "--budget", budget, *models, "--questions", 3, "--yes", *more)


def models_of(server: ProviderServer) -> dict[str, set[str]]:
    asked = [(request.body["model"], kind_of(request.body)) for request in server.requests]
    return {model: {kind for one, kind in asked if one == model} for model, _ in asked}


def test_two_models_ask_and_answer_and_the_folder_shows_it_again(log, monkeypatch, capsys):
    with serving_apart(answering) as server:
        assert ask(log, server, "--dry-run", "--json", "-") == 0
        told: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert (server.requests, Path("eval-ask").exists()) == ([], False)
        assert ask(log, server) == 0
        asked = len(server.requests)
        assert models_of(server) == ROLES
        assert SECRET not in "".join(json.dumps(request.body) for request in server.requests)
        assert ask(log, server) == 0
        assert len(server.requests) == asked
    writer, judge = told["models"]
    calls = writer["calls"] + judge["calls"]
    assert calls == pytest.approx(asked, abs=8)  # merges, and where views end segments, follow the replies
    assert judge["by_kind"] == {"judge": 1, "reader": 4}
    assert told["estimated_cost"] == pytest.approx(writer["estimated_cost"] + judge["estimated_cost"])
    shown = capsys.readouterr()
    judged = sum(request.body["model"] == JUDGE for request in server.requests)  # equal views are read once
    assert f"Recorded with {JUDGE} at {OPENAI.base_url(server.root)}: {judged} calls" in shown.err
    folder = Path("eval-ask")
    assert SECRET not in "".join(path.read_text("utf8") for path in folder.rglob("*.json*") if path.suffix != ".gz")
    assert folder.stat().st_mode & 0o077 == 0
    report = json.loads((folder / "report.json").read_text("utf8"))
    assert list(report["arms"]) == ["ours", "extractive", "compact", "tail"]
    assert sum(one["answers"]["ours"]["points"]["right"] for one in report["asked"] if one["category"] != "absent") == 1
    assert {view["reading"] for view in report["views"]} == {"this view"}
    tokens = [view["tokens"] for view in report["views"]]
    assert max(tokens) <= 1.1 * min(tokens)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert main(["eval", "run", str(folder), "--out", "again"]) == 0
    assert same_reports(folder, "again")
    assert open_to_others(Path("again")) == []
    assert ask(log, None, "--dry-run", budget="3k") == 2
    assert "another budget (2000)" in capsys.readouterr().err
    assert main(["eval", "run", "eval-ask", "--model", "m"]) == 2
    assert "belong to their own settings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"evidence": [9_999]}, "names message 9999, but there are 0 to"),
        ({"evidence": []}, "names no message"),
        ({"answer": " "}, "[0].answer`"),
        ({"category": "gossip"}, "Invalid enum value 'gossip'"),
    ],
)
def test_questions_that_cannot_be_used_are_asked_three_times_and_told(log, changed, said, capsys):
    def badly(request: Request) -> Answer:
        words = says(request.body, [{**QUESTIONS[0], **changed}])
        return Answer(body=json.dumps(completion(words)).encode())

    with serving_apart(badly) as server:
        assert ask(log, server) == 2
        assert [kind_of(request.body) for request in server.requests] == ["questions"] * 3
    assert said in capsys.readouterr().err


BOTH = ("--model", WRITER, "--judge-model", JUDGE)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--model", WRITER, "--judge-model", WRITER), "name another model"),
        ((*BOTH, "--arms", "hierarchical", "--budget", "1500"), "there is no arm"),
        ((*BOTH, "--budget", "900k"), "take a budget below"),
        (("--judge-model", JUDGE), "--model: name the model that summarizes"),
        (("--judge-model", JUDGE, "--summarizer", "extractive"), "--model: name the model that summarizes"),
        ((*BOTH, "--prompts", "nowhere"), "--prompts: nowhere is not a folder"),
    ],
)
def test_wrong_arguments_are_explained_on_one_line(log, given, said, capsys):
    assert main(["eval", "ask", str(log), "--dry-run", *given]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1


def test_settings_of_ones_own_and_a_cap_for_all_calls(log, tmp_path, capsys):
    (tmp_path / "mine" / "segment").mkdir(parents=True)
    prompt = replace(latest("segment"), version=9, text=f"{latest('segment').text}\nKeep every port.")
    (tmp_path / "mine" / "segment" / "v9.md").write_text(write_prompt(prompt), encoding="utf8")
    (tmp_path / "mine.toml").write_text(
        f'[summarizing_context]\nsummarizer = "openai"\nmodel = "{WRITER}"\nhigh_water = 0.8\n', encoding="utf8"
    )
    own = ("--config", tmp_path / "mine.toml", "--prompts", tmp_path / "mine", "--questions", 3)
    size = ("--budget", "2k", "--arms", "ours,tail")
    roles = ("--judge-model", JUDGE, "--yes")

    def asked(root: str, *more: object) -> int:
        return command("eval", "ask", log, *own, *size, *roles, "--base-url", f"{root}/v1", *more)

    with serving_apart(answering) as server:
        assert asked(server.root, "--max-calls", 4) == 4
        assert len(server.requests) == 4
        assert "the cap max_calls is reached; replies are kept" in capsys.readouterr().err
        assert asked(server.root) == 0
        assert models_of(server) == ROLES
        assert any("Keep every port." in system_text(request.body) for request in server.requests)
    (tmp_path / "mine.toml").rename(tmp_path / "gone.toml")
    (tmp_path / "mine").rename(tmp_path / "gone")
    assert main(["eval", "run", "eval-ask", "--out", "again"]) == 0
    assert same_reports("eval-ask", "again")
    capsys.readouterr()
    assert ask(log, None) == 2
    assert "other settings or prompts" in capsys.readouterr().err


def test_tuning_on_the_folder_has_answers_from_both_prompts_read_and_marked(log, capsys):
    Path("mine.md").write_text(f"{latest('segment').text}\nKeep every port.", encoding="utf8")
    with serving_apart(answering) as server:
        assert ask(log, server, "--arms", "ours,tail") == 0
        asked = len(server.requests)
        url = ("--base-url", OPENAI.base_url(server.root))
        words = ["tune", "eval-ask", "--prompt", "mine.md", "--model", WRITER, "--judge-model", JUDGE, *url]
        assert main([*words, "--dry-run", "--json", "-"]) == 0
        capsys.readouterr()
        assert len(server.requests) == asked
        assert main([*words, "--yes", "--json", "told.json"]) == 0
        made = server.requests[asked:]
        assert {kind_of(one.body) for one in made} == {"summary", "reader", "judge"}
        assert any("Keep every port." in system_text(one.body) for one in made)
        assert main([*words, "--out", "tune-report", "--json", "again.json"]) == 0
        assert len(server.requests) == asked + len(made)
    told = json.loads(Path("told.json").read_text("utf8"))
    assert (told["metric"], told["arms"]["mine"]["right"]["sessions"]) == ("right", 1)
    assert "too few sessions to tell" in told["verdict"] or "equal" in told["verdict"]
    assert Path("told.json").read_bytes() == Path("again.json").read_bytes()
