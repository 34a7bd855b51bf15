"""`summarizing-context replay`: transcripts go through a context, and the laws judge every view.

With `--dry-run` it forecasts calls, tokens and price instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.text import Text

from summarizing_context.cli.options import (
    BaseUrl,
    ConfigPath,
    DryRun,
    Jobs,
    JsonPath,
    OwnSettings,
    PromptsPath,
    SummarizerModel,
    SummarizerName,
    TranscriptFormat,
    TranscriptPaths,
    read_path,
    read_tokens,
)
from summarizing_context.cli.output import (
    InputError,
    Status,
    counted,
    dollars,
    examples,
    help_text,
    notices,
    number,
    plain,
    progress_bar,
    screen,
    show_result,
    table,
    tell_skipped_lines,
    tell_unreadable,
    verdict,
    write_json,
)
from summarizing_context.settings.providers import NAMED, PROVIDERS

if TYPE_CHECKING:
    from summarizing_context.errors import TranscriptError
    from summarizing_context.evaluation.dry_run import Forecast
    from summarizing_context.evaluation.replay import Plan, Tally

Row = TypeVar("Row", "Tally", "Forecast")

_BUDGET = "32k"  # tokens
_MOST_ROWS = 24  # that are shown one by one
_MOST_KINDS = 6  # of records that were skipped


_BYTES_A_JOB = 300_000  # of files, from which another process pays
_GRAVITY = (Status.OK, Status.REFUSED, Status.BAD_INPUT, Status.LAW_BROKEN)  # the gravest is told
_VIEW_WORDS = (
    "A view is what a request would send. activ.: how often it moved on; reused: the share that a prompt cache holds."
)
_SUMMARY_WORDS = "No model was called; where none is named, summaries are extracted from the text."
_CLIENT_WORDS = "The client's own tokens are as it recorded them; its tools and system prompt count."
_NEXT = """\
Next, with the same PATH:
  summarizing-context replay PATH --dry-run --summarizer openai --model NAME
  summarizing-context import PATH --store logs.db
  summarizing-context inspect --store logs.db"""
_EXAMPLES = examples(
    "replay session.jsonl --budget 16k",
    "replay ~/.claude/projects    # of your own client",
    "replay logs/ --budget 8000,16000,64000 --json figures.json",
    "replay logs/ --budget 16k --strategy hierarchical,summarize,truncate    # side by side",
    "replay run.jsonl.gz --budget 32k --store run.db    # to look into it afterwards",
    "replay logs/ --budget 16k --dry-run --summarizer openai --model gpt-5.4-mini    # price",
    "replay logs/ --budget 16k --summarizer openai --model M --base-url http://127.0.0.1:8000/v1",
    more={
        "Exit status": (
            "0 all laws held · 1 a law was broken · 2 bad input · 3 a view was refused\n"
            "4 store or environment · 130 Ctrl-C"
        ),
    },
)
_ASSUMED = [
    "each summary is as long as its cap allows, or half of a short source",
    "tokens are the built-in estimate; the model's own count differs by some percent",
    "no call fails or is repeated, none reads the provider's prompt cache, and hidden thinking is not counted",
    "views wait for their summaries, as a replay without --live does",
]


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("replay", help=help_text(replay), epilog=_EXAMPLES)(replay)


def replay(
    paths: TranscriptPaths,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N[,N]", help="Tokens that a view may use, such as 16000 or 8k,16k; each is replayed. Default: 32k."
        ),
    ] = None,
    *,
    format: TranscriptFormat = "auto",
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[,NAME]", help="hierarchical (default), summarize or truncate; each one is replayed."
        ),
    ] = None,
    summarizer: SummarizerName = None,
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            parser=read_path,
            help="Keep the sessions in this SQLite file; files are then replayed one by one.",
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Take views without waiting until the worker has caught up.")
    ] = False,
    model: SummarizerModel = None,
    base_url: BaseUrl = None,
    dry_run: DryRun = False,
    jobs: Jobs = None,
    config: ConfigPath = None,
    prompts: PromptsPath = None,
    json_path: JsonPath = None,
) -> int:
    """Replay transcripts and judge every view that a request would have got.

    A view is taken before each assistant message. It must stay inside the budget, keep calls with their results,
    keep the log's order and show its newest message. It must begin with the view before, unless an activation is
    reported. No text may leave the views that no summarizer has read. Keys that begin with an underscore are dropped
    from each message. A file that cannot be read is named, and the others are replayed.
    """
    from summarizing_context.evaluation.dry_run import forecast_files
    from summarizing_context.evaluation.replay import Plan, replay_files

    own = OwnSettings(config, prompts, summarizer, model)
    named: list[str | None] = [*_names(strategy or ())]
    variants = [own.load(base_url, store=store, strategy=name) for name in named or [None]]
    budgets = tuple(dict.fromkeys(map(read_tokens, _names(budget or [_BUDGET]))))
    plan = Plan(budgets, variants[0], live, tuple(dict.fromkeys(one.strategy for one in variants)), format)
    if dry_run:
        if len(plan.strategies) > 1:
            raise InputError("--dry-run: it works out one --strategy at a time; name one")
        if plan.settings.summarizer not in PROVIDERS:
            name = plan.settings.summarizer
            raise InputError(f"--dry-run: the summarizer {name!r} is not paid by the token; take {NAMED}")
        if plan.settings.model is None:
            raise InputError("--dry-run: no model is named; name one with --model, as its price depends on it")
        rows, unreadable, stopped_of = _run(
            "Dry run of",
            paths,
            plan,
            lambda files: forecast_files(files, plan),
            lambda rows: f"{sum(row.calls for row in rows):,} calls",
        )
        _report_forecast(rows, unreadable, plan, json_path)
        return tell_unreadable(unreadable) if stopped_of is None else _stopped(rows, unreadable, stopped_of)
    tallies, unreadable, stopped_of = _run(
        "Replaying",
        paths,
        plan,
        lambda files: replay_files(files, plan, jobs=jobs or _jobs_for(files)),
        lambda rows: (
            f"{sum(row.views for row in rows):,} views, "
            f"{sum(bool(row.broken_laws()) for row in rows)} rows with a broken law"
        ),
    )
    status = _report(tallies, unreadable, json_path)
    if stopped_of is not None:
        return _stopped(tallies, unreadable, stopped_of)
    return max(tell_unreadable(unreadable), status, key=_GRAVITY.index)


def _names(given: Sequence[str]) -> list[str]:
    return [one.strip() for text in given for one in text.split(",")]


def _jobs_for(files: Sequence[Path]) -> int:
    """As many processes as there are cores, but none for a small file alone: each takes a second to start."""
    if any(not file.is_file() for file in files):
        return 1  # the standard input, which other processes do not have
    size = sum(file.stat().st_size for file in files)
    return min(os.cpu_count() or 1, 1 + size // _BYTES_A_JOB)


def _run(
    title: str,
    paths: Sequence[Path],
    plan: Plan,
    work: Callable[[Sequence[Path]], Iterable[list[Row] | TranscriptError]],
    words: Callable[[Sequence[Row]], str],
) -> tuple[list[Row], list[TranscriptError], int | None]:
    """What the work gives for the files, those that could not be read, and where Ctrl-C ended it, how many files."""
    from summarizing_context.errors import TranscriptError
    from summarizing_context.transcripts import find_transcripts

    files = find_transcripts(paths)
    if not notices().is_terminal:
        notices().print(f"{title} {counted(len(files), 'file')} at {', '.join(map(number, plan.budgets))} tokens.")
    rows: list[Row] = []
    unreadable: list[TranscriptError] = []
    with progress_bar("files", remaining=True) as bar:
        task = bar.add_task("files", total=len(files), words="")
        try:
            for found in work(files):
                if isinstance(found, TranscriptError):
                    unreadable.append(found)
                else:
                    rows += found
                bar.update(task, advance=1, words=words(rows))
        except KeyboardInterrupt:
            if not rows:
                raise
            return rows, unreadable, len(files)
    if unreadable and not rows:
        raise unreadable[0]
    if not unreadable and not any(row.messages for row in rows):
        raise TranscriptError(f"{rows[0].file}:1: holds no message; name another transcript")
    return rows, unreadable, None


def _stopped(rows: Sequence[Tally | Forecast], unreadable: Sequence[TranscriptError], files: int) -> Status:
    """Tell that Ctrl-C ended a replay, and how far it had come."""
    read = len({row.file for row in rows}) + len(unreadable)
    notices().print(f"Stopped after {read} of {counted(files, 'file')}; the figures are theirs.")
    return Status.INTERRUPTED


def _report(tallies: Sequence[Tally], unreadable: Sequence[TranscriptError], json_path: str | None) -> Status:
    """Show what a replay came to; the exit status says whether the laws held."""
    from summarizing_context.evaluation.replay import TIMINGS, add_up, add_up_by_variant

    sums, total = add_up_by_variant(tallies), add_up(tallies)
    tell_skipped_lines(total.unreadable)
    if json_path is not None:
        write_json(
            json_path,
            {
                "rows": [tally.figures() for tally in tallies],
                "totals": [tally.figures() for tally in sums],
                "total": total.figures(),
                "timings": list(TIMINGS),
                "unreadable": [str(error) for error in unreadable],
            },
        )
    if json_path != "-":
        show(tallies, sums, total)
    return Status.LAW_BROKEN if total.broken_laws() else Status.REFUSED if total.refused_views else Status.OK


def show(tallies: Sequence[Tally], sums: Sequence[Tally], total: Tally) -> None:
    """Print the tables, with `sums` by strategy and budget below; where files are many, only broken laws."""
    console = screen()
    strategies = len({tally.strategy for tally in tallies}) > 1
    if len(sums) > 1 and not strategies:
        sums = [*sums, total]
    few = len(tallies) <= _MOST_ROWS
    shown = tallies if few else [tally for tally in tallies if tally.broken_laws() or tally.refused_views]

    def show_table(title: str, rows: Sequence[Tally], columns: dict[str, Callable[[Tally], Any]]) -> None:
        lead = {"strategy": lambda tally: tally.strategy or "all"} if strategies else {}
        cells = {**lead, "#budget": lambda tally: number(tally.budget), **columns}
        made = table(title, "file", *cells, wide="file")
        for tally in rows:
            made.add_row(plain(Path(tally.file).name), *(cell(tally) for cell in cells.values()))
        made.add_section()
        for tally in sums:
            made.add_row(plain(Path(tally.file).name), *(cell(tally) for cell in cells.values()))
        console.print(made)

    refused = {"#refused": lambda tally: number(tally.refused_views)} if total.refused_views else {}
    laws = {
        "#over": lambda tally: verdict(tally.over_budget_views),
        "#unsafe": lambda tally: verdict(tally.tool_unsafe_views),
        "#order": lambda tally: verdict(tally.out_of_order_views),
        "#hidden": lambda tally: verdict(tally.newest_missing_views),
        "#unseen": lambda tally: verdict(tally.unseen_tokens),
        "#breaks": lambda tally: verdict(tally.append_only_breaks),
    }
    show_table("Laws: 0 is right", shown, {**refused, **laws})
    views = {
        "#mean": lambda tally: number(round(tally.figures()["mean_view_tokens"])),
        "#activ.": lambda tally: number(tally.activations),
        "#reused": lambda tally: f"{tally.figures()['prefix_hit']:.1%}",
        "#uncached": lambda tally: number(tally.figures()["uncached_tokens"]),
        "#ms p99": lambda tally: f"{tally.figures()['view_p99_ms']:.1f}",
    }
    show_table("Views", tallies if few else [], views)
    console.print(_VIEW_WORDS, style="dim")
    summaries = {
        "#views": lambda tally: number(tally.views),
        "#history": lambda tally: number(tally.history_tokens),
        "#calls": lambda tally: number(tally.model_calls),
        "#input": lambda tally: number(tally.model_input_tokens),
        "#output": lambda tally: number(tally.model_output_tokens),
    }
    show_table("Summaries", [], summaries)
    if not total.model_calls:
        console.print(_SUMMARY_WORDS, style="dim")
    if total.token_counter is not None:
        console.print(f"Tokens are counted by {total.token_counter}.", style="dim")
    if any(tally.compactions for tally in tallies):
        titles = ("#budget", "#message", "#history", "#client before", "#after", "#its summary", "#our view")
        made = table("Where the client compacted its own context", "file", *titles, wide="file")
        keys = ("message", "history_tokens", "client_before", "client_after", "client_summary", "view_tokens")
        for tally in tallies:
            for one in tally.compactions:
                sizes = (tally.budget, *(one[key] for key in keys))
                cells = ("-" if size is None else number(size) for size in sizes)
                made.add_row(plain(Path(tally.file).name), *cells)
        console.print(made)
        console.print(_CLIENT_WORDS, style="dim")
    repairs = {kind.replace("_", " "): count for kind, count in total.repairs.items()}
    for title, counts in (("Repairs", repairs), ("Skipped, being no messages", total.skipped)):
        if counts:
            ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
            most = len(ranked) if len(ranked) == _MOST_KINDS + 1 else _MOST_KINDS
            told, others = ", ".join(f"{count:,} {kind}" for kind, count in ranked[:most]), ranked[most:]
            if others:
                told += f", and {sum(count for _, count in others):,} of {counted(len(others), 'other kind')}"
            console.print(plain(f"{title}: {told}."), style="dim")
    if total.skipped and not total.model_calls:  # logs of a client
        console.print(_NEXT, style="dim", soft_wrap=True)
    if len(shown) < len(tallies):
        hidden = len(tallies) - len(shown)
        console.print(f"{hidden:,} rows in which every law held are not shown; --json tells them.", style="dim")


def _report_forecast(
    rows: Sequence[Forecast], unreadable: Sequence[TranscriptError], plan: Plan, json_path: str | None
) -> None:
    """Show calls, tokens and price of a replay, per file and in total."""
    from summarizing_context.evaluation.dry_run import add_up, add_up_by_budget
    from summarizing_context.summarizers.prices import load_prices
    from summarizing_context.summarizers.providers import address_of

    model, address = str(plan.settings.model), address_of(plan.settings)
    price = load_prices(plan.settings.prices).price_of(model)
    sums, total = add_up_by_budget(rows), add_up(rows)
    titles = ("#budget", "#tokens", "#calls", "#input", "#output", "#price")
    made = table(f"Dry run with {plain(model, 40)}: nothing is sent", "file", *titles, wide="file")
    few = rows if len(rows) <= _MOST_ROWS else []
    for at, row in enumerate((*few, *sums, *([total] if len(sums) > 1 else []))):
        if at == len(few):
            made.add_section()
        figures = (row.budget, row.history_tokens, row.calls, row.input_tokens, row.output_tokens)
        made.add_row(plain(Path(row.file).name), *map(number, figures), dollars(row.cost(price)))
    if price is None:
        words = f"No price is known for {model!r}; the setting prices names a file that has one."
    else:
        words = (
            f"Dollars for a million tokens: {price.input:g} in, {price.output:g} out, as of {price.as_of} "
            f"({price.source or 'your file'}). An estimate."
        )
    document = {
        "rows": [row.figures(price) for row in rows],
        "totals": [row.figures(price) for row in sums],
        "total": total.figures(price),
        "model": plan.settings.model,
        "address": address,
        "price": None if price is None else {**price._asdict(), "as_of": str(price.as_of)},
        "assumed": _ASSUMED,
        "unreadable": [str(error) for error in unreadable],
    }
    told = (f"{model} would be asked at {address}.", words, f"Assumed: {'; '.join(_ASSUMED)}.")
    show_result(json_path, document, made, *(Text(plain(line), style="dim") for line in told))
    tell_skipped_lines(total.skipped_lines)
