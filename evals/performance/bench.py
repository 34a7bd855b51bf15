"""Ours alone, in under a minute: every number to reach, measured and judged. `make bench` is this.

    python -m evals.performance.bench [--long] [--json PATH]

--long takes the session of 100,000 messages one message at a time, with views all along (minutes). The exit status is 0
whether targets are met or missed: single times depend on the machine, and on what else it does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from evals.performance.launch import ROOT, launch
from evals.performance.machine import machine
from evals.performance.metrics import Figures
from evals.performance.runs import Ask
from evals.performance.targets import Verdict, verdicts

FAST: dict[str, Any] = {"latency": 0.01, "agent_latency": 0.002}
RUNS = {
    "main": Ask(manager="ours", turns=300),
    "slow": Ask(manager="ours", turns=300, latency=0.1, agent_latency=0.002),
    "never": Ask(manager="ours", turns=200, mode="never", agent_latency=0.002),
    "always": Ask(manager="ours", turns=200, mode="always", **FAST),
    "burst": Ask(manager="ours", turns=200, mode="burst", **FAST),
    "cold": Ask(manager="ours", turns=1_000, kind="cold"),
    "reopen": Ask(manager="ours", turns=200, kind="reopen", **FAST),
}


def measure(progress: Progress, *, long: bool = False) -> dict[str, Figures]:
    """The evidence for every target, by name. A run that fails leaves its targets not measured, and says why."""
    bar = progress.add_task("runs", total=len(RUNS) + 1)
    evidence: dict[str, Figures] = {}
    with ThreadPoolExecutor(1) as beside:  # the runs wait most of the time: one core is enough for each side
        session = beside.submit(_session, long)
        for name, ask in RUNS.items():
            progress.update(bar, description=f"{name}: {ask.turns} turns")
            row = launch(ask)
            if row.status == "ok":
                evidence[name] = row.figures
            else:
                progress.console.print(f"{name}: {row.reason}", style="red")
            progress.advance(bar)
        progress.update(bar, description="one session of 100,000 messages")
        evidence["session"] = session.result()
        progress.update(bar, description="adders and views beside summaries")
        evidence["background"] = _figures("evals.performance.background")
        progress.update(bar, description="a host that hands over its whole history")
        evidence["following"] = _figures("evals.performance.follow")
    progress.advance(bar)
    return evidence


def _session(long: bool) -> Figures:
    return _figures("evals.performance.session", *(["--sequential"] if long else []))


def _figures(module: str, *options: str) -> Figures:
    """The figures that a measurement in a process of its own prints."""
    command = [sys.executable, "-m", module, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    figures: Figures = json.loads(done.stdout)
    return figures


def table(judged: list[Verdict], seconds: float) -> Table:
    shown = Table("number to reach", "target", "measured", "", title=f"ours alone, {seconds:.0f} s")
    for verdict in judged:
        mark = {True: "[green]met[/]", False: "[red]missed[/]", None: "-"}[verdict.met]
        shown.add_row(verdict.what, verdict.wanted, verdict.ours, mark)
    return shown


def write(path: Path, evidence: dict[str, Figures]) -> None:
    judged = [verdict._asdict() for verdict in verdicts(evidence)]
    told = {"machine": machine(), "evidence": evidence, "verdicts": judged}
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--json", type=Path, default=None, help="write evidence and verdicts here")
    asked = parser.parse_args()
    began = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        evidence = measure(progress, long=asked.long)
    Console().print(table(verdicts(evidence), time.monotonic() - began))
    if asked.json:
        write(asked.json, evidence)


if __name__ == "__main__":
    main()
