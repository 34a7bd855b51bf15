"""Join a message whose blocks are too many: all that it says as one text beside its calls and results.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from summarizing_context.messages.parts import (
    BESIDE_CONTENT,
    Part,
    content_key,
    is_result,
    known_fields,
    known_keys,
    long_word,
)
from summarizing_context.messages.provider_bindings import THINKING_FIELDS, without_loaded_tools, without_wire_content
from summarizing_context.messages.reading import Reading, bare_call, read_content, without_odd
from summarizing_context.messages.validation import Message

_LEFT_OUT = "[… {} tokens left out …]"  # where a message says nothing else


def extras_cost(reading: Reading, count: Callable[[str], int]) -> int:
    """Tokens of a message's extras."""
    return sum(count(text) for part in reading.parts if part.kind == "extra" for text in part.sent)


def without_extras_of(message: Message, cost: int) -> Message:
    """The message without its extras, which cost so many tokens; where it says nothing else, they are told."""
    bare = without_extras(message)
    return bare if read_content(bare).parts else {**bare, "content": _LEFT_OUT.format(cost)}


def without_extras(message: Message) -> Message:
    """The message without its extras, wherever they stand."""
    key = content_key(message)
    bare = without_odd(message, known_fields(message))
    if isinstance(content := message.get(key), list) and not is_result(message):
        bare[key] = [without_odd(block, known_keys(block)) if isinstance(block, dict) else block for block in content]
    if isinstance(calls := message.get("tool_calls"), list):
        bare["tool_calls"] = [bare_call(call) if isinstance(call, dict) else call for call in calls]
    return bare


LEFT_OUT = {"type": "text", "text": "…"}  # no provider takes an empty text

_WORDS = frozenset({"text", "media", "opaque"})

_ARGUMENTS = ("arguments", "input", "args")

_GONE = frozenset({*THINKING_FIELDS, *BESIDE_CONTENT})


def joined(message: Message, reading: Reading) -> Message:
    """The message with its words in one text, in the place of the first of them."""
    return _built(message, reading.parts, silent=False)


def muted(message: Message, reading: Reading) -> Message:
    """The message with nothing left but its calls and results, without a word of theirs. A role that no provider could
    know gives way to the user's."""
    made = _built(message, reading.parts, silent=True)
    return {**made, "role": "user"} if long_word(reading.role) else made


def _built(message: Message, parts: Sequence[Part], *, silent: bool) -> Message:
    content = message.get("content")
    has_extras = any(part.kind == "extra" for part in parts)
    frame = without_loaded_tools(without_wire_content(without_extras(message) if has_extras else message))
    made: Message = {key: value for key, value in frame.items() if key not in _GONE}
    if is_result(message):
        said = _said(parts[:1], silent)
        made["content"] = [{"type": "text", "text": said}] if isinstance(content, list) else said
    else:
        words = _said([part for part in parts if part.kind in _WORDS], silent)
        made["content"] = _blocks(made["content"], parts, words, silent) if isinstance(content, list) else words
    if isinstance(listed := made.get("tool_calls"), list):
        made["tool_calls"] = [_framed(call, silent) for call in listed if isinstance(call, dict)]
        if not content and made["tool_calls"] and made["content"] == LEFT_OUT["text"]:
            made["content"] = ""
    return made


def _said(parts: Sequence[Part], silent: bool) -> str:
    """The words of these parts, and how many images, sounds and files stood among them."""
    if silent:
        return LEFT_OUT["text"]
    said = [text for part in parts for text in part.texts if text]
    return "\n".join([*said, *media_left_out(parts)]) or LEFT_OUT["text"]


def media_left_out(parts: Sequence[Part]) -> list[str]:
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
        if part.kind == "call":
            made.append(_framed(block, silent))
        elif part.kind == "result":
            made.append({**block, "content" if "content" in block else "output": _said([part], silent)})
        elif part.kind != "thinking" and not has_words:
            has_words = True
            frame = block if part.kind == "text" and isinstance(block, dict) and "text" in block else {"type": "text"}
            made.append({**frame, "text": words})
    return made or [dict(LEFT_OUT)]


def _framed(call: dict[str, Any], silent: bool) -> dict[str, Any]:
    """A call with its id and name; its arguments are emptied where nothing may be said."""
    if not silent:
        return call
    for holder in ("function", "custom"):
        if isinstance(inner := call.get(holder), dict):
            return {**call, holder: _framed(inner, silent)}
    return {key: _emptied(value) if key in _ARGUMENTS else value for key, value in call.items()}


def _emptied(arguments: Any) -> Any:
    return "{}" if isinstance(arguments, str) else {}
