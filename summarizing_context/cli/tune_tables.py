"""What `tune` prints: the variants that matter with their intervals, and what changed in the winner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from summarizing_context.cli.output import number, plain, screen, table

if TYPE_CHECKING:
    from summarizing_context.evaluation.intervals import Interval
    from summarizing_context.evaluation.tuning.outcome import TuneOutcome

_MOST_CHANGES = 16


def show(run: TuneOutcome, written: Sequence[Path], page: Path, seconds: float) -> None:
    """The whole result."""
    from summarizing_context.evaluation.tuning.words import headline

    console = screen()
    console.print(variants_table(run))
    for line in headline(run):
        console.print(plain(line), soft_wrap=True)
    console.print(f"Cost is counted in {run.cost}.", style="dim")
    changes = run.at(run.winner).changes
    if changes:
        console.print(Text("What changed", style="bold"))
    for line in changes[:_MOST_CHANGES]:
        console.print(f"  {plain(line)}")
    if len(changes) > _MOST_CHANGES:
        console.print(f"  and {len(changes) - _MOST_CHANGES} more, in the report", style="dim")
    for path in written:
        console.print(f"Written: {path}")
    console.print(f"{len(run.tried):,} variants in {seconds:.0f} s. The whole report: {page}")


def variants_table(run: TuneOutcome) -> Table:
    """The variants that the held-out sessions judged."""
    made = table(
        f"Tuning on {plain(run.suite, 40)}", "variant", "#tuned on", "#held out", "#interval", "#cost",
        wide="variant",
    )  # fmt: skip
    for tried in run.tried:
        if tried.validation is None:
            continue
        roles = [name for name, at in (("start", run.start), ("shipped", run.shipped), ("winner", run.winner)) if
                 at == tried.number]  # fmt: skip
        style = "bold green" if tried.number == run.winner else ""
        held_out = tried.validation.quality
        made.add_row(
            Text(plain(", ".join(dict.fromkeys([*roles, tried.name])), 60), style=style),
            f"{tried.train.quality.mean:.4f}",
            f"{held_out.mean:.4f}",
            told(held_out),
            number(round(tried.validation.cost)),
        )
    return made


def told(interval: Interval) -> str:
    return f"{interval.low:.4f} – {interval.high:.4f}"
