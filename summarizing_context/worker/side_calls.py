"""What is asked for beside the summaries: the standing rules in what a human typed, and the provider's own block.

Rules are asked for many messages at a time. The reply has a line for each rule: `- [n] must "quote"` or
`- [n] prefer "quote"`, where n is the place of the message in the request, `- [n] ends "quote"` for an earlier rule
that message n takes back, and `- [n] task "quote"` for what is no rule. What else stands there, and what no human
typed, is dropped. A reply without any such line is `none`, or says nothing. The verdict on a message is kept with it,
so each message is asked about once. The log alone says which messages go into one request, and the store keeps the
reply under what was asked: the same log in another session asks no model. A call that fails is tried again after a
while; a reply that cannot be read is not, by any session: cues go on to serve for its messages.

The block is asked for shortly before an activation that may show it. What is sent is what the last view has sent, up to
the end of a closed segment: the provider takes it as it took the view. The store keeps it under what it covers. An
activation that covers as much, or more, shows it in the place of summaries, which are made all the same.
"""

from __future__ import annotations

import json
import logging
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import msgspec

from summarizing_context.errors import SummarizerNotReady, SummarizerRefused
from summarizing_context.extraction.rules import Rule
from summarizing_context.log.entries import PASSED, Entry, Verdict, output_hash, recipe_hash
from summarizing_context.messages.reading import encodable
from summarizing_context.messages.redaction import redact_reading
from summarizing_context.messages.rendering import render_typed
from summarizing_context.messages.text import flat
from summarizing_context.stores.base import StoredEntry, SummaryKey
from summarizing_context.summarizers.base import SummaryReply
from summarizing_context.summarizers.native import Compactor, NativeRequest
from summarizing_context.summarizers.resilience import ResilientSummarizer
from summarizing_context.summarizers.sdk import Fault
from summarizing_context.worker.worker import Worker, guarded

_TYPED = 8_000  # characters that are enough for a request
_SEGMENTS = 8  # that a message waits for at most, and no more than stand before its own
_KNOWN = 40  # rules that a request lists
_LONGEST, _HEAD, _TAIL = 6_000, 4_000, 2_000  # characters of a message, and what stays of a longer one
_REPLY = 600  # tokens
_LABEL = 20  # characters of a label, at most
_LINE = re.compile(
    r"[\s>*+•–-]*(?:\d{1,3}[.)]\s+)?\[(?P<message>\d{1,6})\][\s:,*_`-]*(?P<what>must|prefers?|tasks?|ends?)\b[\s:,*_`-]*(?P<quote>.+)",
    re.IGNORECASE,
)
_MARKS = str.maketrans("“”„‟«»「」『』‘’‚‛`´", 10 * '"' + 6 * "'")  # that a model writes as others
_ENDS = " .,;:…"
_CUT = "[cut off]"  # ends a reply that the length limit has cut, as the store keeps it

logger = logging.getLogger(__name__)


def _read_reply(reply: str, spoken: Sequence[tuple[int, Entry, str]], earlier: Sequence[str]) -> dict[bytes, Verdict]:
    """Return what a reply says of each message that was asked about, by its data.

    A quote counts for the message that it names, or else for the nearest in which it stands. `earlier` are the quotes
    of rules of earlier messages.
    """
    lines = [line for text in reply.splitlines() if len(text) <= 1_000 and (line := _LINE.match(text))]
    if not lines:
        says_none = re.fullmatch(r"\W*none\W*", reply.removesuffix(_CUT), re.IGNORECASE)
        judged = spoken[:1] if says_none and reply.endswith(_CUT) else spoken  # of the others a cut reply may say more
        return {entry.data: Verdict() if says_none else PASSED for _, entry, _ in judged}
    typed = [text for _, _, text in spoken]
    said = [(line["what"][0].lower(), int(line["message"]) - 1, line["quote"]) for line in lines]
    rules: dict[tuple[int, str], Rule] = {}
    for what, named, quote in said:
        if what in "mp" and (found := _found(quote, named, typed)) is not None:
            rules.setdefault(found, Rule(found[1], "prefer" if what == "p" else "must"))
    known = [(-1, quote) for quote in earlier] + list(rules)
    ends = set[tuple[int, str]]()
    for what, named, ended in said:
        if what == "e" and named < len(typed):
            ends |= {(named, quote) for at, quote in known if at < named and _words(quote) == _words(ended)}
    if reply.endswith(_CUT):  # of the last message that it names more rules may be missing, and of all after it
        spoken = spoken[: max(1, *(named for _, named, _ in said))]
    verdicts: dict[bytes, Verdict] = {}
    for number, (_, entry, _) in enumerate(spoken):
        said_in = [rule for (at, _), rule in rules.items() if at == number]
        whole = flat("\n".join(entry.read(0).reading.typed)) if said_in else ""
        own = tuple(rule for rule in said_in if rule.quote in whole)  # not what the cut made
        verdicts[entry.data] = Verdict(own, tuple(sorted(quote for at, quote in ends if at == number)))
    return verdicts


