"""This package's proxy and CliffCompaction's side by side: the same session through each, at equal largest requests.

    python -m evals.clients.beside [--turns 300] [--budget 40000] [--seeds 1,2,3] [--json FILE]
    python -m evals.clients.beside --clients claude,codex,opencode     real clients of npm through each

CliffCompaction comes from PyPI, into an environment of its own. Both run with their documented defaults but for the
most tokens of a request. CliffCompaction estimates where this package counts; so its threshold is searched, too, until
its largest request is as large as this package's. Everything stays on the loopback, and no model is asked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import anthropic

from evals.clients.middle import between
from evals.clients.programs import FOLDER, PROGRAMS, install
from evals.clients.recorded import Recording, Watch
from evals.clients.script import Plan
from evals.clients.scripted import Agent, sdk
from evals.clients.sessions import run_session
from evals.clients.tokens import item_tokens, kept_items
from evals.clients.upstream import Provider, provided
from evals.hosts_beside.session import KINDS, Session, make_session
from evals.performance.environments import ensure

_CLOSE = 0.02  # of the wanted largest request
_TRIES = 6
_CACHED = 0.1  # what a cached token costs, where one that is not costs 1

Figures = dict[str, Any]


@dataclass(frozen=True)
class Arm:
    """Who stands between, and the most tokens of a request that it is told; 0 where nobody is."""

    name: str
    setting: int = 0


def main() -> int:
    """Run every arm, and print the table; 1 where a request was broken."""
    asked = _options()
    made = ensure("cliffcompaction")
    if made.python is None:
        print(f"cliffcompaction: {made.reason}", file=sys.stderr)
        return 2
    cliff = made.python.parent / "cliff"
    if asked.clients:
        runs = [*_clients(asked, cliff)]
        print(markdown(CLIENT_ROWS, runs))
    else:
        runs = _sessions(asked, cliff)
        print(markdown(ROWS, runs))
    if asked.json:
        told = {"date": str(date.today()), "turns": asked.turns, "seeds": asked.seeds, "runs": runs}
        asked.json.write_text(json.dumps(told, indent=1) + "\n")
    return int(any(run["broken"] for run in runs))


def _sessions(asked: argparse.Namespace, cliff: Path) -> list[Figures]:
    """Nobody between, this package, CliffCompaction with the same number, and with equally large requests."""
    sessions = [make_session(asked.turns, int(seed)) for seed in asked.seeds.split(",")]
    alone = _all(Arm("none"), sessions, cliff)
    ours = _all(Arm("ours", asked.budget), sessions, cliff)
    same = _all(Arm("cliff", asked.budget), sessions, cliff)
    runs = [alone, ours, same]
    equal = same
    for _ in range(_TRIES):
        if asked.budget_alone or abs(equal["largest"] / ours["largest"] - 1) <= _CLOSE:
            break
        setting = round(equal["setting"] * ours["largest"] / equal["largest"])
        equal = _all(Arm("cliff", setting), sessions, cliff)
    runs += [equal] if equal is not same else []
    for run in runs:
        _take_off(run, alone)
    return runs


def _take_off(run: Figures, alone: Figures) -> None:
    """What the arm adds to each request: its milliseconds, less those of the same request with nobody between."""
    added = [one - other for one, other in zip(run.pop("ms"), alone.get("ms_alone", []), strict=False)]
    if run is alone or not added:
        return
    run["ms_p50"] = round(statistics.median(added), 1)
    run["ms_p95"] = round(sorted(added)[len(added) * 95 // 100], 1)


def _all(arm: Arm, sessions: Sequence[Session], cliff: Path) -> Figures:
    """One arm through every session; figures are sums, the largest of the largest, and means of shares."""
    found = []
    for session in sessions:
        with tempfile.TemporaryDirectory(prefix="beside-") as folder:
            found.append(asyncio.run(play(arm, session, Path(folder), cliff)))
    history = sum(run["history"] for run in found)
    made = {"arm": arm.name, "setting": arm.setting, "sessions": len(found), "history": history}
    for name in ("requests", "broken", "breaks", "rules_due", "rules_missing", "outdated_alone"):
        made[name] = sum(run[name] for run in found)
    made["largest"] = max(run["largest"] for run in found)
    made["mean"] = round(sum(run["mean"] * run["requests"] for run in found) / made["requests"])
    for name in ("uncached", "cached"):
        made[name] = round(sum(run[name] for run in found) / history, 2)
    made["price"] = round(made["uncached"] + _CACHED * made["cached"], 2)
    for name in ("kept_end", "kept_looks"):
        made[name] = round(statistics.mean(run[name] for run in found), 3)
    made["kept"] = {kind: [sum(run["kept"].get(kind, (0, 0))[at] for run in found) for at in (0, 1)] for kind in KINDS}
    made["problems"] = [problem for run in found for problem in run["problems"]]
    made["ms"] = [each for run in found for each in run["ms"]]
    if arm.name == "none":
        made["ms_alone"] = made["ms"]
    print(
        f"{arm.name} {arm.setting}: largest {made['largest']:,}, broken {made['broken']}", file=sys.stderr, flush=True
    )
    return made


async def play(arm: Arm, session: Session, folder: Path, cliff: Path) -> Figures:
    """One arm through one session."""
    script = Recording(session)
    watch = Watch(session, script.replies)
    provider = Provider(Plan(len(script.replies)), script, watch)
    took: list[float] = []
    problems = []
    async with provided(provider) as upstream, between(arm.name, upstream, arm.setting, folder, cliff=cliff) as proxy:
        client = sdk(proxy.address)
        agent = Agent(client, session.results, told=took.append)
        try:
            for turn in session.turns:
                await agent.say(turn.prompt)
        except anthropic.APIError as error:
            problems.append(f"the session ended at request {len(provider.seen)}: {error}"[:300])
        finally:
            await client.close()
    problems += [f"request {each.number}: {each.problem}" for each in provider.seen if each.problem]
    return {
        **watch.figures(),
        "history": sum(item_tokens(item) for item in agent.history),
        "broken": sum(bool(each.problem) for each in provider.seen),
        "breaks": sum(
            kept_items(before.items, now.items) < len(before.items)
            for before, now in zip(provider.seen, provider.seen[1:], strict=False)
        ),
        "problems": problems,
        "ms": [(all - each.spent) * 1_000 for all, each in zip(took, provider.seen, strict=False)],
    }


def _clients(asked: argparse.Namespace, cliff: Path) -> Iterator[Figures]:
    """The real clients through each, in their sessions of `evals.clients`."""
    for name in asked.clients.split(","):
        program = install(name, asked.programs)
        for middle in ("ours", "cliff"):
            with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
                running = run_session(
                    name, program, Path(folder), middle=middle, steps=asked.steps, budget=asked.budget, cliff=cliff
                )
                verdict, _ = asyncio.run(running)
            told = verdict.asdict()
            share = f"{told['cached'] / told['tokens']:.1%}"
            yield {**told, "arm": f"{name} {told['version']}, {middle}", "broken": told["refused"], "share": share}


ROWS = (
    ("arm", "arm"),
    ("most tokens, as told", "setting"),
    ("requests", "requests"),
    ("broken", "broken"),
    ("mean request", "mean"),
    ("largest", "largest"),
    ("prefix broken", "breaks"),
    ("uncached", "uncached"),
    ("cached", "cached"),
    ("price", "price"),
    ("facts in the last request", "kept_end"),
    ("mean of six looks", "kept_looks"),
    *((f"{kind}s", kind) for kind in KINDS),
    ("rules missing in requests", "rules_missing"),
    ("outdated value alone", "outdated_alone"),
    ("added ms p50", "ms_p50"),
    ("p95", "ms_p95"),
)

CLIENT_ROWS = (
    ("client, proxy", "arm"),
    ("requests", "requests"),
    ("refused", "refused"),
    ("above the budget", "above_budget"),
    ("largest", "most_tokens"),
    ("prefix broken", "breaks"),
    ("tokens", "tokens"),
    ("begun as the one before", "share"),
    ("legs right", "legs_right"),
    ("last words arrived", "final_arrived"),
)


def markdown(rows: Sequence[tuple[str, str]], runs: Sequence[Figures]) -> str:
    """The runs as a table, one a line."""
    lines = [" | ".join(words for words, _ in rows), "|".join("---" for _ in rows)]
    lines += [" | ".join(_cell(run, name) for _, name in rows) for run in runs]
    return "\n".join(f"| {line} |" for line in lines)


def _cell(run: Figures, name: str) -> str:
    if name in KINDS:
        return "{} of {}".format(*run["kept"][name])
    if name == "rules_missing":
        return f"{run[name] / max(1, run['rules_due']):.0%}"
    value = run.get(name, "")
    if name in ("kept_end", "kept_looks"):
        return f"{value:.0%}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evals.clients.beside", description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=300, help="of a session; a turn has about three requests")
    parser.add_argument("--seeds", default="1,2,3", help="of the sessions, with commas between them")
    parser.add_argument("--budget", type=int, default=40_000, help="most tokens of a request")
    parser.add_argument("--budget-alone", action="store_true", help="do not search for equally large requests")
    parser.add_argument(
        "--clients", default="", help=f"real clients in the place of the session: {', '.join(PROGRAMS)}"
    )
    parser.add_argument("--steps", type=int, default=100, help="of a real client's session")
    parser.add_argument("--programs", type=Path, default=FOLDER, help="the folder in which npm installs the clients")
    parser.add_argument("--json", type=Path, help="write the figures there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
