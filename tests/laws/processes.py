"""Start `child` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "laws.child", *arguments]


def environment(hash_seed: str = "0") -> dict[str, str]:
    """This process's, with the tests and the package on the path."""
    path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed}


def told(*arguments: str, hash_seed: str = "0") -> Any:
    """What a child says in its last line."""
    done = subprocess.run(
        command(*arguments), env=environment(hash_seed), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
