"""Notes about topics that a user named on compacting: what of the covered past concerns them.

In memory only; never waits. At once a note holds lines found without a model; where summaries are made by a model, so
is the note, once, in the background, and it is shown from the next activation on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from summarizing_context.core.estimate import estimate_text
from summarizing_context.core.focus import Focus
from summarizing_context.core.header import Maker, NodeText
from summarizing_context.core.keys import output_hash
from summarizing_context.core.planning import Want
from summarizing_context.core.rendering import render_topic
from summarizing_context.core.tree import NOTE
from summarizing_context.timeline import Timeline

READ = 64_000  # estimated tokens of the covered past, the newest, that a note is made from
_EXCERPT = 9  # times the cap of a summary; what a model is given to read
_SHORT = 2  # times the cap; what is no longer than that needs no model
_MOST_DRAFTS = 5  # one for each provider, and one that is being decided about

Lines = Callable[[str, str, int], str]  # what a content says about a topic, in so many tokens


class _Draft(NamedTuple):
    """What a note is made from."""

    record: str
    hash: str  # names topic and record; empty where no model is to write the note


class NoteBook:
    """Notes of one session. `by_model` says whether a model is to write them."""

    def __init__(self, timeline: Timeline, about: Lines, excerpt: Lines, *, by_model: bool, cap: int) -> None:
        self._timeline = timeline
        self._about = about
        self._excerpt = excerpt
        self._by_model = by_model
        self._cap = cap
        self._drafts: dict[Focus, _Draft] = {}
        self._shown: tuple[Focus, ...] = ()
        self._ready: dict[str, str] = {}  # a model's notes, by hash

    def reset(self) -> None:
        """The log was replaced: no note is about it any longer."""
        self._drafts.clear()
        self._shown = ()

    def start_of(self, leaves: int, stop: int) -> int:
        """The entry from which on a note reads a past of so many segments, and of entries up to `stop`."""
        start, read = self._timeline.leading, 0
        for at in range(leaves - 1, -1, -1):
            segment = self._timeline.segments[at]
            read += segment.size // segment.parts
            if read > READ and at < leaves - 1:  # the newest is read in any case
                return min(stop, segment.stop)
        return start

    def text_of(self, focus: Focus, max_tokens: int) -> NodeText:
        """What is known about a topic: a model's note if it is there, else lines of the record."""
        draft = self._draft(focus)
        if (found := self._ready.get(draft.hash)) is not None:
            return NodeText(found, "model", 1)
        made_by: Maker = "stand-in" if draft.hash else "extractive"
        return NodeText(self._about(draft.record, focus.text, min(max_tokens, self._cap)), made_by, 1)

    def for_model(self, topic: str, record: str) -> str:
        """What a model reads for a note: no more than a segment, picked from the whole record."""
        return render_topic(topic, self._excerpt(record, topic, _EXCERPT * self._cap))

    def keep(self, focuses: Iterable[Focus | None]) -> None:
        """These are the topics that views show now; others need no note any longer."""
        self._shown = tuple(dict.fromkeys(focus for focus in focuses if focus is not None))

    def wanted(self) -> list[Want]:
        """Notes that a model has still to write."""
        hashes = [self._draft(focus).hash for focus in self._shown] if self._by_model else []
        return [Want(NOTE, hash) for hash in hashes if hash and hash not in self._ready]

    def focus_of(self, hash: str) -> Focus | None:
        """What a wanted note is about; None where it is not wanted any longer."""
        return next((focus for focus in self._shown if self._draft(focus).hash == hash), None)

    def add(self, hash: str, text: str) -> None:
        """A model has written a note, or it was found."""
        self._ready.setdefault(hash, text)

    def _draft(self, focus: Focus) -> _Draft:
        if (found := self._drafts.get(focus)) is None:
            record = self._timeline.render(focus.start, focus.stop)
            is_long = self._by_model and estimate_text(record) > _SHORT * self._cap
            hash = output_hash(render_topic(focus.text, record)) if is_long else ""
            found = self._drafts[focus] = _Draft(record, hash)
            while len(self._drafts) > _MOST_DRAFTS:
                del self._drafts[next(iter(self._drafts))]
        return found
