"""The net: every test that tests/README.md names exists, and tests/net.txt runs each."""

import re

import pytest

from .checkout import ROOT

NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "tests" / "README.md").read_text(encoding="utf8"))))


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_every_test_that_holds_a_promise_exists(file: str):
    text = (ROOT / "tests" / file).read_text(encoding="utf8")
    assert [name for of, name in NAMED if of == file and not re.search(rf"def {name}\(", text)] == []


def test_the_net_runs_each_of_them():
    # pytest runs nothing at all if it is asked for a test of a module that is skipped for want of a package
    needs_packages = re.compile(r"^(\w+ = )?pytest\.importorskip", re.MULTILINE)
    texts = {file: (ROOT / "tests" / file).read_text(encoding="utf8") for file, _ in NAMED}
    runs = [f"tests/{file}::{name}" for file, name in NAMED if not needs_packages.search(texts[file])]
    lines = (ROOT / "tests" / "net.txt").read_text(encoding="utf8").splitlines()
    assert [line for line in lines if line.startswith("tests/")] == runs
