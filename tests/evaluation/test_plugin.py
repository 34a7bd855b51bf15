"""The plug-in for pytest: a team's own test says what a session in a budget has to answer."""

from pathlib import Path

import pytest

from tests.evaluation.sessions import write

pytest_plugins = ["pytester"]
TESTS = """
pytest_plugins = ["summarizing_context.testing"]

def test_what_the_session_has_to_answer(session_check):
    check = session_check({log!r}, budget=3_000)
    assert check.tokens <= 3_000
    check.keeps_the_laws()
    check.answers("src/area_1/part_23.py")

def test_what_it_cannot_answer(session_check):
    session_check({log!r}, budget=3_000).answers("src/area_9/part_1.py", "src/area_1/part_23.py")
"""


def test_a_session_in_a_budget_answers_facts_or_the_test_names_them(pytester: pytest.Pytester, tmp_path: Path):
    log = write(tmp_path, 1) / "session-1.jsonl"
    pytester.makepyfile(TESTS.format(log=str(log)))
    ran = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    ran.assert_outcomes(passed=1, failed=1)
    ran.stdout.fnmatch_lines(["*lacks *src/area_9/part_1.py*"])
