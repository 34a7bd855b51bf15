"""Focus and topic notes: what of the covered past concerns a topic that a user named on compacting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from summarizing_context.errors import SettingsError
from summarizing_context.log.entries import output_hash
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import NOTE, Maker, NodeText, Want
from summarizing_context.messages.redaction import Redact, redact_texts
from summarizing_context.messages.rendering import render_topic
from summarizing_context.summarizers.extractive.lines import lines_about

MOST_CHARACTERS = 500


class Focus(NamedTuple):
    """A topic, and the log entries that its note was made from."""

    text: str
    start: int
    stop: int


def check_focus(focus: object, redact: Redact | None = None) -> str:
    """A topic on one line, without what cannot be shown; `SettingsError` for what is none. `redact` reads it before,
    as it was given."""
    if not isinstance(focus, str):
        raise SettingsError(f"focus is {type(focus).__name__}; it is a text that names a topic, or None")
    text = focus if redact is None else redact_texts([("focus", focus)], redact)[0]
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if not any(char.isalnum() for char in line):
        raise SettingsError("focus names nothing; write the topic that the summaries must keep, or leave it out")
    if len(line) > MOST_CHARACTERS:
        raise SettingsError(
            f"focus has {len(line)} characters; allowed: up to {MOST_CHARACTERS}, so name the topic alone"
        )
    return line


def note_text(focus: str, lines: str, fits: Callable[[str], bool]) -> str:
    """The note as it is shown: its topic, and as many of its newest lines as fit. Empty if none does."""
    kept = [line for line in lines.splitlines() if line.strip()]
    topic = f'What concerns "{focus}", a topic that was asked for:'
    texts = ("\n".join([topic, *kept[at:]]) for at in range(len(kept)))
    return next((text for text in texts if fits(text)), "")


READ = 64_000  # estimated tokens of the covered past, the newest, that a note is made from

_EXCERPT = 9  # times the cap of a summary; what a model is given to read

_MOST_DRAFTS = 5  # one for each provider, and one that is being decided about


class TopicNotes:
    """Notes of one session. `by_model` says whether a model is to write them."""

    def __init__(self, log: MessageLog, *, by_model: bool, cap: int) -> None:
        self._log = log
        self._by_model = by_model
        self._cap = cap
        self._draft = lru_cache(_MOST_DRAFTS)(self._make_draft)
        self.shown: tuple[Focus, ...] = ()
        self._ready: dict[str, str] = {}  # a model's notes, by hash

    def reset(self) -> None:
        """The log was replaced: no note is about it any longer."""
        self._draft.cache_clear()
        self.shown = ()

    def start_of(self, leaves: int, stop: int) -> int:
        """The entry from which on a note reads a past of so many segments, and of entries up to `stop`."""
        start, read = self._log.leading_count, 0
        for at in range(leaves - 1, -1, -1):
            segment = self._log.segments[at]
            read += segment.size // segment.parts
            if read > READ and at < leaves - 1:  # the newest is read in any case
                return min(stop, segment.stop)
        return start

    def text_of(self, focus: Focus, max_tokens: int) -> NodeText:
        """What is known about a topic: a model's note if it is there, else lines of the record."""
        record, hash = self._draft(focus)
        if (found := self._ready.get(hash)) is not None:
            return NodeText(found, "model", 1)
        made_by: Maker = "stand-in" if hash else "extractive"
        return NodeText(lines_about(record, focus.text, min(max_tokens, self._cap)), made_by, 1)

    def for_model(self, topic: str, record: str) -> str:
        """What a model reads for a note: no more than a segment, picked from the whole record."""
        return render_topic(topic, lines_about(record, topic, _EXCERPT * self._cap, for_model=True))

    def keep(self, focuses: Iterable[Focus | None]) -> None:
        """These are the topics that views show now; others need no note any longer."""
        self.shown = tuple(dict.fromkeys(focus for focus in focuses if focus is not None))

    def wanted(self) -> list[Want]:
        """Notes that a model has still to write."""
        hashes = [self._draft(focus)[1] for focus in self.shown] if self._by_model else []
        return [Want(NOTE, hash) for hash in hashes if hash and hash not in self._ready]

    def focus_of(self, hash: str) -> Focus | None:
        """What a wanted note is about; None where it is not wanted any longer."""
        return next((focus for focus in self.shown if self._draft(focus)[1] == hash), None)

    def add(self, hash: str, text: str) -> None:
        """A model has written a note, or it was found."""
        self._ready.setdefault(hash, text)

    def _make_draft(self, focus: Focus) -> tuple[str, str]:
        """The record that a note is made from, and the hash that names topic and record; empty where no model is to
        write the note."""
        record = self._log.render(focus.start, focus.stop)
        return record, output_hash(render_topic(focus.text, record)) if self._by_model else ""
