"""Which sessions are tuned on, and which are held out to judge by. Pure.

By session, never by question: one session at several budgets stands wholly on one side. Sessions of one kind (a
domain, a folder) are dealt out evenly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, NamedTuple

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.cases.sources import CaseSource, Generated, Imported

Side = Literal["train", "validation"]


class Split(NamedTuple):
    """The two sides."""

    train: list[CaseSource]
    validation: list[CaseSource]

    def side(self, name: Side) -> list[CaseSource]:
        return self.train if name == "train" else self.validation


def split_sessions(sources: Sequence[CaseSource], seed: int) -> Split:
    """Half of the sessions of each kind to either side, by the hash of their names and the seed."""
    kinds: dict[str, set[str]] = {}
    for source in sources:
        kind, name = identity(source)
        kinds.setdefault(kind, set()).add(name)
    held_out: set[tuple[str, str]] = set()
    odd = 0  # of kinds with an odd number of sessions, every second one gives the larger half
    for kind in sorted(kinds):
        dealt = sorted(kinds[kind], key=lambda name: hashlib.sha256(f"{seed}/{kind}/{name}".encode()).hexdigest())
        half = (len(dealt) + odd) // 2
        odd ^= len(dealt) % 2
        held_out.update((kind, name) for name in dealt[:half])
    split = Split(
        [source for source in sources if identity(source) not in held_out],
        [source for source in sources if identity(source) in held_out],
    )
    if not split.train or not split.validation:
        raise SettingsError("tuning needs at least two sessions: one half to tune on, the other to judge by; give more")
    return split


def identity(source: CaseSource) -> tuple[str, str]:
    """The kind of a session, and its name within the kind, whatever its budget."""
    if isinstance(source, Generated):
        return source.recipe.domain, f"{source.recipe.seed}/{source.recipe.tokens}"
    if isinstance(source, Imported):
        return source.dataset, str(source.number)
    return source.path.parent.name, source.path.name
