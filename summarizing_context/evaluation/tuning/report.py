"""The files of a run of tuning: JSON, Markdown, one HTML page, and the winner's parameters or prompts.

Equal runs give equal bytes. Names of variants and sessions are escaped. No existing file is overwritten by a winner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.errors import PromptError
from summarizing_context.evaluation import html
from summarizing_context.evaluation.html import Cell, Html
from summarizing_context.evaluation.outcomes import DRAWS, Interval, indented
from summarizing_context.evaluation.report import markdown_text
from summarizing_context.evaluation.tuning.trials import QUALITY_MEANING
from summarizing_context.evaluation.tuning.tuner import LEAST_SESSIONS, Figures, Tried, TuneOutcome
from summarizing_context.evaluation.tuning.variants import Variant
from summarizing_context.stores.private_files import make_private_folder, open_private, write_private
from summarizing_context.summarizers.extractive.parameters import (
    SHIPPED,
    write_parameters,
)
from summarizing_context.summarizers.prompts import Prompt, names, write_prompt


def headline(run: TuneOutcome) -> list[str]:
    """The sentences that matter, the most important first."""
    verdict, lines = run.verdict, []
    if run.winner == run.start:
        lines.append("Nothing that was tried is better than the start on the sessions that were tuned on.")
    elif verdict.gain is not None:
        sure = "surely" if verdict.is_sure else "not surely"
        lines.append(f"On held-out sessions the winner is {sure} better than the start: {_change(verdict.gain)}.")
        if verdict.gain.sessions < LEAST_SESSIONS:
            many = "session is" if verdict.gain.sessions == 1 else "sessions are"
            lines.append(f"{verdict.gain.sessions} held-out {many} too few to be sure of anything; give more.")
    if run.winner != run.shipped and run.start != run.shipped and verdict.gap is not None:
        lines.append(f"The shipped figures are ahead of the start by {_change(verdict.gap)} there.")
        if verdict.recovered is not None:
            lines.append(f"Tuning regained {_share(verdict.recovered)} of that.")
        else:
            lines.append("The gap is not significant, so no share is reported.")
    if verdict.wanted:
        passed = "does not hold" if verdict.failed else "holds"
        lines.append(
            f"The claim {passed}: at least {verdict.wanted:.0%} regained, and a gain whose interval excludes zero."
        )
    lines.append(f"It ended because {run.stopped}.")
    return lines


def _change(interval: Interval) -> str:
    return f"{interval.mean:+.4f} [{interval.low:+.4f}, {interval.high:+.4f}]"


def _share(interval: Interval) -> str:
    return f"{interval.mean:.0%} [{interval.low:.0%}, {interval.high:.0%}]"


HTML, MARKDOWN, JSON = "tune.html", "tune.md", "tune.json"
_TITLES = {"used": "hindsight retention", "literals": "literal retention"}


def write_reports(run: TuneOutcome, folder: Path) -> None:
    """All of them."""
    make_private_folder(folder)
    write_private(folder / HTML, page(run))
    write_private(folder / MARKDOWN, "\n".join(_markdown(run)) + "\n")
    write_private(folder / JSON, indented(document(run)))


def document(run: TuneOutcome) -> dict[str, Any]:
    """The run as JSON values."""
    found: dict[str, Any] = msgspec.to_builtins(run)
    return {**found, "failed": run.verdict.failed, "headline": headline(run)}


def page(run: TuneOutcome) -> str:
    """The whole page of a run of tuning."""
    words = f"Intervals: {DRAWS:,} draws of sessions, seeded. Tokens by the built-in estimate."
    parts = [
        html.tag("h1", f"Tuning: {run.suite}", *_badge(run)),
        html.soft(run.claim, "p"),
        *_side_by_side(run),
        *_top(run),
        html.section("Variants", _table_words(run), _table(run)),
        html.section("What changed in the winner", "Against the start.", _changes(run)),
        html.section("Sessions", "Split by session, never by question.", *_sessions(run)),
        html.tag("footer", html.tag("p", words)),
    ]
    return html.page(f"Tuning: {run.suite}", parts)


def _table_words(run: TuneOutcome) -> str:
    return (
        f"Quality is {QUALITY_MEANING}, at equal tokens of a view. Cost is counted in {run.cost}. Variants were chosen "
        "by the sessions tuned on alone. The held-out ones were looked at when the search was over, for the start, the "
        "shipped figures, the winner and the last steps that were taken before it. Means over sessions, 95 % intervals."
    )


_PAIRS_WORDS = (
    "Summaries of the same messages in held-out sessions, those that differ in most words. Values are needed later if "
    "a tool call uses them, or a labelled question asks for them."
)


def pairs_title(run: TuneOutcome) -> str:
    """Which variants' summaries stand side by side."""
    name = "the winner" if run.paired == run.winner else f"{run.at(run.paired).name}, which lost"
    return f"What changed most: the start beside {name}"


