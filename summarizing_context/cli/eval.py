"""`summarizing-context eval` and `tune`: what views of a session still hold, measured offline; a model takes part on
request only."""

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

from summarizing_context.cli import options, output
from summarizing_context.cli.options import MEASURE, argument, command, flag, option, path_option, read_path
from summarizing_context.cli.output import InputError, Result, Status, dim, dollars, plain, table, tell, told_lines
from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.outcomes import changed_settings, difference, ratios
from summarizing_context.settings.values import NAMED, PROVIDERS, Settings
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
_DATASET = "A data set: locomo or beam, and its file or folder."
_CASSETTE = "File of recorded replies. Default for a suite: evals/cassettes/<suite>.jsonl."
_REDACT = "Function that removes secrets from each message before it is sent, kept or reported."
_MARKS = "Model that marks the answers. Default: the reader's model."

Arms = Annotated[str | None, option("A[,B]", "Views to compare, or arms of a suite to show.")]
Redact = Annotated[str | None, option("MODULE:FUNCTION", _REDACT)]


@dataclass(frozen=True, kw_only=True)
class Run(options.OwnSettings):
    """Options of `eval run` and `eval record`."""

    suite: Annotated[str | None, argument("[SUITE]", _SUITE, parser=options.read_place)] = None
    cases: Annotated[list[Path] | None, option("PATH", "Your transcripts: files or folders.", parser=read_path)] = None
    dataset: Annotated[tuple[str, str] | None, option("NAME PATH", _DATASET, parser=options.read_place)] = None
    budget: options.CaseBudget = "8k"
    arms: Arms = None
    format: options.TranscriptFormat = "auto"
    out: options.ReportFolder = Path("eval-report")
    cassette: Annotated[Path | None, path_option("FILE", _CASSETTE)] = None
    redact: Redact = None


@dataclass(frozen=True, kw_only=True)
class Record(Run, options.ModelOptions):
    """Options of `eval record`."""

    reader: Annotated[str | None, option("NAME", f"Provider that records the answers of a suite: {NAMED}.")] = None
    reader_model: Annotated[str | None, option("M", "Model that answers from views.")] = None
    judge_model: Annotated[str | None, option("M", _MARKS)] = None
    max_calls: options.MaxCalls = None


@command(family)
def run(given: Run, jobs: options.Jobs = None) -> Result:
    """Measure transcripts by hindsight, beside views without summaries at equal tokens; or replay recorded answers.

    Hindsight needs no labels: exact values that were seen before a cut and that later tool calls really used. The
    reports are the same on every run and every machine. What a model says comes from recorded replies.

    Examples:
        eval run --cases logs/ --budget 16k    # your own transcripts, no labels needed
        eval run --dataset locomo locomo10.json
        eval run --dataset beam chats/100K    # evidence of its probing questions, by ability
        eval run real    # recorded answers of a model, in a checkout
        eval run eval-ask    # what `eval ask` recorded, again without a key
    """
    return _measure(Record(**vars(given)), "replay", jobs or os.cpu_count() or 1)


