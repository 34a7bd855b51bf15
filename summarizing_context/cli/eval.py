"""`summarizing-context eval`: what views of a session still hold."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from rich.console import RenderableType
from rich.text import Text

from summarizing_context.cli import options, output
from summarizing_context.cli.options import TRANSCRIPTS, ModelOptions, argument, command, listed, option
from summarizing_context.cli.output import InputError, Result, Status, T, counted, dim, dollars, plain, table, tell
from summarizing_context.errors import CassetteMissError
from summarizing_context.settings import Settings
from summarizing_context.transcripts import read_session

if TYPE_CHECKING:
    from summarizing_context.evaluation.cassettes import Cassette, Spent
    from summarizing_context.evaluation.report import Interval, Report

family = options.family("eval", TRANSCRIPTS, "Measure what views still hold.")

CassettePath = Annotated[Path | None, options.path("FILE", "Replies. Default: in --out.", "--cassette")]
DOING = {"forecast": "Pricing", "replay": "Repeating", "record": "Recording"}  # by the mode of a cassette
_SHARE = option("X", "Share of the log before views. Default: 1.", show_default=False, min=0.01, max=1)
Junit = Annotated[Path | None, options.path("FILE", "Write the results as JUnit XML too.")]


@dataclass(frozen=True, kw_only=True)
class RecordOptions(ModelOptions):
    """Options of a command whose models are asked through a cassette."""

    max_calls: Annotated[int | None, option("N", "Stop after N calls; run again to go on.", min=0)] = None
    yes: options.Yes = False

    def recorded(
        self, file: Path, models: Sequence[Settings], work: Callable[[Cassette], T], proposals: int = 0
    ) -> T | Result:
        """Return what `work` comes to with the replies in `file`, once the rest is priced; in a dry run, that price."""
        from summarizing_context.evaluation.cassettes import Cassette, prices_of
        from summarizing_context.summarizers.providers import make_model

        keys = [one.api_key for one in models]
        if not (self.dry_run or file.exists()):
            for model in models:
                make_model(model, read_only=False)  # a key that is missing is named before all is priced
        done = work(replies := Cassette(file, "forecast", secrets=keys))
        prices = prices_of(replies.spent, models)
        forecast = priced(prices, proposals)  # so many prompts that the first model writes: no forecast knows them
        if self.dry_run:
            return forecast
        if not any(one.calls for one in prices) and file.exists():
            if done is not None and not proposals:  # no reply was assumed, so this is the run
                return done
            # What follows from replies, such as a proposal, may not be kept.
            with suppress(CassetteMissError), Cassette(file, "replay", secrets=keys) as replies:
                return work(replies)
        for line in [*forecast.shown][1:]:
            tell(line)
        for model in models:
            make_model(model, read_only=False)  # a key that is missing is named before the question
        output.confirm("Send these requests?", self.yes, "sent")
        with Cassette(file, "record", max_calls=self.max_calls, secrets=keys) as replies:
            done = work(replies)
        for price in prices_of(replies.spent, models):
            tell(_line(price, "Recorded with "))
        return done


def _line(one: Spent, done: str = "") -> str:
    """Return what a model will be asked, or was."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(one.by_kind.items()))
    cost = f"{dollars(one.estimated_cost)} ({one.priced})" if one.priced else "no price is known"
    known = f"; {one.recorded:,} more need no call" if one.recorded else ""
    tokens = f"{one.input_tokens:,} input and {one.output_tokens:,} output tokens"
    asked = f"{one.calls:,} {'calls' if done else 'requests'}" + (f" ({kinds})" if kinds else "")
    return plain(f"{done}{one.model} at {one.address}: {asked}, {tokens}, {cost}{known}.")


