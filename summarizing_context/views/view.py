"""Values of views: what one request sends, activations, the state that makes the next view begin alike, and what each
provider is shown.

States come back from an earlier process, from a checkpoint, by an undo, or with a log whose end is written anew.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import msgspec

from summarizing_context.errors import StoreCorruptError, UndoError
from summarizing_context.log.entries import Bounds, Entry
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import Cut, HeaderNode, Node
from summarizing_context.messages.shapes import Message, decode_message, encode_message
from summarizing_context.stores.base import NewActivation
from summarizing_context.views.tail import WHOLE_GROUPS, Tail, TailItem, Whole
from summarizing_context.worker.native_blocks import NativeBlock
from summarizing_context.worker.summary_cache import Focus

logger = logging.getLogger(__name__)

Reason = Literal[
    "high_water",
    "task_end",
    "budget_lowered",
    "budget_raised",
    "provider_changed",
    "system_changed",
    "log_replaced",
    "idle",
    "explicit",
    "restored",
]

REASON_WORDS: dict[str, str] = {
    "high_water": "nearly full",
    "task_end": "a task ended",
    "budget_lowered": "smaller budget",
    "budget_raised": "larger budget",
    "provider_changed": "other provider",
    "system_changed": "other system prompt",
    "log_replaced": "log replaced",
    "idle": "cache was cold",
    "explicit": "asked for",
    "restored": "gone back",
}


class ActivationReport(NamedTuple):
    """What an activation did; tokens are those of the whole view. `freed` is below 0 where all that an activation did
    was to add a note about a topic. `raw` and `kept` count what stays word for word where more is covered; `raw` also
    where nothing is done, for these messages were to stay so."""

    activated: bool
    reason: Reason
    tokens_before: int
    tokens_after: int
    freed: int
    raw: int = 0  # the newest messages
    kept: int = 0  # older ones: the first request, pinned and critical ones, and those that are important enough


class ActivationRecord(NamedTuple):
    """One activation of a session as it is remembered. Tokens are those of the whole view."""

    number: int  # from 1 on, within the session
    time: str  # ISO 8601, UTC
    provider: str  # whose view it changed; empty where requests name none
    reason: Reason
    tokens_before: int
    tokens_after: int
    covered_from: int  # messages of the log that the view no longer showed word for word, until then
    covered_to: int  # and from then on; fewer where an activation was undone
    messages: int  # of the log
    blocks: int  # summaries in the header
    stand_ins: int  # of these, made without a model until the model's own are ready
    prefix_kept: int  # tokens at the beginning of the view that stayed, so that a prompt cache still serves them
    budget: int = 0  # tokens that the view might take; 0 where it was not noted
    log_version: int = 0  # how often the log was replaced before it
    undoes: int | None = None  # the number of the activation that it took back
    is_undone: bool = False
    can_undo: bool = False  # whether `undo_activation` could take it back once it is the last one
    ends_turn: bool = False  # nothing went but signed thinking of a turn that was open in an earlier activation

    @property
    def why(self) -> str:
        """Why the view changed, in a few words, and whether that was undone."""
        if self.undoes is not None:
            return f"undo of {self.undoes}"
        words = REASON_WORDS[self.reason]
        if self.ends_turn:
            words = "thinking of a finished turn went"
        elif self.reason == "high_water" and self.covered_from == self.covered_to:
            words = "newest did not fit"
        return f"{words}, undone" if self.is_undone else words

    def stored(self, before: bytes) -> NewActivation:
        """Return it as the store keeps it, with the state before it where the header or the cut has changed."""
        known = ("number", "provider", "log_version", "is_undone", "can_undo")  # the store notes these itself
        figures = {name: value for name, value in self._asdict().items() if name not in known}
        kept = self.can_undo or self.undoes is not None
        return NewActivation(self.number, msgspec.json.encode(figures).decode(), before if kept else None, self.undoes)


def last_to_undo(records: Sequence[ActivationRecord], log_version: int) -> ActivationRecord:
    """Return the newest activation that is not undone yet. Raises `UndoError`."""
    open_ones = [record for record in records if not record.is_undone and record.undoes is None]
    shaping = [record for record in open_ones if record.can_undo]
    if not shaping:
        raise UndoError(
            "there is no activation to undo"
            if not open_ones
            else "no activation that covered messages can be undone any longer; restore a checkpoint instead"
        )
    if shaping[-1].log_version != log_version:
        raise UndoError("the log was replaced since the last activation; restore a checkpoint to go back to that log")
    return shaping[-1]


class ActivationRequest(NamedTuple):
    """What an activation that is asked for has to do."""

    keep_messages: int | None = None  # leave these raw, and cover all before
    keep_from: float | None = None  # keep groups word for word that are so important


class ActivationState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an activation decided: with the log it gives the same view again, in any process."""

    serial: int = 0
    reason: Reason | None = None
    room: int = 0  # tokens
    squeeze: int = 0
    cap: int = 0  # tokens of a message where all would not fit otherwise
    staying: int = 0  # tokens of the room that are set aside for messages that must stay
    leaves: int = 0  # segments covered
    leaves_stop: int = 0  # entries in them
    stop: int = 0  # entries covered
    since: int = WHOLE_GROUPS  # entry of the group after them before which nothing of it is shown
    tree: tuple[Node, ...] = ()  # what the header shows of it
    nodes: tuple[HeaderNode, ...] = ()
    before: tuple[Message, ...] = ()  # the first human message
    header: Message | None = None
    after: tuple[Message, ...] = ()  # the other pins
    head_tokens: int = 0
    counter: str = ""
    keep_from: float | None = None  # how important a group has to be to stay word for word, where a call has said so
    focus: Focus | None = None  # the topic of the note in the header
    pin_tokens: int = 0  # of these, all pins
    pins_left_out: int = 0  # pinned messages that it does not show whole
    rules_left_out: int = 0  # standing rules and pinned texts
    system: str = ""  # names the system prompt that the request brought; empty for none
    bounds: Bounds = Bounds()
    held_at: int = 0  # entries of the log when an activation was undone: the view stays until it needs another one
    interruptions: tuple[int, ...] = ()  # entries behind `stop` before which views have given up the open calls
    whole: Whole = Whole()
    closings: tuple[int, ...] = ()  # entries before which views have ended a segment that was open
    native: NativeBlock | None = None  # the provider's own, in front of all else

    def on(self, log: MessageLog) -> ActivationState:
        """The state with the segments that views of this log have ended."""
        ends = log.closings if self.stop <= log.covered_by_segments else {*log.closings, self.stop}
        return msgspec.structs.replace(self, closings=tuple(sorted(ends)))

    @property
    def cut(self) -> Cut:
        return Cut(self.leaves, self.leaves_stop, self.stop)

    @property
    def head(self) -> list[Message]:
        """Messages between the system rows and the tail."""
        header = [] if self.header is None else [self.header]
        native = [] if self.native is None else [self.native.message]
        return [*native, *self.before, *header, *self.after]


