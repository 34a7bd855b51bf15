"""A folder of `eval ask` mends itself: bad replies are asked again, and damaged files are named with the way out."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from summarizing_context.evaluation.replay import demo_session
from tests.cli.commands import write_transcript
from tests.privacy import open_to_others
from tests.providers import test_ask_command
from tests.providers.asking import WRITER, answering, kind_of
from tests.providers.protocols import completion
from tests.providers.serve import serving_apart
from tests.providers.server import Answer, ProviderServer, Request

BAD = {  # what can be read, and cannot be used
    "questions": '{"questions": [{"category": "fact", "question": "Who?", "answer": "He.", "evidence": [9999]}]}',
    "reader": '{"question 7": "He."}',
    "judge": '{"q1": {"Z": 2}}',
}


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    write_transcript(tmp_path / "run.jsonl", demo_session()[:20])


def ask(server: ProviderServer) -> int:
    return test_ask_command.ask(Path("run.jsonl"), server, "--arms", "ours,tail", budget="3k")


def asked(server: ProviderServer) -> Counter[str]:
    return Counter(kind_of(request.body) for request in server.requests)


def badly(*kinds: str, times: int = 1_000) -> Callable[[Request], Answer]:
    """The first replies of these kinds cannot be used."""
    left = dict.fromkeys(kinds, times)

    def answer(request: Request) -> Answer:
        if not left.get(kind := kind_of(request.body)):
            return answering(request)
        left[kind] -= 1
        refusal = None if kind in BAD else "I cannot help with that."
        return Answer(body=json.dumps(completion(BAD.get(kind), refusal=refusal)).encode())

    return answer


@pytest.mark.parametrize(
    ("answer", "kinds", "said"),
    [
        (badly("judge"), ["questions", "summary", "reader", "judge"], "no usable judge reply in 3"),
        (badly("summary"), ["questions", "summary"], f"{WRITER} at http"),
    ],
)
def test_a_folder_with_bad_replies_is_asked_again_by_the_same_command(answer, kinds, said, capsys):
    with serving_apart(answer) as server:
        assert ask(server) == 2
        assert asked(server).keys() == {*kinds}
        assert asked(server)[kinds[-1]] < 5
    told = capsys.readouterr().err
    assert said in told
    assert "asks again" in told
    with serving_apart(answering) as server:
        assert ask(server) == 0
        first = asked(server)
        assert first[kinds[-1]] >= 1
        assert ask(server) == 0
        assert asked(server) == first, "what could be used is not asked again"


def damaged(path: Path) -> list[bytes]:
    """What a process that was killed while it wrote the file could have left."""
    whole = path.read_bytes()
    return [b"", whole[: len(whole) // 2], gzip.compress(b'{"a": 1}\n')]


def test_a_damaged_file_of_the_folder_is_redone_or_named_with_its_line_and_the_way_out(capsys, caplog):
    with serving_apart(badly(*BAD, times=1)) as server:
        assert ask(server) == 0
        assert caplog.text.count("cannot be used") == len(BAD), "each is asked again in the same run"
        assert open_to_others(Path("eval-ask")) == []
        folder, first = Path("eval-ask"), len(server.requests)
        files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("report")]
        (questions,) = (folder / "questions").glob("run-*.json")
        names = {"cases.toml", "cassette.jsonl", questions.name, f"{questions.stem}.jsonl.gz"}
        assert {path.name for path in files} >= names
        for number, path in enumerate(files):
            whole = path.read_bytes()
            half = path.name == "cassette.jsonl"  # an empty one is one without replies
            path.write_bytes(left := damaged(path)[1 if half else number % 3])
            capsys.readouterr()
            if ask(server) != 0:
                told = capsys.readouterr().err
                assert f"error: {path}:" in told, left
                assert any(way in told for way in ("delete it", "new folder", "fetch the file again")), told
            path.write_bytes(whole)
        questions.unlink()
        assert ask(server) == 0
        assert questions.exists()
        assert len(server.requests) == first, "the cassette has all replies"