def priced(prices: Sequence[Spent], proposals: int = 0) -> Result:
    """Return calls, tokens and price of what is not recorded yet, by model. Each proposal is tried as well."""
    rows, first = [asdict(one) for one in prices], prices[0]
    shown: list[RenderableType] = ["Nothing is sent.", *map(_line, prices)]
    if proposals:
        calls = first.calls + proposals * (first.calls + 1)
        rows[0] |= {"proposals": proposals, "calls_at_most": calls}
        about = f"{proposals:,} proposals, each tried on all sessions: {calls:,} calls at most"
        if first.estimated_cost is not None and first.calls:  # a proposal costs about what its trial does
            about += f", about {dollars(first.estimated_cost * calls / first.calls)} in all"
        shown.append(f"{about}; --max-calls stops them.")
    each = [one.estimated_cost for one in prices]
    total = None if None in each else round(sum(filter(None, each)), 6)
    if total is not None:
        shown.append(f"In all {dollars(total)}{' without the proposals' if proposals else ''}.")
    shown.append(dim("Tokens by the built-in estimate, replies as long as their cap; hidden thinking is not counted."))
    return Result({**(rows[0] if len(rows) == 1 else {"models": rows}), "estimated_cost": total}, shown)


@command(family)
def run(
    sources: Annotated[list[str], argument("SOURCE", "Logs, real, beam:PATH, locomo:PATH.", parser=options.read_place)],
    *,
    budget: options.Budget = 16_000,
    arms: Annotated[str | None, option("A[,B]", "ours, extractive, tail, masking, cliff.")] = None,
    fail_under: Annotated[str | None, option("A=X", "Fail unless reached, as right=0.9,laws=0.")] = None,
    out: options.ReportFolder = Path("eval-report"),
    cassette: CassettePath = None,
    jobs: options.Jobs = None,
    junit: Junit = None,
    own: RecordOptions,
) -> Result:
    """Measure what views still hold, against other views of as many tokens.

    Exact values that later tool calls really used are asked for, without any label. With --model, summaries are by that
    model, priced first and recorded. Exit status 1: a gate failed, a law was broken, or nothing could be measured.

    Examples:
        eval run logs/ --fail-under held=0.6,laws=0
        eval run beam:chats/100K
    """
    from summarizing_context.evaluation.datasets import Dataset
    from summarizing_context.evaluation.report import AT_MOST, EVIDENCE, HELD, RIGHT
    from summarizing_context.evaluation.run import Arm, Run

    started, gates, names = time.perf_counter(), dict[str, float](), listed(arms)
    try:
        for metric, _, value in (one.partition("=") for one in listed(fail_under)):
            gates[metric.strip()] = float(value.removesuffix("%")) / (100 if "%" in value else 1)
    except ValueError as error:
        raise InputError(f"--fail-under: {plain(fail_under, 60)!r}; write it like right=0.9,laws=0") from error
    known = (HELD, EVIDENCE, RIGHT, *AT_MOST)
    if wrong := [name for name in gates if name not in known]:  # before anything is paid for
        raise InputError(f"--fail-under: there is no metric {plain(wrong[0], 60)!r}; there are {', '.join(known)}")
    dataset = Dataset.load(*sources, format=own.format)
    if dataset.recording is not None:
        if any((own.config, own.prompts, own.summarizer, own.model)):
            raise InputError("recorded answers belong to their own settings; `tune` compares prompts on these sessions")
        chosen = [Arm(name) for name in names]
    else:
        settings = replace(own.load(), max_tokens=budget)
        made = {"ours": settings, "extractive": replace(settings, summarizer="extractive", model=None)}
        names = names or ["ours", "tail", "masking"]
        names = names if names[0] in made else ["ours", *(name for name in names if name != "ours")]
        chosen = [Arm(name, made.get(name)) for name in names]
    file, jobs = cassette or out / "replies.jsonl", jobs or os.cpu_count() or 1
    measured = Run(dataset=dataset, arms=chosen, cassette=file, jobs=jobs)

    def measure(replies: Cassette | None) -> Report:
        logs, doing = len(dataset.logs), "Measuring" if replies is None else DOING[replies.mode]
        with output.progress("sessions", logs, f"{doing} {counted(logs, 'session')}.") as update:
            return measured.report(replies, update)

    if own.dry_run and not measured.models:
        raise InputError("--dry-run: without a model nothing is sent; name one with --model")
    report = own.recorded(file, measured.models, measure) if measured.models else measure(None)
    return report if isinstance(report, Result) else shown(report, out, started, gates, junit)


