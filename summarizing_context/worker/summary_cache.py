"""What stands for each node of the tree: the summaries that are ready, and extractive ones where none is.

In memory only; never waits. The worker adds what it makes; the view asks for texts. Reading a source is counted
as seen, so that `unseen_tokens` can prove that no text left the raw tail unread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from summarizing_context.extraction.values import find_drops
from summarizing_context.log.entries import output_hash, rollup_hash
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import HeaderNode, Maker, Node, NodeText, stand_ins
from summarizing_context.messages.rendering import render_children
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.messages.truncation import KEY_LINES, cut_results
from summarizing_context.settings.values import SummarySizes
from summarizing_context.summarizers.extractive.summarizer import Extracts
from summarizing_context.worker.covered_ranges import (
    FRAME,
    CoveredRange,
    Foreseen,
    HeaderPlace,
    OpenRangeSummaries,
    next_merge,
)
from summarizing_context.worker.topic_notes import Focus, TopicNotes

_FULL_READ = 20_000  # estimated tokens that one activation may have extracted at leisure; beyond that it skims

_SKIM_TOKENS = 100

_SHORT = 60  # tokens below which a provisional text is skimmed


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
        self._soon = 0  # segments that the next view may cover
        self._requested: tuple[Node, ...] = ()  # merges that a view would show which has not been made
        self._tokens: dict[str, int] = {}  # of ready summaries of segments, by range hash
        self._ready: dict[str, NodeText] = {}  # by range hash; the first for a hash stays
        self._given_up: dict[str, NodeText] = {}  # what merges take where no summary could be had, by range hash
        self._made: dict[str, NodeText] = {}  # extractive ones of segments, by range hash, until a summary is ready
        self._merged: dict[Node, tuple[str, NodeText]] = {}  # extractive merges with their hashes, likewise
        self._nodes: dict[Node, NodeText] = {}  # stand-ins and merges
        self._rollup_hashes: dict[Node, str] = {}
        self._seen: set[str] = set()
        self._unread: dict[str, int] = {}  # unread tokens cut out of a source
        self._seen_stop = 0  # entries before it were read by provisional passes
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

    def foresee(self, foreseen: Foreseen) -> None:
        """This may be covered next."""
        self._soon = foreseen.segments.stop
        self.open.foresee(foreseen.pieces)

    def keep_headers(self, places: Iterable[HeaderPlace]) -> None:
        """This is what the headers of views show now."""
        self._places, self._requested = tuple(dict.fromkeys(places)) or (self._no_view,), ()

    def needed_merges(self) -> list[Node]:
        """Merges that views show or will show next, ready or not."""
        shown = [place.oldest for place in self._places if place.oldest is not None and place.oldest.width > 1]
        segments, step = len(self._log.segments), self._sizes.step
        soon = min(self._soon, segments)
        ahead = [next_merge(place, self._leaf_tokens, soon, self._merge_tokens(place), step) for place in self._places]
        needed = dict.fromkeys([*shown, *self._requested, *(node for node in ahead if node is not None)])
        return [node for node in needed if node.stop <= segments]

    def shown_tokens(self, segment: int | None) -> int:
        """What a header takes for the summary of a segment, or, for None, of a part of one; the cap until it is
        ready."""
        known = None if segment is None else self._leaf_tokens(segment)
        return FRAME + (self._cap if known is None else known)

    def _merge_tokens(self, place: HeaderPlace) -> int:
        """What the next merge of a header takes, about: as much as the present one."""
        oldest = place.oldest
        if oldest is None or oldest.width == 1 or not self.is_ready(oldest):
            return self._sizes.merge
        return estimate_text(self.text_of(oldest).text)

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
        self._soon = 0
        self._seen_stop = 0
        self.notes.reset()

    def entries(self, node: Node) -> range:
        segments = self._log.segments
        return range(segments[node.start].start, segments[node.stop - 1].stop)

    def hash_of(self, node: Node) -> str | None:
        """The range hash of a node; None for a merge of which a child is neither ready nor given up, or if there is no
        such node."""
        if node.width == 1:
            leaves = self._log.hashes
            return leaves[node.start] if node.start < len(leaves) else None
        if (known := self._rollup_hashes.get(node)) is not None:
            return known
        texts = [text for child in node.children if (text := self.merged_text(child)) is not None]
        if len(texts) < len(node.children):
            return None
        self._rollup_hashes[node] = rollup_hash(node.rank, [output_hash(text.text) for text in texts])
        return self._rollup_hashes[node]

    def merged_text(self, node: Node) -> NodeText | None:
        """What a merge takes of a node: its summary, or an extract where none can be had; None while it is waited for.
        The extract is part of the merge's key, as a summary is, and is never kept as one."""
        if (hash := self.hash_of(node)) is None:
            return None
        return self._ready.get(hash) if self.is_ready(node) else self._given_up.get(hash)

    def give_up(self, hash: str, text: str) -> None:
        """No summary can be had for now: merges take this extract."""
        self._given_up[hash] = NodeText(text, "stand-in", 1)

    def is_ready(self, node: Node) -> bool:
        """Whether the session's own summary of a node is there, or it needs none."""
        hash = self.hash_of(node)
        return hash is not None and (hash in self._ready or (node.width == 1 and self._is_own_summary(node)))

    def is_more_than_stand_in(self, node: Node) -> bool:
        """Whether the text of a node is one of the session's own maker: that of the extractive pass is made at once."""
        return self.is_ready(node) or self._maker == "extractive"

    def passes_of_new(self, node: Node) -> int:
        """Through how many summarizations a summary of `node` made now has gone."""
        return 1 + max((self.text_of(child).passes for child in node.children), default=0)

    def add(self, node: Node, hash: str, text: NodeText) -> None:
        """A summary has been made, or was found. The first for a hash stays."""
        self._ready.setdefault(hash, text)
        if self._given_up.pop(hash, None) is not None:  # merges that are not made yet take the summary
            made = {node: known for node, known in self._rollup_hashes.items() if known in self._ready}
            self._rollup_hashes = made
        self._seen.add(hash)
        self._made.pop(hash, None)  # what stood in for it is not needed any longer
        self._merged.pop(node, None)
        if self.hash_of(node) == hash:
            self._forget(node)
        else:  # the log was replaced meanwhile: the content may stand somewhere else now
            self._nodes.clear()
        if node.width == 1 and self._log.times[hash] > 1:
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
        if node.width == 1:
            hash = self._log.hashes[node.start]
            if hash in self._ready or self._is_own_summary(node):
                return self._ready[hash]
        if (found := self._nodes.get(node)) is None:
            found = self._nodes[node] = self._made_leaf(node.start) if node.width == 1 else self._merge(node)
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
            found.append(HeaderNode(0, number, entries.start, entries.stop, "full", made_by, passes, text, segments=1))
        return found

    def extract(self, content: str, kind: Literal["segment", "rollup"]) -> str:
        """What the extractive pass writes for a source, or for children to be merged."""
        most = self._cap if kind == "segment" else self._sizes.merge
        return self._extracts.thorough(content, kind=kind, max_tokens=most)

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

    def ready_piece(self, piece: range, max_tokens: int) -> NodeText | None:
        """A model's summary of groups that fill no segment yet; None where the extractive pass is to read them, by
        `piece_reader`."""
        self._seen_stop = max(self._seen_stop, piece.stop)
        if max_tokens <= 0:
            return NodeText("", "provisional", 1)
        if (made := self.open.text_of(piece)) is None:
            return None
        fits = estimate_text(made.text) <= max_tokens
        return made if fits else made._replace(text=self._extracts.cut(made.text, max_tokens))

    def piece_text(self, piece: range, max_tokens: int, most: int) -> NodeText:
        """What stands for such groups: a model's summary in at most `most` tokens, or an extract in `max_tokens`."""
        if (ready := self.ready_piece(piece, most)) is not None:
            return ready
        content, extracts = self._log.render(piece.start, piece.stop), self._extracts
        if max_tokens < _SHORT:
            return NodeText(extracts.skim(content, max_tokens), "provisional", 1)
        return NodeText(extracts.thorough(content, kind="segment", max_tokens=max_tokens), "provisional", 1)

    def unseen_tokens(self, covered: int) -> int:
        """Return the unread tokens of the first `covered` segments."""
        hashes, segments = self._log.hashes, self._log.segments
        missed = [at for at in range(covered) if hashes[at] not in self._seen]
        return sum(segments[at].size // segments[at].parts for at in missed if segments[at].stop > self._seen_stop)

    def _made_leaf(self, leaf: int) -> NodeText:
        """What the extractive pass makes of a segment: read thoroughly as long as the activation's allowance lasts."""
        hash, segment, extracts = self._log.hashes[leaf], self._log.segments[leaf], self._extracts
        if (found := self._made.get(hash)) is None:
            self._allowance -= segment.size // segment.parts
            if is_thorough := self._allowance >= 0:
                text = extracts.thorough(self._log.content(leaf), kind="segment", max_tokens=self._cap)
            else:
                text = extracts.skim(self._log.content(leaf), min(_SKIM_TOKENS, self._cap))
            own = is_thorough and self._maker == "extractive"
            found = self._made[hash] = NodeText(text, "extractive" if own else "stand-in", 1)
            self._seen.add(hash)
        return found

    def _merge(self, node: Node) -> NodeText:
        if (hash := self.hash_of(node)) is not None and (ready := self._ready.get(hash)) is not None:
            return ready
        children = [self.text_of(child) for child in node.children]
        texts = [child.text for child in children]
        hash = rollup_hash(node.rank, list(map(output_hash, texts)))
        if (found := self._merge_of(hash)) is not None:
            return found
        own = self._maker == "extractive" and all(child.made_by != "stand-in" for child in children)
        made_by: Maker = "extractive" if own else "stand-in"
        text = self._extracts.thorough(render_children(texts), kind="rollup", max_tokens=self._sizes.merge)
        found = NodeText(text, made_by, 1 + max(child.passes for child in children))
        self._merged[node] = hash, found
        return found

    def _merge_of(self, hash: str) -> NodeText | None:
        """A merge of these texts that is there, wherever it stands."""
        made = (text for known, text in list(self._merged.values()) if known == hash)
        return self._ready.get(hash) or next(made, None)

    def _is_own_summary(self, leaf: Node) -> bool:
        """Whether a segment is so short that its own text stands for it; then that is ready."""
        segment = self._log.segments[leaf.start]
        if segment.parts > 1 or segment.size > 2 * self._cap:
            return False
        hash = self._log.hashes[leaf.start]
        self._seen.add(hash)
        if hash not in self._ready:
            text = self._log.render(segment.start, segment.stop, apart=False)
            self._ready[hash] = NodeText(text, "verbatim", 0)
        return True

    def _forget(self, node: Node) -> None:
        """A node says something new: so does every merge of it."""
        if self._nodes.pop(node, None) is not None:  # a merge is kept only while its children are
            for other in [one for one in self._nodes if one.start <= node.start and node.stop <= one.stop]:
                del self._nodes[other]
