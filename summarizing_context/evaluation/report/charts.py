"""Charts as SVG: lines, points, bars, heat maps, scatter plots. No script and no address of a server.

Pure. Colours are classes of the page's style, so charts follow its light and dark themes. Scatter plots show a window
of the scale, because variants differ little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import log10
from typing import NamedTuple

from summarizing_context.evaluation.report.summary import Point

_WIDTH, _HEIGHT = 640, 300

_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 14, 46

_NAME_HEIGHT = 12


class Series(NamedTuple):
    """One line of a chart; `tone` names its colour."""

    name: str
    tone: str
    points: Sequence[Point]


class Dot(NamedTuple):
    """One arm at one budget."""

    cost: float
    kept: float
    low: float
    high: float


class Trace(NamedTuple):
    """One arm in a chart of cost and retention."""

    name: str
    tone: str
    dots: Sequence[Dot]


def line_chart(series: Sequence[Series], *, label: str) -> str:
    """Shares over classes; a class without probes is passed over, and a dot grows with its probes."""
    count = max((len(one.points) for one in series), default=0)
    parts = [_axes(label)]
    for at in range(count):
        point = series[0].points[at]
        parts.append(_text(_x(at, count), _HEIGHT - 26, point.label, "middle"))
        parts.append(_text(_x(at, count), _HEIGHT - 13, f"n={point.probes}", "middle", "faint"))
    for one in series:
        places = [(_x(at, count), _y(point.kept), point) for at, point in enumerate(one.points) if point.probes]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
        parts.append(f'<polyline class="line {one.tone}" points="{path}"/>')
        for x, y, point in places:
            title = f"{one.name}, {point.label}: {point.kept:.1%} of {point.probes}"
            parts.append(_dot(x, y, one.tone, title, radius=3.2))
    return _svg(parts)


def cost_chart(traces: Sequence[Trace], *, label: str) -> str:
    """Retention over the tokens of a view, on a logarithmic scale: one trace an arm, with intervals."""
    costs = [dot.cost for trace in traces for dot in trace.dots if dot.cost > 0] or [1.0]
    low, high = log10(min(costs)) - 0.06, log10(max(costs)) + 0.22

    def x_of(cost: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (log10(cost) - low) / max(high - low, 0.01)

    parts = [_axes(label), *_cost_ticks(low, high, x_of)]
    ordered = sorted(traces, key=lambda trace: -trace.dots[-1].kept)
    places = spread_out([_y(trace.dots[-1].kept) + 4 for trace in ordered], _NAME_HEIGHT, _HEIGHT - _BOTTOM + 10)
    for trace, place in zip(ordered, places, strict=True):
        path = " ".join(f"{x_of(dot.cost):.1f},{_y(dot.kept):.1f}" for dot in trace.dots)
        parts.append(f'<polyline class="line {trace.tone}" points="{path}"/>')
        for dot in trace.dots:
            x = x_of(dot.cost)
            whisker = f'x1="{x:.1f}" x2="{x:.1f}" y1="{_y(dot.low):.1f}" y2="{_y(dot.high):.1f}"'
            parts.append(f'<line class="whisker {trace.tone}" {whisker}/>')
            title = f"{trace.name}: {dot.kept:.1%} [{dot.low:.1%}, {dot.high:.1%}] at {dot.cost:,.0f} tokens"
            parts.append(_dot(x, _y(dot.kept), trace.tone, title, radius=3.6))
        parts.append(_text(x_of(trace.dots[-1].cost) + 8, place, trace.name, "start"))
    return _svg(parts)


def spread_out(heights: Sequence[float], apart: float, most: float) -> list[float]:
    """Heights in the same order, from the top, none nearer than `apart` to the next and none below `most`."""
    places: list[float] = []
    for height in heights:
        places.append(max(height, places[-1] + apart) if places else height)
    for at in reversed(range(len(places))):
        places[at] = min(places[at], most if at == len(places) - 1 else places[at + 1] - apart)
    return places


def _cost_ticks(low: float, high: float, x_of: Callable[[float], float]) -> Iterator[str]:
    for power in range(int(low), int(high) + 2):
        for digit in (1, 2, 5):
            if low <= log10(digit * 10.0**power) <= high:
                tick = digit * 10**power
                yield _text(x_of(tick), _HEIGHT - 26, f"{tick:,}", "middle")
    yield _text(_WIDTH / 2, _HEIGHT - 10, "tokens of the view", "middle", "faint")


def bar_chart(points: Sequence[Point], *, label: str, tone: str) -> str:
    """Shares as bars."""
    count = len(points)
    width = min(60.0, (_WIDTH - _LEFT - _RIGHT) / max(count, 1) * 0.6)
    parts = [_axes(label)]
    for at, point in enumerate(points):
        x, y = _x(at, count), _y(point.kept)
        title = f"{point.label}: {point.kept:.1%} of {point.probes}"
        parts.append(
            f'<rect class="bar {tone}" x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{_y(0) - y:.1f}" rx="2"><title>{escape(title)}</title></rect>'
        )
        parts.append(_text(x, y - 5, f"{point.kept:.0%}", "middle"))
        parts.append(_text(x, _HEIGHT - 26, point.label, "middle"))
        parts.append(_text(x, _HEIGHT - 13, f"n={point.probes}", "middle", "faint"))
    return _svg(parts)


def heat_map(rows: Sequence[Sequence[Point]], *, label: str) -> str:
    """Shares by age (rows) and depth (columns)."""
    if not rows:
        return ""
    cell_height, cell_width, left, top = 34, 84, 92, 30
    width, height = left + cell_width * len(rows[0]) + 8, top + cell_height * len(rows) + 8
    parts = [_text(left, 18, label, "start", "faint")]
    for down, row in enumerate(rows):
        y = top + down * cell_height
        parts.append(_text(left - 10, y + 21, row[0].label.partition("/")[0], "end"))
        for across, point in enumerate(row):
            x = left + across * cell_width
            parts.append(_cell(x, y, cell_width - 3, cell_height - 3, point))
            words = f"{point.kept:.0%}" if point.probes else "–"
            parts.append(_text(x + cell_width / 2 - 1, y + 20, words, "middle"))
    box = f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}"'
    return f'<svg class="chart heat" {box}>{"".join(parts)}</svg>'


def _cell(x: float, y: float, width: float, height: float, point: Point) -> str:
    title = f"{point.label.partition('/')[0]} tokens ago: {point.probes} needles"
    shade = f' style="--share:{point.kept:.3f}"' if point.probes else ""
    box = f'x="{x}" y="{y}" width="{width}" height="{height}" rx="3"'
    tone = "cell" if point.probes else "cell none"
    return f'<rect class="{tone}"{shade} {box}><title>{escape(title)}</title></rect>'


def _dot(x: float, y: float, tone: str, title: str, *, radius: float) -> str:
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius}"'
    return f'<circle class="dot {tone}" {place}><title>{escape(title)}</title></circle>'


def _axes(label: str) -> str:
    parts = [f"<title>{escape(label)}</title>"]
    for tenth in range(0, 11, 2):
        y = _y(tenth / 10)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(_LEFT - 8, y + 4, f"{tenth * 10}%", "end", "faint"))
    return "".join(parts)


def _x(at: int, count: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (at + 0.5) / max(count, 1)


def _y(share: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - min(max(share, 0.0), 1.0))


def _text(x: float, y: float, words: str, anchor: str, tone: str = "") -> str:
    kind = f' class="{tone}"' if tone else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(parts: Sequence[str]) -> str:
    return f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(parts)}</svg>'


_SCATTER_WIDTH, _SCATTER_HEIGHT = 640, 320

_SCATTER_LEFT, _SCATTER_RIGHT, _SCATTER_TOP, _SCATTER_BOTTOM = 58, 110, 16, 46

_TICKS = 5


class Spot(NamedTuple):
    """One variant; a nameless one is drawn small."""

    x: float
    y: float
    low: float  # of the interval of y
    high: float
    tone: str
    title: str
    name: str = ""


class _Scale(NamedTuple):
    low: float
    high: float

    def at(self, value: float, start: float, stop: float) -> float:
        return start + (stop - start) * (value - self.low) / (self.high - self.low)


def scatter_chart(spots: Sequence[Spot], *, label: str, below: str) -> str:
    """Spots with their intervals; the dashed line joins those that none beats in both ways."""
    across = _scale([spot.x for spot in spots])
    up = _scale([value for spot in spots for value in ((spot.low, spot.high, spot.y) if spot.name else (spot.y,))])
    parts = [f"<title>{escape(label)}</title>", *_frame(across, up, below, lambda value: f"{value:,.0f}")]
    edge = " ".join(f"{_scatter_x(across, spot.x):.1f},{_scatter_y(up, spot.y):.1f}" for spot in frontier(spots))
    parts.append(f'<polyline class="line t7" stroke-dasharray="5 4" points="{edge}"/>')
    taken: list[tuple[float, float]] = []
    for spot in sorted(spots, key=lambda spot: (bool(spot.name), spot.y)):
        x, y = _scatter_x(across, spot.x), _scatter_y(up, spot.y)
        if spot.name:
            whisker = (
                f'x1="{x:.1f}" x2="{x:.1f}" y1="{_scatter_y(up, spot.low):.1f}" y2="{_scatter_y(up, spot.high):.1f}"'
            )
            parts.append(f'<line class="whisker {spot.tone}" {whisker}/>')
            place = _free(x, y + 4, taken)
            parts.append(_text(x + 9, place, spot.name, "start"))
        dot = f'<circle class="dot {spot.tone}" cx="{x:.1f}" cy="{y:.1f}" r="{4.5 if spot.name else 2.4}">'
        parts.append(f"{dot}<title>{escape(spot.title)}</title></circle>")
    return _svg(parts)


def steps_chart(values: Sequence[float], *, label: str, below: str) -> str:
    """What each trial gave as dots, and the best so far as a line."""
    across, up = _Scale(0.0, float(max(len(values) - 1, 1))), _scale(values)

    def number(at: float) -> str:
        """A trial's number; nothing between two trials, where there are fewer than ticks."""
        return f"{at:,.0f}" if len(values) > _TICKS or at.is_integer() else ""

    parts = [f"<title>{escape(label)}</title>", *_frame(across, up, below, number)]
    best, path = values[0], ""
    for at, value in enumerate(values):
        x = _scatter_x(across, float(at))
        parts.append(f'<circle class="dot t5" cx="{x:.1f}" cy="{_scatter_y(up, value):.1f}" r="1.8"/>')
        path += f"{x:.1f},{_scatter_y(up, best):.1f} "
        best = max(best, value)
        path += f"{x:.1f},{_scatter_y(up, best):.1f} "
    parts.append(f'<polyline class="line t0" points="{path.strip()}"/>')
    return _svg(parts)


