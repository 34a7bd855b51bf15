"""`eval ask`: one model asks about a log, another answers and marks, on the loopback; replayed without it."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from summarizing_context.evaluation.replay import demo_session
from summarizing_context.summarizers.prompts import latest
from tests.cli.commands import write_transcript
from tests.privacy import open_to_others

from .protocols import KEY, OPENAI, Json, completion, system_text, user_text
from .serve import command, honest, kept_prompt, same_reports, serving_apart
from .server import Answer, ProviderServer, Request

SECRET = "sk-abcdefghijklmnop1234"
WRITER, JUDGE = "gpt-5.4-mini", "gpt-5.4"
QUESTIONS = [
    {"category": "rule", "question": "What is forbidden?", "answer": "Restarts by day.", "evidence": [0, 2]},
    {"category": "fact", "question": "Which port is used?", "answer": "8080", "evidence": [3]},
    {"category": "absent", "question": "Who pays?", "answer": "not in the record", "evidence": []},
]


def kind_of(body: Json) -> str:
    beginnings = {"You write a memory": "questions", "You take a memory": "reader", "You grade": "judge"}
    return next((kind for words, kind in beginnings.items() if system_text(body).startswith(words)), "summary")


def says(body: Json) -> str:
    """Three questions; the first one answered from every view; every answer right, an abstention that."""
    content = user_text(body)
    match kind_of(body):
        case "questions":
            return f"Here they are:\n{json.dumps({'questions': QUESTIONS})}"
        case "reader":
            listed = json.loads(content[content.rindex("Questions: ") + len("Questions: ") :])
            return f"```json\n{json.dumps({listed[0]['id']: 'Restarts by day.'})}\n```"
        case "judge":
            asked = json.loads(content[content.index("{") : content.rindex("}") + 1])["questions"]
            assert all(set(one["answers"]) <= {"A", "B", "C", "D"} for one in asked)
            marks = {"rule": 2, "fact": 0, "absent": 2}
            given = {one["id"]: dict.fromkeys(one["answers"], marks[one["category"]]) for one in asked}
            return f"Here it is:\n{json.dumps(given)}"
    return honest(body)


def answering(request: Request) -> Answer:
    return Answer(model=says)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("COLUMNS", "80")
    messages = [{"role": "user", "content": f"The key is {SECRET}."}, *demo_session(turns=4)[:20]]
    return write_transcript(tmp_path / "run.jsonl", messages)


MODELS = ("--model", WRITER, "--judge-model", JUDGE)


def ask(log: Path, server: ProviderServer | None, *more: object, budget: str = "2k", models: Any = MODELS) -> int:
    url = OPENAI.base_url(server.root if server else "http://127.0.0.1:1")
    return command("eval", "ask", log, "--budget", budget, *models, "--base-url", url, "--questions", 3, "--yes", *more)


MINE = replace(latest("segment"), version=9, text=f"{latest('segment').text}\nKeep every port.")


def test_two_models_ask_and_answer_and_the_folder_shows_it_again(log, tmp_path, monkeypatch, capsys):
    prompts, config, folder = tmp_path / "mine", tmp_path / "mine.toml", Path("eval-ask")
    kept_prompt(MINE, prompts)
    config.write_text(f'[summarizing_context]\nsummarizer = "openai"\nmodel = "{WRITER}"\nhigh_water = 0.8\n')
    own = partial(ask, log, models=("--config", config, "--prompts", prompts, "--judge-model", JUDGE))
    with serving_apart(answering) as server:
        assert own(server, "--dry-run", "--json", "-") == 0
        told: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert (server.requests, folder.exists()) == ([], False)
        assert own(server, "--max-calls", 4) == 4
        assert len(server.requests) == 4
        assert "the cap max_calls is reached; replies are kept" in capsys.readouterr().err
        assert own(server) == 0
        bodies = [request.body for request in server.requests]
        asked = {(body["model"], kind_of(body)) for body in bodies}
        assert asked == {(WRITER, "questions"), (WRITER, "summary"), (JUDGE, "reader"), (JUDGE, "judge")}
        assert any("Keep every port." in system_text(body) for body in bodies)
        assert SECRET not in json.dumps(bodies)
        assert own(server) == 0
        assert len(server.requests) == len(bodies)
    writer, judge = told["models"]
    assert writer["calls"] + judge["calls"] == pytest.approx(len(bodies), abs=8)  # merges and ends follow the replies
    assert judge["by_kind"] == {"judge": 1, "reader": 4}
    assert told["estimated_cost"] == pytest.approx(writer["estimated_cost"] + judge["estimated_cost"])
    judged = sum(body["model"] == JUDGE for body in bodies)  # equal views are read once
    assert f"Recorded with {JUDGE} at {OPENAI.base_url(server.root)}: {judged} calls" in capsys.readouterr().err
    assert SECRET not in "".join(path.read_text("utf8") for path in folder.rglob("*.json*") if path.suffix != ".gz")
    assert folder.stat().st_mode & 0o077 == 0
    report = json.loads((folder / "report.json").read_text("utf8"))
    assert list(report["arms"]) == ["ours", "extractive", "compact", "tail"]
    assert sum(one["answers"]["ours"]["points"]["right"] for one in report["asked"] if one["category"] != "absent") == 1
    assert {view["reading"] for view in report["views"]} == {"this view"}
    assert max(view["tokens"] for view in report["views"]) <= 1.1 * min(view["tokens"] for view in report["views"])
    assert own(None, "--dry-run", "--questions", 7) == 0
    assert "--questions: the 3 that eval-ask holds are asked; for others name" in capsys.readouterr().err
    assert own(None, "--dry-run", budget="3k") == 2
    assert "another budget (2000)" in capsys.readouterr().err
    config.rename(tmp_path / "gone.toml")
    prompts.rename(tmp_path / "gone")
    monkeypatch.delenv("OPENAI_API_KEY")
    assert command("eval", "run", folder, "--out", "again") == 0
    assert same_reports(folder, "again")
    assert open_to_others(Path("again")) == []
    capsys.readouterr()
    assert ask(log, None) == 2
    assert "other settings or prompts" in capsys.readouterr().err
    assert command("eval", "run", folder, "--model", "m") == 2
    assert "belong to their own settings" in capsys.readouterr().err


def test_questions_that_cannot_be_used_are_asked_three_times_and_told(log, capsys):
    for changed, said in (
        ({"evidence": [9_999]}, "names message 9999, but there are 0 to"),
        ({"evidence": []}, "names no message"),
        ({"answer": " "}, "[0].answer`"),
        ({"category": "gossip"}, "Invalid enum value 'gossip'"),
    ):
        words = json.dumps({"questions": [{**QUESTIONS[0], **changed}]})
        with serving_apart(lambda _, words=words: Answer(body=json.dumps(completion(words)).encode())) as server:
            assert ask(log, server) == 2
            assert [kind_of(request.body) for request in server.requests] == ["questions"] * 3
        assert said in capsys.readouterr().err


def test_tuning_on_the_folder_has_answers_from_both_prompts_read_and_marked(log, tmp_path, monkeypatch):
    moved, update = list[tuple[float, float | None]](), Progress.update

    def watched(bar: Progress, task: Any, **given: Any) -> None:
        moved.append((given["completed"], bar.tasks[0].total))
        update(bar, task, **given)

    monkeypatch.setattr(Progress, "update", watched)
    prompt = kept_prompt(MINE, tmp_path / "mine")
    with serving_apart(answering) as server:
        assert ask(log, server, "--arms", "ours,tail") == 0
        asked = len(server.requests)
        words = ["tune", "eval-ask", "--prompt", prompt, *MODELS, "--base-url", OPENAI.base_url(server.root)]
        assert command(*words, "--dry-run") == 0
        moved.clear()
        assert len(server.requests) == asked
        assert command(*words, "--yes", "--json", "told.json") == 0
        made = server.requests[asked:]
        (most,) = {total for done, total in moved if done == len(made)}  # both prompts have equal replies: fewer come
        assert most is not None
        assert len(made) <= most <= len(made) + 4
        assert {*moved} >= {(done, most) for done in range(1, len(made) + 1)}  # with each reply, also of the judge
        assert {kind_of(one.body) for one in made} == {"summary", "reader", "judge"}
        assert any("Keep every port." in system_text(one.body) for one in made)
        assert command(*words, "--out", "tune-report", "--json", "again.json") == 0
        assert len(server.requests) == asked + len(made)
    told = json.loads(Path("told.json").read_text("utf8"))
    assert (told["metric"], told["arms"]["segment/v9"]["right"]["sessions"]) == ("right", 1)
    assert "too few sessions to tell" in told["verdict"] or "equal" in told["verdict"]
    assert Path("told.json").read_bytes() == Path("again.json").read_bytes()
