"""Recalling: what the log holds about a query and the view does not show, on one page.

Two things share the page. Excerpts of the messages that fit the query best, found by `search_terms`; and lines of exact
values (paths, ids, numbers, names), first those that calls used, then those of the found messages. A short query asks
for something, so excerpts get more of the page; a long one describes a situation, and values serve it better.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from math import log, sqrt

import anyio

from summarizing_context.concurrency import Foreground
from summarizing_context.errors import SettingsError
from summarizing_context.extraction.tool_calls import read_arguments
from summarizing_context.extraction.values import exact_values
from summarizing_context.log.entries import Entry
from summarizing_context.log.message_log import MessageLog
from summarizing_context.messages.reading import read_message
from summarizing_context.messages.search_terms import query_terms, word_set
from summarizing_context.messages.shapes import Message
from summarizing_context.messages.truncation import Count, cut_middle
from summarizing_context.retrieval.memory import check_query
from summarizing_context.retrieval.pages import Page, PagePart, block_of, fenced_page, message_parts, page_room
from summarizing_context.retrieval.search import Search
from summarizing_context.stores.base import Match
from summarizing_context.views.builder import Viewer

_MATCHES, _EXCERPTED = 200, 12  # matches that are looked at, and of which excerpts are shown, at most
_SHORT = 12  # words up to which a query asks for something
_ASKED, _DESCRIBED = 0.5, 0.06  # share of the page for excerpts
_LEAST, _LEAST_VALUE = 24, 5  # tokens of an excerpt, and for one more value
_BYTES = 4_000_000  # of the newest hidden messages that are looked through for values
_LONG = 400  # characters of a line, or of an argument, of which parts are shown
_VALUES = "[exact values by message]"


class Recaller:
    """Pages of what one session's log holds about something."""

    def __init__(
        self, log: MessageLog, views: Viewer, count: Callable[[str], int], search: Search, foreground: Foreground
    ) -> None:
        self._log, self._views, self._count, self._search = log, views, count, search
        self._foreground = foreground
        self._values: dict[bytes, tuple[list[str], list[str]]] = {}  # by content, for reading 2 MB takes a second

    async def page(self, query: object, max_tokens: object) -> Page:
        """Return the best of what there is, within the tokens."""
        check_query(query)
        if not (terms := query_terms(str(query), 64)):
            raise SettingsError("the query holds no words; write what to look for in plain words")
        most, room = page_room(max_tokens, max(0, len(self._log) - 1), "recall", self._count)
        matches = await self._search.matches(str(query), terms, self._search.own, _MATCHES)
        matches = [match for match in matches if match.stop <= len(self._log)]

        # what the present view does not show; all of the log where nothing is left out
        entries, latest = self._log.entries, self._views.latest
        hidden: Sequence[Entry] = entries[:]
        rows: Sequence[Message] = []
        since: Sequence[Entry] = []  # what came after the last view
        if latest is not None and (stop := latest.state.stop) > self._log.leading_count:
            rows = [*latest.state.head, *(item.message for item in latest.tail.items)]
            hidden, since = entries[:stop], entries[max(stop, latest.tail.next) :]
        left_out = [match for match in matches if match.start < len(hidden)]
        best = (left_out or matches)[:_EXCERPTED]  # of all where the view shows each
        groups = [entries[self._log.group_start(one.start) : one.start + 1] for one in best]

        def made() -> Page:
            blocks = self._excerpts(terms, matches, list(zip(best, groups, strict=True)), room)
            excerpts = [block for _, block in blocks]
            left = room - sum(1 + self._count(block) for block in excerpts) - self._count(_VALUES) - 2
            seen = (text for row in (*rows, *(one.message() for one in since)) for text in read_message(row).texts)
            shown = {value for text in (*seen, *excerpts) for value in exact_values(text)} if left > 0 else set()
            lines = self._value_lines(hidden, shown, matches, left)
            while True:  # where the counter counts more for the whole than for its parts, less of it
                places = [(match.start, match.stop) for match, _ in blocks]
                places += [(place, place + 1) for place, _ in lines]
                start, stop = min((a for a, _ in places), default=0), max((b for _, b in places), default=0)
                told = [block for _, block in sorted(blocks, key=lambda found: found[0].start)]
                told += [_VALUES, *(text for _, text in lines)] if lines else []
                told = told or ["Nothing in the log holds any of these words."]
                text = fenced_page(told, f"{start}-{max(start, stop - 1)}", "recall")
                tokens = self._count(text)
                if tokens <= most or not (blocks or lines):
                    return Page(text, start, stop)
                surplus = max(1, len(lines) * (tokens - most) // (2 * tokens))  # in few steps: a page may be large
                blocks, lines = (blocks, lines[surplus:]) if lines else (blocks[:-1], lines)

        with self._foreground.call():  # it reads much; background work beside it would leave the event loop no turn
            return await anyio.to_thread.run_sync(made)

    def _excerpts(
        self,
        terms: Sequence[str],
        matches: Sequence[Match],
        best: Sequence[tuple[Match, Sequence[Entry]]],
        room: int,
    ) -> list[tuple[Match, str]]:
        """Return as much of the best matches, each with its group up to it, as their share of the page holds."""
        count = self._count
        is_short = sum(len(term.split()) == 1 for term in terms) <= _SHORT
        left = int(room * (_ASKED if is_short else _DESCRIBED))
        most = max(_LEAST, left // 2)

        # how much each word tells, by how few of the matches hold it
        words = {word for term in terms for word in (term, *term.split()) if len(word) > 2}
        counts = Counter(word for match in matches for word in words & word_set(match.text))
        weights = {word: log(1 + len(matches) / counts[word]) for word in sorted(words) if counts[word]}

        chosen: list[tuple[Match, str]] = []
        for match, group in best:
            if left < _LEAST:
                break
            label = "summary"
            if match.kind != "summary":
                label = "; ".join(dict.fromkeys(part.label for part in message_parts(match.start, group)))[:80]
            elif any(match.start <= other.start < match.stop for other, _ in chosen):
                continue
            part = PagePart(match.start, match.stop, 0, label, "")
            head = count(block_of(part, "")) + 2
            text = _excerpt(match.text, weights, min(most, left - head), count) if left > head + _LEAST // 2 else ""
            block = block_of(part, text)
            if text and (cost := 1 + count(block)) <= left:
                chosen.append((match, block))
                left -= cost
        return chosen

    def _value_lines(
        self, hidden: Sequence[Entry], shown: Set[str], matches: Sequence[Match], room: int
    ) -> list[tuple[int, str]]:
        """Return lines of values within `room` tokens, each with its message: first what calls used, then what stands
        in the found messages; of these first what is new or stands in a message of few values. Nothing that is shown,
        or is the path of a listed file."""
        if room <= 0:
            return []
        count = self._count
        found = {match.start for match in matches if match.kind == "message"}
        newest: dict[str, int] = {}  # the newest message that holds a value
        crowd: dict[str, int] = {}  # values in the message that holds the fewest beside it
        called, in_found = set[str](), set[str]()
        size, first = 0, len(hidden)
        while first and size < _BYTES:
            first -= 1
            size += len(hidden[first].data)
        for index, entry in enumerate(hidden[first:], first):
            if (known := self._values.get(entry.facts.content)) is None:
                said, used = list[str](), list[str]()
                for part in entry.read(index).reading.parts:
                    is_call = part.kind == "call"
                    for text in part.texts:
                        for value in [value for _, value in read_arguments(text, numbers=True)] if is_call else [text]:
                            is_use = is_call and len(value) <= _LONG  # a longer argument is content, no reference
                            (used if is_use else said).extend(exact_values(value))
                known = self._values[entry.facts.content] = said, used
            said, by_calls = known
            called.update(by_calls)
            values = {*said, *by_calls} - shown
            newest |= dict.fromkeys(values, index)
            if index in found:
                in_found |= values
            for value in values:
                crowd[value] = min(crowd.get(value, len(values)), len(values))

        def rank(value: str) -> tuple[bool, bool, int, str]:
            age = len(hidden) - newest[value]
            return value not in called, value not in in_found, age * crowd[value], value

        lines: dict[int, list[str]] = {}  # by message
        listed = ""
        for value in sorted(newest, key=rank):
            if f"/{value}/" in listed:  # the path of a listed file, or its name
                continue
            index = newest[value]
            cost = count(f" {value}") + (0 if index in lines else count(f"\n{index}:"))
            if cost > room:
                if room < _LEAST_VALUE:
                    break
                continue
            room -= cost
            listed += f"/{value}/\n"
            lines.setdefault(index, []).append(value)
        return [(index, f"{index}: {' '.join(values)}") for index, values in sorted(lines.items())]


def _excerpt(text: str, weights: Mapping[str, float], tokens: int, count: Count) -> str:
    """Return the text, if it has at most so many tokens, or the lines of it that hold most of what weighs, each with
    the line before and after where there is room."""
    if len(text) <= 16 * tokens and count(text) <= tokens:
        return text
    lines: list[str] = []
    for line in text.splitlines():
        if len(line) > _LONG:
            lines += re.findall(r"\S.{0,399}(?!\S)|\S{1,400}", line)  # between words where it can be
        elif line.strip():
            lines.append(line)
    lines = lines or [""]
    worth = [0.0] * len(lines)
    for at, line in enumerate(lines):
        lowered = line.lower()
        if not line.isascii() or any(word in lowered for word in weights):  # a tenth of the time of reading the words
            words = word_set(line)
            worth[at] = sum(weight for word, weight in weights.items() if word in words) / sqrt(4 + len(words))
    kept: set[int] = set()
    left, misses = tokens - 2, 0  # lines one after another for which no room is left
    for at in sorted(range(len(lines)), key=lambda at: -worth[at]):
        if misses == 100 or (worth[at] <= 0 and kept):
            break
        misses += 1
        for wanted in (range(max(0, at - 1), min(len(lines), at + 2)), (at,)):
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
