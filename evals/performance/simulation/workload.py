"""The session that is simulated: sizes of the steps, cold moments, and messages of these sizes.

Sizes follow TraceLab's real agent sessions (CC BY 4.0, figures only): tokens appended by a step are lognormal with a
median of 770 and a 90th percentile of 3.3k, which gives a mean of 1.47k. One step in 80 finds the cache cold.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from summarizing_context.messages.estimate import MESSAGE_TOKENS, estimate_text

Message = dict[str, Any]

SYSTEM_TOKENS = 20_000
MEDIAN, SIGMA = 770, 1.137  # tokens of a step
LEAST = 60  # tokens of a step
COLD_ONE_IN = 80
TURN = 12  # steps between two requests of the human
_CALL = 45  # tokens of a call without its text

_WORDS = (
    "branch build cache change check client commit config counter cursor deploy diff driver entry error event field "
    "file filter flag folder handler header hook index input job key layer limit line list lock log loop mark merge "
    "module mount name node order output page parser patch path plan point port queue range reader record release "
    "report result root route rule schema scope script section server session signal source stack state store stream"
)


class Step(NamedTuple):
    """What one request finds new in the log."""

    tokens: int
    cold: bool  # so long after the one before that the cache is gone


def steps(count: int, seed: int) -> list[Step]:
    """The sizes of a session's steps; equal for an equal seed, and a shorter session is a prefix of a longer one."""
    chance = random.Random(f"sizes {seed}")
    made = []
    for _ in range(count):
        size = max(LEAST, round(chance.lognormvariate(math.log(MEDIAN), SIGMA)))
        made.append(Step(size, chance.random() < 1 / COLD_ONE_IN))
    return made


class Texts:
    """Texts of a wanted number of tokens, cut from one long one: cheap to make, never the same twice in a row."""

    def __init__(self, seed: object) -> None:
        self._chance = random.Random(f"texts {seed}")
        words = self._chance.choices(_WORDS.split(), k=150_000)
        self._pool = " ".join(f"{word}{'.' if at % 9 == 8 else ''}" for at, word in enumerate(words))
        self._characters = len(self._pool) / estimate_text(self._pool)  # of a token

    def text(self, tokens: int) -> str:
        size = int(tokens * self._characters)
        start = self._chance.randrange(len(self._pool) // 2)
        rounds = size // (len(self._pool) // 2)
        return self._pool[start:] * rounds + self._pool[start : start + size - rounds * (len(self._pool) - start)]


def opening(texts: Texts) -> list[Message]:
    """What stands before the first step."""
    rules = {"role": "system", "content": texts.text(SYSTEM_TOKENS - MESSAGE_TOKENS)}
    return [rules, {"role": "user", "content": texts.text(200)}]


def messages(at: int, step: Step, texts: Texts) -> Iterator[Message]:
    """The messages of step number `at`: a call with its result, or an answer and the human's next request."""
    left = step.tokens - 2 * MESSAGE_TOKENS
    if at % TURN == TURN - 1:
        yield {"role": "assistant", "content": f"{at}: {texts.text(max(1, left * 2 // 3))}"}
        yield {"role": "user", "content": f"{at}: {texts.text(max(1, left // 3))}"}
        return
    call = {"id": f"c{at}", "type": "function", "function": {"name": "run", "arguments": f'{{"step": {at}}}'}}
    said = min(60, left // 4)
    yield {"role": "assistant", "content": texts.text(said), "tool_calls": [call]}
    yield {"role": "tool", "tool_call_id": f"c{at}", "content": texts.text(max(1, left - said - _CALL // 3))}
