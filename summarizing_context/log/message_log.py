"""The session in memory: its log, kept up as messages come, and what it is read for as it grows: the ledger,
instruction files (CLAUDE.md and the like), the newest plan, the agent's notes, the human's standing rules.

Appending is O(1) amortised. It knows nothing of how summaries are made, nor of how a store keeps it. All is derived
from the log alone: a log that is loaded, forked or replaced has the same again. What is a fact, a file, a plan or a
rule, and what a rule is about, is read in `extraction`. Cues tell what is a rule until a model has said it.
"""

from __future__ import annotations

import hashlib
import json
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import pairwise, takewhile
from math import inf
from operator import attrgetter
from typing import Any, Literal, NamedTuple, get_args

import anyio
import msgspec

from summarizing_context.errors import MessageError
from summarizing_context.extraction.facts import (
    LOOKS,
    Item,
    Kind,
    ToolRules,
    Touch,
    changes_one,
    decisions,
    numbered_task,
    plan_in_call,
    plan_in_result,
    rank_groups,
    touches_of,
    urls_in,
)
from summarizing_context.extraction.rules import Rule, instruction_files, rule_topic
from summarizing_context.log.entries import (
    LEADING,
    PASSED,
    Bounds,
    Entry,
    GroupCutter,
    LogGroup,
    OpenCalls,
    Piece,
    PlacedMessage,
    Recalled,
    Role,
    Segment,
    SegmentCutter,
    Sources,
    Verdict,
    range_hash,
    read_all,
)
from summarizing_context.messages.reading import Message, Part, parsed, result_message
from summarizing_context.settings import Settings


