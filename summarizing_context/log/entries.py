"""Entries of the log; groups of them, which may not be parted, and how each is shown; segments of whole groups.

An entry is a message's bytes with what was derived from it when it was added. The derived facts are stored beside the
bytes, so that reopening a long session parses no message. Equal content has an equal digest in any process, on any
host, in any session: only what a model can read enters, in one spelling. Timestamps, metadata, usage and
provider-minted ids do not; calls and results are tied by their ordinal in the group.

A group is one message, or a message with calls and everything up to its last result. Split parallel call lines, call
rows one after the other before any result, are one group of up to `MAX_HELD` rows. A result gives up the calls of
earlier lines, for it can be shown only behind them. Whatever is no result of an open call gives up all of them. A call
that no host answers, as of a tool that runs at the provider, is held open until its result comes or the assistant's
turn ends: what comes meanwhile, up to `MAX_TURN` rows, belongs to its group.

Segments are runs of whole closed groups that are summarized as one. Content alone decides, looking back only
(content-defined chunking): a longer log begins with the same segments, and after an edit the cuts fall back into step
within a few. Sizes are the built-in estimate, so that cuts are equal whatever counter a session uses.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from enum import IntEnum
from functools import cache, partial
from itertools import islice, pairwise
from typing import Any, Literal, NamedTuple

import msgspec

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.errors import StoreCorruptError
from summarizing_context.extraction.facts import read_traits
from summarizing_context.extraction.rules import Rule, are_cues_compiled, cue_rules, cues_version, may_hold_files
from summarizing_context.messages.reading import (
    SHAPES,
    TEXT,
    Message,
    Part,
    Reading,
    blocks_of,
    canonical_json,
    check_message,
    content_key,
    decode_message,
    encodable,
    encode_message,
    is_result,
    parse_messages,
    read_block,
    read_message,
    result_message,
    shape_of,
    text_block,
)
from summarizing_context.messages.redaction import Redact, redact_reading
from summarizing_context.messages.rendering import THOUGHT_ONLY, cut_evenly, render_messages
from summarizing_context.messages.text import fence
from summarizing_context.messages.tokens import ESTIMATE, MESSAGE_TOKENS, TokenCounter, estimate_text, media_cost
from summarizing_context.stores.base import StoredEntry

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


LEADING = (Role.SYSTEM, Role.DEVELOPER)
_HOSTS_ROLES = (Role.USER, *LEADING)  # of rows into which hosts put files


class Rare(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the log needs to know of few messages."""

    critical: bool = False
    hook: bool = False  # injected by a host's hook
    ephemeral: bool = False
    media: tuple[int, ...] = ()  # as `measure_media` gives them
    held: tuple[str, ...] = ()  # of the calls, those that no host answers
    state: tuple[str, ...] = ()  # names of what holds from there on
    rules: tuple[Rule, ...] = ()  # that cues tell in what a human typed
    may_hold_files: bool = False  # instruction files, such as CLAUDE.md


_USUAL = Rare()


class Facts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the log needs to know of a message without parsing it again."""

    role: Role
    calls: tuple[str, ...]
    answers: tuple[str, ...]
    size: int  # estimated tokens as rendered, hence of what a model reads; segments are cut by it
    text_tokens: int  # by the session's counter
    content: bytes  # digest of what it says
    human: bool = False  # holds words that a person typed: begins a turn
    typed: int = 0  # characters of that
    traits: int = 0  # what makes it important
    few: Rare | None = None  # None for what most messages have

    @property
    def rare(self) -> Rare:
        return self.few or _USUAL


# The version of `Facts`, kept with each of them. Raise it when messages are read or counted in another way. The next
# opening of each session that may write then parses every message once (0.1 to 0.2 ms each with the estimate, 10 to
# 20 s of processor time for 100,000 messages) and stores the new facts; openings with `read_only` pay each time. So it
# does where the list of cues has changed, whose version is kept beside.
@cache
def facts_version(counter: str) -> str:
    return f"facts/9 {ESTIMATE} {cues_version()} {counter}"


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
        few = self.facts.few
        return MESSAGE_TOKENS + self.facts.text_tokens + (media_cost(few.media, image_tokens) if few else 0)


def read_all(entries: Iterable[Entry], first: int, tokens: Sequence[int]) -> list[PlacedMessage]:
    """Return entries from the `first` place in the log on, read, with their costs by the log's sums of `tokens`."""
    return [entry.read(at, tokens[at + 1] - tokens[at]) for at, entry in enumerate(entries, first)]


