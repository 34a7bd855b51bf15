"""Sections: all that a view adds to the raw messages of its tail, by one table in the order of the page.

Pure. To add a section, write a function that takes a `Draft` and gives texts, and its line in `SECTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from summarizing_context.log.ledger import SessionLedger
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.rules import NO_RULES
from summarizing_context.log.tree import Cut, HeaderNode, Node
from summarizing_context.settings.values import Settings
from summarizing_context.views.blocks import (
    LEAST_RULE_TOKENS,
    RuleBlock,
    instructions_block,
    ledger_block,
    memory_block,
    plan_block,
    rule_block,
)
from summarizing_context.views.budget import Room
from summarizing_context.views.header import (
    Header,
    HeaderPlan,
    Style,
    Summaries,
    block_text,
    choose_summaries,
    framed,
    left_out,
)
from summarizing_context.views.pins import Pinned, Pins, Staying, choose_pins, kept_among
from summarizing_context.views.shrunk_messages import Price
from summarizing_context.views.tail import TailItem
from summarizing_context.views.view import ActivationState
from summarizing_context.worker.summary_cache import Focus, SummaryCache, note_text

Place = Literal["before", "header", "after"]  # messages before the header, its text blocks, messages behind it

_INSTRUCTIONS = 0.10  # share of the room for instruction files

_UNREAD = 40_000  # tokens that an activation may read for the ledger; more is read ahead in the background

_MEMORIES = 1_000  # tokens of a block of memories, at most

_HUMANS = 2  # times the pin share, that human messages may take where all are kept

_NOTES = 3  # the note about a topic takes at most this part of the header's share


class Section(NamedTuple):
    """Something that a view adds. `write` gives texts, or messages as they are shown; none where there is nothing to
    say. A text is a block of the header; elsewhere it is a user message of its own."""

    name: str
    place: Place
    write: Callable[[Draft], Iterable[str | TailItem]]


class Sources(NamedTuple):
    """What the sections of one session are written from."""

    log: MessageLog
    summaries: SummaryCache
    ledger: SessionLedger | None
    settings: Settings
    price: Price
    style: Style  # of headers

    @property
    def truncates(self) -> bool:
        """Views say only how much is left out."""
        return self.settings.strategy == "truncate"


@dataclass(frozen=True)
class Draft:
    """What stands before the tail of one view, as its sections write it. Several may read what one has worked out."""

    sources: Sources
    sections: Sequence[Section]
    state: ActivationState  # of the present view
    cut: Cut  # what the view covers
    room: Room
    staying: Staying
    tail_tokens: int
    memories: tuple[str, ...] = ()  # the most relevant first
    topic: str | None = None  # of which a note is asked for now
    keep_from: float | None = None  # how important a group has to be to stay word for word, where a call has said so
    present_header: int | None = None  # tokens of a header that stays as it is
    _rules: dict[tuple[int, ...], RuleBlock] = field(default_factory=dict, init=False)
    _messages: dict[str, tuple[TailItem, ...]] = field(default_factory=dict, init=False)

    @cached_property
    def focus(self) -> Focus | None:
        """What a note is kept about: a new topic goes before that of the state, in the past that will be covered. The
        same topic in the same past keeps its note."""
        known, cut, sources = self.state.focus, self.cut, self.sources
        is_known = known is not None and (known.text, known.stop) == (self.topic, cut.stop)
        if self.topic is None or is_known or cut.stop <= sources.log.leading_count:
            return known
        return Focus(self.topic, sources.summaries.notes.start_of(cut.leaves, cut.stop), cut.stop)

    @cached_property
    def summaries(self) -> Summaries:
        """What stands for the covered past."""
        sources, state, cut = self.sources, self.state, self.cut
        leading_count, tree = sources.log.leading_count, state.tree_nodes
        part = range(max(cut.leaves_stop, leading_count), cut.stop)
        plan = HeaderPlan(tree, cut.leaves, cut.stop, leading_count, part, _note(self))
        if sources.truncates:
            return left_out(plan)
        for leaf in range(tree[-1][0].stop if tree else 0, cut.leaves):  # oldest first: the later ones may be skimmed
            sources.summaries.text_of(Node.leaf(leaf))
        room = self.room._replace(spare=self._spare)
        return choose_summaries(plan, sources.summaries, room, sources.style)

    @property
    def _spare(self) -> float:
        """What the tail and the other sections leave to a header in a view that frees what it has to."""
        room, pinned, price = self.room, self.pinned, self.sources.price
        if not room.squeeze and not room.gives_way:
            return 0.0
        rules = self.rules(pinned.unshown).item
        items = [*pinned.before, *pinned.after, *([rules] if rules else ()), *memories(self)]
        texts = [text for text in plan(self) if isinstance(text, str)]
        beside: float = sum(item.tokens for item in items) + sum(map(price.count, texts))
        return room.high - room.min_free - self.tail_tokens - beside

    @cached_property
    def header(self) -> Header:
        """What the header's sections say, in one message; none where nothing is covered. One line for all of the past
        leaves room for no other section."""
        summaries, style = self.summaries, self.sources.style
        if not summaries.nodes or summaries.is_one_line:
            return framed(summaries, (), style)
        sections = (section for section in self.sections if section.place == "header")
        blocks = [text for section in sections for text in section.write(self) if isinstance(text, str) and text]
        return framed(summaries, blocks, style)

    @cached_property
    def pinned(self) -> Pinned:
        """Messages that are pinned by a mark, a call or their place. Opening rows that hold nothing but instruction
        files have a block of their own."""
        sources, log = self.sources, self.sources.log
        candidates = log.candidates(self.cut.stop)
        if not sources.truncates:
            files = {file.message for file in log.kept_texts.instructions(self.cut.stop)}
            first = [at for at in candidates.first if at not in files or log.entries[at].facts.human]
            candidates = candidates._replace(first=first or candidates.first)
        most = _HUMANS * self.room.pin_cap if sources.settings.keep_human_messages else 0
        return choose_pins(candidates, self.staying, sources.log, self.room, sources.price, humans_cap=most)

    @cached_property
    def shown_whole(self) -> frozenset[int]:
        """Pinned messages that are shown as they are."""
        return frozenset(pin.seq for pin in (*self.pinned.before, *self.pinned.after) if not pin.left_out)

    @cached_property
    def unshown(self) -> tuple[int, ...]:
        """Messages that should stay and are not shown whole, nor kept for their importance."""
        kept = (self.messages(section) for section in self.sections if section.name == KEPT_MESSAGES)
        whole = {item.seq for items in kept for item in items if not item.left_out}
        return tuple(seq for seq in self.pinned.unshown if seq not in whole)

    def rules(self, unshown: tuple[int, ...]) -> RuleBlock:
        """The block of standing rules, pinned texts and what is not shown. What a pin shows whole is not said twice."""
        if unshown not in self._rules:
            room, log = self.room, self.sources.log
            rules = NO_RULES if self.sources.truncates else log.rules.before(self.cut.stop).without(self.shown_whole)
            cap = max(room.pin_cap, LEAST_RULE_TOKENS) if unshown and room.staying_cap else room.pin_cap
            self._rules[unshown] = rule_block(log.pinned.texts, rules, unshown, cap, self.sources.price)
        return self._rules[unshown]

    @cached_property
    def pins(self) -> Pins:
        """The messages before and behind the header."""
        before, after = (
            tuple(item for section in self.sections if section.place == place for item in self.messages(section))
            for place in ("before", "after")
        )
        tokens = sum(item.tokens for item in (*before, *after))
        return Pins(before, after, tokens, self.unshown, self.rules(self.unshown).left_out)

    def messages(self, section: Section) -> tuple[TailItem, ...]:
        """What a section before or behind the header adds; written once."""

        def as_message(said: str | TailItem) -> TailItem:
            if isinstance(said, TailItem):
                return said
            message = {"role": "user", "content": said}
            return TailItem(-1, message, self.sources.price.message(message), 0, ())

        if section.name not in self._messages:
            self._messages[section.name] = tuple(map(as_message, section.write(self)))
        return self._messages[section.name]

    def tokens_beside(self, *names: str) -> int:
        """What the view costs without some sections behind the header."""
        header = self.header.tokens if self.present_header is None else self.present_header
        others = [section for section in self.sections if section.place != "header" and section.name not in names]
        return self.tail_tokens + header + sum(item.tokens for each in others for item in self.messages(each))


def opening_request(draft: Draft) -> Iterable[TailItem]:
    """The first human message, and what is pinned before it ends."""
    return draft.pinned.before


def project_instructions(draft: Draft) -> Iterable[str]:
    """The newest text of each covered instruction file that no pin shows, in its share of the room; less where an
    activation would free too little beside it."""
    sources, room = draft.sources, draft.room
    share = int(_INSTRUCTIONS * room.shared) >> room.squeeze
    summaries = sum(node.tokens for node in draft.summaries.shown)
    pins = sum(pin.tokens for pin in (*draft.pinned.before, *draft.pinned.after))
    left = int(room.high - room.min_free) - draft.tail_tokens - summaries - pins
    if (cap := min(share, left)) > 0:
        files = sources.log.kept_texts.instructions(draft.cut.stop)
        hidden = [file for file in files if file.message not in draft.shown_whole]
        yield instructions_block(hidden, cap, sources.price.count)


def summaries(draft: Draft) -> Iterable[str]:
    """Summaries of the covered past, oldest first, and how much is left out without any."""
    return map(block_text, draft.summaries.nodes)


def topic_note(draft: Draft) -> Iterable[str]:
    """What concerns the topic that a user named."""
    return [block_text(draft.summaries.note)] if draft.summaries.note else []


def plan(draft: Draft) -> Iterable[str]:
    """The newest plan or to-do list, where its message is covered, in at most the pin share."""
    sources = draft.sources
    newest = sources.log.kept_texts.plan
    if newest is not None and newest.message < draft.cut.stop:
        yield plan_block(newest, draft.room.pin_cap, sources.price.count)


def ledger(draft: Draft) -> Iterable[str]:
    """Facts from calls and results, in their share of the room; none where there is too little."""
    sources, room = draft.sources, draft.room
    cap = 0 if room.squeeze or room.gives_way or sources.truncates else int(sources.settings.ledger_share * room.shared)
    if sources.ledger is not None and cap:
        known = [node.text for node in draft.summaries.shown]
        yield ledger_block(sources.ledger.current(_UNREAD), draft.cut.stop, known, cap, sources.style.count)


def kept_messages(draft: Draft) -> Iterable[TailItem]:
    """Other pinned messages, and groups that are too important to be summarized only, in the order of the log; never
    so many that little would be freed."""
    sources, room, pinned = draft.sources, draft.room, draft.pinned
    threshold = draft.keep_from
    if threshold is None and sources.settings.strategy == "importance":
        threshold = sources.settings.importance_threshold
    if threshold is None:
        return pinned.after
    rules = draft.rules(pinned.unshown).item  # which names fewer messages where some of these are kept
    others = [*pinned.after, rules] if rules else pinned.after
    beside = draft.tokens_beside(KEPT_MESSAGES, STANDING_RULES) + sum(item.tokens for item in others)
    left = min(room.keep_cap, int(room.high - room.min_free) - beside)
    if left <= 0:
        return pinned.after
    ranked = sources.log.important(draft.cut.stop, threshold)
    return kept_among(pinned, ranked, sources.log, room, left, sources.price)


def standing_rules(draft: Draft) -> Iterable[TailItem]:
    """Standing rules and pinned texts, and what of the pinned is not shown."""
    block = draft.rules(draft.unshown)
    return [block.item] if block.item else []


def memories(draft: Draft) -> Iterable[TailItem]:
    """Memories of earlier sessions."""
    sources = draft.sources
    block = memory_block(draft.memories, min(_MEMORIES, draft.room.pin_cap), sources.price)
    return [block] if block else []


KEPT_MESSAGES, STANDING_RULES = "kept messages", "standing rules"

SECTIONS = (
    Section("opening request", "before", opening_request),
    Section("project instructions", "header", project_instructions),
    Section("summaries", "header", summaries),
    Section("topic note", "header", topic_note),
    Section("plan", "header", plan),
    Section("ledger", "header", ledger),
    Section(KEPT_MESSAGES, "after", kept_messages),
    Section(STANDING_RULES, "after", standing_rules),
    Section("memories", "after", memories),
)


def _note(draft: Draft) -> HeaderNode | None:
    """The note about a topic, in at most a third of the header's share; None where it has nothing to say."""
    sources, focus = draft.sources, draft.focus
    most, style = int(draft.room.header_share / _NOTES), sources.style
    if focus is None or sources.truncates:
        return None
    made = sources.summaries.notes.text_of(focus, most)

    def noted(text: str) -> HeaderNode:
        return style.sized(HeaderNode(-1, 0, focus.start, focus.stop, "note", made.made_by, 1, text))

    text = note_text(focus.text, made.text, lambda text: noted(text).tokens <= most)
    return noted(text) if text else None
