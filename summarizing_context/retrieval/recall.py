"""Recalling: what the log holds about a query and the view does not show, on one page.

Two things share the page. Excerpts of the messages that fit the query best, found by `search_terms`; and lines of exact
values (paths, ids, numbers, names), first those that calls used, then those of the found messages. A short query asks
for something, so excerpts get more of the page; a long one describes a situation, and values serve it better.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from math import log, sqrt
from typing import NamedTuple

import anyio

from summarizing_context.concurrency import Foreground
from summarizing_context.errors import SettingsError
from summarizing_context.extraction.values import exact_values
from summarizing_context.log.entries import Entry
from summarizing_context.log.message_log import MessageLog
from summarizing_context.messages.reading import read_message
from summarizing_context.messages.search_terms import query_terms, word_set
from summarizing_context.messages.truncation import Count, cut_middle
from summarizing_context.messages.validation import Message
from summarizing_context.retrieval.pages import (
    Page,
    PagePart,
    block_of,
    fenced_page,
    message_parts,
    page_room,
    read_tokens,
)
from summarizing_context.retrieval.search import Search
from summarizing_context.stores.base import Match
from summarizing_context.views.builder import Viewer

_MOST_TERMS = 64  # of a query

_MATCHES = 200

_EXCERPTED = 12  # matches of which excerpts are shown at most

_SHORT = 12  # words up to which a query asks for something

_ASKED, _DESCRIBED = 0.5, 0.06  # share of the page for excerpts

_LEAST = 24  # tokens of an excerpt

_LEAST_VALUE = 5  # tokens for one more value

_BYTES = 4_000_000  # of the newest hidden messages, and of the view, that are looked through for values

_REFERENCE = 400  # characters of an argument beyond which it is content rather than a reference

_KEPT = 20_000  # messages whose values are remembered

_VALUES = "[exact values by message]"

_NOTHING = "Nothing in the log holds any of these words."


_LONG_LINE = 400  # characters; a longer line is taken apart

_BESIDE = 1  # lines shown before and after one that holds something

_MOST_MISSES = 100  # lines one after another for which no room is left, then the excerpt is full

_PIECE = 50_000  # characters


class Hidden(NamedTuple):
    """What a page is made from: the first entries, which the view does not show, and the messages that it shows."""

    entries: Sequence[Entry]
    shown: Sequence[Message]
    shown_next: Sequence[Entry]  # those that came after the last view


class _Found(NamedTuple):
    """A match that may be excerpted, with the entries of its group up to it."""

    match: Match
    group: Sequence[Entry]


class _Request(NamedTuple):
    """What a page is asked for, and has room for."""

    terms: Sequence[str]
    matches: Sequence[Match]
    room: int
    most: int


class Recaller:
    """Pages of what one session's log holds about something."""

    def __init__(
        self, log: MessageLog, views: Viewer, count: Callable[[str], int], search: Search, foreground: Foreground
    ) -> None:
        self._log, self._views, self._count, self._search = log, views, count, search
        self._foreground = foreground
        self._values: dict[bytes, tuple[list[str], list[str]]] = {}  # by content: said, and used by calls

    async def page(self, query: object, max_tokens: object) -> Page:
        """The best of what there is, within the tokens."""
        if not isinstance(query, str):
            raise SettingsError(f"a query is a text, not {type(query).__name__}")
        terms, most = query_terms(query, _MOST_TERMS), read_tokens(max_tokens)
        if not terms:
            raise SettingsError("the query holds no words; write what to look for in plain words")
        last = max(0, len(self._log) - 1)
        room = page_room(most, fenced_page([], f"0-{last}", "recall"), self._count)
        where = self._search.own
        by_words = await self._search.matches(terms, where, _MATCHES)
        matches = await self._search.with_meaning(query, by_words, where, _MATCHES)
        matches = [match for match in matches if match.stop <= len(self._log)]
        hidden = self._hidden()
        request = _Request(terms, matches, room, most)
        found = self._found(matches, len(hidden.entries))
        with self._foreground.call():  # background work beside it would leave the event loop no turn
            return await anyio.to_thread.run_sync(self._made, request, found, hidden)

    def _made(self, request: _Request, found: Sequence[_Found], hidden: Hidden) -> Page:
        """The page. Runs beside the event loop: it reads much."""
        count = self._count
        blocks = self._excerpts(request, found)
        left = request.room - sum(1 + count(block) for _, block in blocks) - count(_VALUES) - 2
        lines = self._lines(hidden, [block for _, block in blocks], request.matches, left)
        return self._composed(blocks, lines, request.most)

    def _composed(self, blocks: list[tuple[Match, str]], lines: list[tuple[int, str]], most: int) -> Page:
        """The page; where the counter counts more for the whole than for its parts, less of it."""
        while True:
            places = [(match.start, match.stop) for match, _ in blocks]
            places += [(place, place + 1) for place, _ in lines]
            start, stop = min((a for a, _ in places), default=0), max((b for _, b in places), default=0)
            shown = [block for _, block in sorted(blocks, key=lambda found: found[0].start)]
            shown += [_VALUES, *(text for _, text in lines)] if lines else []
            text = fenced_page(shown or [_NOTHING], f"{start}-{max(start, stop - 1)}", "recall")
            tokens = self._count(text)
            if tokens <= most or not (blocks or lines):
                return Page(text, start, stop)
            surplus = max(1, len(lines) * (tokens - most) // (2 * tokens))  # in few steps, for a page may be large
            blocks, lines = (blocks, lines[surplus:]) if lines else (blocks[:-1], lines)

    def _hidden(self) -> Hidden:
        """What the present view does not show; all of the log where nothing is left out."""
        log, latest = self._log, self._views.latest
        stop = latest.state.stop if latest is not None else 0
        if latest is None or stop <= log.leading_count:
            return Hidden(log.entries[:], [], [])
        rows = [*latest.state.head, *(item.message for item in latest.tail.items)]
        return Hidden(log.entries[:stop], rows, log.entries[max(stop, latest.tail.next) :])

    def _found(self, matches: Sequence[Match], hidden: int) -> list[_Found]:
        """The best matches that the view does not show, or the best of all where it shows each."""
        log = self._log
        left_out = [match for match in matches if match.start < hidden]
        best = (left_out or matches)[:_EXCERPTED]
        return [_Found(match, log.entries[log.group_start(match.start) : match.start + 1]) for match in best]

    def _excerpts(self, request: _Request, found: Sequence[_Found]) -> list[tuple[Match, str]]:
        """As much of the matches as their share of the page holds."""
        count = self._count
        words = sum(len(term.split()) == 1 for term in request.terms)
        left = int(request.room * (_ASKED if words <= _SHORT else _DESCRIBED))
        most = max(_LEAST, left // 2)
        weights = term_weights(request.terms, [match.text for match in request.matches])
        chosen: list[tuple[Match, str]] = []
        for match, group in found:
            if left < _LEAST:
                break
            if match.kind == "summary" and any(match.start <= other.start < match.stop for other, _ in chosen):
                continue
            label = _label(match, group)
            part = PagePart(match.start, match.stop, 0, label, "")
            head = count(block_of(part, "")) + 2
            text = excerpt(match.text, weights, min(most, left - head), count) if left > head + _LEAST // 2 else ""
            block = block_of(part, text)
            if text and (cost := 1 + count(block)) <= left:
                chosen.append((match, block))
                left -= cost
        return chosen

    def _lines(
        self, hidden: Hidden, excerpts: Sequence[str], matches: Sequence[Match], room: int
    ) -> list[tuple[int, str]]:
        """Lines of values within `room` tokens, each with its message: first what calls used, then what stands in the
        found messages; of these first what is new or stands in a message of few values. Nothing that the view, an
        excerpt or the path of a listed file shows."""
        if room <= 0:
            return []
        count = self._count
        rows = (*hidden.shown, *(entry.message() for entry in hidden.shown_next))
        texts = (text for row in rows for text in read_message(row).texts)
        shown = {value for text in (*texts, *excerpts) for value in exact_values(text)}
        found = {match.start for match in matches if match.kind == "message"}
        newest: dict[str, int] = {}  # the newest message that holds a value
        crowd: dict[str, int] = {}  # values in the message that holds the fewest beside it
        used, in_found = set[str](), set[str]()
        size, first = 0, len(hidden.entries)
        while first and size < _BYTES:
            first -= 1
            size += len(hidden.entries[first].data)
        for index, entry in enumerate(hidden.entries[first:], first):
            said, by_calls = self._values_of(index, entry)
            used.update(by_calls)
            values = {*said, *by_calls} - shown
            newest |= dict.fromkeys(values, index)
            if index in found:
                in_found |= values
            for value in values:
                crowd[value] = min(crowd.get(value, len(values)), len(values))

        def rank(value: str) -> tuple[bool, bool, int, str]:
            age = len(hidden.entries) - newest[value]
            return value not in used, value not in in_found, age * crowd[value], value

        lines: dict[int, dict[str, list[str]]] = {}  # names by their folder, by message
        legible: set[str] = set()  # parts of listed paths
        for value in sorted(newest, key=rank):
            if value in legible:
                continue
            index, folder = newest[value], _folder(value)
            line = lines.get(index, {})
            name = value[len(folder) :] if folder in line else value
            cost = count(f" {name}") + (count(f"\n{index}:") if not line else 0)
            if cost > room:
                if room < _LEAST_VALUE:
                    break
                continue
            room -= cost
            lines.setdefault(index, line).setdefault(folder, []).append(value[len(folder) :])
            steps = value.split("/")
            legible.update("/".join(steps[start:stop]) for start, stop in combinations(range(len(steps) + 1), 2))
        return [(index, f"{index}: {_listed(line)}") for index, line in sorted(lines.items())]

    def _values_of(self, index: int, entry: Entry) -> tuple[list[str], list[str]]:
        """The exact values of a message: what it says, and what its calls use."""
        content = entry.facts.content
        if content not in self._values:
            if len(self._values) >= _KEPT:
                self._values.clear()
            said, used = dict[str, None](), dict[str, None]()
            for part in entry.read(index).reading.parts:
                is_call = part.kind == "call"
                for text in chain.from_iterable(map(_leaves, part.texts)) if is_call else part.texts:
                    is_use = is_call and len(text) <= _REFERENCE
                    (used if is_use else said).update(dict.fromkeys(exact_values(text)))
            self._values[content] = list(said), list(used)
        return self._values[content]


def _leaves(arguments: str) -> Iterator[str]:
    """The texts and numbers in the arguments of a call, one by one; arguments that are no JSON as they stand."""
    try:
        waiting = [json.loads(arguments)]
    except (ValueError, RecursionError):
        waiting = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
        elif value is not None and not isinstance(value, bool):
            yield str(value)


def _folder(value: str) -> str:
    """The folder of a path, with its last slash; nothing for other values."""
    if "/" not in value or "://" in value or any(char in value for char in "{},"):
        return ""
    return value[: value.rindex("/") + 1]


def _listed(line: Mapping[str, Sequence[str]]) -> str:
    """Values of one message; paths of one folder stand together, as in `src/{app.py,page.py}`."""
    plain = list(line.get("", ()))
    plain += [
        folder + (names[0] if len(names) == 1 else f"{{{','.join(names)}}}") for folder, names in line.items() if folder
    ]
    return " ".join(plain)


def _label(match: Match, group: Sequence[Entry]) -> str:
    if match.kind == "summary":
        return "summary"
    return "; ".join(dict.fromkeys(part.label for part in message_parts(match.start, group)))[:80]


def term_weights(terms: Sequence[str], texts: Sequence[str]) -> dict[str, float]:
    """How much each word of the terms tells, by how few of the texts hold it."""
    words = dict.fromkeys(word for term in terms for word in (term, *term.split()) if len(word) > 2)
    counts = Counter(word for text in texts for word in _held(text, words))
    return {word: log(1 + len(texts) / counts[word]) for word in words if counts[word]}


def excerpt(text: str, weights: Mapping[str, float], tokens: int, count: Count) -> str:
    """The text, if it has at most so many tokens, or the lines of it that hold most of what weighs."""
    if len(text) <= 16 * tokens and count(text) <= tokens:
        return text
    lines = _lines(text)
    worth = [_worth(line, weights) for line in lines]
    kept: set[int] = set()
    left = tokens - 2
    misses = 0
    for at in _best_first(worth):
        if misses == _MOST_MISSES or (worth[at] <= 0 and kept):
            break
        misses += 1
        near = range(max(0, at - _BESIDE), min(len(lines), at + _BESIDE + 1))
        for wanted in (near, (at,)):
            fresh = [line for line in wanted if line not in kept]
            cost = sum(1 + count(lines[line]) for line in fresh) + 1
            if cost <= left:
                kept.update(fresh)
                left -= cost
                misses = 0
                break
    if not kept:
        return cut_middle(lines[max(range(len(lines)), key=worth.__getitem__)], tokens * 2, tokens, count)
    return "\n".join(lines[at] if at - 1 in kept or not at else f"… {lines[at]}" for at in sorted(kept))


def _best_first(worth: Sequence[float]) -> Iterator[int]:
    """Places by worth, equal ones in their order; sorted by the few worths, for sorting hundreds of thousands of places
    would hold every other thread up."""
    places: dict[float, list[int]] = {}
    for at, value in enumerate(worth):
        places.setdefault(value, []).append(at)
    for value in sorted(places, reverse=True):
        yield from places[value]


def _held(text: str, words: Iterable[str]) -> set[str]:
    """Those of the words that a text holds."""
    missing, found = set(words), set[str]()
    for piece in _pieces(text):
        if _may_hold(piece, missing):
            found |= missing & word_set(piece)
            missing -= found
        if not missing:
            break
    return found


def _worth(line: str, weights: Mapping[str, float]) -> float:
    if not _may_hold(line, weights):
        return 0.0
    words = word_set(line)
    return sum(weight for word, weight in weights.items() if word in words) / sqrt(4 + len(words))


def _may_hold(text: str, words: Iterable[str]) -> bool:
    """False only where a text holds none of the words; told by plain searches, which take a tenth of the time."""
    if not text.isascii():
        return True
    lowered = text.lower()
    return any(word in lowered for word in words)


def _lines(text: str) -> list[str]:
    """The lines of a text; what is longer than a line should be is taken apart between words."""
    found: list[str] = []
    for line in (line for piece in _pieces(text) for line in piece.splitlines()):
        found.extend([line] if len(line) <= _LONG_LINE else parts_of_line(line))
    return [line for line in found if line.strip()] or [""]


def _pieces(text: str) -> Iterator[str]:
    """A text in runs of whole lines, or of words of a very long one: one call over megabytes would hold every other
    thread up."""
    start = 0
    while start < len(text):
        least, most = start + _PIECE, start + 2 * _PIECE
        first, *others = text[least:most].splitlines(keepends=True) or [""]
        if others:
            stop = least + len(first)
        else:
            stop = text.rfind("\n", start, most) + 1 or text.rfind(" ", least, most) + 1 or min(most, len(text))
        yield text[start:stop]
        start = stop


def parts_of_line(line: str) -> Iterator[str]:
    """The parts of a long line, each read once."""
    start = 0
    while len(line) - start > _LONG_LINE:
        at = line.rfind(" ", start + _LONG_LINE // 2, start + _LONG_LINE)
        at = at if at > 0 else start + _LONG_LINE
        yield line[start:at]
        start = at
        while start < len(line) and line[start].isspace():
            start += 1
    yield line[start:]