def make_entry(message: Message, counter: TokenCounter, data: bytes | None = None) -> Entry:
    """The entry of a checked message, and of its bytes if they are known."""
    reading, data = read_message(message), data or encode_message(message)
    texts, metadata, role = reading.texts, message.get("metadata"), _ROLES.get(reading.role, Role.OTHER)
    estimate = sum(map(estimate_text, texts))
    read = estimate if counter.name == ESTIMATE else sum(map(counter.count, texts))
    rare = Rare(
        critical=reading.critical,
        hook=isinstance(metadata, dict) and metadata.get("source") == "hook",
        ephemeral=reading.ephemeral,
        media=reading.media,
        held=reading.held,
        state=reading.state,
        rules=cue_rules(reading.typed) if reading.human else (),
        may_hold_files=role in _HOSTS_ROLES and may_hold_files(data),
    )
    facts = Facts(
        role=role,
        calls=reading.calls,
        answers=reading.answers,
        size=MESSAGE_TOKENS + estimate + 4 * len(reading.parts),  # what rendering adds to each part
        text_tokens=read + sum(map(counter.count, reading.unread)),
        content=content_digest(reading),
        human=reading.human,
        typed=sum(map(len, reading.typed)),
        traits=read_traits(reading, [rule.strength for rule in rare.rules]),
        few=None if rare == _USUAL else rare,
    )
    return Entry(data, facts, facts.content, (message, reading))


class Recalled(NamedTuple):
    """A page of the past that views show behind a message, kept beside the log, and the messages that it cites."""

    page: Entry
    cited: frozenset[int]

    @classmethod
    def made(cls, text: str, tokens: int, cited: Iterable[int]) -> Recalled:
        facts = Facts(Role.USER, (), (), tokens, tokens, b"", few=Rare(ephemeral=True))
        return cls(Entry(encode_message({"role": "user", "content": text}), facts, b""), frozenset(cited))


_SEAL = b"\xc1"  # begins no value of msgpack's
_SEALED = struct.Struct(">cII")  # checksums of a message's bytes and of what is known of it, which follows


def sealed(data: bytes, known: object) -> bytes:
    """Return what is known of a message, behind checksums of its bytes and of what is known."""
    try:
        kept = msgspec.msgpack.encode(known)
    except UnicodeEncodeError:  # an id with lone surrogates: the facts are derived again when reading
        kept = b""
    return _SEALED.pack(_SEAL, zlib.crc32(data), zlib.crc32(kept)) + kept


def unsealed(data: bytes, kept: bytes) -> bytes:
    """Return what is known of a message; nothing where that is damaged. Raise `StoreCorruptError` where the message
    is."""
    if len(kept) < _SEALED.size:
        return b""
    seal, message_sum, known_sum = _SEALED.unpack_from(kept)
    if seal != _SEAL:
        return b""
    if message_sum != zlib.crc32(data):
        raise StoreCorruptError("the bytes of a stored message are damaged: their checksum differs")
    known = kept[_SEALED.size :]
    return known if known_sum == zlib.crc32(known) else b""


_ROLES = {role.name.lower(): role for role in Role}


class Verdict(NamedTuple):
    """What a model says of the rules in one message."""

    rules: tuple[Rule, ...] = ()
    ends: tuple[str, ...] = ()  # rules of earlier messages, by their quotes, that it takes back or replaces
    given: bool = True  # else no model is asked about the message, and cues serve


