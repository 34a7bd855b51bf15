"""What stands for each node of the tree: the summaries that are ready, and extractive ones where none is.

In memory only; never waits. The worker adds what it makes; the view asks for texts. Reading a source is counted
as seen, so that `unseen_tokens` can prove that no text left the raw tail unread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from summarizing_context.extraction.values import find_drops
from summarizing_context.log.digests import output_hash, rollup_hash
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import HeaderNode, Maker, Node, NodeText, stand_ins
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.messages.rendering import render_children
from summarizing_context.messages.truncation import KEY_LINES, cut_results
from summarizing_context.settings.sizes import SummarySizes
from summarizing_context.worker.merges import HeaderPlace, next_merge
from summarizing_context.worker.open_ranges import CoveredRange, OpenRangeSummaries
from summarizing_context.worker.topic_notes import Focus, Lines, TopicNotes

_FULL_READ = 20_000  # estimated tokens that one activation may have extracted at leisure; beyond that it skims

_SKIM_TOKENS = 100

_SHORT = 60  # tokens below which a provisional text is skimmed


class Extract(Protocol):
    """The extractive pass over a rendered content; reads all of it."""

    def __call__(self, content: str, *, kind: str, max_tokens: int) -> str: ...


class Extracts(NamedTuple):
    """The extractive passes: thorough, quick, shortening a summary; about a topic, to be shown and to be read on."""

    thorough: Extract
    skim: Callable[[str, int], str]
    brief: Callable[[str, int], str]
    key_lines: Callable[[str, int], Sequence[str]]  # of a text that a model does not get to read
    about: Lines
    excerpt: Lines


class SummaryCache:
    """Texts of nodes. `maker` is who makes the summaries of this session: a model, or the extractive pass; `every` is
    after how many messages a piece of the open segment is summarized ahead, if messages are counted."""

    def __init__(
        self, log: MessageLog, extracts: Extracts, *, maker: Maker, sizes: SummarySizes, every: int | None = None
    ) -> None:
        self._log = log
        self._extracts = extracts
        self._maker: Maker = maker
        self._cap = cap = sizes.leaf
        self._sizes = sizes
        self._no_view = HeaderPlace(None, sizes.target)
        self._places: tuple[HeaderPlace, ...] = (self._no_view,)
        self._requested: tuple[Node, ...] = ()  # merges that a view would show which has not been made
        self._tokens: dict[str, int] = {}  # of ready summaries of segments, by range hash
        self._ready: dict[str, NodeText] = {}  # by range hash
        self._made: dict[str, NodeText] = {}  # extractive ones, by range hash
        self._nodes: dict[Node, NodeText] = {}
        self._rollup_hashes: dict[Node, str] = {}
        self._seen: set[str] = set()
        self._unread: dict[str, int] = {}  # tokens cut out of a source that nobody has read
        self._seen_stop = 0  # entries before it were read by provisional passes
        self._unread_leaf = 0  # leaves before it are seen
        self._allowance = _FULL_READ
        self._drops: dict[Node, tuple[str, tuple[str, ...]]] = {}  # by the text that they are missing from
        self.notes = TopicNotes(log, extracts.about, extracts.excerpt, by_model=maker == "model", cap=cap)
        self.open = OpenRangeSummaries(log, by_model=maker == "model", every=every)

    def begin(self) -> None:
        """An activation begins: it may read so much at leisure."""
        self._allowance = _FULL_READ

    def request(self, view: CoveredRange, focus: Focus | None) -> None:
        """Have the model make what such a view would show."""
        self.open.request(view)
        self.notes.request(focus)
        self._requested = tuple(
            node for shown in view.nodes if stand_ins([shown]) and (node := shown.node) is not None and node.width > 1
        )

    def keep_headers(self, places: Iterable[HeaderPlace]) -> None:
        """This is what the headers of views show now."""
        self._places, self._requested = tuple(dict.fromkeys(places)) or (self._no_view,), ()

    def needed_merges(self) -> list[Node]:
        """Merges that views show or will show next, ready or not."""
        shown = [place.oldest for place in self._places if place.oldest is not None and place.oldest.width > 1]
        segments, sizes = len(self._log.segments), self._sizes
        ahead = [next_merge(place, self._leaf_tokens, segments, sizes.merge, sizes.step) for place in self._places]
        needed = dict.fromkeys([*shown, *self._requested, *(node for node in ahead if node is not None)])
        return [node for node in needed if node.stop <= segments]

    def _leaf_tokens(self, segment: int) -> int | None:
        """What a segment's summary takes; None until it is ready."""
        hash = self._log.hashes[segment]
        if (known := self._tokens.get(hash)) is None:
            if (found := self._ready.get(hash)) is None:
                return None
            known = self._tokens[hash] = estimate_text(found.text)
        return known

    def reset(self) -> None:
        """The log was replaced: places have changed, contents keep their summaries."""
        self._nodes.clear()
        self._rollup_hashes.clear()
        self._drops.clear()
        self.keep_headers(())
        self._seen_stop = self._unread_leaf = 0
        self.notes.reset()

    def entries(self, node: Node) -> range:
        segments = self._log.segments
        return range(segments[node.start].start, segments[node.stop - 1].stop)

    def hash_of(self, node: Node) -> str | None:
        """The range hash of a node; None for a merge whose children are not all ready, or if there is no such node."""
        if node.width == 1:
            leaves = self._log.hashes
            return leaves[node.start] if node.start < len(leaves) else None
        if (known := self._rollup_hashes.get(node)) is not None:
            return known
        hashes = [self.hash_of(child) for child in node.children]
        texts = [self._ready[hash].text for hash in hashes if hash is not None and hash in self._ready]
        if len(texts) < len(hashes):
            return None
        self._rollup_hashes[node] = rollup_hash(node.rank, [output_hash(text) for text in texts])
        return self._rollup_hashes[node]

    def is_ready(self, node: Node) -> bool:
        """Whether the session's own summary of a node is there, or it needs none."""
        hash = self.hash_of(node)
        return hash is not None and (hash in self._ready or (node.width == 1 and self._is_own_summary(node)))

    def is_known(self, node: Node) -> bool:
        """Whether the text of a node need not be worked out."""
        if node in self._nodes:
            return True
        return node.width == 1 and (self._log.hashes[node.start] in self._made or self.is_ready(node))

    def is_more_than_stand_in(self, node: Node) -> bool:
        """Whether the text of a node is one of the session's own maker: that of the extractive pass is made at once."""
        return self.is_ready(node) or self._maker == "extractive"

    @property
    def is_at_leisure(self) -> bool:
        """Whether the next segment without a summary may be read thoroughly."""
        return self._allowance > 0

    def passes_of_new(self, node: Node) -> int:
        """Through how many summarizations a summary of `node` made now has gone."""
        return 1 + max((self.text_of(child).passes for child in node.children), default=0)

    def add(self, node: Node, hash: str, text: NodeText) -> None:
        """A summary has been made, or was found. The first for a hash stays."""
        self._ready.setdefault(hash, text)
        self._seen.add(hash)
        if self.hash_of(node) == hash:
            self._forget(node)
        else:  # the log was replaced meanwhile: the content may stand somewhere else now
            self._nodes.clear()
        if node.width == 1 and hash in self._log.repeated:
            for index, other in enumerate(self._log.hashes):
                if other == hash:
                    self._forget(Node.leaf(index))

    def made_of(self, hash: str) -> str | None:
        """What the session's maker wrote about the messages of a hash, as a segment or as a piece; None if nothing."""
        for found in (self._ready.get(hash), self.open.made_of(hash)):
            if found is not None and found.made_by == self._maker:
                return found.text
        return None

    def mark_read(self, hash: str) -> None:
        """A source was given to a summarizer: whole, or with all that was cut out of it read by the extractive pass."""
        if not self._unread.get(hash):
            self._seen.add(hash)

    def cut_for_model(self, hash: str, content: str) -> str:
        """A source without the middles of its long results; their key lines, found by reading all of them, instead."""
        cut = cut_results(content)
        self._unread[hash] = sum(map(estimate_text, cut.left_out))
        key_lines: list[Sequence[str]] = []
        for middle in cut.left_out:
            key_lines.append(self._extracts.key_lines(middle, KEY_LINES))
            self._unread[hash] -= estimate_text(middle)
        return cut.join(key_lines)

    def text_of(self, node: Node) -> NodeText:
        found = self._nodes.get(node)
        if found is None:
            found = self._nodes[node] = self._leaf(node) if node.width == 1 else self._merge(node)
        return found

    def known_text(self, leaf: int) -> str:
        """What is known of a segment, for somebody who asks: its summary, or, where none is ready, a quick look at its
        source. No view depends on that."""
        if self.is_ready(Node.leaf(leaf)):
            return self.text_of(Node.leaf(leaf)).text
        return self._extracts.skim(self._log.content(leaf), self._cap)

    def leaves(self) -> list[HeaderNode]:
        """Every segment's summary, as a block of a header that shows all of them."""
        found = []
        for number in range(len(self._log.segments)):
            node = Node.leaf(number)
            (text, made_by, passes), entries = self.text_of(node), self.entries(node)
            whole = HeaderNode(0, number, entries.start, entries.stop, "full", made_by, passes, text, segments=1)
            found.append(whole)
        return found

    def brief(self, text: str, max_tokens: int) -> str:
        return self._extracts.brief(text, max_tokens)

    def drops(self, node: Node, text: str) -> tuple[str, ...]:
        """Exact values of a node's source that `text`, shown for it, does not hold. A merge's source are its
        children."""
        if (found := self._drops.get(node)) is None or found[0] != text:
            children = [self.text_of(child).text for child in node.children]
            source = render_children(children) if children else self._log.content(node.start)
            found = self._drops[node] = (text, find_drops(source, text))
        return found[1]

    def provisional(self, piece: range, max_tokens: int) -> NodeText:
        """What stands for groups that fill no segment yet: the model's summary, or what the extractive pass finds."""
        self._seen_stop = max(self._seen_stop, piece.stop)
        if (made := self.open.text_of(piece)) is not None and max_tokens > 0:
            fits = estimate_text(made.text) <= max_tokens
            return made if fits else made._replace(text=self._extracts.brief(made.text, max_tokens))
        return NodeText(self._read(self._log.render(piece.start, piece.stop), max_tokens), "provisional", 1)

    def _read(self, content: str, max_tokens: int) -> str:
        if max_tokens < _SHORT:
            return self._extracts.skim(content, max(0, max_tokens)) if max_tokens > 0 else ""
        return self._extracts.thorough(content, kind="segment", max_tokens=max_tokens)

    def unseen_tokens(self, covered: int) -> int:
        """Tokens of the first `covered` segments that nobody has read."""
        hashes, segments = self._log.hashes, self._log.segments
        while self._unread_leaf < covered and hashes[self._unread_leaf] in self._seen:
            self._unread_leaf += 1
        missed = [at for at in range(self._unread_leaf, covered) if hashes[at] not in self._seen]
        return sum(segments[at].size // segments[at].parts for at in missed if segments[at].stop > self._seen_stop)

    def _leaf(self, node: Node) -> NodeText:
        hash = self._log.hashes[node.start]
        if (found := self._ready.get(hash)) is not None:
            return found
        if self._is_own_summary(node):
            return self._ready[hash]
        if (found := self._made.get(hash)) is None:
            found = self._made[hash] = self._stand_in(node.start)
            self._seen.add(hash)
        return found

    def _stand_in(self, leaf: int) -> NodeText:
        segment = self._log.segments[leaf]
        content = self._log.content(leaf)
        self._allowance -= segment.size // segment.parts
        if self._allowance < 0:
            return NodeText(self._extracts.skim(content, min(_SKIM_TOKENS, self._cap)), "stand-in", 1)
        text = self._extracts.thorough(content, kind="segment", max_tokens=self._cap)
        return NodeText(text, "extractive" if self._maker == "extractive" else "stand-in", 1)

    def _merge(self, node: Node) -> NodeText:
        children = [self.text_of(child) for child in node.children]
        hash = rollup_hash(node.rank, [output_hash(child.text) for child in children])
        if (found := self._ready.get(hash) or self._made.get(hash)) is not None:
            return found
        text = self._extracts.thorough(
            render_children([child.text for child in children]), kind="rollup", max_tokens=self._sizes.merge
        )
        own = self._maker == "extractive" and all(child.made_by != "stand-in" for child in children)
        found = NodeText(text, "extractive" if own else "stand-in", 1 + max(child.passes for child in children))
        self._made[hash] = found
        return found

    def _is_own_summary(self, leaf: Node) -> bool:
        """Whether a segment is so short that its own text stands for it; then that is ready."""
        segment = self._log.segments[leaf.start]
        if segment.parts > 1 or segment.size > 2 * self._cap:
            return False
        hash = self._log.hashes[leaf.start]
        self._seen.add(hash)
        if hash not in self._ready:
            self._ready[hash] = NodeText(self._log.render(segment.start, segment.stop, apart=False), "verbatim", 0)
        return True

    def _forget(self, node: Node) -> None:
        """A node says something new: so does every merge of it."""
        if self._nodes.pop(node, None) is not None:  # a merge is kept only while its children are
            for other in [one for one in self._nodes if one.start <= node.start and node.stop <= one.stop]:
                del self._nodes[other]
