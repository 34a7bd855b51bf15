"""Make the environment of each peer: a venv under `.environments/`, filled with the pinned packages.

    python -m evals.performance.environments [NAME ...]

A peer that needs a newer Python than this one runs on the interpreter that `PYTHON312` (and the like) names, or on
`python3.12` if there is one. What cannot be made is told in one line; the comparison then shows that line.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / ".environments"
PATIENCE = 900  # seconds for one installation


class Environment(NamedTuple):
    """Where its Python is; or, when it could not be made, why."""

    python: Path | None
    reason: str = ""


def ready(name: str) -> Environment:
    """The environment if it was made from today's pins."""
    if not name:
        return Environment(Path(sys.executable))
    mark = FOLDER / name / ".ready"
    if mark.is_file() and mark.read_text() == _pinned(PINS[name]):
        return Environment(FOLDER / name / "bin" / "python")
    return Environment(None, "its environment is not made: python -m evals.performance.environments")


def ensure(name: str) -> Environment:
    """Make the environment unless it is there."""
    there = ready(name)
    if there.python is not None:
        return there
    pins = PINS[name]
    interpreter = find_python(pins.python)
    if interpreter is None:
        wanted = ".".join(map(str, pins.python))
        return Environment(None, f"needs Python {wanted}; set PYTHON{wanted.replace('.', '')} to one")
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = _run([interpreter, "-m", "venv", str(folder)])
    filled = made or _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *pins.packages])
    if filled:
        return Environment(None, filled)
    (folder / ".ready").write_text(_pinned(pins))
    return ready(name)


def find_python(oldest: tuple[int, int]) -> str | None:
    """An interpreter of at least this minor version that starts."""
    if sys.version_info >= oldest:
        return sys.executable
    major, minor = oldest
    named = os.environ.get(f"PYTHON{major}{minor}")
    for candidate in filter(None, (named, shutil.which(f"python{major}.{minor}"))):
        if not _run([candidate, "-c", f"import sys; sys.exit(sys.version_info < {oldest})"]):
            return candidate
    return None


def _run(command: list[str]) -> str:
    """Empty if it went well, else the last line of what it said about an error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__} while making the environment"
    if done.returncode == 0:
        return ""
    told = [line for line in done.stderr.splitlines() if "error" in line.lower()] or done.stderr.splitlines()
    return (told or ["the installation failed"])[0].strip()[:160]


def _pinned(pins: Pins) -> str:
    return "\n".join(pins.packages)


class Pins(NamedTuple):
    """What one environment holds; `python` is the oldest minor version that it runs on."""

    packages: tuple[str, ...]
    python: tuple[int, int] = (3, 11)


PINS: dict[str, Pins] = {
    "langchain": Pins(("langchain==1.4.7",)),
    "deepagents": Pins(("deepagents==0.7.32",)),
    "pydantic-ai-harness": Pins(("pydantic-ai-harness==0.62.0",)),
    "langmem": Pins(("langmem==0.0.30",)),
    "strands": Pins(("strands-agents==1.62.0",)),
    "openhands": Pins(("openhands-sdk==1.58.0",), python=(3, 12)),
    "cliffcompaction": Pins(("cliffcompaction==0.1.0",)),
    "agent-framework": Pins(("agent-framework-core==1.23.0",)),
}


def main() -> None:
    for name in sys.argv[1:] or PINS:
        made = ensure(name)
        print(f"{name:24}{'ready' if made.python else made.reason}", flush=True)


if __name__ == "__main__":
    main()
