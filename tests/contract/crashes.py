"""Processes that are killed while they work on a store or a session; see `store_crasher` and `context_crasher`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Plan = dict[str, Any]


@contextmanager
def nursery(script: str) -> Iterator[subprocess.Popen[str]]:
    """One process that forks all those that are killed, so that Python starts only once."""
    command = [sys.executable, str(Path(__file__).with_name(script))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def killed(process: subprocess.Popen[str], plan: Plan) -> list[Any]:
    """What a process acknowledged before the plan killed it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(plan) + "\n")
    process.stdin.flush()
    outcome = json.loads(process.stdout.readline())
    assert outcome["signal"] == (signal.SIGXFSZ if "size" in plan else signal.SIGKILL), (plan, outcome)
    acks: list[Any] = outcome["acks"]
    return acks


def in_statement(start: str, *nths: int, steps: int = 0, **more: Any) -> list[Plan]:
    """Killed in a statement; in SQLite after so many steps of its machine."""
    return [{"statement": start, "nth": nth, "steps": steps, **more} for nth in nths]


def answered(start: str, *nths: int) -> list[Plan]:
    """Killed when a server has answered a statement, and nobody was told."""
    return [{"statement": start, "nth": nth, "is_answered": True} for nth in nths]


def after_acks(*counts: int, **more: Any) -> list[Plan]:
    """Killed after so many acknowledgements, in whatever is done then."""
    return [{"acks": count, **more} for count in counts]


def in_write(*sizes: int) -> list[Plan]:
    """Killed in the middle of a write, when a file would grow beyond a size."""
    return [{"size": size} for size in sizes]
