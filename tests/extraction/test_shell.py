"""Shell commands: what is bare, what only looks, which files are obviously touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summarizing_context.extraction.tool_calls import bare_command, files_of, only_looks, tried


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("rm -rf build dist/*.whl 'old notes.txt'", [("build", "deleted")]),
        ("cd /repo && rm ./b.py /tmp/c", [("/repo/b.py", "deleted"), ("/tmp/c", "deleted")]),
        ("git mv src/a.py src/b.py", [("src/a.py", "moved"), ("src/b.py", "created")]),
        ("cp a.py pkg/", [("pkg/a.py", "created")]),
        ("mkdir -p o; touch o/y && echo hi >> log", [("o", "created"), ("o/y", "touched"), ("log", "wrote")]),
        ("cat > notes.md <<'EOF'\nrm everything\n> no\nEOF\nls", [("notes.md", "wrote")]),
        ("sed -i 's/a/b/' src/a.py", [("src/a.py", "edited")]),
        ("make 2>&1 | tee build.log > /dev/null", [("build.log", "wrote")]),
        ("echo 'rm a.py' && test 1 -gt 0", []),
        ("rm $FILE `pwd`", []),
        ("ls -la", []),
    ],
)  # fmt: skip
def test_files_that_a_command_obviously_touches_are_told(command: str, files: list[tuple[str, str]]):
    assert [action[:2] for action in files_of(command)] == files


def test_a_command_is_told_without_shell_and_folder():
    assert bare_command("bash -lc cd /x && make test") == "make test"
    assert only_looks("git log -3")
    assert not only_looks("git commit -m x")


def test_two_runs_of_one_command_try_the_same_whatever_their_options():
    assert (
        tried("pytest -q tests/a.py 2>&1 | tail -5") == tried("pytest tests/a.py -x --maxfail=1") == "pytest tests/a.py"
    )


@given(st.text(alphabet="rmcp >|&;'\"\\\n<EOF$-/.", max_size=200))
def test_no_command_is_too_odd(command: str):
    assert all(path for path, _, _ in files_of(command))
