"""The judge of the contract finds what is wrong and nothing else; `laws/test_judge.py` has more of the laws' checks."""

from dataclasses import replace

import pytest

from tests.hosts.contract.judge import Judge
from tests.hosts.contract.rows import Call, Row

WORDS = "many words of a file that was read long ago; " * 20
C0, C1, C2 = (Call(f"c{number}", "read", "{}") for number in range(3))
LOG = [
    Row("user", "[p0] Fix it."),
    Row("assistant", "[r0] I look.", (C0, C1), thinking="Which one?"),
    Row("tool", f"[c0] {WORDS}end.", answers="c0"),
    Row("user", "[p1] Go on."),
    Row("assistant", "[r1] I look.", (C2,), thinking="How?"),
    Row("tool", "[c2] Here.", answers="c2"),
]
HEADER, LOST = Row("user", "Summaries: a file was read."), Row("tool", "No result.", answers="c1")
WHOLE = [*LOG[:3], LOST, *LOG[3:]]
COVERING = [LOG[0], HEADER, *LOG[3:]]


def problems(sent: list[Row], budget: int = 2_000, removed: tuple[str, ...] = ()) -> list[str]:
    judge = Judge(budget)
    judge.check(sent, LOG, removed)
    return judge.problems


def changed(mark: str, **fields: object) -> list[Row]:
    return [replace(row, **fields) if row.mark == mark else row for row in WHOLE]


SHORTENED = changed("c0", text=f"[c0] {WORDS[:100]}\n[…200…]\n of a file end.")


@pytest.mark.parametrize(
    "sent", [WHOLE, COVERING, SHORTENED, changed("r0", thinking=""), [LOG[0], replace(LOG[1], calls=(C0,)), *LOG[2:]]]
)
def test_what_is_right_has_no_problem(sent):
    assert problems(sent) == []


@pytest.mark.parametrize(
    "sent",
    [
        *([], LOG, WHOLE[1:], WHOLE[:-2], [LOG[0], HEADER, *LOG[4:]], [HEADER, *COVERING], [*COVERING, HEADER]),
        changed("c0", text=f"[c0] {WORDS}other."),
        changed("c2", text="[c2] Her"),
        changed("r1", calls=(Call("c2", "read", '{"path": "b"}'),)),
        changed("r0", thinking="Which"),
        changed("r1", thinking=""),
        changed("p1", role="assistant"),
    ],
)
def test_what_is_wrong_is_told(sent):
    assert problems(sent) != []


def test_what_is_over_the_budget_or_was_removed_is_a_problem():
    assert problems(WHOLE, budget=284) == []
    assert "284 tokens do not fit 283" in str(problems(WHOLE, budget=283))
    assert "p0 was removed" in str(problems(WHOLE, removed=("p0", "p9")))
