"""Memories without a model: constraints, decisions and definitions that later sessions need.

First what the human said, without what was taken back; then what summaries tell of decisions besides.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import anyio.to_thread

from summarizing_context.extraction.memory_items import HUMAN, Item, MemoryItems, bare_subject, definitions
from summarizing_context.log.entries import Entry
from summarizing_context.log.ledger import SessionLedger
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import Node
from summarizing_context.messages.redaction import Redact, redact_reading
from summarizing_context.retrieval.memory_extraction import LogPiece
from summarizing_context.worker.summary_cache import SummaryCache

_LATEST, _SUPERSEDED = " (latest)", " (superseded)"  # marks of rules in what stands for a segment

_MOST = 50  # takeaways of one session, the newest

_WITHIN = 0.5  # seconds to read summaries, some of which are only made by that

_LONGEST = 2_000  # characters

_HEADING = "## Decisions"

_KINDS: Mapping[str, str] = {"constraint": "preference", "decision": "decision"}

_CUT = "…"  # where a line of a summary was cut

_NOWHERE = -1  # the place of what no single message says


class OfflineMemoryReader:
    """Reads by rules, without a model, all in one go. What is learnt leaves its session, so it is redacted too."""

    name = "rules"

    def __init__(
        self, log: MessageLog, ledger: SessionLedger, summaries: SummaryCache, cap: int, redact: Redact | None
    ) -> None:
        self._log, self._ledger, self._summaries = log, ledger, summaries
        self._cap, self._redact = cap, redact

    def ready(self) -> bool:
        return True

    def next(self, wanted: Iterator[LogPiece]) -> Sequence[LogPiece]:
        return list(wanted)

    async def read(self, pieces: Sequence[LogPiece]) -> MemoryItems | None:
        found = _offline_memories(self._log, self._ledger, self._summaries, self._cap, pieces)
        if (redact := self._redact) is None:
            return found
        log = self._log.entries
        said = {item.message: log[item.message] for item in found.items if item.message >= 0}
        ranges = sorted({(piece.start, piece.stop) for piece in pieces})
        entries = [entry for start, stop in ranges for entry in log[start:stop]]

        def clean() -> MemoryItems:
            lefts = {message: _left_of([entry], redact) for message, entry in said.items()}
            if any(item.message < 0 and item.text not in found.by_model for item in found.items):
                lefts[_NOWHERE] = _left_of(entries, redact)
            made = [_redacted(item, lefts, redact, by_model=item.text in found.by_model) for item in found.items]
            return MemoryItems([item for item in made if item is not None], list(map(redact, found.gone)))

        return await anyio.to_thread.run_sync(clean, abandon_on_cancel=True)


def _left_of(entries: Sequence[Entry], redact: Redact) -> str:
    """What is left of messages, each redacted as a whole, in one line."""
    reads = [entry.read(0) for entry in entries]
    texts = [text for read in reads for text in redact_reading(read.message, read.reading, redact).texts]
    return _flat("\n".join(texts))


def _redacted(item: Item, lefts: Mapping[int, str], redact: Redact, *, by_model: bool) -> Item | None:
    """An item without its secrets. One that was copied from the log may hold a part of what is only known as a whole:
    None unless it stands in what is left there. A model was told no more than that."""
    text, about = _flat(redact(item.text)), redact(item.about)
    if item.message >= 0 or not by_model:
        left = lefts[max(item.message, _NOWHERE)]
        if not all(part.strip() in left for part in text.split(_CUT)):
            return None
        if bare_subject(about).casefold() not in left.casefold():
            about = ""
    return item._replace(text=text, about=about)


def _offline_memories(
    log: MessageLog, ledger: SessionLedger, summaries: SummaryCache, cap: int, pieces: Sequence[LogPiece]
) -> MemoryItems:
    """The constraints, decisions and facts of some pieces of a log, oldest first, each once."""
    ranges = sorted({(piece.start, piece.stop) for piece in pieces})
    rules = log.rules.facts()
    ended = {_flat(fact.value) for fact in rules if fact.superseded}
    facts = [
        *(fact for fact in rules if not fact.superseded),
        *(fact for fact in ledger.newest_facts() if fact.kind == "decision"),
    ]
    said = {_flat(fact.value) for fact in facts}
    valid = [
        Item(_KINDS[fact.kind], "", _flat(fact.value), fact.start, HUMAN)
        for fact in facts
        if any(start <= fact.start < stop for start, stop in ranges)
    ]
    known = said | {item.text for item in valid}
    valid += [item for item in _defined(log, ranges) if item.text not in known]
    items = list({item.text: item for item in sorted(valid, key=lambda item: item.message)}.values())[-_MOST:]
    lines: dict[str, bool] = {}
    for line, by_model in _summary_lines(log, summaries, cap, pieces):
        if len(items) + len(lines) >= _MOST:
            break
        if not _is_said(line, said):
            lines[line] = lines.get(line, True) and by_model
    besides = [Item("decision", "", line, -1, "summary") for line in reversed(lines)]
    made = frozenset(line[:_LONGEST] for line, by_model in lines.items() if by_model)
    learnt = [item._replace(text=item.text[:_LONGEST]) for item in [*besides, *items]]
    return MemoryItems(learnt, sorted(ended - said), by_model=made)


def _defined(log: MessageLog, ranges: Sequence[tuple[int, int]]) -> Iterator[Item]:
    """What a human says that something is."""
    for start, stop in ranges:
        for index in range(start, stop):
            entry = log.entries[index]
            if entry.facts.human:
                for one in definitions(entry.read(index).reading.typed):
                    yield Item("fact", one.subject, _flat(one.sentence), index, HUMAN, one.relation)


def _summary_lines(
    log: MessageLog, summaries: SummaryCache, cap: int, pieces: Sequence[LogPiece]
) -> Iterator[tuple[str, bool]]:
    """Lines of the section that outlives a session, in what stands for the pieces, and whether a model wrote them; the
    newest first, while there is time."""
    until = time.monotonic() + _WITHIN
    for piece in sorted(pieces, reverse=True):
        if time.monotonic() > until:
            return
        is_whole = piece.leaf < len(log.segments) and piece.hash == log.hashes[piece.leaf]
        if is_whole:
            made = summaries.text_of(Node.leaf(piece.leaf))
        else:
            entries = range(piece.start, piece.stop)
            made = summaries.ready_piece(entries, cap) or summaries.piece_reader(entries, cap)()
        yield from ((line, made.made_by == "model") for line in _section_lines(made.text))


def _section_lines(text: str) -> list[str]:
    """The lines of these sections, the last first, without the marks of a quote."""
    found: list[str] = []
    wanted = False
    for line in text.splitlines():
        if line.startswith("## "):
            wanted = line.strip() == _HEADING
        elif wanted and len(line) > 2 and line.startswith("- "):
            text, superseded = line[2:].strip().removesuffix(_LATEST), line.rstrip().endswith(_SUPERSEDED)
            if not superseded:
                found.append(_flat(text.removeprefix('"').removesuffix('"')))
    return found[::-1]


def _flat(text: str) -> str:
    return " ".join(text.split())


def _is_said(line: str, said: set[str]) -> bool:
    if line in said:
        return True
    start, cut, _ = line.partition(_CUT)
    return bool(cut and start) and any(value.startswith(start.strip()) for value in said)
