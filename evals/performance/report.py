"""The report of a comparison: tables on the terminal, everything as one JSON, and one page of HTML.

    python -m evals.performance.report FOLDER [--table PATH ...]

FOLDER holds `runs.jsonl` and `machine.json`, and `ours.json` if `make bench` was told to write it there. A further
table is a JSON file: an object with `title`, `note` and `rows`, a list of flat objects; without --table these are
`simulation.json` and `strategies.json` beside FOLDER, if they are there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from evals.performance import page
from evals.performance.better import sentences
from evals.performance.drawings import figures
from evals.performance.labels import in_order, is_ours, label
from evals.performance.managers import MANAGERS
from evals.performance.prices import AS_OF, PRESETS
from evals.performance.results import Row, read
from evals.performance.tables import (
    BRIEF,
    CARE,
    COLD,
    OUTAGE,
    PRICES,
    REOPEN,
    SIZES,
    TIMES,
    Table,
    from_file,
    of_rows,
    on_markdown,
    on_terminal,
)
from evals.performance.targets import Evidence, Verdict, verdicts
from evals.performance.told import BETTER, HOW, INTRODUCTION, LIMITS, SCENARIO

MAIN_LATENCY = (0.05, 0.01)
BESIDE = ("simulation.json", "strategies.json")  # of other measurements


class Findings:
    """The rows of one folder, sorted into the parts of the report by what they are."""

    def __init__(self, rows: Sequence[Row]) -> None:
        live = [row for row in rows if row.ask.kind == "live" and row.ask.agent_latency in (0.01, 0.002)]
        working = [row for row in live if row.ask.mode == "works"]
        usual = [row for row in working if (row.ask.latency, row.ask.agent_latency) == MAIN_LATENCY]
        turns = max((row.ask.turns for row in usual), default=0)
        fast = [row for row in working if row.ask.agent_latency == 0.002 and row.ask.keep is None]
        longest = max((row.ask.turns for row in fast), default=0)
        self.main = [row for row in usual if row.ask.turns == turns]
        self.long = [row for row in fast if row.ask.turns == longest > turns]
        self.outage = [row for row in live if row.ask.mode != "works" or row.ask.latency > MAIN_LATENCY[0]]
        self.cold = [row for row in rows if row.ask.kind == "cold"]
        self.reopen = [row for row in rows if row.ask.kind == "reopen"]

    def evidence(self, bench: dict[str, Any]) -> Evidence:
        """Ours, by the names that targets know; what was not run here comes from `make bench`."""
        found: dict[str, Any] = dict(bench.get("evidence", {}))
        own = [row for row in (*self.main, *self.outage, *self.cold, *self.reopen) if row.ask.manager == "ours"]
        for row in sorted(own, key=lambda row: row.ask.turns):
            if row.figures:
                found[_role(row)] = row.figures
        return found

    def verdicts(self, bench: dict[str, Any]) -> list[Verdict]:
        peers = {
            label(row): row.figures
            for row in self.main
            if row.figures and not is_ours(row) and not row.ask.manager.startswith("truncate")
        }
        return verdicts(self.evidence(bench), peers)

    def tables(self) -> list[Table]:
        made = [
            *_three(self.main, "Summarizer 50 ms, agent 10 ms."),
            of_rows("Cost of a step by price preset", _preset_note(), PRICES, self.main),
            *_three(self.long, "Summarizer 10 ms, agent 2 ms. † stopped by its time limit; figures up to there."),
            of_rows("When the summarizer is slow or fails", "", OUTAGE, self.outage),
            of_rows("Cold load", "The whole history, then one view.", COLD, self.cold),
            of_rows(
                "Reopening and forking", "A peer without saved state starts as in a cold load.", REOPEN, self.reopen
            ),
        ]
        return [table for table in made if table.rows]


def write(folder: Path, further: Sequence[Path] = ()) -> None:
    """Everything from what is in the folder; without `further`, with the tables that stand beside it."""
    further = further or [path for name in BESIDE if (path := folder.parent / name).exists()]
    rows = read(folder / "runs.jsonl")
    findings = Findings(rows)
    bench, machine = _json(folder / "ours.json"), _json(folder / "machine.json")
    judged, tables = findings.verdicts(bench), [*findings.tables(), *map(from_file, further)]
    console = Console()
    for table in tables:
        console.print(on_terminal(table))
    told = {
        "machine": machine,
        "verdicts": [verdict._asdict() for verdict in judged],
        "better": sentences(findings.main),
    }
    tables_told = [
        {"title": table.title, "rows": [dict(zip(table.header, row, strict=True)) for row in table.rows]}
        for table in tables
    ]
    (folder / "report.json").write_text(json.dumps({**told, "tables": tables_told}, indent=1) + "\n", encoding="utf-8")
    (folder / "report.html").write_text(_page(findings, judged, tables, machine), encoding="utf-8")
    brief = of_rows("", "", BRIEF, findings.main)
    (folder / "summary.md").write_text(on_markdown(brief), encoding="utf-8")
    console.print(f"written to {folder.name}: report.html, report.json, summary.md")


def _page(findings: Findings, judged: list[Verdict], tables: list[Table], machine: dict[str, Any]) -> str:
    where = ", ".join(str(machine[name]) for name in ("date", "cpu", "system", "python") if name in machine)
    cores = f", {machine['cores']} cores" if "cores" in machine else ""
    body = [
        page.heading("summarizing-context beside its peers", where + cores),
        page.chapter("What this is", INTRODUCTION),
    ]
    body += [page.chapter("Numbers to reach"), page.judged(judged)]
    body += [
        page.chapter("Where a peer is better", BETTER),
        page.listed(sentences(findings.main) or ["nowhere in this run"]),
    ]
    body += [page.chapter("Charts", SCENARIO)]
    body += [page.drawn(figure) for figure in figures(findings.main, findings.long, findings.cold, findings.outage)]
    body += [page.chapter("Tables"), *map(page.shown, tables)]
    body += [page.chapter("Versions and parameters"), page.facts(_versions(findings))]
    body += [page.chapter("Limits"), page.listed(LIMITS), page.chapter("How to reproduce"), page.commands(HOW)]
    return page.page("summarizing-context beside its peers", body)


def _versions(findings: Findings) -> dict[str, str]:
    told: dict[str, str] = {}
    for row in in_order(findings.main):
        entry = MANAGERS[row.ask.manager]
        versions = ", ".join(f"{name} {version}" for name, version in row.versions.items())
        if not row.ask.tuned:
            told[label(row)] = f"{versions or row.reason}: {entry.defaults}"
        elif entry.knob:
            told[label(row)] = "; ".join(filter(None, (f"{entry.knob.says} {row.ask.keep:g}", entry.tuned)))
    return told


def _three(rows: Sequence[Row], note: str) -> list[Table]:
    """The many figures of a live run, a table for each kind of question."""
    kinds = {"time": TIMES, "size, cache and calls": SIZES, "text, faults and memory": CARE}
    turns = f"{rows[0].ask.turns:,} turns" if rows else ""
    return [of_rows(f"{turns}: {kind}", note, columns, rows) for kind, columns in kinds.items()]


def _role(row: Row) -> str:
    if row.ask.kind != "live":
        return row.ask.kind
    if row.ask.mode != "works":
        return str(row.ask.mode)
    return "main" if row.ask.latency == MAIN_LATENCY[0] else "slow"


def _preset_note() -> str:
    sources = "; ".join(f"{preset.name}: {preset.source}" for preset in PRESETS)
    return f"Input-token equivalents for each request, summaries included. Price ratios as of {AS_OF}. {sources}."


def _json(path: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", type=Path, action="append", default=[])
    asked = parser.parse_args()
    write(asked.folder, asked.table)


if __name__ == "__main__":
    main()