PASSED = Verdict(given=False)


# What the store keeps of a message beside its bytes: the version of its facts, these, the verdict on its rules, and the
# page that views show behind it, with the messages that it cites. Of another version the facts are derived again.
Page = tuple[list[int], bytes]
_known = msgspec.msgpack.Decoder(tuple[str, Facts, Verdict | None, Page | None])
_known_of_any_version = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw, Verdict | None, Page | None])


def imported(data: bytes, kept: bytes, *, human: bool) -> bytes:
    """Return what the store keeps of an old message of these bytes: no model is asked about its rules."""
    try:
        version, facts, verdict, page = _known_of_any_version.decode(unsealed(data, kept))
    except (msgspec.DecodeError, StoreCorruptError):  # the message was changed meanwhile: it is read again
        version, facts, verdict, page = "", msgspec.Raw(b"\xc0"), None, None
    return sealed(data, (version, facts, verdict or (PASSED if human else None), page))


@dataclass(eq=False)
class Intake:
    """Makes entries, counted by the session's counter."""

    counter: TokenCounter
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]
    verdicts: dict[bytes, Verdict]  # of the log, by the bytes of their messages
    _being_read: int = 0  # messages in the thread: what comes then is read behind them

    async def one(self, message: object) -> Entry:
        """The entry of a message. Calls at the same time return in their order: a short message waits for a long one
        before it. Raises `MessageError`."""
        checked = check_message(message)  # shares the texts; the bytes of long ones are made off the event loop
        found: list[Any] = [checked]  # with all that it holds
        for value in islice(found, 10_000):
            found += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        is_long = len(found) > 10_000 or any(len(text) > _LONG_TEXT for text in found if isinstance(text, str))
        data = None if is_long else encode_message(checked)
        is_short = data is not None and len(data) <= _LONG_TEXT and (checked["role"] != "user" or are_cues_compiled())
        if is_short and not self._being_read:
            return make_entry(checked, self.counter, data)
        self._being_read += 1
        try:
            made: Entry = await self.in_thread(partial(make_entry, checked, self.counter, data))
        finally:
            self._being_read -= 1
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
                durable += not entry.facts.rare.ephemeral

        while some := list(islice(rows, 100)):
            await self.in_thread(partial(take, some))
        return entries

    def stored(self, entry: Entry) -> StoredEntry:
        """Return what the store keeps of an entry."""
        verdict, page = self._verdict(entry), None
        if (recalled := entry.recalled) is not None:
            text = decode_message(recalled.page.data)["content"]
            page = sorted(recalled.cited), text.encode("utf-8", "surrogatepass")
        known = facts_version(self.counter.name), entry.facts, verdict, page
        return StoredEntry(entry.data, sealed(entry.data, known))

    def _verdict(self, entry: Entry) -> Verdict | None:
        return self.verdicts.get(entry.data) if self.verdicts and entry.facts.human else None

    def decoded(self, stored: StoredEntry) -> tuple[Entry, bool]:
        """Return an entry as the log holds it, with tokens by the counter, and whether more is known of it than was
        stored. Raise `StoreCorruptError`."""
        (data, kept), version = stored, ""
        known = unsealed(data, kept)
        try:
            version, facts, verdict, page = _known.decode(known)
        except msgspec.DecodeError:
            verdict = page = None
            with suppress(msgspec.DecodeError):
                _, _, verdict, page = _known_of_any_version.decode(known)
        if is_new := version != facts_version(self.counter.name):
            entry = make_entry(decode_message(data), self.counter)
            entry.fresh = None  # of a whole log few messages are shown
        else:
            entry = Entry(data, facts, facts.content)
        if verdict is not None:
            self.verdicts[data] = verdict
        if page is not None:
            text = page[1].decode("utf-8", "surrogatepass")
            entry.recalled = Recalled.made(text, self.counter.count(text), page[0])
        return entry, is_new or (verdict is None and self._verdict(entry) is not None)


