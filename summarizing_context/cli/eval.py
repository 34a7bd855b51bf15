"""`summarizing-context eval` and `tune`: what views of a session still hold, measured offline; a model takes part on
request only.

`eval run` measures your own transcripts by hindsight, a data set by its questions, or replays recorded answers of a
model. `eval record` asks a model for what is not recorded, `eval ask` has models question one log of yours. `tune`
finds which of several prompts makes views hold more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer
from rich.console import RenderableType
from rich.text import Text

from summarizing_context.cli import options
from summarizing_context.cli.options import MEASURE, argument, command, flag, option, path_option, read_path
from summarizing_context.cli.output import InputError, Result, Status, progress, tell
from summarizing_context.cli.tables import dim, dollars, plain, table, told_lines
from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.outcomes import changed_settings, difference, ratios
from summarizing_context.settings.providers import NAMED, PROVIDERS
from summarizing_context.settings.values import Settings
from summarizing_context.stores.private_files import make_private_folder
from summarizing_context.summarizers.prices import load_prices
from summarizing_context.summarizers.prompts import Prompt, latest, load, names
from summarizing_context.transcripts import read_session

if TYPE_CHECKING:
    from summarizing_context.evaluation.cassettes import Cassette, Mode
    from summarizing_context.evaluation.real.recording import Suite
    from summarizing_context.evaluation.report import Cell

commands = typer.Typer()
family = options.family(commands, "eval", MEASURE, "Measure what views still hold, without a model unless asked.")

_SUITE = "A suite of recorded answers, such as `real` of a checkout, or a folder of `eval ask`."
_DATASET = "A data set: locomo, and its file or folder."
_CASSETTE = "File of recorded replies. Default for a suite: evals/cassettes/<suite>.jsonl."
_REDACT = "Function that removes secrets from each message before it is sent, kept or reported."
_MARKS = "Model that marks the answers. Default: the reader's model."

Arms = Annotated[str | None, option("A[,B]", "Views to compare, or arms of a suite to show.")]
ReaderModel = Annotated[str | None, option("M", "Model that answers from views.")]
Redact = Annotated[str | None, option("MODULE:FUNCTION", _REDACT)]


@dataclass(frozen=True, kw_only=True)
class Run(options.LogOptions):
    """Options of `eval run` and `eval record`."""

    suite: Annotated[str | None, argument("[SUITE]", _SUITE, parser=options.read_place)] = None
    cases: Annotated[list[Path] | None, option("PATH", "Your transcripts: files or folders.", parser=read_path)] = None
    dataset: Annotated[tuple[str, str] | None, option("NAME PATH", _DATASET, parser=options.read_place)] = None
    budget: options.CaseBudget = "8k"
    arms: Arms = None
    out: options.ReportFolder = Path("eval-report")
    cassette: Annotated[Path | None, path_option("FILE", _CASSETTE)] = None
    redact: Redact = None


@dataclass(frozen=True, kw_only=True)
class Record(Run, options.ModelOptions):
    """Options of `eval record`."""

    reader: Annotated[str | None, option("NAME", f"Provider that records the answers of a suite: {NAMED}.")] = None
    reader_model: ReaderModel = None
    judge_model: Annotated[str | None, option("M", _MARKS)] = None
    max_calls: options.MaxCalls = None


@command(family)
def run(given: Run, jobs: options.Jobs = None) -> Result:
    """Measure transcripts by hindsight, beside views without summaries at equal tokens; or replay recorded answers.

    Hindsight needs no labels: exact values that were seen before a cut and that later tool calls really used. The
    reports are the same on every run and every machine. What a model says comes from recorded replies.

    Examples:
        eval run --cases logs/ --budget 16k    # your own transcripts, no labels needed
        eval run --cases logs/ --config mine.toml --prompts mine/ --cassette mine.jsonl
        eval run --dataset locomo locomo10.json
        eval run real    # recorded answers of a model, in a checkout
        eval run eval-ask    # what `eval ask` recorded, again without a key

    Exit status:
        0 done · 1 a bound is missed · 2 bad input, or a reply that is not recorded · 4 environment
    """
    return _measure(Record(**vars(given)), "replay", jobs or os.cpu_count() or 1)


@command(family)
def record(given: Record) -> Result:
    """Ask a model for what is not recorded yet, so that `eval run` replays it without a network or a key.

    What is recorded already is not sent again, so a recording that was stopped, by you or by a cap, goes on when it is
    called again. Several recorders may share a file.

    Examples:
        eval record --cases logs/ --model gpt-5.4-mini --cassette c.jsonl --dry-run    # price
        eval record --cases logs/ --model gpt-5.4-mini --cassette c.jsonl --max-calls 2000
        eval record real --reader-model gpt-5.4-mini --judge-model gpt-5.4    # in a checkout

    Keys:
        From the environment: OPENAI_API_KEY, or ANTHROPIC_API_KEY. Read a cassette before you publish it: keys and
        tokens are taken out by their shape, others by --redact; what else a transcript says is in it.
    """
    return _measure(given, "forecast" if given.dry_run else "record", os.cpu_count() or 1)


def _measure(run: Record, mode: Mode, jobs: int) -> Result:
    """Run what is named, by its kind."""
    named = [name for name in ("suite", "cases", "dataset") if getattr(run, name)]
    if len(named) != 1:
        raise InputError("give one of a suite (such as real), --cases LOGS, or --dataset NAME PATH")
    names_reader = any((run.reader, run.reader_model, run.judge_model))
    names_summarizer = any((run.config, run.prompts, run.summarizer, run.model))
    if run.suite is None:
        if names_reader:
            raise InputError("--reader, --reader-model and --judge-model are for suites; `eval ask` asks about a log")
        return _run_logs(run, mode, jobs, is_own=names_summarizer)
    if names_summarizer:
        raise InputError("--config, --prompts, --summarizer and --model are for --cases and --dataset")
    from summarizing_context.evaluation.real.recording import load_suite, recorded_folder

    if recorded_folder(Path(run.suite)) is not None and (mode != "replay" or names_reader):
        raise InputError("a folder of recorded answers is only shown again; `eval ask` records into it")
    return _run_recorded(run, load_suite(run.suite, Path.cwd()), mode, jobs)


# Transcripts and data sets, by hindsight


def _run_logs(run: Record, mode: Mode, jobs: int, *, is_own: bool) -> Result:
    """Measure transcripts or a data set, and write the reports."""
    from summarizing_context.evaluation import report, retention
    from summarizing_context.evaluation.cassettes import Cassette

    settings = replace(run.load() if is_own else Settings(), max_tokens=options.read_tokens(run.budget))
    replayed = None
    if by_model := settings.summarizer in PROVIDERS:
        if run.cassette is None:
            raise InputError("--cassette: name the file of the recorded replies; only suites have one of their own")
        replayed = partial(Cassette, run.cassette, redact=run.redact)
    elif mode != "replay":
        raise InputError("nothing to record: name the model that summarizes, with --model or in --config")
    elif run.redact is not None:
        raise InputError("--redact: without a model nothing is sent or recorded; name one, or leave out --redact")
    name = "your sessions"
    skipped: list[str] = []
    if run.dataset:
        name, path = run.dataset
        found = retention.dataset_numbers(name, Path(path))
        logs = [retention.Log(log, dataset=name, number=at, name=f"{log.stem}-{at}") for log, at in found]
    else:
        logs, skipped = retention.logs_of(run.cases or (), run.format)
    started, outcomes = time.perf_counter(), []
    with (
        _recording(run, mode, run.cassette) if by_model and mode != "replay" else nullcontext() as cassette,
        progress("sessions", len(logs), f"Measuring {len(logs)} sessions.") as update,
    ):
        tape = replayed if cassette is None else cassette
        for outcome in retention.run_logs(logs, settings, jobs=jobs, cassette=tape):
            outcomes.append(outcome)
            update(f"{sum(len(one.probes) for one in outcomes):,} values")
    if cassette is not None and mode == "forecast":
        return _forecast(_spent(cassette, [settings], settings.prices), settings.prices)
    told = {key: str(value) if isinstance(value, Path) else value for key, value in changed_settings(settings).items()}
    page, document = report.write_run(name, outcomes, told, run.out)
    title = f"Values needed later that views hold: {plain(name)}"
    shown = [_table(title, ("view", "held", "ours ahead"), report.run_rows(outcomes))]
    if not document["probes"]:
        shown.append("Nothing was measured: no view leaves out what is needed later; try a smaller --budget.")
    seconds = time.perf_counter() - started
    shown.append(f"{document['probes']:,} values in {seconds:.0f} s. The whole report: {page}")
    if cassette is not None:
        shown += map(_recorded, _spent(cassette, [settings], settings.prices))
    return Result(document, shown, remarks=told_lines(skipped))


@command(family)
def compare(
    first: Annotated[Path, argument("FIRST", "Folder or report.json of a run.", parser=read_path)],
    second: Annotated[Path, argument("SECOND", "Another run of the same logs.", parser=read_path)],
) -> Result:
    """Compare two runs on the same logs, session by session. Exit status 1 if the second is surely worse."""
    import msgspec

    from summarizing_context.evaluation.retention import OURS, SessionOutcome

    values = []
    for path in (second, first):
        file = path / "report.json" if path.is_dir() else path
        try:
            document = msgspec.json.decode(file.read_bytes())
            sessions = msgspec.convert(document["sessions"], list[SessionOutcome])
        except (OSError, msgspec.MsgspecError, KeyError, TypeError) as error:
            raise InputError(f"{file}: is not the report of a run on logs ({type(error).__name__})") from error
        values.append(ratios((one.name, one.share(OURS)) for one in sessions))
    change = difference(*values)
    if change is None:
        raise InputError("the runs share no session in which something was needed later")
    verdict = "better" if change.low > 0 else "worse" if change.high < 0 else "not surely different"
    told = f"The second run is {verdict}: {change.points}, {change.sessions} sessions."
    status = Status.LAW_BROKEN if verdict == "worse" else Status.OK
    return Result({"change": change._asdict(), "verdict": verdict}, [told], status)


# Recorded answers


def _run_recorded(run: Record, suite: Suite, mode: Mode, jobs: int) -> Result:
    """Replay the recording of a suite, once what is missing was recorded if that is asked for."""
    from summarizing_context.evaluation import report
    from summarizing_context.evaluation.real.arms import ARMS
    from summarizing_context.evaluation.real.recorder import record_answers
    from summarizing_context.evaluation.real.recording import Recording, check_bounds, replay

    recording = Recording.open(Path(suite.recording))
    read = {arm for _, arm in recording.answers}
    takes_all = suite.bounds or not read or mode != "replay"
    arms = _chosen_arms(run.arms, ARMS) or tuple(arm for arm in ARMS if takes_all or arm in read)
    if mode != "replay":
        models, file = _suite_models(run), run.cassette or Path(suite.cassette)
        with _recording(run, mode, file) as cassette:
            anyio.run(record_answers, recording, cassette, models, arms)
        spent = _spent(cassette, models, None)
        if mode == "forecast":
            return _forecast(spent, None)
        for row in spent:
            tell(_recorded(row))
    announced = f"Rebuilding the views of {len(recording.cases)} cases for {len(arms)} arms."
    with progress("cases", len(recording.cases), announced) as update:
        outcome = replay(recording, arms, jobs=jobs, watch=lambda name: update(plain(name, 40)))
    gates = check_bounds(outcome.arms, [bound for bound in suite.bounds if bound.arm in arms])
    page, document = report.write_reports(outcome, suite.claim, gates, run.out)

    columns = ("arm", "right", "ahead", "wrong", "never said")
    shown = [_table("Right answers and half of partly right ones", columns, report.answer_rows(outcome))]
    if gates:
        rows = [(one.name, Text(one.result, "bold red" if one.failed else "green"), dim(one.words)) for one in gates]
        shown.append(table("Bounds", "bound", "result", "figures", rows=rows, fold=True))

    said, others = report.views_read(outcome)
    shown.append(said)
    if others:
        shown.append(plain(f"Others: {', '.join(others[:12])}{', …' if len(others) > 12 else ''}."))
    if outcome.missing:
        shown.append(f"{outcome.missing:,} requests have no recorded reply; `eval record` sends them to a model.")
    shown.append(f"All answers side by side: {page}")
    status = Status.LAW_BROKEN if any(gate.failed for gate in gates) else Status.OK
    return Result(document, shown, status)


def _suite_models(run: Record) -> list[Settings]:
    """Return who summarizes, asks, reads and judges for a suite. Raise `InputError`."""
    provider = _known(run.reader or next(iter(PROVIDERS)), "--reader")
    if run.reader_model is None:
        raise InputError("--reader-model: name the reader's model, for example --reader-model gpt-5.4-mini")
    own = Settings.from_env()
    if run.base_url is None and own.base_url is not None and own.summarizer in PROVIDERS and own.summarizer != provider:
        raise InputError(
            f"SUMMARIZING_CONTEXT_BASE_URL names a server of {own.summarizer}, and {provider} is asked; "
            "name its server with --base-url"
        )
    place = run.base_url or own.base_url
    key = None if place is None else own.api_key  # a key is its server's
    reader = Settings(summarizer=provider, model=run.reader_model, base_url=place, api_key=key)
    return [reader, reader, reader, replace(reader, model=run.judge_model or run.reader_model)]


def _known(provider: str, option: str) -> str:
    if provider not in PROVIDERS:
        raise InputError(f"{option}: {plain(provider, 40)!r} is not a provider; there are {' and '.join(PROVIDERS)}")
    return provider


def _chosen_arms(given: str | None, known: Iterable[str]) -> tuple[str, ...]:
    """Return the arms that `--arms` names. Raise `InputError`."""
    chosen = tuple(name.strip() for name in (given or "").split(",") if name.strip())
    if strange := [name for name in chosen if name not in known]:
        raise InputError(f"--arms: there is no arm {plain(strange[0], 40)!r}; there are {', '.join(known)}")
    return chosen


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], marked: str = "") -> RenderableType:
    """Return the first columns of a table of a report, small words beside the others."""
    told = []
    for row in rows:
        first, *others = (plain(" ".join(filter(None, (cell,) if isinstance(cell, str) else cell)), 60) for cell in row)
        told.append((Text(first, "bold green" if row[0] == marked else ""), *others[: len(columns) - 1]))
    return table(title, columns[0], *(f"#{name}" for name in columns[1:]), rows=told)


# Cassettes, and what they cost


@contextmanager
def _recording(run: Record, mode: Mode, file: Path | None, secrets: Iterable[str | None] = ()) -> Iterator[Cassette]:
    """Open the cassette of a run."""
    from summarizing_context.evaluation.cassettes import Cassette

    assert file is not None  # it was asked for
    with Cassette(file, mode, max_calls=run.max_calls, secrets=secrets, redact=run.redact) as cassette:
        if mode == "record":
            where = f"Recording into {plain(file)}."
            tell(f"{where} --dry-run tells what it takes; after a stop the same command goes on.")
        yield cassette


def _spent(cassette: Cassette, models: Iterable[Settings], prices: str | Path | None) -> list[dict[str, Any]]:
    """Return what a cassette was asked for: a row for each model, with the servers that were asked and its price."""
    from summarizing_context.summarizers.providers import make_model

    rows: dict[str, dict[str, Any]] = {}
    for settings in models:
        name, address = f"{settings.summarizer}/{settings.model}", make_model(settings, read_only=True).address
        if (known := rows.get(name)) is not None:
            if address not in known["address"].split(" and "):
                known["address"] += f" and {address}"
            continue
        spent, price = cassette.spent[name], load_prices(prices).price_of(settings.model)
        tokens = spent.input_tokens, spent.output_tokens, spent.cached_tokens
        rows[name] = {
            "model": settings.model,
            "address": address,
            "calls": spent.calls,
            "by_kind": dict(sorted(spent.by_kind.items())),
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
            "recorded": spent.replayed,
            "estimated_cost": None if price is None else round(price.cost(*tokens), 6),
        }
    return list(rows.values())


def _recorded(row: dict[str, Any]) -> str:
    tokens = f"{row['input_tokens']:,} input and {row['output_tokens']:,} output tokens"
    words = f"Recorded with {row['model']} at {row['address']}: {row['calls']:,} calls, {tokens}"
    return plain(f"{words}, {dollars(row['estimated_cost'])}.")


def _forecast(rows: Sequence[dict[str, Any]], prices: str | Path | None, proposals: int = 0) -> Result:
    """Show calls, tokens and price of what is not recorded yet, by model. Of one model, `proposals` are prompts that it
    will write, each of which is tried as well."""
    costs = [row["estimated_cost"] for row in rows]
    total = None if None in costs else round(sum(costs), 6)
    document = {**(rows[0] if len(rows) == 1 else {"models": rows}), "estimated_cost": total}
    figures = ("calls", "input_tokens", "output_tokens", "recorded")
    cells = [(plain(row["model"], 40), *map(row.get, figures), dollars(row["estimated_cost"])) for row in rows]
    if len(rows) > 1:
        cells.append(("all", *(sum(row[name] for row in rows) for name in figures), dollars(total)))
    columns = ("model", "#calls", "#input", "#output", "#recorded", "#price")
    shown: list[RenderableType] = [table("Recording: nothing is sent", *columns, rows=cells)]
    for row in rows:
        price = load_prices(prices).price_of(row["model"])
        words = "no price is known for this model"
        if price is not None:
            words = f"${price.input:g} in, ${price.output:g} out for a million tokens, as of {price.as_of}"
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in row["by_kind"].items()) or "none"
        shown.append(dim(f"{row['model']} would be asked at {row['address']}: {kinds}; {words}."))
        if proposals:  # one reads and writes about 2,000 tokens
            calls = row["calls"] + proposals * (row["calls"] + 1)
            tokens = [one + proposals * (one + 2_000) for one in (row["input_tokens"], row["output_tokens"])]
            most = None if price is None else round(price.cost(*tokens), 6)
            document |= {"proposals": proposals, "estimated_cost_at_most": most}
            shown.append(
                f"{proposals:,} proposals, each tried on all sessions: at most {calls:,} calls, {dollars(most)}."
            )
    shown.append(dim("Tokens by the built-in estimate, replies as long as their cap; hidden thinking is not counted."))
    return Result(document, shown)


# Models question one log

_WHOSE = "Provider of the"
_QUESTION = "Model that writes questions. Default: the summarizer's model."
_MARKER = "Model that marks the answers. It must differ from the writer's."
_MARKER_URL = "Base URL for the judge, and a reader of its provider."


@command(family)
def ask(
    log: Annotated[Path, argument("LOG", "A transcript of any known format, with one session.", parser=read_path)],
    *,
    judge_model: Annotated[str, option("M", _MARKER)],
    reader_model: ReaderModel = None,
    question_model: Annotated[str | None, option("M", _QUESTION)] = None,
    budget: options.CaseBudget = "8k",
    share: Annotated[float, option("X", "Share of the log before the view.", min=0.01, max=1.0)] = 1.0,
    questions: Annotated[int, option("N", "Number of questions to write.", min=1, max=60)] = 20,
    question_provider: Annotated[str | None, option("NAME", f"{_WHOSE} question model. Default: the same.")] = None,
    reader_provider: Annotated[str | None, option("NAME", f"{_WHOSE} reader model. Default: the judge's.")] = None,
    judge_provider: Annotated[str | None, option("NAME", f"{_WHOSE} judge model. Default: the same.")] = None,
    judge_base_url: Annotated[str | None, option("URL", _MARKER_URL)] = None,
    arms: Arms = "ours,extractive,compact,tail",
    redact: Redact = None,
    max_calls: options.MaxCalls = None,
    out: options.ReportFolder = Path("eval-ask"),
    own: options.ModelOptions,
) -> Result:
    """Ask about a log of yours: one model writes questions, another answers them from views, and one marks the answers.

    The writer reads the log before the cut and gives each question a gold answer with its messages. Views of all arms
    get the same number of tokens. The judge sees the answers under shuffled letters. All replies are kept in a folder:
    a run that was stopped goes on there, and `eval run FOLDER` shows the result again without a model.

    Examples:
        eval ask run.jsonl --model gpt-5.4-mini --judge-model gpt-5.4 --dry-run    # price
        eval ask run.jsonl --model gpt-5.4-mini --judge-model gpt-5.4 --budget 16k --questions 30
        eval ask run.jsonl --config mine.toml --judge-model claude-haiku-4-5 --judge-provider anthropic

    Keys:
        From the environment: OPENAI_API_KEY, or ANTHROPIC_API_KEY. The log is sent to all models, in part or as a
        whole; keys and tokens are taken out by their shape, others by --redact.
    """
    from summarizing_context.evaluation.real.arms import ARMS
    from summarizing_context.evaluation.real.recorder import record_answers
    from summarizing_context.evaluation.real.recording import recorded_folder, with_own_case

    chosen = _chosen_arms(arms, ARMS)
    found = read_session(log, format=own.format)
    if not found.messages:
        raise TranscriptError(f"{log}:1: holds no message; name another transcript")
    for line in told_lines(found.unreadable):
        tell(line)
    settings, tokens = own.load(), options.read_tokens(budget)
    named = ((question_model, question_provider), (reader_model, reader_provider), (judge_model, judge_provider))
    models = _ask_models(settings, *named, judge_base_url)
    given = Record(redact=redact, max_calls=max_calls, arms=arms, out=out)
    if not own.dry_run:
        make_private_folder(out)
    mode: Mode = "forecast" if own.dry_run else "record"
    with (
        TemporaryDirectory() if own.dry_run else nullcontext(str(out)) as to,
        _recording(given, mode, out / "cassette.jsonl", [one.api_key for one in models]) as cassette,
    ):
        messages = [cassette.scrub(message) for message in found.messages]
        recording = with_own_case(out, log, messages, cut=share, budget=tokens, own=settings, to=Path(to))
        tell(f"Asking about {recording.cases[0].cut:,} messages of {plain(log.name, 60)}.")
        anyio.run(record_answers, recording, cassette, models, chosen, questions)
    rows = _spent(cassette, models, settings.prices)
    if own.dry_run:
        return _forecast(rows, settings.prices)
    for row in rows:
        tell(_recorded(row))
    loaded = recorded_folder(out)
    assert loaded is not None  # its case was just asked
    return _run_recorded(given, loaded, "replay", os.cpu_count() or 1)


_Named = tuple[str | None, str | None]  # a model, and its provider


def _ask_models(
    own: Settings, question: _Named, reader: _Named, judge: _Named, judge_base_url: str | None
) -> list[Settings]:
    """Return who summarizes, asks, reads and judges. Raise `InputError`."""
    if own.summarizer not in PROVIDERS or own.model is None:
        raise InputError(f"--model: name the model that summarizes, or in --config a summarizer {NAMED} and its model")
    # One reply holds all questions, so a call may take long.
    summarizes = Settings(
        summarizer=own.summarizer, model=own.model, base_url=own.base_url, api_key=own.api_key, call_timeout=300.0
    )

    def model_of(named: _Named, option: str, usual: Settings, *known: Settings) -> Settings:
        provider = _known(named[1] or usual.summarizer, option)
        if named[0] is None and provider != usual.summarizer:
            raise InputError(f"{option}: name its model too, with {option.replace('provider', 'model')}")
        place = next((one for one in known if one.summarizer == provider), None)
        if place is None and (own.base_url or judge_base_url):
            raise InputError(
                f"{option}: a base URL is named, and it is not {provider}'s, which would get the log too; name the "
                "server of its models with --judge-base-url, or take a provider whose server is named"
            )
        if place is None:
            place = Settings(summarizer=provider, model=usual.model, call_timeout=300.0)
        return replace(place, model=named[0] or usual.model)

    # A host that is named for a provider gets all of its calls, and no other provider is asked beside it unnamed.
    named = summarizes
    if judge_base_url is not None:
        named = replace(summarizes, summarizer=judge[1] or own.summarizer, base_url=judge_base_url)
        named = named if named == summarizes else replace(named, api_key=None)  # a key is its server's
    marks = model_of(judge, "--judge-provider", summarizes, named)
    answers = model_of(reader, "--reader-provider", marks, marks, summarizes)
    writer = model_of(question, "--question-provider", summarizes, summarizes, marks)
    if (writer.summarizer, writer.model) == (marks.summarizer, marks.model):
        raise InputError("--judge-model: name another model than the one that writes questions, or it marks its own")
    return [summarizes, writer, answers, marks]


# Which prompts are better


@command(commands, MEASURE)
def tune(
    logs: options.TranscriptPaths,
    *,
    cassette: Annotated[Path, path_option("FILE", "File of the model's recorded replies.")],
    tries: Annotated[
        list[Path] | None, path_option("PATH", "A prompt file or a folder of prompts. Repeatable.", "--try")
    ] = None,
    gepa: Annotated[bool, flag("--gepa", "Let the model write better prompts (the extra gepa).")] = False,
    proposals: Annotated[int, option("N", "Prompts that gepa may propose.", min=1)] = 20,
    budget: options.CaseBudget = "8k",
    record: Annotated[bool, flag("--record", "Send requests whose replies are not recorded yet.")] = False,
    max_calls: options.MaxCalls = None,
    seed: Annotated[int, option("N", "Seed for the split of the sessions.")] = 0,
    out: options.ReportFolder = Path("tune-report"),
    write: Annotated[Path | None, path_option("FOLDER", "Write the winner here, as a new file.")] = None,
    own: options.ModelOptions,
) -> Result:
    """Find the prompt that keeps more of what was needed later, on your own transcripts.

    Half of the sessions choose, the other half judges the choice. Replies are kept in the cassette: a run that stopped
    goes on, and without --record it is repeated without a key.

    Examples:
        tune logs/ --model gpt-5.4-mini --cassette t.jsonl --try my/segment/v5.md --dry-run    # price
        tune logs/ --model gpt-5.4-mini --cassette t.jsonl --try my/segment/v5.md --record
        tune logs/ --model gpt-5.4-mini --cassette t.jsonl --gepa --record --write my/
    """
    from summarizing_context.evaluation import report, tune
    from summarizing_context.evaluation.retention import logs_of

    settings = replace(own.load(), max_tokens=options.read_tokens(budget))
    if settings.summarizer not in PROVIDERS:
        raise InputError("name the model that the prompts are for, with --model or in --config")
    if bool(tries) == gepa:
        raise InputError("say what to try: prompts with --try, or --gepa to have them written")
    own_prompts = _prompts(Path(settings.prompts), "--prompts") if settings.prompts else []
    start = tune.Variant("start", tuple(own_prompts))
    variants = []
    for path in tries or ():  # other prompts are those of the start
        tried = {prompt.name: prompt for prompt in (*start.prompts, *_prompts(path, "--try"))}
        name = f"{path.parent.name}/{path.stem}" if path.suffix == ".md" else path.name
        variants.append(tune.Variant(name, tuple(tried.values())))
    found, skipped = logs_of(logs, own.format)
    mode: Mode = "forecast" if own.dry_run else "record" if record else "replay"
    started = time.perf_counter()
    with (
        TemporaryDirectory() as folder,
        _recording(Record(max_calls=max_calls), mode, cassette) as tape,
        progress("variants", None if gepa else len(variants) + 1) as update,
    ):
        trial = tune.Trial(found, settings, tape, Path(folder), seed, lambda variant: update(plain(variant.name, 40)))
        writer = tune.Gepa(proposals, seed) if gepa and not own.dry_run else None
        outcome = tune.tune(trial, start, variants, writer)
    if mode == "forecast":
        return _forecast(_spent(tape, [settings], settings.prices), settings.prices, proposals if gepa else 0)
    page, document = report.write_tuning(outcome, out)
    winner = next(one for one in trial.variants.values() if one.name == outcome.winner)
    written = [str(path) for path in tune.write_winner(winner, write)] if write is not None else []
    columns = ("prompts", "chosen on", "held out", "tokens")
    shown: list[RenderableType] = [
        _table("Values needed later that views hold", columns, report.tried_rows(outcome), marked=outcome.winner),
        plain(outcome.verdict),
        dim("Tokens: what the model reads and writes for 1,000 tokens of history."),
        *(f"Written: {path}" for path in written),
        f"{len(outcome.tried)} variants in {time.perf_counter() - started:.0f} s. Summaries side by side: {page}",
    ]
    return Result({**document, "written": written}, shown, remarks=told_lines(skipped))


def _prompts(path: Path, option: str) -> list[Prompt]:
    """Load a prompt file, or the newest prompts of a folder. Raise `InputError`."""
    from summarizing_context.evaluation.prompt_inspection import SUMMARIES

    if path.suffix == ".md":
        return [load(f"{path.parent.name}/{path.stem}", root=path.parent.parent)]
    there = {name.partition("/")[0] for name in names(path)} if path.is_dir() else set()
    if not there & {*SUMMARIES}:
        raise InputError(f"{option}: {plain(path)} is no prompt, and no folder of prompts such as segment/v5.md")
    return [latest(purpose, root=path) for purpose in SUMMARIES if purpose in there]
