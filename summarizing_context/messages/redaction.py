"""Redact messages: apply the caller's function to all text before it leaves the process.

The function sees all texts of a message as one, before anything is rendered or cut, and strings inside JSON without
their escapes. A secret that crosses texts takes the boundary with it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from importlib import import_module
from threading import Lock
from typing import Any, NamedTuple

from summarizing_context.errors import SettingsError, SummarizerError
from summarizing_context.messages.reading import Reading, read_message, typed_texts
from summarizing_context.messages.validation import Message

Redact = Callable[[str], str]

LEFT_OUT = "[texts are left out here: a secret may span these texts]"

_UNCHANGED = frozenset({"role", "type", "id", "call_id", "tool_call_id", "tool_use_id", "signature"})  # they bind

_WORD = re.compile(r"\S+")

_JSON = re.compile(r"\s*[\[{]")

_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[dD][89abAB]..\\u[dD][c-fC-F]..|u....)'.replace("..", "[0-9a-fA-F]{2}"))

_SHORT = {f"\\{char}": json.loads(f'"\\{char}"') for char in '"\\/bfnrt'}

_DEPTH = 4  # JSON in a string of JSON, and so on

_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)\\?(?:"|\Z)', re.DOTALL)  # to the end where it is not closed


class _Text(NamedTuple):
    """A text of a message, and the name that it stands under."""

    name: str
    text: str


def redact_reading(message: Message, reading: Reading, redact: Redact) -> Reading:
    """What is left of a message to be read. Who speaks stays, but where words of a person and of a tool became one."""
    texts = _texts_of(message)
    shown = redact_texts(texts, redact)
    became_one = any(text and not new for (_, text), new in zip(texts, shown, strict=True))
    left = read_message(_with_texts(message, shown))
    held = frozenset(shown)  # what else is read is JSON that was made of values, with names that are texts too
    parts = [
        part._replace(texts=tuple(text if text in held else _inside_json(text, redact) for text in part.texts))
        for part in left.parts
    ]
    mixed = became_one and bool(reading.answers)
    human = reading.human and not mixed
    typed = typed_texts(parts) if human else ()
    return left._replace(parts=tuple(parts), turn=reading.turn and not mixed, human=human, typed=typed)


def redact_message(message: Message, redact: Redact) -> Message:
    """A message without what `redact` takes out of it."""
    shown: Message = _with_texts(message, redact_texts(_texts_of(message), redact))
    return shown


def redact_texts(texts: Sequence[tuple[str, str]], redact: Redact) -> list[str]:
    """Named texts that stand one after the other, as many as before; each is read on its own and with the others."""

    def joined(text: str) -> str:
        return redact(_inside_json(text, redact))

    made = [text for _, text in texts]
    # All as one, for a stream may have been cut; and by two, as a word before them may hide where a secret begins.
    held = [at for at, (name, _) in enumerate(texts) if name != "name"]  # of a tool: nothing goes on in it
    for size in sorted({2, max(2, len(held))}, reverse=True):
        for at in range(len(held) - size + 1):
            places = held[at : at + size]
            for place, text in zip(places, _as_one([made[place] for place in places], joined, ""), strict=True):
                made[place] = text
    made = [_inside_json(text, redact) for text in made]
    return _as_one(made, redact)


def _texts_of(message: Message) -> list[_Text]:
    found: list[_Text] = []

    def note(name: str, text: str) -> str:
        found.append(_Text(name, text))
        return text

    _mapped(message, "", note)
    return found


def _with_texts(message: Message, texts: Sequence[str]) -> Any:
    left = iter(texts)
    return _mapped(message, "", lambda name, text: next(left))


def _mapped(value: Any, name: str, take: Callable[[str, str], str]) -> Any:
    """A message with another text for each of its texts, in the order of the message. What binds it to others, and
    what no model reads, is not among them."""
    if isinstance(value, str):
        return value if name in _UNCHANGED else take(name, value)
    if isinstance(value, list):
        return [_mapped(item, name, take) for item in value]
    if isinstance(value, dict):
        is_message = not name and "role" in value
        return {
            key: item if is_message and key == "metadata" else _mapped(item, key, take) for key, item in value.items()
        }
    return value


def _as_one(texts: list[str], redact: Redact, between: str = "\n") -> list[str]:
    """Texts redacted as one. Those that nothing goes across keep their places; what is left of the others stands in
    the first of them."""
    whole = between.join(texts)
    left = redact(whole) if whole else whole
    if left == whole or len(texts) == 1:
        return texts if left == whole else [left]
    alone = [redact(text) for text in texts]
    first, last, start, stop = 0, len(texts), 0, len(left)
    while first < last - 1 and left.startswith(alone[first] + between, start):
        start += len(alone[first] + between)
        first += 1
    while last > first + 1 and left.endswith(between + alone[last - 1], start, stop):
        stop -= len(between + alone[last - 1])
        last -= 1
    joined = left[start:stop]
    if not between and _shows_secret(joined, texts[first:last], alone[first:last]):
        joined = LEFT_OUT
    return [*alone[:first], joined, *[""] * (last - first - 1), *alone[last:]]


def _shows_secret(joined: str, texts: Sequence[str], alone: Sequence[str]) -> bool:
    """Whether what is left of texts as one still holds a word that goes where they stand alone: grown together with
    its neighbour it looks like another word."""
    whole = "".join(texts)
    words = [word.span() for word in _WORD.finditer(whole)]
    left = frozenset(joined.split())
    start = 0
    for text, kept in zip(texts, alone, strict=True):
        known = frozenset(kept.split())
        gone = (start + word.start() for word in _WORD.finditer(text) if word[0] not in known)
        for begin, end in (words[bisect_right(words, (at, len(whole))) - 1] for at in gone):
            if whole[begin:end] in left:
                return True
        start += len(text)
    return False


def _inside_json(text: str, redact: Redact) -> str:
    """A text without what stands in JSON in it when escapes are read: in its strings, and in whatever holds escapes."""
    return _without_escapes(_inside_strings(text, redact, _DEPTH), redact, _DEPTH)


def _inside_strings(text: str, redact: Redact, depth: int) -> str:
    """A text without what its JSON strings say. An odd quotation mark before them takes the inside of strings for the
    outside: so with escapes both are read."""
    if not depth or not ("\\" in text or _JSON.match(text)):
        return text
    for at in (0, text.find('"') + 1) if "\\" in text else (0,):
        strings = list(_STRING.finditer(text, at))
        values = [_unescaped(found[1]) for found in strings]
        left = _as_one([_inside_strings(value, redact, depth - 1) for value in values], redact)
        text = _with_strings(text, strings, values, left)
    return text


def _with_strings(text: str, strings: Sequence[re.Match[str]], values: Sequence[str], left: Sequence[str]) -> str:
    kept: list[str] = []
    at = 0
    for found, value, new in zip(strings, values, left, strict=True):
        if new != value:
            kept += (text[at : found.start(1)], json.dumps(new, ensure_ascii=False)[1:-1])
            at = found.end(1)
    return "".join((*kept, text[at:]))


def _without_escapes(text: str, redact: Redact, depth: int) -> str:
    """A text without what stands in it when its escapes are read, between quotes or not, and when those that then
    stand there are. From the first place that goes to the last the text stays without its escapes."""
    plain = _unescaped(text)
    if not depth or plain == text:
        return text
    left = redact(_without_escapes(plain, redact, depth - 1))
    if left == plain:
        return text
    start = _common(plain, left)
    stop = len(left) - _common(plain[start:][::-1], left[start:][::-1])
    return text[: _place(text, start)] + left[start:stop] + text[_place(text, len(plain) - len(left) + stop) :]


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    unlike = (at for at, (char, its) in enumerate(zip(one, other, strict=False)) if char != its)
    return next(unlike, min(len(one), len(other)))


def _place(text: str, at: int) -> int:
    """Where in a text the character begins that stands at `at` when escapes are read."""
    for escape in _ESCAPE.finditer(text):
        if escape.start() >= at:
            break
        at += len(escape[0]) - 1
    return at


def _unescaped(text: str) -> str:
    """A text with its escapes read, each as one character; what is no escape of JSON stays."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    return _SHORT.get(escape[0]) or str(json.loads(f'"{escape[0]}"'))


class Redaction:
    """A caller's function from text to text, tried out first. It is never run twice at once: it may come from several
    threads. A text that it cannot redact is not sent: `SummarizerError`."""

    def __init__(self, redact: Redact) -> None:
        self.version: object = getattr(redact, "version", True)  # what it takes out, if it tells
        self._redact = redact
        self._one_by_one = Lock()
        try:
            self("a text")
        except SummarizerError as error:
            raise SettingsError(f"redact must turn a text into a text; tried out, it failed: {error}") from error

    def __call__(self, text: str) -> str:
        with self._one_by_one:
            try:
                redacted = self._redact(text)
            except Exception as error:
                raise SummarizerError(f"redact raised {type(error).__name__}; nothing was sent") from error
        if not isinstance(redacted, str):
            raise SummarizerError(f"redact gave {type(redacted).__name__}, not a text; nothing was sent")
        return redacted


def load_redaction(name: str) -> Redaction:
    """The function that a command line names as `module:function`; the module may be in the current folder."""
    module, _, function = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"redact: {name!r} cannot be loaded ({type(error).__name__}); name a function as module:function"
        ) from error
    return Redaction(found)