# -- groups

MAX_HELD = 24  # split call lines that wait together, beside the first
MAX_TURN = 96  # rows of a group while a call is held open

Place = tuple[int, int]  # of a call in its group: its message among those with calls, its ordinal


@dataclass(slots=True, eq=False)
class OpenCalls:
    """The calls of one group: which are still unanswered, and which are given up. A result answers the nearest
    unanswered call of its id: of the latest message that made one, the first."""

    made: int = 0  # calls so far
    left: list[int] = field(default_factory=list)  # how many of each message with calls are unanswered
    open: dict[str, list[Place]] = field(default_factory=dict)  # the unanswered calls, by id, oldest first
    held: set[str] = field(default_factory=set)  # ids of calls that no host answers
    answered: bool = False  # a result has come since the first of the calls that are open
    given_up: set[int] = field(default_factory=set)  # ordinals of the calls that no result may answer any more

    def take(
        self, calls: Sequence[str], answers: Sequence[str], held: Sequence[str] = ()
    ) -> tuple[int, list[Place | None]]:
        """Note a message: the ordinal of its first call, and the calls that its results answer."""
        self.held.update(held)
        found = [self.answer(id) for id in answers]
        last = max([place[0] for place in found if place is not None], default=-1)
        if last >= 0 and self.open:  # no result will be taken any more for calls of earlier messages
            before = len(self.left) if calls else last
            for id, place in [(id, place) for id, waiting in self.open.items() for place in waiting]:
                if place[0] < before and id not in self.held:
                    self.given_up.add(place[1])
                    self._close(id, place)
        self.answered = (self.answered or last >= 0) and not calls
        return self.make(calls) if calls else -1, found

    def make(self, ids: Sequence[str]) -> int:
        """Note a message's calls; the ordinal of the first."""
        first, self.made = self.made, self.made + len(ids)
        for at, id in enumerate(ids, first):
            self.open.setdefault(id, []).append((len(self.left), at))
        self.left.append(len(ids))
        return first

    def answer(self, id: str) -> Place | None:
        """The call that a result answers, or None if no open call has this id."""
        if (waiting := self.open.get(id)) is None:
            return None
        place = next(one for one in waiting if one[0] == waiting[-1][0])
        self._close(id, place)
        return place

    def _close(self, id: str, place: Place) -> None:
        self.left[place[0]] -= 1
        self.open[id].remove(place)
        if not self.open[id]:
            del self.open[id]

    def waits_for(self, ids: Iterable[str]) -> bool:
        return not self.open.keys().isdisjoint(ids)

    def unanswered(self) -> set[int]:
        """Ordinals of the calls that wait for a result of a host."""
        return {at for id, waiting in self.open.items() if id not in self.held for _, at in waiting}


class GroupCutter:
    """Cuts a growing log into groups, one message at a time; O(1) amortised."""

    def __init__(self, position: int = 0) -> None:
        self.position = position  # messages seen
        self.start = position  # of the open group
        self._open_calls: OpenCalls | None = None
        self._run = position  # where a second message with calls joined the open group

    def add(
        self, calls: Sequence[str], answers: Sequence[str], *, turn: bool = False, held: Sequence[str] = ()
    ) -> tuple[list[tuple[int, int]], int, list[int]]:
        """Take the next message, given the ids of the calls that it makes and answers, those of them that no host
        answers, and whether it begins a turn of the user's. Return the ranges of the groups that it closes, oldest
        first, the ordinal of its first call within its group, and those of the calls that it answers; -1 for none."""
        open_calls, closed = self._open_calls, list[tuple[int, int]]()
        if open_calls is None and not calls:  # most messages are a group by themselves
            self.start, self.position = self.position, self.position + 1
            return [(self.start, self.position)], -1, [-1] * len(answers)
        if open_calls is None or not self._joins(open_calls, calls, answers, turn):
            closed += [] if open_calls is None else [(self.start, self.position)]
            self.start, self._open_calls = self.position, (open_calls := OpenCalls())
        first_call, found = open_calls.take(calls, answers, held)
        if len(open_calls.left) == 1 or (calls and len(open_calls.left) == 2):
            self._run = self.position
        self.position += 1
        if not open_calls.open or (not calls and (turn or None in found)):
            closed.append((self.start, self.position))
            self._open_calls = None
        return closed, first_call, [-1 if place is None else place[1] for place in found]

    def _joins(self, open_calls: OpenCalls, calls: Sequence[str], answers: Sequence[str], turn: bool) -> bool:
        """Whether a message answers a call of the open group, is split from a call line, or comes while one is held."""
        if open_calls.waits_for(open_calls.held):
            return self.position - self.start < MAX_TURN and (not turn or open_calls.waits_for(answers))
        if calls and len(open_calls.left) > 1 and self.position - self._run >= MAX_HELD:
            return False
        return open_calls.waits_for(answers) or (bool(calls) and not answers and not open_calls.answered)


