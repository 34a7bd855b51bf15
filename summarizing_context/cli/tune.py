"""`summarizing-context tune`: which of several prompts is better, on one's own transcripts."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from summarizing_context.cli import eval, options, output
from summarizing_context.cli.eval import Budget, CassettePath, Redact
from summarizing_context.cli.options import MEASURE, argument, command, option, path_option
from summarizing_context.cli.output import InputError, Result, dim, dollars, plain, table, told_lines
from summarizing_context.errors import CassetteMissError
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.settings.values import PROVIDERS
from summarizing_context.summarizers.prompts import Prompt, latest, load, names

if TYPE_CHECKING:
    from summarizing_context.evaluation.report import Pair, Report

commands = typer.Typer()

_PROMPT = "The text of a segment prompt, a file such as mine/segment/v9.md, or a folder of prompts. Repeatable."
_OPTIMIZER = "What proposes: the model alone (model), or with the extra gepa (gepa)."
_JUDGE = "Model that marks answers, where the logs are a folder of `eval ask` or real: right answers are compared too."


@dataclass(frozen=True, kw_only=True)
class TuneOptions(options.OwnSettings):
    """Options of `tune`. `--prompts` are those of the start."""

    format: options.TranscriptFormat = "auto"
    base_url: options.BaseUrl = None
    prompt: Annotated[list[Path] | None, path_option("PATH", _PROMPT, "--prompt")] = None
    propose: Annotated[int, option("N", "Prompts that the model proposes.", min=0)] = 0
    optimizer: Annotated[str, option("NAME", _OPTIMIZER)] = "model"
    budget: Budget = "16k"
    held_out: Annotated[float, option("X", "Share of the sessions that only judges a choice.", min=0.1, max=0.9)] = 0.5
    judge_model: Annotated[str | None, option("M", _JUDGE)] = None
    redact: Redact = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show calls, tokens and price, and send nothing.")] = False
    yes: options.Yes = False
    max_calls: options.MaxCalls = None
    seed: Annotated[int, option("N", "Seed for the split of the sessions.")] = 0
    cassette: CassettePath = None
    out: options.ReportFolder = Path("tune-report")
    write: Annotated[Path | None, path_option("FOLDER", "Write the winner here. Default: prompts in --out.")] = None


@command(commands, MEASURE)
def tune(logs: Annotated[list[str], argument("LOGS", "Sources as `eval run` takes them.", parser=options.read_place)],
         given: TuneOptions) -> Result:  # fmt: skip
    """Compare prompts on your own transcripts: their difference, the summaries that changed most, and a verdict.

    The price is shown before anything is sent; replies are kept, so a run that stopped goes on, and a finished one is
    repeated without a key. Of several prompts one share of the sessions chooses, the other judges the choice. A winner
    is written as a prompt file, for Settings(prompts=...).

    Examples:
        tune logs/ --model gpt-5.4-mini --prompt mine.md
        tune logs/ --model gpt-5.4-mini --propose 5 --max-calls 2000
    """
    from summarizing_context.evaluation.cassettes import Cassette
    from summarizing_context.evaluation.datasets import Dataset
    from summarizing_context.evaluation.run import prices_of
    from summarizing_context.evaluation.tune import START, Gepa, Trial, Variant, propose, tune, write_winner

    started = time.perf_counter()
    settings = replace(given.load(), max_tokens=options.read_tokens(given.budget))
    if settings.summarizer not in PROVIDERS:
        raise InputError("name the model that the prompts are for, with --model or in --config")
    if given.optimizer not in ("model", "gepa"):
        raise InputError(f"--optimizer: {plain(given.optimizer, 40)!r}; there are model and gepa")
    number = given.propose or (20 if given.optimizer == "gepa" else 0)
    if not given.prompt and not number:
        raise InputError("say what to try: prompt files with --prompt, or --propose N to have the model write some")
    start = Variant(START, tuple(_prompts(Path(settings.prompts), "--prompts") if settings.prompts else ()))
    tries: list[Variant] = []
    for path in given.prompt or ():  # other prompts are those of the start
        tried = {prompt.name: prompt for prompt in (*start.prompts, *_prompts(path, "--prompt"))}
        name = f"{path.parent.name}/{path.stem}" if re.fullmatch(r"v\d+", path.stem) else path.stem
        name += f" ({len(tries) + 1})" if name in (one.name for one in (start, *tries)) else ""
        tries.append(Variant(name, tuple(tried.values())))
    dataset = Dataset.load(*logs, format=given.format)
    judges = () if given.judge_model is None else eval.judges_of(settings, given.judge_model, None, None, None)
    models = [settings, *judges]
    file = given.cassette or given.out / "replies.jsonl"
    keys: Any = {"secrets": [settings.api_key], "redact": given.redact}
    proposals: Any = None
    if number:
        proposals = Gepa(number, given.seed) if given.optimizer == "gepa" else partial(propose, number=number)
    held_out = given.held_out if len(tries) > 1 or number else 0.0

    def measure(cassette: Cassette, proposed: Any, words: str) -> tuple[Trial, Report]:
        with TemporaryDirectory() as folder, output.progress(words, None) as update:
            watch: Any = {"held_out": held_out, "seed": given.seed, "watch": lambda one: update(plain(one.name, 40))}
            trial = Trial(dataset, settings, cassette, Path(folder), **watch)
            return trial, tune(trial, start, tries, proposed, judges)

    # What it takes comes first: a run with assumed replies, that sends nothing.
    with Cassette(file, "forecast", **keys) as forecast:
        measure(forecast, None, "price")
    prices = prices_of(forecast, models)
    if given.dry_run:
        return eval.priced(prices, number)
    most = f"Then {number:,} proposals, each tried on all sessions; --max-calls stops them." if number else ""
    is_recorded = not any(one.calls for one in prices)
    try:
        if is_recorded:  # a finished run is repeated; proposals may be missing all the same
            with Cassette(file, "replay", **keys) as cassette:
                trial, report = measure(cassette, proposals, "variants")
    except CassetteMissError:
        is_recorded = False
    if not is_recorded:
        eval.ask_for(prices, given.yes, most)
        with Cassette(file, "record", max_calls=given.max_calls, **keys) as cassette:
            trial, report = measure(cassette, proposals, "variants")
        eval.tell_spent(cassette, models)
    page = report.write(given.out)
    assert report.tuning is not None
    winner = trial.variants[report.tuning.winner]
    written = write_winner(winner, given.write or given.out / "prompts") if winner.name != start.name else []
    document = {**report.document(), "written": [str(path) for path in written]}
    return Result(document, _shown(report, written, page, started), remarks=told_lines(report.left_out))


def _shown(report: Report, written: list[Path], page: Path, started: float) -> list[RenderableType]:
    """The difference of prompts, the summaries that changed most, right answers, length, price, verdict."""
    tuning = report.tuning
    assert tuning is not None
    colours = {"+": "green", "-": "red", "@": "dim"}
    parts: list[RenderableType] = [Text(plain(line), colours.get(line[:1], "")) for line in tuning.diff[:40]]
    parts += [_side_by_side(pair) for pair in tuning.pairs[:2]]
    if len(tuning.tried) > 2 or tuning.chosen_on:
        rows = [(plain(name, 40), eval.share(score)) for name, score in tuning.tried.items()]
        parts.append(
            table("On the sessions that choose" if tuning.chosen_on else "Tried", "prompt", "#score", rows=rows)
        )
    parts.append(eval.score_table(report, marked=tuning.winner))
    for arm in (tuning.old, tuning.new):
        lines = sum(one.dropped for one in report.spent if one.arm == arm)
        costs = f"summaries of 1M tokens of history cost {dollars(tuning.dollars.get(arm))}"
        parts.append(dim(f"{arm}: {costs}; the checks took {output.counted(lines, 'line')} out of its replies"))
    parts.append(Text(plain(report.verdict), "bold"))
    parts += [f"Written: {path}. Use it with Settings(prompts={str(path.parent.parent)!r})." for path in written]
    seconds = time.perf_counter() - started
    return [
        *parts,
        f"{output.counted(len(tuning.tried), 'variant')} in {seconds:.0f} s. Everything side by side: {page}",
    ]


def _side_by_side(pair: Pair) -> Table:
    """Two summaries of the same messages, each with what it keeps and loses."""
    shown = Table(title=plain(f"{pair.session}, messages {pair.start} to {pair.stop - 1}"), title_justify="left")
    cells = []
    for name, text, keeps in (("old", pair.old, pair.old_keeps), ("new", pair.new, pair.new_keeps)):
        lost = [value for value in pair.needed if value not in keeps]
        words = f"keeps {len(keeps)} of {len(pair.needed)} values needed later"
        words += f"; loses {plain(', '.join(lost), 90)}" if lost else ""
        shown.add_column(Text(f"{name}: {words}"), ratio=1, overflow="fold")
        lines = text.splitlines()
        cells.append(
            Text("\n".join(map(plain, lines[:14])) + (f"\n… {len(lines) - 14} more lines" if len(lines) > 14 else ""))
        )
    shown.add_row(*cells)
    return shown


def _prompts(path: Path, option: str) -> list[Prompt]:
    """Load a prompt file, the newest prompts of a folder, or a text file as the prompt of segments. Raise `InputError`,
    also for a prompt that breaks a rule: nothing is paid for it."""
    from summarizing_context.evaluation.prompt_inspection import SUMMARIES, check_prompt

    if re.fullmatch(r"v\d+\.md", path.name):
        found = [load(f"{path.parent.name}/{path.stem}", root=path.parent.parent)]
    elif path.is_file():
        shipped, text = latest("segment"), path.read_text(encoding="utf8")
        bare = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).strip()
        found = [replace(shipped, version=shipped.version + 1, text=bare)]
    else:
        there = {name.partition("/")[0] for name in names(path)} if path.is_dir() else set()
        found = [latest(purpose, root=path) for purpose in SUMMARIES if purpose in there]
    if not found:
        raise InputError(f"{option}: {plain(path)} is no prompt, and no folder of prompts such as segment/v5.md")
    for complaint in (words for prompt in found for words in check_prompt(prompt, estimate_text)):
        raise InputError(f"{option}: {plain(path)}: {complaint}")
    return found
