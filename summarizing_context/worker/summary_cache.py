"""The tree of summaries, and what stands for each node of it: the summaries that are ready, and extractive ones where
none is.

A header shows the past in less and less detail: the newest segments each by itself, older ones in merges of four, and
one wide merge of all before. Each merge of four is made once; the wide one reads those, and larger blocks of the deep
past. A fact passes through at most floor(log4 segments) + 1 summarizations.

In memory only; never waits. The worker adds what it makes; the view asks for texts. Reading a source is counted
as seen, so that `unseen_tokens` can prove that no text left the raw tail unread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from math import inf
from typing import Literal, NamedTuple

from summarizing_context.errors import SettingsError
from summarizing_context.log.entries import cut_at, rollup_hash
from summarizing_context.log.message_log import MessageLog
from summarizing_context.messages.rendering import render_children
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.settings import SUMMARIES_PER_SEGMENT
from summarizing_context.summarizers.extractive import cut_to, lines_about, skim, summarize_extractively

FOUR = 4  # segments of the smallest merge
BLOCKS = (FOUR, *(FOUR**power for power in range(3, 10)))  # segments of a block: 4, 64, 256, 1,024 and so on
BEHIND = 0.3  # of a header's target: about what the leaves behind a new merge take
MERGED = 0.6  # of a header's target, that merges take before the wide one moves on
FRAME = 20  # tokens of a block around its text


class Node(NamedTuple):
    """One place in the tree: the segments from `start` up to `stop`. One segment is a leaf; a block has 4, 64, 256 or
    more of them and begins at a multiple of its size; any other node is a wide merge."""

    start: int
    stop: int

    @classmethod
    def leaves(cls, start: int, stop: int) -> list[Node]:
        return [cls(segment, segment + 1) for segment in range(start, stop)]

    @property
    def width(self) -> int:
        return self.stop - self.start

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes that it merges, oldest first: leaves where fewer than 16, else the largest blocks that fit."""
        sizes, found, at = BLOCKS if self.width >= FOUR**2 else (), list[Node](), self.start
        while at < self.stop and self.width > 1:
            fitting = [size for size in sizes if at % size == 0 and at + size <= self.stop and size != self.width]
            found.append(Node(at, at + max(fitting, default=1)))
            at = found[-1].stop
        return tuple(found)


@lru_cache(4_096)
def rank_of(node: Node) -> int:
    """0 for a leaf, one more than its largest child's for a merge."""
    return 0 if node.width == 1 else 1 + rank_of(max(node.children, key=lambda child: child.width))


def merge_share(node: Node) -> float:
    """The part of its source that a merge may take: more where that is merged already, or of few segments."""
    return 0.35 if rank_of(node) == 1 and node.width >= FOUR else 0.75


class Want(NamedTuple):
    """A summary that is missing."""

    node: Node
    hash: str


def by_four(rests: dict[int, float], target: float) -> dict[int, float]:
    """Those places that are multiples of four; all where these leave too little behind the merges, or too much."""
    fours = {stop: rest for stop, rest in rests.items() if stop % FOUR == 0}
    return fours if any(0 < rest <= 2 * BEHIND * target for rest in fours.values()) else rests


class HeaderPlace(NamedTuple):
    """What one view shows of the tree."""

    merges: tuple[Node, ...]  # oldest first
    start: int  # of the first segment that stands by itself
    target: float  # tokens above which it merges more


