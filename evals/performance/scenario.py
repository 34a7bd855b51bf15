"""The session that every manager is driven through: deterministic, and marked so that lost text can be told.

A turn is a question (40 tokens), one call with its result (60 + 240) and an answer (60). Every 10th turn makes two
calls at once, every 25th is a loop of six calls without a word of the user, every 40th has a result of 2,000 tokens.
Each 40 characters of text carry a marker of their own: `m000123.004` is the fifth piece of text 123.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from evals.performance.tokens import CHARACTERS, Message, tool_call

PIECE = 40  # characters
SYSTEM_TOKENS = 400
FILLER = "read file, edit line, run it"


def steps(turns: int) -> Iterator[Message | None]:
    """The messages in order; None where the agent asks for its next request."""
    number = count(1)
    rule = "You are a careful agent. "
    yield {"role": "system", "content": (rule * (SYSTEM_TOKENS // 6 + 1))[: SYSTEM_TOKENS * CHARACTERS]}
    for turn in range(turns):
        rounds, parallel, result_tokens = 1, 1, 240
        if turn % 25 == 24:
            rounds, result_tokens = 6, 60
        elif turn % 10 == 9:
            parallel, result_tokens = 2, 120
        elif turn % 40 == 20:
            result_tokens = 2_000
        yield {"role": "user", "content": marked(next(number), 40)}
        yield None
        for _ in range(rounds):
            said = next(number)
            ids = [f"call_{said:06d}_{n}" for n in range(parallel)]
            path = f"/src/f{turn % 97}.py"
            calls = [tool_call(id, "read_file", {"path": path, "q": marked(next(number), 20)}) for id in ids]
            yield {"role": "assistant", "content": marked(said, 20), "tool_calls": calls}
            for id in ids:
                yield {"role": "tool", "tool_call_id": id, "content": marked(next(number), result_tokens)}
            yield None
        yield {"role": "assistant", "content": marked(next(number), 60)}


def marked(text: int, tokens: int) -> str:
    """Text number `text`, of so many tokens."""
    pieces = max(1, tokens * CHARACTERS // PIECE)
    return "".join(f"m{text:06d}.{piece:03d} {FILLER}"[: PIECE - 1] + " " for piece in range(pieces))
