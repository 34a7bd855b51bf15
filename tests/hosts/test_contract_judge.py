"""The judge of the contract finds what is wrong and nothing else, and shares no code with the package."""

from dataclasses import replace

import pytest

from tests.hosts.contract.judge import Judge
from tests.hosts.contract.rows import Call, Row

WORDS = "many words of a file that was read long ago; " * 20

LOG = [
    Row("user", "[p0] Fix it."),
    Row("assistant", "[r0] I look.", (Call("c0", "read", "{}"), Call("c1", "read", "{}")), thinking="Which one?"),
    Row("tool", f"[c0] {WORDS}end.", answers="c0"),
    Row("tool", "[c1] Short.", answers="c1"),
    Row("assistant", "[a0] Done."),
    Row("user", "[p1] And this."),
    Row("assistant", "[r1] I look.", (Call("c2", "read", "{}"), Call("c3", "read", "{}")), thinking="Where?"),
    Row("tool", "[c2] Found.", answers="c2"),
    Row("user", "[p2] Go on."),
    Row("assistant", "[r2] I look.", (Call("c4", "read", "{}"),), thinking="How?"),
    Row("tool", "[c4] Here.", answers="c4"),
]
HEADER = Row("user", "Summaries: a file was read.")
LOST = Row("tool", "No result.", answers="c3")

WHOLE = [*LOG[:8], LOST, *LOG[8:]]
COVERING = [LOG[0], HEADER, *LOG[5:8], LOST, *LOG[8:]]


def problems(sent: list[Row], budget: int = 2_000, removed: tuple[str, ...] = ()) -> list[str]:
    judge = Judge(budget)
    judge.check(sent, LOG, removed)
    return judge.problems


def without(sent: list[Row], mark: str) -> list[Row]:
    return [row for row in sent if row.mark != mark]


def changed(sent: list[Row], mark: str, **fields: object) -> list[Row]:
    return [replace(row, **fields) if row.mark == mark else row for row in sent]


def swapped(sent: list[Row], one: int, other: int) -> list[Row]:
    found = list(sent)
    found[one], found[other] = found[other], found[one]
    return found


@pytest.mark.parametrize(
    "sent",
    [
        WHOLE,
        COVERING,
        changed(WHOLE, "c0", text=f"[c0] {WORDS[:100]} ... of a file end."),
        changed(WHOLE, "r0", thinking=""),
        [*changed(WHOLE[:8], "r1", calls=LOG[6].calls[:1]), *LOG[8:]],
    ],
)
def test_what_is_right_has_no_problem(sent):
    assert problems(sent) == []


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ([], "first message"),
        (WHOLE[1:], "first message is not the first ask"),
        (without(WHOLE, "c4"), "no results of"),
        (without(WHOLE, "c1"), "stands before the results of"),
        ([*WHOLE, LOG[10]], "no open call is c4"),
        (WHOLE[:-2], "the newest message, c4, is not the last row"),
        (without(COVERING, "p2"), "the newest ask is missing"),
        (swapped(WHOLE, 0, 5), "out of order"),
        (swapped(WHOLE, 2, 3), "out of order"),
        ([*WHOLE[:5], WHOLE[4], *WHOLE[5:]], "come twice"),
        (without(WHOLE, "a0"), "not shown behind r0: ['a0']"),
        ([HEADER, *COVERING], "nobody has said it"),
        ([*COVERING[:7], HEADER, *COVERING[7:]], "nobody has said it"),
        ([COVERING[0], replace(HEADER, role="system"), *COVERING[2:]], "system's, and nobody has said it"),
        (changed(WHOLE, "c1", text="[c1] Shor"), "the words of c1"),
        (changed(WHOLE, "c0", text=f"[c0] {WORDS}other."), "the words of c0"),
        (changed(WHOLE, "r2", calls=(Call("c4", "read", '{"path": "b"}'),)), "the calls of r2"),
        (changed(WHOLE, "c2", text="Other."), "the result of c2 is another one"),
        (changed(WHOLE, "r0", thinking="Which"), "the thinking of r0 is another one"),
        (changed(WHOLE, "r2", thinking=""), "the thinking of r2 is gone"),
        (changed(WHOLE, "p1", role="assistant"), "p1 is assistant's"),
    ],
)
def test_what_is_wrong_is_told(sent, told):
    found = problems(sent)
    assert any(told in problem for problem in found), found