def _found(quote: str, named: int, typed: Sequence[str]) -> tuple[int, str] | None:
    """The message in which a quote stands, the nearest to the one that is named, and the quote as it stands there,
    whatever its white space and quotation marks; None where it stands in none, is no phrase, or is a whole document."""
    words = _words(quote)
    if len(words) > 300 or len(words.split()) < 2:  # characters; what is longer is a document that was pasted
        return None
    pattern = r"\s+".join(map(re.escape, words.split()))
    # no word is cut, in scripts that put spaces between them
    pattern = rf"(?<![^\W_]){pattern}" if words[0].isascii() and words[0].isalnum() else pattern
    pattern = rf"{pattern}(?![^\W_])" if words[-1].isascii() and words[-1].isalnum() else pattern
    for number in sorted(range(len(typed)), key=lambda number: (abs(number - named), number)):
        if found := re.search(pattern, typed[number].translate(_MARKS)):
            return number, flat(typed[number][found.start() : found.end()])
    return None


def _words(quote: str) -> str:
    """The words of a quote in the form in which they are compared, without the marks around them."""
    words = flat(quote.translate(_MARKS))
    end = words.rfind(words[0]) if words and words[0] in "\"'" else 0
    return (words[1:end].strip() if end and not words[end + 1 :].strip(_ENDS) else words).rstrip(_ENDS)


class RuleCalls:
    """Has a model read what a human typed in one session for standing rules."""

    def __init__(self, worker: Worker, stored: Callable[[Entry], StoredEntry]) -> None:
        self._worker, self._stored = worker, stored  # what the store keeps of an entry
        worker.beside["rules"] = (lambda: worker.caller.ready_in() == 0.0 and self._batch_stop() is not None), self.ask
        self._begun = -1, 0  # version of the log, and where the messages end that are asked about at present

    def _batch_stop(self) -> int | None:
        """The entry before which the next request ends; None while too little has been typed for one.

        It ends with a segment, whatever came after it. That is the one in which enough has been typed, or the last of
        as many segments as stand before the first of them, from 1 to `_SEGMENTS`. What waits is still shown word for
        word then. The first request of a log of which no segment holds words does not wait for one. What a request had
        no room for is asked about at once.
        """
        log, waiting = self._worker.log, self._worker.log.rules.open
        if not waiting:
            return None
        if self._begun[0] == log.version and waiting[0] < self._begun[1]:
            return self._begun[1]
        if waiting[0] >= log.covered_by_segments:
            return None if log.rules.verdicts else len(log)
        first = bisect_right(log.segments, waiting[0], key=lambda segment: segment.stop)
        last = first + min(max(1, first), _SEGMENTS) - 1
        for segment in log.segments[first : last + 1]:
            before = waiting[: bisect_left(waiting, segment.stop)]
            if sum(log.entries[index].facts.typed for index in before) >= _TYPED:
                return segment.stop
        return log.segments[last].stop if last < len(log.segments) else None

    async def ask(self) -> None:
        """Ask about the messages of the next request, as many as it has room for."""
        log, recipe, background = self._worker.log, self._worker.recipe, self._worker.background
        if (stop := self._batch_stop()) is None:
            return
        self._begun = log.version, stop
        waiting: dict[bytes, tuple[int, Entry]] = {}  # the same message is asked about once
        for index in log.rules.open[: bisect_left(log.rules.open, stop)]:
            waiting.setdefault((entry := log.entries[index]).data, (index, entry))
        held = [rule for rule in log.rules.all(log.rules.open[0]) if rule.ended_by is None]  # as it was said then
        known = [(rule, log.entries[rule.message]) for rule in held[::-1][:_KNOWN]]
        messages: list[tuple[int, Entry, str]] = []  # with what a human typed, as a model reads it

        def typed(entry: Entry) -> str:  # without what `redact` takes out of all of the message
            background.yield_now(len(entry.data))
            read = entry.read(0)
            clean = redact_reading(read.message, read.reading, recipe.redact) if recipe.redact else read.reading
            return "\n".join(clean.typed)

        def gather() -> tuple[list[str], str]:
            """Return the quotes of earlier rules, oldest first, and the content of the request."""
            # none of which a part may not be told
            rules = [rule for rule, entry in known if recipe.redact is None or rule.quote in flat(typed(entry))][::-1]
            lines = [f'- {rule.strength} "{rule.quote}"' for rule in rules]
            length = sum(len(line) + 1 for line in lines) + _LABEL
            for index, entry in waiting.values():
                text = typed(entry)
                if len(text) > _LONGEST:
                    left_out = len(text) - _HEAD - _TAIL
                    text = f"{text[:_HEAD]}\n[… {left_out} characters left out …]\n{text[-_TAIL:]}"
                text = text.strip()
                length += len(text) + _LABEL
                if messages and length > 16_000:  # characters
                    break
                messages.append((index, entry, text))
            content = encodable(render_typed(lines, [text for _, _, text in messages if text]))
            return [rule.quote for rule in rules], recipe.redacted(content)

        earlier, content = await background.run(gather)
        verdicts = {entry.data: Verdict() for _, entry, text in messages if not text}

        # what the model says, or has said in any session that asked the same
        if spoken := [one for one in messages if one[2]]:
            key = SummaryKey(output_hash(content), recipe.hash_of("rules", _REPLY))
            place = range(spoken[0][0], spoken[-1][0] + 1)
            job = recipe.job("rules", key, content=content, max_tokens=_REPLY, entries=place)

            async def asked() -> SummaryReply:
                reply = await self._worker.caller.summarize(job)
                return replace(reply, text=f"{reply.text}\n{_CUT}") if reply.truncated else reply

            reply = await self._worker.answered_once(key, asked)
            verdicts |= await background.run(partial(_read_reply, reply, spoken, earlier))

        await log.foreground.thawed()
        kept = [(index, self._stored(log.entries[index])) for index in log.judge(verdicts)]
        await guarded(self._worker.store.save_facts(self._worker.settings.session_id, kept))


