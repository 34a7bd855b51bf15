"""Which chart shows what: a title that says what is better, the drawing for two widths, and a caption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from evals.performance.charts import Bar, Range, bars, ranges
from evals.performance.labels import in_order, is_ours, label
from evals.performance.results import Row
from evals.performance.tables import lost, never_read
from evals.performance.targets import told

OUTAGE_TURNS = 200  # longer ones are runs of ours alone
WIDTHS = {"broad": 820, "narrow": 350}  # pixels


class Figure(NamedTuple):
    """A chart on the page; `legend` are (class, text) pairs."""

    title: str
    drawn: dict[str, str]
    caption: str
    legend: Sequence[tuple[str, str]] = ()


def figures(main: Sequence[Row], long: Sequence[Row], cold: Sequence[Row], outage: Sequence[Row]) -> list[Figure]:
    """All charts whose rows are there."""
    shown = [row for row in in_order(main) if row.ask.manager != "ours-economy"]
    made = [_latency(shown, "View latency: further left is better"), *_waiting(shown), *_money(shown)]
    made += [_fate(shown), _passes(shown), _carried(shown)]
    if long:
        turns = f"{long[0].ask.turns:,}"
        made.append(_latency(in_order(long), f"View latency of {turns} turns: further left is better"))
        made.append(_memory(in_order(long)))
    if cold:
        made.append(_cold(in_order(cold)))
    if failing := [row for row in in_order(outage) if row.ask.mode != "works" and row.ask.turns <= OUTAGE_TURNS]:
        made.append(_outage(failing))
    return made


def _latency(rows: Sequence[Row], title: str) -> Figure:
    there = [row for row in rows if row.figures]
    names = ("view_p50_ms", "view_p99_ms", "view_max_ms")
    spans = [Range(label(row), tuple(max(row.figures[name], 0.001) for name in names), is_ours(row)) for row in there]
    legend = [("dot", "median"), ("ring", "99 %"), ("most", "largest")]
    caption = (
        "Milliseconds from asking for a request to having it, on a log scale. A ring beyond the summarizer's latency "
        f"({rows[0].ask.latency * 1e3:g} ms) means that at least one view in a hundred waited for a summary."
    )
    return Figure(title, _drawn(lambda width: ranges(spans, width=width, unit="ms")), caption, legend)


def _waiting(rows: Sequence[Row]) -> list[Figure]:
    waited = _single(
        rows,
        "Views that waited for a summary: fewer is better",
        lambda row: row.figures["waiting_views"],
        "Views in which the process did nothing for at least 0.8 of a summary's latency; busy time does not count.",
    )
    stalled = _single(
        rows,
        "Longest stall of the event loop: shorter is better",
        lambda row: row.figures["stall_ms"],
        "While it stands still, nothing else in the process moves: no stream, no other agent. The time of measuring "
        "is left out.",
        unit="ms",
    )
    return [waited, stalled]


def _money(rows: Sequence[Row]) -> list[Figure]:
    cost = _single(
        rows,
        "Cost of a step, provider with a 5-minute cache: less is better",
        lambda row: row.figures["cost_per_step"]["5-minute cache"],
        "Input-token equivalents for each request of the agent (read 0.10, write 1.25), summaries included (a model "
        "at a third of the price, output five times input). Compare at equal view size: the rows marked tuned. A "
        "manager that never shows text to a summarizer saves its price.",
    )
    uncached = _single(
        rows,
        "Uncached tokens sent by the agent, over the history: less is better",
        lambda row: row.figures["uncached_over_history"],
        "1 means that each token was sent uncached once; the rest is what changed beginnings cost. Below 1, messages "
        "were never in any view.",
    )
    return [cost, uncached]


def _fate(rows: Sequence[Row]) -> Figure:
    def bar(row: Row) -> Bar:
        gone = lost(row)
        unread = never_read(row) or 0.0
        if gone is None:
            return Bar(label(row), (1 - unread, 0, unread), f"{unread:.0%} never read", is_ours(row))
        gone = max(gone, unread)
        return Bar(label(row), (1 - gone, gone - unread, unread), f"{1 - gone:.0%} kept", is_ours(row))

    bars_ = [_or_missing(row, bar) for row in rows if not row.figures or row.figures["evicted_pieces"]]
    legend = [
        ("kept", "behind a summary in the last view"),
        ("lost", "read once, behind none any more"),
        ("unread", "never read by anything"),
    ]
    caption = (
        "What became of text that left the view, told by a marker every 40 characters. This is reach, not quality: a "
        "summary that was made from a text need not mention it. Sentences that the extractive pass chose count as kept."
    )
    title = "Evicted text: the more of the first colour the better"
    return Figure(
        title,
        _drawn(lambda width: bars(bars_, width=width, most=1.0, kinds=("kept", "lost", "unread"))),
        caption,
        legend,
    )


def _passes(rows: Sequence[Row]) -> Figure:
    summarizing = [row for row in rows if not row.figures or row.figures["model_calls"]]
    return _single(
        summarizing,
        "Summaries of summaries: fewer passes are better",
        lambda row: row.figures["passes_max"],
        "The most summarizations that one piece of text went through, its own counted; each loses something. In "
        "brackets the mean of what the last view stands for. A manager that drops its old summary starts again at 1.",
        note=lambda row: f"{row.figures['passes_max']} (mean {row.figures['passes_mean']:.1f})",
    )


def _carried(rows: Sequence[Row]) -> Figure:
    return _single(
        rows,
        "Summarized past carried by a view: more keeps more",
        lambda row: row.figures["mean_past_tokens"],
        "Mean tokens of rows that are no message of the log: summaries and notes about them. They are paid in every "
        "request.",
        unit="tokens",
    )


def _memory(rows: Sequence[Row]) -> Figure:
    return _single(
        rows,
        "Memory a message: less is better",
        lambda row: row.figures["bytes_per_message"],
        "Growth of the process over the run, divided by the messages. Ours keeps the log on disk as well, durable "
        "after each append; truncation forgets what it drops.",
        unit="bytes",
    )


def _cold(rows: Sequence[Row]) -> Figure:
    return _single(
        rows,
        "Cold load, largest summarizer input: smaller is better",
        lambda row: row.figures["largest_model_input"],
        "A long history loaded whole, then one view. What does not fit a real summarizer's window fails there; 0 "
        "with text evicted means that it was dropped unread. Behind the bars: time of the first view.",
        unit="tokens",
        note=lambda row: f"{told(row.figures['largest_model_input'])} · {row.figures['view_max_ms']:,.0f} ms",
    )


def _outage(rows: Sequence[Row]) -> Figure:
    def bar(row: Row) -> Bar:
        told_ = row.figures
        parts = (float(told_["hung_views"]), float(told_["over_budget_views"]), float(told_["view_errors"]))
        note = f"{sum(parts):.0f} of {told_['views']}, slowest {_seconds(told_['view_max_ms'])}"
        return Bar(label(row), parts, note, is_ours(row))

    made = [_or_missing(row, bar)._replace(label=f"{label(row)} · {row.ask.mode}") for row in rows]
    legend = [("hung", "hung; the run ends there"), ("over", "over budget"), ("failed", "raised an error")]
    caption = (
        "Views that the agent cannot use. burst: calls 3 to 7 of the summarizer fail; always: every call fails; "
        "never: no call is answered."
    )
    title = "The summarizer is down, faulty views: fewer is better"
    return Figure(
        title, _drawn(lambda width: bars(made, width=width, kinds=("hung", "over", "failed"))), caption, legend
    )


def _seconds(ms: float) -> str:
    return f"{ms / 1e3:.1f} s" if ms >= 1_000 else f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"


def _single(
    rows: Sequence[Row],
    title: str,
    read: Callable[[Row], float],
    caption: str,
    *,
    unit: str = "",
    note: Callable[[Row], str] | None = None,
) -> Figure:
    def bar(row: Row) -> Bar:
        value = read(row)
        return Bar(label(row), (value,), note(row) if note else told(value), is_ours(row))

    made = [_or_missing(row, bar) for row in rows]
    return Figure(title, _drawn(lambda width: bars(made, width=width, unit=unit)), caption)


def _or_missing(row: Row, bar: Callable[[Row], Bar]) -> Bar:
    return bar(row) if row.figures else Bar(label(row), (), "", is_ours(row), missing=row.reason)


def _drawn(draw: Callable[[int], str]) -> dict[str, str]:
    return {name: draw(width) for name, width in WIDTHS.items()}
