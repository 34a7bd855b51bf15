"""The report of a comparison: tables on the terminal, everything as JSON and as Markdown.

    python -m evals.performance.report FOLDER [--table PATH ...]

FOLDER holds `runs.jsonl` and `machine.json`, and `ours.json` if `make bench` was told to write it there. A further
table is a JSON file: an object with `title`, `note` and `rows`, a list of flat objects; without --table it is
`simulation.json` beside FOLDER, if it is there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from evals.performance.managers import MANAGERS
from evals.performance.metrics import AS_OF, PRESETS
from evals.performance.runs import Row, read
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
    in_order,
    is_ours,
    label,
    never_read,
    of_rows,
    on_markdown,
    on_terminal,
)
from evals.performance.targets import Evidence, Verdict, told, verdicts

MAIN_LATENCY = (0.05, 0.01)
BESIDE = ("simulation.json",)  # of other measurements


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
    document = {
        "machine": machine,
        "verdicts": [verdict._asdict() for verdict in judged],
        "better": sentences(findings.main),
    }
    tables_told = [
        {"title": table.title, "rows": [dict(zip(table.header, row, strict=True)) for row in table.rows]}
        for table in tables
    ]
    (folder / "report.json").write_text(
        json.dumps({**document, "tables": tables_told}, indent=1) + "\n", encoding="utf-8"
    )
    (folder / "report.md").write_text(_document(findings, judged, tables, machine), encoding="utf-8")
    console.print(f"written to {folder.name}: report.md, report.json")


def _document(findings: Findings, judged: list[Verdict], tables: list[Table], machine: dict[str, Any]) -> str:
    where = ", ".join(str(machine[name]) for name in ("date", "cpu", "system", "python") if name in machine)
    cores = f", {machine['cores']} cores" if "cores" in machine else ""
    met = {True: "met", False: "missed", None: "-"}
    targets = Table(
        "Numbers to reach",
        "",
        ("number", "target", "ours", "lowest of the peers", ""),
        [(one.what, one.wanted, one.ours, one.peer, met[one.met]) for one in judged],
    )
    versions = Table("Versions and parameters", "", ("manager", "versions: parameters"), [*_versions(findings).items()])
    ahead = sentences(findings.main) or ["nowhere in this run"]
    parts = [
        f"# summarizing-context beside its peers\n\n{where}{cores}",
        INTRODUCTION,
        on_markdown(of_rows("In brief", SCENARIO, BRIEF, findings.main)),
        on_markdown(targets),
        f"## Where a peer is better\n\n{BETTER}\n\n{_listed(ahead)}",
        *map(on_markdown, [*tables, versions]),
        f"## Limits\n\n{_listed(LIMITS)}",
        f"## How to reproduce\n\n```bash\n{HOW}\n```\n\n{NEEDS}",
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _listed(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


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


MARGIN = 0.03  # of our figure: less is noise


class Matter(NamedTuple):
    """One figure that is better when smaller, and why ours is what it is."""

    what: str
    read: Callable[[Row], float | None]
    unit: str
    why: str


def _figure(name: str) -> Callable[[Row], float | None]:
    return lambda row: row.figures.get(name)


def _price(name: str) -> Callable[[Row], float | None]:
    return lambda row: row.figures.get("cost_per_step", {}).get(name)


MATTERS = (
    Matter("view p50", _figure("view_p50_ms"), "ms", "ours hands out fresh copies; most peers hand out their own list"),
    Matter("view p99", _figure("view_p99_ms"), "ms", "an activation builds the header and commits it to disk"),
    Matter("largest view", _figure("view_max_ms"), "ms", "as above"),
    Matter("event-loop stall", _figure("stall_ms"), "ms", "garbage collection and activations of ours run on the loop"),
    Matter("append p50", _figure("add_p50_us"), "µs", "ours is durable on disk when it returns; peers keep a list"),
    Matter(
        "memory a message", _figure("bytes_per_message"), "bytes", "derived facts of each message are kept beside it"
    ),
    Matter(
        "prefix breaks", _figure("prefix_breaks"), "", "how often the beginning changes follows from high and low water"
    ),
    Matter(
        "uncached tokens over history", _figure("uncached_over_history"), "", "a smaller tail or header is sent again"
    ),
    Matter(
        "cost of a step, 5-minute cache", _price("5-minute cache"), "", "a larger view, or more text read by summaries"
    ),
    Matter("cost of a step, no cache", _price("no cache"), "", "follows the size of the view"),
    Matter(
        "summarizer input over history", _figure("model_input_over_history"), "", "who reads less leaves text unread"
    ),
    Matter("summarizer calls", _figure("model_calls"), "", "many small inputs in parallel instead of few large ones"),
    Matter("text never read", never_read, "", ""),
    Matter("passes of a fact, at most", _figure("passes_max"), "", "an old summary that is dropped is not passed on"),
)


def sentences(rows: Sequence[Row]) -> list[str]:
    """One for each matter in which at least one peer is ahead of our main run."""
    ours = next((row for row in rows if row.ask.manager == "ours" and row.figures), None)
    peers = [row for row in rows if not is_ours(row) and row.figures and not row.ask.manager.startswith("truncate")]
    return [] if ours is None else [said for matter in MATTERS if (said := _sentence(matter, ours, peers))]


def _sentence(matter: Matter, ours: Row, peers: Sequence[Row]) -> str:
    own = matter.read(ours)
    if own is None:
        return ""
    ahead = sorted(
        (value, label(row)) for row in peers if (value := matter.read(row)) is not None and value < own * (1 - MARGIN)
    )
    if not ahead:
        return ""
    named = ", ".join(f"{name} {told(value, matter.unit)}" for value, name in ahead[:3])
    more = f" and {len(ahead) - 3} more" if len(ahead) > 3 else ""
    return f"{matter.what}: {named}{more}; ours {told(own, matter.unit)} ({matter.why})"


INTRODUCTION = (
    "One synthetic agent session is driven through this package and through the context managers of other "
    "frameworks, each in an environment and a process of its own, each by its public interface, with the same "
    "summarizer of known latency and the same token counter (four characters are a token). Each peer runs with its "
    "documented defaults, and once more tuned so that its mean view is as large as ours, or as near as it can come."
)
SCENARIO = (
    "Budget 16,000 tokens, a system row of 400. A turn has about 476 tokens on average: a question, a call with its "
    "result, an answer; every 10th turn makes two calls at once, every 25th is a loop of six calls, every 40th has a "
    "result of 2,000 tokens. A view is asked for before every call of the agent, 2.2 times a turn. Summaries have "
    "300 tokens. Summarizer 50 ms, agent 10 ms, as 20 s to 4 s would be."
)
BETTER = (
    "Found in the figures of the main run, at most three peers each, differences under 3 % left out. Truncation is not "
    "listed: it is faster, smaller and cheaper than everybody, and keeps nothing."
)
LIMITS = (
    "The summarizer is a fake: latency, calls, sizes and reach are measured, the quality of summaries is not.",
    "Token counts are characters over four, for everybody; a real tokenizer would shift all rows alike.",
    "Prices are list-price ratios, not bills; the agent's own output is left out because it is the same for all.",
    "Times are of one machine and one run: read differences below a third as noise, most of all under a millisecond.",
    "A trigger of 85 % of the budget is given to peers that have no default of their own; what a framework does around "
    "its context manager (checkpoints, graphs, streaming) is not measured.",
    "Ours writes every message to disk before an append returns and the peers keep a list in memory: their appends are "
    "faster, and lose the session with the process.",
    "Text counts as kept if it went into a summary that the view stands on, whether or not that mentions it.",
    "Peers are measured at the versions named below; later ones may differ.",
    "The price presets take a perfect prefix cache; real ones expire and evict.",
)
HOW = """make bench-peers                       # Environments, all runs, this report.
make bench                             # Ours alone, in under a minute.
python -m evals.performance.run langchain --turns 200      # One run, as JSON.
"""
NEEDS = "A peer that needs Python 3.12 finds it as python3.12, or by PYTHON312=/path/to/python3.12."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", type=Path, action="append", default=[])
    asked = parser.parse_args()
    write(asked.folder, asked.table)


if __name__ == "__main__":
    main()
