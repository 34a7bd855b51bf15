"""A few seconds of `python -m evals.proxy.soak`: clients of every protocol, a provider with every sort of failure."""

from __future__ import annotations

import pytest

from evals.proxy.faults import CUT, KINDS, NO_ANSWER
from evals.proxy.soak import soak

pytestmark = pytest.mark.anyio


async def test_nothing_is_lost_mixed_up_or_changed_whatever_the_provider_does():
    told = await soak(clients=6, total=90, seed=3)
    assert told.holds, told
    assert told.requests >= 90
    assert told.activations
    assert {*CUT, NO_ANSWER, "429", "too long", "hang up", "pieces"} <= told.kinds.keys() <= KINDS.keys()
    assert told.hung_up
