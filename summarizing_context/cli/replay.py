"""`summarizing-context replay`: transcripts go through a context, and every view is judged by the laws."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from summarizing_context.cli.dry_run import dry_run
from summarizing_context.cli.output import (
    ConfigPath,
    InputError,
    JsonPath,
    Status,
    help_text,
    notices,
    number,
    progress_bar,
    read_tokens,
    write_json,
)
from summarizing_context.cli.replay_tables import Shape, show

if TYPE_CHECKING:
    from summarizing_context.evaluation.figures import Tally
    from summarizing_context.evaluation.replay import Plan

_BYTES_A_JOB = 300_000  # of files, from which another process pays

_EXAMPLES = """[bold]Examples[/bold]

summarizing-context replay session.jsonl --budget 16k

summarizing-context replay logs/ --budget 8000,16000,64000 --json figures.json

summarizing-context replay logs/ --budget 16k --strategy hierarchical,summarize,truncate    [dim]# side by side[/dim]

summarizing-context replay run.jsonl.gz --budget 32k --store run.db    [dim]# to look into it afterwards[/dim]

summarizing-context replay logs/ --budget 16k --dry-run --summarizer openai --model gpt-5.4-mini    [dim]# price[/dim]

summarizing-context replay logs/ --budget 16k --summarizer openai --model M --base-url http://127.0.0.1:8000/v1

[bold]Exit status[/bold]

0 all laws held · 1 a law was broken · 2 bad input · 3 a view was refused · 4 store or environment
"""


_SummarizerName = Annotated[
    str | None, typer.Option(metavar="NAME", help="extractive (the default), openai or anthropic.")
]
_Model = Annotated[
    str | None, typer.Option(metavar="M", help="The model of openai or anthropic that makes the summaries.")
]
_BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="The server of the model, if it is another one.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("replay", help=help_text(replay), epilog=_EXAMPLES)(replay)


def replay(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Files of JSONL or JSONL.gz, one message a line, or folders of them."),
    ],
    budget: Annotated[
        list[str],
        typer.Option(metavar="N[,N]", help="Tokens that a view may use, such as 16000 or 8k,16k; each is replayed."),
    ],
    *,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[,NAME]", help="hierarchical (the default), summarize or truncate; each is replayed."
        ),
    ] = None,
    summarizer: _SummarizerName = None,
    store: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep the sessions in this SQLite file; files then go one by one."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Take views at once; else each waits until the worker has caught up.")
    ] = False,
    model: _Model = None,
    base_url: _BaseUrl = None,
    dry: Annotated[
        bool,
        typer.Option("--dry-run", help="Only tell the calls, tokens and price of the summaries; nothing is sent."),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Files replayed at a time; as many as there are cores if not given."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show a row for each file, however many there are.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Show more columns than fit into 80 characters.")] = False,
    config: ConfigPath = None,
    json_path: JsonPath = None,
) -> int:
    """Replay transcripts and judge every view that a request would have got.

    A view is taken before each assistant message. It must stay inside the budget, keep calls with their results,
    keep the log's order, show its newest message, and begin with the view before unless an activation is reported;
    no text may leave the views that no summarizer has read. Keys that begin with an underscore are dropped from each
    message.
    """
    from summarizing_context.evaluation.replay import Plan

    given = {"summarizer": summarizer, "model": model, "base_url": base_url, "store": store}
    named: list[str | None] = [*_names(strategy or ())]
    variants = [_settings({**given, "strategy": name}, config) for name in named or [None]]
    plan = Plan(_budgets(budget), variants[0], live, tuple(dict.fromkeys(one.strategy for one in variants)))
    if dry and len(plan.strategies) > 1:
        raise InputError("--dry-run: it works out one --strategy at a time; name one")
    if dry:
        return dry_run(paths, plan, json_path=json_path, every=every)
    return _report(_run(paths, plan, jobs), json_path=json_path, shape=Shape(every, wide))


def _report(tallies: Sequence[Tally], *, json_path: str | None, shape: Shape) -> int:
    """Show what a replay came to; the exit status says whether the laws held."""
    from summarizing_context.evaluation.figures import TIMINGS, add_up, add_up_by_variant

    sums, total = add_up_by_variant(tallies), add_up(tallies)
    if json_path is not None:
        write_json(
            json_path,
            {
                "rows": [tally.figures() for tally in tallies],
                "totals": [tally.figures() for tally in sums],
                "total": total.figures(),
                "timings": list(TIMINGS),
            },
        )
    if json_path != "-":
        show(tallies, sums, total, shape)
    return Status.LAW_BROKEN if total.broken_laws() else Status.REFUSED if total.refused_views else Status.OK


def _settings(given: dict[str, Any], config: Path | None) -> Any:
    from summarizing_context.settings import Settings

    settings = Settings.load(config, **{name: value for name, value in given.items() if value is not None})
    if settings.summarizer == "host":
        raise InputError("--summarizer: 'host' needs a host that lends its model; take extractive, openai or anthropic")
    return settings


def _budgets(given: Sequence[str]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(read_tokens, _names(given))))


def _names(given: Sequence[str]) -> list[str]:
    return [one.strip() for text in given for one in text.split(",")]


def _run(paths: Sequence[Path], plan: Plan, jobs: int | None) -> list[Tally]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    from summarizing_context.evaluation.replay import replay_files
    from summarizing_context.evaluation.transcripts import find_transcripts

    files = find_transcripts(paths)
    if not notices().is_terminal:
        notices().print(f"Replaying {len(files)} files at {', '.join(map(number, plan.budgets))} tokens.")
    tallies: list[Tally] = []
    columns = (TextColumn("files"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
    with progress_bar(*columns, TextColumn("{task.fields[words]}", markup=False)) as bar:
        task = bar.add_task("replay", total=len(files), words="")
        for found in replay_files(files, plan, jobs=jobs or _jobs_for(files)):
            tallies += found
            broken = sum(bool(tally.broken_laws()) for tally in tallies)
            words = f"{sum(tally.views for tally in tallies):,} views, {broken} rows with a broken law"
            bar.update(task, advance=1, words=words)
    return tallies


def _jobs_for(files: Sequence[Path]) -> int:
    """As many processes as there are cores, but none for a small file alone: each takes a second to start."""
    size = sum(file.stat().st_size for file in files)
    return min(os.cpu_count() or 1, 1 + size // _BYTES_A_JOB)
