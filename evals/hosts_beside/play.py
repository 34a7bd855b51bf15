"""One arm plays the session in its host's real runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from evals.hosts_beside.clock import Clock
from evals.hosts_beside.reader import Reader
from evals.hosts_beside.request_figures import Watch
from evals.hosts_beside.rows import Row
from evals.hosts_beside.session import make_session


@dataclass(frozen=True)
class Play:
    """What a run is made of. `setting` is the arm's own threshold, which the search turns."""

    arm: str
    setting: int
    turns: int = 300
    latency: float = 3.0  # steps of the agent that a summary takes
    limit: int = 1_500  # tokens of a summary
    rule: str = "ranked"


class Host(Protocol):
    """A runtime with a model that asks `Stage.reply` and a tool that asks `Stage.result`."""

    async def __aenter__(self) -> Host: ...

    async def __aexit__(self, *error: object) -> None: ...

    async def ask(self, prompt: str) -> None:
        """Run a turn."""


class Stage:
    """What the parts of a host ask while a session is played."""

    def __init__(self, play: Play, clock: Clock, folder: Path) -> None:
        self.arm, self.setting, self.folder = play.arm, play.setting, folder
        self.session = make_session(play.turns)
        self.watch = Watch(self.session)
        self.reader = Reader(self.session.lines(), self.watch, clock, play.latency, play.limit, play.rule)
        self._clock = clock
        self._replies: list[Row] = []

    def begin(self, turn: int) -> None:
        self.watch.begin(turn)
        self._clock.begin(turn)
        self._replies = list(self.session.turns[turn].replies)

    def finish(self) -> None:
        """Raises `RuntimeError` where the host has not asked for every reply of the turn."""
        self._clock.begin(None)
        if self._replies:
            raise RuntimeError(f"{self.arm} ended a turn with {len(self._replies)} replies left")
        self.watch.finish()

    async def reply(self, request: Sequence[Row]) -> Row:
        self.watch.request(request)
        await self._clock.step()
        return self._replies.pop(0)

    def result(self, path: str) -> str:
        return self.session.results[path]


async def run(play: Play, open_host: Any, folder: Path) -> dict[str, Any]:
    """Play a whole session, and tell its figures. `open_host` makes the host of a stage."""
    with Clock() as clock:
        stage = Stage(play, clock, folder)
        async with open_host(stage) as host:
            for number, turn in enumerate(stage.session.turns):
                stage.begin(number)
                await host.ask(turn.prompt)
                stage.finish()
            clock.end()
        waits = [steps / play.latency for steps in clock.waits.values()]
        return {
            "arm": play.arm,
            "setting": play.setting,
            "turns": play.turns,
            "turns_waited": len(waits),
            "waited": round(sum(waits), 2),
            "longest_wait": round(max(waits, default=0.0), 2),
            **stage.watch.figures(),
        }
