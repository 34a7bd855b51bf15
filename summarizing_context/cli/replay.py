"""`summarizing-context replay`: transcripts go through a context, and the laws judge every view.

With `--dry-run` it forecasts calls, tokens and price instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer
from rich.table import Table

from summarizing_context.cli.options import (
    BaseUrl,
    ConfigPath,
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
    from summarizing_context.settings.values import Settings
    from summarizing_context.summarizers.prices import ModelPrice

Row = TypeVar("Row", "Tally", "Forecast")

_BUDGET = "32k"  # tokens
_MOST_ROWS = 24  # files shown one by one without --all
_MOST_KINDS = 6  # of records that were skipped


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
    for title, columns, rows, words in (
        ("Laws: 0 is right", laws, shown, ""),
        ("Views", _VIEWS, tallies if few else [], _VIEW_WORDS),
        ("Summaries", _SUMMARIES, [], _SUMMARY_WORDS if not total.model_calls else ""),
    ):
        console.print(_table(title, [one for one in (*lead, *columns) if shape.wide or not one.wide], rows, sums))
        if words:
            console.print(words, style="dim")
    if total.token_counter is not None:
        console.print(f"Tokens are counted by {total.token_counter}.", style="dim")
    if any(tally.compactions for tally in tallies):
        console.print(_compactions_table(tallies))
        console.print(
            "The client's own tokens are as it recorded them; its tools and system prompt count.", style="dim"
        )
    repairs = {kind.replace("_", " "): count for kind, count in total.repairs.items()}
    for title, counts in (("Repairs", repairs), ("Skipped, being no messages", total.skipped)):
        if counts:
            console.print(plain(f"{title}: {_kinds(counts, every=shape.every)}."), style="dim")
    if total.skipped and not total.model_calls:  # logs of a client
        console.print(_NEXT, style="dim", soft_wrap=True)
    if len(shown) < len(tallies):
        hidden = len(tallies) - len(shown)
        console.print(f"{hidden:,} rows in which every law held are not shown; --all shows them.", style="dim")


def _kinds(counts: Mapping[str, int], *, every: bool) -> str:
    """The most frequent kinds, and how many others there are."""
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    shown = ranked if every or len(ranked) == _MOST_KINDS + 1 else ranked[:_MOST_KINDS]
    told = ", ".join(f"{count:,} {kind}" for kind, count in shown)
    others = ranked[len(shown) :]
    return (
        f"{told}, and {sum(count for _, count in others):,} of {counted(len(others), 'other kind')}" if others else told
    )


def _table(title: str, columns: Sequence[_Column], tallies: Sequence[Tally], sums: Sequence[Tally]) -> Table:
    made = table(title, "file", *(column.title for column in columns), wide="file")
    for tally in tallies:
        made.add_row(_name(tally), *(column.cell(tally) for column in columns))
    made.add_section()
    for tally in sums:
        made.add_row(_name(tally), *(column.cell(tally) for column in columns))
    return made


def _compactions_table(tallies: Sequence[Tally]) -> Table:
    columns = ("#budget", "#message", "#history", "#client before", "#after", "#its summary", "#our view")
    made = table("Where the client compacted its own context", "file", *columns, wide="file")
    for tally in tallies:
        for one in tally.compactions:
            sizes = [one[key] for key in _SIZES]
            cells = ["-" if size is None else number(size) for size in (tally.budget, *sizes)]
            made.add_row(_name(tally), *cells)
    return made


_SIZES = ("message", "history_tokens", "client_before", "client_after", "client_summary", "view_tokens")


def _name(tally: Tally) -> str:
    return plain(Path(tally.file).name)


_VIEW_WORDS = (
    "A view is what a request would send. activ.: how often it moved on; reused: the share that a prompt cache holds."
)
_SUMMARY_WORDS = "No model was called; where none is named, summaries are extracted from the text."

_NEXT = """\
Next, with the same PATH:
  summarizing-context replay PATH --dry-run --summarizer openai --model NAME
  summarizing-context import PATH --store logs.db
  summarizing-context inspect --store logs.db"""

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


def dry_run(paths: Sequence[Path], plan: Plan, *, json_path: str | None, every: bool) -> int:
    """Show calls, tokens and price of a replay, per file and in total. Calls nobody, writes nothing, needs no key."""
    from summarizing_context.evaluation.dry_run import add_up, add_up_by_budget, forecast_files
    from summarizing_context.summarizers.prices import load_prices
    from summarizing_context.summarizers.providers import address_of

    check(plan.settings)
    price, address = load_prices(plan.settings.prices).price_of(plan.settings.model), address_of(plan.settings)
    rows, unreadable, stopped_of = _run(
        "Dry run of",
        paths,
        plan,
        lambda files: forecast_files(files, plan),
        lambda rows: f"{sum(row.calls for row in rows):,} calls",
    )
    sums, total = add_up_by_budget(rows), add_up(rows)
    if json_path is not None:
        document = {
            "rows": [row.figures(price) for row in rows],
            "totals": [row.figures(price) for row in sums],
            "total": total.figures(price),
            "model": plan.settings.model,
            "address": address,
            "price": None if price is None else {**price._asdict(), "as_of": str(price.as_of)},
            "assumed": assumptions(plan.settings),
            "unreadable": [str(error) for error in unreadable],
        }
        write_json(json_path, document)
    if json_path != "-":
        _show(
            rows if every or len(rows) <= _MOST_ROWS else [],
            [*sums, total] if len(sums) > 1 else sums,
            plan,
            price,
            address,
        )
    tell_skipped_lines(total.skipped_lines)
    return tell_unreadable(unreadable) if stopped_of is None else _stopped(rows, unreadable, stopped_of)


def check(settings: Settings) -> None:
    """Refuse what could not be paid for anyway."""
    if settings.summarizer not in PROVIDERS:
        raise InputError(f"--dry-run: the summarizer {settings.summarizer!r} is not paid by the token; take {NAMED}")
    if settings.model is None:
        raise InputError("--dry-run: no model is named; name one with --model, as its price depends on it")


def assumptions(settings: Settings) -> list[str]:
    """What the figures rest on."""
    return [
        "each summary is as long as its cap allows, or half of a short source",
        "tokens are the built-in estimate; the model's own count differs by some percent",
        "no call fails or is repeated, none reads the provider's prompt cache, and hidden thinking is not counted",
        "views wait for their summaries, as a replay without --live does",
    ]


def _show(
    rows: Sequence[Forecast], sums: Sequence[Forecast], plan: Plan, price: ModelPrice | None, address: str
) -> None:
    console = screen()
    console.print(_dry_run_table(rows, sums, plan, price))
    console.print(plain(f"{plan.settings.model} would be asked at {address}."))
    if price is None:
        words = f"No price is known for {plan.settings.model!r}; the setting prices names a file that has one."
    else:
        words = (
            f"Dollars for a million tokens: {price.input:g} in, {price.output:g} out, as of {price.as_of} "
            f"({price.source or 'your file'}). An estimate."
        )
    console.print(plain(words), style="dim")
    console.print(plain(f"Assumed: {'; '.join(assumptions(plan.settings))}."), style="dim")


def _dry_run_table(rows: Sequence[Forecast], sums: Sequence[Forecast], plan: Plan, price: ModelPrice | None) -> Table:
    columns = ("#budget", "#tokens", "#calls", "#input", "#output", "#price")
    made = table(f"Dry run with {plain(str(plan.settings.model), 40)}: nothing is sent", "file", *columns, wide="file")
    for row in rows:
        made.add_row(*_cells(row, price))
    made.add_section()
    for row in sums:
        made.add_row(*_cells(row, price))
    return made


def _cells(row: Forecast, price: ModelPrice | None) -> Sequence[Any]:
    counts = (row.budget, row.history_tokens, row.calls)
    tokens = (row.input_tokens, row.output_tokens)
    return [plain(Path(row.file).name), *map(number, (*counts, *tokens)), dollars(row.cost(price))]


_BYTES_A_JOB = 300_000  # of files, from which another process pays

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


_Store = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        parser=read_path,
        help="Keep the sessions in this SQLite file; files are then replayed one by one.",
    ),
]
_Strategies = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[,NAME]",
        help="hierarchical (default), summarize or truncate; each one is replayed.",
    ),
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
    strategy: _Strategies = None,
    summarizer: SummarizerName = None,
    store: _Store = None,
    live: Annotated[
        bool, typer.Option("--live", help="Take views without waiting until the worker has caught up.")
    ] = False,
    model: SummarizerModel = None,
    base_url: BaseUrl = None,
    dry: Annotated[
        bool,
        typer.Option("--dry-run", help="Report calls, tokens and price of the summaries. Nothing is sent."),
    ] = False,
    jobs: Jobs = None,
    every: Annotated[bool, typer.Option("--all", help="Show a row for each file, however many there are.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Show more columns than fit into 80 characters.")] = False,
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
    from summarizing_context.evaluation.replay import Plan, replay_files

    own = OwnSettings(config, prompts, summarizer, model)
    named: list[str | None] = [*_names(strategy or ())]
    variants = [own.load(base_url, store=store, strategy=name) for name in named or [None]]
    plan = Plan(
        _budgets(budget or [_BUDGET]), variants[0], live, tuple(dict.fromkeys(one.strategy for one in variants)), format
    )
    if dry and len(plan.strategies) > 1:
        raise InputError("--dry-run: it works out one --strategy at a time; name one")
    if dry:
        return dry_run(paths, plan, json_path=json_path, every=every)
    tallies, unreadable, stopped_of = _run(
        "Replaying", paths, plan, lambda files: replay_files(files, plan, jobs=jobs or _jobs_for(files)), _words
    )
    status = _report(tallies, unreadable, json_path=json_path, shape=Shape(every, wide))
    if stopped_of is not None:
        return _stopped(tallies, unreadable, stopped_of)
    return max(tell_unreadable(unreadable), status, key=_GRAVITY.index)


def _stopped(rows: Sequence[Tally | Forecast], unreadable: Sequence[TranscriptError], files: int) -> Status:
    """Tell that Ctrl-C ended a replay, and how far it had come."""
    read = len({row.file for row in rows}) + len(unreadable)
    notices().print(f"Stopped after {read} of {counted(files, 'file')}; the figures are theirs.")
    return Status.INTERRUPTED


_GRAVITY = (Status.OK, Status.REFUSED, Status.BAD_INPUT, Status.LAW_BROKEN)  # the gravest is told


def _report(
    tallies: Sequence[Tally], unreadable: Sequence[TranscriptError], *, json_path: str | None, shape: Shape
) -> Status:
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
        show(tallies, sums, total, shape)
    return Status.LAW_BROKEN if total.broken_laws() else Status.REFUSED if total.refused_views else Status.OK


def _words(rows: Sequence[Tally]) -> str:
    broken = sum(bool(row.broken_laws()) for row in rows)
    return f"{sum(row.views for row in rows):,} views, {broken} rows with a broken law"


def _budgets(given: Sequence[str]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(read_tokens, _names(given))))


def _names(given: Sequence[str]) -> list[str]:
    return [one.strip() for text in given for one in text.split(",")]


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
    return rows, _unless_all(unreadable, rows), None


def _unless_all(unreadable: list[TranscriptError], read: Sequence[Tally | Forecast]) -> list[TranscriptError]:
    """The errors. Raises the first where nothing could be read, and one of its own where no file holds a message."""
    from summarizing_context.errors import TranscriptError

    if unreadable and not read:
        raise unreadable[0]
    if not unreadable and not any(row.messages for row in read):
        raise TranscriptError(f"{read[0].file}:1: holds no message; name another transcript")
    return unreadable


def _jobs_for(files: Sequence[Path]) -> int:
    """As many processes as there are cores, but none for a small file alone: each takes a second to start."""
    if any(not file.is_file() for file in files):
        return 1  # the standard input, which other processes do not have
    size = sum(file.stat().st_size for file in files)
    return min(os.cpu_count() or 1, 1 + size // _BYTES_A_JOB)
