"""`summarizing-context replay --dry-run`: what summarizing transcripts with a model would ask for, and its price."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from summarizing_context.cli.output import (
    InputError,
    Status,
    dollars,
    notices,
    number,
    plain,
    progress_bar,
    screen,
    table,
    write_json,
)

if TYPE_CHECKING:
    from summarizing_context.evaluation.dry_run import Forecast
    from summarizing_context.evaluation.replay import Plan
    from summarizing_context.prices import ModelPrice
    from summarizing_context.settings import Settings

_MOST_ROWS = 24  # files shown one by one without --all


def dry_run(paths: Sequence[Path], plan: Plan, *, json_path: str | None, every: bool) -> int:
    """Show calls, tokens and price of a replay, per file and in total. Calls nobody, writes nothing, needs no key."""
    from summarizing_context.evaluation.dry_run import add_up, add_up_by_budget
    from summarizing_context.prices import load_prices

    check(plan.settings)
    price = load_prices(plan.settings.prices).price_of(plan.settings.model)
    rows = _forecasts(paths, plan)
    sums, total = add_up_by_budget(rows), add_up(rows)
    if json_path is not None:
        document = {
            "rows": [row.figures(price) for row in rows],
            "totals": [row.figures(price) for row in sums],
            "total": total.figures(price),
            "model": plan.settings.model,
            "price": None if price is None else {**price._asdict(), "as_of": str(price.as_of)},
            "assumed": assumptions(plan.settings),
        }
        write_json(json_path, document)
    if json_path != "-":
        _show(rows if every or len(rows) <= _MOST_ROWS else [], [*sums, total] if len(sums) > 1 else sums, plan, price)
    return Status.OK


def check(settings: Settings) -> None:
    """Refuse what could not be paid for anyway."""
    if settings.summarizer not in ("openai", "anthropic"):
        raise InputError(
            f"--dry-run: the summarizer {settings.summarizer!r} is not paid by the token; take openai or anthropic"
        )
    if settings.model is None:
        raise InputError("--dry-run: no model is named; name one with --model, as its price depends on it")


def assumptions(settings: Settings) -> list[str]:
    """What the figures rest on."""
    return [
        f"each summary is as long as its cap allows ({settings.summary_max_tokens} tokens, or half of a short source)",
        "tokens are the built-in estimate; the model's own count differs by some percent",
        "no call fails or is repeated, none reads the provider's prompt cache, and hidden thinking is not counted",
        "views wait for their summaries, as a replay without --live does",
    ]


def _forecasts(paths: Sequence[Path], plan: Plan) -> list[Forecast]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    from summarizing_context.evaluation.dry_run import forecast_files
    from summarizing_context.evaluation.transcripts import find_transcripts

    files = find_transcripts(paths)
    if not notices().is_terminal:
        notices().print(f"Dry run of {len(files)} files at {', '.join(map(number, plan.budgets))} tokens.")
    rows: list[Forecast] = []
    columns = (TextColumn("files"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
    with progress_bar(*columns) as bar:
        task = bar.add_task("dry run", total=len(files))
        for found in forecast_files(files, plan):
            rows += found
            bar.update(task, advance=1)
    return rows


def _show(rows: Sequence[Forecast], sums: Sequence[Forecast], plan: Plan, price: ModelPrice | None) -> None:
    console = screen()
    console.print(_table(rows, sums, plan, price))
    if price is None:
        words = f"No price is known for {plan.settings.model!r}; the setting prices names a file that has one."
    else:
        words = (
            f"Dollars for a million tokens: {price.input:g} in, {price.output:g} out, as of {price.as_of} "
            f"({price.source or 'your file'}). An estimate."
        )
    console.print(plain(words), style="dim")
    console.print(plain(f"Assumed: {'; '.join(assumptions(plan.settings))}."), style="dim")


def _table(rows: Sequence[Forecast], sums: Sequence[Forecast], plan: Plan, price: ModelPrice | None) -> Table:
    columns = ("#budget", "#messages", "#tokens", "#calls", "#rollups", "#reused", "#input", "#output", "#price")
    made = table(f"Dry run with {plain(str(plan.settings.model), 40)}: nothing is sent", "file", *columns, wide="file")
    for row in rows:
        made.add_row(*_cells(row, price))
    made.add_section()
    for row in sums:
        made.add_row(*_cells(row, price))
    return made


def _cells(row: Forecast, price: ModelPrice | None) -> Sequence[Any]:
    counts = (row.budget, row.messages, row.history_tokens, row.calls, row.rollup_calls, row.reused)
    tokens = (row.input_tokens, row.output_tokens)
    return [plain(Path(row.file).name), *map(number, (*counts, *tokens)), dollars(row.cost(price))]
