"""conversation_order: raw rows keep the log's order; only results move, to their call."""

from .builders import assistant, session, user
from .checkers import find_tail
from .judge import replay, watched
from .shapes import canonical
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


async def test_the_order_of_a_view_is_rules_first_ask_header_tail() -> None:
    log = session(14, 150, size=40)
    async with watched(Counting(), budget=2_000) as judge:
        await replay(judge, log)
        view = judge.last
        assert view[0] == log[0]
        assert view[1]["role"] == "user"
        tail = find_tail(view, log)
        assert not isinstance(tail, str)
        assert 2 < tail.view_start < len(view)
        raw = [row for row in view[: tail.view_start] if canonical(row) not in map(canonical, log)]
        assert raw
        assert all(row["role"] == "user" for row in raw)
