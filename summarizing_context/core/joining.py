"""Joining a message: all that it says as one text beside its calls and results, where its blocks are too many.

Pure. Its frame stays: the role, the ids and names of calls, which call a result answers. Its extras, its thinking and
tools that it loads go, whole. How the texts are cut is `shrinking`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from summarizing_context.core.bindings import THINKING_FIELDS, without_loaded_tools, without_wire_content
from summarizing_context.core.door import Message
from summarizing_context.core.extras import without_extras
from summarizing_context.core.fields import long_word
from summarizing_context.core.messages import BESIDE_CONTENT, Part, Reading, is_result

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
    frame = without_loaded_tools(without_wire_content(without_extras(message)))
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
    told = False
    for at, block in enumerate(content):
        part = kinds[at]
        if part.kind == "call":
            made.append(_framed(block, silent))
        elif part.kind == "result":
            made.append({**block, "content" if "content" in block else "output": _said([part], silent)})
        elif part.kind != "thinking" and not told:
            told = True
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
