"""The view: what one request sends, the state that makes the next one begin with it, and what each provider is shown.

Values. A view is system rows, the first human message, the header, pins, and the raw tail. States come back from an
earlier process, from a checkpoint, by an undo, or with a log whose end is written anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from summarizing_context.errors import StoreCorruptError
from summarizing_context.log.entries import Bounds, Entry
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import Cut, Form, HeaderNode, Node, stand_ins
from summarizing_context.messages.shapes import Message, decode_message, encode_message
from summarizing_context.views.activation import ActivationPlan, ActivationReport, Reason
from summarizing_context.views.pins import Pins
from summarizing_context.views.shrunk_messages import Price
from summarizing_context.views.tail import WHOLE_GROUPS, Tail, TailItem, Whole
from summarizing_context.worker.summary_cache import Focus


@dataclass(frozen=True, slots=True)
class View:
    """The messages of one request, and what it cost to make room for them.

    `stable_prefix_messages` are the leading messages that the view before, for the same provider, had already,
    byte for byte: a cache breakpoint after them reads that cache, one at the end writes the next. `tokens` are those of
    the messages, without a system prompt that the request has brought: that and its tools are the `fixed_tokens`. Both
    together stay within the budget.

    With `rewritten_prefix` the beginning is not, or was not always, the one under which the model thought: some models
    of Anthropic refuse thinking that they signed under another one, unless the request has
    `thinking.block_binding.prefix_mismatch_behavior = "drop_block"`.
    """

    shared: Sequence[Message]  # to be read only: later views show the same ones
    tokens: int
    stable_prefix_messages: int
    activation: ActivationReport | None = None
    fixed_tokens: int = 0
    rewritten_prefix: bool = False

    @property
    def messages(self) -> list[Message]:
        """The messages, as fresh copies."""
        copies: list[Message] = msgspec.to_builtins(self.shared)
        return copies


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
    blocks: tuple[tuple[int, int, Form], ...] = ()  # of the tree: first segment, the one behind the last, form
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

    def on(self, log: MessageLog) -> ActivationState:
        """The state with the segments that views of this log have ended."""
        ends = log.closings if self.stop <= log.covered_by_segments else {*log.closings, self.stop}
        return msgspec.structs.replace(self, closings=tuple(sorted(ends)))

    @property
    def cut(self) -> Cut:
        return Cut(self.leaves, self.leaves_stop, self.stop)

    @property
    def tree_nodes(self) -> tuple[tuple[Node, Form], ...]:
        return tuple((Node(start, stop), form) for start, stop, form in self.blocks)

    @property
    def header_figures(self) -> dict[str, int]:
        """What can be told of the header without its text."""
        return {
            "header_blocks": len(self.nodes),
            "header_tokens": sum(node.tokens for node in self.nodes),
            "stand_ins": stand_ins(self.nodes),
        }

    @property
    def head(self) -> list[Message]:
        """Messages between the system rows and the tail."""
        header = [] if self.header is None else [self.header]
        return [*self.before, *header, *self.after]


def activated(
    before: ActivationState, proposal: ActivationPlan, reason: Reason, counter: str, system: str = ""
) -> ActivationState:
    """The state after an activation."""
    cut, header, room = proposal.cut, proposal.header, proposal.room
    state = ActivationState(
        serial=before.serial + 1,
        reason=reason,
        room=room.tokens,
        squeeze=room.squeeze,
        cap=room.cap,
        staying=room.staying,
        leaves=cut.leaves,
        leaves_stop=cut.leaves_stop,
        stop=cut.stop,
        since=proposal.tail.since,
        blocks=tuple((node.start, node.stop, form) for node, form in header.tree),
        nodes=header.nodes,
        header=header.message,
        head_tokens=header.tokens,
        counter=counter,
        keep_from=proposal.keep_from,
        focus=proposal.focus,
        system=system,
        bounds=proposal.tail.bounds,
        interruptions=before.interruptions,
    )
    state = with_pins(state, proposal.pins)
    whole = proposal.tail.whole._replace(tokens=max(0, int(room.high - state.head_tokens)))
    proposal.tail.whole = whole
    return msgspec.structs.replace(state, whole=whole)


def with_pins(state: ActivationState, pins: Pins) -> ActivationState:
    """The state with other pins beside its header."""
    return msgspec.structs.replace(
        state,
        before=tuple(pin.message for pin in pins.before),
        after=tuple(pin.message for pin in pins.after),
        head_tokens=state.head_tokens - state.pin_tokens + pins.tokens,
        pin_tokens=pins.tokens,
        pins_left_out=len(pins.unshown),
        rules_left_out=pins.rules_left_out,
    )


def gone_back(there: ActivationState, present: ActivationState, bounds: Bounds) -> ActivationState:
    """The state that takes a view back to an earlier one. `bounds` are those of the log now: what was said since the
    present state was made was said under another beginning."""
    same = present.bounds.rewritten == bounds.rewritten
    return msgspec.structs.replace(
        there,
        serial=present.serial + 1,
        reason="restored",
        system=present.system,
        bounds=there.bounds if same else bounds,
        held_at=bounds.rewritten,
        interruptions=present.interruptions,
    )


def encode_state(state: ActivationState) -> bytes:
    """A state as the store keeps it."""
    return encode_message(msgspec.to_builtins(state))


def decode_state(data: bytes) -> ActivationState:
    """The state that `encode_state` wrote. Raises `msgspec.DecodeError` or `ValueError` for anything else."""
    try:
        return msgspec.convert(decode_message(data), ActivationState)
    except StoreCorruptError as error:
        raise ValueError(str(error)) from None


def common_prefix(before: Sequence[Message], after: Sequence[Message]) -> int:
    """How many leading messages are equal."""
    same = 0
    for old, new in zip(before, after, strict=False):
        if old is not new and old != new:
            break
        same += 1
    return same


def merged(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with neighbouring user rows as one, for back ends that want roles to alternate."""
    joined: list[Message] = []
    for message in messages:
        if joined and _is_plain_user(message) and _is_plain_user(joined[-1]):
            joined[-1] = {**joined[-1], "content": _blocks(joined[-1]) + _blocks(message)}
        else:
            joined.append(message)
    return joined