def next_merges(place: HeaderPlace, tokens: Callable[[Node], int | None], segments: int) -> list[Node]:
    """The merges that `views.header` will show when it has outgrown its target; none while that is far. `tokens` tells
    those of a summary; None while it is not ready. Before all segments that may fill the target have one, nothing is
    foreseen: what is asked of a model depends on the log alone, not on which summary is ready first."""
    merges, start, target = place
    before = sum((tokens(node) or 0) + FRAME for node in merges)
    rests, rest = dict[int, float](), 0.0
    for segment in range(segments - 1, start - 1, -1):
        if before + rest > target:
            break
        rests[segment + 1] = rest
        if (size := tokens(Node(segment, segment + 1))) is None:
            return []
        rest += size + FRAME
    if before + rest <= target and merges:
        rests[start] = rest
    stops = by_four(rests, target)
    if not stops or before + rest < 0.75 * target:  # of the target, from which on the next merge is made
        return []
    wanted = BEHIND * target - max(0.0, target - before - rest)  # what is still to come will stand behind it too
    stop = min(stops, key=lambda stop: abs(stops[stop] - wanted))
    if stop % FOUR or start % FOUR:
        return [Node(0, stop)]
    small = [Node(at, at + FOUR) for at in range(start, stop, FOUR)]
    sizes = [size + FRAME for node in small if (size := tokens(node)) is not None]
    return [Node(0, stop)] if len(sizes) == len(small) and before + sum(sizes) > MERGED * target else small


def merges_below(nodes: Iterable[Node]) -> Iterator[Sequence[Node]]:
    """These nodes with all merges that they are made of, rank by rank from the lowest."""
    found, left = set[Node](), list(nodes)
    while left:
        if (node := left.pop()).width > 1 and node not in found:
            found.add(node)
            left += node.children
    for _, merges in groupby(sorted(found, key=lambda node: (rank_of(node), node)), rank_of):
        yield list(merges)


Maker = Literal["model", "extractive", "verbatim", "stand-in", "provisional", "provider", "none"]


class NodeText(NamedTuple):
    """What stands for a node, who made it, and through how many summarizations its oldest fact went."""

    text: str
    made_by: Maker
    passes: int


class HeaderNode(NamedTuple):
    """One block of a header."""

    rank: int  # -1 for a line, a note or a provisional node, which stand outside the tree
    number: int  # of its first segment
    start: int  # first log entry
    stop: int
    form: Literal["full", "brief", "line", "note"]
    made_by: Maker
    passes: int
    text: str  # as shown
    tokens: int = 0  # of its block
    segments: int = 0  # that it stands for; 0 outside the tree

    @property
    def name(self) -> str:
        """As its fence names it: its first and its last message."""
        return f"{self.start}-{self.stop - 1}"

    @property
    def node(self) -> Node | None:
        """Its place in the tree; None outside of it."""
        return Node(self.number, self.number + self.segments) if self.rank >= 0 else None


def stand_ins(nodes: Iterable[HeaderNode], but: Sequence[HeaderNode] = ()) -> int:
    """How many blocks, of those not among `but`, the extractive pass made until a summary takes their place."""
    return sum(node.made_by in ("stand-in", "provisional") and node not in but for node in nodes)


def notes(nodes: Iterable[HeaderNode]) -> list[str]:
    return [node.text for node in nodes if node.form == "note"]


# -- what stands for the nodes

_FULL_READ = 40_000  # estimated tokens that one activation may have extracted at leisure; beyond that it skims
_LEAST_MERGE = 40  # tokens of an extractive one
_MOST_TOPIC = 500  # characters
_NOTE_READ = 64_000  # tokens of the covered past, the newest, that a note is made from


_CAPS = (  # below this room: a summary, a merge
    (12_000, 400, 800),
    (24_000, 800, 1_600),
    (48_000, 1_000, 3_000),
    (inf, 1_000, 4_000),
)

HEADER_TARGET = 0.36  # share of room of the header above which the oldest summaries are merged into one


class Focus(NamedTuple):
    """A topic, and the log entries that its note was made from."""

    text: str
    start: int
    stop: int


def check_focus(focus: object) -> str:
    """Return a topic on one line. Raise `SettingsError` for what names none."""
    if not isinstance(focus, str):
        raise SettingsError(f"focus is {type(focus).__name__}; it is a text that names a topic, or None")
    line = " ".join("".join(char if char.isprintable() else " " for char in focus).split())
    if not any(char.isalnum() for char in line):
        raise SettingsError("focus names nothing; write the topic that the summaries must keep, or leave it out")
    if len(line) > _MOST_TOPIC:
        raise SettingsError(f"focus has {len(line)} characters; allowed: up to {_MOST_TOPIC}, so name the topic alone")
    return line


