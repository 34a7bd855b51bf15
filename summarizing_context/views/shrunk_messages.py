"""Shrink a message or a note: head and tail stay, and the cut says how many tokens are left out.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import lru_cache, partial
from math import ceil
from typing import Any, NamedTuple

from summarizing_context.concurrency import Pace
from summarizing_context.messages.fences import within_fence
from summarizing_context.messages.reading import (
    Part,
    Reading,
    is_wordless_media,
    long_id,
    read_content,
    without_extras,
)
from summarizing_context.messages.shapes import (
    BESIDE_CONTENT,
    THINKING_FIELDS,
    Block,
    as_typed,
    as_untyped,
    call_id,
    content_key,
    is_result,
    is_untyped,
    kind_of,
    read_block,
    shape_of,
    with_arguments,
    without_loaded_tools,
    without_wire_content,
)
from summarizing_context.messages.tokens import MESSAGE_TOKENS
from summarizing_context.messages.truncation import LEAST_CUT, LEAST_KEPT, SHORT_MARK_TOKENS, Count, cut_middle
from summarizing_context.messages.validation import Message, canonical_json
from summarizing_context.views.budget import water_level

LONGEST_TOKEN = 64  # characters; texts of which each token were longer are taken for too long

_LONG = 100_000  # tokens of a message that is made ready to be shrunk in a thread

_MANY = 64  # calls or blocks of one

_SHORT = 256  # characters of a text whose cost is remembered

_REMEMBERED = 8_192  # such texts

_JOINED = frozenset({"text", "media", "opaque"})  # kinds of parts that may become one

_LEFT_OUT = {"type": "text", "text": "…"}  # no provider takes an empty text

_NO_WORD = "[… {} tokens left out …]"  # where nothing else is left, or a note's very fence has no room


class Shrunk(NamedTuple):
    """A message as shown, and what it costs."""

    message: Message
    tokens: int


def remembering(count: Count) -> Count:
    """The counter, which remembers what short texts cost: views count those of a wide group again and again."""
    remembered = lru_cache(maxsize=_REMEMBERED)(count)
    return lambda text: remembered(text) if len(text) <= _SHORT else count(text)


class Price(NamedTuple):
    """How tokens are counted in this session."""

    count: Count
    image_tokens: int
    pace: Pace | None = None  # of the session's decisions, which keeps what it takes long to work out

    def within(self, texts: Sequence[str], cap: int) -> int | None:
        """Cost of texts that take at most `cap` tokens; None for others. Far too long ones are not counted."""
        if sum(map(len, texts)) > LONGEST_TOKEN * max(0, cap):
            return None
        cost = sum(map(self.count, texts))
        return cost if cost <= cap else None

    def message(self, message: Message) -> int:
        """Cost of a message: 4 + its texts + its images."""
        reading = read_content(message)
        return self._frame(message) + sum(map(self.count, reading.sent)) + self.image_tokens * reading.media

    def of_merging(self, before: Sequence[Message], after: Sequence[Message]) -> int:
        """What it costs to send some rows as fewer ones: less than nothing."""
        kept = {id(message) for message in before} & {id(message) for message in after}
        gone = sum(self._frame(message) for message in before if id(message) not in kept)
        return sum(self._frame(message) for message in after if id(message) not in kept) - gone

    def _frame(self, message: Message) -> int:
        return MESSAGE_TOKENS + sum(map(self.count, read_content(message).frame))


def shrink_message(
    message: Message, tokens: int, cap: int, price: Price, *, mute: bool = False, thinking: bool = False
) -> Shrunk:
    """Return `message`, which costs `tokens`, brought down to `cap` tokens or as near as its calls and results allow,
    and what travels whole; with `thinking` its thinking does, else that is cut or goes.

    Its texts are cut each where it stands; those too many for that, as one. To `mute` it is to leave none where even
    the heads of texts are too much.
    """
    if tokens <= cap:
        return Shrunk(message, tokens)
    lists = [value for value in message.values() if isinstance(value, list)]
    if price.pace is None or not (tokens > _LONG or sum(map(len, lists)) > _MANY):
        return _shrunk(message, tokens, cap, price, mute, thinking)
    # known by its values, which are kept with what is made of them
    name = ("shrunk", cap, mute, thinking, *((key, id(value)) for key, value in message.items()))
    return price.pace.once_apart(name, lambda: (message, _shrunk(message, tokens, cap, price, mute, thinking)))[1]


def _shrunk(message: Message, tokens: int, cap: int, price: Price, mute: bool, thinking: bool) -> Shrunk:
    key = content_key(message)
    if key == "parts" or is_untyped(message):
        shown, cost = _shrunk_typed(as_typed(message), tokens, cap, price, mute, thinking)
        return Shrunk(as_untyped(shown, key), cost)
    return _shrunk_typed(message, tokens, cap, price, mute, thinking)


def _shrunk_typed(message: Message, tokens: int, cap: int, price: Price, mute: bool, thinking: bool) -> Shrunk:
    reading = _fixed(read_content(message), thinking)
    words = tokens - price.image_tokens * reading.media
    one = _joined(message, reading, silent=False)
    is_one = one == message
    of_one = reading if is_one else _fixed(read_content(one), thinking)
    in_one = _measure(one, of_one, tokens if is_one else words, price)
    heads = _rebuild(in_one, 0, price) or one
    least = Shrunk(heads, price.message(heads))  # the head of its text alone
    if least.tokens < cap:
        measured = in_one if is_one else _measure(message, reading, tokens, price)
        if 2 * measured.extras > cap:
            bare = without_extras(message)
            if not (of_bare := read_content(bare)).parts:
                bare = {**bare, "content": _NO_WORD.format(measured.extras)}
            if (cost := price.message(bare)) <= cap:
                return Shrunk(bare, cost)
            measured = _measure(bare, _fixed(of_bare, thinking), tokens, price)
        cut = _cut_to(measured, cap, price)
        if cut is None or cut.tokens > cap:
            cut = _cut_to(in_one, cap, price)
        if cut is not None and cut.tokens <= cap:
            return cut
    if mute and least.tokens > cap:
        silent = _joined(message, reading, silent=True)
        least = Shrunk(silent, price.message(silent))
    return least if least.tokens < tokens else Shrunk(message, tokens)


def _fixed(reading: Reading, thinking: bool) -> Reading:
    """The reading of a message whose `thinking` is to travel whole, if it is."""
    if not thinking:
        return reading
    parts = [part._replace(whole=True) if part.kind == "thinking" else part for part in reading.parts]
    return reading._replace(parts=tuple(parts))


class _Measured(NamedTuple):
    """The parts of a message that costs `tokens`, and what they cost, whatever the cap."""

    message: Message
    parts: list[Part]  # without thinking, extras and what travels whole
    keeps_thinking: bool
    sizes: list[float]  # tokens of each, about
    thoughts: tuple[str, ...]
    has_thinking: bool
    extras: int
    frames: int  # of calls, and of blocks that stay blocks
    images: int
    loose: int  # tokens of frames that go with the first cut
    crowd: float  # tokens below which hardly a word of each text could stay; 0 where that does not matter


def _measure(message: Message, reading: Reading, tokens: int, price: Price) -> _Measured:
    read = [part for part in reading.parts if part.kind != "extra" and not part.whole]
    parts = [part for part in read if part.kind != "thinking"]
    thoughts = [text for part in read if part.kind == "thinking" for text in part.sent]
    whole = [part for part in reading.parts if part.whole]
    named = sum(price.count(text) for part in parts for text in _frame_of(part))
    named += sum(price.count(text) for part in whole for text in part.sent)
    frames = named + sum(map(price.count, read_content(message).frame))
    images = price.image_tokens * sum(len(part.media) for part in parts)
    words = max(1, tokens - MESSAGE_TOKENS - frames - images)
    scale = words / max(1, sum(len(text) for part in read for text in _within(part)))
    sizes = [scale * sum(map(len, _within(part))) for part in parts]
    least = min(LEAST_CUT, max(sizes, default=0))
    crowd = sum(min(size, least) for size in sizes) if sum(part.kind in _JOINED for part in parts) > 1 else 0.0
    extras = sum(price.count(text) for part in reading.parts if part.kind == "extra" for text in part.sent)
    has_thinking = len(parts) < len(read)
    joined = _with_results_joined(message, {part.block for part in whole})
    kept = named + sum(map(price.count, read_content(joined).frame))
    keeps = any(part.kind == "thinking" for part in whole)
    unread = (*thoughts, *(() if keeps else reading.again))
    return _Measured(message, parts, keeps, sizes, unread, has_thinking, extras, kept, images, frames - kept, crowd)


def _with_results_joined(message: Message, whole: Collection[int]) -> Message:
    """The message without what its results hold, but for those that travel whole: cut, each of them is one text, and
    the frames of its blocks go."""
    content = message.get("content")
    if not isinstance(content, list) or (is_result(message) and -1 in whole):
        return message
    if is_result(message):
        return {**message, "content": ""}
    joined = [
        read_block(block).saying("") if at not in whole and shape_of(block).kind == "result" else block
        for at, block in enumerate(content)
    ]
    return {**message, "content": joined}


def _frame_of(part: Part) -> tuple[str, ...]:
    """What of a call or a result cannot be cut."""
    return (part.name, *long_id(part.id)) if part.kind in ("call", "result") else ()


def _within(part: Part) -> Sequence[str]:
    """What of a part can be: its id is the last of what nobody reads."""
    return part.sent[: len(part.sent) - len(long_id(part.id))] if part.kind in ("call", "result") else part.sent


def _cut_to(measured: _Measured, cap: int, price: Price) -> Shrunk | None:
    """A message with its texts cut until it costs `cap` tokens, if it can; None where they are too many to be cut."""
    if measured.crowd > cap:  # seen at once, where it would take long to find out
        return None
    share = cap - MESSAGE_TOKENS
    if measured.loose:  # so low that something is cut
        share = min(share, int(sum(measured.sizes)) + measured.frames + measured.images + measured.extras - 1)
    shown: Shrunk | None = None
    for attempt in range(9):  # what a cut costs is known only after counting it: aim lower until it fits
        rebuilt = _rebuild(measured, max(0, share), price)
        if rebuilt is None:
            return shown
        shown = Shrunk(rebuilt, price.message(rebuilt))
        if shown.tokens <= cap or share <= 0:
            break
        share = min(share - 1, share * cap // shown.tokens) if attempt < 4 else share // 2
    return shown


def _rebuild(measured: _Measured, share: int, price: Price) -> Message | None:
    """The message without thinking, its texts within `share` tokens together; None where it has several and hardly a
    word of each could stay."""
    thinking = price.within(measured.thoughts, share // 2) if measured.has_thinking else None
    keep_thinking = thinking is not None or measured.keeps_thinking
    share -= (thinking or 0) + measured.extras
    keep_media = share - measured.frames >= 2 * measured.images
    media = measured.images if keep_media else 0
    sizes = measured.sizes
    level = water_level(sizes, share - measured.frames - media)
    if measured.crowd and level < min(LEAST_CUT, max(sizes, default=0)):
        return None
    caps = [ceil(size) if size <= level else int(level) for size in sizes]
    return _Rewriter(measured.message, keep_media, keep_thinking, price.count).rewrite(
        list(zip(measured.parts, sizes, caps, strict=True))
    )


class _Rewriter:
    """Puts shorter texts where a message's parts stand."""

    def __init__(self, message: Message, keep_media: bool, keep_thinking: bool, count: Count) -> None:
        self._message = dict(without_wire_content(message))
        self._keep_media = keep_media
        self._keep_thinking = keep_thinking
        self._count = count

    def rewrite(self, plan: list[tuple[Part, float, int]]) -> Message:
        if not self._keep_thinking:
            self._message = _without_thinking_fields(self._message)
        content = self._message.get("content")
        listed = iter([(size, cap) for part, size, cap in plan if part.kind == "call" and part.block < 0])
        plan = self._beside_content(plan)
        if isinstance(content, list) and not is_result(self._message):
            self._message["content"] = self._blocks(content, plan)
        else:
            self._message["content"] = self._plain(content, plan)
        if isinstance(calls := self._message.get("tool_calls"), list):
            shown = {part.id for part, _, _ in plan if part.kind == "call" and part.block >= 0}
            caps = {part.id: (size, cap) for part, size, cap in plan if part.kind == "call" and part.block >= 0}
            self._message["tool_calls"] = [
                self._listed_call(call, shown, caps, listed) for call in calls if isinstance(call, dict)
            ]
        return self._message

    def _beside_content(self, plan: list[tuple[Part, float, int]]) -> list[tuple[Part, float, int]]:
        """Cut the fields that stand beside the content, in their own form; what of the plan is left."""
        found = [key for key in BESIDE_CONTENT if self._message.get(key)]
        first = len(plan) - len(found)
        for key, (_, size, cap) in zip(found, plan[first:], strict=True):
            value = self._message[key]
            if size <= cap:
                continue
            if isinstance(value, str):
                self._message[key] = self._cut(value, size, cap)
            elif key == "function_call" and isinstance(value, dict):
                self._message[key] = with_arguments(value, partial(self._arguments, size=size, cap=cap))
            else:
                del self._message[key]
        return plan[:first]

    def _plain(self, content: object, plan: list[tuple[Part, float, int]]) -> Any:
        """Content that is one text, or a tool's result. Whatever else `tool_calls` lists is not content."""
        texts = [(part, size, cap) for part, size, cap in plan if part.kind != "call" and part.block < 0]
        if not texts and is_result(self._message):
            return content
        short = "".join(self._cut("\n".join(part.texts), size, cap) for part, size, cap in texts[:1]) if content else ""
        if not isinstance(content, list):
            return short
        if not self._keep_media:
            gone = _media_left_out([part for part, _, _ in texts[:1]])
            short = "\n".join([text for text in (short, *gone) if text])
        return [{"type": "text", "text": short}, *self._media_of(content)]

    def _blocks(self, content: list[Any], plan: list[tuple[Part, float, int]]) -> list[Any]:
        by_block = {part.block: (part, size, cap) for part, size, cap in plan if part.block >= 0}
        rebuilt = [
            self._block(block, *by_block[at]) if at in by_block else block
            for at, block in enumerate(content)
            if at in by_block or self._keep_thinking or shape_of(block).kind != "thinking"
        ]
        return [block for block in rebuilt if block is not None] or [dict(_LEFT_OUT)]

    def _block(self, block: Any, part: Part, size: float, cap: int) -> Any:
        if size <= cap and (self._keep_media or not part.media):
            return block
        short = self._cut("\n".join(part.texts), size, cap)
        known = read_block(block) if isinstance(block, dict) else None
        if known is not None and part.kind == "call":
            return known.saying(self._arguments({} if known.said is None else known.said, size, cap))
        if known is not None and part.kind == "result":
            media = self._media_of(known.said) if isinstance(known.said, list) else []
            if not self._keep_media:
                short = "\n".join([text for text in (short, *_media_left_out([part])) if text])
            return known.saying(_as_result(known, short, media))
        if part.kind == "media" and self._keep_media:
            return block
        if known is not None and part.kind == "media":
            short = f"[{known.field or kind_of(block)} left out]" + (f" {short}" if short else "")
        if known is not None and part.kind == "text":
            return known.saying(short)
        return {"type": "text", "text": short}

    def _listed_call(self, call: dict[str, Any], shown: set[str], caps: dict[str, Any], listed: Any) -> Any:
        id = call_id(call.get("id"))
        size, cap = caps[id] if id in shown else next(listed, (0.0, 0))
        return call if size <= cap else with_arguments(call, partial(self._arguments, size=size, cap=cap))

    def _arguments(self, arguments: Any, size: float, cap: int) -> Any:
        """Arguments keep their form: an object stays an object, JSON text stays JSON text."""
        if not isinstance(arguments, str):
            return self._fields(arguments, size, cap) if isinstance(arguments, dict) else {}
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            return self._cut(arguments, size, cap)
        return canonical_json(self._fields(parsed, size, cap) if isinstance(parsed, dict) else {})

    def _fields(self, fields: dict[str, Any], size: float, cap: int) -> dict[str, Any]:
        texts = {key: value if isinstance(value, str) else canonical_json(value) for key, value in fields.items()}
        scale = size / max(1, sum(len(key) + len(text) for key, text in texts.items()))
        level = water_level([len(text) * scale for text in texts.values()], cap - scale * sum(map(len, texts)))
        if level < 1:
            return {"…": f"{len(texts)} arguments left out"} if cap >= LEAST_KEPT else {}
        return {
            key: fields[key] if len(text) * scale <= level else self._cut(text, len(text) * scale, int(level))
            for key, text in texts.items()
        }

    def _media_of(self, blocks: list[Any]) -> list[Any]:
        if not self._keep_media:
            return []
        return [block for block in blocks if is_wordless_media(block)]

    def _cut(self, text: str, size: float, cap: int) -> str:
        return cut_middle(text, int(size), cap, self._count)


