"""The numbers to reach (architecture, section 6) against what was measured, with the best peer of the same run beside.

Pure. Evidence comes by name: `main`, `slow`, `never`, `always`, `burst`, `cold`, `reopen` are figures of runs of ours,
`session` those of the session of 100,000 messages, `background` those of adders and views beside summaries, `following`
those of a host that hands over its whole history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from evals.performance.metrics import Figures

Evidence = Mapping[str, Figures]
Value = float | None


class Target(NamedTuple):
    """One number: how it is read, and the most that it may be (and the least, where it has one)."""

    what: str
    wanted: str
    read: Callable[[Evidence], Value]
    most: float
    unit: str = ""
    peers: str = ""  # the figure of the peers' main runs to compare with
    least: float = 0.0


class Verdict(NamedTuple):
    """A target with what was measured; `met` is None where nothing was."""

    what: str
    wanted: str
    ours: str
    peer: str
    met: bool | None


def of(run: str, figure: str) -> Callable[[Evidence], Value]:
    return lambda evidence: _number(evidence.get(run, {}).get(figure))


def worst(figures: Iterable[str], runs: Iterable[str]) -> Callable[[Evidence], Value]:
    """The sum over all of them."""
    names, wanted = tuple(runs), tuple(figures)

    def read(evidence: Evidence) -> Value:
        there = [evidence[run] for run in names if run in evidence]
        return float(sum(run.get(name) or 0 for run in there for name in wanted)) if there else None

    return read


def _content(evidence: Evidence) -> Value:
    main = evidence.get("main", {})
    tokens = main.get("notes", {}).get("content_tokens")
    return float(tokens / main["history_tokens"]) if tokens else None


def _unread(evidence: Evidence) -> Value:
    main = evidence.get("main", {})
    if "evicted_unread" not in main:
        return None
    return float(max(main["evicted_unread"], main["notes"].get("unseen_tokens", 0)))


def _calls_again(evidence: Evidence) -> Value:
    again = evidence.get("reopen")
    return None if not again else float(again["reopen_calls"] + again["fork_calls"])


RUNS = ("main", "slow", "never", "always", "burst")
FAULTS = ("unsafe_views", "over_budget_views", "view_errors", "hung_views")
TARGETS = (
    Target("views that wait for a summary, 5:1", "0", of("main", "waiting_views"), 0, peers="waiting_views"),
    Target("… at 50:1", "0", of("slow", "waiting_views"), 0),
    Target("… when it never answers", "0", worst(("waiting_views", "hung_views"), ("never",)), 0),
    Target("view p50", "≤ 0.2 ms", of("main", "view_p50_ms"), 0.2, "ms", "view_p50_ms"),
    Target("view p99", "≤ 1.0 ms", of("main", "view_p99_ms"), 1.0, "ms", "view_p99_ms"),
    Target("slowest activation view", "≤ 20 ms", of("main", "activation_max_ms"), 20, "ms", "activation_max_ms"),
    Target("view p50 at 100k messages over at 1k", "flat: ≤ 1.3", of("session", "view_late_over_early"), 1.3),
    Target("unsafe, over-budget, failed views, outages included", "0", worst(FAULTS, RUNS), 0),
    Target("evicted text that no summarizer and no extractive pass read", "0", _unread, 0, peers="evicted_unread"),
    Target("summarizer input over history, content alone", "≤ 1.15", _content, 1.15),
    Target(
        "… as sent, with prompt text",
        "≤ 1.30",
        of("main", "model_input_over_history"),
        1.30,
        peers="model_input_over_history",
    ),
    Target("calls after reopening and after a fork", "0", _calls_again, 0),
    Target(
        "uncached tokens over history", "≤ 1.40", of("main", "uncached_over_history"), 1.40, "", "uncached_over_history"
    ),
    Target("… at 50:1", "≤ 1.50", of("slow", "uncached_over_history"), 1.50),
    Target("mean view", "7,000-10,000 tokens", of("main", "mean_view_tokens"), 10_000, "tokens", least=7_000),
    Target("cold load: first view", "< 200 ms", of("cold", "view_max_ms"), 200, "ms"),
    Target("cold load: largest summarizer input", "≤ 8,000 tokens", of("cold", "largest_model_input"), 8_000, "tokens"),
    Target("event-loop stall", "< 20 ms", of("main", "stall_ms"), 20, "ms", "stall_ms"),
    Target("append at 100k messages over at 1k", "O(1): ≤ 1.3", of("session", "append_late_over_early"), 1.3),
    Target("100,000 durable messages by 64 adders", "≤ 10 s", of("session", "adders_s_per_100k"), 10, "s"),
    Target(
        "… with extractive summaries made meanwhile over the store alone",
        "≤ 2",
        of("background", "adders_extractive_over_alone"),
        2,
    ),
    Target(
        "… with a model's summaries made and checked meanwhile", "≤ 2", of("background", "adders_model_over_alone"), 2
    ),
    Target(
        "view p50 while summaries are made and checked, over idle", "≤ 2", of("background", "view_busy_over_idle"), 2
    ),
    Target("event-loop stall meanwhile", "≤ 50 ms", of("background", "stall_busy_ms"), 50, "ms"),
    Target("memory over text", "< 3", of("session", "memory_over_text"), 3),
    Target("reopening 100,000 messages, to the first view", "< 3 s", of("session", "reopen_s_per_100k"), 3, "s"),
    Target("follow, 5,000 messages and 2 new", "≤ 10 ms", of("following", "follow_ms"), 10, "ms"),
    Target("… with keys", "≤ 1 ms", of("following", "follow_keys_ms"), 1, "ms"),
    Target("extractive summarizer", "≥ 1M tokens/s", of("session", "extractive_mtokens_per_s"), 1e9, "M/s", least=1.0),
)


def verdicts(evidence: Evidence, peers: Mapping[str, Figures] | None = None) -> list[Verdict]:
    """One for each target. `peers` are the main runs of the others, by label."""
    return [_verdict(target, target.read(evidence), peers or {}) for target in TARGETS]


def _verdict(target: Target, value: Value, peers: Mapping[str, Figures]) -> Verdict:
    met = None if value is None else target.least <= value <= target.most
    return Verdict(target.what, target.wanted, told(value, target.unit), _best(target, peers), met)


def _best(target: Target, peers: Mapping[str, Figures]) -> str:
    """The smallest figure of a peer that summarizes."""
    known = [(value, name) for name, run in peers.items() if (value := _number(run.get(target.peers))) is not None]
    if not target.peers or not known:
        return ""
    value, name = min(known)
    others = sum(1 for other, _ in known if other == value) - 1
    return f"{told(value, target.unit)} ({name}{f' and {others} more' if others else ''})"


def told(value: Any, unit: str = "") -> str:
    """A figure with as many places as it deserves."""
    if value is None:
        return "not measured"
    places = 0 if value == int(value) or abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 3
    return f"{value:,.{places}f} {unit}".strip()


def _number(value: Any) -> Value:
    return float(value) if isinstance(value, int | float) else None
