"""bounded_passes: a fact goes through at most floor(log4 segments) + 1 summarizations, its segment's own counted."""

import random
import re

from .builders import assistant, marked, user
from .checkers import find_tail
from .judge import most_passes, watched
from .shapes import plain_text
from .summarizers import Provenance, joined, provenance

SHORT = {"segment_min": 50, "segment_target": 150, "segment_max": 300, "summary_max_tokens": 37}


async def test_no_fact_is_passed_on_more_often_than_the_tree_is_high() -> None:
    summarizer, rng, entry = Provenance(), random.Random(33), dict[int, int]()  # the log entry of each marker
    async with watched(summarizer, budget=1_500, **SHORT) as judge:
        for _ in range(90):
            for make in (user, assistant):
                text, marks = marked(len(entry), rng.randint(30, 120))
                entry.update(dict.fromkeys(range(len(entry), len(entry) + len(marks)), len(judge.log)))
                await judge.add(make(text))
            await judge.context.wait_idle()
            await judge.view()
        segments = len({job.range_hash for job in summarizer.segments})
        bound = most_passes(segments)
        assert segments >= 64
        assert 2 <= judge.context.statistics().max_passes <= bound
        shown = [int(n) for row in judge.last for n in re.findall(r"passes (\d+)", plain_text(row["content"]))]
        assert 0 < max(shown) <= bound
        assert any(job.kind == "rollup" for job in summarizer.jobs)
        assert judge.activations > 5

        # The ranges that the header's summaries tell leave no hole up to the raw tail, a provisional node excepted.
        tail = find_tail(judge.last, judge.log)
        assert not isinstance(tail, str)
        assert tail.log_start > 60
        told = joined([one for row in judge.last[: tail.view_start] for one in provenance(plain_text(row["content"]))])
        assert told[0][0] == 0
        covered = max(number for number, place in entry.items() if place < tail.log_start)
        assert told[0][1] >= covered - 300 * 4 // 40  # at most a segment's worth is covered provisionally
