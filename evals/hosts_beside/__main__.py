"""Every arm over one session at equal mean view size, and a table of what it waited, paid and lost.

    python -m evals.hosts_beside [--turns 300] [--view 8000] [--arms LangChain,OpenAI] [--json PATH]
    python -m evals.hosts_beside --arms LangChain --setting 14000     one run of one arm, as JSON

Each run is a process of its own, in the environment of its arm. With `--json` an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import importlib.metadata
import json
import logging
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evals.hosts_beside.arms import ARMS, host_of
from evals.hosts_beside.play import Play, run
from evals.hosts_beside.reader import RULES
from evals.hosts_beside.table import markdown
from evals.performance.environments import ensure

CLOSE = 0.02  # of the wanted mean view
TRIES = 8
PATIENCE = 900  # seconds of one run
ROOT = Path(__file__).parents[2]


def main() -> int:
    asked = _arguments()
    play = Play("", 0, asked.turns, asked.latency, asked.summary_tokens, asked.rule)
    arms = asked.arms.split(",") if asked.arms else list(ARMS)
    if asked.setting is not None:
        print(json.dumps(_here(Play(**{**asdict(play), "arm": arms[0], "setting": asked.setting}))))
        return 0
    said = {name: value for name, value in asdict(play).items() if name not in ("arm", "setting")}
    head = {"date": str(datetime.date.today()), "view": asked.view, **said}
    runs = _runs_of(asked.json, head)
    writing = threading.Lock()

    def measure(arm: str) -> None:
        figures = search(arm, play, asked.view)
        print(f"{arm}: {figures['setting']} makes views of {figures['mean_view']} tokens", file=sys.stderr, flush=True)
        with writing:
            runs[arm] = figures
            if asked.json:
                ordered = [runs[each] for each in ARMS if each in runs]
                asked.json.write_text(json.dumps({**head, "arms": ordered}, indent=1) + "\n")

    for environment in {ARMS[arm].environment for arm in arms}:
        _python(environment)
    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(measure, [arm for arm in arms if arm not in runs]))
    found = [runs[arm] for arm in arms]
    print(markdown(found))
    far = [each["arm"] for each in found if abs(each["mean_view"] / asked.view - 1) > CLOSE]
    if far:
        print(f"not within {CLOSE:.0%} of {asked.view} tokens: {', '.join(far)}", file=sys.stderr)
    return bool(far)


def _runs_of(path: Path | None, head: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By arm, what the file has of an interrupted run with the same arguments; its date may be another."""
    if path is None or not path.exists():
        return {}
    told = json.loads(path.read_text())
    same = all(told[name] == value for name, value in head.items() if name != "date")
    return {run["arm"]: run for run in told["arms"]} if same else {}


def search(arm: str, play: Play, view: int) -> dict[str, Any]:
    """The run whose mean view comes nearest to `view`: a secant through the two nearest, from the arm's start."""
    runs: dict[int, dict[str, Any]] = {}
    setting = ARMS[arm].start
    for _ in range(TRIES):
        runs[setting] = figures = _apart(Play(**{**asdict(play), "arm": arm, "setting": setting}))
        if abs(figures["mean_view"] / view - 1) <= CLOSE:
            break
        setting = next_setting({each: runs[each]["mean_view"] for each in runs}, view)
        if setting in runs:
            break
    return min(runs.values(), key=lambda each: abs(each["mean_view"] - view))


def next_setting(means: dict[int, float], view: int) -> int:
    """Where to look next: on the line through the nearest setting and the nearest on the other side, else by ratio."""
    nearest = min(means, key=lambda each: abs(means[each] - view))
    over = means[nearest] > view
    others = [each for each in means if (means[each] > view) != over]
    if not others:
        return max(1, round(nearest * view / means[nearest]) + (-1 if over else 1))
    other = min(others, key=lambda each: abs(means[each] - view))
    share = (view - means[nearest]) / (means[other] - means[nearest])
    return round(nearest + share * (other - nearest))


def _here(play: Play) -> dict[str, Any]:
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(run(play, host_of(play.arm), Path(folder)))
    versions = {name: importlib.metadata.version(name) for name in ARMS[play.arm].packages}
    return {**figures, "searched": ARMS[play.arm].searched, "versions": versions}


def _python(environment: str) -> str:
    """The interpreter of an environment, made if need be. Raises `RuntimeError` where that fails."""
    made = ensure(environment)
    if made.python is None:
        raise RuntimeError(f"{environment}: {made.reason}")
    return str(made.python)


def _apart(play: Play) -> dict[str, Any]:
    """Raises `RuntimeError` where the run fails."""
    python = _python(ARMS[play.arm].environment)
    options = {
        "arms": play.arm,
        "setting": play.setting,
        "turns": play.turns,
        "latency": play.latency,
        "summary-tokens": play.limit,
        "rule": play.rule,
    }
    command = [python, "-m", "evals.hosts_beside", *(f"--{name}={value}" for name, value in options.items())]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, check=False)
    if done.returncode:
        raise RuntimeError(f"{play.arm} failed: {done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="evals.hosts_beside", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--view", type=int, default=8_000, help="tokens of the mean request")
    parser.add_argument("--latency", type=float, default=3.0, help="steps of the agent that a summary takes")
    parser.add_argument("--summary-tokens", type=int, default=1_500, help="most that a summary has")
    parser.add_argument("--rule", choices=RULES, default="ranked", help="which lines a summary repeats")
    parser.add_argument("--arms", default="", help="separated by commas; all if left out")
    parser.add_argument("--setting", type=int, default=None, help="no search: one run of one arm")
    parser.add_argument("--jobs", type=int, default=2, help="arms at the same time")
    parser.add_argument("--json", type=Path, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