def shrink_note(message: Message, tokens: int, cap: int, price: Price, *, mute: bool = False) -> Shrunk:
    """A fenced note brought down to `cap` tokens: only what stands inside its fence is cut. To `mute` it is to leave
    none of it where even the words of the cut are too much."""
    if tokens <= cap:
        return Shrunk(message, tokens)
    fenced = message["content"]
    frame = MESSAGE_TOKENS + price.count(within_fence(fenced, lambda _: ""))
    inside = max(0, tokens - frame)
    text = within_fence(fenced, lambda text: cut_middle(text, inside, max(0, cap - frame), price.count))
    if frame + SHORT_MARK_TOKENS > cap:
        text = _NO_WORD.format(inside)
    note = {**message, "content": text}
    cost = price.message(note)
    if mute and cost > cap:
        note = {**message, "content": _LEFT_OUT["text"]}
        cost = price.message(note)
    return Shrunk(note, cost) if cost < tokens else Shrunk(message, tokens)


def says_nothing(message: Message) -> bool:
    """Whether a note was brought down so far that nothing of it is left."""
    before, _, after = _NO_WORD.partition("{}")
    content = message.get("content")
    if not isinstance(content, str) or "\n" in content:
        return False
    return content == _LEFT_OUT["text"] or (content.startswith(before) and content.endswith(after))


