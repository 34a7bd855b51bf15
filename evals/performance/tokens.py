"""What every manager has alike: the session, what a view is on the wire, and how tokens are counted.

Four characters are one token. Standard library only: this file also runs in the environments of the peers.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

Message = dict[str, Any]  # OpenAI chat format

CHARACTERS = 4  # of one token
FRAME = 12  # characters for role and framing of a message
SYSTEM_TOKENS = 400
PIECE = 40  # characters
FILLER = "read file, edit line, run it"


def steps(turns: int) -> Iterator[Message | None]:
    """Yield the messages of the session that every manager is driven through; None where the agent asks for a view.

    A turn is a question (40 tokens), one call with its result (60 + 240) and an answer (60). Every 10th turn makes two
    calls at once, every 25th is a loop of six calls without a word of the user, every 40th has a result of 2,000
    tokens. So that lost text can be told, each 40 characters carry a marker of their own: `m000123.004` is the fifth
    piece of text 123.
    """
    number = count(1)
    rule = "You are a careful agent. "
    yield {"role": "system", "content": (rule * (SYSTEM_TOKENS // 6 + 1))[: SYSTEM_TOKENS * CHARACTERS]}
    for turn in range(turns):
        rounds, parallel, result_tokens = 1, 1, 2_000 if turn % 40 == 20 else 240
        if turn % 25 == 24:
            rounds, result_tokens = 6, 60
        elif turn % 10 == 9:
            parallel, result_tokens = 2, 120
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


def tool_call(id: str, name: str, arguments: Any) -> Message:
    """A call as it stands in a message; arguments that are no text are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def calls_of(message: Message) -> Iterator[tuple[str, str, Any]]:
    """The calls of a message: id, name and arguments."""
    for call in message.get("tool_calls") or ():
        yield call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])


def rows_of(role: str, text: str, calls: Iterable[Any] = (), results: Iterable[tuple[str, str]] = ()) -> list[Message]:
    """What one message of a framework says: the results of calls (id and text), or a text with calls."""
    asked = [tool_call(*call) for call in calls]
    rows = [{"role": "tool", "tool_call_id": id, "content": content} for id, content in results]
    return rows or [{"role": role, "content": text, **({"tool_calls": asked} if asked else {})}]


def text_tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS)


def message_tokens(message: Message) -> int:
    return -(-(FRAME + sum(map(len, _paid(message)))) // CHARACTERS)


def text_of(message: Message) -> str:
    """What the message says, the arguments of its calls left out."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def wire(message: Message) -> str:
    """The message as one string: equal strings are equal to a provider's cache."""
    return "|".join((message["role"], *_paid(message)))


def render(messages: Iterable[Message]) -> str:
    """A request as one text, for a fake model to read."""
    return "\n".join(map(wire, messages))


def shared_characters(one: str, other: str) -> int:
    """Characters with which both begin."""
    return bisect_left(range(min(len(one), len(other))), True, key=lambda at: one[: at + 1] != other[: at + 1])


def anthropic_body(messages: Sequence[Message]) -> dict[str, Any]:
    """A view as a request of Anthropic Messages: the first system rows apart, results of calls in one user row."""
    first = next((at for at, message in enumerate(messages) if message["role"] != "system"), len(messages))
    rows: list[dict[str, Any]] = []
    for at, message in enumerate(messages[first:], first):
        blocks: list[Message] = [{"type": "text", "text": text_of(message)}] if message.get("content") else []
        if message["role"] == "tool":
            blocks = [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": text_of(message)}]
            if messages[at - 1]["role"] == "tool":
                rows[-1]["content"] += blocks
                continue
        for id, name, arguments in calls_of(message):
            blocks.append({"type": "tool_use", "id": id, "name": name, "input": arguments})
        rows.append({"role": "user" if message["role"] == "tool" else message["role"], "content": blocks})
    system = "\n".join(map(text_of, messages[:first]))
    return {"system": system, "messages": rows, "max_tokens": 1_000, "tools": [{"name": "read_file"}]}


def _paid(message: Message) -> Iterator[str]:
    yield text_of(message)
    for call in message.get("tool_calls") or ():
        yield from (call["id"], call["function"]["name"], call["function"]["arguments"])
    if message.get("tool_call_id"):
        yield message["tool_call_id"]
