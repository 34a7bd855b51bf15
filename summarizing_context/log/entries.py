"""Log entries: a message's bytes with what was derived from it when it was added.

The derived facts are stored beside the bytes, so that reopening a long session parses no message. Equal content
has an equal digest in any process, on any host, in any session: only what a model can read enters, in one spelling.
Timestamps, metadata, usage and provider-minted ids do not; calls and results are tied by their ordinal in the group.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from summarizing_context.errors import StoreCorruptError
from summarizing_context.extraction.facts import read_traits
from summarizing_context.extraction.rules import Rule, are_cues_compiled, cue_rules, cues_version
from summarizing_context.messages.reading import (
    Message,
    Reading,
    canonical_json,
    check_message,
    decode_message,
    encode_message,
    parse_messages,
    read_message,
)
from summarizing_context.messages.tokens import ESTIMATE, MESSAGE_TOKENS, TokenCounter, estimate_text
from summarizing_context.stores.base import StoredEntry, StoredVerdict

_RANGE, _ROLLUP, _RECIPE = b"range/v1", b"rollup/v1", b"recipe/v1"


def content_digest(reading: Reading) -> bytes:
    """32 bytes that name what a message says, apart from which call a result answers."""
    said = [
        (part.kind, part.name, part.failed, part.texts, part.media)
        for part in reading.parts
        if part.texts or part.kind not in ("extra", "thinking")  # else it holds nothing but ids and seals
    ]
    return hashlib.sha256(canonical_json((reading.role, reading.human, said)).encode()).digest()


def range_hash(digests: Iterable[bytes], part: int = 0, parts: int = 1) -> str:
    """The name of a range of messages; `part` of `parts` where one group fills several leaves."""
    place = f"{part}/{parts}".encode() if parts > 1 else b""
    return hashlib.sha256(_RANGE + place + b"".join(digests)).hexdigest()


def prefix_hashes(digests: Iterable[bytes]) -> Iterator[str]:
    """The names of the ranges that begin a range: of its first message, of its first two, and so on."""
    begun = hashlib.sha256(_RANGE)
    for digest in digests:
        begun.update(digest)
        yield begun.hexdigest()


def rollup_hash(rank: int, texts: Iterable[str]) -> str:
    """The name of a rollup: its rank and its children's texts, in order; of one range two runs of a model differ."""
    return hashlib.sha256(_ROLLUP + f"{rank}:{','.join(map(output_hash, texts))}".encode()).hexdigest()


def output_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def recipe_hash(recipe: Mapping[str, object]) -> str:
    """The name of how a summary is made: prompt, model, parameters, caps, renderer, redaction."""
    return hashlib.sha256(_RECIPE + canonical_json(dict(recipe)).encode()).hexdigest()


_LONG_TEXT = 200_000  # bytes of a message that is not read on the event loop


class Role(IntEnum):
    """Roles that the log tells apart. Numbers, because a long session holds one for each message."""

    OTHER, SYSTEM, DEVELOPER, USER, ASSISTANT, TOOL = range(6)


class Facts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the log needs to know of a message without parsing it again."""

    role: Role
    calls: tuple[str, ...]
    answers: tuple[str, ...]
    critical: bool
    hook: bool  # injected by a host's hook
    ephemeral: bool
    size: int  # estimated tokens as rendered, hence of what a model reads; segments are cut by it
    text_tokens: int  # by the session's counter
    media: int
    content: bytes  # digest of what it says
    human: bool = False  # holds words that a person typed: begins a turn
    held: tuple[str, ...] = ()  # of the calls, those that no host answers
    state: tuple[str, ...] = ()  # names of what holds from there on
    rules: tuple[Rule, ...] = ()  # that cues tell in what a human typed
    typed: int = 0  # characters of that
    traits: int = 0  # what makes it important


# The version of `Facts`, kept with each of them. Raise it when messages are read or counted in another way. The next
# opening of each session that may write then parses every message once (0.1 to 0.2 ms each with the estimate, 10 to
# 20 s of processor time for 100,000 messages) and stores the new facts; openings with `read_only` pay each time. So it
# does where the list of cues has changed, whose version is kept beside.
@cache
def facts_version(counter: str) -> str:
    return f"facts/7 {ESTIMATE} {cues_version()} {counter}"


class Bounds(NamedTuple):
    """How much of the log was said under a beginning that has been rewritten since."""

    rewritten: int = 0  # entries before it
    settled: int = 0  # entries before it stand in finished turns as well; never more than `rewritten`


class PlacedMessage(NamedTuple):
    """A message of a group, with its place in the log."""

    seq: int
    message: Message
    reading: Reading
    cost: int = 0  # tokens, where they are asked for


class Entry(msgspec.Struct, eq=False, gc=False):
    """One message of the log, as bytes; each reading makes its dict again, but for the newest ones. A long session
    holds one for each message: what few of them have is kept elsewhere."""

    data: bytes
    facts: Facts
    digest: bytes  # that of its content; tied to its group when it joins the log
    fresh: tuple[Message, Reading] | None = None  # what it was made of: the next view need not parse it again
    recalled: Recalled | None = None  # what views show behind it

    @property
    def is_page(self) -> bool:
        """Whether it is a page of the past: no message of the host's."""
        return not self.facts.content

    def message(self) -> Message:
        """Return a copy of the message that is not shared."""
        return decode_message(self.data)

    def read(self, index: int, cost: int = 0) -> PlacedMessage:
        """The message with its reading, at its place in the log. To be read only: it may be shared."""
        message, reading = self.fresh or (self.message(), None)
        return PlacedMessage(index, message, reading or read_message(message), cost)

    def cost(self, image_tokens: int) -> int:
        return MESSAGE_TOKENS + self.facts.text_tokens + image_tokens * self.facts.media


