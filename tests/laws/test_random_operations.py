"""Everything in random order against all laws: about 1,000 operations a strategy in the gate, a million in `make laws`.

`LAWS_SEED` begins at another seed. A failure prints the steps that led to it; LAWS_SHRINK=1 looks for fewer (minutes).
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, seed
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import run_state_machine_as_test

from summarizing_context import Settings
from summarizing_context.errors import SettingsError

from .amounts import ALL, OPERATIONS
from .operations import Operations

FIRST_SEED = int(os.environ.get("LAWS_SEED", "1"))
STRATEGIES = ["hierarchical", "summarize", "truncate", "importance"]
ROUND = hypothesis_settings(
    max_examples=10,
    stateful_step_count=50,
    deadline=None,
    database=None,
    print_blob=False,
    phases=(Phase.generate, Phase.shrink) if os.environ.get("LAWS_SHRINK") else (Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_laws_hold_under_random_operations(strategy: str) -> None:
    try:
        Settings(strategy=strategy)
    except SettingsError:
        pytest.skip(f"there is no strategy {strategy} yet")
    machine = type(f"Operations_{strategy}", (Operations,), {"strategy": strategy, "done": Counter()})
    number = FIRST_SEED + 10_000_000 * STRATEGIES.index(strategy)
    wanted = OPERATIONS if ALL or strategy != "importance" else OPERATIONS // 5  # it differs in what it keeps only
    while machine.done["operations"] < wanted:
        run_state_machine_as_test(seed(number)(machine), settings=ROUND)
        number += 1
    done = machine.done
    print(f"{strategy}: {dict(done)}")
    assert done["activations"] > wanted // 100
    assert done["covered"] > wanted // 10
    assert done["shrunk"] > wanted // 100
    assert done["stand_in_result"] > 0
    assert done["late_result_note"] > 0
    assert done["undone"] > 0
    assert done["views"] > wanted // 10
