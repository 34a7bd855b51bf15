"""Calls that ask a model for the standing rules in what a human typed: many messages at a time, beside the summaries.

The reply has a line for each rule: `- [n] must "quote"` or `- [n] prefer "quote"`, where n is the place of the message
in the request, `- [n] ends "quote"` for an earlier rule that message n takes back, and `- [n] task "quote"` for what is
no rule. What else stands there, and what nobody typed, is dropped. A reply without any such line is `none`, or says
nothing.

The verdict on a message is kept beside the log, so each message is asked about once. The log alone says which messages
go into one request, and the store keeps the reply under what was asked: the same log in another session asks nobody. A
call that fails is tried again after a while; a reply that cannot be read is not, by any session: cues go on to serve
for its messages.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from summarizing_context.concurrency import Clock, Foreground, WorkerThread
from summarizing_context.errors import StoreError
from summarizing_context.extraction.rules import Rule
from summarizing_context.log.entries import PASSED, Entry, Verdict, output_hash
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.rules import StandingRule
from summarizing_context.messages.redaction import redact_reading
from summarizing_context.messages.rendering import render_typed
from summarizing_context.messages.shapes import encodable
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.settings.values import Settings
from summarizing_context.stores.base import Store, StoredSummary, SummaryKey
from summarizing_context.summarizers.base import Caller, SummaryJob, SummaryReply
from summarizing_context.summarizers.resilience.retries import RetrySchedule
from summarizing_context.worker.jobs import RULES_TOKENS, Recipe, paid_once

_LONGEST_QUOTE = 300  # characters of a quote; what is longer is a document that was pasted

_LONGEST_LINE = 1_000  # characters

_FEWEST = 2  # words

_LINE = re.compile(
    r"[\s>*+•–-]*(?:\d{1,3}[.)]\s+)?\[(?P<message>\d{1,6})\][\s:,*_`-]*(?P<what>must|prefers?|tasks?|ends?)\b[\s:,*_`-]*(?P<quote>.+)",
    re.IGNORECASE,
)

_NONE = re.compile(r"\W*none\W*", re.IGNORECASE)

_MARKS = str.maketrans(dict.fromkeys("“”„‟«»「」『』", '"') | dict.fromkeys("‘’‚‛`´", "'"))

_ENDS = " .,;:…"

_QUOTES = "\"'"


def read_rules(reply: str, typed: Sequence[str], earlier: Sequence[str]) -> list[Verdict] | None:
    """What a reply says of each message in `typed`; None where it says nothing that can be read.

    A quote counts for the message that it names, or else for the nearest in which it stands. `earlier` are the quotes
    of rules of earlier messages.
    """
    lines = [found for line in reply.splitlines() if len(line) <= _LONGEST_LINE and (found := _LINE.match(line))]
    if not lines:
        return [Verdict()] * len(typed) if _NONE.fullmatch(reply) else None
    texts = []
    for text in typed:
        pairs = list(_plain(text))
        texts.append((text, "".join(char for char, _ in pairs), [at for _, at in pairs]))
    rules: dict[tuple[int, str], Rule] = {}
    for line in lines:
        said = None if line["what"][0] in "eEtT" else _found(line["quote"], int(line["message"]) - 1, texts)
        if said is not None:
            rules.setdefault(said, Rule(said[1], "prefer" if line["what"][0] in "pP" else "must"))
    known = [(-1, quote) for quote in earlier] + list(rules)
    ends: dict[tuple[int, str], None] = {}
    for line in lines:
        number = int(line["message"]) - 1
        if line["what"][0] in "eE" and number < len(typed):
            wanted = _words(line["quote"])
            ends.update(((number, quote), None) for at, quote in known if at < number and _words(quote) == wanted)
    return [
        Verdict(
            tuple(rule for (at, _), rule in rules.items() if at == number),
            tuple(quote for at, quote in ends if at == number),
        )
        for number in range(len(typed))
    ]


def _found(quote: str, named: int, texts: Sequence[tuple[str, str, Sequence[int]]]) -> tuple[int, str] | None:
    """The message in which a quote stands, the nearest to the one that is named, and the quote as it stands there;
    None where it stands in none, is no phrase, or is a whole document.

    A text is given as it was typed, as `_plain` writes it, and with the place of each character of that. A quote is
    found whatever its white space, quotation marks and forms of letters.
    """
    words = _words(quote)
    if not words or len(words) > _LONGEST_QUOTE or len(words.split()) < _FEWEST:
        return None
    for number in sorted(range(len(texts)), key=lambda number: (abs(number - named), number)):
        text, plain, places = texts[number]
        at = plain.find(words)
        while at >= 0:
            stop = at + len(words)
            # no word is cut, in scripts that put spaces between them
            ends = ((plain[at], plain[max(0, at - 1) : at]), (plain[stop - 1], plain[stop : stop + 1]))
            if not any(end.isascii() and end.isalnum() and beyond.isalnum() for end, beyond in ends):
                return number, " ".join(text[places[at] : places[stop - 1] + 1].split())
            at = plain.find(words, at + 1)
    return None


def _words(quote: str) -> str:
    """The words of a quote in the form in which they are compared, without the marks around them."""
    words = "".join(char for char, _ in _plain(quote)).strip()
    end = words.rfind(words[0]) if words and words[0] in _QUOTES else 0
    return (words[1:end].strip() if end and not words[end + 1 :].strip(_ENDS) else words).rstrip(_ENDS)


def _plain(text: str) -> Iterator[tuple[str, int]]:
    """The characters by which texts are compared, each with its place; one space for all white space."""
    spaced = True
    for at, char in enumerate(text):
        for one in unicodedata.normalize("NFKC", char).translate(_MARKS):
            if not one.isspace():
                yield one, at
            elif not spaced:
                yield " ", at
            spaced = one.isspace()


_TYPED = 8_000  # characters that are enough for a request

_SEGMENTS = 8  # that a message waits for at most, and no more than stand before its own

_REQUEST = 16_000  # characters

_KNOWN, _KNOWN_LENGTH = 40, 4_000  # rules that a request lists, and their characters

_LONGEST, _HEAD, _TAIL = 6_000, 4_000, 2_000  # characters of a message, and what stays of a longer one

_LABEL = 20  # characters of a label, at most

_KEY = "rules"

logger = logging.getLogger(__name__)


class _Typed(NamedTuple):
    """What a human typed in a message, as a model reads it."""

    place: int
    entry: Entry
    text: str  # empty where there are no words


class _Batch(NamedTuple):
    messages: Sequence[_Typed]
    known: Sequence[str]  # quotes of earlier rules
    content: str

    @property
    def spoken(self) -> list[_Typed]:
        """Those that are asked about."""
        return [message for message in self.messages if message.text]


class RuleCalls:
    """Those of one session. All methods belong to its event loop; work on texts runs in the thread."""

    def __init__(
        self,
        settings: Settings,
        *,
        log: MessageLog,
        store: Store,
        caller: Caller,
        recipe: Recipe,
        clock: Clock,
        background: WorkerThread,
        foreground: Foreground,
    ) -> None:
        self._log = log
        self._foreground = foreground
        self._store = store
        self._session_id = settings.session_id
        self._caller = caller
        self._recipe = recipe
        self._clock = clock
        self._background = background
        self._retries = RetrySchedule(settings.breaker_cooldown)
        self._begun = -1, 0  # version of the log, and where the messages end that are asked about at present

    @property
    def is_due(self) -> bool:
        """Whether a call may begin now."""
        if self._retries.rests(_KEY, self._clock.now()) or self._batch_stop() is None:
            return False
        return self._caller.ready_in() == 0.0

    def _batch_stop(self) -> int | None:
        """The entry before which the next request ends; None while too little has been typed for one.

        It ends with a segment, whatever came after it. That is the one in which enough has been typed, or the last of
        as many segments as stand before the first of them, from 1 to `_SEGMENTS`. What waits is still shown word for
        word then. The first request of a log of which no segment holds words does not wait for one. What a request had
        no room for is asked about at once.
        """
        log, waiting = self._log, self._log.rules.open
        if not waiting:
            return None
        if self._begun[0] == log.version and waiting[0] < self._begun[1]:
            return self._begun[1]
        if waiting[0] >= log.covered_by_segments:
            return None if log.rules.is_judged else len(log)
        first = self._segment_of(waiting[0])
        last = first + min(max(1, first), _SEGMENTS) - 1
        typed = 0
        for index in waiting:
            if (at := self._segment_of(index)) > last or at == len(log.segments):
                break
            typed += log.entries[index].typed_length
            if typed >= _TYPED:
                return log.segments[at].stop
        return log.segments[last].stop if last < len(log.segments) else None

    def _segment_of(self, index: int) -> int:
        """The segment in which an entry stands."""
        return bisect_right(self._log.segments, index, key=lambda segment: segment.stop)

    def delays(self) -> list[float]:
        """Seconds until a call that failed may be tried again."""
        return self._retries.delays(self._clock.now())

    async def ask(self) -> None:
        """Ask about the messages of the next request, as many as it has room for."""
        began = self._clock.now()
        try:
            await self._ask()
            self._retries.recover(_KEY, began)
        except StoreError as error:
            logger.warning("verdicts on standing rules could not be kept; they are asked for again", exc_info=error)
        except Exception as error:  # of the model, ours, or a foreign object's: it must not end the worker
            self._retries.note(_KEY, error, self._clock.now())
            logger.info("standing rules could not be asked for", extra={"cause": type(error).__name__})

    async def _ask(self) -> None:
        log = self._log
        if (stop := self._batch_stop()) is None:
            return
        self._begun = log.version, stop
        waiting: dict[bytes, tuple[int, Entry]] = {}  # the same message is asked about once
        for index in log.rules.open[: bisect_left(log.rules.open, stop)]:
            waiting.setdefault((entry := log.entries[index]).data, (index, entry))
        held = log.rules.known_before(log.rules.open[0]).newest[:_KNOWN]
        known = [(rule, log.entries[rule.message]) for rule in held]
        batch = await self._background.run(partial(self._gather, list(waiting.values()), known))
        verdicts = {message.entry.data: Verdict() for message in batch.messages if not message.text}
        if batch.spoken:
            verdicts |= await self._verdicts(batch)
        await self._foreground.thawed()
        await self._store.save_rules(self._session_id, log.judge(verdicts))  # of messages that are still in the log

    async def _verdicts(self, batch: _Batch) -> dict[bytes, Verdict]:
        """What the model says of a batch, or has said in any session that asked the same. A store that fails costs the
        sharing of a reply, not the reply."""
        job = await self._background.run(partial(self._job, batch))
        key, is_shared = SummaryKey(job.range_hash, self._recipe.rules), self._recipe.shared
        async with paid_once(self._store, self._recipe, key, self):
            try:
                known = await self._store.find_summaries(self._session_id, [key]) if is_shared else {}
            except StoreError as error:
                logger.warning("replies on standing rules cannot be looked up", exc_info=error)
                known = {}
            if key in known:
                return await self._background.run(partial(self._read, batch, SummaryReply(known[key].text)))
            reply = await self._caller.summarize(job)
            verdicts = await self._background.run(partial(self._read, batch, reply))
            if is_shared and (not reply.truncated or PASSED in verdicts.values()):
                kept = StoredSummary(reply.text, 0, reply.input_tokens or 0, reply.output_tokens or 0)
                try:
                    await self._store.save_summary(self._session_id, key, kept)
                except StoreError as error:
                    logger.warning("a reply on standing rules is not shared", exc_info=error)
        return verdicts

    def _gather(self, waiting: Sequence[tuple[int, Entry]], known: Sequence[tuple[StandingRule, Entry]]) -> _Batch:
        """What is asked: of the oldest messages, as far as a request goes."""
        # the newest of the known rules that have room, oldest first; none of which a part may not be told
        rules: list[StandingRule] = []
        length = 0
        for rule, entry in known:
            length += len(rule.quote) + _LABEL
            if length > _KNOWN_LENGTH:
                break
            if self._recipe.redact is None or rule.quote in _flat(self._typed(entry)):
                rules.insert(0, rule)

        # the messages; of a very long one its beginning and its end
        lines = [f'- {rule.strength} "{rule.quote}"' for rule in rules]
        length = sum(len(line) + 1 for line in lines) + _LABEL
        messages: list[_Typed] = []
        for index, entry in waiting:
            text = self._typed(entry)
            if len(text) > _LONGEST:
                left_out = len(text) - _HEAD - _TAIL
                text = f"{text[:_HEAD]}\n[… {left_out} characters left out …]\n{text[-_TAIL:]}"
            text = text.strip()
            length += len(text) + _LABEL
            if messages and length > _REQUEST:
                break
            messages.append(_Typed(index, entry, text))
        batch = _Batch(messages, [rule.quote for rule in rules], "")
        content: str = encodable(render_typed(lines, [message.text for message in batch.spoken]))
        return batch._replace(content=content if self._recipe.redact is None else self._recipe.redact(content))

    def _typed(self, entry: Entry) -> str:
        """What a human typed in a message, without what `redact` takes out of all of it."""
        self._background.yield_now(len(entry.data))
        message, redact = entry.read(0), self._recipe.redact
        reading = message.reading if redact is None else redact_reading(message.message, message.reading, redact)
        return "\n".join(reading.typed)

    def _job(self, batch: _Batch) -> SummaryJob:
        spoken = batch.spoken
        return SummaryJob(
            kind="rules",
            instructions=self._recipe.instructions("rules", 0, RULES_TOKENS),
            content=batch.content,
            max_tokens=RULES_TOKENS,
            rank=0,
            start=spoken[0].place,
            stop=spoken[-1].place + 1,
            source_tokens=estimate_text(batch.content),
            range_hash=output_hash(batch.content),
            recipe_hash=self._recipe.rules,
        )

    def _read(self, batch: _Batch, reply: SummaryReply) -> dict[bytes, Verdict]:
        """The verdicts on these messages, by their bytes."""
        spoken = batch.spoken
        said = read_rules(reply.text, [message.text for message in spoken], batch.known)
        if said is None:
            return {message.entry.data: PASSED for message in spoken}
        if reply.truncated:  # of the last message that it names more rules may be missing, and of all after it
            lines = filter(None, map(_LINE.match, reply.text.splitlines()))
            last = max((int(line["message"]) for line in lines), default=0)
            said = said[: max(1, last - 1)]
        verdicts: dict[bytes, Verdict] = {}
        for message, verdict in zip(spoken, said, strict=False):
            typed = _flat("\n".join(message.entry.read(0).reading.typed)) if verdict.rules else ""
            own = tuple(rule for rule in verdict.rules if rule.quote in typed)  # not what stands there since it was cut
            verdicts[message.entry.data] = verdict._replace(rules=own)
        return verdicts


def _flat(text: str) -> str:
    return " ".join(text.split())
