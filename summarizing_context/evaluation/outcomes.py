"""The outcome of a run of evals: sums of each session and arm, and the verdict on each probe. All values are JSON.

No value depends on the machine, the clock or a path, so equal runs give equal bytes.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from summarizing_context.settings.values import PLACES, Settings

FORMAT = 1


class ProbeOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """One probe, and its verdict in every arm."""

    id: str
    kind: str
    cut: int
    question: str
    literals: list[str]
    forbid: list[str]
    evidence: list[tuple[int, str]]  # message, its words around the answer
    age: int  # tokens between the newest evidence and the cut
    passes: int  # summarizations that the evidence went through in the reference arm
    depth: float | None
    used_at: int | None
    kept: dict[str, int]  # by arm: 1 kept, 0 lost, -1 stale
    why: str  # the verdict in the reference arm
    words: str  # of its view


class ViewOutcome(msgspec.Struct, frozen=True):
    """One arm's view at one cut."""

    cut: int
    tokens: int
    target: int  # tokens that it was given
    unsupported: list[str]
    drifted: list[str]


class SessionOutcome(msgspec.Struct, frozen=True):
    """One session."""

    id: str
    group: str  # sessions of one group are drawn together by the bootstrap
    title: str
    domain: str
    source: str
    messages: int
    tokens: int
    budget: int  # of its last cut
    skipped: list[str]  # cuts that were not scored, with the reason
    sums: dict[str, dict[str, tuple[float, float]]]  # by arm, by figure: of, out of
    views: dict[str, list[ViewOutcome]]  # by arm
    probes: list[ProbeOutcome]


class GateOutcome(msgspec.Struct, frozen=True):
    """What became of one gate."""

    name: str
    result: Literal["passed", "failed", "vacuous", "nothing to look at"]
    words: str

    @property
    def failed(self) -> bool:
        return self.result in ("failed", "nothing to look at")


class RunOutcome(msgspec.Struct, frozen=True):
    """A whole run."""

    suite: str
    claim: str
    arms: list[str]
    settings: dict[str, Any]
    sessions: list[SessionOutcome]
    gates: list[GateOutcome] = []
    format: int = FORMAT


def changed_settings(settings: Settings) -> dict[str, Any]:
    """The settings that differ from their defaults, without those that name a place."""
    defaults = Settings()
    names = [name for name in settings.__slots__ if not name.startswith("_") and name not in PLACES]
    return {name: value for name in names if (value := getattr(settings, name)) != getattr(defaults, name)}