class Pin(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message, by its place in the log, or a text."""

    id: str
    index: int | None = None
    text: str | None = None
    content: str = ""  # names what the message says


class PinList(msgspec.Struct, frozen=True, omit_defaults=True):
    """The pins of a session, oldest first."""

    pins: tuple[Pin, ...] = ()
    made: int = 0  # pins ever made

    @property
    def texts(self) -> list[Pin]:
        return [pin for pin in self.pins if pin.text is not None]

    @property
    def indexes(self) -> list[int]:
        return [pin.index for pin in self.pins if pin.index is not None]

    def added(self, pin: Pin) -> tuple[PinList, str]:
        """Return the pins with this one too, and its id: that of the same message or text if it is pinned already."""
        for known in self.pins:
            if (known.index, known.text) == (pin.index, pin.text):
                return self, known.id
        id = f"p{self.made + 1}"
        return PinList((*self.pins, msgspec.structs.replace(pin, id=id)), self.made + 1), id

    def without(self, id: str) -> PinList | None:
        rest = tuple(pin for pin in self.pins if pin.id != id)
        return None if len(rest) == len(self.pins) else PinList(rest, self.made)

    def held_by(self, entries: Sequence[Entry]) -> PinList:
        """The pins that hold in a log, each at the nearest message that says the same; an empty log has none."""
        held, places = list[Pin](), defaultdict[str, list[int]](list)
        for index, entry in enumerate(entries if self.pins else ()):
            places[entry.facts.content.hex()].append(index)
        for pin in self.pins if entries else ():
            if (at := pin.index) is None:
                held.append(pin)
            elif found := places.get(pin.content):
                held.append(msgspec.structs.replace(pin, index=min(found, key=lambda place: abs(place - at))))
        return PinList(tuple(held), self.made)


class Foreground:
    """The host's calls of a session, each a `with` of this, and whether a thread reads it. All methods belong to its
    event loop. Calls are counted, never timed, so behaviour does not depend on the speed of the machine."""

    def __init__(self) -> None:
        self._under_way = self._unread = 0  # calls; characters before the next pause
        self.is_frozen = False
        self._thawed = anyio.Event()  # set when the session may change again
        self._later: list[Callable[[], object]] = []

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let a thread read the session: what others would change comes behind it."""
        self.is_frozen, self._thawed = True, anyio.Event()
        try:
            with self:
                yield
        finally:
            self.is_frozen, later, self._later = False, self._later, []
            for change in later:
                change()
            self._thawed.set()

    def change(self, work: Callable[[], object]) -> None:
        """Run what changes the session; behind the thread that reads it."""
        if self.is_frozen:
            self._later.append(work)
        else:
            work()

    async def thawed(self) -> None:
        while self.is_frozen:
            await self._thawed.wait()

    def __enter__(self) -> None:
        self._under_way += 1

    def __exit__(self, *_: object) -> None:
        self._under_way -= 1

    def yield_now(self, characters: int) -> None:
        """Pause while a call is running; one background thread calls this all along, with what it reads next. Without
        it, each step of a call would wait milliseconds for the interpreter lock. The pauses are bounded: 0.2 ms up to
        eight times, for 4,000 characters that the thread reads, about a millisecond."""
        if self._unread <= 0:
            for _ in range(8):
                if self._under_way:
                    time.sleep(0.0002)
            self._unread = 4_000
        self._unread -= characters


# -- what the log is read for

SAID = "said"


class Fact(NamedTuple):
    """One thing that is known of a session, and the messages that it was read off: `start` up to `stop`.

    Of each path, command, URL and identifier one fact holds: the last change, or where there was none the last look; of
    the errors of one command, until it goes well, the last one.
    """

    kind: Kind
    value: str
    operation: str
    start: int
    stop: int
    superseded: bool


COMPACT = "context_compact"  # the tool with which an agent says that a task is done; clients set words before it
MAX_NOTE = 2_000  # characters of what it keeps


class KeptText(NamedTuple):
    """The text of an instruction file, or what the agent kept of a task that it called done, which may be empty."""

    message: int  # that holds it, or says so
    text: str
    name: str = ""  # of the file


class PlanItems(NamedTuple):
    """A plan, and the message that holds it; of a plan made task by task the first message."""

    message: int = -1
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The newest plan or to-do list of a session."""

    text: str  # one line an item, marked `[x]`, `[>]`, `[ ]` or `[-]`
    message: int  # index in the log


class KeptTexts:
    """Instruction files and plans of a growing log."""

    def __init__(self, tools: ToolRules) -> None:
        self._tools = tools
        self._files: dict[str, KeptText] = {}  # the newest, by name
        self._unread: list[tuple[int, Entry]] = []  # messages that may hold files: these may be long
        self._newest = PlanItems()
        self.done_at, self.done = -1, 0  # the newest message that left no item of a plan open; so many have
        self._notes: list[KeptText] = []
        self.ended_at = -1  # the newest message with which the agent has called a task done
        # calls that may write a plan, or end a task, by id until they are answered: message, keys of a plan, arguments
        self._waiting: dict[str, tuple[int, tuple[str, ...], str]] = {}

    def add(self, index: int, entry: Entry) -> None:
        facts, data = entry.facts, entry.data
        if facts.rare.may_hold_files:
            self._unread.append((index, entry))
        if not (facts.calls or facts.answers):
            return
        takes_part = entry.fresh is not None or not self._waiting.keys().isdisjoint(facts.answers)
        if facts.calls and not takes_part:  # the name of a tool that plans, or ends a task, may stand in its bytes
            has = data.lower().__contains__
            takes_part = has(COMPACT.encode()) or any(all(map(has, name)) for name in self._tools.plan_words)
        for part in entry.read(index).reading.parts if takes_part else ():
            if part.kind == "call":
                keys = self._tools.plan_keys(part.name)
                if keys or (part.name.endswith(COMPACT) and facts.role is Role.ASSISTANT):
                    self._waiting[part.id] = index, keys, "".join(part.texts)
            elif part.kind == "result" and (call := self._waiting.pop(part.id, None)) and not part.failed:
                if call[1]:
                    self._take_plan(index, "\n".join(part.texts), *call)
                    continue
                given = parsed(call[2] or "{}")
                kept = (given.pop("keep", None) or "") if isinstance(given, dict) else None
                # the tool refuses other arguments, so these calls end nothing
                if isinstance(kept, str) and len(kept) <= MAX_NOTE and all(one in (None, "") for one in given.values()):
                    self._notes.append(KeptText(call[0], kept.strip()))
                    self.ended_at = call[0]

    def _take_plan(self, index: int, said: str, made_by: int, keys: tuple[str, ...], arguments: str) -> None:
        """Take the plan that a call has written, or that the result at `index` tells."""
        before = self._newest
        if (items := plan_in_call(arguments, keys, before.items)) is not None:
            index = made_by
            if changes_one(keys):
                items = numbered_task(said, items) or items
        elif (items := plan_in_result(said, keys)) is None:
            return
        if any(item.is_open for item in before.items) and not any(item.is_open for item in items):
            self.done_at, self.done = index, self.done + 1
        goes_on = index == made_by and changes_one(keys) and before.items
        self._newest = PlanItems(before.message if goes_on else index, items)

    def instructions(self, cut: int) -> list[KeptText]:
        """The newest text of each file, where that stands before entry `cut`; in the order of the log."""
        unread, self._unread = self._unread, []
        for index, entry in unread:
            for name, text in instruction_files(entry.read(index).reading):
                self._files[name] = KeptText(index, text, name)
        return sorted((file for file in self._files.values() if file.message < cut), key=lambda file: file.message)

    def notes(self, cut: int) -> list[KeptText]:
        """What the agent kept before entry `cut`, the newest first."""
        return [note for note in reversed(self._notes) if note.text and note.message < cut]

    def plan(self, cut: float = inf) -> PlanItems | None:
        """The newest plan, where that stands before entry `cut`; None where there is none, or where it was emptied."""
        return self._newest if self._newest.items and self._newest.message < cut else None


class StandingRule(NamedTuple):
    """A rule of the human's, and the message it stands in."""

    message: int  # log entry
    quote: str  # verbatim, but for white space
    strength: Literal["must", "prefer"]
    ended_by: int | None = None  # the later message that takes it back or replaces it
    source: Literal["model", "cues"] = "cues"  # who found it


class RuleLog:
    """The rules of a growing log, in its order."""

    def __init__(self) -> None:
        self._by_cues: dict[int, tuple[Rule, ...]] = {}  # by message of a human's
        self.verdicts: dict[int, Verdict] = {}
        self.open = array("i")  # messages on which a model may still be asked

    def add(self, index: int, rules: tuple[Rule, ...], verdict: Verdict | None = None) -> None:
        """The message at `index`, which is newer than all before, with what cues tell, and a model's verdict."""
        self.open.append(index)
        if rules:
            self._by_cues[index] = rules
        if verdict is not None:
            self.judge(index, verdict)

    def judge(self, index: int, verdict: Verdict) -> None:
        """A model has said what the rules of an open message are, or is not asked about it again."""
        del self.open[bisect_left(self.open, index)]
        self.verdicts[index] = verdict
        if verdict.rules or verdict.ends:
            self._by_cues.setdefault(index, ())

    def all(self, cut: float = inf) -> list[StandingRule]:
        """Return every rule in the order of the log, each with the message that ends it: a model says so, or a later
        rule repeats it, or rules on the same. What was said from entry `cut` on counts for nothing."""
        found: list[StandingRule] = []
        ends: dict[str, int] = {}  # by quote, the next message with which a model says that it ends
        later: dict[tuple[str, str], int] = {}  # the message of the next rule by what it is about
        for index in sorted((index for index in self._by_cues if index < cut), reverse=True):
            verdict = self.verdicts.get(index, PASSED)
            source: Literal["model", "cues"] = "model" if verdict.given else "cues"
            rules = verdict.rules if verdict.given else self._by_cues[index]
            for rule in reversed(rules):
                topic, quote = rule_topic(rule.quote), " ".join(rule.quote.split()).casefold()
                about = [one for one in (("quote", quote), ("order", topic.order), ("choice", topic.choice)) if one[1]]
                end = ends.get(rule.quote, min((later[one] for one in about if one in later), default=None))
                found.append(StandingRule(index, rule.quote, rule.strength, end, source))
                later.update(dict.fromkeys(about, index))
            ends |= dict.fromkeys(verdict.ends, index)
        return found[::-1]

    def before(self, cut: int) -> list[StandingRule]:
        """Those that hold and stand in messages before `cut`, the newest first."""
        return [rule for rule in reversed(self.all()) if rule.ended_by is None and rule.message < cut]

    def facts(self) -> list[Fact]:
        rows = ((rule.quote, rule.message, rule.ended_by is not None) for rule in self.all())
        return [Fact("constraint", quote, SAID, at, at + 1, is_ended) for quote, at, is_ended in rows]


# -- the log

_FRESH = 64  # entries that are kept parsed: more than come between two views


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A tool call that has no result yet.

    `message` is the index in the log of the message that makes it. `arguments` are the JSON value that the model wrote,
    or its text where that is no JSON. `block` is the type of the content block that makes the call, such as `tool_use`;
    empty for a call in `tool_calls`.
    """

    message: int
    id: str
    name: str
    arguments: Any
    block: str = ""

    def result(self, content: str | list[Any]) -> Message:
        """Return the message that answers the call, in the shape in which the call was made, for `add_message`.

        Raise `MessageError` for a content that is neither a text nor a list of blocks.
        """
        if not isinstance(content, str | list):
            raise MessageError(f"the result of a call is {type(content).__name__}; give a text or a list of blocks")
        return result_message(self.block, self.id, self.name, content)


# What becomes of signed thinking of the open turn once its beginning is rewritten: it stays until the turn ends; it
# stays and the request asks the provider to drop it; or it is left out at once. Where it is free, no message needs it.
# Where it is needed, it is kept, also behind results that a human has spoken behind: providers refuse to go on without.
BoundThinking = Literal["kept", "needed", "asked", "left_out", "free"]


@dataclass(eq=False)
class MessageLog:
    """A growing log. `fill` adds to it, `replace` makes it another one."""

    settings: Settings
    _: KW_ONLY
    keep_system: bool = True  # else system rows between others stay only as long as other rows do
    every: int | None = None  # messages after which a segment ends at the latest
    foreground: Foreground = field(default_factory=Foreground)
    verdicts: dict[bytes, Verdict] = field(default_factory=dict)  # what a model said of rules, by messages

    def __post_init__(self) -> None:
        self._sources = Sources(thinking=self.settings.summarize_thinking)
        self.tools = ToolRules(self.settings.ledger_rules)
        self.version = 0  # how often the log was replaced
        self.bound_thinking: BoundThinking = "kept"
        self.pinned = PinList()  # by a call
        sizes = self.settings.segment_min, self.settings.segment_target, self.settings.segment_max
        self.begin((), (*sizes, self.every or 0))
        self.entries: list[Entry] = []
        self.ephemeral: list[tuple[int, Entry]] = []  # what passes, each before the entry of this index
        self.pages = 0  # of these, pages of the past; the others are the host's ephemeral messages
        self.interruptions: list[int] = []  # views have given up the calls that were open before these entries
        self.loaded = 0  # entries whose calls no host of this process is running
        self.history_tokens = 0  # cost of the whole log, ephemeral messages included
        self.leading_count = 0  # system and developer rows at the beginning
        self.tokens = array("q", [0])  # cost of the first n entries
        self.segments: list[Segment] = []
        self.hashes: list[str] = []  # range hash of each segment
        self.group_ends = array("i", [0])  # where closed groups end, the last one too, and the leading rows before them
        self.humans = array("i")  # entries that a person wrote
        self.steps = array("i")  # assistant rows; of several in a row, the first
        self.marked = array("i")  # critical messages, and system and developer rows between others
        self.states: dict[str, list[int]] = {}  # by what holds from these entries on
        self.rules = RuleLog()
        self.kept_texts = KeptTexts(self.tools)
        self._groups = GroupCutter()

    def begin(self, closings: Iterable[int], cuts: tuple[int, int, int, int]) -> None:
        """Have the log, which is still empty, cut into segments as by an earlier process: in these sizes, and before
        entries where a view has ended a segment that was open."""
        self.closings, self.cuts, self._cutter = set(closings), cuts, SegmentCutter(cuts)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def messages(self) -> int:
        """The host's messages, ephemeral ones included."""
        return len(self.entries) + len(self.ephemeral) - self.pages

    @property
    def name(self) -> tuple[int, int, int]:
        """What names the log as it stands."""
        return self.version, len(self.entries), self.messages + len(self.interruptions)

    @property
    def covered_by_segments(self) -> int:
        """Entries that stand in closed segments or before them."""
        return self.segments[-1].stop if self.segments else self.leading_count

    @property
    def newest_group(self) -> tuple[int, int]:
        """Entries of the newest group, open or closed; none if the log has no groups."""
        ends, stop = self.group_ends, len(self.entries)
        return ends[-2 if ends[-1] == stop and len(ends) > 1 else -1], stop

    def group_start(self, index: int) -> int:
        """First entry of the group that an entry stands in."""
        at = bisect_right(self.group_ends, index)
        return self.group_ends[at - 1] if at else index

    def group_stop(self, start: int) -> int:
        """Where the group ends that begins at entry `start`; one that is still open ends with the log."""
        at = bisect_right(self.group_ends, start)
        return self.group_ends[at] if at < len(self.group_ends) else len(self.entries)

    def thinking_from(self, length: int) -> float:
        """The message that an answer to the first `length` messages goes on from, whose thinking a provider may want
        back: the newest assistant row, or the first of several in a row; none where it is free."""
        steps = bisect_left(self.steps, length)
        return inf if self.bound_thinking == "free" else self.steps[steps - 1] if steps else -1

    def bounds(self) -> Bounds:
        """What was said before a beginning that is rewritten now. The turn of the newest human message may go on."""
        settled = self.humans[-1] if self.humans else 0
        step = self.steps[-1] if self.steps and self.bound_thinking in ("needed", "asked") else len(self.entries)
        if any(entry.facts.answers for entry in self.entries[step : settled + 1]):  # the turn of one before goes on
            settled = next((human for human in reversed(self.humans) if human < step), 0)
        return Bounds(len(self.entries), len(self.entries) if self.bound_thinking == "left_out" else settled)

    def fill(self, entries: Iterable[Entry]) -> MessageLog:
        """Add messages at the end, in one step, while no thread reads the log. Return the log."""
        held, image_tokens, assistant = self.entries, self.settings.image_tokens, Role.ASSISTANT
        for entry in entries:
            facts, index, before = entry.facts, len(held), held[-1].facts.role if held else None
            role, human, rare, cost = facts.role, facts.human, facts.rare, entry.cost(image_tokens)
            self.history_tokens += cost
            if rare.ephemeral:
                entry.fresh = None
                self.ephemeral.append((index, entry))
                continue
            held.append(entry)
            self.tokens.append(self.tokens[-1] + cost)
            if index >= _FRESH:  # a long session is kept as bytes
                held[index - _FRESH].fresh = None
            is_leading = role in LEADING
            if is_leading and index == self.leading_count:
                self.leading_count = self.group_ends[0] = stop = index + 1
                self._groups, self._cutter = GroupCutter(stop), SegmentCutter(self.cuts, stop)
                continue
            closed, first_call, answered = self._groups.add(facts.calls, facts.answers, turn=human, held=rare.held)
            digest = facts.content
            if first_call >= 0 or answered:  # with its place in the group: the first call, and those that it answers
                places = ",".join(map(str, (first_call, *answered)))
                digest = hashlib.sha256(digest + places.encode()).digest()
            entry.digest = digest  # in one step, for another log may hold the entry too
            if human:
                self.humans.append(index)
                self.rules.add(index, rare.rules, self.verdicts.get(entry.data) if self.verdicts else None)
            if role is assistant and before is not assistant:
                self.steps.append(index)
            if rare.critical or (is_leading and self.keep_system and not rare.hook):
                self.marked.append(index)
            for name in rare.state:
                self.states.setdefault(name, []).append(index)
            for start, stop in closed:
                self.group_ends.append(stop)
                self._cut(start, stop)
            self.kept_texts.add(index, entry)
            if entry.recalled is not None:
                self.recall(entry.recalled)
        return self

    def recall(self, recalled: Recalled) -> None:
        """Have views show a page of the past behind the newest message."""
        self.entries[-1].recalled = recalled
        self.ephemeral.append((len(self.entries), recalled.page))
        self.pages += 1

    def _cut(self, start: int, stop: int) -> None:
        for segment in self._cutter.add(start, self.entries[start:stop], ends=stop in self.closings):
            digests = [one.digest for one in self.entries[segment.start : segment.stop]]
            self.segments.append(segment)
            self.hashes.append(range_hash(digests, segment.part, segment.parts))

    def close_segment(self, stop: int, *, cuts_anew: bool = False) -> None:
        """End the open segment before entry `stop`, where a group of it ends. A closed one stays, or is cut anew."""
        while cuts_anew and self.covered_by_segments > stop:
            del self.segments[-1], self.hashes[-1]
        start, ends = self.covered_by_segments, self.group_ends
        if not start < stop <= self.group_ends[-1] or self.group_start(stop) != stop:
            return
        self.closings.add(stop)
        self._cutter = SegmentCutter(self.cuts, start)
        for first, last in pairwise(ends[bisect_left(ends, start) :]):
            self._cut(first, last)

    def beside(self, log: Sequence[Entry], closings: Iterable[int] | None = None) -> MessageLog:
        """Return an empty log that reads and cuts as this one does, to be filled with `log`. Views have ended segments
        of it at `closings`; None for where they have in what both have in common."""
        if closings is None:
            same = self.common_prefix(log)
            closings = (place for place in self.closings if place <= same)
        other = replace(self)
        other.begin(closings, self.cuts)
        return other

    def replace(self, filled: MessageLog, closings: Iterable[int]) -> int:
        """Become a log that was made by `beside` and filled, with what this one learnt meanwhile: verdicts, and of the
        `closings` those in both. Return where the groups end that both have."""
        same = self.common_prefix(filled.entries)
        for stop in sorted(place for place in {*closings} - filled.closings if place <= same):
            filled.close_segment(stop, cuts_anew=True)
        for index in list(filled.rules.open) if self.verdicts else ():
            if verdict := self.verdicts.get(filled.entries[index].data):
                filled.rules.judge(index, verdict)
        groups_stop = self.group_start(same - 1) if same else 0
        filled.version, filled.loaded = self.version + 1, min(self.loaded, same)
        filled.pinned, filled.bound_thinking = self.pinned.held_by(filled.entries), self.bound_thinking
        filled.interruptions = [place for place in self.interruptions if place <= same]
        vars(self).update(vars(filled))
        return groups_stop

    def judge(self, verdicts: Mapping[bytes, Verdict]) -> list[int]:
        """Take what a model says of the rules in messages, by their bytes; return those of which it says something."""
        judged = [index for index in self.rules.open if self.entries[index].data in verdicts]
        for index in judged:
            data = self.entries[index].data
            self.verdicts[data] = verdicts[data]
            self.rules.judge(index, verdicts[data])
        return [index for index in judged if self.rules.verdicts[index].given]

    def common_prefix(self, log: Sequence[Entry]) -> int:
        """How many durable entries of `log` are those of this one, byte for byte."""
        durable = (entry for entry in log if not entry.facts.rare.ephemeral)
        both = zip(self.entries, durable, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0].data == pair[1].data, both))

    def in_order(self) -> list[Entry]:
        """Every entry of the host's, the ephemeral ones where they stand."""
        own = (row for row in self.ephemeral if not row[1].is_page)
        rows = sorted([*own, *enumerate(self.entries)], key=lambda row: row[0])
        return [entry for _, entry in rows]

    def cost(self, index: int) -> int:
        return self.tokens[index + 1] - self.tokens[index]

    def read(self, start: int, stop: int) -> list[PlacedMessage]:
        """Return log entries, read, each with its cost."""
        return read_all(self.entries[start:stop], start, self.tokens)

    def groups_from(self, start: int, ephemeral: int, most: float) -> list[LogGroup]:
        """The groups from entry `start` on that begin within `most` tokens, each with what passed within it, behind so
        many `ephemeral` messages."""
        stops, last = [start], min(len(self.entries), bisect_left(self.tokens, self.tokens[start] + most))
        while (end := stops[-1]) < last:
            stops.append(self.group_stop(end))
        passing = self.passing(ephemeral, end)
        passing += (Piece(place, {}) for place in self.interruptions_behind(start) if place <= end)
        passing.sort(key=lambda each: each.seq)
        reads, staying = self.read(start, end), self.staying(start, end)
        return [
            LogGroup(reads[at - start : stop - start], staying, [each for each in passing if at < each.seq <= stop])
            for at, stop in pairwise(stops)
        ]

    def passing(self, first: int, stop: int) -> list[Piece]:
        """The ephemeral messages from the `first` on that came before entry `stop`."""
        found = self.ephemeral[first : bisect_right(self.ephemeral, stop, lo=first, key=lambda one: one[0])]
        return [Piece(at, entry.message(), passing=entry.cost(self.settings.image_tokens)) for at, entry in found]

    def open_calls(self) -> list[OpenCall]:
        """The calls that wait for a result of a host, oldest first."""
        found: list[OpenCall] = []
        for index, at in self._waiting():
            reading = self.entries[index].read(index).reading
            part = [part for part in reading.parts if part.half == "call" and part.id in reading.calls][at]
            arguments: Any = part.texts[0] if part.texts else ""
            with suppress(ValueError, RecursionError):
                arguments = json.loads(arguments)
            found.append(OpenCall(index, part.id, part.name, arguments, part.shape))
        return found

    def _waiting(self) -> list[tuple[int, int]]:
        """The same, unread: for each its message, and which of the calls of that it is."""
        waiting, made = OpenCalls(), list[tuple[int, int]]()
        for index, entry in enumerate(self.entries[self.group_ends[-1] :], self.group_ends[-1]):
            made += [(index, at) for at in range(len(entry.facts.calls))]
            waiting.take(entry.facts.calls, entry.facts.answers, entry.facts.rare.held)
        return [made[ordinal] for ordinal in sorted(waiting.unanswered())]

    def interrupt(self) -> None:
        """A request is due: have views give up calls of an earlier process, and calls before a newest message that
        makes calls itself. Those that this process made last may be running: they stay in flight."""
        stop = len(self.entries)
        makes_calls = stop > self.loaded and bool(self.entries[-1].facts.calls)
        place, before = (stop - 1, stop - 1) if makes_calls else (stop, self.loaded)
        known = self.interruptions[-1] if self.interruptions else 0
        if self.group_ends[-1] < before and any(known <= index < before for index, _ in self._waiting()):
            self.interruptions.append(place)

    def interruptions_behind(self, stop: int) -> tuple[int, ...]:
        """The places behind entry `stop` before which views have given up open calls."""
        return tuple(self.interruptions[bisect_right(self.interruptions, stop) :])

    def take_interruptions(self, places: Iterable[int]) -> None:
        """Take those of an earlier process, or of an earlier state."""
        self.interruptions = sorted({*self.interruptions, *(place for place in places if place <= len(self.entries))})

    def render(self, start: int, stop: int) -> str:
        return self._sources.render(self.entries[start:stop])

    def source(self, leaf: int, sources: Sources | None = None) -> Callable[[], str]:
        """What gives the content of a segment, in any thread; `sources` where others than the session's write it."""
        segment = self.segments[leaf]
        entries, first_part = self.entries[segment.start : segment.stop], self.hashes[leaf - segment.part]
        return partial((sources or self._sources).text, segment, first_part, entries)

    def important(self, stop: int, threshold: float) -> list[int]:
        """The groups before entry `stop` that score at least `threshold`, the most important first."""
        return rank_groups([entry.facts.traits for entry in self.entries], self.group_ends, stop, threshold)

    def opening(self, cut: int) -> list[int]:
        """The first request: the user's rows before entry `cut` and the first assistant row, else a human's first."""
        rows = ((at, self.entries[at].facts) for at in range(self.leading_count, min([cut, *self.steps[:1]])))
        found = [at for at, facts in rows if facts.role == Role.USER and not facts.answers]
        return found or [at for at in self.humans[:1] if at < cut]

    def staying(self, start: int, stop: int) -> set[int]:
        """Entries that stay whole in every view if they can: critical ones, and system rows that no hook has put in."""
        return set(self.marked[bisect_left(self.marked, start) : bisect_left(self.marked, stop)])