def _without_thinking_fields(message: Message) -> Message:
    """The message without what it thinks beside its content. Where servers want that of a message with calls, an
    ellipsis stands for it."""
    kept = {key: value for key, value in message.items() if key not in THINKING_FIELDS}
    if message.get("reasoning_content") and message.get("tool_calls"):
        kept["reasoning_content"] = _LEFT_OUT["text"]
    return kept


def _as_result(block: Block, said: str, media: Sequence[Any] = ()) -> Any:
    """A text in the form that the result in this block has."""
    if block.field == "functionResponse":
        return {"output": said}
    if not isinstance(block.said, list):
        return said
    return [{"text": said} if block.field else {"type": "text", "text": said}, *media]


def _joined(message: Message, reading: Reading, *, silent: bool) -> Message:
    """The message with its words in one text, in the place of the first of them; `silent` without a word."""
    parts = reading.parts
    content = message.get("content")
    has_extras = any(part.kind == "extra" for part in parts)
    frame = without_loaded_tools(without_wire_content(without_extras(message) if has_extras else message))
    is_thought = any(part.kind == "thinking" and part.whole for part in parts)
    frame = frame if is_thought and not silent else _without_thinking_fields(frame)
    made: Message = {key: value for key, value in frame.items() if key not in BESIDE_CONTENT}
    if is_result(message):
        if not parts[0].whole or silent:
            said = _said(parts[:1], silent)
            made["content"] = [{"type": "text", "text": said}] if isinstance(content, list) else said
    else:
        words = _said([part for part in parts if part.kind in _JOINED and not part.whole], silent)
        made["content"] = _blocks(made["content"], parts, words, silent) if isinstance(content, list) else words
    if isinstance(listed := made.get("tool_calls"), list):
        calls = [call for call in listed if isinstance(call, dict)]
        made["tool_calls"] = [with_arguments(call, _emptied) for call in calls] if silent else calls
        if not content and made["tool_calls"] and made["content"] == _LEFT_OUT["text"]:
            made["content"] = ""
    return made


