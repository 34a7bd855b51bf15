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
from itertools import accumulate, product
from threading import Lock
from typing import Any

from summarizing_context.errors import SettingsError, SummarizerError
from summarizing_context.messages.reading import ID_FIELDS, Message, Reading, read_message, typed_texts

Redact = Callable[[str], str]
REDACTED = "[secret]"
LEFT_OUT = "[texts are left out here: a secret may span these texts]"
_UNCHANGED = ID_FIELDS | {"role", "type", "id", "signature"}  # they bind
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


def redact_texts(texts: Sequence[tuple[str, str]], redact: Redact, is_inner: bool = False) -> list[str]:
    """Return named texts that stand one after the other without what `redact` takes out of any of their readings.

    Each is read by itself, and with its neighbours: joined directly, all and by two, for a stream may have been cut
    anywhere; and joined by lines. One reading cannot do: joined directly, the pattern of a key takes the beginning of
    the next key with it, whose rest then looks like no key any more.
    """
    plain = [text for _, text in texts]
    held = [at for at, (name, _) in enumerate(texts) if name != "name"]  # of a tool: nothing goes on in it
    readings: list[tuple[Sequence[int], str]] = [([at], "") for at in range(len(plain))]
    readings += [(held[at : at + 2], "") for at in range(len(held) - 1)]
    readings += [(held, "")] if len(held) > 2 else []
    readings += [(range(len(plain)), "\n")] if len(plain) > 1 else []

    # What each reading takes out of each text: from where to where, and what it puts there.
    taken: list[set[tuple[int, int, str]]] = [set() for _ in plain]
    for places, between in readings:
        whole = between.join(plain[place] for place in places)
        read = _without_escapes if (between or is_inner) and len(places) > 1 else _inside_json  # else 3^levels
        if not whole or (left := redact(read(whole, redact))) == whole:
            continue
        starts = list(accumulate((len(plain[place]) + len(between) for place in places), initial=0))
        for start, stop, new in _changes(whole, left):
            at = bisect_right(starts, start, hi=len(places)) - 1
            while at < len(places) and (new or starts[at] < stop):
                length = len(plain[places[at]])
                begin, end = min(max(start - starts[at], 0), length), min(max(stop - starts[at], 0), length)
                taken[places[at]].add((begin, end, new))
                at, new = at + 1, ""  # of a secret that goes across texts it stands in the first

    # Where they do not take out the same, one may show what another takes out.
    shown: list[str] = []
    for text, changes in zip(plain, taken, strict=True):
        pieces, first, done = list[str](), 0, 0
        for start, stop, new in sorted(changes, key=lambda one: (one[0], -one[1], len(one[2]))):
            if not pieces or start >= done:
                pieces += (text[done:start], new)
                first, done = start, stop
                continue
            done, said = max(done, stop), pieces[-1]
            if len(said) > 128 or any(said[at : at + 4] in text[first:done] for at in range(len(said) - 3)):
                pieces[-1] = LEFT_OUT
        shown.append("".join((*pieces, text[done:])))
    return shown


def _texts_of(message: Message) -> list[tuple[str, str]]:
    """Return the texts of a message, each with the name that it stands under."""
    found: list[tuple[str, str]] = []
    _mapped(message, "", lambda *named: found.append(named))
    return found


def _with_texts(message: Message, texts: Sequence[str]) -> Message:
    left = iter(texts)
    return _mapped(message, "", lambda name, text: next(left))  # type: ignore[no-any-return]


def _mapped(value: Any, name: str, take: Callable[[str, str], Any]) -> Any:
    """Return a message with other texts, in its order, but for what binds it to others and what no model reads."""
    if isinstance(value, str):
        return value if name in _UNCHANGED else take(name, value)
    if isinstance(value, list):
        return [_mapped(item, name, take) for item in value]
    if isinstance(value, dict):
        kept = "metadata" if not name and "role" in value else None
        return {key: item if key == kept else _mapped(item, key, take) for key, item in value.items()}
    return value


def _changes(text: str, left: str) -> Iterator[tuple[int, int, str]]:
    """Yield where each stretch that is not left starts and stops, in doubt too wide, and what stands in its place."""
    ends = zip(reversed(text), reversed(left), strict=False)
    tail = next((at for at, (one, other) in enumerate(ends) if one != other), min(len(text), len(left)))
    text, left = text[: len(text) - tail], left[: len(left) - tail]
    at = to = 0
    while at < len(text) or to < len(left):
        if run := next((run for size in (1_024, 1) if (run := text[at : at + size]) == left[to : to + size]), ""):
            at, to = at + len(run), to + len(run)
            continue
        # A change ends where both go on alike for four characters, soon: where a longer secret ends is not looked for.
        places = product((2**6, 2**8, 2**10, 2**12, 2**15), range(to, min(to + 128, len(left) - 4) + 1))
        met = ((text.find(left[end : end + 4], at, at + reach), end) for reach, end in places)
        stop, end = next((found for found in met if found[0] >= 0), (len(text), len(left)))
        yield at, stop, left[to:end]
        at, to = stop, end


def _inside_json(text: str, redact: Redact) -> str:
    """Return a text without what its strings, where it is JSON, and its escapes say when they are read."""
    if _JSON.match(text):
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            said = _texts_of(value)
            left = redact_texts(said, redact, is_inner=True)
            if left != [text for _, text in said]:
                text = json.dumps(_with_texts(value, left), ensure_ascii=False, separators=(",", ":"))
    return _without_escapes(text, redact)


def _without_escapes(text: str, redact: Redact, depth: int = 4) -> str:
    """Return a text without what stands in it when its escapes are read, and those that then stand there. Where there
    is such a thing, the text stays without its escapes."""
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


# What is read before a secret is known is bounded: else a hostile text is read again from every start. Each pattern has
# marks, of which any text that it fits holds one in lower case: few texts do, and looking for them is quick. No mark of
# one that ignores case has an i: there, one without a dot is an i too.
_KEYS = "-----begin sk- pk- rk- ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xox hf_ akia asia aiza eyj"
_SECRETS = (
    (
        _KEYS.split(),
        r"()(?:-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
        r"|\b(?:sk|pk|rk)-[A-Za-z0-9_-]{12,}"
        r"|\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|hf_)[A-Za-z0-9_-]{12,}"
        r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
        r"|\bAIza[A-Za-z0-9_-]{30,}"
        r"|\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)",
    ),
    (["bearer", "bas"], r"(?i)\b((?:bearer|basic)\s+)(?=[^\s\"']{0,500}\d)[A-Za-z0-9._~+/=-]{12,}"),
    (
        ["author", "key", "token", "secret", "password"],
        r"(?i)\b((?:authorization|x-api-key|api[-_ ]?key|access[-_]?token|auth[-_]?token|client[-_]?secret"
        r"|secret[-_]?key|password)[\"']?\s{0,50}[:=]\s{0,50}[\"']?)(?=[^\s\"']{0,500}\d)[^\s\"'\[\],;]{12,}",
    ),
    (["://"], r"(?i)(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,80}:)[^\s/@]{3,200}(?=@)"),
)


def without_known_secrets(text: str) -> str:
    """Return the text with `REDACTED` in the place of each secret that is known by its shape or the name before it."""
    for marks, pattern in _SECRETS:
        lower = text.casefold()
        if any(mark in lower for mark in marks):
            text = re.sub(pattern, rf"\1{REDACTED}", text)
    return text
