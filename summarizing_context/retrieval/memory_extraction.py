"""Memory extraction: memories are read off a log in the background, piece by piece, and kept.

Nothing waits for it. A piece that was read is marked by a hash, so that it is read once, also after a restart or fork.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import anyio.to_thread

from summarizing_context.errors import StoreError, SummarizerError, SummarizerNotReady
from summarizing_context.extraction.rules import Topic, rule_topic
from summarizing_context.log.entries import Segment, Sources, prefix_hashes, range_hash
from summarizing_context.messages.redaction import Redact, redact_reading, without_known_secrets
from summarizing_context.messages.rendering import cut_results
from summarizing_context.messages.text import cleaned, flat, shown, split_prose, stems
from summarizing_context.stores.base import KeptMemory, MemoryScope, NewMemory, SummaryKey, keep_memories
from summarizing_context.summarizers.base import Caller, SummaryJob, SummaryReply
from summarizing_context.summarizers.resilience import RetrySchedule
from summarizing_context.summarizers.verification import HUMAN, Item, decode_items
from summarizing_context.worker.summary_cache import Node
from summarizing_context.worker.worker import Worker

logger = logging.getLogger(__name__)


class _Piece(NamedTuple):
    """What is read in one go: entries `start` up to `stop`, or a part of one large group."""

    leaf: int  # segment that it is in; one past the last for what is in none yet
    start: int
    stop: int
    hash: str  # names what is read
    mark: str  # names what of the segment has been read then


class MemoryExtractor:
    """What one session teaches. A model reads piece by piece what it has summarized. Without one, rules read at once
    all that the human said: constraints, decisions and definitions."""

    def __init__(self, worker: Worker, redact: Redact | None) -> None:
        self.worker, self.log, self.clock, self.redact = worker, worker.log, worker.clock, redact
        self.scope = MemoryScope(worker.settings.project, worker.settings.session_id)
        self.store, self.caller = worker.store, worker.caller if worker.recipe.maker == "model" else None
        self._reader = "rules" if self.caller is None else "model"  # as the store knows what was read
        self._retries = RetrySchedule(worker.settings.breaker_cooldown)
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.dropped = 0  # proposals that the record did not bear out
        self.last_error: str | None = None
        self.forget()

    def forget(self) -> None:
        """The log was replaced: nothing of it has been read."""
        self.before = len(self.log), ""  # what was said before this opening: entries, and when at the latest, ISO 8601
        self._is_new = True  # nothing is known yet of what was read of the log
        self._stops: dict[int, int] = {}  # by leaf: the entry up to which it was read
        self._first = 0  # leaves before it were read
        self._asked = 0  # entries before it are to be read now
        self._sources = Sources(self.worker.recipe.redact, numbered=True, thinking=self.log.settings.summarize_thinking)

    def read_to_end(self) -> None:
        """Read all that stands in closed groups, in the background."""
        self._asked = self.log.group_ends[-1]
        self.wake()

    def wake(self) -> None:
        """Go on reading, if there is anything to read."""
        if not self._closed and (self._task is None or self._task.done()) and (self._is_new or self._due()):
            self._task = asyncio.create_task(self._run(), name="learning")

    async def settle(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to read; False after `timeout` seconds."""
        self.wake()
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=timeout)
        return not self._is_new and next(self._wanted(), None) is None

    async def leave(self, within: float) -> None:
        """The session ends: read what has not been read yet, within two seconds. What the model does not manage within
        so many seconds is left to the rules, and to the model when the session is opened again."""
        with anyio.move_on_after(2):
            self.read_to_end()
            is_read = await self.settle(within)
            await self.close()
            try:
                if not is_read and not self._is_new and (pieces := list(self._wanted())):
                    self.caller, self._reader = None, "rules"
                    await self._learn(pieces)
            except Exception as error:  # of what was left behind
                self._fail(error)

    async def close(self) -> None:
        self._closed = True
        if self._task is not None and self._task.cancel():
            await asyncio.wait({self._task}, timeout=0.5)

    def _segment(self, leaf: int) -> Segment:
        """Return a leaf; the last is what is in no segment yet."""
        log = self.log
        is_last = leaf == len(log.segments)
        return Segment(log.covered_by_segments, log.group_ends[-1], 0) if is_last else log.segments[leaf]

    def _wanted(self) -> Iterator[_Piece]:
        """Yield what is to be read now, oldest first: what a model has summarized, or what was asked for."""
        log, segments = self.log, self.log.segments
        while self._first < len(segments) and self._stops.get(self._first) == segments[self._first].stop:
            self._first += 1
        for leaf in range(self._first, len(segments) + 1):
            segment = self._segment(leaf)
            start, stop = self._stops.get(leaf, segment.start), segment.stop
            if leaf == len(segments):
                stop = min(stop, self._asked)
            elif stop > self._asked and self.worker.summaries.summary(Node(leaf, leaf + 1)) is None:
                continue
            if start < stop:
                digests = [entry.digest for entry in log.entries[segment.start : stop]]
                mark = range_hash(digests) if segment.parts == 1 else log.hashes[leaf]
                hash = range_hash(digests[start - segment.start :]) if start > segment.start else mark
                yield _Piece(leaf, start, stop, hash, mark)

    def _due(self) -> list[_Piece]:
        """Return what is read in one go now: by a model the first piece, if it may be asked; by rules all of them."""
        if self._closed or (self.caller is not None and self.caller.ready_in() != 0.0):
            return []
        now = self.clock.now()
        due = (piece for piece in self._wanted() if not self._retries.rests(piece.hash, now))
        return list(due if self.caller is None else islice(due, 1))

    async def _run(self) -> None:
        while (not self._is_new or await self._recall()) and (pieces := self._due()):
            began = self.clock.now()
            try:
                await self._learn(pieces)
                self._retries.recover(pieces[0].hash, began)
            except SummarizerNotReady:  # nothing was tried
                return
            except Exception as error:  # the session goes on without
                for piece in pieces:
                    self._retries.note(piece.hash, error, self.clock.now())
                self._fail(error)

    async def _recall(self) -> bool:
        """Find out what of a log was read before; whether that is known now."""
        log = self.log
        self._is_new = False
        marks: dict[str, tuple[int, int]] = {}  # that each leaf may have: by what was read of it then, up to an entry
        for leaf in range(len(log.segments) + 1):
            segment = self._segment(leaf)
            hashes = prefix_hashes(entry.digest for entry in log.entries[segment.start : segment.stop])
            places = {hash: (leaf, stop) for stop, hash in enumerate(hashes, segment.start + 1)}
            marks |= places if segment.parts == 1 else {log.hashes[leaf]: (leaf, segment.stop)}
        try:
            known = await self.store.marked(self.scope, self._reader, list(marks))
        except StoreError as error:
            self._is_new = True
            self._fail(error)
            return False
        if self._is_new:  # replaced meanwhile
            return await self._recall()
        for leaf, stop in map(marks.__getitem__, known):
            if stop <= self.before[0]:
                self._stops[leaf] = max(stop, self._stops.get(leaf, 0))
        return True

    async def _learn(self, pieces: Sequence[_Piece]) -> None:
        read = self._read_by_rules(pieces) if self.caller is None else self._read_by_model(pieces[0], self.caller)
        (before, until), stops, reader = self.before, self._stops, self._reader
        items, gone, dropped = await read
        if stops is not self._stops:
            return  # the log was replaced meanwhile
        first = min(piece.start for piece in pieces)
        memories: list[NewMemory] = []
        for item in (one for one in items if without_known_secrets(one.text) == one.text):
            metadata: dict[str, Any] = {"source": "session", "session_id": self.scope.session_id}
            metadata |= {"kind": item.kind, "said_by": item.said_by, "message": item.message, "quote": item.text}
            topic = rule_topic(item.text) if item.kind == "preference" and not item.about else Topic("", "")
            subject = normal_subject(item.about) or topic.order
            told = {"about": item.about, "subject": subject, "relation": item.relation, "choice": topic.choice}
            metadata |= {name: text for name, text in told.items() if text}
            is_clear = not item.about or stems(item.about) <= stems(item.text)
            content = item.text if is_clear else f"{item.about}: {item.text}"
            memories.append(NewMemory(shown(content), metadata, until if max(item.message, first) < before else ""))
        marks, again = [piece.mark for piece in pieces], first >= before
        kept = await keep_memories(self.store, self.scope, memories, gone, reader=reader, marks=marks, again=again)
        self.dropped += dropped
        stops |= {piece.leaf: piece.stop for piece in pieces}
        for one, memory in zip(kept, memories, strict=False):
            notify_of_memory(self.worker.notify, one, memory.metadata)

    def _fail(self, error: Exception) -> None:
        known = isinstance(error, SummarizerError | StoreError)
        self.last_error = str(error) if known else type(error).__name__
        logger.warning("memories could not be learned", extra={"cause": type(error).__name__})

    async def _read_by_model(self, piece: _Piece, caller: Caller) -> tuple[list[Item], list[str], int]:
        """Return what a model proposes, or has proposed before, and how many the record does not bear out."""
        recipe, hashes, segment = self.worker.recipe, self.log.hashes, self._segment(piece.leaf)
        most, entries = recipe.memory_tokens, self.log.entries[piece.start : piece.stop]
        key = SummaryKey(piece.hash, recipe.hash_of("memory", most))
        group = hashes[piece.leaf - segment.part] if segment.parts > 1 else ""

        def job() -> SummaryJob:
            text = self._sources.text(segment, group, entries)
            content = cut_results(text)  # without the middles of long results: what lasts is seldom in them
            place = range(piece.start, piece.stop)
            return recipe.job("memory", key, content=content, max_tokens=most, entries=place)

        async def ask() -> SummaryReply:
            return await caller.summarize(await anyio.to_thread.run_sync(job, abandon_on_cancel=True))

        found, dropped = decode_items(await self.worker.answered_once(key, ask))
        within = (item for item in found if item.message <= len(entries))
        return [item._replace(message=piece.start + item.message - 1) for item in within], [], dropped

    async def _read_by_rules(self, pieces: Sequence[_Piece]) -> tuple[list[Item], list[str], int]:
        """Return what the human stated in some pieces of the log, oldest first, each once, and what holds no longer."""
        log, rules = self.log.entries, self.log.rules.facts()
        within = {index for piece in pieces for index in range(piece.start, piece.stop)}
        facts = [fact for fact in rules if not fact.superseded]
        facts += (fact for fact in self.worker.ledger.facts() if fact.kind == "decision")
        said = {flat(fact.value) for fact in facts}
        gone = sorted({flat(fact.value) for fact in rules if fact.superseded} - said)
        found = [
            Item("preference" if fact.kind == "constraint" else "decision", "", flat(fact.value), fact.start, HUMAN)
            for fact in facts
            if fact.start in within
        ]
        typed = ((at, log[at].read(at).reading.typed) for at in within if log[at].facts.human)
        found += (item for at, texts in typed for item in _definitions(texts, at) if item.text not in said)
        read = {item.text: item for item in sorted(found, key=lambda item: item.message)}
        newest = [item._replace(text=item.text[:2_000]) for item in list(read.values())[-50:]]
        if (redact := self.redact) is None:
            return newest, gone, 0

        # What is learnt leaves its session, so it is redacted. It may hold a part of what is only known as a secret as
        # a whole, unless it stands in what is left of its message.
        sources = [(item, log[item.message]) for item in newest]

        def clean() -> tuple[list[Item], list[str], int]:
            kept: list[Item] = []
            for item, entry in sources:
                source = entry.read(item.message)
                left = flat("\n".join(redact_reading(source.message, source.reading, redact).texts))
                text, about = flat(redact(item.text)), redact(item.about)
                if text in left:
                    is_left = about.removeprefix("owner of ").casefold() in left.casefold()
                    kept.append(item._replace(text=text, about=about if is_left else ""))
            return kept, list(map(redact, gone)), 0

        return await anyio.to_thread.run_sync(clean, abandon_on_cancel=True)


