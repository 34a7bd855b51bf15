"""Where a peer that summarizes is ahead of us: found in the figures, not chosen. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from evals.performance.labels import is_ours, label
from evals.performance.results import Row
from evals.performance.tables import never_read
from evals.performance.targets import told

MARGIN = 0.03  # of our figure: less is noise


class Matter(NamedTuple):
    """One figure that is better when smaller, and why ours is what it is."""

    what: str
    read: Callable[[Row], float | None]
    unit: str
    why: str


def _figure(name: str) -> Callable[[Row], float | None]:
    return lambda row: row.figures.get(name)


def _price(name: str) -> Callable[[Row], float | None]:
    return lambda row: row.figures.get("cost_per_step", {}).get(name)


MATTERS = (
    Matter("view p50", _figure("view_p50_ms"), "ms", "ours hands out fresh copies; most peers hand out their own list"),
    Matter("view p99", _figure("view_p99_ms"), "ms", "an activation builds the header and commits it to disk"),
    Matter("largest view", _figure("view_max_ms"), "ms", "as above"),
    Matter("event-loop stall", _figure("stall_ms"), "ms", "garbage collection and activations of ours run on the loop"),
    Matter("append p50", _figure("add_p50_us"), "µs", "ours is durable on disk when it returns; peers keep a list"),
    Matter(
        "memory a message", _figure("bytes_per_message"), "bytes", "derived facts of each message are kept beside it"
    ),
    Matter(
        "prefix breaks", _figure("prefix_breaks"), "", "how often the beginning changes follows from high and low water"
    ),
    Matter(
        "uncached tokens over history", _figure("uncached_over_history"), "", "a smaller tail or header is sent again"
    ),
    Matter(
        "cost of a step, 5-minute cache", _price("5-minute cache"), "", "a larger view, or more text read by summaries"
    ),
    Matter("cost of a step, no cache", _price("no cache"), "", "follows the size of the view"),
    Matter(
        "summarizer input over history", _figure("model_input_over_history"), "", "who reads less leaves text unread"
    ),
    Matter("summarizer calls", _figure("model_calls"), "", "many small inputs in parallel instead of few large ones"),
    Matter("text never read", never_read, "", ""),
    Matter("passes of a fact, at most", _figure("passes_max"), "", "an old summary that is dropped is not passed on"),
)


def sentences(rows: Sequence[Row]) -> list[str]:
    """One for each matter in which at least one peer is ahead of our main run."""
    ours = next((row for row in rows if row.ask.manager == "ours" and row.figures), None)
    peers = [row for row in rows if not is_ours(row) and row.figures and not row.ask.manager.startswith("truncate")]
    return [] if ours is None else [said for matter in MATTERS if (said := _sentence(matter, ours, peers))]


def _sentence(matter: Matter, ours: Row, peers: Sequence[Row]) -> str:
    own = matter.read(ours)
    if own is None:
        return ""
    ahead = sorted(
        (value, label(row)) for row in peers if (value := matter.read(row)) is not None and value < own * (1 - MARGIN)
    )
    if not ahead:
        return ""
    named = ", ".join(f"{name} {told(value, matter.unit)}" for value, name in ahead[:3])
    more = f" and {len(ahead) - 3} more" if len(ahead) > 3 else ""
    return f"{matter.what}: {named}{more}; ours {told(own, matter.unit)} ({matter.why})"
