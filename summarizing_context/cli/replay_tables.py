"""How a replay's figures are shown: the laws, the views, the summaries, in tables that fit into 80 columns.

Counting is `evaluation.figures`' work; running the replay is `replay`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table

from summarizing_context.cli.output import number, plain, screen, table, verdict

if TYPE_CHECKING:
    from summarizing_context.evaluation.figures import Tally

_MOST_ROWS = 24  # files shown one by one without --all


class Shape(NamedTuple):
    """How much is shown."""

    every: bool = False  # a row for each file, however many there are
    wide: bool = False  # more columns than fit into 80 characters


class _Column(NamedTuple):
    title: str
    cell: Callable[[Tally], Any]
    wide: bool = False  # only shown where there is room, or something to say


def show(tallies: Sequence[Tally], sums: Sequence[Tally], total: Tally, shape: Shape) -> None:
    """Print the tables, with `sums` by strategy and budget below; where files are many, only broken laws."""
    console = screen()
    strategies = len({tally.strategy for tally in tallies}) > 1
    if len(sums) > 1 and not strategies:
        sums = [*sums, total]
    few = shape.every or len(tallies) <= _MOST_ROWS
    shown = tallies if few else [tally for tally in tallies if tally.broken_laws() or tally.refused_views]
    lead = _LEAD if strategies else _LEAD[1:]
    laws = [one._replace(wide=False) if one.title == "#refused" and total.refused_views else one for one in _LAWS]
    for title, columns, rows in (
        ("Laws: 0 is right", laws, shown),
        ("Views", _VIEWS, tallies if few else []),
        ("Summaries", _SUMMARIES, []),
    ):
        console.print(_table(title, [one for one in (*lead, *columns) if shape.wide or not one.wide], rows, sums))
    if total.token_counter is not None:
        console.print(f"Tokens are counted by {total.token_counter}.", style="dim")
    if kinds := ", ".join(f"{count:,} {kind}" for kind, count in total.figures()["repairs"].items()):
        console.print(f"Repairs: {kinds}.", style="dim")
    if len(shown) < len(tallies):
        hidden = len(tallies) - len(shown)
        console.print(f"{hidden:,} rows in which every law held are not shown; --all shows them.", style="dim")


def _table(title: str, columns: Sequence[_Column], tallies: Sequence[Tally], sums: Sequence[Tally]) -> Table:
    made = table(title, "file", *(column.title for column in columns), wide="file")
    for tally in tallies:
        made.add_row(_name(tally), *(column.cell(tally) for column in columns))
    made.add_section()
    for tally in sums:
        made.add_row(_name(tally), *(column.cell(tally) for column in columns))
    return made


def _name(tally: Tally) -> str:
    return plain(Path(tally.file).name)


_LEAD = (
    _Column("strategy", lambda tally: tally.strategy or "all"),
    _Column("#budget", lambda tally: number(tally.budget)),
)
_LAWS = (
    _Column("#messages", lambda tally: number(tally.messages), wide=True),
    _Column("#tokens", lambda tally: number(tally.history_tokens), wide=True),
    _Column("#views", lambda tally: number(tally.views), wide=True),
    _Column("#refused", lambda tally: number(tally.refused_views), wide=True),
    _Column("#over", lambda tally: verdict(tally.over_budget_views)),
    _Column("#unsafe", lambda tally: verdict(tally.tool_unsafe_views)),
    _Column("#order", lambda tally: verdict(tally.out_of_order_views)),
    _Column("#hidden", lambda tally: verdict(tally.newest_missing_views)),
    _Column("#unseen", lambda tally: verdict(tally.unseen_tokens)),
    _Column("#breaks", lambda tally: verdict(tally.append_only_breaks)),
)
_VIEWS = (
    _Column("#mean", lambda tally: number(round(tally.figures()["mean_view_tokens"]))),
    _Column("#max", lambda tally: number(tally.max_view_tokens), wide=True),
    _Column("#activ.", lambda tally: number(tally.activations)),
    _Column("#reused", lambda tally: f"{tally.figures()['prefix_hit']:.1%}"),
    _Column("#uncached", lambda tally: number(tally.figures()["uncached_tokens"])),
    _Column("#ms p50", lambda tally: f"{tally.figures()['view_p50_ms']:.2f}", wide=True),
    _Column("#ms p99", lambda tally: f"{tally.figures()['view_p99_ms']:.1f}"),
    _Column("#activ. p99", lambda tally: f"{tally.figures()['activation_p99_ms']:.1f}", wide=True),
)
_SUMMARIES = (
    _Column("#views", lambda tally: number(tally.views)),
    _Column("#history", lambda tally: number(tally.history_tokens)),
    _Column("#calls", lambda tally: number(tally.model_calls)),
    _Column("#input", lambda tally: number(tally.model_input_tokens)),
    _Column("#output", lambda tally: number(tally.model_output_tokens)),
    _Column("#stand-ins", lambda tally: number(tally.stand_ins), wide=True),
    _Column("#repairs", lambda tally: number(sum(tally.repairs.values())), wide=True),
)
