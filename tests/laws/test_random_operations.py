"""Everything in random order against all laws, on every strategy: calmly, and while everything fails at random.

LAWS_OPERATIONS steps a strategy, 100 if it is not set, and where everything fails a 25th of them, or 200. LAWS_SEED
begins at another seed. A failure names the seed of its session. What is rare must have happened in 400 steps.
"""

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from .amounts import STRATEGIES
from .chaos import KINDS, Chaos
from .faults import FAULTS, LIES
from .places import remove

OPERATIONS = int(os.environ.get("LAWS_OPERATIONS", "100"))
FAULTY = int(os.environ.get("LAWS_OPERATIONS", "5000")) // 25
ENOUGH = 400  # steps
FIRST_SEED = int(os.environ.get("LAWS_SEED", "1"))
STEPS = 50


async def run(strategy: str, steps: int, folder: Path, *, calm: bool) -> Counter[str]:
    """Sessions of some steps each; what happened in them."""
    done: Counter[str] = Counter()
    for number in range(steps // STEPS):
        seed = FIRST_SEED + number + 10_000_000 * STRATEGIES.index(strategy)
        before = asyncio.all_tasks()
        try:
            await Chaos(seed, strategy, folder / f"{number}.db", done, calm=calm).run(STEPS)
        except Exception as error:
            raise AssertionError(f"{strategy}, session of seed {seed}: {error}") from error
        left = asyncio.all_tasks() - before  # calls that took no notice of their cancellation
        assert not left or not (await asyncio.wait(left, timeout=120))[1]
        remove(folder / f"{number}.db")
    print(f"{strategy}: {dict(sorted(done.items()))}")
    assert done["judged views"] > steps // 3
    assert done["activations"] > steps // 20
    assert done["covered"] > steps // 4
    assert done["reopen"] >= steps // 250
    return done


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_all_laws_hold_under_random_operations(strategy: str, tmp_path: Path) -> None:
    done = await run(strategy, OPERATIONS, tmp_path, calm=True)
    missing = {*KINDS, "shrunk", "stand_in_result", "late_result_note", "undone"} - done.keys() - {"clear"}
    assert OPERATIONS < ENOUGH or not missing, missing


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_all_laws_hold_while_everything_fails_at_random(strategy: str, tmp_path: Path) -> None:
    done = await run(strategy, FAULTY, tmp_path, calm=False)
    assert any(name.startswith("store ") for name in done)
    if FAULTY < ENOUGH:
        return
    assert done["cancelled"] > FAULTY // 50
    wanted = {f"store {what} {when}" for what in ("append", "activation") for when in ("before", "after")}
    wanted |= {"took effect", "took no effect"}  # of what failed or was cancelled
    if strategy != "truncate":
        wanted |= {"summarizer good", *(f"summarizer {kind}" for kind in (*FAULTS, *LIES))}
        assert done["store find before"] + done["store summary before"] + done["store summary after"] > 0
    assert not wanted - done.keys(), wanted - done.keys()
