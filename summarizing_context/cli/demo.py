"""`summarizing-context demo`: a long session, its views kept inside a small budget, and what they still know."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from summarizing_context.cli.output import (
    JsonPath,
    Status,
    facts,
    help_text,
    notices,
    number,
    plain,
    progress_bar,
    read_tokens,
    screen,
    table,
    verdict,
    write_json,
)

if TYPE_CHECKING:
    from summarizing_context.evaluation.demo_session import DemoReport, Moment
    from summarizing_context.settings.values import Settings

_EXAMPLES = """[bold]Examples[/bold]

summarizing-context demo

summarizing-context demo --budget 8k    [dim]# the same session in half the room[/dim]

summarizing-context demo --keep demo.db    [dim]# to look into it afterwards[/dim]
"""


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("demo", help=help_text(demo), epilog=_EXAMPLES)(demo)


def demo(
    budget: Annotated[str, typer.Option(metavar="N", help="Tokens that a view may use, such as 16000 or 16k.")] = "16k",
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FILE", help="Leave the session in this SQLite file.")
    ] = None,
    json_path: JsonPath = None,
) -> int:
    """Watch a long agent session stay inside a small budget.

    The session comes with the package: some 500 messages and 170,000 tokens of coding and operations work, with
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
        for shown in (_what_happened(report), _what_is_found(report)):
            console.print(shown)
        if keep is not None:
            console.print(
                f"Kept: summarizing-context view {report.session_id} --store {keep} --budget {budget} --explain",
                markup=False,
            )
    broken = report.tally.broken_laws()
    return Status.LAW_BROKEN if broken else Status.REFUSED if report.tally.refused_views else Status.OK


def _play(settings: Settings) -> DemoReport:
    import anyio

    from summarizing_context.evaluation.demo_session import demo_session, play_demo

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
    tally, figures = report.tally, report.tally.figures()
    reasons = ", ".join(f"{count} {reason}" for reason, count in report.activations_by_reason.items())
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
    title = "What a question about the past still finds in the last view"
    made = table(title, "question", "found", "where", "words", wide="words")
    for finding in report.findings:
        found = ("yes", "green") if finding.found else ("part", "yellow") if finding.parts else ("no", "bold red")
        words = Text(plain(finding.words), style="dim")
        words.highlight_words(finding.answer, "not dim bold")
        made.add_row(finding.question, Text(*found), ", ".join(finding.parts) or "–", words)
    return made
