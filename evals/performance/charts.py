"""Charts as SVG, drawn by hand: bars, stacked bars, and ranges on a log scale. One row a manager.

Pure: numbers in, text out. Each chart is drawn for a given width, so that type keeps its size on a small screen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

ROW = 24  # pixels
BAR = 13
TOP = 26  # room for the axis
LETTER = 7.2  # pixels of an average letter at 12 px
GAP = 10
FAR = 3  # times the next bar
CUT = 1.4  # times the next bar


class Bar(NamedTuple):
    """One row: its parts lie end to end; `note` stands behind them. `missing` says why there is no figure."""

    label: str
    parts: tuple[float, ...]
    note: str
    ours: bool = False
    missing: str = ""


class Range(NamedTuple):
    """One row of a log chart: three growing values, such as p50, p99 and the largest."""

    label: str
    values: tuple[float, float, float]
    ours: bool = False


class Scale(NamedTuple):
    """From a value to pixels."""

    left: float
    right: float
    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        if self.log:
            value = min(max(value, self.low), self.high)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.left + share * (self.right - self.left)


def bars(
    rows: Sequence[Bar], *, width: int, unit: str = "", most: float | None = None, kinds: Sequence[str] = ("bar",)
) -> str:
    """Horizontal bars; several parts are stacked, each of its own kind."""
    left = _label_room([row.label for row in rows], width)
    notes = max((len(row.note) for row in rows), default=0) * LETTER + GAP
    top = most or _top([sum(row.parts) for row in rows])
    scale = Scale(left, max(left + 40, width - notes), 0.0, top)
    drawn = [_axis(scale, ticks(0.0, top, 3 if width < 500 else 5), len(rows)), _unit(unit, width)]
    drawn += [_bar(row, at, scale, kinds) for at, row in enumerate(rows)]
    return _svg(drawn, width, len(rows))


def ranges(rows: Sequence[Range], *, width: int, unit: str, limit: float | None = None) -> str:
    """A dot, a ring and a tick for each row, on a log scale; `limit` is drawn as a line."""
    left = _label_room([row.label for row in rows], width)
    every = [value for row in rows for value in row.values if value > 0]
    low, high = 10 ** math.floor(math.log10(min(every))), 10 ** math.ceil(math.log10(max(every)))
    scale = Scale(left, width - GAP - (len(unit) + 3) * LETTER, low, max(high, low * 10), log=True)
    decades = [low * 10**power for power in range(round(math.log10(scale.high / low)) + 1)]
    drawn = [_axis(scale, decades, len(rows)), _unit(unit, width)]
    if limit:
        drawn.append(_line(scale.at(limit), len(rows), "limit"))
    drawn += [_range(row, at, scale) for at, row in enumerate(rows)]
    return _svg(drawn, width, len(rows))


def ticks(low: float, high: float, wanted: int) -> list[float]:
    """Round values between the two."""
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    return [low + step * at for at in range(int((high - low) / step + 1e-9) + 1)]


def short(value: float) -> str:
    """A value for an axis."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:.3g}"


def _top(totals: Sequence[float]) -> float:
    """The end of the scale. One bar far beyond all others is cut off there, so that these can be told apart."""
    ordered = sorted(totals, reverse=True)
    if len(ordered) > 2 and ordered[0] > FAR * ordered[1] > 0:
        return ordered[1] * CUT
    return ordered[0] if ordered and ordered[0] > 0 else 1.0


def _bar(row: Bar, at: int, scale: Scale, kinds: Sequence[str]) -> str:
    middle = TOP + at * ROW + ROW / 2
    drawn = [_label(row.label, scale.left, middle, row.ours)]
    if row.missing:
        room = int((scale.right - scale.left) / LETTER + len(row.note))
        said = row.missing if len(row.missing) <= room else row.missing[: room - 1] + "…"
        return "".join(
            [*drawn, f'<text class="missing" x="{scale.left:.1f}" y="{middle + 4:.1f}">{escape(said)}</text>']
        )
    done = 0.0
    for part, value in enumerate(row.parts):
        x, stop = scale.at(min(done, scale.high)), scale.at(min(done + value, scale.high))
        kind = f"{kinds[part]} cut" if value > scale.high else kinds[part]
        drawn.append(
            f'<rect class="{kind}{" ours" if row.ours else ""}" x="{x:.1f}" y="{middle - BAR / 2:.1f}" '
            f'width="{max(stop - x, 1.0 if value else 0):.1f}" height="{BAR}" rx="2"/>'
        )
        done += value
    x = scale.at(min(done, scale.high)) + 6
    drawn.append(
        f'<text class="note{" ours" if row.ours else ""}" x="{x:.1f}" y="{middle + 4:.1f}">{escape(row.note)}</text>'
    )
    return "".join(drawn)


def _range(row: Range, at: int, scale: Scale) -> str:
    middle = TOP + at * ROW + ROW / 2
    first, second, last = map(scale.at, row.values)
    kind = " ours" if row.ours else ""
    return (
        _label(row.label, scale.left, middle, row.ours)
        + f'<line class="span{kind}" x1="{first:.1f}" x2="{last:.1f}" y1="{middle}" y2="{middle}"/>'
        + f'<line class="most{kind}" x1="{last:.1f}" x2="{last:.1f}" y1="{middle - 6}" y2="{middle + 6}"/>'
        + f'<circle class="ring{kind}" cx="{second:.1f}" cy="{middle}" r="4.5"/>'
        + f'<circle class="dot{kind}" cx="{first:.1f}" cy="{middle}" r="5"/>'
    )


def _axis(scale: Scale, values: Sequence[float], rows: int) -> str:
    drawn = []
    for value in values:
        x = scale.at(value)
        drawn.append(_line(x, rows, "grid"))
        drawn.append(f'<text class="tick" x="{x:.1f}" y="14" text-anchor="middle">{short(value)}</text>')
    return "".join(drawn)


def _unit(unit: str, width: int) -> str:
    return f'<text class="tick" x="{width}" y="14" text-anchor="end">{escape(unit)}</text>'


def _line(x: float, rows: int, kind: str) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{TOP + rows * ROW}"/>'


def _label(text: str, left: float, middle: float, ours: bool) -> str:
    kind = "label ours" if ours else "label"
    return f'<text class="{kind}" x="{left - GAP:.1f}" y="{middle + 4:.1f}" text-anchor="end">{escape(text)}</text>'


def _label_room(labels: Sequence[str], width: int) -> float:
    return min(max(map(len, labels), default=0) * LETTER + 2 * GAP, width * 0.45)


def _svg(drawn: Sequence[str], width: int, rows: int) -> str:
    height = TOP + rows * ROW + 8
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">{"".join(drawn)}</svg>'
