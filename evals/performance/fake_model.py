"""A summarizer of known latency, the same for every manager. It fails when told to."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Literal, get_args

from evals.performance.tokens import CHARACTERS, text_tokens

Mode = Literal["works", "burst", "always", "never"]
MODES: tuple[str, ...] = get_args(Mode)
BURST = range(3, 8)  # the calls that fail in a burst


class ModelDown(RuntimeError):
    """The failure that was asked for."""


@dataclass
class FakeModel:
    """`works`, fails in a `burst`, fails `always`, or `never` answers."""

    latency: float  # seconds
    mode: Mode = "works"
    output_tokens: int = 300
    calls: int = 0
    failed: int = 0
    input_tokens: int = 0  # of the calls that were answered
    largest_input: int = 0

    async def summarize(self, text: str) -> str:
        call = self._called()
        if self.mode == "never":
            await asyncio.Event().wait()
        await asyncio.sleep(self.latency)
        return self._answer(call, text)

    def summarize_now(self, text: str) -> str:
        """For managers that can only call a model synchronously."""
        call = self._called()
        while self.mode == "never":
            time.sleep(1)
        time.sleep(self.latency)
        return self._answer(call, text)

    def _called(self) -> int:
        self.calls += 1
        return self.calls

    def _answer(self, call: int, text: str) -> str:
        if self.mode == "always" or (self.mode == "burst" and call in BURST):
            self.failed += 1
            raise ModelDown("503: the summarizer is unavailable (as asked for)")
        tokens = text_tokens(text)
        self.input_tokens += tokens
        self.largest_input = max(self.largest_input, tokens)
        return summary_text(call, self.output_tokens)


def summary_text(number: int, tokens: int) -> str:
    """A summary by which later readings know it again."""
    says = f"Summary s{number:06d}: the goal, what was decided, files touched, and the next steps. "
    rest = "Read the files, edited the lines, ran the tests, noted the errors and how they were mended. "
    length = tokens * CHARACTERS
    return (says + rest * (length // len(rest) + 1))[:length]
