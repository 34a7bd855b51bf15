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
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial

from summarizing_context.errors import StoreError
from summarizing_context.extraction.rules import Rule
from summarizing_context.log.entries import PASSED, Entry, Verdict, output_hash
from summarizing_context.log.kept_texts import StandingRule
from summarizing_context.messages.reading import encodable
from summarizing_context.messages.redaction import redact_reading
from summarizing_context.messages.rendering import render_typed
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.stores.base import SummaryKey
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.resilience import RetrySchedule
from summarizing_context.worker.jobs import SessionWork, answered_once

_LONGEST_QUOTE = 300  # characters; what is longer is a document that was pasted
_TYPED = 8_000  # characters that are enough for a request
_SEGMENTS = 8  # that a message waits for at most, and no more than stand before its own
_REQUEST = 16_000  # characters
_KNOWN, _KNOWN_LENGTH = 40, 4_000  # rules that a request lists, and their characters
_LONGEST, _HEAD, _TAIL = 6_000, 4_000, 2_000  # characters of a message, and what stays of a longer one
_REPLY = 600  # tokens
_LABEL = 20  # characters of a label, at most
_LINE = re.compile(
    r"[\s>*+•–-]*(?:\d{1,3}[.)]\s+)?\[(?P<message>\d{1,6})\][\s:,*_`-]*(?P<what>must|prefers?|tasks?|ends?)\b[\s:,*_`-]*(?P<quote>.+)",
    re.IGNORECASE,
)
_DOUBLE, _SINGLE = "“”„‟«»「」『』", "‘’‚‛`´"  # marks that a model writes as others
_MARKS = str.maketrans(dict.fromkeys(_DOUBLE, '"') | dict.fromkeys(_SINGLE, "'"))
_ENDS = " .,;:…"
_KEY = "rules"

logger = logging.getLogger(__name__)


def _read_reply(
    reply: SummaryReply, spoken: Sequence[tuple[int, Entry, str]], earlier: Sequence[str]
) -> dict[bytes, Verdict]:
    """Return what a reply says of each message that was asked about, by its data.

    A quote counts for the message that it names, or else for the nearest in which it stands. `earlier` are the quotes
    of rules of earlier messages.
    """
    lines = [found for line in reply.text.splitlines() if len(line) <= 1_000 and (found := _LINE.match(line))]
    if not lines:
        says_none = re.fullmatch(r"\W*none\W*", reply.text, re.IGNORECASE)
        judged = spoken[:1] if says_none and reply.truncated else spoken  # of the others a cut reply may say more
        return {entry.data: Verdict() if says_none else PASSED for _, entry, _ in judged}
    typed = [text for _, _, text in spoken]
    rules: dict[tuple[int, str], Rule] = {}
    for line in lines:
        said = None if line["what"][0] in "eEtT" else _found(line["quote"], int(line["message"]) - 1, typed)
        if said is not None:
            rules.setdefault(said, Rule(said[1], "prefer" if line["what"][0] in "pP" else "must"))
    known = [(-1, quote) for quote in earlier] + list(rules)
    ends: dict[tuple[int, str], None] = {}
    for line in lines:
        number = int(line["message"]) - 1
        if line["what"][0] in "eE" and number < len(typed):
            wanted = _words(line["quote"])
            ends.update(((number, quote), None) for at, quote in known if at < number and _words(quote) == wanted)
    verdicts: dict[bytes, Verdict] = {}
    for number, (_, entry, _) in enumerate(spoken):
        # of the last message that a cut reply names more rules may be missing, and of all after it
        if reply.truncated and number and number >= max(int(line["message"]) for line in lines) - 1:
            break
        said_in = [rule for (at, _), rule in rules.items() if at == number]
        whole = _flat("\n".join(entry.read(0).reading.typed)) if said_in else ""
        own = tuple(rule for rule in said_in if rule.quote in whole)  # not what the cut made
        verdicts[entry.data] = Verdict(own, tuple(quote for at, quote in ends if at == number))
    return verdicts


def _found(quote: str, named: int, typed: Sequence[str]) -> tuple[int, str] | None:
    """The message in which a quote stands, the nearest to the one that is named, and the quote as it stands there,
    whatever its white space and quotation marks; None where it stands in none, is no phrase, or is a whole document."""
    words = _words(quote)
    if len(words) > _LONGEST_QUOTE or len(words.split()) < 2:
        return None
    pattern = r"\s+".join(map(re.escape, words.split()))
    pattern = pattern.replace('"', f'["{_DOUBLE}]').replace("'", f"['{_SINGLE}]")
    # no word is cut, in scripts that put spaces between them
    pattern = rf"(?<![^\W_]){pattern}" if words[0].isascii() and words[0].isalnum() else pattern
    pattern = rf"{pattern}(?![^\W_])" if words[-1].isascii() and words[-1].isalnum() else pattern
    for number in sorted(range(len(typed)), key=lambda number: (abs(number - named), number)):
        if found := re.search(pattern, typed[number]):
            return number, _flat(found[0])
    return None


def _words(quote: str) -> str:
    """The words of a quote in the form in which they are compared, without the marks around them."""
    words = _flat(quote.translate(_MARKS))
    end = words.rfind(words[0]) if words and words[0] in "\"'" else 0
    return (words[1:end].strip() if end and not words[end + 1 :].strip(_ENDS) else words).rstrip(_ENDS)