def encode_state(state: ActivationState) -> bytes:
    """A state as the store keeps it."""
    return encode_message(msgspec.to_builtins(state))


def decode_state(data: bytes) -> ActivationState:
    """The state that `encode_state` wrote. Raises `msgspec.DecodeError` or `ValueError` for anything else."""
    try:
        return msgspec.convert(decode_message(data), ActivationState)
    except StoreCorruptError as error:
        raise ValueError(str(error)) from None


def usable_state(log: MessageLog, data: bytes) -> ActivationState | None:
    """Return a stored state; None if it cannot be read, or if the log is cut otherwise than when the state was made."""
    try:
        state = decode_state(data)
    except (msgspec.MsgspecError, ValueError) as error:
        logger.warning("an activation state is not readable; it is made again", extra={"cause": type(error).__name__})
        return None
    ends = [0, *(segment.stop for segment in log.segments[: state.leaves])]
    if len(ends) <= state.leaves or ends[state.leaves] != state.leaves_stop:
        return None
    fits = log.group_start(state.stop) == state.stop and max(state.stop, state.bounds.rewritten) <= len(log)
    return state if fits else None


def closings_of(states: Iterable[bytes]) -> set[int]:
    """Return where views have ended segments that were open, by their stored states."""
    found: set[int] = set()
    for data in states:
        with suppress(msgspec.MsgspecError, ValueError):  # it is told where the state itself is taken up
            found.update(decode_state(data).closings)
    return found


ROOM_MARK = " @"  # between a provider's key and tokens

# What the next view of a provider depends on beside its state and the log: `attempted_at` and `attempted_length` as in
# `ProviderView`, and the messages of the view handed out last.
Marks = tuple[int | None, int, int]


