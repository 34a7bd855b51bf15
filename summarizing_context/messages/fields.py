"""Fields of a message: which are never sent, which are its frame, and what stands in all the others.

Pure. A provider is sent every field but those named in `NEVER_SENT` and those that begin with an underscore, which are
notes of ours and of hosts. Roles, types and short ids and flags are the frame: a message's framing pays for its role
and one type, the rest is charged. What else stands in a field is text that a model reads, or sealed: sent unread.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from summarizing_context.messages.validation import Message, canonical_json

NEVER_SENT = frozenset({"metadata", "critical", "ephemeral", "timestamp", "created", "created_at", "usage"})

_KINDS = frozenset({"role", "type"})  # without them a message means another thing

_IDS = frozenset({"id", "tool_call_id", "tool_use_id", "call_id", "item_id", "file_id"})

_FRAME = (
    _KINDS
    | _IDS
    | {
        *("filename", "name", "tool", "index", "status", "is_error", "visibility", "caller", "cache_control"),
        *("format", "detail", "media_type", "mime_type", "mimeType"),
    }
)

_FLAGS = _FRAME - {"role"}

_LONG_ID, _LONG_WORD = 8, 24  # characters from which a part of the frame counts

_FEW = 32  # fields of small numbers, or of nothing, that the framing pays for

_PAID = frozenset({"text", "function", "tool_use", "tool_call", "tool_result", "thinking"})  # types of few tokens

_LONG_ADDRESS = 2_000

_BINARY = re.compile(r"[A-Za-z0-9+/=_-]{256,}")  # base64 and the like

_CODED = re.compile(r"[A-Za-z0-9+/=_.:-]+")

_LINES = str.maketrans("", "", "\r\n")

_WORDS = frozenset({"thinking", "text", "summary", "reasoning"})  # of thinking, what is meant to be read

_SEALS = frozenset({"signature", "data", "encrypted_content"})

_NAMES = _FRAME | _WORDS | _SEALS | {"title", "context", "source", "url", "image_url", "file_data"}


class Sent(NamedTuple):
    """What stands in a value: texts that a model reads, and what travels along unread."""

    texts: tuple[str, ...] = ()
    sealed: tuple[str, ...] = ()


def odd_keys(holder: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """The fields beside those that a shape knows in which there is anything to send, in one order. Small numbers and
    empty fields are none, but where there are many."""
    told: list[str] = []
    small: list[str] = []
    for key, value in holder.items():
        if key not in known and not key.startswith("_"):
            (told if _is_told(key, value) else small).append(key)
    return sorted(told + small if len(small) > _FEW else told)


def odd_fields(holder: Mapping[str, Any], known: Collection[str]) -> Sent:
    """What stands in the fields beside those that a shape knows, each with its name."""
    if not (odd := odd_keys(holder, known)):
        return Sent()
    texts: list[str] = []
    sealed: list[str] = []
    for key in odd:
        value = read_value(holder[key])
        if key in _IDS:  # nobody reads it: what a message says is the same under another id
            value = Sent((), (*value.texts, *value.sealed))
        (texts if value.texts else sealed).append(key)
        texts += value.texts
        sealed += value.sealed
    return Sent(tuple(texts), tuple(sealed))


def without_odd(holder: Mapping[str, Any], known: Collection[str]) -> Message:
    """The holder without these fields; who speaks stays, however long."""
    odd = set(odd_keys(holder, known)) - {"role"}
    return {key: value for key, value in holder.items() if key not in odd}


def read_value(value: object) -> Sent:
    """A JSON value as one text, itself or its canonical JSON, with `…` for each run of base64."""
    text = value if isinstance(value, str) else canonical_json(value)
    sealed = tuple(_BINARY.findall(text))
    rest = _BINARY.sub("…", text) if sealed else text
    return Sent((rest,) if rest != "…" else (), sealed)


def read_thinking(value: object) -> Sent:
    """Readable thinking, of a block, a list of them or a text; signatures and encrypted data are sealed."""
    texts: list[str] = []
    sealed: list[str] = []
    for key, text in _leaves(value, "text"):
        is_sealed = key in _SEALS or (key not in _WORDS and _CODED.fullmatch(text) is not None)
        (sealed if is_sealed else texts).append(text)
    return Sent(tuple(texts), (*sealed, *_numbers(value)))


def read_media(block: Mapping[str, Any]) -> Sent:
    """Words that travel with an image, a sound or a file; itself it is charged as a whole.

    They are its title, its context, its text if it is a text document, and whatever else is no payload.
    """
    source = block.get("source")
    inside = source.get("data") if isinstance(source, dict) and source.get("type") == "text" else None
    first = [text for text in (block.get("title"), block.get("context"), inside) if isinstance(text, str) and text]
    rest = [text for _, text in _leaves(block, "") if text not in first and not _is_payload(text)]
    words = [text for text in rest if _CODED.fullmatch(text) is None]
    return Sent((*first, *words), (*(text for text in rest if _CODED.fullmatch(text)), *_numbers(block)))


def long_frame(id: str) -> tuple[str, ...]:
    """An id, where it is too long to be paid for by the framing."""
    return () if _is_short("id", id) else (id,)


def long_word(text: str) -> tuple[str, ...]:
    """A role, or the name of a field, where it is too long to be paid for by the framing."""
    return (text,) if len(text) > _LONG_WORD or not text.isascii() else ()


def frame_words(holder: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Type, short ids and short flags of a holder, which stand in no part. `known` flags do; ids never."""
    words: list[str] = []
    for key, value in holder.items():
        if key in _FLAGS and (key in _IDS or key not in known):
            if not isinstance(value, str):
                words += _strings(value) if not _is_told(key, value) else ()
            elif value and _is_short(key, value):
                words.append(value)
    return words


