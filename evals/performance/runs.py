"""Which run is asked for: one manager, one session, one state of the summarizer. Its key names it in the results."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

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


class Row(NamedTuple):
    """One run. `status` is `ok`, `failed`, `unavailable` or `late`; `reason` is one line for all but the first."""

    ask: Ask
    status: str
    reason: str
    figures: dict[str, Any]
    versions: dict[str, str]

    def line(self) -> str:
        told = {name: getattr(self.ask, name) for name in Ask.__dataclass_fields__}
        return json.dumps({**self._asdict(), "ask": told})


class Results:
    """A file of rows; a run that is there is not made again."""

    def __init__(self, path: Path, *, retry: bool = False) -> None:
        self.path = path
        self.writing = Lock()
        self.rows = {row.ask.key: row for row in read(path) if row.status == "ok" or not retry}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{row.line()}\n" for row in self.rows.values()), encoding="utf-8")

    def get(self, ask: Ask) -> Row | None:
        return self.rows.get(ask.key)

    def keep(self, row: Row) -> Row:
        with self.writing, self.path.open("a", encoding="utf-8") as file:
            self.rows[row.ask.key] = row
            file.write(f"{row.line()}\n")
        return row


def read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    told = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Row(**{**row, "ask": Ask.of(row["ask"])}) for row in told]
