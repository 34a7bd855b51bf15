"""Where the checkout is, and how to run a tool in it."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "summarizing_context"


def run_python(
    arguments: Sequence[str], *, cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run this Python; what it printed is in `stdout`, errors too."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    environment = {**os.environ, **(env or {})}
    return subprocess.run([sys.executable, *arguments], cwd=cwd, env=environment, timeout=300, check=False, **streams)
