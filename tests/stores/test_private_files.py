"""What holds text of sessions is nobody else's to read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from summarizing_context.cli.output import write_json
from summarizing_context.stores.private_files import make_private_folder, write_private


@pytest.fixture(autouse=True)
def open_handed():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_new_folders_and_files_are_private_whatever_the_umask(tmp_path):
    for mask in (0, 0o277):
        os.umask(mask)
        folder = tmp_path / str(mask) / "a" / "b"
        make_private_folder(folder)
        write_private(folder / "x", "text")
        assert [mode(one) for one in (folder, folder.parent, folder / "x")] == [0o700, 0o700, 0o600]


def test_a_folder_that_was_there_keeps_its_rights_and_a_file_loses_those_of_others(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "x").write_text("long before")
    make_private_folder(tmp_path)
    write_private(tmp_path / "x", b"now")
    assert (mode(tmp_path), mode(tmp_path / "x"), (tmp_path / "x").read_bytes()) == (0o755, 0o600, b"now")


def test_results_as_json_are_private_and_a_pipe_stays_what_it_is(tmp_path):
    write_json(str(tmp_path / "x.json"), {"a": "b"})
    assert mode(tmp_path / "x.json") == 0o600
    os.mkfifo(tmp_path / "pipe", 0o644)
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_json(str(tmp_path / "pipe"), {})
    os.close(reading)
    assert mode(tmp_path / "pipe") == 0o644
