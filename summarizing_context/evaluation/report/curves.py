"""The part of the page that shows curves: forgetting by age and by passes, retention against cost, needles.

Pure. The drawing is done by `charts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from summarizing_context.evaluation.arms.table import REFERENCE
from summarizing_context.evaluation.outcomes import RunOutcome
from summarizing_context.evaluation.report.charts import Dot, Series, Trace, bar_chart, cost_chart, heat_map, line_chart
from summarizing_context.evaluation.report.summary import Row, by_age, by_cost, by_passes, needle_map, probes_of
from summarizing_context.evaluation.scoring.figures import FIGURES

_TONES = {
    "hierarchical": "t0",
    "no-ledger": "t6",
    "flat": "t1",
    "importance": "t2",
    "truncation": "t3",
    "tail": "t4",
    "masking": "t5",
    "head": "t3",
    "heads": "t6",
    "random": "t7",
}
_CURVES = ("hierarchical", "flat", "importance", "masking", "tail", "truncation", "random")


def curves(run: RunOutcome, rows: Sequence[Row]) -> str:
    """The section of curves; nothing where nothing was asked."""
    shown = [arm for arm in _CURVES if arm in run.arms]
    series = [Series(arm, _TONES[arm], by_age(run, arm)) for arm in shown]
    parts = [
        _card("Forgetting curve: retention by age", line_chart(series, label="retention by tokens since the evidence"))
        + _legend(shown)
    ]
    passes = by_passes(run, REFERENCE)
    if len(passes) > 1:
        chart = bar_chart(passes, label="retention by summarizations gone through", tone=_TONES[REFERENCE])
        parts.append(_card(f"Retention by passes ({REFERENCE}); 0 is raw", chart))
    for figure in ("used", "literals"):
        if traces := _traces(run, rows, figure):
            title = f"{FIGURES[figure].title.capitalize()} against cost"
            parts.append(_card(title, cost_chart(traces, label=f"{title}, in tokens of the view")))
    if not probes_of(run):
        return ""
    return (
        '<h2>Curves</h2><div class="grid2">' + "".join(f'<div class="card">{part}</div>' for part in parts) + "</div>"
    )


def _traces(run: RunOutcome, rows: Sequence[Row], figure: str) -> list[Trace]:
    found = [(row.arm, by_cost(run, row.arm, figure)) for row in rows if row.role != "reference"]
    return [
        Trace(arm, _TONES.get(arm, "t7"), [Dot(cost, cell.mean, cell.low, cell.high) for cost, cell in points])
        for arm, points in found
        if points
    ]


def _card(title: str, chart: str) -> str:
    return f"<h3>{escape(title)}</h3>{chart}"


def _legend(arms: Sequence[str]) -> str:
    return (
        '<div class="legend">' + "".join(f'<span class="{_TONES[arm]}"><i></i>{arm}</span>' for arm in arms) + "</div>"
    )


def needles(run: RunOutcome) -> str:
    """The section of needle maps; nothing where there are no needles."""
    shown = [arm for arm in (REFERENCE, "masking", "tail") if arm in run.arms]
    maps = [
        (arm, heat_map(needle_map(run, arm), label="where in its result the line stood: beginning to end"))
        for arm in shown
    ]
    cards = "".join(f'<div class="card">{_card(arm, chart)}</div>' for arm, chart in maps if chart)
    words = "One odd line in a long result: how often the view still has it, by its age (rows) and its place (columns)."
    return f'<h2>Needles</h2><p class="soft">{words}</p><div class="grid2">{cards}</div>' if cards else ""