def read_all(entries: Iterable[Entry], first: int, tokens: Sequence[int]) -> list[PlacedMessage]:
    """Return entries from the `first` place in the log on, read, with their costs by the log's sums of `tokens`."""
    return [entry.read(at, tokens[at + 1] - tokens[at]) for at, entry in enumerate(entries, first)]


def make_entry(message: Message, counter: TokenCounter, data: bytes | None = None) -> Entry:
    """The entry of a checked message, and of its bytes if they are known."""
    reading, data = read_message(message), data or encode_message(message)
    texts, metadata = reading.texts, message.get("metadata")
    estimate = sum(map(estimate_text, texts))
    read = estimate if counter.name == ESTIMATE else sum(map(counter.count, texts))
    rules = cue_rules(reading.typed) if reading.human else ()
    facts = Facts(
        role=_ROLES.get(reading.role, Role.OTHER),
        calls=reading.calls,
        answers=reading.answers,
        critical=reading.critical,
        hook=isinstance(metadata, dict) and metadata.get("source") == "hook",
        ephemeral=reading.ephemeral,
        size=MESSAGE_TOKENS + estimate + 4 * len(reading.parts),  # what rendering adds to each part
        text_tokens=read + sum(map(counter.count, reading.unread)),
        media=reading.media,
        content=content_digest(reading),
        human=reading.human,
        held=reading.held,
        state=reading.state,
        rules=rules,
        typed=sum(map(len, reading.typed)),
        traits=read_traits(reading, [rule.strength for rule in rules]),
    )
    return Entry(data, facts, facts.content, (message, reading))


class Recalled(NamedTuple):
    """A page of the past that views show behind a message, kept beside the log, and the messages that it cites."""

    page: Entry
    cited: frozenset[int]

    @classmethod
    def made(cls, text: str, tokens: int, cited: Iterable[int]) -> Recalled:
        facts = Facts(Role.USER, (), (), False, False, True, tokens, tokens, 0, b"")
        return cls(Entry(encode_message({"role": "user", "content": text}), facts, b""), frozenset(cited))


_SEAL = b"\xc1"  # begins no value of msgpack's
_SEALED = struct.Struct(">cII")  # checksums of a message's bytes and of its facts, which follow


def unsealed(data: bytes, kept: bytes) -> bytes:
    """Return the facts of a message; none where they are damaged. Raises `StoreCorruptError` where the message is."""
    if not kept.startswith(_SEAL) or len(kept) < _SEALED.size:
        return b""
    _, message_sum, facts_sum = _SEALED.unpack_from(kept)
    if message_sum != zlib.crc32(data):
        raise StoreCorruptError("the bytes of a stored message are damaged: their checksum differs")
    facts = kept[_SEALED.size :]
    return facts if facts_sum == zlib.crc32(facts) else b""


def decode_entry(data: bytes, kept: bytes, counter: TokenCounter) -> tuple[Entry, bool]:
    """Return the stored entry, with tokens by the counter, and whether its facts are new, to be stored again.
    Raise `StoreCorruptError`."""
    with suppress(msgspec.DecodeError):
        version, facts = _decoder.decode(unsealed(data, kept))
        if version == facts_version(counter.name):
            return Entry(data, facts, facts.content), False
    entry = make_entry(decode_message(data), counter)
    entry.fresh = None  # of a whole log few messages are shown
    return entry, True


_decoder = msgspec.msgpack.Decoder(tuple[str, Facts])
_ROLES = {role.name.lower(): role for role in Role}


class Verdict(NamedTuple):
    """What a model says of the rules in one message."""

    rules: tuple[Rule, ...] = ()
    ends: tuple[str, ...] = ()  # rules of earlier messages, by their quotes, that it takes back or replaces
    given: bool = True  # else no model is asked about the message, and cues serve


