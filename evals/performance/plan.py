"""All runs of the comparison, in the order in which they are made: what is measured, at which size, for whom.

Pure. Parameters that must be found first (`tuning`) come in as `keeps`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from evals.performance.managers import MANAGERS
from evals.performance.runs import Ask

OURS = ("ours", "ours-extractive", "ours-economy")
SLOW = ("agent-framework",)  # its views grow with the history: it would take hours
TUNABLE = tuple(name for name, entry in MANAGERS.items() if entry.knob is not None)
PEERS = tuple(name for name in MANAGERS if name not in OURS)
SUMMARIZING = tuple(name for name in PEERS if not name.startswith("truncate"))

Keeps = Mapping[str, float]  # manager -> its tuned parameter


class Sizes(NamedTuple):
    """Turns of each part; `small` is for trying the whole out."""

    main: int = 1_000
    long: int = 5_000
    tuning: int = 400
    burst: int = 200
    always: int = 36
    never: int = 36


FULL = Sizes()
SMALL = Sizes(main=100, long=120, tuning=100, burst=100, always=32, never=32)


class Part(NamedTuple):
    """Runs that belong together. Where small times matter, one runs at a time."""

    runs: tuple[Ask, ...]
    at_once: int = 1


def parts(keeps: Keeps, sizes: Sizes = FULL) -> dict[str, Part]:
    """By name; `tuned` runs are left out where no parameter is known."""
    reopen = Ask(manager="ours", kind="reopen", turns=sizes.main, latency=0.01)
    return {
        "main": Part(tuple(_main(keeps, sizes))),
        "long": Part(tuple(_long(sizes))),
        "slow": Part(tuple(_slow(sizes))),
        "outage": Part(tuple(_outage(sizes)), at_once=2),
        "cold": Part((*_cold(sizes), reopen)),
    }


def tuning_run(manager: str, keep: float | None, sizes: Sizes = FULL) -> Ask:
    """Five to one, as in the main part, but fast."""
    return Ask(manager=manager, turns=sizes.tuning, latency=0.01, agent_latency=0.002, keep=keep, limit=90.0)


def _main(keeps: Keeps, sizes: Sizes) -> Iterator[Ask]:
    for name in (*OURS, *PEERS):
        yield Ask(manager=name, turns=sizes.main)
        if name in keeps:
            yield Ask(manager=name, turns=sizes.main, keep=keeps[name], tuned=True)


def _long(sizes: Sizes) -> Iterator[Ask]:
    for name in (*OURS[:2], *PEERS):
        limit = 60.0 if name in SLOW else 120.0
        yield Ask(manager=name, turns=sizes.long, latency=0.01, agent_latency=0.002, keep=None, limit=limit)


def _slow(sizes: Sizes) -> Iterator[Ask]:
    yield Ask(manager="ours", turns=sizes.main, latency=0.5)
    for mode in ("burst", "always", "never"):
        yield Ask(manager="ours", turns=sizes.main, mode=mode)


def _outage(sizes: Sizes) -> Iterator[Ask]:
    for name in ("ours", *SUMMARIZING):
        yield Ask(manager=name, turns=sizes.burst, mode="burst", limit=60.0)
        yield Ask(manager=name, turns=sizes.always, mode="always", limit=30.0)
        yield Ask(manager=name, turns=sizes.never, mode="never", view_limit=3.0, limit=8.0)
    for name in ("ours", "langchain", "strands", "pydantic-background"):
        yield Ask(manager=name, turns=60, latency=1.0, limit=60.0)


def _cold(sizes: Sizes) -> Iterator[Ask]:
    for name in (*OURS[:2], *PEERS):
        yield Ask(manager=name, kind="cold", turns=sizes.main, limit=60.0)
