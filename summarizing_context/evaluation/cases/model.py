"""A case: a session, its cuts and its probes; and the messages of a session as the evaluation reads them.

Pure. `messages.reading` knows the shapes of messages. Here the arguments of calls become plain values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, NamedTuple, get_args

from summarizing_context.messages.estimate import MESSAGE_TOKENS, estimate_text
from summarizing_context.messages.reading import read_message

Message = dict[str, Any]
Kind = Literal[
    "recall",
    "artifact",
    "continuation",
    "decision",
    "constraint",
    "supersession",
    "ordering",
    "abstention",
    "needle",
    "used",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
MEANING: dict[str, str] = {
    "recall": "something that was said or read",
    "artifact": "a file or record, and what was last done to it",
    "continuation": "what comes next",
    "decision": "a choice that was made",
    "constraint": "a standing rule of the human's",
    "supersession": "a value that was changed: only the newest is right",
    "ordering": "what came before what",
    "abstention": "something that was never said",
    "needle": "one odd line in a long result",
    "used": "an exact value that later tool calls really used (hindsight)",
}
KEPT_SHARE = 0.16  # of the budget: the newest part of a session, which every strategy shows raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A question about what stands before a cut, and the exact words that a right answer needs."""

    id: str
    kind: Kind
    cut: int  # messages before the view
    question: str
    literals: tuple[str, ...] = ()  # all of them are needed; for `ordering`, in this order
    any_of: tuple[str, ...] = ()  # and at least one of these
    forbid: tuple[str, ...] = ()  # stale or invented answers
    evidence: tuple[int, ...] = ()  # messages that hold the answer, from 0
    used_at: int | None = None  # the message whose tool call used it
    depth: float | None = None  # for `needle`: place in its result, 0 the beginning, 1 the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A place in a session at which a view is taken."""

    at: int  # messages before the view
    budget: int  # tokens that the view may use


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One session and all that is asked about it."""

    id: str
    messages: tuple[Message, ...]
    cuts: tuple[Cut, ...]
    probes: tuple[Probe, ...] = ()
    title: str = ""
    domain: str = ""
    source: str = ""  # generated, written, transcript, locomo, longmemeval
    licence: str = ""
    group: str = ""  # cases of one group stand and fall together: one session at several budgets

    def probes_at(self, cut: Cut) -> list[Probe]:
        """The probes of one cut."""
        return [probe for probe in self.probes if probe.cut == cut.at]


class Call(NamedTuple):
    """One tool call, its arguments as texts."""

    tool: str
    values: tuple[tuple[str, str], ...]  # (name, text) of each argument, nested ones too
    id: str = ""
    names: tuple[str, ...] = ()  # all of its arguments', nested ones too


@dataclass(frozen=True, slots=True)
class Read:
    """One message as the evaluation sees it."""

    role: str
    human: bool
    plain_texts: tuple[str, ...]  # texts that are no call: words, results, thinking
    calls: tuple[Call, ...]
    is_result: bool
    tokens: int
    results: tuple[tuple[str, str, bool], ...] = ()  # (id of the call, text, whether it is marked as failed)

    @property
    def texts(self) -> Iterator[str]:
        """All its words, arguments as plain values."""
        yield from self.plain_texts
        for call in self.calls:
            yield call.tool
            yield from (text for _, text in call.values)

    @property
    def source(self) -> Iterator[str]:
        """All that a summary of it may repeat: its words, and what arguments are called, which may be values too."""
        yield from self.texts
        for call in self.calls:
            yield from call.names


def read_session(messages: Sequence[Message]) -> list[Read]:
    """Every message read."""
    return [_read(message) for message in messages]


def tokens_before(reads: Sequence[Read]) -> list[int]:
    """Tokens before each message, and of all."""
    return list(accumulate((read.tokens for read in reads), initial=0))


def tail_start(reads: Sequence[Read], cut: Cut) -> int:
    """Index of the first message of the newest part before a cut. The part has at least one message."""
    sums, tokens = tokens_before(reads[: cut.at]), KEPT_SHARE * cut.budget
    return next((at for at in range(cut.at) if sums[cut.at] - sums[at] <= tokens), max(0, cut.at - 1))


def message_tokens(message: Message) -> int:
    """What a message's words cost by the built-in estimate, which is the same on every machine; images cost nothing."""
    return MESSAGE_TOKENS + sum(map(estimate_text, read_message(message).texts))


def _read(message: Message) -> Read:
    reading = read_message(message)
    texts = tuple(text for part in reading.parts if part.kind != "call" for text in part.texts)
    calls = tuple(_call(part.name, part.id, part.texts) for part in reading.parts if part.kind == "call")
    results = tuple((part.id, "\n".join(part.texts), part.failed) for part in reading.parts if part.kind == "result")
    return Read(reading.role, reading.human, texts, calls, bool(reading.answers), message_tokens(message), results)


def _call(tool: str, id: str, texts: Sequence[str]) -> Call:
    text = texts[0] if texts else ""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    return Call(tool, tuple(_flat("", value)), id, tuple(_names(value)))


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from map(str, value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _names(inner)


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(str(key), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _flat(name, inner)
    elif isinstance(value, str):
        yield name, value
    elif value is not None and not isinstance(value, bool):
        yield name, str(value)


def cuts_near(messages: Sequence[Message], budget: int, shares: Sequence[float]) -> tuple[Cut, ...]:
    """Cuts before the assistant messages nearest to these shares of the session."""
    places = [at for at, message in enumerate(messages) if message.get("role") == "assistant" and at > 0]
    wanted = {min(places, key=lambda at: abs(at - share * len(messages))) for share in shares} if places else set()
    return tuple(Cut(at=at, budget=budget) for at in sorted(wanted))