@command(family)
def compare(
    old: Annotated[Path, argument("OLD", "Folder or report.json of an earlier run.", parser=options.read_path)],
    new: Annotated[Path, argument("NEW", "A later run of the same logs.", parser=options.read_path)],
    junit: Junit = None,
) -> Result:
    """Compare two runs on the same logs, question by question. Exit status 1 if the new one is surely worse.

    Sure is a change whose interval over at least five sessions leaves out zero, and any more broken laws.

    Examples:
        eval compare main-report/ eval-report/ --junit compare.xml
    """
    from summarizing_context.evaluation.report import Report, in_words, write_junit

    changes, before, after = list[dict[str, Any]](), Report.read(old), Report.read(new)
    for arm, what, change, worse in after.compare(before):
        words = f"{change.mean:+,.0f} broken" if what == "laws" else in_words(change)
        changes.append({"arm": arm, "what": what, "change": change._asdict(), "worse": worse, "words": words})
    rows = [(one["arm"], one["what"], Text(one["words"], "bold red" if one["worse"] else "")) for one in changes]
    is_worse = any(one["worse"] for one in changes)
    write_junit(junit, "eval compare", [(one["arm"], one["what"], one["words"], one["worse"]) for one in changes])
    verdict = f"The new run is {'surely' if is_worse else 'not surely'} worse."
    were, are = ({(one.session, one.case, one.id) for one in run.asked} for run in (before, after))
    only = (("old", were - are), ("new", are - were))
    remarks = [f"only the {run} run has {counted(len(left), 'question')}" for run, left in only if left]
    for arm in after.arms:  # shares say little where the views had more room
        old_size, size = (run.figure(arm, "tokens") or 0.0 for run in (before, after))
        if old_size and abs(size - old_size) > 0.02 * old_size:
            remarks.append(f"{arm}: its views have {size:,.0f} tokens, in the old run {old_size:,.0f}")
    for arm, now in after.settings.items():
        was = before.settings.get(arm, now)
        for name in sorted({*was, *now}):
            one, other = (plain(each.get(name, "as shipped")) for each in (was, now))
            if was.get(name) != now.get(name):
                remarks.append(f"{arm}: {name} was {one} in the old run, {other} in the new one")
    parts: list[RenderableType] = [table("New against old", ("arm", "what", "change"), rows, fold=True), verdict]
    document = {"worse": is_worse, "verdict": verdict, "changes": changes}
    return Result(document, parts, Status.LAW_BROKEN if is_worse else Status.OK, remarks)


@command(family)
def ask(
    log: Annotated[Path, argument("LOG", "A transcript with one session.", parser=options.read_path)],
    *,
    judge_model: Annotated[str | None, option("M", "Answers and marks; not --model.")] = None,
    budget: options.Budget = 16_000,
    share: Annotated[float, _SHARE] = 1.0,
    questions: Annotated[int, option("N", "Questions to write.", min=1, max=60)] = 20,
    arms: Annotated[str | None, option("A[,B]", "Default: ours,extractive,compact,tail.")] = None,
    out: options.ReportFolder = Path("eval-ask"),
    own: RecordOptions,
) -> Result:
    """Have models question a log, answer from views, and mark the answers.

    --model summarizes and writes questions. The log is sent to both models; keys and tokens are taken out by their
    shape. A run that was stopped goes on in its folder, which `eval run` shows again.

    Examples:
        eval ask run.jsonl --model gpt-5.4-mini --judge-model gpt-5.4
    """
    from summarizing_context.evaluation.datasets import Dataset
    from summarizing_context.evaluation.recording import with_own_case
    from summarizing_context.evaluation.run import Run, record

    started, chosen = time.perf_counter(), listed(arms) or ["ours", "extractive", "compact", "tail"]
    found = read_session(log, format=own.format)
    if not found.messages:
        raise options.holds_no_message(log, own.format)
    for line in output.told_lines(found.unreadable):
        tell(line)
    settings, total = own.load(call_timeout=300.0), 0  # the log is long, and so is what is marked
    own.need_model(settings)
    if judge_model is None:
        raise InputError("--judge-model: name the model that marks the answers, another than the one that asks")
    if judge_model == settings.model:
        raise InputError("--judge-model: name another model than the one that writes questions, or it marks its own")

    judge = replace(settings, model=judge_model)

    def answer(replies: Cassette) -> None:
        nonlocal total
        with TemporaryDirectory() as scratch:
            to = Path(scratch) if replies.mode == "forecast" else out
            messages = [replies.scrub(message) for message in found.messages]
            recording = with_own_case(out, log, messages, cut=share, budget=budget, own=settings, to=to)
            work = record(recording, replies, settings, judge, chosen, questions)
            anyio.run(output.watched, work, "calls", total, lambda: replies.calls)
        total = replies.calls

    if isinstance(result := own.recorded(out / "cassette.jsonl", [settings, judge], answer), Result):
        return result
    return shown(Run(dataset=Dataset.load(out), jobs=os.cpu_count() or 1).report(), out, started)