class RuleCalls:
    """Those of one session."""

    def __init__(self, work: SessionWork) -> None:
        self._work, self.retries = work, RetrySchedule(work.settings.breaker_cooldown)
        self._begun = -1, 0  # version of the log, and where the messages end that are asked about at present

    @property
    def is_due(self) -> bool:
        """Whether a call may begin now."""
        rests = self.retries.rests(_KEY, self._work.clock.now()) or self._batch_stop() is None
        return not rests and self._work.caller.ready_in() == 0.0

    def _batch_stop(self) -> int | None:
        """The entry before which the next request ends; None while too little has been typed for one.

        It ends with a segment, whatever came after it. That is the one in which enough has been typed, or the last of
        as many segments as stand before the first of them, from 1 to `_SEGMENTS`. What waits is still shown word for
        word then. The first request of a log of which no segment holds words does not wait for one. What a request had
        no room for is asked about at once.
        """
        log, waiting = self._work.log, self._work.log.rules.open
        if not waiting:
            return None
        if self._begun[0] == log.version and waiting[0] < self._begun[1]:
            return self._begun[1]
        if waiting[0] >= log.covered_by_segments:
            return None if log.rules.verdicts else len(log)

        def segment_of(index: int) -> int:
            return bisect_right(log.segments, index, key=lambda segment: segment.stop)

        first = segment_of(waiting[0])
        last = first + min(max(1, first), _SEGMENTS) - 1
        typed = 0
        for index in waiting:
            if (at := segment_of(index)) > last or at == len(log.segments):
                break
            typed += log.entries[index].facts.typed
            if typed >= _TYPED:
                return log.segments[at].stop
        return log.segments[last].stop if last < len(log.segments) else None

    async def ask(self) -> None:
        """Ask about the messages of the next request, as many as it has room for."""
        log, recipe, background, began = (
            self._work.log,
            self._work.recipe,
            self._work.background,
            self._work.clock.now(),
        )
        if (stop := self._batch_stop()) is None:
            return
        try:
            # what is asked
            self._begun = log.version, stop
            waiting: dict[bytes, tuple[int, Entry]] = {}  # the same message is asked about once
            for index in log.rules.open[: bisect_left(log.rules.open, stop)]:
                waiting.setdefault((entry := log.entries[index]).data, (index, entry))
            held = [rule for rule in log.rules.all(log.rules.open[0]) if rule.ended_by is None]  # as it was said then
            known = [(rule, log.entries[rule.message]) for rule in held[::-1][:_KNOWN]]
            gather = partial(self._gather, list(waiting.values()), known)
            messages, earlier, content = await background.run(gather)
            verdicts = {entry.data: Verdict() for _, entry, text in messages if not text}

            # what the model says, or has said in any session that asked the same
            if spoken := [one for one in messages if one[2]]:
                key = SummaryKey(output_hash(content), recipe.hash_of("rules", _REPLY))
                job = SummaryJob(
                    kind="rules",
                    instructions=recipe.instructions("rules", _REPLY),
                    content=content,
                    max_tokens=_REPLY,
                    rank=0,
                    start=spoken[0][0],
                    stop=spoken[-1][0] + 1,
                    source_tokens=estimate_text(content),
                    range_hash=key.range_hash,
                    recipe_hash=key.recipe_hash,
                )

                def settles(cut: SummaryReply) -> bool:
                    return PASSED in _read_reply(cut, spoken, earlier).values()

                reply = await answered_once(self._work, key, partial(self._work.caller.summarize, job), self, settles)
                verdicts |= await background.run(partial(_read_reply, reply, spoken, earlier))

            await log.foreground.thawed()
            kept = log.judge(verdicts)  # of messages that are still in the log
            await self._work.store.save_verdicts(self._work.settings.session_id, kept)
            self.retries.recover(_KEY, began)
        except StoreError as error:
            logger.warning("verdicts on standing rules could not be kept", exc_info=error)
        except Exception as error:  # of the model, ours, or a foreign object's: it must not end the worker
            self.retries.note(_KEY, error, self._work.clock.now())
            logger.info("standing rules could not be asked for", extra={"cause": type(error).__name__})

    def _gather(
        self, waiting: Sequence[tuple[int, Entry]], known: Sequence[tuple[StandingRule, Entry]]
    ) -> tuple[list[tuple[int, Entry, str]], list[str], str]:
        """Return what is asked: the oldest messages, as far as a request goes, each with what a human typed in it as a
        model reads that, empty where there are no words; quotes of earlier rules; and the content of the request."""
        redact, yield_now = self._work.recipe.redact, self._work.background.yield_now

        def typed(entry: Entry) -> str:  # without what `redact` takes out of all of the message
            yield_now(len(entry.data))
            message = entry.read(0)
            reading = message.reading if redact is None else redact_reading(message.message, message.reading, redact)
            return "\n".join(reading.typed)

        # the newest of the known rules that have room, oldest first; none of which a part may not be told
        rules, length = list[StandingRule](), 0
        for rule, entry in known:
            length += len(rule.quote) + _LABEL
            if length > _KNOWN_LENGTH:
                break
            if redact is None or rule.quote in _flat(typed(entry)):
                rules.insert(0, rule)

        # the messages; of a very long one its beginning and its end
        lines = [f'- {rule.strength} "{rule.quote}"' for rule in rules]
        length = sum(len(line) + 1 for line in lines) + _LABEL
        messages: list[tuple[int, Entry, str]] = []
        for index, entry in waiting:
            text = typed(entry)
            if len(text) > _LONGEST:
                left_out = len(text) - _HEAD - _TAIL
                text = f"{text[:_HEAD]}\n[… {left_out} characters left out …]\n{text[-_TAIL:]}"
            text = text.strip()
            length += len(text) + _LABEL
            if messages and length > _REQUEST:
                break
            messages.append((index, entry, text))
        content: str = encodable(render_typed(lines, [text for _, _, text in messages if text]))
        content = content if redact is None else redact(content)
        return messages, [rule.quote for rule in rules], content


def _flat(text: str) -> str:
    return " ".join(text.split())