# -- segments

# A cut is taken where the group's digest is divisible by these; the rarer one follows any group, the other a turn.
_TURN, _GROUP, _LATE_GROUP = 8, 32, 4


class Segment(NamedTuple):
    """A leaf of the tree: entries `start` up to `stop`, or one of several `parts` of a group too large for one."""

    start: int
    stop: int
    size: int  # estimated tokens, of the whole range
    part: int = 0
    parts: int = 1
    is_early: bool = False  # a view, or a number of messages, has ended it before it was full


class SegmentCutter:
    """Cuts a growing run of closed groups into segments, one group at a time; O(1). A view ends one early by
    `MessageLog.close_segment`."""

    def __init__(self, cuts: tuple[int, int, int, int], start: int = 0) -> None:
        self._cuts = cuts  # the least, the usual and the largest size, in estimated tokens; messages, 0 for any number
        self._start = self._stop = start  # of the open segment
        self._size = 0

    def add(self, start: int, group: Sequence[Entry], *, ends: bool) -> list[Segment]:
        """Take the next closed group, from entry `start` on, and return the segments that are thereby cut, oldest
        first. Where it `ends` the segment, a view has closed that behind it."""
        (least, target, most, every), stop, first = self._cuts, start + len(group), group[0]
        size, digest = first.facts.size, first.digest
        if len(group) > 1:
            size = sum([one.facts.size for one in group])
            digest = hashlib.sha256(b"".join(one.digest for one in group)).digest()
        cut: list[Segment] = []
        chance, before = digest[-1], self._size
        ends_before = before >= least and first.facts.human and (before >= target or chance % _TURN == 0)
        if before and (ends_before or before + size > most):
            cut.append(self._close())
        if size > most:  # in parts; a quarter of each is left free for the labels of rendering
            self._start = self._stop = stop
            parts = -(-size * 5 // (4 * most))
            return cut + [Segment(start, stop, size, part, parts) for part in range(parts)]
        self._size += size
        self._stop = stop
        if self._size >= least and chance % (_GROUP if self._size < target else _LATE_GROUP) == 0:
            cut.append(self._close())
        elif self._size and (ends or 0 < every <= stop - self._start):
            cut.append(self._close(is_early=True))
        return cut

    def _close(self, *, is_early: bool = False) -> Segment:
        segment = Segment(self._start, self._stop, self._size, is_early=is_early)
        self._start, self._size = self._stop, 0
        return segment


class Cut(NamedTuple):
    """How far a view covers the log."""

    leaves: int  # segments
    leaves_stop: int  # entries in them
    stop: int  # entries; those after `leaves_stop` stand in the open segment


def cut_at(segments: Sequence[Segment], stop: int) -> Cut:
    """The cut at `stop`, with as many whole segments as stand before it."""
    leaves = bisect_right(segments, stop, key=lambda segment: segment.stop)
    while leaves and segments[leaves - 1].part + 1 < segments[leaves - 1].parts:  # it is covered with all parts
        leaves -= 1
    return Cut(leaves, segments[leaves - 1].stop if leaves else 0, stop)


@dataclass(eq=False)
class Sources:
    """Writes a session's entries down for a summarizer, in the process, or, with `redact`, outside of it."""

    redact: Redact | None = None
    _: KW_ONLY
    numbered: bool = False
    thinking: bool = False  # with what the agent thought
    yield_now: YieldNow = never_yield  # called all along by a thread that writes
    _pieces: tuple[str, Sequence[str]] = ("", ())  # of the large group that was read last, with its name

    def text(self, segment: Segment, group: str, entries: Sequence[Entry]) -> str:
        """Return the text of a segment, in any thread; `group` names what its entries say, and the parts."""
        if segment.parts == 1:
            return self.render(entries)
        known, pieces = self._pieces
        if known != group:
            pieces = cut_evenly(self.render(entries), segment.parts, self.yield_now)
            self._pieces = group, pieces
        return pieces[segment.part] or THOUGHT_ONLY  # a large group may be thinking for the most part

    def render(self, entries: Sequence[Entry]) -> str:
        """Return entries, written down. `redact` reads each message as a whole before, and all of them as written."""
        redact, readings = self.redact, list[Reading]()
        for entry in entries:
            self.yield_now(len(entry.data))
            read = entry.read(0)
            readings.append(read.reading if redact is None else redact_reading(read.message, read.reading, redact))
        how: dict[str, Any] = {"numbered": self.numbered, "thinking": self.thinking, "yield_now": self.yield_now}
        text: str = encodable(render_messages(readings, **how))
        return text if redact is None else redact(text)


# -- how views show a group

# Each result stands right after its call. What a provider would refuse is put right in the view: named, counted, never
# in the log. Calls without a result get a stand-in result; a result that came too late, or for no call, is a fenced
# note; a message that answers calls of several messages is shown split. Split call lines behind one that waits are
# held back. An ephemeral message, and an interruption, give up the open calls where they stand, in the view only. Of a
# pair that no host makes, both halves are shown as they came, in the order of the log, or neither.

Repair = Literal[
    "shrunk",
    "stand_in_result",
    "late_result_note",
    "split_results",
    "content_none",
    "surrogates_replaced",
    "thinking_dropped",
    "chain_dropped",
    "pair_dropped",
    "pin_note",
]

NOTES: frozenset[Repair] = frozenset({"late_result_note", "pin_note"})  # fenced texts
_PAIR_LEFT_OUT = "[a call without its result is left out]"
NO_RESULT = "[no result of this call was recorded]"


class Piece(NamedTuple):
    """One message as it is to be shown, or an interruption: the place where a view has given up the open calls."""

    seq: int  # of the log entry that it shows, that made it necessary, or that it stands before
    message: Message  # empty for an interruption
    repairs: tuple[Repair, ...] = ()
    passing: int = -1  # tokens of an ephemeral message


class LogGroup(NamedTuple):
    """Messages of a group, and what a view has to know of them."""

    reads: Sequence[PlacedMessage]  # with their costs
    staying: Collection[int] = ()  # log entries that must stay whole
    passing: Sequence[Piece] = ()  # ephemeral messages and interruptions that came between or behind them


def _show_group(group: Sequence[PlacedMessage], *, closed: bool) -> list[Piece]:
    """The pieces of a group in the order of the view. Those of an open group are a prefix of what it will show."""
    head, *others = [read.reading for read in group]
    parts = [part for reading in others for part in reading.parts]
    ids = {part.id for part in parts if part.kind == "result" and not part.whole}
    is_plain = not head.answers and not (others and any(part.half and part.whole for part in head.parts))
    is_plain = is_plain and all(reading.answers for reading in others)
    if is_plain and len(parts) == len(ids) == len(head.calls) and ids == set(head.calls):
        # no calls, or a result of each right behind them and nothing else
        return [Piece(read.seq, read.message) for read in group]
    if closed and (alone := _alone(group)):
        left = [_without(read, alone) for read in group]
        cut = {read.seq for read, before in zip(left, group, strict=True) if read is not before}
        pieces = _show_group(left, closed=True)
        return [each._replace(repairs=(*each.repairs, "pair_dropped")) if each.seq in cut else each for each in pieces]
    open_calls, deferred = OpenCalls(), list[Piece]()
    # each message with calls: notes of what it answers too late, itself, and what answers it; and its calls by ordinal
    units: list[tuple[list[Piece], dict[int, Part]]] = []
    in_order = any(read.reading.held for read in group)  # a pair is shown that no host makes
    for read in group:
        parts = [part for part in read.reading.parts if part.kind != "extra"]  # these go with what they stand beside
        answers, made = set(read.reading.answers), set(read.reading.calls)
        results = [part for part in parts if part.half == "result" and part.id in answers]
        calls = [part for part in parts if part.half == "call" and part.id in made]
        first, places = open_calls.take([part.id for part in calls], [part.id for part in results], read.reading.held)
        found = [(part, at) for part, at in zip(results, places, strict=True) if part.kind == "result"]
        answered = sorted({place[0] for _, place in found if place is not None})
        orphans = [part for part, place in found if place is None]
        rest = any(part.kind != "result" for part in parts) or bool(made)
        if len(answered) == 1 and not orphans and not made and not (rest and open_calls.left[answered[0]]):
            units[answered[0]][0].append(Piece(read.seq, read.message))
            continue
        for unit in answered:
            blocks = {part.block for part, place in found if place is not None and place[0] == unit}
            units[unit][0].append(_split(read, blocks, calls=False))
        pieces = [note(read, orphans)] if orphans else []
        if not found:
            pieces.append(Piece(read.seq, read.message))
        elif rest:
            pieces.append(_split(read, {part.block for part in parts} - {part.block for part, _ in found}))
        if (rest or not found) and (calls or in_order):
            units.append((pieces, {first + n: part for n, part in enumerate(calls)}))
        else:
            deferred += pieces

    shown, waiting = list[Piece](), open_calls.unanswered()
    lost = waiting | open_calls.given_up
    for pieces, ordinals in units:
        shown += pieces
        if not closed and not waiting.isdisjoint(ordinals):
            return shown
        shown += _stand_ins(pieces[0].seq, [part for ordinal, part in ordinals.items() if ordinal in lost])
    return shown + deferred if closed else shown


def show_groups(groups: Sequence[LogGroup], *, closed: bool) -> list[list[Piece]]:
    """The pieces of groups, each with what passed within it, which ends open calls. Only the last may be open."""
    shown: list[Piece] = []
    ends = [0]
    for group in groups:
        start, is_closed = 0, closed or group is not groups[-1]
        shown += [] if group.passing else _show_group(group.reads, closed=is_closed)
        for each in (*group.passing, None) if group.passing else ():
            stop, cutter = len(group.reads), GroupCutter(start)
            if each is not None:
                stop = bisect_left(group.reads, each.seq, lo=start, key=lambda read: read.seq)
            for read in group.reads[start:stop] if group.passing else ():  # in groups of their own, one by one
                for first, last in cutter.add(read.reading.calls, read.reading.answers, held=read.reading.held)[0]:
                    shown += _show_group(group.reads[first:last], closed=True)
                    start = last
            if start < stop:
                shown += _show_group(group.reads[start:stop], closed=is_closed or each is not None)
            shown += [each] if each is not None and each.message else []
            start = stop
        ends.append(len(shown))
    shown = present(shown)
    return [shown[start:stop] for start, stop in pairwise(ends)]


def note(read: PlacedMessage, parts: Iterable[Part] | None = None) -> Piece:
    """Results that no call waits for, as a message that anybody may send."""
    said, ids, message = list[str](), list[str](), read.message
    for part in [part for part in (read.reading.parts if parts is None else parts) if part.kind == "result"]:
        ids.append("".join(char for char in part.id if char.isalnum() or char in "-_.:")[:64])
        if not part.whole:
            said += part.texts
            continue
        content = message.get("content") if part.block < 0 else read_block(blocks_of(message)[part.block]).said
        texts = [block for block in content if shape_of(block) is TEXT] if isinstance(content, list) else []
        said += (block if isinstance(block, str) else read_block(block).said for block in texts)
    text = fence("late_result", "\n".join(said), call=" ".join(ids))
    return Piece(read.seq, {"role": "user", "content": text}, ("late_result_note",))


def present(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces as every provider accepts them: content never missing, never null, texts valid Unicode."""
    shown: list[Piece] = []
    for piece, message in zip(pieces, encodable([piece.message for piece in pieces]), strict=True):
        if message != piece.message:
            piece = piece._replace(message=message, repairs=(*piece.repairs, "surrogates_replaced"))
        if message.get("content") is None and content_key(message) == "content":
            piece = piece._replace(message={**message, "content": ""}, repairs=(*piece.repairs, "content_none"))
        shown.append(piece)
    return shown


def _alone(group: Sequence[PlacedMessage]) -> set[str]:
    """The ids of lone halves, of pairs that no host makes, and of the calls that were made from within them."""
    parts = [part for read in group for part in read.reading.parts if part.whole and part.half and part.shape in SHAPES]
    calls, results = ({part.id for part in parts if part.half == half} for half in ("call", "result"))
    alone = (calls ^ results) & {part.id for part in parts if part.kind == "opaque"}
    for read in group if alone else ():
        for block in [*blocks_of(read.message), *(read.message.get("tool_calls") or ())]:
            caller = block.get("caller") if isinstance(block, dict) else None
            if isinstance(caller, dict) and alone & {caller.get("tool_id"), caller.get("caller_id")}:
                alone.add(block.get("call_id") or block.get("id"))
    return alone


def _without(read: PlacedMessage, ids: set[str]) -> PlacedMessage:
    places = {part.block for part in read.reading.parts if part.half and part.id in ids}
    if not places:
        return read
    message = dict(read.message)
    if isinstance(listed := message.get("tool_calls"), list):
        message["tool_calls"] = [call for call in listed if not isinstance(call, dict) or call.get("id") not in ids]
    if -1 in places and is_result(message):
        message = {"role": "user", "content": _PAIR_LEFT_OUT}
    elif blocks := blocks_of(message):
        left = [block for at, block in enumerate(blocks) if at not in places]
        message[content_key(message)] = left or [text_block(message, _PAIR_LEFT_OUT)]
    return PlacedMessage(read.seq, message, read_message(message))


def _split(read: PlacedMessage, blocks: set[int], *, calls: bool = True) -> Piece:
    """The message with only some of its content blocks. A tool message, which has none, stays whole."""
    message = {key: value for key, value in read.message.items() if calls or key != "tool_calls"}
    content, key = blocks_of(message), content_key(message)
    if not content or is_result(message):
        return Piece(read.seq, message)
    chosen = [block for at, block in enumerate(content) if at in blocks]
    return Piece(read.seq, {**message, key: chosen}, ("split_results",))


def _stand_ins(index: int, missing: Sequence[Part]) -> list[Piece]:
    """Results for calls that never got one, in the shape of the calls: those in blocks as one message."""
    pieces: list[Piece] = []
    blocks: dict[str, Message] = {}
    for part in missing:
        answer = result_message(part.shape, part.id, part.name, NO_RESULT, failed=True)
        key = content_key(answer)
        if answer["role"] == "tool":
            pieces.append(Piece(index, answer, ("stand_in_result",)))
        elif part.shape in blocks:
            blocks[part.shape][key] += answer[key]
        else:
            blocks[part.shape] = answer
    lost: Repair = "stand_in_result"
    return pieces + [Piece(index, answer, (lost,) * len(answer[content_key(answer)])) for answer in blocks.values()]