def share(interval: Interval | None, *, ahead: bool = False) -> str:
    """Return a share, or a difference in points, with the ends of its interval where sessions are enough for it."""
    if interval is None:
        return "–"
    mean, low, high = (100 * end for end in interval[:3])
    ends = f" {low:+.1f} … {high:+.1f}" if ahead else f" {low:.0f}% … {high:.0f}%"
    return (f"{mean:+.1f}" if ahead else f"{mean:.1f}%") + (ends if interval.has_ends else "")


def score_table(report: Report, marked: str = "") -> RenderableType:
    """Return the scores of all arms."""
    rows = []
    for arm in report.arms:
        name = Text(plain(arm, 40), "bold green" if arm == marked else "")
        ahead = "" if arm == report.baseline else share(report.ahead(arm), ahead=True)
        figures = (report.figure(arm, figure) for figure in ("tokens", "cost", "laws"))
        others = [report.score(arm, metric) for metric in report.metrics[1:]]
        means = ("–" if one is None else f"{one.mean:.1%}" for one in others)
        told = (None if one is None else round(one) for one in figures)
        rows.append((name, share(report.score(arm)), ahead, *means, *told))
    ahead, also = f"#ahead of {plain(report.baseline, 16)}", [f"#{name}" for name in report.metrics[1:]]
    return table("", ("arm", f"#{report.metric}", ahead, *also, "#tokens", "#cost", "#laws"), rows)


def shown(
    report: Report, out: Path, started: float, gates: dict[str, float] | None = None, junit: Path | None = None
) -> Result:
    """Write the reports of a run and return its result."""
    from summarizing_context.evaluation.report import write_junit

    checked = report.check(gates or {})
    page, broken, asked = report.write(out, checked), report.figure(report.first, "laws"), len(report.asked)
    parts: list[RenderableType] = [plain(report.verdict), score_table(report)]
    if report.categories:
        few = len(report.arms) <= 4  # the intervals of more do not fit; the page has them
        scores = ((name, [report.score(arm, "", name) for arm in report.arms]) for name in report.categories)
        rows = [(name, *(share(one) if few or one is None else f"{one.mean:.1%}" for one in of)) for name, of in scores]
        parts.append(table("By category", ("category", *(f"#{arm}" for arm in report.arms)), rows))
    if checked:
        cells = [(one.name, output.mark(one.passed, "passed", "failed"), dim(one.words)) for one in checked]
        parts.append(table("Gates", ("gate", "result", "figures"), cells, fold=True))
    others = [f"{one.case} {one.arm}: {one.reading}" for one in report.views if one.reading not in ("", "this view")]
    if report.made_by:
        of = len(report.views)
        parts.append(f"For {of - len(others):,} of {of:,} views the answers belong to exactly this view.")
    if others:
        parts.append(plain(f"Others: {', '.join(others[:12])}{', …' if len(others) > 12 else ''}."))
    if report.missing:
        parts.append(f"{report.missing:,} requests have no recorded reply.")
    parts.append(dim("cost: tokens that a model reads and writes for 1,000 tokens of history. laws: broken ones."))
    took = f"{asked:,} questions in {time.perf_counter() - started:.0f} s"
    parts.append(f"{took}. Each with what every view said: {page}")

    # The exit status: gates, laws where no gate is about them, and whether anything was measured.
    tests = [("gates", one.name, one.words, not one.passed) for one in checked]
    if "laws" not in (gates or {}):
        tests.append(("laws", report.first, f"{broken or 0:.0f} broken", bool(broken)))
    tests.append(("questions", "something was measured", f"{asked:,} questions", not asked))
    write_junit(junit, "eval run", tests)
    status = Status.LAW_BROKEN if any(bad for *_, bad in tests) else Status.OK
    return Result(report.document(checked), parts, status, output.told_lines(report.left_out))