def _side_by_side(run: TuneOutcome) -> Iterator[Html]:
    def card(name: str, text: str, kept: str) -> Html:
        return html.card(html.tag("h3", name), html.tag("p", kept), html.quote(text))

    if run.pairs:
        yield html.joined(html.tag("h2", pairs_title(run)), html.soft(_PAIRS_WORDS, "p"))
    for pair in run.pairs:
        yield html.tag("h3", pair.title)
        old, new = card("old", pair.old, pair.kept(pair.old_keeps)), card("new", pair.new, pair.kept(pair.new_keeps))
        yield html.tag("div", old, new, look="grid2")


def _badge(run: TuneOutcome) -> Iterator[Html]:
    if run.verdict.wanted:
        tone, words = ("bad", "claim failed") if run.verdict.failed else ("good", "claim holds")
        yield html.joined(" ", html.badge(words, tone))


def _top(run: TuneOutcome) -> Iterator[Html]:
    yield html.tiles(
        [
            (f"{len(run.tried):,}", "variants"),
            (f"{len(run.sessions['train'])}", "sessions tuned on"),
            (f"{len(run.sessions['validation'])}", "sessions held out"),
            (_of(run.at(run.start)), "start, held out"),
            (_of(run.at(run.winner)), "winner, held out"),
            (_of(run.at(run.shipped)), "shipped, held out"),
        ]
    )
    yield html.card(html.tag("h3", "What it says"), html.bullets(headline(run)))


def _of(tried: Tried) -> str:
    return f"{tried.validation.quality.mean:.1%}" if tried.validation else "–"


def roles_of(run: TuneOutcome, tried: Tried) -> list[str]:
    roles = (("start", run.start), ("shipped", run.shipped), ("winner", run.winner))
    return [name for name, number in roles if number == tried.number]


def _table(run: TuneOutcome) -> Html:
    head = ("variant", "tuned on", "held out", *(f"{title}, held out" for title in _TITLES.values()))
    rows = []
    for tried in run.tried:
        if (held_out := tried.validation) is not None:
            roles = [part for role in roles_of(run, tried) for part in (" ", html.badge(role, "plain"))]
            cells: list[str | Cell] = [
                Cell(html.joined(html.tag("b", tried.name), *roles), look="words"),
                _cell(tried.train.quality),
                _cell(held_out.quality),
                *(_share_cell(held_out, figure) for figure in _TITLES),
                f"{held_out.cost:,.0f}",
                f"{held_out.view_tokens:,.0f}",
            ]
            rows.append(html.Row(cells, "ours" if tried.number == run.winner else ""))
    return html.table((*head, "cost", "view tokens"), rows)


def _cell(interval: Interval) -> Cell:
    return Cell(f"{interval.mean:.1%}", (f"{interval.low:.1%} – {interval.high:.1%}",))


def _share_cell(figures: Figures, name: str) -> Cell:
    return Cell(f"{figures.figures[name]:.1%}") if name in figures.figures else Cell("–", look="soft")


def _changes(run: TuneOutcome) -> Html:
    changes = run.at(run.winner).changes
    if not changes:
        return html.tag("p", "Nothing: the start has won.")
    return html.bullets(html.tag("code", line) for line in changes)


def _sessions(run: TuneOutcome) -> Iterator[Html]:
    titles = {"train": "tuned on", "validation": "held out"}
    for side, listed in run.sessions.items():
        yield html.fold(f"{len(listed)} {titles[side]}", html.bullets(listed))


