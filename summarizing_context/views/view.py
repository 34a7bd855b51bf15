"""What each provider is shown: the room that its view shares out, the raw tail, and the state that makes the next view
begin alike; and what activations are asked for, report and record.

The tail is the newest groups as shown, kept up to date with the log. Of a message that is shrunk head and tail stay,
and the cut says how many tokens are left out. States come back from an earlier process, from a
checkpoint, by an undo, or with a log whose end was rewritten.
"""

from __future__ import annotations

import json
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from math import inf
from typing import Any, Literal, NamedTuple

import msgspec

from summarizing_context.errors import StoreCorruptError, UndoError
from summarizing_context.log.entries import (
    NOTES,
    Bounds,
    Cut,
    LogGroup,
    Piece,
    PlacedMessage,
    Repair,
    note,
    present,
    show_groups,
)
from summarizing_context.log.message_log import MessageLog
from summarizing_context.messages.reading import (
    BESIDE_CONTENT,
    CHAIN,
    THINKING_FIELDS,
    Block,
    Message,
    Part,
    Reading,
    blocks_of,
    bound_among,
    call_id,
    canonical_json,
    content_key,
    decode_message,
    encode_message,
    has_signed_thinking,
    is_result,
    is_wordless_media,
    kind_of,
    metadata_of,
    needs_thinking,
    read_block,
    read_call,
    read_content,
    read_message,
    shape_of,
    text_block,
    without_extras,
    without_metadata,
    without_thinking,
    without_wire_content,
)
from summarizing_context.messages.rendering import LEAST_CUT, LEAST_KEPT, SHORT_MARK_TOKENS, cut_middle
from summarizing_context.messages.text import fence, within_fence
from summarizing_context.messages.tokens import MESSAGE_TOKENS, Price, media_cost
from summarizing_context.settings import HIGH_WATER, Count, Positive, Settings
from summarizing_context.stores.base import NewActivation
from summarizing_context.worker.side_calls import NativeBlock
from summarizing_context.worker.summary_cache import HEADER_TARGET, Focus, HeaderNode, Node

WHOLE_GROUPS = -1  # of `Tail.since`

MESSAGE_SHARE = 0.25  # of the room, that a long message of the tail may take

AMPLE_SHARE = 0.75  # of the room, that a message with its thinking may take
GOING_ON_SHARE = 0.95  # the same, of a message from which an answer goes on: providers refuse it without its thinking

TIGHT = 1  # squeezes with which everything is shrunk

ENDS_FROM = 48_000  # tokens of a room in which activations come at natural ends, and earlier, where nothing else is set

BARE = 8  # squeezes with which a view is nothing but the newest message, in half of the room


@dataclass
class Room:
    """Tokens to share out; not changed once it is made. Each step of `squeeze` halves what pins, single messages and
    headers may take. A header may take more where that much is `spare`; where it `gives_way`, it takes no more.
    Messages that must stay are paid first, as the leading system rows are: shares are of what is left then."""

    tokens: int
    settings: Settings
    squeeze: int = 0
    staying: int = 0  # tokens of messages that must stay, as far as these may
    spare: float = 0.0  # tokens that nothing else takes
    cap: int = 0  # tokens of a message where all would not fit otherwise; 0 where they do
    gives_way: bool = False  # the header, to the messages behind it

    def __post_init__(self) -> None:
        tokens, settings, squeezed = self.tokens, self.settings, 1 << self.squeeze
        self.is_bare = self.squeeze >= BARE  # there is no room for anything but the newest message

        # messages that must stay may take all but the floor: with that an activation can free what it has to
        self.min_free = 0.12 * tokens
        self.staying_cap = 0 if self.is_bare else max(0, int(tokens - max(1 / 3 * tokens, 2 * self.min_free, 128)))
        self.staying = min(self.staying, self.staying_cap)
        self.shared = shared = tokens - self.staying  # what is shared out

        # an activation is asked for by a view above `high`, or by an end of work where the room is large; it leaves
        # about `low` of the raw tail, frees `min_free` at least, and shows the newest group whole if that takes no more
        # than its share
        self.low = settings.low_water * shared
        # each request reads the view again: in large rooms that costs more than activations that come earlier
        early = max(0.85 * shared, HIGH_WATER * ENDS_FROM, self.low + self.min_free)
        share = settings.high_water
        self.high = self.staying + (min(HIGH_WATER * shared, early) if share is None else share * shared)
        self.reserve = int(tokens - self.high + self.min_free)  # what an activation leaves free, and a cut message does
        self.takes_ends = tokens >= ENDS_FROM if settings.natural_ends is None else settings.natural_ends
        self.newest_share = 0.0 if self.squeeze else (HIGH_WATER - HEADER_TARGET) * shared

        # a header may take its share; above its target more of it is merged
        least = 0.0 if self.gives_way else 1 / squeezed
        self.header_target, self.header_share = (
            max(least * share * shared, min(share * shared, self.spare)) for share in (HEADER_TARGET, 0.50)
        )

        # what a shrunk message keeps at least; what a pin, important groups, a message and a group of the tail may take
        self.least_cap = 64 >> self.squeeze
        self.pin_cap = max(self.least_cap, int(0.10 * shared / squeezed))
        self.keep_cap = int(0.20 * shared / squeezed)
        self.message_share = MESSAGE_SHARE * shared / squeezed
        self.group_share = 0.40 * shared / squeezed

    def message_cap(self, shown_of_group: int) -> int:
        """Return what the next message of a group may take, of which so much is shown already."""
        if self.is_bare:
            return self.tokens // 2
        if self.cap:
            return self.cap
        return max(self.least_cap, int(min(self.message_share, (self.group_share - shown_of_group) / 2)))


