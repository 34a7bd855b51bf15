"""Commands on transcripts and prompts: `demo` replays the transcript that is shipped, `replay` any others, and `import`
stores them. `eval` says what views still hold, `tune` which of several prompts is better; `prompts` shows them."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import anyio
import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from summarizing_context import evaluation as evals
from summarizing_context.cli import options, output
from summarizing_context.cli.options import TRANSCRIPTS, ModelOptions, Place, argument, command, listed, option
from summarizing_context.cli.output import InputError, Result, Status, T, counted, dim, mark, number, plain, table
from summarizing_context.errors import SettingsError, TranscriptError
from summarizing_context.messages.tokens import ESTIMATE, estimate_text
from summarizing_context.models import dollars
from summarizing_context.settings import Settings, shown_store
from summarizing_context.summarizers.prompts import Prompt, find, load, names, prompts_root
from summarizing_context.summarizers.providers import make_model
from summarizing_context.summarizers.sdk import fenced
from summarizing_context.transcripts import find_transcripts, read_named, read_session
from summarizing_context.transcripts.formats import holds_no_message
from summarizing_context.views.view import REASON_WORDS


@command(TRANSCRIPTS)
def demo(
    budget: Annotated[int, option("N", "Tokens of a view.", parser=options.read_tokens)] = 16_000,
    keep: Annotated[Path | None, options.path("FILE", "Keep the session in this SQLite file.")] = None,
) -> Result:
    """Watch a long agent session stay inside a small budget.

    The session comes with the package: some 500 messages and 170,000 tokens of coding and operations work. The
    extractive summarizer is used: no key, no network. Before each answer of the agent a view is taken.

    Examples:
        demo --keep demo.db
    """
    if keep is not None and keep.exists():
        raise InputError(f"--keep: {plain(keep)} is there already; name a new file")
    settings = Settings(store=keep or ":memory:", session_id="demo", summarizer="extractive", max_tokens=budget)
    messages = evals.replay.demo_session()
    announced = f"Replaying the demo session: {len(messages)} messages, {budget:,} tokens a view."
    with output.progress("messages", len(messages), announced) as update:
        told = anyio.run(partial(evals.replay.play_demo, messages, settings, watch=update))

    # What happened, what is found with and without this package, what it saved, and what to type next.
    reasons = ", ".join(f"{count} {REASON_WORDS[reason]}" for reason, count in told["activations_by_reason"].items())
    reasons = reasons or ("the whole session fits" if told["views"] else "no view fits")
    bad = sum(told[name] for name in evals.replay.LAW_FIGURES), told["refused_views"]
    broken, refused = (mark(not count, "0", f"{count:,}") for count in bad)
    shown: list[RenderableType] = [output.facts("What happened", [
        ("messages", told["messages"], f"{number(told['history_tokens'])} tokens, counted by {told['token_counter']}"),
        ("views", told["views"], "one before each answer of the agent"),
        ("largest view", told["max_view_tokens"], f"tokens, of {number(budget)} allowed"),
        ("broken laws", broken, "calls keep results, the order holds, the newest message is shown"),
        ("views refused", refused, "no room for the system rows"),
        ("slowest view, ms", told["slowest_view_ms"], "no view waits for a model"),
        ("summaries made", told["summaries"], "in the background"),
        ("activations", told["activations"], reasons),
        ("prefix reused", f"{told['prefix_hit']:.1%}", "of all view tokens, by a provider's prompt cache"),
    ])]  # fmt: skip
    if not told["views"]:
        shown.append("No view has room for more than the system rows: give a larger --budget.")
        return Result(told, shown, _status(*bad))
    asked, columns, keys = told["questions"], ("question", "view", "newest", "answer"), ("found", "without")
    rows = [(one["question"], *(mark(one[key], "yes", "no") for key in keys), dim(one["words"])) for one in asked]
    found, without = (f"{sum(one[key] for one in asked)} of {len(asked)}" for key in keys)
    free = number(budget - told["last_view_tokens"])
    whole, whole_price = number(told["whole_history_sent_tokens"]), dollars(told["whole_history_dollars"])
    line = partial(output.shell_line, store=keep or Path("demo.db"))
    again = "" if keep else "summarizing-context demo --keep demo.db\n  "
    looks = line("status", told["session"], "--budget", budget)
    asks = line("recall", told["session"], "What fixed the tide import")
    shown += [
        table("What the view of each question still answers", columns, rows, wide="answer", fold=True),
        f"view: {found}. newest: {without}, with the newest messages alone, in as many tokens.",
        f"{free} tokens are free for the next messages: a view grows by appending until it is nearly full.",
        output.facts("What it saved", [
            ("tokens sent", told["sent_tokens"], f"{whole} with the whole history in each request"),
            ("price of the input", dollars(told["dollars"]), f"{whole_price} with the whole history"),
            ("", "", f"at {told['priced_model']}'s list price, with its prompt cache"),
        ]),
        f"What to type next\n  {again}{looks}\n  {asks}\n  summarizing-context replay YOUR_LOG.jsonl",
    ]  # fmt: skip
    return Result(told, shown, _status(*bad))


def _status(broken: int, refused: int) -> Status:
    return Status.LAW_BROKEN if broken else Status.REFUSED if refused else Status.OK


@command(TRANSCRIPTS)
def replay(
    paths: options.TranscriptPaths,
    *,
    budget: Annotated[list[str] | None, option("N[,N]", "Tokens of a view; each is replayed. Default: 16k.")] = None,
    strategy: Annotated[list[str] | None, option("A[,B]", "hierarchical, summarize, truncate, importance.")] = None,
    jobs: options.Jobs = None,
    own: options.ModelOptions,
) -> Result:
    """Replay transcripts and judge every view by the laws.

    A view is taken before each assistant message. It must fit the budget, keep calls with their results, keep the log's
    order, show its newest message, and begin with the view before unless an activation is reported; no text may leave
    the views that no summarizer has read. Keys that begin with an underscore are dropped.

    Examples:
        replay logs/ --budget 8k,16k --strategy hierarchical,truncate
        replay logs/ --model gpt-5.4-mini --dry-run
    """
    names = listed(",".join(strategy or ()))
    variants = {one.strategy: one for one in (own.load(sends=own.dry_run, strategy=name) for name in names or (None,))}
    sizes = [options.read_tokens(one, "--budget") for one in ",".join(budget or ()).split(",") if one or budget]
    budgets = dict.fromkeys(sizes or [one.max_tokens for one in variants.values()][:1])
    each = [replace(one, max_tokens=size) for one in variants.values() for size in budgets]
    settings = each[0]
    files = find_transcripts(paths)
    size = sum(file.stat().st_size for file in files if file.is_file())
    jobs = jobs or min(os.cpu_count() or 1, 1 + size // 300_000)  # each process takes a second to start
    doing = "Dry run of" if own.dry_run else "Replaying"
    doing += f" {counted(len(files), 'file')} at {', '.join(map(number, budgets))} tokens."
    with output.progress("files", len(files), doing, 1) as update:
        play = partial(evals.replay.replay_files, files, each, format=own.format, dry_run=own.dry_run)
        document = play(jobs=jobs, watch=update)
    rows, total, unreadable = document["rows"], document["total"], document["unreadable"]
    # A row for each file, and the sums by strategy and budget.
    file = {"file": "file", "#budget": "budget"}
    if own.dry_run:
        figures = {"#calls": "model_calls", "#input": "model_input_tokens", "#output": "model_output_tokens"}
        spent = evals.cassettes.Spent(*(total[name] for name in figures.values()))
        price: Any = priced(evals.cassettes.prices_of({f"{settings.summarizer}/{settings.model}": spent}, [settings]))
        document, shown, status = document | price.document, price.shown, Status.OK
        file["#tokens"] = "history_tokens"
    else:
        figures = {"#broken laws": "broken", "#mean view": "mean", "#activ.": "activations", "#reused": "hit"}
        figures |= {"#uncached": "uncached_tokens", "#ms p99": "view_p99_ms"}
        tokens = f"{total['model_input_tokens']:,} tokens in, {total['model_output_tokens']:,} out"
        called = f"A model was called {total['model_calls']:,} times for summaries: {tokens}."
        moved = "activ.: how often a view moved on; reused: the share of it that a prompt cache holds."
        repairs = {kind.replace("_", " "): count for kind, count in total["repairs"].items()}
        shown = [*map(dim, (moved, called, f"Tokens are counted by {total['token_counter']}."))]
        shown += _counts(repairs, "Repairs") + _counts(total["skipped"])
        status = _status(sum(total[name] for name in evals.replay.LAW_FIGURES), total["refused_views"])
    named, laws = list[dict[str, Any]](), ("refused_views", *evals.replay.LAW_FIGURES)
    for row in (*rows, *document["totals"]):
        name = f"{row['strategy']}: " * (len(variants) > 1) + Path(row["file"]).name
        broken = ", ".join(f"{row[law]:,} {law.replace('_', ' ')}" for law in laws if row[law])
        named.append({**row, "file": name, "broken": mark(not broken, "0", broken)})
        named[-1] |= {"hit": f"{row['prefix_hit']:.1%}", "mean": round(row["mean_view_tokens"])}
    made = table("Dry run" if own.dry_run else "Replayed", file | figures, named, wide="file")
    made.rows[len(rows) - 1].end_section = True
    status = Status.BAD_INPUT if unreadable and status != Status.LAW_BROKEN else status
    return Result(document, [made, *shown], status, output.told_lines(total["skipped_lines"], unreadable))


def _counts(counts: Mapping[str, int], title: str = "Skipped, being no messages") -> list[Text]:
    """Return a line of the most frequent counts by their kind; none for no counts."""
    said = ", ".join(f"{count:,} {kind}" for kind, count in Counter(counts).most_common(6))
    return [dim(f"{title}: {said}{', and others' if len(counts) > 6 else ''}.")] if counts else []


@command(TRANSCRIPTS, "import")
def import_transcripts(
    paths: options.TranscriptPaths, place: Place, format: options.TranscriptFormat = "auto"
) -> Result:
    """Put the sessions of transcripts into a store.

    Each keeps its own name. A session that the store has already gets the messages that are new, and another session of
    that name a number. A file that cannot be read is named, and the others are imported; a path
    that is not there stops the command.

    Examples:
        import ~/.claude/projects --store logs.db
    """
    from summarizing_context.assembly import import_transcript

    settings, files = place.load(), find_transcripts(paths)
    rows, unreadable = list[dict[str, Any]](), list[TranscriptError]()
    skipped, skipped_lines = Counter[str](), list[str]()
    with output.progress("files", len(files), f"Importing {counted(len(files), 'file')}.", 1) as update:
        for path in files:
            try:
                logs = read_named(path, format=format).values()  # all of it, before any session is changed
                played = partial(evals.replay.PLAYED.get(), 1 / max(1, sum(len(log.messages) for log in logs)))
                for log in (log for log in logs if log.messages):
                    session_id, held, added = anyio.run(import_transcript, log, settings, played)
                    row = {"session_id": session_id, "file": str(log.path), "format": log.format}
                    rows.append({**row, "messages": held, "added": added})
                    skipped.update(log.skipped)
                    skipped_lines += log.unreadable
            except TranscriptError as error:
                unreadable.append(error)
            update(f"{counted(len(rows), 'session')}, {counted(sum(row['added'] for row in rows), 'new message')}")
    if not rows:
        raise [*unreadable, holds_no_message(files[0], format)][0]
    document = {"sessions": rows, "unreadable": [str(problem) for problem in unreadable]}
    document |= {"skipped": dict(sorted(skipped.items())), "skipped_lines": skipped_lines}
    columns = {"session": "session_id", "format": "format", "#messages": "messages", "#new": "added"}
    made = table(f"Imported into {plain(shown_store(settings.store))}", columns, rows, wide="session")
    status, remarks = Status.BAD_INPUT if unreadable else Status.OK, output.told_lines(skipped_lines, unreadable)
    return Result(document, [made, *_counts(skipped)], status, remarks)


_EVAL = options.family("eval", TRANSCRIPTS, "Measure what views still hold.")

CassettePath = Annotated[Path | None, options.path("FILE", "Replies. Default: in --out.", "--cassette")]
_SHARE = option("X", "Share of the log before views. Default: 1.", show_default=False, min=0.01, max=1)
DOING = {"forecast": "Pricing", "replay": "Repeating", "record": "Recording"}  # by the mode of a cassette
Junit = Annotated[Path | None, options.path("FILE", "Write the results as JUnit XML too.")]


@dataclass(frozen=True, kw_only=True)
class RecordOptions(ModelOptions):
    """Options of a command whose models are asked through a cassette."""

    max_calls: Annotated[int | None, option("N", "Stop after N calls; run again to go on.", min=0)] = None
    yes: options.Yes = False

    def recorded(
        self, file: Path, models: Sequence[Settings], work: Callable[[evals.Cassette], T], proposals: int = 0
    ) -> T | Result:
        """Return what `work` comes to with the replies in `file`, once the rest is priced; in a dry run, that price."""
        for model in () if self.dry_run or file.exists() else models:  # a missing key is said before all is priced
            make_model(model, read_only=False)
        priced_work = evals.cassettes.PricedWork(file, models, work)
        first, *others = priced_work.spent
        expected = first.with_proposals(proposals) + sum(one.calls for one in others)
        most = expected + expected // 4 + 5 if self.max_calls is None else self.max_calls
        if self.dry_run:
            return priced(priced_work.spent, proposals, most)
        if (done := priced_work.replayed(follows=proposals > 0)) is not None:
            return done
        output.tell("\n".join(map(plain, evals.cassettes.price_lines(priced_work.spent, proposals, most))))
        try:
            for model in models:
                make_model(model, read_only=False)
        except SettingsError as error:
            lacking = f"{file} lacks replies for this prompt, these settings and these logs: record them"
            raise SettingsError(f"{lacking}; {error}") from error
        output.confirm("Send these requests?", self.yes, "sent")
        with output.progress("calls", min(most, expected)) as update:
            try:
                done = priced_work.record(most, update)
            except KeyboardInterrupt:
                raise typer.Abort("replies are kept, run it again to go on") from None
        for one in priced_work.spent:
            output.tell(plain(f"Recorded with {one.words('{:,} calls')}"))
        return done


def priced(spent: Sequence[evals.cassettes.Spent], proposals: int = 0, most: int | None = None) -> Result:
    """Return calls, tokens and price of what is not recorded yet."""
    *lines, remark = evals.cassettes.price_lines(spent, proposals, most)
    document = evals.cassettes.price_document(spent, proposals, most)
    return Result(document, ["Nothing is sent.", *map(plain, lines), dim(remark)])


@command(_EVAL)
def run(
    sources: Annotated[list[str], argument("SOURCE", "Logs, real, beam:PATH, locomo:PATH.", parser=options.read_place)],
    *,
    budget: options.Budget = None,
    arms: Annotated[str | None, option("A[,B]", "ours, extractive, tail, masking, cliff.")] = None,
    fail_under: Annotated[str | None, option("A=X", "Fail unless reached, as held=0.6,laws=0.")] = None,
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
    started, names, dataset = time.perf_counter(), listed(arms), evals.Dataset.load(*sources, format=own.format)
    is_marked = dataset.recording is not None
    gates = evals.report.read_bounds(fail_under or "", is_marked=is_marked, where="--fail-under")  # first
    if is_marked:
        if any((own.config, own.prompts, own.summarizer, own.model)):
            raise InputError("recorded answers belong to their own settings; `tune` compares prompts on these sessions")
        chosen, views = [evals.Arm(name) for name in names], ""
    else:
        settings = own.load(max_tokens=budget)
        views = f" in {settings.max_tokens:,} tokens"
        made = {"ours": settings, "extractive": replace(settings, summarizer="extractive", model=None)}
        names = names or ["ours", "tail", "masking"]
        names = names if names[0] in made else ["ours", *(name for name in names if name != "ours")]
        chosen = [evals.Arm(name, made.get(name)) for name in names]
    file, jobs = cassette or out / "replies.jsonl", jobs or os.cpu_count() or 1
    measured = evals.Run(dataset=dataset, arms=chosen, cassette=file, jobs=jobs)

    def measure(replies: evals.Cassette | None) -> evals.Report:
        logs, doing = len(dataset.logs), "Measuring" if replies is None else DOING[replies.mode]
        with output.progress("sessions", logs, f"{doing} {counted(logs, 'session')}{views}.", measured.plays) as update:
            return measured.report(replies, update)

    if own.dry_run and not measured.models:
        raise InputError("--dry-run: without a model nothing is sent; name one with --model")
    report = own.recorded(file, measured.models, measure) if measured.models else measure(None)
    return report if isinstance(report, Result) else shown(report, out, started, gates, junit)


@command(_EVAL)
def compare(
    old: Annotated[Path, argument("OLD", "Folder or report.json of an earlier run.", parser=options.read_path)],
    new: Annotated[Path, argument("NEW", "A later run of the same logs.", parser=options.read_path)],
    max_drop: Annotated[float | None, option("N", "Points that a score may fall, sure or not.", min=0)] = None,
    junit: Junit = None,
) -> Result:
    """Compare two runs on the same logs, question by question. Exit status 1 if the new one is surely worse.

    Sure is a change whose interval over at least five sessions leaves out zero, and any more broken laws. With fewer
    sessions give --max-drop.

    Examples:
        eval compare main-report/ eval-report/ --junit compare.xml --max-drop 5
    """
    before, after, changes = evals.Report.read(old), evals.Report.read(new), list[dict[str, Any]]()
    results, least = list[tuple[str, str, str, bool | None]](), evals.report.MIN_SESSIONS
    for arm, what, change, worse in after.compare(before):
        words = f"{change.mean:+,.0f} broken" if what == "laws" else evals.report.in_words(change)
        bound = max_drop if what in after.metrics else None
        is_bad = worse or (bound is not None and -100 * change.mean > bound)
        can_tell = change.has_ends or what == "laws" or bound is not None
        results.append((arm, what, words, is_bad if can_tell else None))
        changes.append({"arm": arm, "what": what, "change": change.document, "worse": is_bad, "words": words})
    rows = [(*named, Text(words, "bold red" if is_bad else "")) for *named, words, is_bad in results]
    evals.report.write_junit(junit, "eval compare", results)
    verdict, is_worse = "The new run is not surely worse.", any(is_bad for *_, is_bad in results)
    if is_worse:
        is_sure = any(worse for *_, worse in after.compare(before))
        verdict = "The new run is surely worse." if is_sure else f"A score fell by more than {max_drop:g} points."
    elif not any(change["change"]["has_ends"] for change in changes):
        verdict = f"Too few sessions to tell whether the new run is worse; at least {least} are needed."
    shown = table("New against old", ("arm", "what", "change"), rows, fold=True), verdict
    document = {"worse": is_worse, "verdict": verdict, "changes": changes}
    return Result(document, shown, Status(is_worse), [*map(plain, after.differences(before))])


@command(_EVAL)
def ask(
    log: Annotated[Path, argument("LOG", "A transcript with one session.", parser=options.read_path)],
    *,
    judge_model: Annotated[str | None, option("M", "Answers and marks; not --model.")] = None,
    budget: options.Budget = None,
    share: Annotated[float, _SHARE] = 1.0,
    questions: Annotated[int | None, option("N", "Questions to write. Default: 20.", min=1, max=60)] = None,
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
    started, chosen = time.perf_counter(), listed(arms) or ["ours", "extractive", "compact", "tail"]
    if log.is_dir():
        raise InputError(f"LOG: {plain(log)} is a folder; questions are asked about one log at a time")
    found = read_session(log, format=own.format)
    if not found.messages:
        raise holds_no_message(log, own.format)
    for line in output.told_lines(found.unreadable):
        output.tell(line)
    settings = own.load(sends=True, max_tokens=budget, call_timeout=300.0)  # for a long log, and all that is marked
    if judge_model in (None, settings.model):
        raise InputError("--judge-model: name another model than the one that asks: it marks the answers")
    judge, tokens = replace(settings, model=judge_model), int(settings.max_tokens)

    def answer(replies: evals.Cassette) -> bool | None:
        with TemporaryDirectory() as scratch, output.progress("logs", 1, "", 2):
            to = Path(scratch) if replies.mode == "forecast" else out
            messages = [replies.scrub(message) for message in found.messages]
            recording = evals.datasets.with_own_case(out, log, messages, cut=share, budget=tokens, own=settings, to=to)
            held = len(recording.at(recording.cases[0]).questions)
            if replies.mode == "forecast" and held and questions not in (None, held):
                output.tell(f"--questions: the {held} that {plain(out)} holds are asked; for others name another --out")
            anyio.run(evals.run.record, recording, replies, settings, judge, chosen, questions or 20)
        return None if replies.mode == "forecast" else True  # nothing was written

    if isinstance(result := own.recorded(out / "cassette.jsonl", [settings, judge], answer), Result):
        return result
    return shown(evals.Run(dataset=evals.Dataset.load(out), jobs=os.cpu_count() or 1).report(), out, started)


def score_tables(report: evals.Report, gates: Sequence[evals.report.Gate] = (), marked: str = "") -> dict[str, Table]:
    """Return the tables of a report by their titles. Intervals stand behind figures. Where a terminal has no room for
    all columns, those of least weight are left to the page."""
    found, colours = dict[str, Table](), {marked: "bold green", "passed": "green", "failed": "bold red"}
    for title, (heads, rows) in report.tables(gates).items():
        with_ends = range(1, 3) if title == "Arms" else range(6 if len(heads) < 6 else 1)
        columns = [[plain(name, 24)] for name in heads]
        for at, (column, cells) in enumerate(zip(columns, zip(*rows, strict=True), strict=True)):
            column += [f"{text} ({ends})" if ends and at in with_ends else text for text, ends in cells]
        for name in ("dropped", "laws", "evidence", "cost", "$ for 1M", "tokens") if title == "Arms" else ():
            if sum(max(map(len, column)) + 2 for column in columns) > output.screen().width:
                columns = [column for column in columns if column[0] != name]
        (first, *figures), *lines = zip(*columns, strict=True)
        texts = ([Text(plain(one, 60), colours.get(one, "")) for one in line] for line in lines)
        named = (first, *(name if title == "Gates" else f"#{name}" for name in figures))
        found[title] = table("" if title == "Arms" else title, named, texts, fold=title == "Gates")
    return found


def shown(
    report: evals.Report, out: Path, started: float, gates: dict[str, float] | None = None, junit: Path | None = None
) -> Result:
    """Write the reports of a run and return its result."""
    checked = report.check(gates or {})
    page, broken, asked = report.write(out, checked), report.figure(report.first, "laws"), len(report.asked)
    parts: list[RenderableType] = [plain(report.verdict), *score_tables(report, checked).values()]
    others = [f"{one.case} {one.arm}: {one.reading}" for one in report.views if one.reading not in ("", "this view")]
    if report.made_by:
        of = len(report.views)
        parts.append(f"For {of - len(others):,} of {of:,} views the answers belong to exactly this view.")
    parts += [plain(f"Others: {', '.join(others[:12])}{', …' if len(others) > 12 else ''}.")] if others else []
    parts += [f"{report.missing:,} requests have no recorded reply."] if report.missing else []
    parts.append(dim("cost: tokens that a model reads and writes for 1,000 tokens of history. laws: broken ones."))
    took = f"{asked:,} questions about {counted(len({one.session for one in report.asked}), 'session')}"
    parts.append(f"{took}, in {time.perf_counter() - started:.0f} s. Each with what every view said: {page}")

    # The exit status: gates, laws where no gate is about them, and whether anything was measured.
    tests: list[Any] = [("gates", one.name, one.words, not one.passed) for one in checked]
    if "laws" not in (gates or {}):
        tests.append(("laws", report.first, f"{broken or 0:.0f} broken", bool(broken)))
    tests.append(("questions", "something was measured", f"{asked:,} questions", not asked))
    tests += [("left out", *one.partition(": ")[::2], None) for one in report.left_out]
    evals.report.write_junit(junit, "eval run", tests)
    status = Status.LAW_BROKEN if any(bad for *_, bad in tests) else Status.OK
    return Result(report.document(checked), parts, status, output.told_lines(report.left_out, notes=report.notes))


@command(TRANSCRIPTS)
def tune(
    logs: Annotated[list[str], argument("LOGS", "Sources as `eval run` takes them.", parser=options.read_place)],
    *,
    prompt: Annotated[list[Path] | None, options.path("PATH", "A prompt to try; repeatable.", "--prompt")] = None,
    propose: Annotated[int, option("N", "Prompts that the model writes.", min=0, max=1_000)] = 0,
    optimizer: Annotated[Literal["model", "gepa"], option("NAME", "What proposes: model or gepa.")] = "model",
    budget: options.Budget = None,
    held_out: Annotated[float, option("X", "Share to judge by only, 0.1 to 0.9.", min=0.1, max=0.9)] = 0.5,
    judge_model: Annotated[str | None, option("M", "Compares right answers, where logs have any.")] = None,
    cassette: CassettePath = None,
    out: options.ReportFolder = Path("tune-report"),
    write: Annotated[Path | None, options.path("DIR", "For the winner. Default: prompts in --out.")] = None,
    own: RecordOptions,
) -> Result:
    """Compare prompts on your own transcripts.

    Show the summaries that changed most, and a verdict. The price is shown first; replies are kept, so a run that
    stopped goes on, and a finished one is repeated without a key. A winner is written as a prompt file.

    Examples:
        tune logs/ --model gpt-5.4-mini --prompt mine.md
    """
    started, least = time.perf_counter(), evals.report.MIN_SESSIONS
    settings = own.load(sends=True, max_tokens=budget)
    number = propose or (20 if optimizer == "gepa" else 0)
    if not prompt and not number:
        raise InputError("say what to try: prompt files with --prompt, or --propose N to have the model write some")
    start, *tries = evals.tune.read_variants(prompt or (), settings.prompts)
    if start.prompts:
        known = ", ".join(f"{one.name}/v{one.version}" for one in start.prompts)
        output.tell(f"start: {known} of {plain(settings.prompts)}, not the shipped prompts")
    for one in tries:
        if all(one.prompt(purpose).text == start.prompt(purpose).text for purpose in evals.tune.SUMMARIES):
            output.tell(f"{plain(one.name)}: the same text as {start.name}, so all replies will be equal")
    dataset = evals.Dataset.load(*logs, format=own.format)
    judge = None if judge_model is None else replace(settings, model=judge_model, call_timeout=300.0)
    proposer = evals.tune.propose_by_gepa if optimizer == "gepa" else evals.tune.propose_by_model
    held = held_out if len(tries) > 1 or number else 0.0
    if not held and held_out != 0.5:
        output.tell("--held-out: of one prompt nothing is chosen, so all sessions judge it")

    def measure(replies: evals.Cassette) -> tuple[evals.tune.Trial, evals.Report]:
        proposed = partial(proposer, number=number) if number and replies.mode != "forecast" else None
        count = 1 + len(tries) + (number if proposed else 0)
        trial = evals.tune.Trial(dataset, start, settings, replies, held_out=held)
        judges = len({log.session for log in trial.judging.logs})
        if replies.mode == "forecast" and judges < least:  # before anything is paid for
            few = f"judged by {judges} of {counted(len(dataset.logs), 'session')}: fewer than {least}"
            output.tell(f"{few} tell no sure difference" + ("; all judge a single --prompt" if held else ""))
        doing = f"{DOING[replies.mode]} {counted(count, 'prompt')} in views of {settings.max_tokens:,} tokens."
        with output.progress("replays", trial.replays(count), doing, 1) as trial.watch:
            return trial, evals.tune.tune(trial, tries, proposed, judge)

    done = own.recorded(cassette or out / "replies.jsonl", [*filter(None, (settings, judge))], measure, number)
    if isinstance(done, Result):
        return done
    trial, report = done
    page, tuning = report.write(out), report.tuning
    assert tuning is not None
    winner = trial.variants[tuning.winner]
    written = [] if winner is start else winner.write(write or out / "prompts")
    proposed = {name for name in trial.variants if name.startswith("proposal ")}
    for name in proposed:  # also those that do not win
        trial.variants[name].write(out / "proposals" / name.removeprefix("proposal "))

    # The difference of prompts, the summaries that changed most, right answers, length, price, verdict.
    colours = {"+": "green", "-": "red", "@": "dim"}
    parts: list[RenderableType] = [Text(plain(line), colours.get(line[:1], "")) for line in tuning.diff[:60]]
    parts += [dim(f"… {counted(len(tuning.diff) - 60, 'more line')}")] if len(tuning.diff) > 60 else []
    for pair in tuning.pairs[:2]:  # two summaries of the same messages, each with what it keeps and loses, and those
        heads, cells, title = ["source"], [], plain(f"{pair.session}, messages {pair.start} to {pair.stop - 1}")
        sides = ("old", pair.old_keeps, pair.new_keeps), ("new", pair.new_keeps, pair.old_keeps)
        for name, keeps, others in sides:  # what only the other keeps comes first
            lost = sorted((one for one in pair.needed if one not in keeps), key=lambda one: one not in others)
            heads.append(f"{name}: keeps {len(keeps)} of {len(pair.needed)} values needed later")
            heads[-1] += f"; loses {plain(', '.join(lost), 90)}" if lost else ""
        for text, most in ((pair.source, 8), (pair.old, 14), (pair.new, 14)):
            lines = [plain(line, 300) for line in text.splitlines() if line.strip()]
            more = [f"… {counted(len(lines) - most, 'more line')}"] if len(lines) > most else []
            cells.append(Text("\n".join([*lines[:most], *more])))
            cells[-1].highlight_words(pair.needed, "bold", case_sensitive=False)
        parts += [table(title, heads[1:], [cells[1:]], fold=True), table("", heads[:1], [cells[:1]], fold=True)]
    parts += score_tables(report, marked=tuning.winner).values()
    parts.append(dim("dropped: lines taken out of replies. $ for 1M: price of the summaries of 1M tokens of history."))
    if judge is None:
        parts.append(dim("Right answers are compared where `eval ask` has recorded some, with --judge-model."))
    parts.append(Text(plain(report.verdict), "bold"))
    parts += [f"Not written: {tuning.why}."] if tuning.why else []
    ahead = report.ahead(tuning.new, tuning.old)
    is_sure = (ahead is None or ahead.has_ends) and not 0 < len(tuning.chosen_on) < least
    few = "" if is_sure else ", although too few sessions to be sure"
    parts += [f"Written{few}: {path}. Use it with Settings(prompts={str(path.parent.parent)!r})." for path in written]
    parts += [f"Each proposal is a folder for Settings(prompts=...): {out / 'proposals'}"] if proposed else []
    took = f"{counted(len(tuning.tried), 'variant')} in {time.perf_counter() - started:.0f} s"
    parts.append(f"{took}. Everything side by side: {page}")
    remarks = [f"a proposal was refused: {plain(why)}" for why in trial.refused]
    document = {**report.document(), "written": [str(path) for path in written]}
    status = Status.LAW_BROKEN if tuning.new == tuning.old else Status.OK  # nothing was tried
    return Result(document, parts, status, [*remarks, *output.told_lines(report.left_out, notes=report.notes)])


_PROMPTS = options.family("prompts", TRANSCRIPTS, "Show prompts, what they cost, and how they are sent.")
_Name = Annotated[str, argument("NAME", "segment/v3, or segment for the newest version.")]


@command(_PROMPTS, name="list")
def list_prompts(prompts: options.PromptsPath = None) -> Result:
    """List all prompts with the tokens that their fixed text costs in every request."""
    root = _root(prompts)
    found = [_described(load(name, root=root)) for name in names(root)]
    rows = [{**one, "hash": one["hash"][:12], "about": dim(one["about"])} for one in found]
    columns = {"purpose": "purpose", "#version": "version", "#tokens": "fixed_tokens", "hash": "hash", "about": "about"}
    shown = table("Prompts", columns, rows, wide="about")
    shown.caption = f"tokens of the fixed text, counted by {ESTIMATE}"
    return Result({"token_counter": ESTIMATE, "prompts": found}, [shown])


@command(_PROMPTS)
def show(name: _Name, prompts: options.PromptsPath = None) -> Result:
    """Show the whole text of one prompt; what it is for and costs goes to standard error.

    Examples:
        prompts show segment > mine.md
    """
    about = _described(prompt := find(name, _root(prompts)))
    told = [plain(f"{about['name']}: {about['about']} {about['fixed_tokens']} tokens by {ESTIMATE}.")]
    whole = {"placeholders": sorted(prompt.placeholders), "text": prompt.text}
    return Result({**about, "token_counter": ESTIMATE, **whole}, [prompt.text], remarks=told)


@command(_PROMPTS)
def render(
    name: _Name,
    transcript: Annotated[Path, argument("TRANSCRIPT", "One of any known format.", parser=options.read_path)],
    format: options.TranscriptFormat = "auto",
    number: Annotated[int, option("N", "Number of the segment or merge.", min=1)] = 1,
    prompts: options.PromptsPath = None,
) -> Result:
    """Show the exact request that a prompt is sent with for a real segment or merge.

    Nothing is sent. Messages are cut into segments as a session with a budget of 16,000 tokens cuts them.

    Examples:
        prompts render segment run.jsonl
    """
    from summarizing_context.testing import ScriptedSummarizer

    prompt, found = find(name, _root(prompts)), read_session(transcript, format=format)
    model = ScriptedSummarizer(evals.cassettes.assumed_summary)
    with output.progress("messages", 1, f"Replaying {counted(len(found.messages), 'message')}.", 1):
        anyio.run(evals.views.play, found.messages, (), Settings.load(start_at=0.0, max_tokens=16_000), model)
    jobs = sorted((job for job in model.jobs if job.kind == prompt.name), key=lambda job: (job.rank, job.start))
    if number > len(jobs):
        few = f"this log makes {len(jobs)} such requests; give --number up to that, or take another log or purpose"
        raise InputError(f"number {number} of {prompt.name}: {few}")
    job, named = jobs[number - 1], f"{prompt.name}/v{prompt.version}"
    slots = {"system": prompt.render(max_tokens=job.max_tokens), "user": fenced(job)}
    about = {name: getattr(job, name) for name in ("rank", "start", "stop", "max_tokens")}
    shown: list[RenderableType] = [f"{named} for messages {job.start}–{job.stop - 1}, number {number} of {len(jobs)}"]
    for slot, text in slots.items():
        shown += [Text(f"── {slot}, {estimate_text(text):,} tokens by the built-in estimate", style="bold"), text]
    document = {"prompt": named, **about, "number": number, "among": len(jobs), **slots}
    return Result(document, shown, remarks=output.told_lines(found.unreadable))


def _described(prompt: Prompt) -> dict[str, Any]:
    known = {"name": f"{prompt.name}/v{prompt.version}", "purpose": prompt.name, "version": prompt.version}
    tokens = estimate_text(evals.tune.fixed_text(prompt))
    return {**known, "about": prompt.purpose, "fixed_tokens": tokens, "hash": prompt.hash}


def _root(folder: Path | None) -> Any:
    """Return the user's folder of prompts, or that of the shipped ones. Raise `InputError`."""
    if folder is not None and not (folder.is_dir() and names(folder)):
        raise InputError(f"--prompts: {folder} is not a folder that holds a prompt, such as segment/v1.md")
    return folder or prompts_root()
