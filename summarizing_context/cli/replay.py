"""Commands on transcripts: `demo` replays the one that is shipped, `replay` any others, `import` stores them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from rich.console import RenderableType
from rich.text import Text

from summarizing_context import transcripts
from summarizing_context.cli import options, output
from summarizing_context.cli.options import TRANSCRIPTS, command, listed, option, read_tokens
from summarizing_context.cli.output import InputError, Result, Status, counted, dim, dollars, mark, number, plain, table
from summarizing_context.errors import TranscriptError
from summarizing_context.settings import Settings, shown_store

if TYPE_CHECKING:
    from summarizing_context.evaluation.replay import Tally


_SKIPPED = "Skipped, being no messages"


@command(TRANSCRIPTS)
def demo(
    budget: options.Budget = 16_000,
    keep: Annotated[Path | None, options.path("FILE", "Keep the session in this SQLite file.")] = None,
) -> Result:
    """Watch a long agent session stay inside a small budget.

    The session comes with the package: some 500 messages and 170,000 tokens of coding and operations work. The
    extractive summarizer is used: no key, no network. Before each answer of the agent a view is taken.

    Examples:
        demo --keep demo.db
    """
    from summarizing_context.evaluation.replay import LAW_FIGURES, demo_session, play_demo
    from summarizing_context.views.view import REASON_WORDS

    if keep is not None and keep.exists():
        raise InputError(f"--keep: {plain(keep)} is there already; name a new file")
    settings = Settings(store=keep or ":memory:", session_id="demo", summarizer="extractive", max_tokens=budget)
    messages = demo_session()
    announced = f"Replaying the demo session: {len(messages)} messages, {budget:,} tokens a view."
    with output.progress("messages", len(messages), announced) as update:
        told = anyio.run(partial(play_demo, messages, settings, watch=update))

    # What happened, what is found with and without this package, what it saved, and what to type next.
    reasons = ", ".join(f"{count} {REASON_WORDS[reason]}" for reason, count in told["activations_by_reason"].items())
    reasons = reasons or ("the whole session fits" if told["views"] else "no view fits")
    bad = sum(told[name] for name in LAW_FIGURES), told["refused_views"]
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
        return Result(told, shown, _status(told))
    asked, columns = told["questions"], ("question", "view", "newest", "answer")
    marks = ([mark(one[key], "yes", "no") for key in ("found", "without")] for one in asked)
    answers = ((one["question"], *both, dim(one["words"])) for one, both in zip(asked, marks, strict=True))
    shown.append(table("What the last view still answers", columns, answers, wide="answer", fold=True))
    found, without = (f"{sum(one[key] for one in asked)} of {len(asked)}" for key in ("found", "without"))
    shown.append(f"view: {found}. newest: {without}, with the newest messages alone, in as many tokens.")
    free = number(budget - told["last_view_tokens"])
    shown.append(f"{free} tokens are free for the next messages: a view grows by appending until it is nearly full.")
    whole, whole_price = number(told["whole_history_sent_tokens"]), dollars(told["whole_history_dollars"])
    shown.append(output.facts("What it saved", [
        ("tokens sent", told["sent_tokens"], f"{whole} with the whole history in each request"),
        ("price of the input", dollars(told["dollars"]), f"{whole_price} with the whole history"),
        ("", "", f"at {told['priced_model']}'s list price, with its prompt cache"),
    ]))  # fmt: skip
    line = partial(output.shell_line, store=keep or Path("demo.db"))
    again = [] if keep else ["summarizing-context demo --keep demo.db"]
    looks = line("status", told["session"], "--budget", budget)
    asks = line("recall", told["session"], "What fixed the tide import")
    shown.append("\n  ".join(["What to type next", *again, looks, asks, "summarizing-context replay YOUR_LOG.jsonl"]))
    return Result(told, shown, _status(told))


def _status(total: dict[str, Any]) -> Status:
    """Return the exit status for the figures of what was replayed."""
    from summarizing_context.evaluation.replay import LAW_FIGURES

    is_broken = any(total[name] for name in LAW_FIGURES)
    return Status.LAW_BROKEN if is_broken else Status.REFUSED if total["refused_views"] else Status.OK


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
    from summarizing_context.cli.eval import priced
    from summarizing_context.evaluation.cassettes import Spent, prices_of
    from summarizing_context.evaluation.replay import LAW_FIGURES, TIMINGS, add_up, for_each, replay_file

    names = [name for text in strategy or () for name in listed(text)]
    variants = {one.strategy: one for one in (own.load(strategy=name) for name in names or (None,))}
    sizes = [read_tokens(one, "--budget") for text in budget or ["16k"] for one in text.split(",")]
    budgets, settings = tuple(dict.fromkeys(sizes)), next(iter(variants.values()))
    each = [replace(one, max_tokens=size) for one in variants.values() for size in budgets]
    if own.dry_run:
        own.need_model(settings)
    files = transcripts.find_transcripts(paths)
    size = sum(file.stat().st_size for file in files if file.is_file())
    jobs = jobs or min(os.cpu_count() or 1, 1 + size // 300_000)  # each process takes a second to start
    tallies, unreadable = list[Any](), list[TranscriptError]()
    doing = f"{counted(len(files), 'file')} at {', '.join(map(number, budgets))} tokens."
    doing = f"{'Dry run of' if own.dry_run else 'Replaying'} {doing}"
    with output.progress("files", len(files), doing) as update:
        for found in for_each(files, partial(replay_file, variants=each, format=own.format, dry_run=own.dry_run), jobs):
            if isinstance(found, TranscriptError):
                unreadable.append(found)
            else:
                tallies += found
            update(f"{sum(tally.counts['messages'] for tally in tallies):,} messages")
    if not tallies or not (unreadable or any(tally.counts["messages"] for tally in tallies)):
        raise [*unreadable, options.holds_no_message(files[0], own.format)][0]

    # Figures of each file, sums by strategy and budget, the total.
    same: dict[Any, list[Tally]] = {}
    for tally in tallies:
        same.setdefault((tally.strategy, tally.budget), []).append(tally)
    total, rows = add_up(tallies).figures(), [tally.figures() for tally in tallies]
    sums, status = [add_up(some).figures() for some in same.values()], _status(total)
    document = {"rows": rows, "totals": sums, "total": total, "timings": list(TIMINGS)}
    document["unreadable"] = [str(error) for error in unreadable]

    named = list[Any]()
    for row in (*rows, None, *sums):
        if row is not None:
            broken = [f"{row[law]:,} {law.replace('_', ' ')}" for law in ("refused_views", *LAW_FIGURES) if row[law]]
            file = f"{row['strategy']}: " * (len(variants) > 1) + Path(row["file"]).name
            row = {**row, "file": file, "broken": mark(not broken, "0", ", ".join(broken))}
            row |= {"hit": f"{row['prefix_hit']:.1%}", "mean": round(row["mean_view_tokens"])}
        named.append(row)
    columns = {"file": "file", "#budget": "budget"}
    if own.dry_run:
        columns |= {"#tokens": "history_tokens", "#calls": "model_calls", "#input": "model_input_tokens"}
        columns |= {"#output": "model_output_tokens"}
        spent = Spent(*(total[name] for name in ("model_calls", "model_input_tokens", "model_output_tokens")))
        asked: Any = priced(prices_of({f"{settings.summarizer}/{settings.model}": spent}, [settings]))
        document, shown, status = document | asked.document, asked.shown, Status.OK
    else:
        columns |= {"#broken laws": "broken", "#mean view": "mean", "#activ.": "activations"}
        columns |= {"#reused": "hit", "#uncached": "uncached_tokens", "#ms p99": "view_p99_ms"}
        tokens = f"{total['model_input_tokens']:,} tokens in, {total['model_output_tokens']:,} out"
        called = f"A model was called {total['model_calls']:,} times for summaries: {tokens}."
        moved = "activ.: how often a view moved on; reused: the share of it that a prompt cache holds."
        shown = [*map(dim, (moved, called, f"Tokens are counted by {total['token_counter']}."))]
        shown += _counts("Repairs", {kind.replace("_", " "): count for kind, count in total["repairs"].items()})
        shown += _counts(_SKIPPED, total["skipped"])
    shown.insert(0, table("Dry run" if own.dry_run else "Replayed", columns, named, wide="file"))
    status = Status.BAD_INPUT if unreadable and status != Status.LAW_BROKEN else status
    return Result(document, shown, status, output.told_lines(total["skipped_lines"], unreadable))


def _counts(title: str, counts: Mapping[str, int]) -> list[Text]:
    """Return a line of the most frequent counts by their kind; none for no counts."""
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    said = ", ".join(f"{count:,} {kind}" for kind, count in ranked[:6])
    return [dim(f"{title}: {said}{', and others' if len(ranked) > 6 else ''}.")] if ranked else []


@command(TRANSCRIPTS, "import")
def import_transcripts(
    paths: options.TranscriptPaths, place: options.Place, format: options.TranscriptFormat = "auto"
) -> Result:
    """Put the sessions of transcripts into a store.

    Each keeps its own name. A session that the store has already gets the messages that are new, and another session of
    that name a number. A file that cannot be read is named, and the others are imported; a path
    that is not there stops the command.

    Examples:
        import ~/.claude/projects --store logs.db
    """
    from summarizing_context.assembly import open_context

    settings, files = place.load(), transcripts.find_transcripts(paths)
    rows, unreadable = list[dict[str, Any]](), list[TranscriptError]()
    skipped, skipped_lines = Counter[str](), list[str]()

    async def import_log(log: transcripts.Transcript) -> None:
        wanted = re.sub(r"[^A-Za-z0-9._:-]+", "-", log.session_id)[:180] or "session"  # at most 200, with a number
        messages = list(log.messages)
        for copy in count(1):
            session_id = wanted if copy == 1 else f"{wanted}:{copy}"
            async with open_context(replace(settings, session_id=session_id)) as context:
                held = await context.get_messages()
                if messages[: len(held)] != held:
                    continue
                for message in messages[len(held) :]:
                    await context.add_message(message)
                row = {"session_id": session_id, "file": str(log.path), "format": log.format}
                rows.append({**row, "messages": len(context), "added": len(context) - len(held)})
                return

    with output.progress("files", len(files), f"Importing {counted(len(files), 'file')}.") as update:
        for path in files:
            try:
                logs = transcripts.read_named(path, format=format).values()  # all of it, before any session is changed
                for log in (log for log in logs if log.messages):
                    anyio.run(import_log, log)
                    skipped.update(log.skipped)
                    skipped_lines += log.unreadable
            except TranscriptError as error:
                unreadable.append(error)
            update(f"{counted(len(rows), 'session')}, {counted(sum(row['added'] for row in rows), 'new message')}")
    if not rows:
        raise [*unreadable, options.holds_no_message(files[0], format)][0]
    document = {"sessions": rows, "unreadable": [str(problem) for problem in unreadable]}
    document |= {"skipped": dict(sorted(skipped.items())), "skipped_lines": skipped_lines}
    columns = {"session": "session_id", "format": "format", "#messages": "messages", "#new": "added"}
    made = table(f"Imported into {plain(shown_store(settings.store))}", columns, rows, wide="session")
    status, remarks = Status.BAD_INPUT if unreadable else Status.OK, output.told_lines(skipped_lines, unreadable)
    return Result(document, [made, *_counts(_SKIPPED, skipped)], status, remarks)