def _markdown(run: TuneOutcome) -> Iterator[str]:
    yield f"# Tuning: {markdown_text(run.suite)}"
    yield from ("", markdown_text(run.claim), "")
    if run.pairs:
        yield from (f"## {markdown_text(pairs_title(run))}", "", _PAIRS_WORDS, "")
    for pair in run.pairs:
        yield from (f"### {markdown_text(pair.title)}", "")
        for name, text, keeps in (("Old", pair.old, pair.old_keeps), ("New", pair.new, pair.new_keeps)):
            yield from (f"{name} {markdown_text(pair.kept(keeps))}.", "")
            yield from (f"> {markdown_text(line)}  " for line in text.splitlines())
            yield ""
    sides = f"{len(run.sessions['train'])} sessions tuned on, {len(run.sessions['validation'])} held out"
    yield f"{len(run.tried):,} variants ({run.optimizer}, seed {run.seed}), {sides}. Quality is {QUALITY_MEANING}."
    yield f"Cost is counted in {run.cost}."
    yield ""
    yield from (f"- {markdown_text(line)}" for line in headline(run))
    yield from ("", "| variant | tuned on | held out | cost |", "|---|--:|--:|--:|")
    for tried in run.tried:
        if (held_out := tried.validation) is not None:
            name = markdown_text(", ".join([*roles_of(run, tried), tried.name]))
            cost = f"{held_out.cost:,.0f}"
            yield f"| {name} | {_interval(tried.train.quality)} | {_interval(held_out.quality)} | {cost} |"
    yield from ("", "## What changed in the winner", "")
    yield from (f"- `{markdown_text(line)}`" for line in run.at(run.winner).changes or ["nothing"])


def _interval(interval: Interval) -> str:
    return f"{interval.mean:.4f} [{interval.low:.4f}, {interval.high:.4f}]"


_FIRST = "extractive.toml"


def write_winner(run: TuneOutcome, winner: Variant, folder: Path) -> list[Path]:
    """The files of the winner in a folder of the user's; none where what is shipped has won."""
    make_private_folder(folder)
    written = [_write_next(folder, prompt) for prompt in sorted(winner.prompts, key=lambda prompt: prompt.name)]
    if winner.parameters != SHIPPED:
        held_out, trained = run.at(run.winner).validation, run.at(run.winner).train
        assert held_out is not None
        about = (
            f"Figures of the extractive summarizer, found by tuning on the suite {run.suite} ({run.optimizer}, seed "
            f"{run.seed}).\nQuality {trained.quality.mean:.4f} on the sessions tuned on, "
            f"{held_out.quality.mean:.4f} on those held out.\nUse: Settings(extractive_parameters=<this file>)"
        )
        text = write_parameters(winner.parameters, about=about)
        file = _free(folder, text)
        write_private(file, text)
        written.append(file)
    return written


def _free(folder: Path, text: str) -> Path:
    """The first name that is free, or that holds this very text already."""
    number, file = 1, folder / _FIRST
    while file.exists() and file.read_text(encoding="utf-8") != text:
        number += 1
        file = folder / f"extractive-v{number}.toml"
    return file


def _write_next(folder: Path, prompt: Prompt) -> Path:
    purpose = prompt.name
    for name in names(folder):  # written by an earlier run
        if name.startswith(f"{purpose}/") and _holds(folder / f"{name}.md", write_prompt(_numbered(prompt, name))):
            return folder / f"{name}.md"
    known = [int(name.partition("/v")[2]) for name in (*names(), *names(folder)) if name.startswith(f"{purpose}/")]
    numbered = replace(prompt, version=max(known, default=0) + 1)
    file = folder / purpose / f"v{numbered.version}.md"
    make_private_folder(file.parent)
    try:
        with open_private(file, new=True) as opened:
            opened.write(write_prompt(numbered).encode())
    except FileExistsError as error:
        raise PromptError(f"{file} is there already; prompts are never edited") from error
    return file


def _numbered(prompt: Prompt, name: str) -> Prompt:
    return replace(prompt, version=int(name.partition("/v")[2]))


def _holds(file: Path, text: str) -> bool:
    return file.read_text(encoding="utf-8") == text
