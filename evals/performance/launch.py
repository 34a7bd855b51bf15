"""Start one run in its own process, in the environment of its manager, with a time limit."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import fields
from pathlib import Path

from evals.performance.environments import ready
from evals.performance.managers import MANAGERS
from evals.performance.run import ANSWER
from evals.performance.runs import Ask, Row

ROOT = Path(__file__).parents[2]
GRACE = 30.0  # seconds for starting, and for reading what was measured


def launch(ask: Ask) -> Row:
    """The row of a run; whatever goes wrong is a row too."""
    environment = ready(MANAGERS[ask.manager].environment)
    if environment.python is None:
        return Row(ask, "unavailable", environment.reason, {}, {})
    limit = ask.limit + GRACE
    try:
        done = subprocess.run(
            [str(environment.python), "-m", "evals.performance.run", *arguments(ask)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Row(ask, "late", f"did not finish in {limit:.0f} s", {}, {})
    answers = [line for line in done.stdout.splitlines() if line.startswith(ANSWER)]
    if not answers:
        said = done.stderr.strip().splitlines() or ["no word"]
        return Row(ask, "failed", f"exit status {done.returncode}: {without_places(said[-1])}"[:200], {}, {})
    told = json.loads(without_places(answers[-1].removeprefix(ANSWER)))
    return Row(ask, "ok", told["figures"]["stopped"], told["figures"], told["versions"])


def without_places(text: str) -> str:
    """Results are shared; where this checkout and its temporary files lie is nobody's business."""
    return text.replace(f"{ROOT}/", "").replace(f"{tempfile.gettempdir()}/", "")


def arguments(ask: Ask) -> list[str]:
    given = [ask.manager]
    for field in fields(Ask):
        value = getattr(ask, field.name)
        if field.name == "manager" or value is None or value is False:
            continue
        given += [f"--{field.name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return given
