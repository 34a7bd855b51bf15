"""The rows of a comparison: one JSON line a run, appended as they come."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from evals.performance.asking import Ask


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
