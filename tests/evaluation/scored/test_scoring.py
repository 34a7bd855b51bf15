"""Scorers: verdicts on probes, support, drift, artifacts; and that each notices its defect."""

from __future__ import annotations

import pytest

from summarizing_context.evaluation.artifacts import (
    claimed_operations,
    last_operations,
    ledger_operations,
    score_artifacts,
)
from summarizing_context.evaluation.cases.model import read_session
from summarizing_context.evaluation.cases.verdicts import Text, judge
from summarizing_context.evaluation.figures import Source, check_support
from tests.evaluation.scored.building import call, generated, probe
from tests.evaluation.scored.defects import try_defects


@pytest.mark.parametrize(
    ("asked", "view", "kept"),
    [
        (probe("recall", "9090"), "the port is  9090.", True),
        (probe("recall", "9090"), "the port is 19090", False),
        (probe("recall", "Berth B6", "IMO 7"), "berth\tb6 and imo 7", True),
        (probe("recall", "a", any_of=("x", "y")), "a and y", True),
        (probe("recall", "a", any_of=("x", "y")), "a and z", False),
        (probe("recall", "a", forbid=("z",)), "a and z", False),
        (probe("constraint", "push", "never"), "Never push to main", True),
        (probe("constraint", "push", "never"), "Push to main\nnever mind", False),
        (probe("constraint", "push", "never"), '"Never push" (superseded)', False),
        (probe("supersession", "9090", forbid=("8080",)), "port 8080\nport 9090", True),
        (probe("supersession", "9090", forbid=("8080",)), "port 9090\nport 8080", False),
        (probe("supersession", "9090", forbid=("8080",)), "port 9090 instead of 8080", True),
        (probe("supersession", "9090", forbid=("8080",)), '"port 8080" (superseded)\n9090', True),
        (probe("ordering", "first", "second"), "first, then second", True),
        (probe("ordering", "first", "second"), "second, then first", False),
        (probe("abstention", forbid=("rent",)), "nothing of it", True),
        (probe("abstention", forbid=("rent",)), "the rent is 5", False),
    ],
)
def test_the_verdict_is(asked, view: str, kept: bool):
    assert judge(asked, Text([view])).kept is kept


def test_an_outdated_value_is_told_as_stale():
    assert judge(probe("supersession", "9090", forbid=("8080",)), Text(["port 8080"])).stale


SOURCE = ["The port is 9090 and the limit is 30.", "edited src/a.py; he said: Never push to main. 3 failed"]


@pytest.mark.parametrize(
    ("summary", "unsupported"),
    [
        ("edited src/a.py", ()),
        ("edited src/b.py", ("src/b.py",)),
        ('"Never push to main."', ()),
        ('"Always push to main."', ("Always push to main",)),
        ('"Never push to …"', ()),
        ("ran it (14 times)", ()),
        ("port 9091", ("9091",)),
    ],
)
def test_a_value_without_a_source_is_unsupported(summary: str, unsupported: tuple[str, ...]):
    assert check_support([summary], Source(SOURCE)).unsupported == unsupported


def test_what_an_argument_is_called_may_be_repeated():
    (read,) = read_session([call("1", "roster", set={"2026-06-05": {"late_shift": "Kim"}})])
    assert check_support(["roster(2026-06-05: late_shift)"], Source(read.source)).unsupported == ()
    assert check_support(["roster(2026-06-06: late_shift)"], Source(read.source)).unsupported == ("2026-06-06",)


@pytest.mark.parametrize(
    ("summary", "drifted"),
    [
        ("The port is 9090 and the limit is 30.", ()),
        ("The port is 30 and the limit is 9090.", ("30", "9090")),
        ("limit is 30", ()),
        ("9090 failed", ("9090",)),
    ],
)
def test_a_number_beside_other_words_has_drifted(summary: str, drifted: tuple[str, ...]):
    assert check_support([summary], Source(SOURCE)).drifted == drifted


def test_artifacts_are_those_that_calls_changed_last():
    log = [
        call("1", "create_file", path="a.py"),
        call("2", "edit_file", path="a.py"),
        call("3", "str_replace_editor", command="create", path="b.py"),
        call("4", "apply_patch", input="*** Delete File: c.py\n*** Add File: d.py"),
        call("5", "read_file", path="e.py"),
    ]
    truth = last_operations(read_session(log))
    assert truth == {"a.py": "changed", "b.py": "made", "c.py": "gone", "d.py": "made"}
    claimed = claimed_operations(["edited a.py, x.py", "deleted b.py"], truth)
    assert claimed == {"a.py": "changed", "b.py": "gone"}
    assert score_artifacts(truth, claimed) == (1, 4, 2)


def test_every_seeded_defect_is_tried_and_caught():
    found = try_defects([generated(domain, tokens=30_000) for domain in ("travel", "support", "software")])
    assert [defect for defect in found if not 0 < defect.tried == defect.caught] == []


def test_what_a_result_refuses_was_not_done():
    log = [
        call("1", "edit_file", path="a.py"),
        {"role": "tool", "tool_call_id": "1", "content": "Error: no such text"},
        call("2", "bash", command="cd /r && rm b.py > log.txt; mv c.py d.py"),
        {"role": "tool", "tool_call_id": "2", "content": "mv: no such file"},
    ]
    assert last_operations(read_session(log)) == {"/r/b.py": "gone", "/r/log.txt": "made"}


def test_the_operations_of_a_ledger_are_held_to_the_same_few_words():
    facts = [("a", "wrote"), ("b", "undid an edit of"), ("c", "moved"), ("d", "read"), ("e", "dropped")]
    assert ledger_operations(facts) == {"a": "made", "b": "changed", "c": "gone", "e": "gone"}
