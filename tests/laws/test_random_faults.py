"""Every law holds over every strategy while summarizer and store fail at random and calls are cancelled half-way.

400 steps a strategy, a 25th of LAWS_OPERATIONS if that is set; LAWS_SEED begins at another seed. A failure names
the seed of its session.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from .chaos import Chaos
from .faults import FAULTS, LIES
from .places import remove

pytestmark = pytest.mark.anyio
WANTED = int(os.environ.get("LAWS_OPERATIONS", "10000")) // 25
FIRST_SEED = int(os.environ.get("LAWS_SEED", "1"))
STEPS = 50
STRATEGIES = ["hierarchical", "summarize", "truncate", "importance"]


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_all_laws_hold_while_everything_fails_at_random(strategy: str, tmp_path: Path) -> None:
    done: Counter[str] = Counter()
    for number in range(WANTED // STEPS):
        seed = FIRST_SEED + number + 10_000_000 * STRATEGIES.index(strategy)
        before = asyncio.all_tasks()
        try:
            await Chaos(seed, strategy, tmp_path / f"{number}.db", done).run(STEPS)
        except Exception as error:
            raise AssertionError(f"{strategy}, session of seed {seed}: {error}") from error
        left = asyncio.all_tasks() - before  # calls that took no notice of their cancellation
        assert not left or not (await asyncio.wait(left, timeout=120))[1]
        remove(tmp_path / f"{number}.db")
    print(f"{strategy}: {dict(sorted(done.items()))}")
    assert done["judged views"] > WANTED // 3
    assert done["activations"] > WANTED // 20
    assert done["covered"] > WANTED // 4
    assert done["reopen"] > WANTED // 250
    assert done["cancelled"] > WANTED // 50
    assert done["took effect"] > 0  # of what failed or was cancelled
    assert done["took no effect"] > 0
    wanted = {f"store {what} {when}" for what in ("append", "activation") for when in ("before", "after")}
    if strategy != "truncate":
        wanted |= {"summarizer good", *(f"summarizer {kind}" for kind in (*FAULTS, *LIES))}
        assert done["store find before"] + done["store summary before"] + done["store summary after"] > 0
    assert wanted <= done.keys()
