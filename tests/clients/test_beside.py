"""What is counted of two proxies side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.clients.beside import Arm, markdown, play
from evals.clients.recorded import Recording, Watch, share
from evals.clients.tokens import Cache, request_tokens, written
from evals.hosts_beside.session import make_session


@pytest.mark.anyio
async def test_with_nobody_between_nothing_is_broken_and_no_fact_is_gone(tmp_path: Path):
    session = make_session(6)
    figures = await play(Arm("none"), session, tmp_path, tmp_path)
    assert figures["requests"] == len(Recording(session).replies) == len(figures["ms"])
    assert (figures["broken"], figures["breaks"], figures["problems"], figures["rules_missing"]) == (0, 0, [], 0)
    assert figures["kept_end"] == figures["kept_looks"] == 1
    assert figures["cached"] > figures["uncached"] >= figures["history"]


def test_a_fact_is_kept_where_its_value_stands_word_for_word():
    session = make_session(12)
    watch = Watch(session, Recording(session).replies)
    last = len(watch.replies) - 1
    decision = next(fact for fact in session.facts if fact.kind == "decision")
    correction = next(fact for fact in session.facts if fact.kind == "correction")
    said = f"We decided. {decision.value}! The limit is {correction.outdated}."
    watch.request({"messages": [{"role": "user", "content": said}]}, last)
    figures = watch.figures()
    assert figures["kept"]["decision"] == [1, 3]  # of turns 2, 6 and 10
    assert figures["kept"]["correction"] == [0, 3]
    assert figures["outdated_alone"] == 1
    assert figures["rules_missing"] == figures["rules_due"] == 8
    assert share([{"rule": (1, 4)}, {"rule": (1, 4), "path": (2, 2)}]) == 0.4


def test_a_cache_holds_prefixes_in_blocks_of_128_tokens():
    def body(*texts: str) -> dict[str, object]:
        return {"system": "word " * 200, "messages": [{"role": "user", "content": text} for text in texts]}

    cache, one, two = Cache(), written(body("a " * 300)), written(body("a " * 300, "b " * 300))
    assert len(two) // 4 == request_tokens(body("a " * 300, "b " * 300))
    assert cache.held(one) == 0
    assert cache.held(two) == len(one) // 4 // 128 * 128
    assert cache.held(written({**body("a " * 300), "system": "other"})) == 0


def test_the_table_tells_facts_of_each_kind():
    row = {"arm": "ours", "kept": {"rule": [7, 8]}, "rules_missing": 1, "rules_due": 4, "kept_end": 0.25, "mean": 1_234}
    names = [(name, name) for name in ("arm", "mean", "rule", "rules_missing", "kept_end", "ms_p50")]
    assert markdown(names, [row]).splitlines()[-1] == "| ours | 1,234 | 7 of 8 | 25% | 25% |  |"