_JOINED = frozenset({"text", "media", "opaque"})  # kinds of parts that may become one
_LEFT_OUT = "…"  # no provider takes an empty text
_NO_WORD = "[… {} tokens left out …]"  # where nothing else is left, or a note's very fence has no room


def water_level(sizes: Sequence[float], share: float) -> float:
    """Return the cap at which parts of these sizes fill `share` together: small parts stay whole."""
    left = max(0.0, share)
    for done, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - done) >= left:
            return left / (len(sizes) - done)
        left -= size
    return max(sizes, default=0.0)


def shrink_message(
    message: Message, tokens: int, cap: int, price: Price, *, mute: bool = False, thinking: bool = False
) -> tuple[Message, int]:
    """Return `message`, which costs `tokens`, brought down to `cap` tokens or as near as its calls and results allow,
    and what travels whole; with `thinking` its thinking does, else that goes. Its texts are cut each where it stands;
    those too many for that, as one. To `mute` it is to leave none where even the heads of texts are too much."""
    reading = read_content(message)
    one = _joined(message, reading, thinking=thinking)
    media = 0 if one == message else media_cost(reading.media, price.image_tokens)
    as_one = _Cutting(one, tokens - media, price, thinking)
    least = as_one.within(0) or one  # the head of its text alone
    cost = price.message(least)
    if cost < cap:
        by_part = as_one if one == message else _Cutting(message, tokens, price, thinking)
        for each in (by_part, as_one) if 2 * by_part.extras <= cap else (as_one,):  # which has no extras
            share = cap - MESSAGE_TOKENS
            for attempt in range(9):  # what a cut costs is known only after counting it: aim lower until it fits
                if (cut := each.within(max(0, share))) is None:
                    break
                if (counted := price.message(cut)) <= cap:
                    return cut, counted
                share = min(share - 1, share * cap // counted) if attempt < 4 else share // 2
    if mute and cost > cap:
        least = _joined(message, reading, silent=True)
        cost = price.message(least)
    return least, cost


class _Cutting:
    """The parts of a message that costs `tokens`, and what they cost, whatever the cap."""

    def __init__(self, message: Message, tokens: int, price: Price, thinking: bool) -> None:
        self.message, self.price = message, price
        reading = read_content(message)
        parts = [part._replace(whole=part.whole or (thinking and part.kind == "thinking")) for part in reading.parts]
        whole = [part for part in parts if part.whole]
        read = [part for part in parts if part.kind != "extra" and not part.whole]
        self.parts = [part for part in read if part.kind != "thinking"]
        self.keeps_thinking = any(part.kind == "thinking" for part in whole)
        extras = [text for part in reading.parts if part.kind == "extra" for text in part.sent]
        self.extras = price.texts(extras)

        # What cannot be cut: names of calls, what travels whole, and the frame. What blocks within a result
        # have of that goes with the first cut, for then it is one text.
        fixed = [text for part in whole for text in part.sent]
        fixed += [part.name for part in self.parts if part.kind in ("call", "result")]
        named, results = price.texts(fixed), {part.block for part in self.parts if part.kind == "result"}
        emptied = message
        if results and (blocks := blocks_of(message)):
            left = [read_block(block).saying("") if at in results else block for at, block in enumerate(blocks)]
            emptied = {**message, content_key(message): [] if -1 in results else left}
        self.frames = named + price.texts(read_content(emptied).frame)
        self.images = sum(media_cost(part.measured, price.image_tokens) for part in self.parts)

        # Tokens of each part, about: by its characters.
        words = max(1, tokens - MESSAGE_TOKENS - named - price.texts(reading.frame) - self.images)
        lengths = {id(part): sum(map(len, part.sent)) for part in read}
        scale = words / max(1, sum(lengths.values()))
        self.sizes = [scale * lengths[id(part)] for part in self.parts]

        # Tokens below which hardly a word of each text could stay; 0 where that does not matter.
        is_many = sum(part.kind in _JOINED for part in self.parts) > 1
        self.least = min(LEAST_CUT, max(self.sizes)) if is_many else 0.0

    def within(self, share: int) -> Message | None:
        """The message without thinking, its texts within `share` tokens; None where hardly a word of each could be."""
        share -= self.extras
        keep_media = share - self.frames >= 2 * self.images
        level = water_level(self.sizes, share - self.frames - (self.images if keep_media else 0))
        if level < self.least:
            return None
        message, place, sized = self.message, content_key(self.message), zip(self.parts, self.sizes, strict=True)
        plan = [_Cut(part, size, level, self.price, keep_media) for part, size in sized]
        shown = dict(without_wire_content(message if self.keeps_thinking else _without_thinking_fields(message)))

        # what stands beside the content, in its own form
        beside = [key for key in BESIDE_CONTENT if shown.get(key)]
        first = len(plan) - len(beside)
        for key, cut in zip(beside, plan[first:], strict=True):
            if cut.is_whole:
                continue
            if isinstance(shown[key], str):
                shown[key] = cut.text(shown[key])
            elif key == "function_call" and isinstance(shown[key], dict):
                shown[key] = read_call(shown[key]).changed(cut.arguments)
            else:
                del shown[key]
        plan = plan[:first]

        # listed calls, also those that stand as blocks
        blocks = {cut.part.block: cut for cut in plan if cut.part.block >= 0}
        if isinstance(calls := shown.get("tool_calls"), list):
            known = {cut.part.id: cut for cut in blocks.values() if cut.part.kind == "call"}
            listed = iter([cut for cut in plan if cut.part.kind == "call" and cut.part.block < 0])
            shown["tool_calls"] = []
            for call in [call for call in calls if isinstance(call, dict)]:
                at = known.get(call_id(call.get("id"))) or next(listed, None)
                shown["tool_calls"].append(call if at is None or at.is_whole else read_call(call).changed(at.arguments))

        # blocks; or content that is one text, or a tool's result
        content = shown.get(place)
        texts = [cut for cut in plan if cut.part.kind != "call" and cut.part.block < 0]
        if isinstance(content, list) and not is_result(shown):
            shown[place] = [
                blocks[at].block(message, block) if at in blocks else block
                for at, block in enumerate(content)
                if at in blocks or self.keeps_thinking or shape_of(block).kind != "thinking"
            ] or [text_block(message, _LEFT_OUT)]
        elif texts or not is_result(shown):
            said = texts[0].result() if content and texts else ""
            media = filter(is_wordless_media, content if keep_media and isinstance(content, list) else ())
            shown[place] = [text_block(message, said), *media] if isinstance(content, list) else said
        return shown


@dataclass(frozen=True, slots=True)
class _Cut:
    """A part that takes `size` tokens, and how many of them are shown."""

    part: Part
    size: float
    cap: float
    price: Price
    keep_media: bool

    @property
    def is_whole(self) -> bool:
        return self.size <= self.cap

    def text(self, text: str) -> str:
        """The text within the cap."""
        return cut_middle(text, int(self.size), int(self.cap), self.price.count)

    def result(self) -> str:
        text = self.text("\n".join(self.part.texts))
        return text if self.keep_media else "\n".join(filter(None, [text, *_media_left_out([self.part])]))

    def block(self, message: Message, block: Any) -> Any:
        """The block of the message that the part is, within the cap."""
        part, known = self.part, read_block(block if isinstance(block, dict) else {})
        if self.is_whole and (self.keep_media or not part.media):
            return block
        if part.kind == "call":
            return known.changed(self.arguments)
        if part.kind == "result":
            return known.saying(_as_result(known, self.result(), self.keep_media))
        if part.kind == "media" and self.keep_media:
            return block
        text = self.text("\n".join(part.texts))
        if part.kind == "media":
            text = f"[{known.field or kind_of(block)} left out]" + (f" {text}" if text else "")
        return known.saying(text) if part.kind == "text" and known.whole else text_block(message, text)

    def arguments(self, arguments: Any) -> Any:
        """Arguments within the cap. They keep their form: an object stays an object, JSON text stays JSON text."""
        parsed, made, count = arguments, dict[str, Any](), self.price.count
        if isinstance(arguments, str):
            try:
                parsed = json.loads(arguments)
            except (ValueError, RecursionError):
                return self.text(arguments)
        if isinstance(parsed, dict):
            texts = {key: value if isinstance(value, str) else canonical_json(value) for key, value in parsed.items()}
            scale = self.size / max(1, sum(len(key) + len(text) for key, text in texts.items()))
            sizes = {key: len(text) * scale for key, text in texts.items()}
            level = water_level(list(sizes.values()), int(self.cap) - scale * sum(map(len, texts)))
            if level >= 1:
                made = {
                    key: parsed[key] if size <= level else cut_middle(texts[key], int(size), int(level), count)
                    for key, size in sizes.items()
                }
            elif self.cap >= LEAST_KEPT:
                made = {"…": f"{len(texts)} arguments left out"}
        return canonical_json(made) if isinstance(arguments, str) else made


def _as_result(block: Block, said: str, keep_media: bool = False) -> Any:
    """A text in the form that the result in this block has."""
    if block.field == "functionResponse":
        return {"output": said}
    if not isinstance(block.said, list):
        return said
    media = filter(is_wordless_media, block.said if keep_media else ())
    return [{"text": said} if block.field else {"type": "text", "text": said}, *media]


def _without_thinking_fields(message: Message) -> Message:
    """The message without what it thinks beside its content; an ellipsis where servers want that beside calls."""
    kept = {key: value for key, value in message.items() if key not in THINKING_FIELDS}
    if message.get("reasoning_content") and message.get("tool_calls"):
        kept["reasoning_content"] = _LEFT_OUT
    return kept


def _joined(message: Message, reading: Reading, *, thinking: bool = False, silent: bool = False) -> Message:
    """The message with its words in one text, where the first of them stood; with its `thinking`, or `silent`."""
    parts, place = reading.parts, content_key(message)
    content = message.get(place)

    def said(parts: Sequence[Part]) -> str:
        texts = [text for part in parts for text in part.texts if text and not silent]
        return "\n".join([*texts, *(() if silent else _media_left_out(parts))]) or _LEFT_OUT

    def emptied(arguments: Any) -> Any:
        return "{}" if isinstance(arguments, str) else {}

    bare = without_extras(message) if any(part.kind == "extra" for part in parts) else message
    bare = without_wire_content(bare if thinking else _without_thinking_fields(bare))
    made: Message = {key: value for key, value in bare.items() if key not in BESIDE_CONTENT}
    words = said([part for part in parts if part.kind in _JOINED and not part.whole])
    if is_result(message):
        if silent or not parts[0].whole:
            text = said(parts[:1])
            made[place] = [text_block(message, text)] if isinstance(content, list) else text
    elif not isinstance(content, list):
        made[place] = words
    else:  # its calls and results stay, and one text
        kinds = {part.block: part for part in parts if part.block >= 0 and part.kind != "extra"}
        blocks: list[Any] = []
        has_words = False
        for at, block in enumerate(made[place]):
            part = kinds[at]
            if (part.whole and not silent) or (thinking and part.kind == "thinking"):
                blocks.append(block)
            elif part.kind == "call":
                blocks.append(read_block(block).changed(emptied) if silent else block)
            elif part.kind == "result":
                known = read_block(block)
                blocks.append(known.saying(_as_result(known, said([part])) if known.field else said([part])))
            elif part.kind != "thinking" and not has_words:
                has_words = True
                is_text = part.kind == "text" and isinstance(block, dict) and "text" in block
                blocks.append({**block, "text": words} if is_text else text_block(message, words))
        made[place] = blocks or [text_block(message, _LEFT_OUT)]
    if isinstance(listed := made.get("tool_calls"), list):
        calls = [call for call in listed if isinstance(call, dict)]
        made["tool_calls"] = [read_call(call).changed(emptied) for call in calls] if silent else calls
        if not content and calls and made[place] == _LEFT_OUT:
            made[place] = ""
    return made


def _media_left_out(parts: Sequence[Part]) -> list[str]:
    """How many images, sounds and files of these parts are not shown, as a line; none for none."""
    files = sum(len(part.media) for part in parts)
    return [f"[{files} file{'s' * (files > 1)} left out]"] if files else []


class TailItem(NamedTuple):
    """A message as it stands in the view. Its dict is never handed out, only copies of it."""

    seq: int
    message: Message
    tokens: int
    repairs: tuple[Repair, ...] = ()
    left_out: int = 0  # tokens that shrinking left out
    passes: bool = False  # ephemeral


def shown_within(item: TailItem, cap: int, price: Price, *, mute: bool = False, thinking: bool = False) -> TailItem:
    """Return a whole message, shrunk to `cap` tokens; if `mute` to nothing, with `thinking` all but that."""
    message, tokens = item.message, item.tokens
    if tokens > cap and NOTES.isdisjoint(item.repairs):
        message, tokens = shrink_message(message, tokens, cap, price, mute=mute, thinking=thinking)
    elif tokens > cap:  # a note, inside its fence
        fenced, frame = message["content"], MESSAGE_TOKENS + price.count(within_fence(message["content"], lambda _: ""))
        inside = max(0, tokens - frame)
        text = within_fence(fenced, lambda text: cut_middle(text, inside, max(0, cap - frame), price.count))
        message = {**message, "content": _NO_WORD.format(inside) if frame + SHORT_MARK_TOKENS > cap else text}
        if mute and price.message(message) > cap:
            message = {**message, "content": _LEFT_OUT}
        tokens = price.message(message)
    if tokens >= item.tokens:
        return item
    return TailItem(item.seq, message, tokens, (*item.repairs, "shrunk"), item.tokens - tokens, item.passes)


class Mark(NamedTuple):
    """The end of a shown group: where the tail may be cut."""

    stop: int  # log entry
    items: int  # shown up to here, since the tail's beginning
    tokens: int


class Whole(NamedTuple):
    """Which messages are shown whole though they are long, or as far as there is room: those that were the newest at an
    activation, and those that came later."""

    first: int = 0  # log entry
    stop: int = 0  # entries of the log at the activation
    tokens: int = 0  # of the tail, up to which later ones are shown whole
    cap: int = 0  # tokens of one of the newest at the activation; 0 where they are whole
    cut: int = 0  # of the tail, up to which later ones that do not fit are shown; kept, as other settings change it


@dataclass
class Tail:
    """Shown messages from `start` on; of a first group that is too wide for the room only what came from entry `since`
    on, each message by itself. Long messages are cut but for those that are `whole`."""

    start: int
    room: Room
    price: Price
    bounds: Bounds
    since: int = WHOLE_GROUPS
    whole: Whole = field(default_factory=Whole)
    thinking_from: float = inf  # the message from which an answer went on at the activation
    is_stale: bool = False  # it shows a call that waited, and is given up by now
    tokens: int = 0
    items: list[TailItem] = field(default_factory=list)
    bound: list[int] = field(default_factory=list)  # items that came with thinking or a chain
    ephemeral_count: int = 0  # ephemeral messages of the log that were shown or passed by

    def __post_init__(self) -> None:
        self.next = self.start  # first entry whose group is not wholly shown
        self.marks = [Mark(self.start, 0, 0)]
        self._open_tokens = self._open_staying = 0  # of what is shown of the open group; of that, what must stay

    def extend(self, log: MessageLog, most: float = inf) -> None:
        """Show what is not shown yet. Costs what is new, not what the log holds. A tail that comes to cost more than
        `most` tokens is of no use: it is left as it is."""
        if self.ephemeral_count == 0 and self.start > log.leading_count:  # what came before the tail is passed by
            self.ephemeral_count = bisect_right(log.ephemeral, self.start, key=lambda one: one[0])
        if most == inf and self.ephemeral_count == len(log.ephemeral) and len(self.items) == self.marks[-1].items:
            # Where the end of what is new alone fills the room four times, with each message cut to a few lines, the
            # next view shows only an end: what is before is not read, and counts as it was logged.
            at, left, ends = len(log), 4 * self.room.tokens, log.group_ends
            while left > 0 and log.tokens[at] - log.tokens[self.next] > left:
                at -= 1
                left -= min(log.cost(at), self.room.least_cap)
            stops = ends[bisect_right(ends, self.next) : bisect_right(ends, at)] if left <= 0 else ()
            for stop in stops:
                self.tokens += log.tokens[stop] - log.tokens[self.next]
                self.next = stop
                self.marks.append(Mark(stop, len(self.items), self.tokens))
        self.thinking_from = log.thinking_from(self.whole.stop)
        has_new = self.ephemeral_count < len(log.ephemeral)
        for passing in present(log.passing(self.ephemeral_count, self.next)) if has_new else ():  # between groups
            if passing.seq > self.start or self.start == log.leading_count:
                self.append(passing, passing.passing, self.room.message_cap(0))
                self.marks[-1] = self.marks[-1]._replace(items=len(self.items), tokens=self.tokens)
            self.ephemeral_count += 1
        closed = True
        while closed and self.tokens <= most and self.next < len(log.entries):
            groups = log.groups_from(self.next, self.ephemeral_count, self.room.tokens)
            closed = groups[-1].reads[-1].seq < log.group_ends[-1]
            self.take(groups, closed=closed, most=most)

    def take(self, groups: Sequence[LogGroup], *, closed: bool, most: float = inf) -> None:
        """Show groups, of one that is open what is new; nothing more comes of the last if it is `closed`, nor of those
        before. Stop once the tail costs more than `most` tokens. In the open turn, thinking that a provider wants back
        stays whole; where everything is tighter than tight, that from `thinking_from` on."""
        alone, reads = list[list[Piece]](), {read.seq: read for group in groups for read in group.reads}
        bound = bound_among({at: read.message for at, read in reads.items()})
        if self.since != WHOLE_GROUPS and groups[0].reads[0].seq == self.start:
            late = [_alone(read) for read in groups[0].reads if read.seq >= self.since]
            alone = [present([*late, *(each for each in groups[0].passing if each.message)])]
        for group, pieces in zip(groups, [*alone, *show_groups(groups[len(alone) :], closed=closed)], strict=True):
            shown = self.items[self.marks[-1].items :]  # of an open group
            for piece, item in zip(pieces, shown, strict=False):
                if "pair_dropped" in piece.repairs:
                    self.is_stale |= {"pair_dropped", "pin_note"}.isdisjoint(item.repairs)
            for piece in pieces[len(shown) :]:
                if piece.passing < 0:
                    self._show(piece, reads[piece.seq].cost, bound=piece.seq in bound, stays=piece.seq in group.staying)
                else:
                    self.append(piece, piece.passing, self.room.message_cap(0))
                if self.tokens > most:
                    return
            if closed or group is not groups[-1]:
                self.ephemeral_count += sum(each.passing >= 0 for each in group.passing)
                self.next = group.reads[-1].seq + 1
                self._open_tokens = self._open_staying = 0
                self.marks.append(Mark(self.next, len(self.items), self.tokens))

    def mark(self, stop: int) -> Mark:
        """Return the mark at the end of the group that ends with entry `stop - 1`."""
        return self.marks[bisect_left(self.marks, stop, key=lambda mark: mark.stop)]

    def lacking(self, start: int) -> tuple[int, int]:
        """Return the tokens shown of the entries from `start` on, and those left out; no ephemeral ones, which are
        never whole."""
        newest = takewhile(lambda item: item.seq >= start, reversed(self.items))
        items = [item for item in newest if not item.passes]
        return sum(item.tokens for item in items), sum(item.left_out for item in items)

    def after(self, stop: int) -> int:
        """Return the tokens of the tail if it were cut at `stop`, which is the end of a shown group."""
        return self.tokens - self.mark(stop).tokens

    def stop_leaving(self, messages: int, present: int, ends: Container[int] | None = None) -> int | None:
        """Return the last cut behind the `present` one that leaves so many messages, at one of `ends` if given."""
        shown = self.marks[-1].items
        stops = (mark.stop for mark in reversed(self.marks) if mark.stop > present and shown - mark.items >= messages)
        return next((stop for stop in stops if ends is None or stop in ends), None)

    def _show(self, piece: Piece, cost: int, *, bound: bool, stays: bool) -> None:
        if bound:
            message, repairs = _unbound(piece.seq, piece.message, self.bounds)
            piece = Piece(piece.seq, message, (*piece.repairs, *repairs))
            self.bound.append(len(self.items))
        is_note = not NOTES.isdisjoint(piece.repairs)
        if not {"content_none", "chain_dropped"}.issuperset(piece.repairs):
            cost = self.price.message(piece.message)
        if stays and self._open_staying + cost <= self.room.staying_cap:
            self._open_staying += self.append(piece, cost, cost)
            return
        cap = share = self.room.message_cap(self._open_tokens)
        uncut, is_cut = self.whole, self.room.is_bare or is_note
        if not is_cut and piece.seq >= uncut.first:
            left = (uncut.tokens if self.tokens + cost <= uncut.tokens else uncut.cut) - self.tokens
            cap = max(cap, left if piece.seq >= uncut.stop else uncut.cap or cost)
        if cost <= cap or is_cut:
            self._open_tokens += self.append(piece, cost, cap)
            return

        # What travels whole, and thinking that is wanted back, is shown beside what else it may take. Where all
        # is tight, what cannot be cut enough is a note, unless an answer goes on from it or it is half a pair.
        reading = read_content(piece.message)
        first = max(self.bounds.settled, 0 if self.room.squeeze <= TIGHT else self.thinking_from)
        thinks = self.thinking_from != inf and piece.seq >= first and needs_thinking(piece.message)
        parts, texts = reading.parts, self.price.texts
        whole = texts([text for part in parts if part.whole for text in part.sent])
        thoughts = texts([text for part in parts if thinks and part.kind == "thinking" for text in part.sent])
        is_newest = piece.seq >= self.thinking_from
        is_tight = self.room.squeeze > TIGHT  # rather without its thinking than without the message
        ample = (GOING_ON_SHARE if is_newest and not is_tight else AMPLE_SHARE) * self.room.shared
        if 0 < self.whole.stop <= piece.seq:  # it came later: an activation finds room for it, if it is there
            ample = GOING_ON_SHARE * self.room.tokens
        if thinks := thinks and whole + thoughts + min(cost - whole - thoughts, cap) <= ample:
            whole += thoughts
        is_note = self.room.squeeze > 0 and whole > cap and not (is_newest or any(part.half for part in parts))
        if whole > GOING_ON_SHARE * self.room.tokens:  # it has no room anywhere: no other message may need it
            known = read_message(piece.message)
            is_note |= not (known.calls or known.answers or known.state)
        if is_note:
            has_words = any(part.texts and not part.whole for part in parts)
            silent = {"role": reading.role, "content": [{"type": "text", "text": "…"}]}
            shrunk = Piece(piece.seq, silent, (*piece.repairs, "shrunk"))
            piece = told_of(piece.seq, reading) if has_words else shrunk
            whole, cost = 0, self.price.message(piece.message)
        tokens = self.append(piece, cost, whole + min(max(0, cost - whole), cap), thinking=thinks)
        self._open_tokens += min(tokens, max(share, tokens - whole - (cap - share)))

    def append(self, piece: Piece, cost: int, cap: int, *, thinking: bool = False) -> int:
        """Show a piece of this cost within so many tokens, and return what it takes. A page of the past is not cut."""
        if piece.passing > cap and str(piece.message.get("content")).startswith("<recalled "):
            return 0
        whole = TailItem(piece.seq, piece.message, cost, piece.repairs, passes=piece.passing >= 0)
        item = shown_within(whole, cap, self.price, mute=self.room.is_bare, thinking=thinking)
        self.items.append(item)
        self.tokens += item.tokens
        return item.tokens


def _unbound(seq: int, message: Message, bounds: Bounds) -> tuple[Message, tuple[Repair, ...]]:
    """The message of log entry `seq` without what a rewritten beginning has made void, and what that took."""
    repairs: tuple[Repair, ...] = ()
    if seq < min(bounds.settled, bounds.rewritten) and has_signed_thinking(message):
        message, repairs = without_thinking(message), ("thinking_dropped",)
    if seq < bounds.rewritten and CHAIN in metadata_of(message):
        message, repairs = without_metadata(message, CHAIN), (*repairs, "chain_dropped")
    return message, repairs


def told_of(seq: int, reading: Reading) -> Piece:
    """What a message says, as a note: for one that cannot be shown as it is. What would travel whole is left out."""
    texts = [text for part in reading.parts if not part.whole for text in (part.name, *part.texts)]
    said = "\n".join(filter(None, texts)) or "[left out]"
    return Piece(seq, {"role": "user", "content": fence("earlier_message", said, role=reading.role)}, ("pin_note",))


def _alone(read: PlacedMessage) -> Piece:
    """A message without the rest of its group: results as a note, calls by their number."""
    if read.reading.answers:
        said = note(read)
        if words := [text for part in read.reading.parts if part.kind == "text" for text in part.texts]:
            content = within_fence(said.message["content"], lambda text: "\n".join([text, *words]))
            said = said._replace(message={**said.message, "content": content})
        return said
    if calls := len(read.reading.calls):
        return Piece(read.seq, {"role": "user", "content": f"[{calls} call{'s' * (calls > 1)} left out]"}, ("shrunk",))
    return Piece(read.seq, read.message)


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
    "restored": "restored or reopened",
}


