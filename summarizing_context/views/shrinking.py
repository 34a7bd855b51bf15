"""Shrink a message or a note: head and tail stay, and the cut says how many tokens are left out.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from summarizing_context.messages.fences import within_fence
from summarizing_context.messages.reading import (
    BESIDE_CONTENT,
    LOADED_TOOLS,
    THINKING_FIELDS,
    Block,
    Message,
    Part,
    Reading,
    blocks_of,
    call_id,
    canonical_json,
    content_key,
    is_result,
    is_wordless_media,
    kind_of,
    read_block,
    read_call,
    read_content,
    shape_of,
    text_block,
    without_extras,
    without_metadata,
    without_wire_content,
)
from summarizing_context.messages.rendering import LEAST_CUT, LEAST_KEPT, SHORT_MARK_TOKENS, Count, cut_middle
from summarizing_context.messages.tokens import MESSAGE_TOKENS, Price

LONGEST_TOKEN = 64  # characters; texts of which each token were longer are taken for too long
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


Shrunk = tuple[Message, int]  # a message as shown, and what it costs


def shrink_message(
    message: Message, tokens: int, cap: int, price: Price, *, mute: bool = False, thinking: bool = False
) -> Shrunk:
    """Return `message`, which costs `tokens`, brought down to `cap` tokens or as near as its calls and results allow,
    and what travels whole; with `thinking` its thinking does, else that goes. Its texts are cut each where it stands;
    those too many for that, as one. To `mute` it is to leave none where even the heads of texts are too much."""
    if tokens <= cap:
        return message, tokens
    reading = read_content(message)
    one = _joined(message, reading, thinking=thinking)
    as_one = _Cutting(one, tokens if one == message else tokens - price.image_tokens * reading.media, price, thinking)
    least = as_one.within(0) or one  # the head of its text alone
    cost = price.message(least)
    if cost < cap:
        by_part = as_one if one == message else _Cutting(message, tokens, price, thinking)
        if 2 * by_part.extras > cap:
            bare = without_extras(message)
            if not read_content(bare).parts:
                said = _NO_WORD.format(by_part.extras)
                bare[content_key(message)] = [text_block(message, said)] if blocks_of(message) else said
            if (bare_cost := price.message(bare)) <= cap:
                return bare, bare_cost
            by_part = _Cutting(bare, tokens, price, thinking)
        for each in (by_part, as_one):
            cut = each.to(cap)
            if cut is not None and cut[1] <= cap:
                return cut
    if mute and cost > cap:
        least = _joined(message, reading, silent=True)
        cost = price.message(least)
    return (least, cost) if cost < tokens else (message, tokens)


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
        for part in self.parts:
            fixed += (part.name,) * (part.kind in ("call", "result"))
        named = price.texts(fixed)
        emptied, travels = message, {part.block for part in whole}
        if blocks := blocks_of(message):
            if not is_result(message):
                left = [
                    read_block(block).saying("") if at not in travels and shape_of(block).kind == "result" else block
                    for at, block in enumerate(blocks)
                ]
                emptied = {**message, content_key(message): left}
            elif -1 not in travels:
                emptied = {**message, content_key(message): []}
        frame = read_content(emptied).frame
        self.frames = named + price.texts(frame)
        self.images = price.image_tokens * sum(part.pages for part in self.parts)

        # Tokens of each part, about: by its characters.
        words = max(1, tokens - MESSAGE_TOKENS - named - price.texts(reading.frame) - self.images)
        lengths = {id(part): sum(map(len, part.sent)) for part in read}
        scale = words / max(1, sum(lengths.values()))
        self.sizes = [scale * lengths[id(part)] for part in self.parts]

        # Tokens below which hardly a word of each text could stay; 0 where that does not matter.
        least = min(LEAST_CUT, max(self.sizes, default=0))
        is_many = sum(part.kind in _JOINED for part in self.parts) > 1
        self.crowd = sum(min(size, least) for size in self.sizes) if is_many else 0.0

    def to(self, cap: int) -> Shrunk | None:
        """The message with its texts cut until it costs `cap` tokens, if it can; None where they are too many."""
        if self.crowd > cap:  # seen at once, where it would take long to find out
            return None
        share = cap - MESSAGE_TOKENS
        shown: Shrunk | None = None
        for attempt in range(9):  # what a cut costs is known only after counting it: aim lower until it fits
            if (cut := self.within(max(0, share))) is None:
                return shown
            shown = cut, (tokens := self.price.message(cut))
            if tokens <= cap or share <= 0:
                break
            share = min(share - 1, share * cap // tokens) if attempt < 4 else share // 2
        return shown

    def within(self, share: int) -> Message | None:
        """The message without thinking, its texts within `share` tokens; None where hardly a word of each could be."""
        share -= self.extras
        keep_media = share - self.frames >= 2 * self.images
        level = water_level(self.sizes, share - self.frames - (self.images if keep_media else 0))
        if self.crowd and level < min(LEAST_CUT, max(self.sizes, default=0)):
            return None
        caps = [ceil(size) if size <= level else int(level) for size in self.sizes]
        every = list(zip(self.parts, self.sizes, caps, strict=True))
        plan = [_Cut(part, size, cap, self.price.count) for part, size, cap in every]
        message, place = self.message, content_key(self.message)
        shown = dict(without_wire_content(message))
        if not self.keeps_thinking:
            shown = _without_thinking_fields(shown)

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
                _cut_block(message, block, blocks[at], keep_media) if at in blocks else block
                for at, block in enumerate(content)
                if at in blocks or self.keeps_thinking or shape_of(block).kind != "thinking"
            ] or [text_block(message, _LEFT_OUT)]
        elif texts or not is_result(shown):
            said = _result_text(texts[0], keep_media) if content and texts else ""
            media = filter(is_wordless_media, content if keep_media and isinstance(content, list) else ())
            shown[place] = [text_block(message, said), *media] if isinstance(content, list) else said
        return shown


@dataclass(frozen=True, slots=True)
class _Cut:
    """A part that takes `size` tokens, and how many of them are shown."""

    part: Part
    size: float
    cap: int
    count: Count

    @property
    def is_whole(self) -> bool:
        return self.size <= self.cap

    def text(self, text: str) -> str:
        """The text within the cap."""
        return cut_middle(text, int(self.size), self.cap, self.count)

    def arguments(self, arguments: Any) -> Any:
        """Arguments within the cap. They keep their form: an object stays an object, JSON text stays JSON text."""
        parsed, made = arguments, dict[str, Any]()
        if isinstance(arguments, str):
            try:
                parsed = json.loads(arguments)
            except (ValueError, RecursionError):
                return self.text(arguments)
        if isinstance(parsed, dict):
            texts = {key: value if isinstance(value, str) else canonical_json(value) for key, value in parsed.items()}
            scale = self.size / max(1, sum(len(key) + len(text) for key, text in texts.items()))
            sizes = {key: len(text) * scale for key, text in texts.items()}
            level = water_level(list(sizes.values()), self.cap - scale * sum(map(len, texts)))
            if level >= 1:
                made = {
                    key: parsed[key] if size <= level else cut_middle(texts[key], int(size), int(level), self.count)
                    for key, size in sizes.items()
                }
            elif self.cap >= LEAST_KEPT:
                made = {"…": f"{len(texts)} arguments left out"}
        return canonical_json(made) if isinstance(arguments, str) else made


def _cut_block(message: Message, block: Any, cut: _Cut, keep_media: bool) -> Any:
    part = cut.part
    if cut.is_whole and (keep_media or not part.media):
        return block
    known = read_block(block) if isinstance(block, dict) else None
    if known is not None and part.kind == "call":
        return known.changed(cut.arguments)
    if known is not None and part.kind == "result":
        return known.saying(_as_result(known, _result_text(cut, keep_media), keep_media))
    if part.kind == "media" and keep_media:
        return block
    text = cut.text("\n".join(part.texts))
    if known is not None and part.kind == "media":
        text = f"[{known.field or kind_of(block)} left out]" + (f" {text}" if text else "")
    return known.saying(text) if known is not None and part.kind == "text" else text_block(message, text)


def _result_text(cut: _Cut, keep_media: bool) -> str:
    text = cut.text("\n".join(cut.part.texts))
    return text if keep_media else "\n".join(filter(None, [text, *_media_left_out([cut.part])]))


def _as_result(block: Block, said: str, keep_media: bool = False) -> Any:
    """A text in the form that the result in this block has."""
    if block.field == "functionResponse":
        return {"output": said}
    if not isinstance(block.said, list):
        return said
    media = filter(is_wordless_media, block.said if keep_media else ())
    return [{"text": said} if block.field else {"type": "text", "text": said}, *media]


def shrink_note(message: Message, tokens: int, cap: int, price: Price, *, mute: bool = False) -> Shrunk:
    """A fenced note brought down to `cap` tokens inside its fence; `mute`, to nothing where that is too much."""
    if tokens <= cap:
        return message, tokens
    fenced = message["content"]
    frame = MESSAGE_TOKENS + price.count(within_fence(fenced, lambda _: ""))
    inside = max(0, tokens - frame)
    text = within_fence(fenced, lambda text: cut_middle(text, inside, max(0, cap - frame), price.count))
    if frame + SHORT_MARK_TOKENS > cap:
        text = _NO_WORD.format(inside)
    note = {**message, "content": text}
    cost = price.message(note)
    if mute and cost > cap:
        note = {**message, "content": _LEFT_OUT}
        cost = price.message(note)
    return (note, cost) if cost < tokens else (message, tokens)


def says_nothing(message: Message) -> bool:
    """Whether a note was brought down so far that nothing of it is left."""
    content = message.get("content")
    if not isinstance(content, str) or "\n" in content:
        return False
    return content == _LEFT_OUT or (content.startswith("[… ") and content.endswith(" tokens left out …]"))


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
    bare = without_metadata(without_wire_content(bare), LOADED_TOOLS)
    if not thinking:
        bare = _without_thinking_fields(bare)
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
