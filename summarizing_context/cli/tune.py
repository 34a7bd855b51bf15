"""`summarizing-context tune`: which of several prompts makes views hold more of what was needed later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from summarizing_context.cli.eval import cassette_file, opened, show_forecast, spent_by
from summarizing_context.cli.options import (
    BaseUrl,
    CaseBudget,
    ConfigPath,
    DryRun,
    JsonPath,
    MaxCalls,
    OwnSettings,
    PromptsPath,
    ReportFolder,
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
    examples,
    help_text,
    number,
    plain,
    progress_bar,
    screen,
    table,
    tell_skipped_lines,
    write_json,
)

if TYPE_CHECKING:
    from summarizing_context.evaluation.cassettes import Cassette, Mode
    from summarizing_context.evaluation.tune import Gepa, Pair, TuneOutcome, Variant
    from summarizing_context.settings.values import Settings
    from summarizing_context.summarizers.prompts import Prompt

_EXAMPLES = examples(
    "tune logs/ --model gpt-5.4-mini --cassette t.jsonl --try my/segment/v5.md --dry-run    # price",
    "tune logs/ --model gpt-5.4-mini --cassette t.jsonl --try my/segment/v5.md --record",
    "tune logs/ --model gpt-5.4-mini --cassette t.jsonl --gepa --record --write my/",
)
_MOST_PAIRS, _MOST_LINES = 3, 14  # of a summary, that the terminal shows

Tries = Annotated[
    list[Path] | None,
    typer.Option("--try", metavar="PATH", parser=read_path, help="A prompt file or a folder of prompts. Repeatable."),
]
Proposals = Annotated[int, typer.Option(metavar="N", min=1, help="Prompts that gepa may propose.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed for the split of the sessions.")]
Write = Annotated[
    Path | None, typer.Option(metavar="FOLDER", parser=read_path, help="Write the winner here, as a new file.")
]
Tape = Annotated[
    Path, typer.Option("--cassette", metavar="FILE", parser=read_path, help="File of the model's recorded replies.")
]
Record = Annotated[bool, typer.Option("--record", help="Send requests whose replies are not recorded yet.")]
WithGepa = Annotated[bool, typer.Option("--gepa", help="Let the model write better prompts (the extra gepa).")]


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("tune", help=help_text(tune), epilog=_EXAMPLES)(tune)


def tune(
    logs: TranscriptPaths,
    cassette: Tape,
    *,
    tries: Tries = None,
    gepa: WithGepa = False,
    proposals: Proposals = 20,
    format: TranscriptFormat = "auto",
    budget: CaseBudget = "8k",
    record: Record = False,
    dry_run: DryRun = False,
    max_calls: MaxCalls = None,
    summarizer: SummarizerName = None,
    model: SummarizerModel = None,
    base_url: BaseUrl = None,
    config: ConfigPath = None,
    prompts: PromptsPath = None,
    seed: Seed = 0,
    out: ReportFolder = Path("tune-report"),
    write: Write = None,
    json_path: JsonPath = None,
) -> int:
    """Find the prompt that keeps more of what was needed later, on your own transcripts.

    Half of the sessions choose, the other half judges the choice. Replies are kept in the cassette: a run that stopped
    goes on, and without --record it is repeated without a key.
    """
    from summarizing_context.evaluation.cassettes import Cassette
    from summarizing_context.evaluation.models import summarizes_by_model
    from summarizing_context.evaluation.report import tune_document, write_tuning
    from summarizing_context.evaluation.retention import logs_of
    from summarizing_context.evaluation.tune import Trial, Variant, write_winner
    from summarizing_context.evaluation.tune import tune as run_tuning

    own = OwnSettings(config, prompts, summarizer, model).load(base_url)
    settings = replace(own, max_tokens=read_tokens(budget))
    if not summarizes_by_model(settings):
        raise InputError("name the model that the prompts are for, with --model or in --config")
    if bool(tries) == gepa:
        raise InputError("say what to try: prompts with --try, or --gepa to have them written")
    start = Variant("start", tuple(_prompts(Path(settings.prompts), "--prompts")) if settings.prompts else ())
    variants = [_variant(path, start) for path in tries or ()]
    found, skipped = logs_of(logs, format)
    tell_skipped_lines(skipped)
    mode: Mode = "forecast" if dry_run else "record" if record else "replay"
    file = cassette_file(settings, cassette, None, mode)
    assert file is not None
    started = time.perf_counter()
    with TemporaryDirectory() as folder, opened(file, mode, max_calls) as sending, progress_bar("variants") as bar:
        tape = Cassette.open(file.path) if sending is None else sending
        shown = bar.add_task("tune", total=len(variants) + 1 if not gepa else None, words="")
        trial = Trial(
            found,
            settings,
            tape,
            Path(folder),
            seed,
            lambda variant: bar.update(shown, advance=1, words=plain(variant.name, 40)),
        )
        outcome = run_tuning(
            trial, start, variants, _gepa(settings, tape, proposals, seed) if gepa and not dry_run else None
        )
        winner = next(one for one in trial.variants.values() if one.name == outcome.winner)
        if tape.mode == "forecast":
            show_forecast([spent_by(tape, settings)], settings.prices, json_path, proposals=proposals if gepa else 0)
            return Status.OK
    page = write_tuning(outcome, out)
    written = write_winner(winner, write) if write is not None else []
    if json_path is not None:
        write_json(json_path, {**tune_document(outcome), "written": [str(path) for path in written]})
    if json_path != "-":
        _show(outcome, written, page, time.perf_counter() - started)
    return Status.OK


def _variant(path: Path, start: Variant) -> Variant:
    """A prompt file or a folder of prompts as a candidate; other prompts are those of the start."""
    from summarizing_context.evaluation.tune import Variant

    prompts = {prompt.name: prompt for prompt in (*start.prompts, *_prompts(path, "--try"))}
    name = f"{path.parent.name}/{path.stem}" if path.suffix == ".md" else path.name
    return Variant(name, tuple(prompts.values()))


def _prompts(path: Path, option: str) -> Iterator[Prompt]:
    from summarizing_context.evaluation.prompt_inspection import SUMMARIES
    from summarizing_context.summarizers.prompts import latest, load, names

    if path.suffix == ".md":
        yield load(f"{path.parent.name}/{path.stem}", root=path.parent.parent)
        return
    if not path.is_dir():
        raise InputError(f"{option}: {plain(str(path))} is neither a prompt (.md) nor a folder of prompts")
    purposes = [purpose for purpose in SUMMARIES if any(name.startswith(f"{purpose}/") for name in names(path))]
    if not purposes:
        raise InputError(
            f"{option}: {plain(str(path))} holds no prompt; a prompt is a file such as segment/v5.md in it"
        )
    for purpose in purposes:
        yield latest(purpose, root=path)


def _gepa(settings: Settings, cassette: Cassette, proposals: int, seed: int) -> Gepa:
    """gepa, with the model that summarizes as the one that writes prompts too."""
    from summarizing_context.evaluation.models import Chat
    from summarizing_context.evaluation.tune import Gepa, Proposer

    assert settings.model is not None
    chat = Chat(
        provider=settings.summarizer, model=settings.model, base_url=settings.base_url, api_key=settings.api_key
    )
    return Gepa(Proposer(chat.settings(), chat, cassette), proposals=proposals, seed=seed)


def _show(outcome: TuneOutcome, written: list[Path], page: Path, seconds: float) -> None:
    """Summaries side by side first, then figures, then the verdict."""
    from summarizing_context.evaluation.report import bounds, percent

    console = screen()
    for pair in outcome.pairs[:_MOST_PAIRS]:
        console.print(_pair_table(pair))
    shown = table(
        "Values needed later that views hold",
        "prompts",
        "#chosen on",
        "#held out",
        "#interval",
        "#tokens",
        wide="prompts",
    )
    for tried in outcome.tried:
        style = "bold green" if tried.name == outcome.winner else ""
        cells = (percent(tried.chosen_on), percent(tried.held_out), bounds(tried.held_out))
        shown.add_row(Text(plain(tried.name, 60), style=style), *cells, number(round(tried.model_tokens)))
    console.print(shown)
    console.print(plain(outcome.verdict), soft_wrap=True)
    console.print("Tokens: what the model reads and writes for 1,000 tokens of history.", style="dim")
    for path in written:
        console.print(f"Written: {path}", soft_wrap=True)
    console.print(f"{len(outcome.tried)} variants in {seconds:.0f} s. The whole report: {page}", soft_wrap=True)


def _pair_table(pair: Pair) -> Table:
    """Two summaries of the same messages, side by side, long ones cut."""
    made = table(plain(pair.title), "old", "new")
    for column in made.columns:
        column.no_wrap, column.overflow, column.ratio = False, "fold", 1
    made.expand = True
    made.add_row(*(Text(plain(pair.kept(keeps)), "dim") for keeps in (pair.old_keeps, pair.new_keeps)))
    made.add_row(_shortened(pair.old), _shortened(pair.new))
    return made


def _shortened(text: str) -> str:
    lines = [plain(line) for line in text.splitlines() if line.strip()]
    more = [f"… {len(lines) - _MOST_LINES} more lines, in the report"] if len(lines) > _MOST_LINES else []
    return "\n".join([*lines[:_MOST_LINES], *more])
