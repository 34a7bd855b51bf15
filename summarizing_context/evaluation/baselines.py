"""Baselines as arms: views without summaries, or with trivial ones, at the same tokens.

Pure. `tail` and `masking` show raw messages only. `head`, `heads` and `random` replace the summaries of the
hierarchical view. `everything`, `nothing` and `evidence` are references, which are not at equal tokens.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from summarizing_context.evaluation.arms import (
    ArmView,
    Node,
    Piece,
    filled_up,
    first_tokens,
    leading_rows,
    with_summaries,
)
from summarizing_context.evaluation.cases.model import Case, Cut, Probe
from summarizing_context.evaluation.cases.verdicts import Text
from summarizing_context.messages.estimate import MESSAGE_TOKENS, estimate_text

_RAW_SHARE = 0.4  # of a masked view: results that stay whole where not all calls fit
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class Past:
    """The session before one cut, its messages as texts."""

    case: Case
    cut: Cut
    texts: Sequence[Sequence[str]]  # of each message
    results: Sequence[bool]  # whether it answers a call

    @property
    def leading(self) -> int:
        return leading_rows(self.case.messages[: self.cut.at])

    def older(self, stop: int) -> list[str]:
        """Every text between the system rows and a message."""
        return [text for texts in self.texts[self.leading : stop] for text in texts]


def everything(past: Past) -> ArmView:
    """The whole past, raw."""
    return _raw(past, past.leading, past.texts)


def nothing(past: Past) -> ArmView:
    """The system rows and the newest message."""
    return _raw(past, max(past.leading, past.cut.at - 1), past.texts)


def tail(past: Past, tokens: int) -> ArmView:
    """The system rows, and the newest messages that fit."""
    start = _newest_that_fit(past, past.texts, tokens)
    return filled_up(_raw(past, start, past.texts), past.older(start), tokens)


def masking(past: Past, tokens: int) -> ArmView:
    """As `tail`, with old results taken out, so that calls and words reach further back."""
    masked = [
        (f"[result left out: {sum(map(estimate_text, texts))} tokens]",) if result else tuple(texts)
        for texts, result in zip(past.texts, past.results, strict=True)
    ]
    costs, bare = list(map(_cost, past.texts)), list(map(_cost, masked))
    room = tokens - sum(costs[: past.leading])
    if sum(bare[past.leading :]) > room:
        room = int(room * _RAW_SHARE)  # not even all calls fit
    else:
        room -= sum(bare[past.leading :])
        costs = [full - short for full, short in zip(costs, bare, strict=True)]
    whole = len(costs)
    while whole > past.leading and (room := room - costs[whole - 1]) >= 0:
        whole -= 1
    shown = [*masked[:whole], *past.texts[whole:]]
    start = _newest_that_fit(past, shown, tokens)
    older = past.older(whole) if start == past.leading else [text for texts in shown[:start] for text in texts]
    return filled_up(_raw(past, start, shown), older, tokens)


def head(past: Past, view: ArmView) -> ArmView:
    """The view with the beginning of the whole covered past in the place of all summaries, in as many tokens."""
    if not view.nodes:
        return view
    whole = Node(past.leading, view.nodes[-1].stop, "\n".join(view.summaries), 1)
    return heads(past, replace(view, nodes=(whole,)))


def heads(past: Past, view: ArmView) -> ArmView:
    """The view with the beginning of its source in the place of each summary, in as many tokens."""
    made = _other_words(view, lambda node, tokens: first_tokens(_source(past, node), tokens))
    return filled_up(made, past.older(view.raw_from), view.tokens)


def random_sentences(past: Past, view: ArmView) -> ArmView:
    """The view with sentences of its source drawn by lot in the place of each summary, in as many tokens."""

    def drawn(node: Node, tokens: int) -> str:
        rng = random.Random(f"{past.case.id}/{past.cut.at}/{node.start}")
        sentences = [sentence for sentence in _SENTENCE.split(_source(past, node)) if sentence.strip()]
        chosen: list[int] = []
        for at in rng.sample(range(len(sentences)), len(sentences)):
            cost = estimate_text(sentences[at]) + 1
            if cost > tokens:
                sentences[at] = first_tokens(sentences[at], tokens)
            chosen.append(at)
            if (tokens := tokens - cost) <= 0:
                break
        return "\n".join(sentences[at] for at in sorted(chosen))

    return filled_up(_other_words(view, drawn), past.older(view.raw_from), view.tokens)


def evidence(past: Past, probes: Sequence[Probe]) -> ArmView:
    """Only the lines in which the answers stand: the best that a summary of this past could do."""
    lines: dict[tuple[int, str], None] = {}
    for probe in probes:
        for at in sorted(probe.evidence):
            text = Text(past.texts[at])
            for literal in probe.literals:
                if line := next(text.lines_with(literal), ""):
                    lines[at, line] = None
    words = "\n".join(line for _, line in sorted(lines))
    node = Node(past.leading, past.cut.at, words, 1)
    pieces = (Piece("summary", words),)
    return ArmView(pieces=pieces, tokens=MESSAGE_TOKENS + estimate_text(words), nodes=(node,), raw_from=past.cut.at)


BASELINES: dict[str, Callable[[Past, ArmView], ArmView]] = {  # by arm; each is given the view of the reference
    "tail": lambda past, first: tail(past, first.tokens),
    "masking": lambda past, first: masking(past, first.tokens),
    "head": head,
    "heads": heads,
    "random": random_sentences,
    "everything": lambda past, _: everything(past),
    "evidence": lambda past, _: evidence(past, past.case.probes_at(past.cut)),
    "nothing": lambda past, _: nothing(past),
}


def _raw(past: Past, start: int, texts: Sequence[Sequence[str]]) -> ArmView:
    frame, shown = texts[: past.leading], texts[start : past.cut.at]
    pieces = [Piece("frame", text) for part in frame for text in part]
    pieces += [Piece("tail", text) for part in shown for text in part]
    return ArmView(pieces=tuple(pieces), tokens=sum(map(_cost, (*frame, *shown))), raw_from=start)


def _newest_that_fit(past: Past, texts: Sequence[Sequence[str]], tokens: int) -> int:
    room = tokens - sum(map(_cost, texts[: past.leading]))
    start = past.cut.at
    while start > past.leading and (room := room - _cost(texts[start - 1])) >= 0:
        start -= 1
    return start


def _cost(texts: Sequence[str]) -> int:
    return MESSAGE_TOKENS + sum(map(estimate_text, texts))


def _source(past: Past, node: Node) -> str:
    return "\n".join(text for texts in past.texts[node.start : node.stop] for text in texts)


def _other_words(view: ArmView, words_of: Callable[[Node, int], str]) -> ArmView:
    """The view with other words for each node, and tokens counted anew."""
    nodes = tuple(node._replace(text=words_of(node, estimate_text(node.text)), passes=1) for node in view.nodes)
    return with_summaries(view, nodes)