PASSED = Verdict(given=False)
VERDICTS = "model-1"  # version under which verdicts are kept
_verdicts = msgspec.json.Decoder(Verdict)


def message_name(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def stored_verdict(data: bytes, verdict: Verdict | None) -> tuple[StoredVerdict, ...]:
    """What the store keeps of a verdict on a message of these bytes; nothing where there is none."""
    return () if verdict is None else (StoredVerdict(message_name(data), VERDICTS, msgspec.json.encode(verdict)),)


PAGES = "page-1"  # version under which pages are kept, as verdicts are
_pages = msgspec.msgpack.Decoder(tuple[int, list[int], bytes])


def stored_page(index: int, entry: Entry) -> tuple[StoredVerdict, ...]:
    """What the store keeps of the page behind an entry at a place; nothing where there is none."""
    if (recalled := entry.recalled) is None:
        return ()
    text = decode_message(recalled.page.data)["content"].encode("utf-8", "surrogatepass")
    page = msgspec.msgpack.encode((index, sorted(recalled.cited), text))
    return (StoredVerdict(page_name(index, entry.data), PAGES, page),)


def page_name(index: int, data: bytes) -> bytes:
    """Name the page behind a message of these bytes at a place."""
    return message_name(b"%d %b" % (index, data))


@dataclass(eq=False)
class Intake:
    """Makes entries, counted by the session's counter."""

    counter: TokenCounter
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]
    verdicts: dict[bytes, Verdict]  # of the log, by `message_name`

    async def one(self, message: object) -> Entry:
        """The entry of a message. Raises `MessageError`."""
        checked = check_message(message)  # shares the texts; the bytes of long ones are made off the event loop
        blocks = content if isinstance(content := checked.get("content"), list) else [checked]
        texts = (value for block in blocks if isinstance(block, dict) for value in block.values())
        is_long = any(len(text) > _LONG_TEXT for text in texts if isinstance(text, str))
        data = None if is_long else encode_message(checked)
        if data and len(data) <= _LONG_TEXT and (checked["role"] != "user" or are_cues_compiled()):
            return make_entry(checked, self.counter, data)
        made: Entry = await self.in_thread(partial(make_entry, checked, self.counter, data))
        return made

    async def all(self, messages: object, known: Sequence[Entry]) -> list[Entry]:
        """Return the entries of a whole log; those of `known` that stand at the same place are taken as they are."""
        rows, entries, durable = parse_messages(messages), list[Entry](), 0

        def take(some: Sequence[tuple[Message, bytes]]) -> None:
            nonlocal durable
            for message, data in some:
                same = known[durable] if durable < len(known) else None
                entry = same if same and same.data == data else make_entry(message, self.counter, data)
                entry.fresh = None  # of a whole log few messages are shown
                entries.append(entry)
                durable += not entry.facts.ephemeral

        while some := list(islice(rows, 100)):
            await self.in_thread(partial(take, some))
        return entries

    def stored(self, entry: Entry, index: int = 0) -> StoredEntry:
        """Return what the store keeps of an entry; `index` is the place of one that has a page."""
        return StoredEntry(entry.data, self.stored_facts(entry), self.beside(entry, index))

    def beside(self, entry: Entry, index: int) -> tuple[StoredVerdict, ...]:
        """Return what the store keeps beside an entry: a verdict on its rules, and its page."""
        verdict = self.verdicts.get(message_name(entry.data)) if self.verdicts and entry.facts.human else None
        return *stored_verdict(entry.data, verdict), *stored_page(index, entry)

    def take(self, stored: Iterable[StoredVerdict], log: Sequence[Entry]) -> None:
        """Take what the store keeps beside entries: verdicts, and pages that the entries of a log show again, those
        without a name in any case. What cannot be read is left out, and so is a page of another message."""
        for row in stored:
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                if row.version == VERDICTS:
                    self.verdicts[row.digest] = _verdicts.decode(row.verdict)
                elif row.version == PAGES:
                    index, cited, data = _pages.decode(row.verdict)
                    if 0 <= index < len(log) and row.digest in (b"", page_name(index, log[index].data)):
                        text = data.decode("utf-8", "surrogatepass")
                        log[index].recalled = Recalled.made(text, self.counter.count(text), cited)

    def stored_facts(self, entry: Entry) -> bytes:
        """Return the facts of an entry, behind checksums of the message's bytes and of their own."""
        try:
            facts = msgspec.msgpack.encode((facts_version(self.counter.name), entry.facts))
        except UnicodeEncodeError:  # an id with lone surrogates: the facts are derived again when reading
            facts = b""
        return _SEALED.pack(_SEAL, zlib.crc32(entry.data), zlib.crc32(facts)) + facts