class ActivationReport(NamedTuple):
    """What an activation did; tokens are those of the whole view. `freed` is below 0 where all that an activation did
    was to add a note about a topic, or to show the newest message whole. `raw` and `kept` count what stays word for
    word where more is covered; `raw` also where nothing is done, for these messages were to stay so."""

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
    can_undo: bool = False  # once it is the last one; `undo_outlook()` tells what it would come to
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
    if not open_ones:
        raise UndoError("there is no activation to undo")
    if not shaping:
        raise UndoError("no activation that covered messages can be undone any longer; restore a checkpoint instead")
    if shaping[-1].log_version != log_version:
        raise UndoError("the log was replaced since the last activation; restore a checkpoint to go back to that log")
    return shaping[-1]


class ActivationRequest(NamedTuple):
    """What the next view is asked for."""

    reason: Reason | None = None  # why to activate although there is no need: `explicit`, `idle`, `system_changed`
    is_due: bool = False  # it is about to be sent: calls that it cannot wait for are given up
    memories: Sequence[str] = ()  # of earlier sessions, which it shows, the most relevant first
    topic: str | None = None  # of which the header has to keep a note
    keep_messages: int | None = None  # leave these raw, and cover all before
    keep_from: float | None = None  # keep groups word for word that are so important


LogSize = tuple[int, int]  # tokens, ephemeral messages included, and messages of a log
# What the next view of a provider depends on beside its state and the log: the last attempt to activate, and the
# messages of the view handed out last.
Marks = tuple[LogSize | None, int]


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
    interruptions: tuple[int, ...] = ()  # entries behind `stop` before which views have given up the open calls
    held_at: int = 0  # entries of the log when an activation was undone: the view stays until it needs another one
    whole: Whole = Whole()
    closings: tuple[int, ...] = ()  # entries before which views have ended a segment that was open
    native: NativeBlock | None = None  # the provider's own, in front of all else
    cuts: tuple[Positive, Positive, Positive, Count] | None = None  # how the log was cut into segments
    marks: Marks | None = None  # in a checkpoint only

    def on(self, log: MessageLog) -> ActivationState:
        """The state with the segments that views of this log have ended."""
        ends = log.closings if self.stop <= log.covered_by_segments else {*log.closings, self.stop}
        return msgspec.structs.replace(self, closings=tuple(sorted(ends)), cuts=log.cuts)

    @property
    def cut(self) -> Cut:
        return Cut(self.leaves, self.leaves_stop, self.stop)

    @property
    def head(self) -> list[Message]:
        header = [] if self.header is None else [self.header]
        native = [] if self.native is None else [self.native.message]
        return [*native, *self.before, *header, *self.after]


