"""One message a line: lines, errors that name them, and the files of folders."""

import gzip
from pathlib import Path

import pytest

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts import find_transcripts, read, read_session
from tests.laws.builders import user


def written(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(TranscriptError) as caught:
        list(read(path))
    return str(caught.value)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_each_line_becomes_a_message_without_the_keys_that_are_ours(tmp_path, name):
    path = written(tmp_path / name, b'{"role": "user", "content": "hi", "_meta": {"a": 1}}\n\n{"role": "tool"}\n')
    log = read_session(path)
    assert log.messages == (user("hi"), {"role": "tool"})
    assert (log.format, log.session_id, log.where(1)) == ("messages", "a", f"{path}:3")


def test_inner_keys_lone_surrogates_and_line_separators_are_kept_behind_a_byte_order_mark(tmp_path):
    message = user([{"_inner": "\ud800 a\u2028b"}])
    data = '\ufeff{"role": "user", "content": [{"_inner": "\ud800 a\u2028b"}]}'.encode("utf8", "surrogatepass")
    assert read_session(written(tmp_path / "a.jsonl", data)).messages == (message,)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        # more of its lines are broken than not
        (b'{"role": "user"}\nab\n\ncd\n', ":2: not JSON: Expecting value at column 1; each line must be one JSON obj"),
        (b"\0" * 512, ":1: not JSON: "),
        (b'{\n"role": "user",\n"content": "hi"\n}\n', ":1: not JSON: "),
        (b'{"role": "us\n', ":1: not JSON: Unterminated string starting at column 10"),
        (b"[1]\n", ":1: a JSON array, not an object"),
        (b"1\n", ":1: a JSON number or truth value, not an object"),
        (b'{"role": "\xff"}\n', ":1: byte 11 is not UTF-8"),
        (b"[" * 100_000, ":1: JSON that cannot be read (RecursionError)"),
    ],
)
def test_a_bad_line_is_named_with_what_is_wrong(tmp_path, data, problem):
    path = written(tmp_path / "a.jsonl", data)
    assert refusal(path).startswith(f"{path}{problem}")


def test_folders_are_searched_through_in_order_and_each_file_is_taken_once(tmp_path):
    second = written(tmp_path / "b" / "2.jsonl.gz", b"")
    first = written(tmp_path / "a" / "1.jsonl", b"")
    written(tmp_path / "a" / "notes.txt", b"")
    assert find_transcripts([tmp_path, second]) == [first, second]


@pytest.mark.parametrize(
    ("name", "problem"),
    [("none", "no such file or folder"), ("x.txt", "is not .jsonl or"), ("empty", "holds no transcript")],
)
def test_a_path_that_is_no_transcript_is_refused(tmp_path, name, problem):
    (tmp_path / "empty").mkdir()
    written(tmp_path / "x.txt", b"")
    with pytest.raises(TranscriptError, match=problem):
        find_transcripts([tmp_path / name])
    with pytest.raises(TranscriptError, match="no transcript was named"):
        find_transcripts([])
