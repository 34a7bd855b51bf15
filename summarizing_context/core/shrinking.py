"""Shrinking a message: head and tail of its texts stay, and the cut says how many tokens are left out.

Pure: the same message under the same cap is shrunk to the same bytes. Thinking stays whole where it takes at most
half of the cap, else it is dropped whole; it is never cut, because a provider checks its signature. Which cap applies
is decided in `tail` and `pins`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

from summarizing_context.core.bindings import THINKING_FIELDS, without_wire_content
from summarizing_context.core.door import Message, canonical_json
from summarizing_context.core.estimate import MESSAGE_TOKENS
from summarizing_context.core.fencing import within_fence
from summarizing_context.core.messages import BESIDE_CONTENT, Part, call_id, is_result, is_wordless_media, read_message

Count = Callable[[str], int]

_MARK_TOKENS = 12  # reserved for the words of a cut
_SHORT_MARK_TOKENS = 6  # for a number alone
_NO_WORD = "[… {} tokens left out …]"  # of a note whose very fence has no room
_LEAST_HEAD = 4  # characters
_LEAST_KEPT = 8  # tokens of head and tail below which only the head is kept, with the number of tokens left out


class Shrunk(NamedTuple):
    """A message as shown, and what it costs."""

    message: Message
    tokens: int


class Price(NamedTuple):
    """How tokens are counted in this session."""

    count: Count
    image_tokens: int

    def remembered(self) -> Count:
        """The counter for texts that are asked for again and again."""
        return lru_cache(maxsize=512)(self.count)

    def message(self, message: Message) -> int:
        """Cost of a message: 4 + its texts + its images."""
        reading = read_message(message)
        return MESSAGE_TOKENS + sum(map(self.count, reading.texts)) + self.image_tokens * reading.media


def shrink_message(message: Message, tokens: int, cap: int, price: Price) -> Shrunk:
    """`message`, which costs `tokens`, brought down to `cap` tokens or as near as its frame allows."""
    if tokens <= cap:
        return Shrunk(message, tokens)
    share = cap - MESSAGE_TOKENS
    best: Shrunk | None = None
    for attempt in range(9):  # what a cut costs is known only after counting it: aim lower until it fits
        shown = _rebuild(message, tokens, max(0, share), price)
        cost = price.message(shown)
        if best is None or cost < best.tokens:
            best = Shrunk(shown, cost)
        if cost <= cap or share <= 0:
            break
        share = min(share - 1, share * cap // cost) if attempt < 4 else share // 2
    assert best is not None
    return best if best.tokens < tokens else Shrunk(message, tokens)


def shrink_note(message: Message, tokens: int, cap: int, price: Price) -> Shrunk:
    """A fenced note brought down to `cap` tokens: only what stands inside its fence is cut."""
    if tokens <= cap:
        return Shrunk(message, tokens)
    fenced = message["content"]
    frame = MESSAGE_TOKENS + price.count(within_fence(fenced, lambda _: ""))
    inside = max(0, tokens - frame)
    text = within_fence(fenced, lambda text: cut_middle(text, inside, max(0, cap - frame), price.count))
    if frame + _SHORT_MARK_TOKENS > cap:
        text = _NO_WORD.format(inside)
    note = {**message, "content": text}
    cost = price.message(note)
    return Shrunk(note, cost) if cost < tokens else Shrunk(message, tokens)


def says_nothing(message: Message) -> bool:
    """Whether a note was brought down so far that nothing of it is left."""
    before, _, after = _NO_WORD.partition("{}")
    content = message.get("content")
    return isinstance(content, str) and content.startswith(before) and content.endswith(after) and "\n" not in content


def cut_middle(text: str, total: int, cap: int, count: Count) -> str:
    """Head and tail of `text`, which has about `total` tokens, in about `cap` tokens with the words of the cut."""
    if total <= cap:
        return text
    kept = cap - _MARK_TOKENS
    if kept < _LEAST_KEPT:
        head, _ = _fitting(text, cap - _SHORT_MARK_TOKENS, total, count, from_end=False)
        short = f"{head or text[:_LEAST_HEAD]}[…{total}…]"
        return short if len(short) < len(text) else text
    head, head_tokens = _fitting(text, -(-kept // 2), total, count, from_end=False)
    tail, tail_tokens = _fitting(text[len(head) :], kept // 2, total, count, from_end=True)
    left_out = max(1, total - head_tokens - tail_tokens)
    cut = f"{head}\n[… {left_out} tokens left out …]\n{tail}"
    return cut if len(cut) < len(text) else text


def _fitting(text: str, cap: int, total: int, count: Count, *, from_end: bool) -> tuple[str, int]:
    """The longest end of `text`, about, that costs at most `cap` tokens, and its cost. `total` tells how dense the
    text is, so that one count is mostly enough."""
    length = min(len(text), max(0, cap) * len(text) // max(1, total))
    while length > 0:
        piece = text[-length:] if from_end else text[:length]
        cost = count(piece)
        if cost <= cap:
            return piece, cost
        length = min(length - 1, length * cap // cost)
    return "", 0


def _rebuild(message: Message, tokens: int, share: int, price: Price) -> Message:
    """The message without thinking, its texts within `share` tokens together."""
    read = read_message(message).parts
    parts = [part for part in read if part.kind != "thinking"]
    thinking = sum(price.count(text) for part in read if part.kind == "thinking" for text in part.texts)
    keep_thinking = len(parts) < len(read) and 2 * thinking <= share
    share -= thinking if keep_thinking else 0
    frames = sum(price.count(part.name) for part in parts if part.kind == "call")
    images = price.image_tokens * sum(len(part.media) for part in parts)
    keep_media = share - frames >= 2 * images
    media = images if keep_media else 0
    words = max(1, tokens - MESSAGE_TOKENS - frames - images)
    scale = words / max(1, sum(len(text) for part in read for text in part.texts))
    sizes = [scale * sum(map(len, part.texts)) for part in parts]
    level = _water_level(sizes, share - frames - media)
    caps = [ceil(size) if size <= level else int(level) for size in sizes]
    return _Rewriter(message, keep_media, keep_thinking, price.count).rewrite(
        list(zip(parts, sizes, caps, strict=True))
    )


def _water_level(sizes: list[float], share: float) -> float:
    """The cap at which parts of these sizes fill `share` together: small parts stay whole."""
    left = max(0.0, share)
    for done, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - done) >= left:
            return left / (len(sizes) - done)
        left -= size
    return max(sizes, default=0.0)


class _Rewriter:
    """Puts shorter texts where a message's parts stand."""

    def __init__(self, message: Message, keep_media: bool, keep_thinking: bool, count: Count) -> None:
        self._message = dict(without_wire_content(message))
        self._keep_media = keep_media
        self._keep_thinking = keep_thinking
        self._count = count

    def rewrite(self, plan: list[tuple[Part, float, int]]) -> Message:
        for key in () if self._keep_thinking else THINKING_FIELDS:
            self._message.pop(key, None)
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
                self._message[key] = self._with_arguments(value, size, cap)
            else:
                del self._message[key]
        return plan[:first]

    def _plain(self, content: object, plan: list[tuple[Part, float, int]]) -> Any:
        """Content that is one text, or a tool's result. Whatever else `tool_calls` lists is not content."""
        texts = [(part, size, cap) for part, size, cap in plan if part.kind != "call" and part.block < 0]
        short = "".join(self._cut("\n".join(part.texts), size, cap) for part, size, cap in texts[:1]) if content else ""
        if not isinstance(content, list):
            return short
        return [{"type": "text", "text": short}, *self._media_of(content)]

    def _blocks(self, content: list[Any], plan: list[tuple[Part, float, int]]) -> list[Any]:
        by_block = {part.block: (part, size, cap) for part, size, cap in plan if part.block >= 0}
        rebuilt = [
            self._block(block, *by_block[at]) if at in by_block else block
            for at, block in enumerate(content)
            if at in by_block or self._keep_thinking
        ]
        return [block for block in rebuilt if block is not None] or [{"type": "text", "text": "…"}]

    def _block(self, block: Any, part: Part, size: float, cap: int) -> Any:
        if size <= cap and (self._keep_media or not part.media):
            return block
        short = self._cut("\n".join(part.texts), size, cap)
        if part.kind == "call":
            key = "input" if "input" in block or "arguments" not in block else "arguments"
            return {**block, key: self._arguments(block.get(key, {}), size, cap)}
        if part.kind == "result":
            key = "output" if "output" in block and "content" not in block else "content"
            inner = block.get(key)
            media = self._media_of(inner) if isinstance(inner, list) else []
            return {**block, key: [{"type": "text", "text": short}, *media] if isinstance(inner, list) else short}
        if part.kind == "media" and self._keep_media:
            return block
        if part.kind == "media":
            short = f"[{block.get('type')} left out]" + (f" {short}" if short else "")
        if part.kind == "text" and isinstance(block, dict):
            return {**block, "refusal" if block["type"] == "refusal" else "text": short}
        return {"type": "text", "text": short}

    def _listed_call(self, call: dict[str, Any], shown: set[str], caps: dict[str, Any], listed: Any) -> Any:
        id = call_id(call.get("id"))
        size, cap = caps[id] if id in shown else next(listed, (0.0, 0))
        if size <= cap:
            return call
        for holder in ("function", "custom"):
            if isinstance(inner := call.get(holder), dict):
                return {**call, holder: self._with_arguments(inner, size, cap)}
        return self._with_arguments(call, size, cap)

    def _with_arguments(self, holder: dict[str, Any], size: float, cap: int) -> dict[str, Any]:
        key = next((key for key in ("arguments", "input", "args") if key in holder), "arguments")
        return {**holder, key: self._arguments(holder.get(key, {}), size, cap)}

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
        level = _water_level([len(text) * scale for text in texts.values()], cap - scale * sum(map(len, texts)))
        if level < 1:
            return {"…": f"{len(texts)} arguments left out"} if cap >= _LEAST_KEPT else {}
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
