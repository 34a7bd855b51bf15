"""Build logs, rooms and small parts for the core tests; messages come from the builders of the law tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from summarizing_context.concurrency import Pace
from summarizing_context.log.entries import Entry, PlacedMessage, make_entry
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.segments import Limits
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.messages.reading import Reading, read_message
from summarizing_context.views.budget import Room, Shares
from summarizing_context.views.shrunk_messages import Price
from summarizing_context.views.tail import MessageReader, Tail, extend_tail
from tests.laws.builders import Message, assistant, call, result, session, system, user

__all__ = ["Message", "assistant", "call", "result", "session", "system", "user"]

SMALL = Limits(100, 200, 400)
PRICE = Price(estimate_text, 100)


def one_call(*ids: str, text: str = "", dialect: str = "openai") -> Message:
    """A message that calls `read` once for each id."""
    return call(dialect, *((id, "read", {"path": id}) for id in ids), text=text)


def answer(id: str, text: str = "ok", dialect: str = "openai") -> Message:
    return result(dialect, id, text)


def readings(*messages: Message) -> list[Reading]:
    return [read_message(message) for message in messages]


def reads(*messages: Message, start: int = 0) -> list[PlacedMessage]:
    return [PlacedMessage(start + n, message, read_message(message)) for n, message in enumerate(messages)]


def entry(message: Message) -> Entry:
    return make_entry(message, estimate_text, "estimate")


def entries(messages: Iterable[Message]) -> list[Entry]:
    return [entry(message) for message in messages]


def timeline(messages: Iterable[Message], limits: Limits = SMALL) -> MessageLog:
    """A timeline that has taken the messages one by one."""
    made = MessageLog(limits, PRICE.image_tokens)
    for each in entries(messages):
        made.extend(each)
    return made


def room(tokens: int, squeeze: int = 0, **shares: float) -> Room:
    return Room(tokens, fixed_shares(**shares), squeeze)


def fixed_shares(**shares: float) -> Shares:
    """Shares for which tests have worked their numbers out, whatever the defaults are."""
    return Shares(**{"high_water": 0.85, "low_water": 0.16, **shares})


def tail_of(log: MessageLog, room: Room, start: int | None = None) -> Tail:
    """A tail that has been shown the whole log from `start` on."""
    made = Tail(log.leading_count if start is None else start, room, PRICE)
    extend_tail(MessageReader(log, Pace()), made)
    return made


def texts_of(message: Message | None) -> list[str]:
    """The texts of a message's content."""
    content = [] if message is None else message["content"]
    return [content] if isinstance(content, str) else [block["text"] for block in content]


def shown(items: Sequence[Any]) -> list[Message]:
    return [item.message for item in items]


# any JSON value, not too deep, with every kind of text
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
ROLES = st.sampled_from(["user", "assistant", "tool", "system", "developer", "function", "model"])
ODD_MESSAGES = st.builds(
    lambda role, rest: {**rest, "role": role},
    ROLES,
    st.fixed_dictionaries(
        {},
        optional={
            "content": JSON
            | st.lists(
                st.fixed_dictionaries(
                    {
                        "type": st.sampled_from(["text", "tool_use", "tool_call", "tool_result", "thinking", "image"])
                        | JSON
                    },
                    optional={"text": JSON, "id": JSON, "input": JSON, "tool_use_id": JSON, "content": JSON},
                ),
                max_size=4,
            ),
            "tool_calls": JSON | st.lists(st.fixed_dictionaries({"id": JSON, "function": JSON}), max_size=3),
            "tool_call_id": JSON,
            "metadata": JSON,
            "refusal": JSON,
            "function_call": JSON,
            "reasoning_content": JSON,
        },
    ),
).filter(lambda message: not message.keys() <= {"role", "metadata"})

# short logs over a handful of ids, so that ids are reused, missed and answered late
STEPS = st.one_of(
    st.just(user("go on")),
    st.just(assistant("done")),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(lambda ids: one_call(*ids)),
    st.sampled_from("abcd").map(answer),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=2).map(
        lambda ids: user([{"type": "tool_result", "tool_use_id": id, "content": "ok"} for id in ids])
    ),
)
LOGS = st.lists(STEPS, max_size=40)