def frontier(spots: Sequence[Spot]) -> list[Spot]:
    """The spots that no other beats in both cost and quality, cheapest first."""
    best: list[Spot] = []
    for spot in sorted(spots, key=lambda spot: (spot.x, -spot.y)):
        if not best or spot.y > best[-1].y:
            best.append(spot)
    return best


def _free(x: float, y: float, taken: list[tuple[float, float]]) -> float:
    """A height at which a name hides no other."""
    while any(abs(y - other) < 12 and abs(x - where) < 90 for where, other in taken):
        y += 12
    taken.append((x, y))
    return y


def _scale(values: Sequence[float]) -> _Scale:
    low, high = min(values), max(values)
    margin = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    return _Scale(low - margin, high + margin)


def _frame(across: _Scale, up: _Scale, below: str, label_of: Callable[[float], str]) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        share = tick / _TICKS
        value = up.low + (up.high - up.low) * share
        y = _scatter_y(up, value)
        right = _SCATTER_WIDTH - _SCATTER_RIGHT
        yield f'<line class="grid" x1="{_SCATTER_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(_SCATTER_LEFT - 8, y + 4, f"{value:.1%}", "end", "faint")
        cost = across.low + (across.high - across.low) * share
        yield _text(_scatter_x(across, cost), _SCATTER_HEIGHT - 26, label_of(cost), "middle", "faint")
    yield _text((_SCATTER_LEFT + _SCATTER_WIDTH - _SCATTER_RIGHT) / 2, _SCATTER_HEIGHT - 8, below, "middle", "faint")


def _scatter_x(scale: _Scale, value: float) -> float:
    return scale.at(value, _SCATTER_LEFT, _SCATTER_WIDTH - _SCATTER_RIGHT)


def _scatter_y(scale: _Scale, value: float) -> float:
    return scale.at(value, _SCATTER_HEIGHT - _SCATTER_BOTTOM, _SCATTER_TOP)