def encode_state(state: ActivationState) -> bytes:
    """A state as the store keeps it."""
    return encode_message(msgspec.to_builtins(state))


UNREADABLE = (StoreCorruptError, msgspec.ValidationError, ValueError)  # the last for half a character in a name


def decode_state(data: bytes) -> ActivationState:
    """The state that `encode_state` wrote. Raises one of `UNREADABLE` for another."""
    return msgspec.convert(decode_message(data), ActivationState)


def usable_state(log: MessageLog, data: bytes) -> ActivationState | None:
    """Return a stored state; None if it cannot be read, or if the log is cut otherwise than when the state was made."""
    try:
        state = decode_state(data)
    except UNREADABLE as error:
        logger.warning("an activation state is not readable; it is made again", extra={"cause": type(error).__name__})
        return None
    ends = [0, *(segment.stop for segment in log.segments[: state.leaves])]
    if len(ends) <= state.leaves or ends[state.leaves] != state.leaves_stop:
        return None
    fits = log.group_start(state.stop) == state.stop and max(state.stop, state.bounds.rewritten) <= len(log)
    return state if fits else None


def cuts_of(states: Iterable[bytes]) -> tuple[set[int], tuple[int, int, int, int] | None]:
    """Return where views have ended segments that were open, by their stored states, and how the newest cut the log."""
    closings, cuts = set[int](), None
    for data in states:
        with suppress(*UNREADABLE):  # which is reported where the state itself is read
            state = decode_state(data)
            closings.update(state.closings)
            cuts = state.cuts or cuts
    return closings, cuts