def _is_plain_user(message: Message) -> bool:
    plain = message["role"] == "user" and not message.get("tool_calls") and "tool_call_id" not in message
    return plain and isinstance(message["content"], str | list)


def _blocks(message: Message) -> list[Any]:
    content = message["content"]
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


ROOM_MARK = " @"  # between a provider's key and tokens

_BY_ACTIVATIONS = ("thinking_dropped", "chain_dropped", "shrunk")


@dataclass(slots=True)
class RepairCounts:
    """Repairs of messages as they were first shown, by kind."""

    kinds: Counter[str] = field(default_factory=Counter)
    left_out: int = 0  # tokens

    def note(self, items: Sequence[TailItem]) -> None:
        for item in items:
            if item.repairs:
                self.kinds.update(item.repairs)
                self.left_out += item.left_out

    def note_changed(self, before: Sequence[TailItem], after: Sequence[TailItem]) -> None:
        """Count messages shown before that an activation has shrunk, or made lose what was bound to the beginning."""
        repaired = [item for item in after if item.repairs]
        known = {item.seq: item.repairs for item in before} if repaired else {}
        for item in repaired:
            lost = [kind for kind in item.repairs if kind in _BY_ACTIVATIONS and kind not in known.get(item.seq, ())]
            self.kinds.update(lost)
            self.left_out += item.left_out if "shrunk" in lost else 0


