"""The simulation of a fleet: where the result can be reckoned by hand."""

from __future__ import annotations

import pytest

from evals.performance.capacity_simulation import Costs, Load, Server, most_sessions, simulate

COSTS = Costs(commit=0.001, append=0.001, host_commit=0.0, host_append=0.0, log=1_000, summary=0.01, summary_log=0)


def test_one_session_waits_for_trip_work_and_flush_and_nothing_else():
    told = simulate(COSTS, Server(2, flush=0.005, log_rate=1e6, trip=0.001), Load(1, 1, 0.0, per_summary=0))
    assert told.p50 == told.p99 == pytest.approx(0.001 + 0.002 + 0.005 + 0.001)
    assert told.per_second == pytest.approx(1 / told.p50, rel=0.01)


def test_a_full_server_makes_what_its_cores_make():
    told = simulate(COSTS, Server(2, flush=0.0), Load(8, 8, 0.0, per_summary=0), seconds=4)
    assert told.cpu == pytest.approx(1.0, abs=0.01)
    assert told.per_second == pytest.approx(2 / 0.002, rel=0.02)


def test_appends_that_wait_together_share_a_commit():
    alone, many = (simulate(COSTS, Server(1, flush=0.0), Load(1, tasks, 0.0, 0), seconds=4) for tasks in (1, 50))
    assert many.per_second > 1.5 * alone.per_second


def test_the_most_sessions_leave_the_share_of_the_cores_that_is_asked_for():
    free = Server(1, flush=0.0, log_rate=1e9)
    sessions, told = most_sessions(COSTS, free, Load(50, 0, 1.0), p99=1.0, share=0.5)
    assert 0.4 < told.cpu <= 0.5
    assert told.per_second == pytest.approx(sessions, rel=0.1)
    slow, _ = most_sessions(COSTS, free, Load(50, 0, 1.0), p99=0.0025, share=1.0)
    assert slow < sessions