def _said(parts: Sequence[Part], silent: bool) -> str:
    """The words of these parts, and how many images, sounds and files stood among them."""
    if silent:
        return _LEFT_OUT["text"]
    said = [text for part in parts for text in part.texts if text]
    return "\n".join([*said, *_media_left_out(parts)]) or _LEFT_OUT["text"]


def _media_left_out(parts: Sequence[Part]) -> list[str]:
    """How many images, sounds and files of these parts are not shown, as a line; none for none."""
    files = sum(len(part.media) for part in parts)
    return [f"[{files} file{'s' * (files > 1)} left out]"] if files else []


def _blocks(content: list[Any], parts: Sequence[Part], words: str, silent: bool) -> list[Any]:
    """The calls and results among content blocks, and one text."""
    kinds = {part.block: part for part in parts if part.block >= 0 and part.kind != "extra"}
    made: list[Any] = []
    has_words = False
    for at, block in enumerate(content):
        part = kinds[at]
        if part.whole and not silent:
            made.append(block)
        elif part.kind == "call":
            known = read_block(block)
            made.append(known.saying(_emptied(known.said)) if silent else block)
        elif part.kind == "result":
            known = read_block(block)
            said = _said([part], silent)
            made.append(known.saying(_as_result(known, said) if known.field else said))
        elif part.kind != "thinking" and not has_words:
            has_words = True
            frame = block if part.kind == "text" and isinstance(block, dict) and "text" in block else {"type": "text"}
            made.append({**frame, "text": words})
    return made or [dict(_LEFT_OUT)]


def _emptied(arguments: Any) -> Any:
    return "{}" if isinstance(arguments, str) else {}
