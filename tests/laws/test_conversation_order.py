"""conversation_order: raw rows keep the log's order; only results move, to their call."""

from .builders import assistant, session, user
from .checkers import find_tail
from .judge import replay, watched
from .summarizers import Counting


async def test_views_keep_the_order_of_the_log_also_with_equal_rows() -> None:
    log = session(11, 120, size=40)
    for place in range(10, len(log), 9):
        if log[place]["role"] == "user":
            log[place:place] = [user("continue"), assistant("ok"), user("continue")]
    async with watched(Counting(), budget=1_500) as judge:
        await replay(judge, log)
        assert judge.activations > 2
        assert judge.covered > 50
        tail = find_tail(judge.last, judge.log)
        assert not isinstance(tail, str)
        made = [row for row in judge.last[: tail.view_start] if row not in log]
        assert {row["role"] for row in made} == {"user"}
