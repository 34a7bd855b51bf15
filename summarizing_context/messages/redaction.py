"""Redact messages: apply the caller's function to all text before it leaves the process.

The function sees all texts of a message as one, before anything is rendered or cut, and strings inside JSON without
their escapes. A secret that crosses texts takes the boundary with it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from threading import Lock
from typing import Any

from summarizing_context.errors import SettingsError, SummarizerError
from summarizing_context.messages.reading import Reading, read_message, typed_texts
from summarizing_context.messages.shapes import ID_FIELDS, Message

Redact = Callable[[str], str]
LEFT_OUT = "[texts are left out here: a secret may span these texts]"
_UNCHANGED = ID_FIELDS | {"role", "type", "id", "signature"}  # they bind
_SAME = 4  # characters alike that end a change
_MARK = 128  # characters of what stands in a secret's place
_JSON = re.compile(r"\s*[\[{]")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[dD][89abAB]..\\u[dD][c-fC-F]..|u....)'.replace("..", "[0-9a-fA-F]{2}"))


def redact_reading(message: Message, reading: Reading, redact: Redact) -> Reading:
    """Return what is left of a message to be read. Who speaks stays, for every text keeps its place."""
    shown = redact_texts(_texts_of(message), redact)
    left = read_message(_with_texts(message, shown))
    held = frozenset(shown)  # what else is read is JSON that was made of values, with names that are texts too
    parts = [
        part._replace(texts=tuple(text if text in held else _inside_json(text, redact) for text in part.texts))
        for part in left.parts
    ]
    typed = typed_texts(parts) if reading.human else ()
    return left._replace(parts=tuple(parts), human=reading.human, typed=typed)


def redact_message(message: Message, redact: Redact) -> Message:
    """Return a message without what `redact` takes out of it."""
    return _with_texts(message, redact_texts(_texts_of(message), redact))


def redact_texts(texts: Sequence[tuple[str, str]], redact: Redact) -> list[str]:
    """Return named texts that stand one after the other without what `redact` takes out of any of their readings.

    Each is read by itself, and with its neighbours: joined directly, all and by two, for a stream may have been cut
    anywhere; and joined by lines.
    """
    read = partial(_redacted, redact=redact)
    plain = [text for _, text in texts]
    held = [at for at, (name, _) in enumerate(texts) if name != "name"]  # of a tool: nothing goes on in it
    readings: list[tuple[Sequence[int], str, Redact]] = [([at], "", read) for at in range(len(plain))]
    readings += [(held[at : at + 2], "", read) for at in range(len(held) - 1)]
    readings += [(held, "", read)] if len(held) > 2 else []
    readings += [(range(len(plain)), "\n", redact)] if len(plain) > 1 else []
    return _left_by_all(plain, readings)


def _texts_of(message: Message) -> list[tuple[str, str]]:
    """Return the texts of a message, each with the name that it stands under."""
    found: list[tuple[str, str]] = []

    def note(name: str, text: str) -> str:
        found.append((name, text))
        return text

    _mapped(message, "", note)
    return found


def _with_texts(message: Message, texts: Sequence[str]) -> Message:
    left = iter(texts)
    changed: Message = _mapped(message, "", lambda name, text: next(left))
    return changed


def _mapped(value: Any, name: str, take: Callable[[str, str], str]) -> Any:
    """Return a message with another text for each of its texts, in the order of the message. What binds it to others,
    and what no model reads, is not among them."""
    if isinstance(value, str):
        return value if name in _UNCHANGED else take(name, value)
    if isinstance(value, list):
        return [_mapped(item, name, take) for item in value]
    if isinstance(value, dict):
        kept = "metadata" if not name and "role" in value else None
        return {key: item if key == kept else _mapped(item, key, take) for key, item in value.items()}
    return value


def _left_by_all(texts: Sequence[str], readings: Sequence[tuple[Sequence[int], str, Redact]]) -> list[str]:
    """Return the texts without what any reading takes out of them. A reading is some of the texts, what stands between
    them, and who reads.

    One reading cannot do: joined directly, the pattern of a key takes the beginning of the next key with it, whose
    rest then looks like no key any more.
    """
    taken: list[list[tuple[int, int, str]]] = [[] for _ in texts]
    for places, between, reading in readings:
        whole = between.join(texts[place] for place in places)
        if not whole or (left := reading(whole)) == whole:
            continue
        starts = list(accumulate((len(texts[place]) + len(between) for place in places), initial=0))
        for start, stop, new in _changes(whole, left):
            at = bisect_right(starts, start, hi=len(places)) - 1
            while at < len(places) and (new or starts[at] < stop):
                length = len(texts[places[at]])
                begin, end = min(max(start - starts[at], 0), length), min(max(stop - starts[at], 0), length)
                taken[places[at]].append((begin, end, new))
                at, new = at + 1, ""  # of a secret that goes across texts it stands in the first
    return [_without(text, changes) for text, changes in zip(texts, taken, strict=True)]


def _without(text: str, taken: list[tuple[int, int, str]]) -> str:
    """Return a text without the stretches that readings take out of it, with what they put there."""
    shown: list[str] = []
    done = at = 0
    taken.sort(key=lambda change: (change[0], -change[1]))
    while at < len(taken):
        start, stop, new = one = taken[at]
        differ = False
        while at < len(taken) and (taken[at][0] < stop or taken[at][:2] == one[:2]):
            differ = differ or taken[at] != one
            if taken[at][1] > stop:
                stop, new = taken[at][1], new + taken[at][2]
            at += 1
        secret, pieces = text[start:stop], (new[first : first + _SAME] for first in range(len(new) - _SAME + 1))
        if differ and (len(new) > _MARK or any(piece in secret for piece in pieces)):
            new = LEFT_OUT  # a reading shows what another takes out
        shown += (text[done:start], new)
        done = stop
    return "".join((*shown, text[done:]))


def _changes(text: str, left: str) -> Iterator[tuple[int, int, str]]:
    """Yield where each stretch of a text that is not left starts and stops, and what stands in its place. In doubt it
    is too wide."""
    at = to = _alike(text, left)
    tail = min(_alike(text[::-1], left[::-1]), len(text) - at, len(left) - to)
    text, left = text[: len(text) - tail], left[: len(left) - tail]
    while at < len(text) or to < len(left):
        stop, end = _meet(text, left, at, to)
        yield at, stop, left[to:end]
        same = _alike(text, left, stop, end)
        at, to = stop + same, end + same


def _meet(text: str, left: str, at: int, to: int) -> tuple[int, int]:
    """Return where both go on alike behind a change; their ends, where they do not soon."""
    for reach in (2**6, 2**8, 2**10, 2**12, 2**15):  # where a longer secret ends is not looked for
        for end in range(to, min(to + _MARK, len(left) - _SAME) + 1):
            if (stop := text.find(left[end : end + _SAME], at, at + reach)) >= 0:
                return stop, end
    return len(text), len(left)


def _alike(text: str, left: str, at: int = 0, to: int = 0) -> int:
    """Return how many characters two texts go on alike."""
    start = at
    while (run := text[at : at + 256]) and run == left[to : to + 256]:
        at, to = at + len(run), to + len(run)
    pairs = zip(run, left[to : to + 256], strict=False)
    return at - start + next((n for n, (one, other) in enumerate(pairs) if one != other), min(len(run), len(left) - to))


def _redacted(text: str, redact: Redact) -> str:
    return redact(_inside_json(text, redact))


def _inside_json(text: str, redact: Redact) -> str:
    """Return a text without what its strings say, where it is JSON, and without what stands in it when escapes are
    read."""
    if _JSON.match(text):
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            said = [text for _, text in _texts_of(value)]
            readings = [([at], "", partial(_redacted, redact=redact)) for at in range(len(said))]
            left = _left_by_all(said, [*readings, (range(len(said)), "\n", redact)])
            if left != said:
                text = json.dumps(_with_texts(value, left), ensure_ascii=False, separators=(",", ":"))
    return _without_escapes(text, redact, 4)  # JSON in a string of JSON, and so on


def _without_escapes(text: str, redact: Redact, depth: int) -> str:
    """Return a text without what stands in it when its escapes are read, between quotes or not, and when those that
    then stand there are. Where there is such a thing, the text stays without its escapes."""
    if not depth or "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda escape: str(json.loads(f'"{escape[0]}"')), text)  # what is no escape of JSON stays
    left = plain if plain == text else redact(_without_escapes(plain, redact, depth - 1))
    return text if left == plain else left


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
