"""Break the package on purpose, in one place at a time, and tell whether the net notices.

    python -m evals.mutations            each mutation, with the tests that should catch it
    python -m evals.mutations 3 17       some of them

Each is made in a copy of the package in a temporary folder. The exit status is 1 if any is missed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any

ROOT = Path(__file__).parents[1]
LIMIT = 300  # seconds: a mutation may loop without end
MEMORY = 4 << 30  # bytes of addresses: or take all that the machine has

MUTATIONS = tomllib.loads((ROOT / "evals" / "mutations.toml").read_text(encoding="utf8"))["mutation"]


def caught(mutation: dict[str, Any]) -> str:
    """What became of a mutation: `caught`, `MISSED`, or why it could not be tried."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for path in ROOT.iterdir():
            if path.name in ("summarizing_context", "tests"):
                shutil.copytree(path, copy / path.name, ignore=shutil.ignore_patterns("__pycache__"))
            elif path.name not in (".git", ".venv"):
                (copy / path.name).symlink_to(path)
        changed = copy / "summarizing_context" / mutation["file"]
        text = changed.read_text(encoding="utf8")
        if (times := text.count(mutation["old"])) != 1:
            return f"CANNOT BE MADE: its place stands {times} times in {mutation['file']}"
        changed.write_text(text.replace(mutation["old"], mutation["new"]), encoding="utf8")
        command = ["prlimit", f"--as={MEMORY}", sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += ["-k", "not postgres", *mutation["tests"]]
        env = os.environ | {"PYTHONPATH": folder}
        try:
            run = subprocess.run(command, cwd=copy, env=env, stdout=PIPE, stderr=STDOUT, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return f"caught: the tests did not end in {LIMIT} s"
        failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if run.returncode == 1:
            return f"caught by {failed[0].split()[1] if failed else 'a test'}"
        return "MISSED" if run.returncode == 0 else f"CANNOT BE TRIED: {run.stdout[-600:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Break the package on purpose and tell whether the net notices.")
    parser.add_argument("numbers", nargs="*", type=int, metavar="N", help="numbers of mutations")
    parser.add_argument("--jobs", type=int, default=2, help="mutations at a time")
    options = parser.parse_args()
    chosen = options.numbers or range(1, len(MUTATIONS) + 1)

    def tried(at: int) -> bool:
        mutation = MUTATIONS[at - 1]
        outcome = caught(mutation)
        print(f"{at:3} {mutation['file']}: {mutation['breaks']}: {outcome}", flush=True)
        return outcome.startswith("caught")

    with ThreadPoolExecutor(options.jobs) as pool:
        return 0 if all(list(pool.map(tried, chosen))) else 1


if __name__ == "__main__":
    raise SystemExit(main())