ROOM_MARK = " @"  # between a provider's key and tokens


@dataclass(slots=True)
class ProviderView:
    """What one provider is shown, at budgets that are about alike."""

    key: str  # names it: the provider, and behind a mark the room where it is not the provider's first view
    state: ActivationState
    tail: Tail
    last: list[Message] = field(default_factory=list)  # the messages of the view handed out last
    attempted: LogSize | None = None  # the log at the last attempt to activate
    pending: Reason | None = None  # why the next view may begin differently
    pins_changed: bool = False  # by a call, since they were chosen for this view
    resumed: int | None = None  # messages of this log's view that was handed out last, before going back to it
    beside: ActivationState | None = None  # of the view that its provider was shown before, until this one is shown
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
        bound = (self.tail.items[at] for at in self.tail.bound)
        return now.settled > was.settled and any(_unbound(item.seq, item.message, now)[1] for item in bound)

    @property
    def marks(self) -> Marks:
        return self.attempted, len(self.last) if self.resumed is None else self.resumed


class Change(NamedTuple):
    """An activation that is to be committed."""

    provider_view: ProviderView
    before: ActivationState
    state: ActivationState
    tail: Tail
    report: ActivationReport
    attempted: LogSize | None = None  # where this was an attempt to activate
    pins: tuple[TailItem, ...] = ()


