"""Digests of views: the same twice, without rules, and a changed view is found in its section."""

from __future__ import annotations

import copy
import json
from functools import partial
from pathlib import Path

import pytest

from evals.performance import view_digests
from evals.performance.scripted import ScriptedModel
from evals.performance.view_digests import Fold, difference, differences, main, read, record, write
from summarizing_context import Settings, SummaryJob
from summarizing_context.messages.estimate import estimate_text
from tests.laws.builders import Message, assistant, call, result, session, system, user

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


@pytest.mark.anyio
@pytest.mark.parametrize("source", [201, 400, 900, 2_000])
async def test_no_reply_of_the_script_is_larger_than_half_of_its_source(source: int):
    job = SummaryJob("segment", "Summarize.", "word " * source, 900, 0, 1, 9, source, "ab" * 32)
    reply = await ScriptedModel().summarize(job)
    assert estimate_text(reply) <= source / 2
    assert len(reply) > source


def test_no_rule_is_in_a_view_but_the_ledger_is(rows: view_digests.Rows):
    traces = [trace for row in rows.values() for *_, trace in row.values()]
    assert [trace for trace in traces if "standing_rules" in trace] == []
    assert any("ledger" in trace for trace in traces)


def test_the_section_of_a_changed_view_is_named(folder: Path, rows: view_digests.Rows, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(view_digests, "Settings", partial(Settings, ledger_share=0.0))
    found = list(differences(rows, rows_of(folder)))
    assert found
    assert [line for line in found if "ledger" not in line] == []


def test_the_first_view_that_differs_is_named():
    folds = Fold(), Fold()
    views = [[system("Help."), user("hello")], [system("Help."), user("hello"), call("openai", ("c1", "bash", {}))]]
    for fold, last in zip(folds, ("done", "failed"), strict=True):
        for view in (*views, [*views[1], result("openai", "c1", last)], None):
            fold.add(view)
    old, new = (fold.row(0) for fold in folds)
    assert difference(old, new) == "view 3: messages"


def test_a_message_that_leads_a_header_is_told_apart_from_the_tail():
    def row(first: str, summary: str) -> list[object]:
        fold = Fold()
        blocks: list[Message] = [{"type": "text", "text": text} for text in ("<history>\nPast.", summary, "</history>")]
        fold.add([user(first), user(blocks), assistant("go on")])
        return fold.row(1)

    row_before = row("hello", "<summary messages='1-2'>\nA.\n</summary>")
    assert difference(row_before, row("hello", "<summary messages='1-2'>\nB.\n</summary>")) == "view 1: summary"
    assert difference(row_before, row("bye", "<summary messages='1-2'>\nA.\n</summary>")) == "view 1: opening"


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


def test_a_transcript_that_is_missing_or_new_is_a_difference(rows: view_digests.Rows):
    one, other = ({name: rows[name]} for name in rows)
    assert len(list(differences(one, other))) == 2 * len(BUDGETS)
