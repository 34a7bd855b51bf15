"""The judge of the contract finds what is wrong and nothing else."""

from dataclasses import replace

import pytest

from tests.hosts.contract.judge import Judge
from tests.hosts.contract.rows import Call, Row

WORDS = "many words of a file that was read long ago; " * 20
C0, C1, C2, C3, C4 = (Call(f"c{number}", "read", "{}") for number in range(5))
LOG = [
    Row("user", "[p0] Fix it."),
    Row("assistant", "[r0] I look.", (C0, C1), thinking="Which one?"),
    Row("tool", f"[c0] {WORDS}end.", answers="c0"),
    Row("tool", "[c1] Short.", answers="c1"),
    Row("assistant", "[a0] Done."),
    Row("user", "[p1] And this."),
    Row("assistant", "[r1] I look.", (C2, C3), thinking="Where?"),
    Row("tool", "[c2] Found.", answers="c2"),
    Row("user", "[p2] Go on."),
    Row("assistant", "[r2] I look.", (C4,), thinking="How?"),
    Row("tool", "[c4] Here.", answers="c4"),
]
HEADER, LOST = Row("user", "Summaries: a file was read."), Row("tool", "No result.", answers="c3")
WHOLE = [*LOG[:8], LOST, *LOG[8:]]
COVERING = [LOG[0], HEADER, *LOG[5:8], LOST, *LOG[8:]]


def problems(sent: list[Row]) -> list[str]:
    judge = Judge(2_000)
    judge.check(sent, LOG)
    return judge.problems


def changed(mark: str, **fields: object) -> list[Row]:
    return [replace(row, **fields) if row.mark == mark else row for row in WHOLE]


@pytest.mark.parametrize(
    "sent",
    [
        WHOLE,
        COVERING,
        changed("c0", text=f"[c0] {WORDS[:100]}\n[…200…]\n of a file end."),
        changed("r0", thinking=""),
        [*WHOLE[:6], replace(LOG[6], calls=(C2,)), LOG[7], *LOG[8:]],
    ],
)
def test_what_is_right_has_no_problem(sent):
    assert problems(sent) == []


@pytest.mark.parametrize(
    "sent",
    [
        [],
        WHOLE[1:],
        WHOLE[:-1],
        [*WHOLE[:3], *WHOLE[4:]],
        [*WHOLE, LOG[10]],
        WHOLE[:-2],
        [row for row in COVERING if row.mark != "p2"],
        [WHOLE[5], *WHOLE[1:5], WHOLE[0], *WHOLE[6:]],
        [*WHOLE[:5], WHOLE[4], *WHOLE[5:]],
        [*WHOLE[:4], *WHOLE[5:]],
        [HEADER, *COVERING],
        [*COVERING[:7], HEADER, *COVERING[7:]],
        changed("c1", text="[c1] Shor"),
        changed("c0", text=f"[c0] {WORDS}other."),
        changed("r2", calls=(Call("c4", "read", '{"path": "b"}'),)),
        changed("c2", text="Other."),
        changed("r0", thinking="Which"),
        changed("r2", thinking=""),
        changed("p1", role="assistant"),
    ],
)
def test_what_is_wrong_is_told(sent):
    assert problems(sent) != []
