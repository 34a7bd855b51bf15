"""One run in a process of its own, so that its memory is its own. The figures are one line of JSON.

python -m evals.performance.run ours --turns 200 --latency 0.05 --agent-latency 0.01
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import tempfile
import warnings
from dataclasses import asdict, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from evals.performance.drive import Drive
from evals.performance.environments import PINS
from evals.performance.fake_model import FakeModel
from evals.performance.manager import Manager, Setup
from evals.performance.managers import MANAGERS, open_manager
from evals.performance.runs import Ask

ANSWER = "result: "  # begins the line that holds the figures; frameworks may print others


def perform(ask: Ask) -> dict[str, Any]:
    """Run it here and now."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        figures = asyncio.run(_drive(ask, Path(folder)))
    return {"ask": asdict(ask), "status": "ok", "figures": figures, "versions": versions(ask.manager)}


def versions(manager: str) -> dict[str, str]:
    environment = MANAGERS[manager].environment
    names = [pin.split("==")[0] for pin in PINS[environment].packages] if environment else ["summarizing-context"]
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "checkout"
    return found


async def _drive(ask: Ask, folder: Path) -> dict[str, Any]:
    model = FakeModel(ask.latency, ask.mode)

    async def opener(session: str) -> Manager:
        own = folder / session
        own.mkdir(exist_ok=True)
        return await open_manager(Setup(ask.manager, ask.budget, model, own, ask.keep))

    return await Drive(ask, model, opener).run()


def _asked() -> Ask:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manager", choices=MANAGERS)
    for field in fields(Ask):
        flag = "--" + field.name.replace("_", "-")
        if field.name in ("turns", "budget"):
            parser.add_argument(flag, type=int, default=field.default)
        elif field.name in ("kind", "mode"):
            parser.add_argument(flag, default=field.default)
        elif field.name == "tuned":
            parser.add_argument(flag, action="store_true")
        elif field.name != "manager":
            parser.add_argument(flag, type=float, default=field.default)
    return Ask.of(vars(parser.parse_args()))


def main() -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    print(ANSWER + json.dumps(perform(_asked())), flush=True)
    os._exit(0)  # a framework's threads may wait for ever for a model that never answers


if __name__ == "__main__":
    main()