def kept_state(state: ActivationState, old: MessageLog, same: int, log: MessageLog) -> ActivationState | None:
    """The state for the `log` that has taken the place of an `old` one behind its first `same` entries, so that its
    views begin as before; None where what the state covers is not the same any more, or nothing is left behind it. What
    views did with the old end goes with that: calls given up in it, segments ended in it."""

    def covered(log: MessageLog) -> tuple[object, ...]:
        # later messages may change it: they end a rule, or bring another text of a file
        texts, pins, stop = log.kept_texts, log.pinned, state.stop
        shown = pins.texts, [index for index in pins.indexes if index < stop], log.rules.before(stop)
        told = texts.plan(stop), texts.instructions(stop), texts.notes(stop)
        return log.hashes[: state.leaves], log.leading_count, *shown, *told

    length, covers = len(log), state.stop > log.leading_count
    if same < state.stop or (covers and (state.stop == length or log.group_start(state.stop) != state.stop)):
        return None
    if state.since != WHOLE_GROUPS and same < state.bounds.rewritten:
        return None
    if covered(log) != covered(old):
        return None

    # bounds for the new log: entries of before may stand elsewhere in it
    bounds = state.bounds
    if same < bounds.rewritten:
        moved = {entry.data for entry in old.entries[same : bounds.rewritten]}
        stop = max((at + 1 for at in range(same, length) if log.entries[at].data in moved), default=same)
        bounds = Bounds(stop, min(bounds.settled, stop) if same >= bounds.settled else stop)
    held, given_up = min(state.held_at, same), log.interruptions_behind(state.stop)
    return msgspec.structs.replace(state, bounds=bounds, held_at=held, interruptions=given_up).on(log)
