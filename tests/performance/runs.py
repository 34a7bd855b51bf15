"""Rows of runs that were never made, and the smallest real one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from evals.performance.drive import Drive
from evals.performance.fake_model import FakeModel, Mode
from evals.performance.manager import Manager, Setup
from evals.performance.managers import open_manager
from evals.performance.metrics import Figures
from evals.performance.runs import Ask, Row

TINY: dict[str, Any] = {"turns": 12, "budget": 3_000, "latency": 0.002, "agent_latency": 0.001, "view_limit": 60.0}


def drive(manager: str, folder: Path, *, mode: Mode = "works", **asked: Any) -> Figures:
    """A run of a few turns, here and now."""
    ask = Ask(manager=manager, mode=mode, **{**TINY, **asked})
    model = FakeModel(ask.latency, ask.mode, output_tokens=60)

    async def opener(session: str) -> Manager:
        (folder / session).mkdir(exist_ok=True)
        return await open_manager(Setup(manager, ask.budget, model, folder / session, ask.keep))

    return asyncio.run(Drive(ask, model, opener).run())


def row(manager: str, figures: Figures | None = None, reason: str = "", **asked: Any) -> Row:
    ask = Ask(manager=manager, turns=1_000, **asked)
    return Row(ask, "ok" if figures else "unavailable", reason, figures or {}, {manager: "1.0"} if figures else {})
