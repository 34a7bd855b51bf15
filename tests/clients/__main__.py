"""Play generated sessions of every shape through the doors of the package, before the strict rules.

    python -m tests.clients --generated 200 [--doors library,proxy] [--budget 8000]    sessions of all shapes
    python -m tests.clients --unknown 1000                                             unknown blocks in any message

Without a budget they go from 8,000 to 200,000 tokens. A door whose package is not installed is left out. Everything
stays in this process and on the loopback. The exit status is 1 where a request is refused.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.clients import players


def main() -> int:
    """Play the sessions, print what is said of their views, and count."""
    options = _options()
    verdicts: list[players.Verdict] = []
    console = Console(stderr=True)
    with console.status("") as shown:
        for door in options.doors.split(",") if options.doors else players.there():
            if options.generated:
                seeds = range(options.seed, options.seed + options.generated)
                run = players.run(door, seeds, steps=options.steps, budget=options.budget or 0, tell=shown.update)
                verdicts.append(asyncio.run(run))
            if options.unknown:
                trials = range(options.seed, options.seed + options.unknown)
                verdicts.append(asyncio.run(players.try_unknown(door, trials, tell=shown.update)))
    made = Table("door", "sessions", "turned away", "views", "shortened", "refused", "broken", title="Views")
    for one in verdicts:
        figures = (one.sessions, one.turned_away, one.views, one.shortened, one.refused, one.broken)
        made.add_row(one.door, *(f"{figure:,}" for figure in figures))
    console.print(made)
    for one in verdicts:
        told = [f"{one.door}: {count} {rule}" for rule, count in one.rules.most_common()]
        print("\n".join([*told, *(one.examples if options.examples else [])]), file=sys.stderr)
    if options.json is not None:
        options.json.write_text(json.dumps([verdict.asdict() for verdict in verdicts], indent=2) + "\n")
    return 1 if any(verdict.refused or verdict.broken or verdict.turned_away for verdict in verdicts) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__.splitlines()[0])
    parser.add_argument("--generated", type=int, default=0, metavar="SESSIONS", help="generated sessions of each door")
    parser.add_argument("--unknown", type=int, default=0, metavar="TRIALS", help="trials of each door")
    parser.add_argument("--doors", default="", help="library, proxy, langchain, pydantic-ai, amplifier, openai-agents")
    parser.add_argument("--steps", type=int, default=50, help="requests of a session")
    parser.add_argument("--budget", type=int, help="tokens of a request; else from 8,000 to 200,000")
    parser.add_argument("--seed", type=int, default=0, help="of the first session")
    parser.add_argument("--examples", action="store_true", help="print two views of each rule, to be played again")
    parser.add_argument("--json", type=Path, help="write the verdicts there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