class SummaryCache:
    """Texts of nodes. `maker` is who makes the summaries of this session: a model, or the extractive pass."""

    def __init__(self, log: MessageLog, *, maker: Maker) -> None:
        self._log, self._settings = log, log.settings
        self._maker, self.by_model = maker, maker == "model"
        self.keep((), log.settings.max_tokens)  # while the room of no view is known
        self.is_near = False  # the next view may cover every segment: what it may show is made ahead

        # by range hash: summaries, of which the first for a hash stays; what merges take where none could be had;
        # extractive ones of segments, until a summary is ready
        self._ready: dict[str, NodeText] = {}
        self._given_up: dict[str, NodeText] = {}
        self._stand_ins: dict[str, NodeText] = {}
        self._merged: dict[Node, NodeText] = {}  # extractive merges, until one of their segments has a summary
        self._rollup_hashes: dict[Node, str] = {}

        # sources given to a summarizer: whole, or what was cut out read by the extractive pass
        self.seen: set[str] = set()
        self._seen_stop = 0  # entries before it were read by provisional passes
        self._allowance = _FULL_READ
        self._estimate = lru_cache(256)(estimate_text)  # asked for behind each view

    # what is to be made

    def begin(self) -> None:
        """Let an activation that begins read so much at leisure."""
        self._allowance = _FULL_READ

    def keep(self, places: Iterable[HeaderPlace], room: float = 0) -> None:
        """Note what views show now: the places of their headers, and the tokens of the largest, by whose `room`
        summaries are sized from now on, unless the settings do."""
        if room:
            settings, (leaf, merge) = self._settings, next(caps for below, *caps in _CAPS if room < below)
            leaf = settings.summary_max_tokens or max(16, min(leaf, settings.segment_target // SUMMARIES_PER_SEGMENT))
            self.leaf_tokens, self.merge_tokens = leaf, 5 * leaf // 2 if settings.summary_max_tokens else merge
        self._places: tuple[HeaderPlace, ...] = tuple(dict.fromkeys(places))
        self._requested: tuple[Node, ...] = ()  # merges that a view would show which has not been made
        self.is_requested = False  # summaries are wanted of what no view covers

    def request(self, nodes: Iterable[HeaderNode]) -> None:
        """Have the model make what a view of these blocks would show."""
        self.is_requested = self.by_model
        merges = (node.node for node in nodes if stand_ins([node]))
        self._requested = tuple(node for node in merges if node is not None and node.width > 1)

    def reset(self) -> None:
        """The log was replaced: places have changed, contents keep their summaries."""
        self._merged.clear()
        self._rollup_hashes.clear()
        self.keep(())
        self.is_near, self._seen_stop = False, 0

    def needed_merges(self) -> list[Node]:
        """Merges that views show or will show next, ready or not; and every block, where merges cost no money: none is
        left to the view that needs it."""
        if self._settings.strategy != "hierarchical":
            return []

        def tokens_of(node: Node) -> int | None:
            return None if (own := self.summary(node)) is None else self._estimate(own.text)

        segments = len(self._log.segments)
        needed = [*(node for place in self._places for node in place.merges), *self._requested]
        if self.is_near:
            for place in self._places or (HeaderPlace((), 0, HEADER_TARGET * self._settings.max_tokens),):
                needed += next_merges(place, tokens_of, segments)
        if not self.by_model:
            ends = range(FOUR, segments + 1, FOUR)
            needed += [Node(stop - size, stop) for stop in ends for size in BLOCKS if stop % size == 0]
        return [node for node in dict.fromkeys(needed) if node.stop <= segments]

    def missing(self) -> Iterator[Want]:
        """Yield what could be made now: summaries of segments, oldest first, and needed merges. Of a merge that
        cannot be made yet, those of the merges that it lacks."""

        def wanted(node: Node) -> Iterator[Want]:
            if (hash := self.hash_of(node)) is None:
                for child in node.children:
                    if child.width > 1:
                        yield from wanted(child)
            elif hash not in self._ready and self.summary(node) is None:
                yield Want(node, hash)

        for number in (at for at, hash in enumerate(self._log.hashes) if hash not in self._ready):
            yield from wanted(Node(number, number + 1))
        for node in self.needed_merges():
            yield from wanted(node)

    def without_summary(self, first: int = 0) -> list[int]:
        """The segments from the `first` on that have no summary of their own."""
        return [at for at in range(first, len(self._log.segments)) if self.summary(Node(at, at + 1)) is None]

    def unseen_tokens(self, covered: int) -> int:
        """Return the unread tokens of the first `covered` segments."""
        hashes, segments = self._log.hashes, self._log.segments
        missed = [at for at in range(covered) if hashes[at] not in self.seen]
        return sum(segments[at].size // segments[at].parts for at in missed if segments[at].stop > self._seen_stop)

    # what has been made

    def entries(self, node: Node) -> range:
        segments = self._log.segments
        return range(segments[node.start].start, segments[node.stop - 1].stop)

    def hash_of(self, node: Node) -> str | None:
        """Return a node's range hash; None for no such node, or if a child is neither ready nor given up."""
        if node.stop - node.start == 1:
            leaves = self._log.hashes
            return leaves[node.start] if node.start < len(leaves) else None
        if node not in self._rollup_hashes:
            texts: list[str] = []
            for child in node.children:
                if (text := self.merged_text(child)) is None:
                    return None  # the others are not looked at: while much is missing this is asked again and again
                texts.append(text.text)
            self._rollup_hashes[node] = rollup_hash(rank_of(node), texts)
        return self._rollup_hashes[node]

    def summary(self, node: Node) -> NodeText | None:
        """Return the session's own summary of a node, None while it is not ready. A segment may be so short that its
        own text stands for it."""
        if (hash := self.hash_of(node)) is None:
            return None
        if hash not in self._ready and node.stop - node.start == 1:
            segment = self._log.segments[node.start]
            if segment.parts == 1 and not segment.is_early and segment.size <= 2 * self.leaf_tokens:
                self._ready[hash] = NodeText(self._log.render(segment.start, segment.stop), "verbatim", 0)
                self.seen.add(hash)
        return self._ready.get(hash)

    def merged_text(self, node: Node) -> NodeText | None:
        """What a merge takes of a node: its summary, or an extract where none can be had; None while it is waited for.
        The extract is part of the merge's key, as a summary is, and is never kept as one."""
        return self.summary(node) or self._given_up.get(self.hash_of(node) or "")

    def add(self, node: Node, hash: str, text: str, maker: Maker | None = None) -> None:
        """A summary has been made, or was found, by who makes them unless a `maker` is given. The first for a hash
        stays."""
        is_moved = self.hash_of(node) != hash  # the log was replaced meanwhile
        passes = 1 + max((self.text_of(child).passes for child in ([] if is_moved else node.children)), default=0)
        self._ready.setdefault(hash, NodeText(text, maker or self._maker, passes))
        if self._given_up.pop(hash, None) is not None:  # merges that are not made yet take the summary
            self._rollup_hashes = {node: known for node, known in self._rollup_hashes.items() if known in self._ready}
        self.seen.add(hash)
        self._stand_ins.pop(hash, None)

        # it says something new: so does every extractive merge of it
        same = (at for at, other in enumerate(self._log.hashes if self._merged else ()) if other == hash)
        places = [node.start] if node.width > 1 else list(same)
        for merge in list(self._merged):
            if is_moved or any(merge.start <= at < merge.stop for at in places):
                del self._merged[merge]

    def give_up(self, hash: str, text: str) -> None:
        """No summary can be had for now: merges take this extract."""
        self._given_up[hash] = NodeText(text, "stand-in", 1)

    # texts

    def text_of(self, node: Node) -> NodeText:
        """What stands for a node; without a summary of its own what the extractive pass reads now."""
        if (own := self.summary(node)) is not None:
            return own
        if node.stop - node.start == 1:
            hash, segment = self._log.hashes[node.start], self._log.segments[node.start]
            if hash not in self._stand_ins:  # read it thoroughly as long as the activation's allowance lasts
                content = self._log.source(node.start)()
                self._allowance -= segment.size // segment.parts
                if is_thorough := self._allowance >= 0:
                    text = summarize_extractively(content, kind="segment", max_tokens=self.leaf_tokens)
                else:
                    text = skim(content, min(100, self.leaf_tokens))
                is_own = is_thorough and not self.by_model
                self._stand_ins[hash] = NodeText(text, "extractive" if is_own else "stand-in", 1)
                self.seen.add(hash)
            return self._stand_ins[hash]
        if node not in self._merged:
            texts = [self.text_of(child) for child in node.children]
            is_own = not self.by_model and all(text.made_by != "stand-in" for text in texts)
            children = render_children([text.text for text in texts])
            most = min(self.merge_tokens, int(merge_share(node) * estimate_text(children)))
            text = summarize_extractively(children, kind="rollup", max_tokens=max(most, _LEAST_MERGE))
            passes = 1 + max(text.passes for text in texts)
            self._merged[node] = NodeText(text, "extractive" if is_own else "stand-in", passes)
        return self._merged[node]

    def blocks(self, nodes: Iterable[Node]) -> list[HeaderNode]:
        """What stands for these nodes, as blocks of a header that shows each in full."""
        found = []
        for node in nodes:
            (text, made_by, passes), entries, width = self.text_of(node), self.entries(node), node.stop - node.start
            place = rank_of(node), node.start, entries.start, entries.stop
            found.append(HeaderNode(*place, "full", made_by, passes, text, segments=width))
        return found

    def longer(self, node: Node, max_tokens: int) -> NodeText:
        """What the extractive pass tells of a node in more tokens than its summary has, of one segment at most four
        times as many. A merge reads the summaries of its newest segments again."""
        if node.width == 1:
            most, content = min(max_tokens, 4 * self.leaf_tokens), self._log.source(node.start)()
            return NodeText(summarize_extractively(content, kind="segment", max_tokens=most), "extractive", 1)
        again = max(node.start, node.stop - 64)  # segments whose summaries a longer merge reads
        older = [Node(node.start, again)] if again > node.start else []
        texts = [self.text_of(each) for each in (*older, *Node.leaves(again, node.stop))]
        children = render_children([text.text for text in texts])
        text = summarize_extractively(children, kind="rollup", max_tokens=max_tokens)
        return NodeText(text, "extractive", 1 + max(text.passes for text in texts))

    def provisional(self, part: range, max_tokens: int) -> tuple[range, NodeText]:
        """Return what stands for a part of a segment until a view covers all of it, and the entries that it tells of:
        the model's summary of that segment, once it is closed, else an extract of the part."""
        cut = cut_at(self._log.segments, part.start)
        node = Node(cut.leaves, cut.leaves + 1)
        if self.by_model and (made := self.summary(node)) is not None:
            if estimate_text(made.text) > max_tokens:
                made = made._replace(text=cut_to(made.text, max_tokens))
            return self.entries(node), made
        self._seen_stop, most = max(self._seen_stop, part.stop), min(self.leaf_tokens, max_tokens)
        content = self._log.render(part.start, part.stop) if most > 0 else ""
        return part, NodeText(summarize_extractively(content, kind="segment", max_tokens=most), "provisional", 1)

    # a note about a topic

    def note_start(self, stop: int) -> int:
        """Return the entry from which on a note reads a past of entries up to `stop`."""
        tokens = self._log.tokens
        return max(self._log.leading_count, self._log.group_start(bisect_left(tokens, tokens[stop] - _NOTE_READ)))

    def note(self, focus: Focus, max_tokens: int, fits: Callable[[str], bool]) -> str:
        """Return a note as it is shown: its topic, and as many of the newest lines of the record that concern it as
        fit. Empty if none does."""
        record = self._log.render(focus.start, focus.stop)
        lines = lines_about(record, focus.text, min(max_tokens, self.leaf_tokens)).splitlines()
        kept = [line for line in lines if line.strip()]
        topic = f'What concerns "{focus.text}", a topic that was asked for:'
        texts = ("\n".join([topic, *kept[at:]]) for at in range(len(kept)))
        return next((text for text in texts if fits(text)), "")
