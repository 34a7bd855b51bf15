"""`summarizing-context eval`: what views of a session still hold, measured offline; a model takes part on request."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import msgspec
import typer
from rich.console import RenderableType
from rich.text import Text

from summarizing_context.cli import options, output
from summarizing_context.cli.options import MEASURE, argument, command, option, path_option, read_path
from summarizing_context.cli.output import InputError, Result, Status, dim, dollars, plain, table, tell, told_lines
from summarizing_context.errors import TranscriptError
from summarizing_context.settings.values import NAMED, PROVIDERS, Settings
from summarizing_context.stores.private_files import make_private_folder, write_private
from summarizing_context.transcripts import read_session

if TYPE_CHECKING:
    from summarizing_context.evaluation.cassettes import Cassette
    from summarizing_context.evaluation.outcomes import Interval
    from summarizing_context.evaluation.report import Report
    from summarizing_context.evaluation.run import Price, Run

commands = typer.Typer()
family = options.family(commands, "eval", MEASURE, "Measure what views still hold, without a model unless asked.")

_SOURCES = (
    "Transcripts, files or folders; or one of: real (in a checkout), a folder of `eval ask`, beam:PATH, locomo:PATH."
)
_CASSETTE = "File of recorded replies. Default: replies.jsonl in the folder of the report."
_REDACT = "Function that removes secrets from each message before it is sent, kept or reported."
_FAIL = "Exit 1 unless the first arm reaches these, such as right=0.9,held=0.6,laws=0,tokens=16000."
_ARMS = "Arms to compare: ours, extractive, tail, masking, cliff; of recorded answers all that were read."

Budget = Annotated[str, option("N", "Tokens of a view, such as 8000 or 8k. Recorded answers have their own.")]
CassettePath = Annotated[Path | None, path_option("FILE", _CASSETTE, "--cassette")]
Redact = Annotated[str | None, option("MODULE:FUNCTION", _REDACT)]
Junit = Annotated[Path | None, path_option("FILE", "Write the results as JUnit XML too.")]


@dataclass(frozen=True, kw_only=True)
class RunOptions(options.ModelOptions):
    """Options of `eval run`."""

    budget: Budget = "16k"
    arms: Annotated[str | None, option("A[,B]", _ARMS)] = None
    out: options.ReportFolder = Path("eval-report")
    cassette: CassettePath = None
    redact: Redact = None
    max_calls: options.MaxCalls = None
    yes: options.Yes = False
    jobs: options.Jobs = None
    fail_under: Annotated[str | None, option("NAME=X[,..]", _FAIL)] = None
    junit: Junit = None


@command(family)
def run(
    sources: Annotated[list[str], argument("SOURCE", _SOURCES, parser=options.read_place)], given: RunOptions
) -> Result:
    """Measure what views still hold, against other views of as many tokens, and judge each view by the laws.

    Transcripts need no label: what is asked for are exact values that were seen before a cut and that later tool calls
    really used. With --model, summaries are by that model: its price is shown first, its replies are kept, and the same
    command goes on after a stop. Later it runs without a key.

    Exit status 1: a gate failed, a law was broken, or nothing could be measured.

    Examples:
        eval run logs/    # your own transcripts; no label, no model
        eval run logs/ --fail-under held=0.6,laws=0 --junit eval.xml    # in CI
        eval run beam:chats/100K    # evidence of the questions of BEAM
        eval run real    # recorded answers of a model, in a checkout
    """
    from summarizing_context.evaluation.datasets import Dataset
    from summarizing_context.evaluation.run import Arm, Run

    started, gates = time.perf_counter(), read_gates(given.fail_under)
    dataset = Dataset.load(*sources, format=given.format)
    arms = []
    names = [name.strip() for name in (given.arms or "").split(",") if name.strip()]
    if dataset.recording is not None:
        if any((given.config, given.prompts, given.summarizer, given.model)):
            raise InputError("recorded answers belong to their own settings; `tune` compares prompts on these sessions")
        arms = [Arm(name) for name in names]
    else:
        settings = replace(given.load(), max_tokens=options.read_tokens(given.budget))
        if given.redact is not None and settings.summarizer not in PROVIDERS:
            raise InputError("--redact: without a model nothing is sent or recorded; name one, or leave out --redact")
        bare = replace(settings, summarizer="extractive", model=None)
        own = {"ours": settings, "extractive": bare}
        names = names or ["ours", "tail", "masking"]
        names = names if names[0] in own else ["ours", *(name for name in names if name != "ours")]
        arms = [Arm(name, own.get(name)) for name in names]
    measured = Run(
        dataset=dataset,
        arms=arms,
        cassette=given.cassette or given.out / "replies.jsonl",
        jobs=given.jobs or os.cpu_count() or 1,
        redact=given.redact,
    )
    recording = pay(measured, given)
    if isinstance(recording, Result):
        return recording
    with nullcontext() if recording is None else recording as cassette:
        report = watched(measured, cassette)
    if cassette is not None:
        tell_spent(cassette, measured.models)
    return shown(report, given, started, gates)


@command(family)
def compare(
    old: Annotated[Path, argument("OLD", "Folder or report.json of an earlier run.", parser=read_path)],
    new: Annotated[Path, argument("NEW", "A later run of the same logs.", parser=read_path)],
    junit: Junit = None,
) -> Result:
    """Compare two runs on the same logs, question by question. Exit status 1 if the new one is surely worse.

    Sure is a change whose interval over at least five sessions leaves out zero, and any more broken laws.

    Examples:
        eval compare main-report/ eval-report/ --junit compare.xml
    """
    from summarizing_context.evaluation.report import Report, in_words

    results, rows, documents = [], [], []
    for arm, what, change, worse in Report.read(new).compare(Report.read(old)):
        words = f"{change.mean:+,.0f} broken" if what == "laws" else in_words(change)
        results.append((arm, what, words, worse))
        rows.append((arm, what, Text(words, "bold red" if worse else "")))
        documents.append({"arm": arm, "what": what, "change": change._asdict(), "worse": worse, "words": words})
    is_worse = any(worse for *_, worse in results)
    write_junit(junit, "eval compare", results)
    verdict = "The new run is surely worse." if is_worse else "The new run is not surely worse."
    document = {"worse": is_worse, "verdict": verdict, "changes": documents}
    status = Status.LAW_BROKEN if is_worse else Status.OK
    return Result(document, [table("New against old", "arm", "what", "change", rows=rows, fold=True), verdict], status)


def read_gates(text: str | None) -> dict[str, float]:
    """Return the figures that `--fail-under` names. Raise `InputError`."""
    try:
        pairs = (one.partition("=") for one in (text or "").split(",") if one.strip())
        return {name.strip(): float(value.removesuffix("%")) / (100 if "%" in value else 1) for name, _, value in pairs}
    except ValueError as error:
        raise InputError(f"--fail-under: {plain(text, 60)!r}; write it like right=0.9,laws=0") from error


def write_junit(file: Path | None, name: str, results: Sequence[tuple[str, str, str, bool]]) -> None:
    """Write results as JUnit XML, where a file is named."""
    from summarizing_context.evaluation.report import junit

    if file is not None:
        write_private(file, junit(name, results))


# What a model takes


def pay(run: Run, given: Any) -> Cassette | Result | None:
    """Return the open cassette for what is not recorded yet, once its price was accepted; None where nothing has to be
    sent, and a result where only the price was asked for."""
    if not run.models:
        if given.dry_run:
            raise InputError("--dry-run: without a model nothing is sent; name one with --model")
        return None
    prices = run.price()
    if given.dry_run:
        return priced(prices)
    if not any(one.calls for one in prices):
        return None
    ask_for(prices, given.yes)
    return run.open("record", given.max_calls)


def ask_for(prices: Sequence[Price], yes: bool, most: str = "") -> None:
    """Say what will be sent and ask whether it may be. Raise `InputError` where it may not."""
    for line in price_words(prices):
        tell(line)
    if most:
        tell(plain(most))
    output.confirm("Send these requests?", yes, "sent")


def price_words(prices: Sequence[Price]) -> list[str]:
    """Return what each model will be asked, in words."""
    found = []
    for one in prices:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in one.by_kind.items()) or "none"
        cost = (
            f"about {dollars(one.estimated_cost)} ({one.priced})" if one.priced else "no price is known for this model"
        )
        known = f"; {one.recorded:,} are recorded" if one.recorded else ""
        found.append(plain(f"{one.model} at {one.address}: {one.calls:,} requests ({kinds}), {cost}{known}."))
    return found


def priced(prices: Sequence[Price], proposals: int = 0) -> Result:
    """Return calls, tokens and price of what is not recorded yet, by model. Of one model, `proposals` are prompts that
    it will write, each of which is tried as well."""
    rows = [msgspec.to_builtins(one) for one in prices]
    words = price_words(prices)
    if proposals:
        calls = prices[0].calls + proposals * (prices[0].calls + 1)
        rows[0] |= {"proposals": proposals, "calls_at_most": calls}
        words.append(f"{proposals:,} proposals, each tried on all sessions: at most {calls:,} calls.")
    each = [one.estimated_cost for one in prices]
    total = None if None in each else round(sum(filter(None, each)), 6)
    figures = ("calls", "input_tokens", "output_tokens", "recorded")
    cells = [(plain(row["model"], 40), *map(row.get, figures), dollars(row["estimated_cost"])) for row in rows]
    if len(rows) > 1:
        cells.append(("all", *(sum(row[name] for row in rows) for name in figures), dollars(total)))
    columns = ("model", "#calls", "#input", "#output", "#recorded", "#price")
    words.append("Tokens by the built-in estimate, replies as long as their cap; hidden thinking is not counted.")
    document = {**(rows[0] if len(rows) == 1 else {"models": rows}), "estimated_cost": total}
    return Result(document, [table("Nothing is sent", *columns, rows=cells), *map(dim, words)])


def tell_spent(cassette: Cassette, models: Sequence[Settings]) -> None:
    """Say what was recorded."""
    from summarizing_context.evaluation.run import prices_of

    for one in prices_of(cassette, models):
        sums = f"{one.input_tokens:,} input and {one.output_tokens:,} output tokens, {dollars(one.estimated_cost)}"
        tell(plain(f"Recorded with {one.model} at {one.address}: {one.calls:,} calls, {sums}."))


# What came of it


def watched(run: Run, cassette: Cassette | None) -> Report:
    """Measure, with a bar."""
    logs = run.dataset.logs
    with output.progress("sessions", len(logs), f"Measuring {output.counted(len(logs), 'session')}.") as update:
        return run.report(cassette, watch=lambda name: update(plain(name, 40)))


def share(interval: Interval | None) -> str:
    """Return a share, with the ends of its interval where there are several sessions."""
    if interval is None:
        return "–"
    return f"{interval.mean:.1%}" + (f" {interval.low:.0%} … {interval.high:.0%}" if interval.sessions > 1 else "")


def lead(interval: Interval | None) -> str:
    """Return a difference in points, likewise."""
    if interval is None:
        return "–"
    ends = f" {100 * interval.low:+.1f} … {100 * interval.high:+.1f}" if interval.sessions > 1 else ""
    return f"{100 * interval.mean:+.1f}{ends}"


def score_table(report: Report, marked: str = "") -> RenderableType:
    """Return the scores of all arms."""
    rows = []
    for arm in report.arms:
        name = Text(plain(arm, 40), "bold green" if arm == marked else "")
        ahead = "" if arm == report.baseline else lead(report.ahead(arm))
        figures = (report.figure(arm, figure) for figure in ("tokens", "cost", "laws"))
        cells = [None if one is None else round(one) for one in figures]
        rows.append((name, share(report.score(arm)), ahead, *cells))
    ahead = f"#ahead of {plain(report.baseline, 16)}"
    return table("", "arm", f"#{report.metric}", ahead, "#tokens", "#cost", "#laws", rows=rows)


def shown(report: Report, given: Any, started: float, gates: dict[str, float] | None = None) -> Result:
    """Write the reports of a run and return its result."""
    checked = report.check(gates) if gates else report.check()
    page = report.write(given.out)
    parts: list[RenderableType] = [plain(report.verdict), score_table(report)]
    if report.categories:
        rows = [(name, *(share(report.score(arm, "", name)) for arm in report.arms)) for name in report.categories]
        parts.append(table("By category", "category", *(f"#{arm}" for arm in report.arms), rows=rows))
    if checked:
        results = {True: Text("passed", "green"), False: Text("failed", "bold red")}
        cells = [(one.name, results[one.passed], dim(one.words)) for one in checked]
        parts.append(table("Gates", "gate", "result", "figures", rows=cells, fold=True))
    others = [f"{one.case} {one.arm}: {one.reading}" for one in report.views if one.reading not in ("", "this view")]
    if report.made_by:
        count = len(report.views)
        parts.append(f"For {count - len(others):,} of {count:,} views the answers belong to exactly this view.")
    if others:
        parts.append(plain(f"Others: {', '.join(others[:12])}{', …' if len(others) > 12 else ''}."))
    if report.missing:
        parts.append(f"{report.missing:,} requests have no recorded reply.")
    parts.append(dim("cost: tokens that a model reads and writes for 1,000 tokens of history. laws: broken ones."))
    seconds = time.perf_counter() - started
    parts.append(f"{len(report.asked):,} questions in {seconds:.0f} s. Each with what every view said: {page}")
    tests = [("gates", one.name, one.words, not one.passed) for one in checked]
    broken = report.figure(report.first, "laws")
    if not gates or "laws" not in gates:
        tests.append(("laws", report.first, f"{broken or 0:.0f} broken", bool(broken)))
    tests.append(("questions", "something was measured", f"{len(report.asked):,} questions", not report.asked))
    write_junit(getattr(given, "junit", None), "eval run", tests)
    status = Status.LAW_BROKEN if any(bad for *_, bad in tests) else Status.OK
    return Result(report.document(), parts, status, told_lines(report.left_out))


# Models question one log

_QUESTION = "Model that writes questions. Default: the summarizer's model."
_READER = "Model that answers from views, of the judge's provider. Default: the judge's model."
_MARKER = "Model that marks the answers. It must differ from the writer's."


def known(provider: str, option: str) -> str:
    """Return the name of a provider. Raise `InputError`."""
    if provider not in PROVIDERS:
        raise InputError(f"{option}: {plain(provider, 40)!r} is not a provider; there are {' and '.join(PROVIDERS)}")
    return provider


def judges_of(
    settings: Settings, judge_model: str, reader_model: str | None, provider: str | None, url: str | None
) -> tuple[Settings, Settings]:
    """Return the settings of a reader and a judge, beside those of the model that summarizes. Raise `InputError`.

    One reply holds all questions, so a call may take long.
    """
    named = known(provider or settings.summarizer, "--judge-provider")
    if url is None and named == settings.summarizer:
        url = settings.base_url
    elif url is None and settings.base_url is not None:
        raise InputError(
            f"--judge-provider: a base URL is named, and it is not {named}'s, which would get the log too; name the "
            "server of its models with --judge-base-url"
        )
    is_same = (named, url) == (settings.summarizer, settings.base_url)
    key = settings.api_key if is_same else None  # a key is its server's
    place: Any = {"summarizer": named, "base_url": url, "api_key": key, "prices": settings.prices}
    judge = Settings(**place, model=judge_model, call_timeout=300.0)
    return replace(judge, model=reader_model or judge_model), judge


@command(family)
def ask(
    log: Annotated[Path, argument("LOG", "A transcript of any known format, with one session.", parser=read_path)],
    *,
    judge_model: Annotated[str, option("M", _MARKER)],
    reader_model: Annotated[str | None, option("M", _READER)] = None,
    question_model: Annotated[str | None, option("M", _QUESTION)] = None,
    budget: Budget = "16k",
    share: Annotated[float, option("X", "Share of the log before the view.", min=0.01, max=1.0)] = 1.0,
    questions: Annotated[int, option("N", "Number of questions to write.", min=1, max=60)] = 20,
    judge_provider: Annotated[str | None, option("NAME", "Provider of the judge. Default: the summarizer's.")] = None,
    judge_base_url: Annotated[str | None, option("URL", "Base URL for the judge and the reader.")] = None,
    arms: Annotated[str, option("A[,B]", "Views to be read.")] = "ours,extractive,compact,tail",
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
    from summarizing_context.evaluation.asking import record_answers
    from summarizing_context.evaluation.cassettes import Cassette
    from summarizing_context.evaluation.datasets import Dataset
    from summarizing_context.evaluation.recording import with_own_case
    from summarizing_context.evaluation.run import Run, prices_of
    from summarizing_context.evaluation.views import ARMS

    started, chosen = time.perf_counter(), [name.strip() for name in arms.split(",") if name.strip()]
    if strange := [name for name in chosen if name not in ARMS]:
        raise InputError(f"--arms: there is no arm {plain(strange[0], 40)!r}; there are {', '.join(ARMS)}")
    found = read_session(log, format=own.format)
    if not found.messages:
        raise TranscriptError(f"{log}:1: holds no message; name another transcript")
    for line in told_lines(found.unreadable):
        tell(line)
    settings, tokens = own.load(), options.read_tokens(budget)
    if settings.summarizer not in PROVIDERS or settings.model is None:
        raise InputError(f"--model: name the model that summarizes, or in --config a summarizer {NAMED} and its model")
    reader, judge = judges_of(settings, judge_model, reader_model, judge_provider, judge_base_url)
    copied: Any = {name: getattr(settings, name) for name in ("summarizer", "model", "base_url", "api_key", "prices")}
    summarizes = Settings(**copied, call_timeout=300.0)
    writer = replace(summarizes, model=question_model or settings.model)
    if (writer.summarizer, writer.model) == (judge.summarizer, judge.model):
        raise InputError("--judge-model: name another model than the one that writes questions, or it marks its own")
    models = [summarizes, writer, reader, judge]
    if not own.dry_run:
        make_private_folder(out)
        tell(f"Recording into {plain(out)}. --dry-run tells what it takes; after a stop the same command goes on.")
    keys = [one.api_key for one in models]
    with (
        TemporaryDirectory() if own.dry_run else nullcontext(str(out)) as to,
        Cassette(
            out / "cassette.jsonl",
            "forecast" if own.dry_run else "record",
            max_calls=max_calls,
            secrets=keys,
            redact=redact,
        ) as cassette,
    ):
        messages = [cassette.scrub(message) for message in found.messages]
        recording = with_own_case(out, log, messages, cut=share, budget=tokens, own=settings, to=Path(to))
        tell(f"Asking about {recording.cases[0].cut:,} messages of {plain(log.name, 60)}.")
        anyio.run(record_answers, recording, cassette, models, chosen, questions)
    if own.dry_run:
        return priced(prices_of(cassette, models))
    tell_spent(cassette, models)
    measured = Run(dataset=Dataset.load(out), jobs=os.cpu_count() or 1)
    return shown(watched(measured, None), RunOptions(out=out), started)
