"""Which run is asked for: one manager, one session, one state of the summarizer. Its key names it in the results."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evals.performance.fake_model import Mode

Kind = Literal["live", "cold", "reopen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """`live`: a view before every call of the agent. `cold`: the whole history, then one view. `reopen`: a live run,
    then the same session opened again, and its messages loaded into another session of the same store."""

    manager: str
    kind: Kind = "live"
    turns: int = 200
    budget: int = 16_000  # tokens
    latency: float = 0.05  # seconds of a summary
    agent_latency: float = 0.01  # seconds of a call of the agent
    mode: Mode = "works"
    keep: float | None = None  # None: the documented defaults
    tuned: bool = False  # `keep` was found so that the mean view is as large as ours
    view_limit: float = 20.0  # seconds after which a view counts as hung, and the run ends
    limit: float = 240.0  # seconds for all

    @property
    def key(self) -> str:
        """Equal for runs that would measure the same; a tuned parameter is part of it, time limits are not."""
        told = asdict(self)
        for name in ("view_limit", "limit"):
            del told[name]
        return json.dumps(told, sort_keys=True)

    @classmethod
    def of(cls, told: dict[str, Any]) -> Ask:
        return cls(**told)
