"""The arms that evals compare, by name, and the view of an arm: its texts by part, its tokens, and its summaries.

Pure. `strategies` and `baselines` build views. Tokens are those of the built-in estimate, equal on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from summarizing_context.evaluation.cases.model import Message, read_session
from summarizing_context.messages.estimate import MESSAGE_TOKENS, estimate_text
from summarizing_context.settings.values import Settings

PartName = Literal["frame", "summary", "ledger", "tail"]
TOLERANCE = 0.02  # of the tokens that all arms are given


class Piece(NamedTuple):
    """One text of a view."""

    part: PartName
    text: str


class Node(NamedTuple):
    """A summary in a view, and the messages that it stands for."""

    start: int
    stop: int
    text: str
    passes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmView:
    """What an arm sends at one cut."""

    pieces: tuple[Piece, ...]  # in the order of the view
    tokens: int
    nodes: tuple[Node, ...] = ()
    raw_from: int = 0  # the first message of the raw tail
    facts: tuple[tuple[str, str], ...] = ()  # of its ledger: paths, and what was last done to them

    @property
    def texts(self) -> list[str]:
        return [piece.text for piece in self.pieces]

    @property
    def summaries(self) -> list[str]:
        """The texts of its summaries, without what frames them."""
        return [node.text for node in self.nodes]

    @property
    def ledger(self) -> list[str]:
        """The block of the ledger, if it shows one."""
        return [piece.text for piece in self.pieces if piece.part == "ledger"]

    @property
    def frame(self) -> list[str]:
        """All of it that is neither a summary nor the ledger."""
        return [piece.text for piece in self.pieces if piece.part not in ("summary", "ledger")]

    def passes_at(self, message: int) -> int:
        """Through how many summarizations went what this message says; 0 where it is raw."""
        return next((node.passes for node in self.nodes if node.start <= message < node.stop), 0)


def texts_of(messages: Sequence[Message]) -> list[list[str]]:
    """The words of each message, arguments as plain values: as JSON has them, a line end is glued to the next name."""
    return [list(read.texts) for read in read_session(messages)]


def leading_rows(messages: Sequence[Message]) -> int:
    """How many system rows a session begins with."""
    return next(
        (at for at, message in enumerate(messages) if message["role"] not in ("system", "developer")), len(messages)
    )


def first_tokens(text: str, tokens: int) -> str:
    """The beginning of `text`, at most so many tokens."""
    return _cut(text, tokens, from_end=False)


def last_tokens(text: str, tokens: int) -> str:
    """The end of `text`, at most so many tokens."""
    return _cut(text, tokens, from_end=True)


def with_summaries(view: ArmView, nodes: tuple[Node, ...]) -> ArmView:
    """The view with other summaries in the place of its own and of its ledger, and tokens counted anew."""
    before = sum(map(estimate_text, [*view.summaries, *view.ledger]))
    after = sum(estimate_text(node.text) for node in nodes)
    frames = [piece for piece in view.pieces if piece.part not in ("summary", "ledger")]
    at = next((at for at, piece in enumerate(view.pieces) if piece.part == "summary"), 0)
    pieces = (*frames[:at], *(Piece("summary", node.text) for node in nodes), *frames[at:])
    return replace(view, pieces=pieces, nodes=nodes, facts=(), tokens=view.tokens - before + after)


def filled_up(view: ArmView, older: Sequence[str], tokens: int) -> ArmView:
    """The view with the end of what stands before its tail, as far as `tokens` leave room.

    Whole messages seldom fill a view to the token; without this, arms could not be compared at equal tokens.
    """
    room = tokens - view.tokens - MESSAGE_TOKENS
    if room < max(1, TOLERANCE / 4 * tokens):
        return view
    words = last_tokens(_newest(older, room), room)
    if not words:
        return view
    at = next((at for at, piece in enumerate(view.pieces) if piece.part == "tail"), len(view.pieces))
    pieces = (*view.pieces[:at], Piece("tail", words), *view.pieces[at:])
    return replace(view, pieces=pieces, tokens=view.tokens + MESSAGE_TOKENS + estimate_text(words))


def _newest(older: Sequence[str], room: int) -> str:
    """The newest of `older` texts, oldest first, that are surely enough for `room` tokens."""
    found: list[str] = []
    size = 0
    for text in reversed(older):
        found.append(text)
        size += estimate_text(text)
        if size > room:
            break
    return "\n".join(reversed(found))


def _cut(text: str, tokens: int, *, from_end: bool) -> str:
    total = estimate_text(text)
    if total <= tokens:
        return text
    length = max(0, tokens) * len(text) // max(1, total)
    low, high = 0, len(text)
    for _ in range(24):
        cost = estimate_text(text[-length:] if from_end else text[:length]) if length else 0
        if cost <= tokens:
            low = length
        else:
            high = length
        if high - low <= 1 or tokens - 2 <= cost <= tokens:
            break
        length = (low + high) // 2
    return (text[-low:] if from_end else text[:low]) if low else ""


Role = Literal["strategy", "baseline", "reference"]
REFERENCE = "hierarchical"  # its view sets the tokens of all others


@dataclass(frozen=True, slots=True)
class Arm:
    """One row of the table."""

    name: str
    role: Role
    about: str
    strategy: str = ""  # the setting, for strategies
    changed: tuple[tuple[str, Any], ...] = ()  # other settings that it differs in

    def settings(self, given: Settings) -> Settings:
        """The settings of its context."""
        return replace(given, strategy=self.strategy, **dict(self.changed))


ARMS = (
    Arm("hierarchical", "strategy", "segment summaries rolled up in a tree, and the ledger", "hierarchical"),
    Arm(
        "no-ledger", "strategy", "as hierarchical, without the ledger", "hierarchical", changed=(("ledger_share", 0.0),)
    ),
    Arm("flat", "strategy", "segment summaries one after the other, the oldest dropped", "summarize"),
    Arm("importance", "strategy", "messages chosen by importance", "importance"),
    Arm("truncation", "strategy", "first request, then only the newest messages", "truncate"),
    Arm("tail", "baseline", "only the newest messages"),
    Arm("masking", "baseline", "old tool results taken out, words and calls kept"),
    Arm("head", "baseline", "as hierarchical, all summaries replaced by the beginning of what they cover"),
    Arm("heads", "baseline", "as hierarchical, each summary replaced by the beginning of its source"),
    Arm("random", "baseline", "as hierarchical, each summary replaced by random sentences of its source"),
    Arm("everything", "reference", "the whole past, at whatever cost"),
    Arm("evidence", "reference", "only the lines in which the answers stand"),
    Arm("nothing", "reference", "the system rows and the newest message"),
)


EQUAL_ARMS = tuple(arm for arm in ARMS if arm.role != "reference")  # compared at equal tokens
