"""The files of a run of tuning: JSON, Markdown, one HTML page, and the winner's parameters or prompts.

Equal runs give equal bytes. Names of variants and sessions are escaped. No existing file is overwritten by a winner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.errors import PromptError
from summarizing_context.evaluation.intervals import DRAWS, Interval
from summarizing_context.evaluation.report.page import html_page, wide_table
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
            lines.append("That way is not surely there, so no share of it is told.")
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
    write_private(folder / JSON, msgspec.json.format(msgspec.json.encode(document(run)), indent=1) + b"\n")


def document(run: TuneOutcome) -> dict[str, Any]:
    """The run as JSON values."""
    found: dict[str, Any] = msgspec.to_builtins(run)
    return {**found, "failed": run.verdict.failed, "headline": headline(run)}


def page(run: TuneOutcome) -> str:
    """The whole page of a run of tuning."""
    judged = [tried for tried in run.tried if tried.validation is not None]
    parts = [
        _title(run),
        _section(pairs_title(run), _side_by_side(run), _PAIRS_WORDS) if run.pairs else "",
        _top(run),
        _section("Variants", f'<div class="card">{_table(run, judged)}</div>', _table_words(run)),
        _section("What changed in the winner", f'<div class="card">{_changes(run)}</div>', "Against the start."),
        _section("Sessions", f'<div class="card">{_sessions(run)}</div>', "Split by session, never by question."),
        f"<footer><p>Intervals: {DRAWS:,} draws of sessions, seeded. Tokens by the built-in estimate.</p></footer>",
    ]
    return html_page(f"Tuning: {run.suite}", parts)


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


def _side_by_side(run: TuneOutcome) -> str:
    def card(name: str, text: str, kept: str) -> str:
        return f'<div class="card"><h3>{name}</h3><p>{escape(kept)}</p><div class="quote">{escape(text)}</div></div>'

    return "".join(
        f"<h3>{escape(pair.title)}</h3>"
        f'<div class="grid2">{card("old", pair.old, pair.kept(pair.old_keeps))}'
        f"{card('new', pair.new, pair.kept(pair.new_keeps))}</div>"
        for pair in run.pairs
    )


def _title(run: TuneOutcome) -> str:
    badge = ""
    if run.verdict.wanted:
        tone, words = ("bad", "claim failed") if run.verdict.failed else ("good", "claim holds")
        badge = f' <span class="badge {tone}">{words}</span>'
    return f'<h1>Tuning: {escape(run.suite)}{badge}</h1><p class="soft">{escape(run.claim)}</p>'


def _top(run: TuneOutcome) -> str:
    numbers = [
        (f"{len(run.tried):,}", "variants"),
        (f"{len(run.sessions['train'])}", "sessions tuned on"),
        (f"{len(run.sessions['validation'])}", "sessions held out"),
        (_of(run.at(run.start)), "start, held out"),
        (_of(run.at(run.winner)), "winner, held out"),
        (_of(run.at(run.shipped)), "shipped, held out"),
    ]
    tiles = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in numbers)
    told = "".join(f"<li>{escape(line)}</li>" for line in headline(run))
    return f'<div class="numbers">{tiles}</div><div class="card"><h3>What it says</h3><ul>{told}</ul></div>'


def _of(tried: Tried) -> str:
    return f"{tried.validation.quality.mean:.1%}" if tried.validation else "–"


def _roles(run: TuneOutcome, tried: Tried) -> list[str]:
    roles = (("start", run.start), ("shipped", run.shipped), ("winner", run.winner))
    return [name for name, number in roles if number == tried.number]


def _table(run: TuneOutcome, judged: Sequence[Tried]) -> str:
    head = "<th>variant</th><th>tuned on</th><th>held out</th>" + "".join(
        f"<th>{title}, held out</th>" for title in _TITLES.values()
    )
    rows = []
    for tried in judged:
        assert tried.validation is not None
        tone = "ours" if tried.number == run.winner else ""
        roles = "".join(f' <span class="badge plain">{role}</span>' for role in _roles(run, tried))
        parts = "".join(_report_share(tried.validation, figure) for figure in _TITLES)
        rows.append(
            f'<tr class="{tone}"><td class="words"><b>{escape(tried.name)}</b>{roles}</td>'
            f"{_cell(tried.train.quality)}{_cell(tried.validation.quality)}{parts}"
            f"<td>{tried.validation.cost:,.0f}</td><td>{tried.validation.view_tokens:,.0f}</td></tr>"
        )
    head += "<th>cost</th><th>view tokens</th>"
    return wide_table(f"<tr>{head}</tr>", rows)


def _cell(interval: Interval) -> str:
    return f"<td>{interval.mean:.1%}<small>{interval.low:.1%} – {interval.high:.1%}</small></td>"


def _report_share(figures: Figures, name: str) -> str:
    return f"<td>{figures.figures[name]:.1%}</td>" if name in figures.figures else '<td class="soft">–</td>'


def _changes(run: TuneOutcome) -> str:
    changes = run.at(run.winner).changes
    listed = "".join(f"<li><code>{escape(line)}</code></li>" for line in changes)
    return f"<ul>{listed}</ul>" if changes else "<p>Nothing: the start has won.</p>"


def _sessions(run: TuneOutcome) -> str:
    titles = {"train": "tuned on", "validation": "held out"}
    return "".join(
        f"<details><summary>{len(names)} {titles[side]}</summary><ul>"
        + "".join(f"<li>{escape(name)}</li>" for name in names)
        + "</ul></details>"
        for side, names in run.sessions.items()
    )


def _section(title: str, body: str, words: str) -> str:
    return f'<h2>{escape(title)}</h2><p class="soft">{escape(words)}</p>{body}'


def _markdown(run: TuneOutcome) -> Iterator[str]:
    yield f"# Tuning: {_plain(run.suite)}"
    yield from ("", _plain(run.claim), "")
    if run.pairs:
        yield from (f"## {_plain(pairs_title(run))}", "", _PAIRS_WORDS, "")
    for pair in run.pairs:
        yield from (f"### {_plain(pair.title)}", "")
        for name, text, keeps in (("Old", pair.old, pair.old_keeps), ("New", pair.new, pair.new_keeps)):
            yield from (f"{name} {_plain(pair.kept(keeps))}.", "")
            yield from (f"> {_plain(line)}  " for line in text.splitlines())
            yield ""
    sides = f"{len(run.sessions['train'])} sessions tuned on, {len(run.sessions['validation'])} held out"
    yield f"{len(run.tried):,} variants ({run.optimizer}, seed {run.seed}), {sides}. Quality is {QUALITY_MEANING}."
    yield f"Cost is counted in {run.cost}."
    yield ""
    yield from (f"- {_plain(line)}" for line in headline(run))
    yield from ("", "| variant | tuned on | held out | cost |", "|---|--:|--:|--:|")
    for tried in run.tried:
        if (held_out := tried.validation) is not None:
            name = _plain(", ".join([*_roles(run, tried), tried.name]))
            cost = f"{held_out.cost:,.0f}"
            yield f"| {name} | {_interval(tried.train.quality)} | {_interval(held_out.quality)} | {cost} |"
    yield from ("", "## What changed in the winner", "")
    yield from (f"- `{_plain(line)}`" for line in run.at(run.winner).changes or ["nothing"])


def _interval(interval: Interval) -> str:
    return f"{interval.mean:.4f} [{interval.low:.4f}, {interval.high:.4f}]"


def _plain(words: str) -> str:
    """Words that mean nothing in Markdown."""
    return words.replace("|", "\\|").replace("<", "&lt;").replace("`", "'").replace("\n", " ")


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
