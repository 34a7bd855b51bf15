"""What a manager must do to be measured; each adapter in `managers/` does it for one framework.

Only `add`, `load` and `view` are timed. Turning messages into the framework's own and its view back into plain messages
is the adapter's work, and is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from evals.performance.fake_model import FakeModel
from evals.performance.tokens import Message

TRIGGER = 0.85  # of the budget, where a framework has no default of its own


@dataclass(frozen=True, slots=True)
class Setup:
    """What an adapter builds its manager from."""

    name: str  # in the table of managers
    budget: int  # tokens
    model: FakeModel
    folder: Path  # of its own, empty


class Manager(Protocol):
    """One session of one framework."""

    def taken(self, message: Message) -> Any:
        """A message in the framework's own form."""

    async def add(self, message: Any) -> None:
        """Append what `taken` gave."""

    async def load(self, messages: Sequence[Any]) -> None:
        """A whole history at once, as a host does that has no saved state."""

    async def view(self) -> Any:
        """The next request, in the framework's own form."""

    def shown(self, view: Any) -> list[Message]:
        """That request as plain messages."""

    async def settle(self) -> None:
        """Wait for background work, if there is any."""

    def notes(self) -> dict[str, Any]:
        """What the framework says about itself."""

    async def close(self) -> None: ...


class OneByOne:
    """What most frameworks have in common: a history is loaded message by message, and nothing needs closing."""

    async def load(self, messages: Sequence[Any]) -> None:
        for message in messages:
            await self.add(message)

    async def add(self, message: Any) -> None:
        raise NotImplementedError

    async def settle(self) -> None:
        return None

    def notes(self) -> dict[str, Any]:
        return {}

    async def close(self) -> None:
        return None
