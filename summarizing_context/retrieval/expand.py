"""Drilling down: a node or a range of the log, one line, a paragraph or in full, page by page.

What stands in segments is told by their summaries, whole messages by themselves. Places are read in `retrieval.pages`,
pages filled in `retrieval.pages`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from summarizing_context.log.entries import Entry
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import HeaderNode, Node
from summarizing_context.messages.rendering import part_label, parts_by_author
from summarizing_context.messages.truncation import cut_middle
from summarizing_context.retrieval.pages import (
    Cursor,
    Page,
    PagePart,
    fenced_page,
    fill_page,
    page_room,
    read_cursor,
    read_detail,
    read_place,
    read_tokens,
    stale,
)
from summarizing_context.views.header import BRIEF_TOKENS
from summarizing_context.worker.summary_cache import SummaryCache

Detail = Literal["line", "paragraph", "full"]

_LINE = 160  # characters of a message's line

_PARAGRAPH = 80  # tokens of a message's paragraph

_LABEL = 80  # characters

_NOT_IN_IT = "Not in this summary"


class Expander:
    """Pages of one session's past."""

    def __init__(self, log: MessageLog, summaries: SummaryCache, count: Callable[[str], int]) -> None:
        self._log, self._summaries, self._count = log, summaries, count

    def page(self, place: object, detail: object, max_tokens: object, cursor: object) -> Page:
        """The next page of a node, a range or a message."""
        within = read_place(place, len(self._log))
        kind = read_detail(detail, Detail)
        begin = read_cursor(cursor, kind, within)
        count = self._count
        named = f"{within.start}-{within.stop - 1}"
        most = read_tokens(max_tokens)
        room = page_room(most, fenced_page([], named, kind), count)
        first = self._checked(begin) if begin else Cursor(kind, within.start, 0, 0, "")
        while True:  # a counter may count more for the whole than for its parts: less room, until there is none
            filled = fill_page(self._from(first, within.stop), first.offset, room, count)
            text = fenced_page(filled.blocks, f"{filled.start}-{filled.stop - 1}", kind)
            if (over := count(text) - most) <= 0:
                break
            room -= over
        rest = filled.rest and self._cursor(kind, *filled.rest)
        return Page(text, filled.start, filled.stop, rest.written() if rest else None)

    def _checked(self, cursor: Cursor) -> Cursor:
        """A cursor whose place is still what it was."""
        parts = self.message(cursor.message) if cursor.detail == "full" else []
        is_there = not parts or (cursor.part < len(parts) and cursor.offset <= len(parts[cursor.part].text))
        if cursor.mark != self._mark(cursor.message) or not is_there:
            raise stale(cursor)
        return cursor

    def _cursor(self, kind: str, part: PagePart, offset: int) -> Cursor:
        return Cursor(kind, part.start, part.number, offset, self._mark(part.start))

    def _mark(self, index: int) -> str:
        return self._log.entries[index].facts.content.hex()[:6]

    def _from(self, first: Cursor, stop: int) -> Iterator[PagePart]:
        """All there is to be shown from a place on."""
        if first.detail == "full":
            for index in range(first.message, stop):
                parts = self.message(index)
                yield from parts[first.part :] if index == first.message else parts
        else:
            yield from self._message(first.message, stop, first.detail == "line")

    def message(self, index: int) -> list[PagePart]:
        """A message whole, each of its parts under its label."""
        return message_parts(index, self._log.entries[self._log.group_start(index) : index + 1])

    def _message(self, index: int, stop: int, short: bool) -> Iterator[PagePart]:
        """Segments that stand whole before `stop` by their summaries, all else message by message."""
        segments = self._log.segments
        while index < stop:
            leaf = bisect_left(segments, index, key=lambda segment: segment.start)
            if leaf < len(segments) and segments[leaf].start == index and segments[leaf].stop <= stop:
                end = segments[leaf].stop
                leaves = range(leaf, bisect_left(segments, end, key=lambda segment: segment.start))
                yield PagePart(index, end, 0, "", self._summary(leaves, short))
                index = end
            else:
                yield self._brief(index, short)
                index += 1

    def drops(self, node: HeaderNode) -> tuple[str, ...]:
        """What a block of the header does not hold of its source; nothing is told of one outside the tree."""
        return self._summaries.drops(node.node, node.text) if node.node is not None else ()

    def _summary(self, leaves: range, short: bool) -> str:
        summaries = self._summaries
        texts = {leaf: summaries.known_text(leaf) for leaf in leaves}
        text = "\n".join(texts.values())
        if short:
            return " ".join(summaries.brief(text, BRIEF_TOKENS).split())
        drops = dict.fromkeys(value for leaf in leaves for value in summaries.drops(Node.leaf(leaf), texts[leaf]))
        return f"{text}\n{_NOT_IN_IT}: {', '.join(drops)}" if drops else text

    def _brief(self, index: int, short: bool) -> PagePart:
        parts = self.message(index)
        label = "; ".join(dict.fromkeys(part.label for part in parts))[:_LABEL]
        text = "\n".join(part.text for part in parts if part.text)
        if short:
            flat = " ".join(text[: 4 * _LINE].split())
            text = flat if len(flat) <= _LINE and len(text) <= 4 * _LINE else flat[: _LINE - 1] + "…"
        else:
            tokens = self._log.entries[index].facts.text_tokens
            text = cut_middle(text, tokens, _PARAGRAPH, self._count)
        return PagePart(index, index + 1, 0, label, text)


def message_parts(index: int, group: Sequence[Entry]) -> list[PagePart]:
    """The last message of a group's beginning, each of its parts under its label."""
    *before, entry = group
    names: dict[str, str] = {}
    for earlier in before:
        names |= {part.id: part.name or "tool" for part in earlier.read(0).reading.parts if part.kind == "call"}
    reading = entry.read(index).reading
    labelled = [
        each for part in reading.parts for each in parts_by_author(reading, part, part_label(reading, part, names))
    ]
    parts = [PagePart(index, index + 1, number, label[:_LABEL], text) for number, (label, text) in enumerate(labelled)]
    return parts or [PagePart(index, index + 1, 0, reading.role[:_LABEL], "")]
