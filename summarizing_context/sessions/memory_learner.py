"""What a session asks of the background task that extracts memories."""

from __future__ import annotations

from typing import Protocol


class MemoryLearner(Protocol):
    """What a session asks of the background task that extracts memories."""

    dropped: int  # memories that a model proposed and the log did not bear out
    last_error: str | None

    def wake(self) -> None:
        """Go on reading, if there is anything to read."""

    def read_to_end(self) -> None:
        """Read the log up to its present end."""

    def opened(self, stop: int, updated_at: str) -> None:
        """The log held so many entries when it was opened, the last of that time."""

    def forget(self) -> None:
        """The log was replaced: nothing of it has been read."""

    async def settle(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to read; False after `timeout` seconds."""

    async def leave(self, within: float) -> None:
        """The session ends: read the rest, within so many seconds."""

    async def close(self) -> None:
        """End what is under way."""
