"""`summarizing-context demo`: a long session, its views kept inside a small budget, and what they still know."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from summarizing_context.cli.options import JsonPath, read_path, read_tokens
from summarizing_context.cli.output import (
    Status,
    dollars,
    examples,
    facts,
    help_text,
    notices,
    number,
    plain,
    progress_bar,
    screen,
    shell_line,
    table,
    verdict,
    write_json,
)

if TYPE_CHECKING:
    from summarizing_context.evaluation.demo import DemoReport, Moment
    from summarizing_context.settings.values import Settings

_EXAMPLES = examples(
    "demo",
    "demo --budget 8k    # the same session in half the room",
    "demo --keep demo.db    # to look into it afterwards",
)


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("demo", help=help_text(demo), epilog=_EXAMPLES)(demo)


def demo(
    budget: Annotated[str, typer.Option(metavar="N", help="Tokens that a view may use, such as 16000 or 16k.")] = "16k",
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="FILE", parser=read_path, help="Keep the session in this SQLite file."),
    ] = None,
    json_path: JsonPath = None,
) -> int:
    """Watch a long agent session stay inside a small budget.

    The session comes with the package: some 500 messages and 170,000 tokens of coding and operations work. It has
    parallel calls, two standing rules, a value that is superseded, an error and its fix. The extractive summarizer
    is used: no key, no network. Before each answer of the agent a view is taken, and nothing ever waits.
    """
    from summarizing_context.settings.values import Settings

    settings = Settings(store=keep or ":memory:", summarizer="extractive", max_tokens=read_tokens(budget))
    report = _play(settings)
    if json_path is not None:
        write_json(json_path, report.document())
    if json_path != "-":
        console = screen()
        console.print(_what_happened(report))
        console.print(_what_is_found(report))
        console.print(_totals(report), "", _what_it_saved(report), sep="\n")
        console.print(_what_next(report, keep, budget), markup=False, highlight=False, soft_wrap=True)
    broken = report.tally.broken_laws()
    return Status.LAW_BROKEN if broken else Status.REFUSED if report.tally.refused_views else Status.OK


def _play(settings: Settings) -> DemoReport:
    import anyio

    from summarizing_context.evaluation.demo import demo_session, play_demo

    messages, budget = demo_session(), settings.max_tokens
    if not notices().is_terminal:
        notices().print(f"Replaying the demo session: {len(messages)} messages, {budget:,} tokens a view.")
    with progress_bar("messages", markup=True) as bar:
        task = bar.add_task("demo", total=len(messages), words="")

        def watch(now: Moment) -> None:
            bar.update(task, completed=now.messages, words=_moment(now, budget))

        return anyio.run(partial(play_demo, messages, settings, budget, watch=watch))


def _moment(now: Moment, budget: int) -> str:
    filled = min(10, round(10 * now.view_tokens / budget))
    gauge = "▰" * filled + "▱" * (10 - filled)
    return f"view {gauge} {now.view_tokens:>6,} of {budget:,}   [cyan]{now.summaries_ready}[/] summaries"


def _what_happened(report: DemoReport) -> Table:
    from summarizing_context.views.activation import REASON_WORDS

    tally, figures = report.tally, report.tally.figures()
    reasons = ", ".join(f"{count} {REASON_WORDS[reason]}" for reason, count in report.activations_by_reason.items())
    history = f"{number(tally.history_tokens)} tokens, counted by {report.token_counter}"
    rows: list[tuple[str, str | Text, str]] = [
        ("messages", number(tally.messages), history),
        ("views", number(tally.views), "one before each answer of the agent"),
        ("mean view", number(round(figures["mean_view_tokens"])), "tokens"),
        ("largest view", number(tally.max_view_tokens), f"tokens, of {number(tally.budget)} allowed"),
        ("views over budget", verdict(tally.over_budget_views), ""),
        ("views a provider would refuse", verdict(tally.tool_unsafe_views), "a call parted from its result"),
        ("views out of order", verdict(tally.out_of_order_views), ""),
        ("views that hide the newest message", verdict(tally.newest_missing_views), ""),
        ("views refused", verdict(tally.refused_views), "no room for the system rows"),
        ("tokens that nobody has read", verdict(tally.unseen_tokens), "of what has left the view"),
        ("waited for a model", verdict(report.waited_views), f"the slowest view took {report.slowest_ms:.1f} ms"),
        ("summaries made", number(report.summaries), "in the background"),
        ("activations", number(tally.activations), reasons or "the whole session fits"),
        ("other breaks of the prefix", verdict(tally.append_only_breaks), "so a provider's prompt cache keeps hitting"),
        ("prefix reused", f"{figures['prefix_hit']:.1%}", "of all view tokens"),
    ]
    return facts("What happened", rows)


def _what_is_found(report: DemoReport) -> Table:
    """Each question, with and without this package, and the words that answer it."""
    made = table("What the last view still answers", "question", "view", "newest", "answer", wide="answer")
    made.columns[-1].no_wrap, made.columns[-1].overflow = False, "fold"
    for one in report.findings:
        made.add_row(one.question, _mark(one.found), _mark(one.without), Text(plain(one.words), style="dim"))
    return made


def _mark(found: bool) -> Text:
    return Text("yes", "green") if found else Text("no", "bold red")


def _totals(report: DemoReport) -> str:
    of, found = len(report.findings), sum(one.found for one in report.findings)
    without = sum(one.without for one in report.findings)
    free = (report.tally.budget or 0) - report.last_view_tokens
    told = f"view: {found} of {of}. newest: {without} of {of}, with the newest messages alone, in as many tokens."
    room = f"{number(free)} tokens are free for the next messages: a view grows by appending until it is nearly full."
    return f"{told}\n{room}\nWhat a view leaves out stays in the log: 'recall' and 'search' find it."


def _what_it_saved(report: DemoReport) -> Table:
    from summarizing_context.evaluation.demo import PRICED_MODEL

    sent, whole = report.sent, report.whole
    calls = report.tally.model_calls
    rows: list[tuple[str, str | Text, str]] = [
        ("tokens sent", number(sent.tokens), f"{number(whole.tokens)} with the whole history in each request"),
        ("saved", f"{1 - sent.tokens / max(whole.tokens, 1):.0%}", "of the tokens"),
        ("model calls for summaries", number(calls), "no key, no network" if not calls else ""),
        ("price of the input", dollars(sent.dollars), f"{dollars(whole.dollars)} with the whole history"),
        ("", "", f"at {PRICED_MODEL}'s list price, with its prompt cache"),
    ]
    return facts("What it saved", rows)


def _what_next(report: DemoReport, keep: Path | None, budget: str) -> str:
    store = keep or Path("demo.db")
    look = shell_line("view", report.session_id, "--budget", budget, "--explain", store=store)
    search = shell_line("recall", report.session_id, "What fixed the tide import", store=store)
    replay = "summarizing-context replay YOUR_LOG.jsonl"
    first = [] if keep else [f"summarizing-context demo --keep {shlex.quote(str(store))}"]
    return "\n".join(["What to type next", *(f"  {line}" for line in [*first, look, search, replay][:4])])