@dataclass(slots=True)
class ProviderView:
    """What one provider is shown, at budgets that are about alike."""

    key: str  # names it: the provider, and behind a mark the room where it is not the provider's first view
    state: ActivationState
    tail: Tail
    last: list[Message] = field(default_factory=list)  # the messages of the view handed out last
    merged: list[Message] = field(default_factory=list)  # the same with neighbouring user rows joined
    attempted_at: int | None = None  # history tokens at the last attempt to activate
    attempted_length: int = 0  # messages of the log then
    pending: Reason | None = None  # why the next view may begin differently
    pins_changed: bool = False  # by a call, since they were chosen for this view
    resumed: int | None = None  # messages of this log's view that was handed out last, before going back to it
    beside: ActivationState | None = None  # of the view that the provider was shown before this one, until it is shown
    asked_room: int = 0  # tokens of the room of its latest request; 0 before one in this process
    is_unsaved: bool = False  # it has given up calls since its state was kept
    provider: str = field(init=False)  # the key of the provider

    def __post_init__(self) -> None:
        key, mark, room = self.key.rpartition(ROOM_MARK)
        self.provider = key if mark and room.isdecimal() else self.key

    def has_turn_ended(self, log: MessageLog) -> bool:
        """Whether a turn of the log that went on across an activation has ended: what was signed in it has to go then,
        unless the provider was asked to drop it. Leaving it out later would change the beginning once more."""
        if log.bound_thinking == "asked":
            return False
        was = self.state.bounds
        now = was._replace(settled=min(was.rewritten, log.bounds().settled))
        return now.settled > was.settled and self.tail.binds(now)

    @property
    def marks(self) -> Marks:
        shown = len(self.last) if self.resumed is None else self.resumed
        return self.attempted_at, self.attempted_length, shown


class Change(NamedTuple):
    """An activation that is to be committed."""

    provider_view: ProviderView
    before: ActivationState
    state: ActivationState
    tail: Tail
    report: ActivationReport
    attempted: tuple[int, int] | None = None  # tokens and messages of the log, where this was an attempt to activate
    pins: tuple[TailItem, ...] = ()


def covered_history_of(state: ActivationState, log: MessageLog) -> tuple[object, ...]:
    """Return what a log tells of the messages that a state covers, to be compared with what another log tells.

    Later messages may change it: they end a rule, or bring another text of a file. An empty log has no pinned texts.
    """
    texts, stop = log.kept_texts, state.stop
    plan = texts.plan if texts.plan is not None and texts.plan.message < stop else None
    pinned = [index for index in log.pinned.indexes if index < stop]
    hashes, rules, said = log.hashes[: state.leaves], log.rules.before(stop), [pin.text for pin in log.pinned.texts]
    return hashes, log.leading_count, rules, plan, texts.instructions(stop), texts.notes(stop), pinned, said


def kept_state(
    state: ActivationState, history: tuple[object, ...], old: Sequence[Entry], same: int, log: MessageLog
) -> ActivationState | None:
    """The state for a log whose end is written anew behind its first `same` entries, so that its views begin as before;
    None where what the state covers is not the same any more, or nothing is left behind it. What views did with the
    old end goes with that: calls given up in it, segments ended in it."""
    length, covers = len(log), state.stop > log.leading_count
    if same < state.stop or (covers and (state.stop == length or log.group_start(state.stop) != state.stop)):
        return None
    if (state.since != WHOLE_GROUPS and same < state.bounds.rewritten) or covered_history_of(state, log) != history:
        return None
    ends = [0, *(segment.stop for segment in log.segments[: state.leaves])]
    if ends[-1] != state.leaves_stop:
        return None

    # bounds for the new log: entries of before may stand elsewhere in it
    bounds = state.bounds
    if same < bounds.rewritten:
        moved = {entry.data for entry in old[same : bounds.rewritten]}
        stop = max((at + 1 for at in range(same, length) if log.entries[at].data in moved), default=same)
        bounds = Bounds(stop, min(bounds.settled, stop) if same >= bounds.settled else stop)
    held, given_up = min(state.held_at, same), log.interruptions_behind(state.stop)
    return msgspec.structs.replace(state, bounds=bounds, held_at=held, interruptions=given_up).on(log)