def notify_of_memory(notify: Callable[[str, dict[str, object]], None], kept: KeptMemory, metadata: Any) -> None:
    """Notify of a memory that is new, or that has taken the place of another; never its text."""
    if kept.change != "known":
        facts = {name: metadata.get(name) for name in ("kind", "source") if isinstance(metadata.get(name), str)}
        notify(f"memory_{kept.change}", {"id": kept.id, **facts})


# Definitions in what a human says, such as "our staging server is at 10.0.0.7" or "Ana owns the parser": a subject of a
# few words, a verb of being or of owning, and right after it an exact value or a name.

_VALUE = r"""(?:[`"'(]*)(?:[A-Z][\w.&+-]*|[\w.~/-]*[./:@_][\w./:@_-]*\w|\w*\d[\w.:%-]*)(?!\w)"""
_OPENING = r"(?:(?i:please |note |remember |fyi|that |and |also )[,:]? ?)*"

_SUBJECT = (
    r"(?i:the |our |my )?(?P<subject>"
    r"(?!(?i:it|this|that|there|he|she|they|you|i|we|what|which|who|here|so|if|when|let)\b)"
    r"[\w/+#-]+(?: [\w/+#'’-]+){0,5}?)"
)

_DEFINITION = re.compile(
    rf"{_OPENING}{_SUBJECT}"
    r"(?P<relation>(?: (?i:is|are|runs?|lives?|sits?|listens?|belongs?))(?: (?i:at|on|in|to|called|named))?) "
    rf"(?P<value>{_VALUE})"
)