def frame_leaves(value: object, key: str = "") -> Iterator[str]:
    """The same of all that is inside a value."""
    if isinstance(value, str):
        if value and key in _FRAME and _is_short(key, value):
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from frame_leaves(item, key)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from frame_leaves(item, name)


def beyond_framing(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a frame but for one type: for that and for the role the framing of a message pays."""
    rest = list(words)
    if (paid := next((word for word in rest if word in _PAID), None)) is not None:
        rest.remove(paid)
    return tuple(rest)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _is_short(key: str, text: str) -> bool:
    """Whether a part of the frame is no text of its own."""
    most = _LONG_ID if key in _IDS else _LONG_WORD
    return len(text) <= most and text.isascii()


def _is_told(key: str, value: object) -> bool:
    if long_word(key):
        return True
    if not value or value is True:
        return False
    is_frame = key in _FRAME or isinstance(value, int | float)
    return not is_frame or not _is_short(key, value if isinstance(value, str) else canonical_json(value))


def _leaves(value: object, key: str) -> Iterator[tuple[str, str]]:
    """The strings inside a value that are no part of a frame, each with the key that it stands under."""
    if isinstance(value, str):
        if value and not (key in _FRAME and _is_short(key, value)):
            yield key, value
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, key)
    elif isinstance(value, dict):
        for name in sorted(value, key=lambda name: (name == "summary", name != "thinking", name)):
            if not name.startswith("_"):
                yield from (("", name) for name in long_word(name))
                yield from _leaves(value[name], name)


def _numbers(value: object) -> tuple[str, ...]:
    """What is no text inside a value, with its names, as one text: numbers, and where there are many, flags, nothing,
    numbers of a frame, and names that no shape knows."""
    found: list[str] = []
    small: list[str] = []
    for is_small, said in _scalars(value):
        (small if is_small else found).append(said)
    if len(small) > _FEW:
        found += small
    return (",".join(found),) if found else ()


def _scalars(value: object, key: str = "") -> Iterator[tuple[bool, str]]:
    """Each value that is no text, with the name that it stands under, and whether it counts only where many do."""
    if value and isinstance(value, list):
        for at, item in enumerate(value):
            yield from _scalars(item, "" if at else key)
    elif value and isinstance(value, dict):
        for name, item in value.items():
            if not name.startswith("_"):
                yield from _scalars(item, name)
    elif value and isinstance(value, str):
        if key and key not in _NAMES:
            yield True, key
    else:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        yield not is_number or key in _FRAME, f'"{key}":{canonical_json(value)}' if key else canonical_json(value)


def _is_payload(text: str) -> bool:
    """Whether a text is a medium itself: encoded, or its address."""
    if text.startswith(("http://", "https://")):
        return len(text) <= _LONG_ADDRESS
    head, found, _ = text[:200].partition(";base64,")
    data = text[len(head) + len(found) :] if found else text
    return _CODED.fullmatch(data.translate(_LINES)) is not None
