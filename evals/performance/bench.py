"""Measure what a user feels, beside the aims: views, activations, appends, what summaries read. `make bench` is this.

    python -m evals.performance.bench [--peers langchain,pydantic-background] [--json PATH]

Each run is a process of its own, each peer in an environment of its own, made on first use. Compare ratios within one
run: single times depend on the machine. A missed aim does not change the exit status.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from evals.performance.managers import MANAGERS, ensure

ROOT = Path(__file__).parents[2]
LIMIT = 1_200.0  # seconds of one run

MAIN = ("--turns", "300")
RUNS: dict[str, tuple[str, ...]] = {  # arguments of `evals.performance.run ours`
    "main": MAIN,
    "slow": (*MAIN, "--latency", "0.1", "--agent-latency", "0.002"),
    "never": ("--turns", "200", "--mode", "never", "--agent-latency", "0.002"),
    "fails": ("--turns", "200", "--mode", "fails", "--latency", "0.01", "--agent-latency", "0.002"),
    "cold": ("--turns", "1000", "--kind", "cold"),
}
AIMS: tuple[tuple[str, float, str, str], ...] = (  # row, the most, run, figure
    ("views that wait for a summary", 0, "main", "waiting_views"),
    ("… when the summarizer is slow (50:1)", 0, "slow", "waiting_views"),
    ("… when it never answers", 0, "never", "waiting_views"),
    ("unsafe, over-budget and failed views", 0, "all", "faults"),
    ("view p50, ms", 0.2, "main", "view_p50_ms"),
    ("view p99, ms", 1.0, "main", "view_p99_ms"),
    ("slowest activation, ms", 20, "main", "activation_max_ms"),
    ("event-loop stall, ms", 15, "main", "stall_ms"),
    ("uncached tokens over history", 1.35, "main", "uncached_over_history"),
    ("summarizer input over history", 1.2, "main", "model_input_over_history"),
    ("cold first view of 475,000 tokens, ms", 100, "cold", "view_max_ms"),
    ("view p50 at 100,000 messages over at 1,000", 1.3, "session", "view_late_over_early"),
    ("append at 100,000 messages over at 1,000", 1.3, "session", "append_late_over_early"),
    ("100,000 durable messages by 64 adders, s", 10, "session", "adders_s_per_100k"),
    ("… beside extractive summaries, over the store alone", 1.2, "session", "adders_extractive_over_alone"),
    ("… beside summaries by a model, over the store alone", 1.2, "session", "adders_model_over_alone"),
    ("memory over text", 2.0, "session", "memory_over_text"),
    ("reopening 100,000 messages to the first view, s", 1, "session", "reopen_s_per_100k"),
)


def run(name: str, *arguments: str) -> Any:
    """Return what a run in a process of its own prints: of a manager, or `session`. Raise RuntimeError if it fails."""
    python = ensure(MANAGERS[name].package) if name in MANAGERS else Path(sys.executable)
    words = ("evals.performance.run", name) if name in MANAGERS else (f"evals.performance.{name}",)
    command = [str(python), "-m", *words, *arguments]
    paths = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=paths, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
    return json.loads(done.stdout.splitlines()[-1])  # frameworks may print more before it


def short(value: float) -> str:
    """Return a figure with three digits that matter."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def machine() -> dict[str, str]:
    """Return on what the figures were measured."""
    told = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    cpu = next((line.split(":", 1)[1].strip() for line in told if line.startswith("model name")), platform.machine())
    version = f"{platform.python_implementation()} {platform.python_version()}"
    return {"date": f"{datetime.now(UTC):%Y-%m-%d}", "cpu": cpu, "cores": str(os.cpu_count()), "python": version}


def main() -> None:
    """Read the command line, measure, show and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="", help=f"of {', '.join(name for name in MANAGERS if name != 'ours')}")
    parser.add_argument("--json", type=Path, default=None, help="write evidence here")
    asked = parser.parse_args()
    peers = asked.peers.split(",") if asked.peers else []
    if strangers := set(peers) - set(MANAGERS):
        parser.error(f"unknown: {', '.join(strangers)}; there are {', '.join(MANAGERS)}")
    with Console(stderr=True).status("measuring"):
        evidence: dict[str, Any] = {name: run("ours", *arguments) for name, arguments in RUNS.items()}
        evidence["session"] = run("session")
        beside: dict[str, Any] = {name: run(name, *RUNS["main"]) for name in peers}
    evidence["all"] = {"faults": sum(figures.get("faults", 0) for figures in evidence.values())}
    shown = Table("", "at most", "measured", "", *peers)
    for row, most, run_name, figure in AIMS:
        value = evidence[run_name][figure]
        others = [short(beside[name][figure]) if run_name in ("main", "all") else "" for name in peers]
        shown.add_row(row, f"{most:,g}", short(value), "[green]met[/]" if value <= most else "[red]missed[/]", *others)
    Console().print(shown)
    if asked.json:
        told = {"machine": machine(), "evidence": evidence, "peers": beside}
        asked.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