_NAME = (
    r"(?!(?i:if|when|once|until|unless|since|because|while|after|before|as|though|although|whether|maybe|perhaps|"
    r"nobody|none|neither|someone|somebody|anyone|anybody|everyone|everybody|who|what|which|this|that|it|he|she)\b)"
    r"[A-Z][\w.'’-]*(?: [A-Z][\w.'’-]*){0,3}(?!\w)"
)

_OWNED = (  # whose subject belongs to a name
    re.compile(rf"{_OPENING}{_NAME} owns (?!(?i:an?|some|them|these|those|his|her|their)\b){_SUBJECT}(?=[.,;!]|$)"),
    re.compile(rf"{_OPENING}{_SUBJECT} (?:is|are) owned by {_NAME}"),
)


def _definitions(texts: Iterable[str], message: int) -> Iterator[Item]:
    """Yield the definitions in what a person said in one message; none of a document that was pasted."""
    ended = re.compile(r"(?<![\w.])(\d+(?:\.\d+)+\.)\s+(?=[A-Z])")  # with an address or a version
    lines = (ended.sub(r"\1\n", said) for text in texts for said in split_prose(text)[0])
    sentences = [flat(cleaned(sentence)) for line in lines for sentence in line.split("\n")]
    for sentence in sentences if len(sentences) < 25 else ():
        if len(sentence) > 300 or sentence.rstrip("\"')* ").endswith("?"):
            continue
        subject = relation = ""  # the relation is what it says of the subject, such as "is at" or "run on"
        if owned := next(filter(None, (form.match(sentence) for form in _OWNED)), None):
            subject = f"owner of {owned['subject']}"
        elif defined := _DEFINITION.match(sentence):
            verb, *rest = defined["relation"].lower().split()
            verb = "is" if verb == "are" else re.sub(r"(?<!i)s$", "", verb)  # without its ending
            subject, relation = defined["subject"], " ".join([verb, *rest])
        if subject and not re.search(r"(?i)pass(w|phrase)|credential|secret|token|\bkey\b|\bpin\b", subject):
            yield Item("fact", subject, sentence, message, HUMAN, relation)


def normal_subject(about: str) -> str:
    """Return what something is about, so that equal subjects read alike; empty where nothing telling is left."""
    return " ".join(sorted(stems(about)))