@command(family)
def record(given: Record) -> Result:
    """Ask a model for what is not recorded yet, so that `eval run` replays it without a network or a key.

    What is recorded already is not sent again, so a recording that was stopped, by you or by a cap, goes on when it is
    called again. Several recorders may share a file.

    Keys are read from the environment: OPENAI_API_KEY, or ANTHROPIC_API_KEY. Read a cassette before you publish it:
    keys and tokens are taken out by their shape, others by --redact; what else a transcript says is in it.

    Examples:
        eval record --cases logs/ --model gpt-5.4-mini --cassette c.jsonl --dry-run    # price
        eval record real --reader-model gpt-5.4-mini --judge-model gpt-5.4    # in a checkout
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
    recorded, replayed = None, None
    if settings.summarizer in PROVIDERS:
        if run.cassette is None:
            raise InputError("--cassette: name the file of the recorded replies; only suites have one of their own")
        recorded = _recording(run, mode, run.cassette) if mode != "replay" else None
        replayed = partial(Cassette, run.cassette, redact=run.redact)
    elif mode != "replay":
        raise InputError("nothing to record: name the model that summarizes, with --model or in --config")
    elif run.redact is not None:
        raise InputError("--redact: without a model nothing is sent or recorded; name one, or leave out --redact")
    name = "your sessions"
    skipped: list[str] = []
    if run.dataset:
        name, path = run.dataset
        logs = retention.dataset_logs(name, Path(path))
    else:
        logs, skipped = retention.logs_of(run.cases or (), run.format)
    started, outcomes = time.perf_counter(), []
    announced = f"Measuring {len(logs)} sessions."
    with recorded or nullcontext() as cassette, output.progress("sessions", len(logs), announced) as update:
        for outcome in retention.run_logs(
            logs, settings, jobs=jobs, cassette=replayed if cassette is None else cassette
        ):
            outcomes.append(outcome)
            update(f"{sum(len(one.probes) for one in outcomes):,} values")
    if cassette is not None and (forecast := _forecast(cassette, [settings])):
        return forecast
    told = {key: str(value) if isinstance(value, Path) else value for key, value in changed_settings(settings).items()}
    page, document = report.write_run(name, outcomes, told, run.out)
    title = f"Values needed later that views hold: {plain(name)}"
    shown = [_table(title, ("view", "held", "ours ahead"), report.run_rows(outcomes))]
    if categories := report.category_rows(outcomes):
        shown.append(_table("By category", ("category", "questions", *retention.ARMS), categories))
    if not document["probes"]:
        shown.append("Nothing was measured: no view leaves out what is needed later; try a smaller --budget.")
    seconds = time.perf_counter() - started
    shown.append(f"{document['probes']:,} values in {seconds:.0f} s. The whole report: {page}")
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
        # Who summarizes, asks, reads and judges.
        provider = _known(run.reader or next(iter(PROVIDERS)), "--reader")
        if run.reader_model is None:
            raise InputError("--reader-model: name the reader's model, for example --reader-model gpt-5.4-mini")
        own = Settings.from_env()
        if run.base_url is None and own.base_url is not None and own.summarizer not in ("extractive", provider):
            raise InputError(f"SUMMARIZING_CONTEXT_BASE_URL is not {provider}'s; name its server with --base-url")
        url = run.base_url or own.base_url
        key = None if url is None else own.api_key  # a key is its server's
        reader = Settings(summarizer=provider, model=run.reader_model, base_url=url, api_key=key)
        models = [reader, reader, reader, replace(reader, model=run.judge_model or run.reader_model)]
        with _recording(run, mode, run.cassette or Path(suite.cassette)) as cassette:
            anyio.run(record_answers, recording, cassette, models, arms)
        if forecast := _forecast(cassette, models):
            return forecast
    announced = f"Rebuilding the views of {len(recording.cases)} cases for {len(arms)} arms."
    with output.progress("cases", len(recording.cases), announced) as update:
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
def _recording(run: Record, mode: Mode, file: Path, secrets: Iterable[str | None] = ()) -> Iterator[Cassette]:
    """Open the cassette of a run."""
    from summarizing_context.evaluation.cassettes import Cassette

    with Cassette(file, mode, max_calls=run.max_calls, secrets=secrets, redact=run.redact) as cassette:
        if mode == "record":
            where = f"Recording into {plain(file)}."
            tell(f"{where} --dry-run tells what it takes; after a stop the same command goes on.")
        yield cassette


def _forecast(cassette: Cassette, models: Sequence[Settings], proposals: int = 0) -> Result | None:
    """Return calls, tokens and price of what is not recorded yet, by model; or tell what was recorded.

    Of one model, `proposals` are prompts that it will write, each of which is tried as well.
    """
    from summarizing_context.summarizers.providers import make_model

    is_dry, prices = cassette.mode == "forecast", load_prices(models[0].prices)
    addresses: dict[str, list[str]] = {}  # servers that are asked
    for settings in models:
        address = make_model(settings, read_only=True).address
        addresses.setdefault(f"{settings.summarizer}/{settings.model}", []).append(address)
    rows: list[dict[str, Any]] = []
    words: list[str] = []
    for name, asked in addresses.items():
        model, address, spent = name.partition("/")[2], " and ".join(dict.fromkeys(asked)), cassette.spent[name]
        price, tokens = prices.price_of(model), (spent.input_tokens, spent.output_tokens)
        cost = None if price is None else round(price.cost(*tokens, spent.cached_tokens), 6)
        row: dict[str, Any] = {
            "model": model,
            "address": address,
            "calls": spent.calls,
            "by_kind": dict(sorted(spent.by_kind.items())),
            "input_tokens": tokens[0],
            "output_tokens": tokens[1],
            "recorded": spent.replayed,
            "estimated_cost": cost,
        }
        rows.append(row)
        if not is_dry:
            sums = f"{tokens[0]:,} input and {tokens[1]:,} output tokens, {dollars(cost)}."
            tell(plain(f"Recorded with {model} at {address}: {spent.calls:,} calls, {sums}"))
            continue
        costs = "no price is known for this model"
        if price is not None:
            costs = f"${price.input:g} in, ${price.output:g} out for a million tokens, as of {price.as_of}"
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in row["by_kind"].items()) or "none"
        words.append(f"{model} would be asked at {address}: {kinds}; {costs}.")
        if proposals:  # one reads and writes about 2,000 tokens
            calls = spent.calls + proposals * (spent.calls + 1)
            most = None if price is None else round(price.cost(*(one + proposals * (one + 2_000) for one in tokens)), 6)
            row |= {"proposals": proposals, "estimated_cost_at_most": most}
            tried = f"{proposals:,} proposals, each tried on all sessions"
            words.append(f"{tried}: at most {calls:,} calls, {dollars(most)}.")
    if not is_dry:
        return None
    each = [row["estimated_cost"] for row in rows]
    total = None if None in each else round(sum(each), 6)
    figures = ("calls", "input_tokens", "output_tokens", "recorded")
    cells = [(plain(row["model"], 40), *map(row.get, figures), dollars(row["estimated_cost"])) for row in rows]
    if len(rows) > 1:
        cells.append(("all", *(sum(row[name] for row in rows) for name in figures), dollars(total)))
    columns = ("model", "#calls", "#input", "#output", "#recorded", "#price")
    words.append("Tokens by the built-in estimate, replies as long as their cap; hidden thinking is not counted.")
    shown: list[RenderableType] = [table("Recording: nothing is sent", *columns, rows=cells), *map(dim, words)]
    return Result({**(rows[0] if len(rows) == 1 else {"models": rows}), "estimated_cost": total}, shown)


# Models question one log

_QUESTION = "Model that writes questions. Default: the summarizer's model."
_READER = "Model that answers from views, of the judge's provider. Default: the judge's model."
_MARKER = "Model that marks the answers. It must differ from the writer's."


@command(family)
def ask(
    log: Annotated[Path, argument("LOG", "A transcript of any known format, with one session.", parser=read_path)],
    *,
    judge_model: Annotated[str, option("M", _MARKER)],
    reader_model: Annotated[str | None, option("M", _READER)] = None,
    question_model: Annotated[str | None, option("M", _QUESTION)] = None,
    budget: options.CaseBudget = "8k",
    share: Annotated[float, option("X", "Share of the log before the view.", min=0.01, max=1.0)] = 1.0,
    questions: Annotated[int, option("N", "Number of questions to write.", min=1, max=60)] = 20,
    judge_provider: Annotated[str | None, option("NAME", "Provider of the judge. Default: the summarizer's.")] = None,
    judge_base_url: Annotated[str | None, option("URL", "Base URL for the judge and the reader.")] = None,
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

    Keys are read from the environment: OPENAI_API_KEY, or ANTHROPIC_API_KEY. The log is sent to all models, in part or
    as a whole; keys and tokens are taken out by their shape, others by --redact.

    Examples:
        eval ask run.jsonl --model gpt-5.4-mini --judge-model gpt-5.4 --dry-run    # price
        eval ask run.jsonl --config mine.toml --judge-model claude-haiku-4-5 --judge-provider anthropic
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

    # Who summarizes, asks, reads and judges. One reply holds all questions, so a call may take long.
    if settings.summarizer not in PROVIDERS or settings.model is None:
        raise InputError(f"--model: name the model that summarizes, or in --config a summarizer {NAMED} and its model")
    provider, url = _known(judge_provider or settings.summarizer, "--judge-provider"), judge_base_url
    copied = {name: getattr(settings, name) for name in ("summarizer", "model", "base_url", "api_key", "prices")}
    summarizes = Settings(**copied, call_timeout=300.0)
    writer = replace(summarizes, model=question_model or settings.model)
    if url is None and provider == settings.summarizer:
        url = settings.base_url
    elif url is None and settings.base_url is not None:
        raise InputError(
            f"--judge-provider: a base URL is named, and it is not {provider}'s, which would get the log too; name the "
            "server of its models with --judge-base-url"
        )
    is_same = (provider, url) == (settings.summarizer, settings.base_url)
    key = settings.api_key if is_same else None  # a key is its server's
    judge = replace(summarizes, summarizer=provider, model=judge_model, base_url=url, api_key=key)
    reader = replace(judge, model=reader_model or judge_model)
    if (writer.summarizer, writer.model) == (judge.summarizer, judge.model):
        raise InputError("--judge-model: name another model than the one that writes questions, or it marks its own")
    models = [summarizes, writer, reader, judge]

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
    if forecast := _forecast(cassette, models):
        return forecast
    loaded = recorded_folder(out)
    assert loaded is not None  # its case was just asked
    return _run_recorded(given, loaded, "replay", os.cpu_count() or 1)


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
        output.progress("variants", None if gepa else len(variants) + 1) as update,
    ):
        trial = tune.Trial(found, settings, tape, Path(folder), seed, lambda variant: update(plain(variant.name, 40)))
        writer = tune.Gepa(proposals, seed) if gepa and not own.dry_run else None
        outcome = tune.tune(trial, start, variants, writer)
    if mode != "replay" and (forecast := _forecast(tape, [settings], proposals if gepa else 0)):
        return forecast
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
