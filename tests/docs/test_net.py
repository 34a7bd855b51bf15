"""The net: every test that tests/README.md names exists, and so does every file of tests/net.txt."""

from __future__ import annotations

import re

import pytest

from .checkout import ROOT

NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "tests" / "README.md").read_text(encoding="utf8"))))


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_every_test_that_holds_a_promise_exists(file: str):
    text = (ROOT / "tests" / file).read_text(encoding="utf8")
    assert [name for of, name in NAMED if of == file and not re.search(rf"def {name}\(", text)] == []


def test_every_line_of_the_net_leads_somewhere():
    for line in (ROOT / "tests" / "net.txt").read_text(encoding="utf8").splitlines():
        if line.startswith("tests/"):
            file, _, name = line.partition("[")[0].partition("::")
            assert (ROOT / file).exists(), line
            assert not name or f"def {name}(" in (ROOT / file).read_text(encoding="utf8"), line