class NativeBlock(msgspec.Struct, frozen=True):
    """What a provider has made of the first segments of a log, as it is sent to it."""

    recipe: str  # hex; names provider, account and model
    leaves: int  # segments that it covers
    stop: int  # entries
    content: list[dict[str, Any]]

    @property
    def message(self) -> dict[str, Any]:
        """The message that carries it, in front of all others."""
        return {"role": "assistant", "content": self.content}

    @property
    def text(self) -> str:
        """What it says, where that can be read."""
        said = self.content[-1].get("content")
        return said if isinstance(said, str) else "[a block that only its provider can read]"


class Target(NamedTuple):
    """What the next block has to cover, and the key of the view that it is for."""

    provider: str
    leaves: int
    stop: int


class NativeBlocks:
    """Has the provider write blocks for one session. The caps of `gate` count for them."""

    target: Callable[[], Target | None]  # what is wanted now
    request: Callable[[Target, str], NativeRequest]  # what is sent for it, to a model

    def __init__(self, worker: Worker, compactor: Compactor, gate: ResilientSummarizer) -> None:
        self._worker, self._compactor, self._gate = worker, compactor, gate
        worker.beside["native"] = (lambda: self.target() is not None), self.ask
        self._blocks, self._version = list[NativeBlock](), worker.log.version  # of the log for which they are
        self._is_warned = False

    def _model(self, provider: str) -> str:
        return "/".join(provider.split("/")[1:-1]) or str(self._worker.settings.model)

    def recipe_for(self, provider: str) -> str | None:
        """Return the recipe of blocks that a view may show; None for one of another provider."""
        if provider and provider.partition("/")[0] != self._compactor.provider:
            return None
        return recipe_hash({"native": 1, "by": self._compactor.recipe, "model": self._model(provider)})

    def ready(self, provider: str) -> list[NativeBlock]:
        """Return the blocks that a view may show, the one that covers most last."""
        recipe = self.recipe_for(provider) if self._version == self._worker.log.version else None
        return sorted((one for one in self._blocks if one.recipe == recipe), key=lambda one: one.stop)

    async def ask(self) -> None:
        """Take the block from the store, or have the provider write it. Raise `SummarizerError`."""
        log, target = self._worker.log, self.target()
        if target is None or (recipe := self.recipe_for(target.provider)) is None:
            return
        version, key = log.version, SummaryKey(output_hash("".join(log.hashes[: target.leaves])), recipe)

        async def written() -> SummaryReply:
            if self.target() != target:
                raise SummarizerNotReady("the view has changed meanwhile", retry_after=0.1)
            asked = self.request(target, self._model(target.provider))
            return await self._gate.admitted(self._compactor.compact(asked), asked.tokens)

        try:
            content = json.loads(await self._worker.answered_once(key, written))
        except SummarizerNotReady:
            raise
        except Exception as error:  # of the provider or its SDK
            said = error.args[0] if error.args and isinstance(error.args[0], str) else type(error).__name__
            text = f"no block by {self._compactor.provider} itself: {said}. Views show summaries in its place"
            self._worker.note_error(text)
            logger.log(logging.INFO if self._is_warned else logging.WARNING, "native: %s", text)
            self._is_warned = True
            if error.args[:1] == (Fault.REQUEST,):  # it is asked for less and less often
                raise SummarizerRefused(text) from error
            raise
        await log.foreground.thawed()
        if version == log.version:
            block = NativeBlock(recipe, target.leaves, target.stop, content)
            self._blocks, self._version = [*self.ready(target.provider)[-1:], block], version
        self._is_warned = False
