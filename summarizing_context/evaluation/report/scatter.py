"""Two charts for comparing variants: points over their cost, and the best so far over what was tried. SVG, no script.

Pure. Unlike the other charts these show a window of the scale, for variants differ by little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import NamedTuple

_WIDTH, _HEIGHT = 640, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 110, 16, 46
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
    edge = " ".join(f"{_x(across, spot.x):.1f},{_y(up, spot.y):.1f}" for spot in frontier(spots))
    parts.append(f'<polyline class="line t7" stroke-dasharray="5 4" points="{edge}"/>')
    taken: list[tuple[float, float]] = []
    for spot in sorted(spots, key=lambda spot: (bool(spot.name), spot.y)):
        x, y = _x(across, spot.x), _y(up, spot.y)
        if spot.name:
            whisker = f'x1="{x:.1f}" x2="{x:.1f}" y1="{_y(up, spot.low):.1f}" y2="{_y(up, spot.high):.1f}"'
            parts.append(f'<line class="whisker {spot.tone}" {whisker}/>')
            place = _free(x, y + 4, taken)
            parts.append(_text(x + 9, place, spot.name, "start"))
        dot = f'<circle class="dot {spot.tone}" cx="{x:.1f}" cy="{y:.1f}" r="{4.5 if spot.name else 2.4}">'
        parts.append(f"{dot}<title>{escape(spot.title)}</title></circle>")
    return _svg(parts)


def steps_chart(values: Sequence[float], *, label: str, below: str) -> str:
    """What each trial gave as dots, and the best so far as a line."""
    across, up = _Scale(0.0, float(max(len(values) - 1, 1))), _scale(values)
    parts = [f"<title>{escape(label)}</title>", *_frame(across, up, below, lambda value: f"{value:,.0f}")]
    best, path = values[0], ""
    for at, value in enumerate(values):
        x = _x(across, float(at))
        parts.append(f'<circle class="dot t5" cx="{x:.1f}" cy="{_y(up, value):.1f}" r="1.8"/>')
        path += f"{x:.1f},{_y(up, best):.1f} "
        best = max(best, value)
        path += f"{x:.1f},{_y(up, best):.1f} "
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


def _frame(across: _Scale, up: _Scale, below: str, told: Callable[[float], str]) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        share = tick / _TICKS
        value = up.low + (up.high - up.low) * share
        y = _y(up, value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(_LEFT - 8, y + 4, f"{value:.1%}", "end", "faint")
        cost = across.low + (across.high - across.low) * share
        yield _text(_x(across, cost), _HEIGHT - 26, told(cost), "middle", "faint")
    yield _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, below, "middle", "faint")


def _x(scale: _Scale, value: float) -> float:
    return scale.at(value, _LEFT, _WIDTH - _RIGHT)


def _y(scale: _Scale, value: float) -> float:
    return scale.at(value, _HEIGHT - _BOTTOM, _TOP)


def _text(x: float, y: float, words: str, anchor: str, tone: str = "") -> str:
    kind = f' class="{tone}"' if tone else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(parts: Sequence[str]) -> str:
    return f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(parts)}</svg>'