# -- the ledger

# The version of the log, the entries from and up to which it is read, and the groups, each with the place of its first
Unread = tuple[int, int, int, Sequence[tuple[int, Sequence[Entry]]]]


class Ledger:
    """What tool calls and people have touched, added up: adding costs the same however much there is. Each closed group
    is read once, by the log's table of rules, ahead of need or when a view or a caller needs it."""

    def __init__(self, log: MessageLog) -> None:
        self.log = log
        self._begin((), 0)

    def _begin(self, touches: Iterable[Touch], stop: int) -> None:
        """Add up these touches alone, which all entries before `stop` have."""
        self._stop, self.touches = stop, list[Touch]()
        self.is_red = False  # the newest run of tests failed
        self.end, self.ends = -1, 0  # the newest message whose call has made a commit, or tests pass; so many have
        self._all: dict[tuple[Kind, str, str], Touch] = {}
        self._holding: dict[Kind, dict[str, Touch]] = {kind: {} for kind in get_args(Kind)}  # by value
        self._done: dict[str, Touch] = {}  # by what was tried, its last success
        self._failed: dict[str, int] = {}  # by what was tried, the order of its last error, which replaces those before
        for touch in touches:
            self.add(touch)

    def add(self, touch: Touch) -> None:
        """Note a touch that is later than all before."""
        kind, value, operation = key = touch[:3]
        times = touch.times + (self._all[key].times if key in self._all else 0)
        self._all[key] = latest = touch._replace(order=len(self.touches), times=times)
        self.touches.append(touch)

        # of two touches of one thing a change holds rather than a look, and then the later one
        held = self._holding[kind].get(value)
        if held is None or held.operation in (operation, *LOOKS) or operation not in LOOKS:
            self._holding[kind][value] = latest
        if kind == "error":
            self._failed[touch.about] = latest.order
        if touch.went_well:
            self._done[touch.about] = latest
            if touch.work == "commit" or (touch.work == "tests" and self.is_red):
                self.end, self.ends = touch.start, self.ends + 1
        if touch.work == "tests":
            self.is_red = not touch.went_well

    def facts(self) -> list[Fact]:
        """Return everything that is known of the whole log, its open end included, in the order in which it was done or
        said."""
        self.catch_up()
        stop, found, whole = self.log.group_ends[-1], list[Fact](), Ledger(self.log)
        whole._begin([*self.touches, *self._touches_of(stop, self.log.entries[stop:])], stop)
        for touch in sorted(whole._all.values(), key=attrgetter("order")):
            kind, value, operation, start, stop = touch[:5]
            superseded = whole._holding[kind][value] is not touch
            if kind == "error":
                fixed = whole._fixed_at(touch)
                superseded = fixed is None and whole._failed[touch.about] > touch.order
                operation, stop = ("open", stop) if fixed is None else ("fixed", fixed)
            found.append(Fact(kind, value, operation, start, stop, superseded))
        return found

    def newest(self, stop: int, most: int) -> dict[Kind, list[Touch]]:
        """Return what holds of each thing, by kind, the latest first: of the `most` latest of a kind those from before
        entry `stop`, and of errors those that are not fixed. What was touched again from `stop` on is left out."""
        found: dict[Kind, list[Touch]] = {}
        for kind, holding in self._holding.items():
            latest = sorted(holding.values(), key=attrgetter("order"), reverse=True)[:most]
            found[kind] = [touch for touch in latest if touch.start < stop]
        errors = (error for error in found["error"] if self._failed[error.about] == error.order)
        found["error"] = [error for error in errors if self._fixed_at(error) is None]
        return found

    def _fixed_at(self, error: Touch) -> int | None:
        """Return where what an error is about had gone well again, by itself or as part of more; None if it has not."""
        words = error.about.split(" ")[:12]
        wider = [" ".join(words[:count]) for count in range(len(words) - 1, 1, -1)]  # `go test ./pkg` of `... TestA`
        done = (self._done.get(about) for about in (error.about, *wider))
        return next((one.stop for one in done if one is not None and one.order > error.order), None)

    @property
    def lag(self) -> int:
        """Tokens that have not been read yet. Until it is 0, a ledger tells only part of the closed groups."""
        return self.log.tokens[self.log.group_ends[-1]] - self.log.tokens[self._stop]

    def unread(self, most: float = inf) -> Unread:
        """Return what has not been read yet, the oldest groups of about `most` tokens."""
        log, ends = self.log, self.log.group_ends
        last = bisect_left(ends, bisect_left(log.tokens, log.tokens[self._stop] + most)) + 1
        ends = ends[bisect_left(ends, self._stop) : last + 1]
        groups = [(start, log.entries[start:stop]) for start, stop in pairwise(ends)]
        return log.version, self._stop, ends[-1], groups

    def read(self, unread: Unread) -> list[Touch]:
        """Return what these groups say, in any thread."""
        return [touch for first, group in unread[-1] for touch in self._touches_of(first, group)]

    def take(self, unread: Unread, touches: Sequence[Touch]) -> None:
        """Note what was read, unless it was read meanwhile or the log was replaced."""
        version, start, stop, _ = unread
        if (version, start) == (self.log.version, self._stop):
            self._stop = stop
            for touch in touches:
                self.add(touch)

    def keep(self, stop: int) -> None:
        """Forget what was read off entry `stop` and those after it, for the log was replaced."""
        self._begin([touch for touch in self.touches if touch.stop <= stop], min(self._stop, stop))

    def catch_up(self, most: float = inf) -> None:
        """Read all closed groups; none where that are more than `most` tokens: it stays as far as it was read ahead."""
        if self.lag <= most:
            unread = self.unread()
            self.take(unread, self.read(unread))

    def _touches_of(self, start: int, group: Sequence[Entry]) -> list[Touch]:
        """Return what a group, whose first message stands at `start`, did and said, in order."""
        if not any(entry.facts.human or entry.facts.calls for entry in group):
            return []
        found, open_calls = list[Touch](), OpenCalls()
        calls, results = list[tuple[int, Part]](), dict[int, tuple[int, Part]]()  # of each call the last
        for at, reading in ((at, entry.read(at).reading) for at, entry in enumerate(group, start)):
            for text in reading.typed:
                found += (Touch("decision", quote, SAID, at, at + 1) for quote in decisions(text[:20_000]))
                found += (Touch("url", url, "seen", at, at + 1) for url in urls_in(text))

            # the calls, each with its result
            if made := [part for part in reading.parts if part.kind == "call"]:
                open_calls.make([part.id for part in made])
                calls += ((at, part) for part in made)
            for part in reading.parts:
                if part.kind == "result" and (answered := open_calls.answer(part.id)) is not None:
                    results[answered[1]] = at, part
        for number, (at, call) in enumerate(calls):
            last, result = results.get(number, (at, None))
            touches = touches_of(call, result, self.log.tools)
            found += (touch._replace(start=at, stop=last + 1) for touch in touches)
        return sorted(found, key=attrgetter("start"))
