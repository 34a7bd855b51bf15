"""Drive real clients through the proxy and judge each request.

    python -m evals.clients --client claude,codex,opencode --steps 100 --json clients.json

The clients come from npm, into `evals/clients/.programs`; `--programs` names another folder of `npm install`.
Everything stays on the loopback, in a temporary folder. The exit status is 1 where a session does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from evals.clients.judge import Verdict
from evals.clients.programs import FOLDER, PROGRAMS, install
from evals.clients.sessions import run_session

_ZERO = (  # rows of the table: what has to be zero
    ("requests above the budget", "above_budget"),
    ("refused by the strict rules", "refused"),
    ("prefix broken without an activation", "unexplained"),
    ("results of tools lost", "lost"),
    ("let pass after a failure of the proxy", "unchanged_by_failure"),
    ("sessions with more than one history", "mixed"),
)

_FIGURES = (
    ("requests", "requests"),
    ("sessions told apart", "sessions"),
    ("of these, of child agents alone", "agents"),
    ("activations", "activations"),
    ("largest request, tokens", "most_tokens"),
    ("single messages above the budget", "alone_above"),
    ("tokens of all requests", "tokens"),
    ("of these begun as the one before", "cached"),
    ("seconds", "seconds"),
)


def main() -> int:
    """Run the sessions one after the other, and print what is said of them."""
    options = _options()
    names = options.client.split(",")
    if unknown := set(names) - set(PROGRAMS):
        print(f"no such client: {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    console = Console(stderr=True)
    verdicts: list[Verdict] = []
    for name in names:
        try:
            program = install(name, options.programs)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            print(f"{name} cannot be installed: {error}", file=sys.stderr)
            return 2
        with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder, console.status(name) as shown:
            running = run_session(
                name,
                program,
                Path(folder),
                steps=options.steps,
                budget=options.budget,
                tell=lambda words, name=name: shown.update(f"{name}: {words[:90]}"),  # type: ignore[misc]
            )
            verdicts.append(asyncio.run(running)[0])
    console.print(table(verdicts))
    for verdict in verdicts:
        for words in verdict.problems:
            print(f"{verdict.client}: {words}", file=sys.stderr)
    if options.json is not None:
        told = json.dumps([verdict.asdict() for verdict in verdicts], indent=2)
        options.json.write_text(told + "\n")
    return 0 if all(verdict.holds for verdict in verdicts) else 1


def table(verdicts: list[Verdict]) -> Table:
    """The verdicts side by side."""
    made = Table(title="Real clients through the proxy")
    made.add_column("")
    for verdict in verdicts:
        made.add_column(f"{verdict.client} {verdict.version}", justify="right")
    for words, name in (*_ZERO, *_FIGURES):
        made.add_row(words, *(f"{getattr(verdict, name):,}" for verdict in verdicts))
    made.add_row("own compactions taken up", *(f"{v.taken_up} of {v.compactions}" for v in verdicts))
    made.add_row("last words arrived", *("yes" if verdict.final_arrived else "no" for verdict in verdicts))
    made.add_row("legs right", *(f"{verdict.legs_right} of {verdict.legs}" for verdict in verdicts))
    return made


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evals.clients", description=__doc__.splitlines()[0])
    parser.add_argument("--client", default=",".join(PROGRAMS), help="clients, with commas between them")
    parser.add_argument("--steps", type=int, default=100, help="of the main session; at least 10")
    parser.add_argument("--budget", type=int, default=40_000, help="tokens of a request")
    parser.add_argument("--programs", type=Path, default=FOLDER, help="the folder in which npm installs the clients")
    parser.add_argument("--json", type=Path, help="write the verdicts there")
    options = parser.parse_args()
    if options.steps < 10:
        parser.error("--steps: at least 10")
    return options


if __name__ == "__main__":
    sys.exit(main())