class ViewMarks(NamedTuple):
    """What the next view of a provider depends on beside its state and the log; as in `ProviderView`."""

    attempted_at: int | None = None
    attempted_length: int = 0
    shown: int = 0  # messages of the view handed out last


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
    counted: int = 0  # items whose repairs are counted
    resumed: int | None = None  # messages of this log's view that was handed out last, before going back to it
    beside: ActivationState | None = None  # of the view that the provider was shown before this one, until it is shown
    asked_room: int = 0  # tokens of the room of its latest request; 0 before one in this process
    encoded: tuple[ActivationState, bytes] | None = None  # the state that was encoded last

    def encode(self, state: ActivationState) -> bytes:
        """A state as the store keeps it. That before an activation was encoded by the activation before."""
        if self.encoded is None or self.encoded[0] is not state:
            self.encoded = state, encode_state(state)
        return self.encoded[1]

    def show(self, rows: Sequence[Message], repairs: RepairCounts) -> int:
        """Hand out the view as it stands, behind these system rows, and count repairs that it shows first; how many of
        its messages lead the last one too."""
        state = self.state
        repairs.note(self.tail.items[self.counted :])
        self.counted = len(self.tail.items)
        header = [] if state.header is None else [state.header]
        messages = [*rows, *state.before, *header, *state.after, *[item.message for item in self.tail.items]]
        before = self.last
        if self.resumed is not None:
            before, self.resumed = messages[: self.resumed], None
        self.last, self.beside = messages, None
        return common_prefix(before, messages)

    def has_turn_ended(self, log: MessageLog) -> bool:
        """Whether a turn of the log that went on across an activation has ended: what was signed in it has to go then,
        unless the provider was asked to drop it. Leaving it out later would change the beginning once more."""
        if log.bound_thinking == "asked":
            return False
        was = self.state.bounds
        now = was._replace(settled=min(was.rewritten, log.bounds().settled))
        return now.settled > was.settled and self.tail.binds(self.tail.start, now)

    @property
    def provider(self) -> str:
        """The key of the provider."""
        key, mark, room = self.key.rpartition(ROOM_MARK)
        return key if mark and room.isdecimal() else self.key

    @property
    def is_plain(self) -> bool:
        """Whether it is known to show messages only, and each of them whole."""
        is_known = bool(self.last) or not self.state.serial  # what an earlier process was shown is not looked at yet
        return is_known and not self.state.head and not any(item.left_out for item in self.tail.items)

    @property
    def marks(self) -> ViewMarks:
        shown = len(self.last) if self.resumed is None else self.resumed
        return ViewMarks(self.attempted_at, self.attempted_length, shown)


class Replaced(NamedTuple):
    """A log that another has taken the place of."""

    entries: Sequence[Entry]
    same: int  # so many entries from the first on stand in both


class Change(NamedTuple):
    """An activation that is to be committed."""

    provider_view: ProviderView
    before: ActivationState
    state: ActivationState
    tail: Tail
    pins: tuple[TailItem, ...]
    report: ActivationReport
    attempted: tuple[int, int] | None = None  # tokens and messages of the log, where this was an attempt to activate


def priced(state: ActivationState, price: Price, counter: str) -> ActivationState:
    """A state that an earlier process may have made, with tokens by this one's counter."""
    if state.counter != counter:
        state = msgspec.structs.replace(state, head_tokens=sum(map(price.message, state.head)), counter=counter)
    pins = sum(map(price.message, (*state.before, *state.after)))
    return msgspec.structs.replace(state, pin_tokens=pins)


CoveredHistory = tuple[object, ...]


def covered_history_of(state: ActivationState, log: MessageLog) -> CoveredHistory:
    """Return what a log tells of the messages that a state covers, to be compared with what another log tells.

    Later messages may change it: they end a rule, or bring another text of a file. An empty log has no pinned texts.
    """
    texts, stop = log.kept_texts, state.stop
    plan = texts.plan if texts.plan is not None and texts.plan.message < stop else None
    pinned = [index for index in log.pinned.indexes if index < stop]
    hashes, rules, said = log.hashes[: state.leaves], log.rules.before(stop), [pin.text for pin in log.pinned.texts]
    return hashes, log.leading_count, rules, plan, texts.instructions(stop), pinned, said


def kept_state(
    state: ActivationState, history: CoveredHistory, old: Replaced, log: MessageLog
) -> ActivationState | None:
    """The state for a log whose end is written anew, so that its views begin as before; None where what the state
    covers is not the same any more, or nothing is left behind it."""
    same, length = old.same, len(log)
    covers = state.stop > log.leading_count
    if same < state.stop or (covers and (state.stop == length or log.group_start(state.stop) != state.stop)):
        return None
    if (state.since != WHOLE_GROUPS and same < state.bounds.rewritten) or covered_history_of(state, log) != history:
        return None
    ends = [0, *(segment.stop for segment in log.segments[: state.leaves])]
    if ends[-1] != state.leaves_stop:
        return None
    return msgspec.structs.replace(state, bounds=_moved(state.bounds, old, log), held_at=min(state.held_at, same))


def _moved(bounds: Bounds, old: Replaced, log: MessageLog) -> Bounds:
    """The bounds for the new log: entries of before may stand elsewhere in it."""
    same = old.same
    if same >= bounds.rewritten:
        return bounds
    moved = {entry.data for entry in old.entries[same : bounds.rewritten]}
    last = max((at for at in range(same, len(log)) if log.entries[at].data in moved), default=same - 1)
    return Bounds(last + 1, min(bounds.settled, last + 1) if same >= bounds.settled else last + 1)
