"""Digests of views: the same twice, without rules, and a changed view is found in its section."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from evals.performance import view_digests
from evals.performance.view_digests import Fold, difference, differences, main, read, record, write
from tests.laws.builders import call, result, session, system, user

BUDGETS = (4_000, 12_000)
RULE = "Never touch the folder vendor, and always answer in French."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two transcripts, one of which states rules."""
    folder = tmp_path_factory.mktemp("digests")
    for name, said in (("a", "Please look at the logs."), ("b", RULE)):
        rows = [*session(seed=1, messages=10, rules=""), user(said), *session(seed=2, messages=110, rules="")]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def rows(folder: Path) -> view_digests.Rows:
    """The digests of both, made once."""
    return rows_of(folder)


def rows_of(folder: Path) -> view_digests.Rows:
    return record(sorted(folder.glob("*.jsonl")), BUDGETS)


def test_two_runs_give_the_same_digests_of_views_that_were_activated(folder: Path, rows: view_digests.Rows):
    assert list(differences(rows, rows_of(folder))) == []
    assert [row["4000"][2] > 1 for row in rows.values()] == [True, True]


def test_the_first_view_that_differs_is_named():
    folds = Fold(), Fold()
    views = [[system("Help."), user("hello")], [system("Help."), user("hello"), call("openai", ("c1", "bash", {}))]]
    for fold, last in zip(folds, ("done", "failed"), strict=True):
        for view in (*views, [*views[1], result("openai", "c1", last)], None):
            fold.add(view)
    old, new = (fold.row(0) for fold in folds)
    assert difference(old, new) == "view 3: messages"


@pytest.mark.parametrize("name", ["digests.json", "digests.json.gz"])
def test_a_check_fails_with_a_line_for_each_difference(
    folder: Path, rows: view_digests.Rows, name: str, tmp_path: Path, monkeypatch, capsys
):
    rows, path = copy.deepcopy(rows), tmp_path / name
    write(path, rows)
    assert read(path) == rows
    changed = next(iter(rows))
    rows[changed]["4000"][0] = "0" * 16
    write(path, rows)
    monkeypatch.setattr("sys.argv", ["view_digests", str(folder), "--budgets", "4000", "12000", "--check", str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert f"{changed} at 4000: the bytes differ" in capsys.readouterr().out
