"""Statements of humans and of the agent: rules, requests, decisions, outcomes, fixes, open points.

Pure. Sentences are quoted verbatim. The word lists in `statements.toml` decide the kind of a sentence.
"""

from __future__ import annotations

import tomllib
from bisect import bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from summarizing_context.extraction.rules import CueRules
from summarizing_context.messages.text import Words, shown, words_of
from summarizing_context.summarizers.extractive.sections import STRICT_RANK, Line

_FIX_WITHIN = 60  # sentences after an error that are searched for its fix
_OPEN_WITHIN = 24  # sentences before the newest message that are searched for open points
_MOST_OPEN = 3  # of these
_REQUEST_SENTENCES = 2  # of the first and of the newest request
_RANKS = {"must": STRICT_RANK, "prefer": STRICT_RANK - 2}


class Sentence(NamedTuple):
    """One sentence, with its words and the number of the block it stands in."""

    text: str
    words: Words
    block: int


def sentence(text: str, block: int) -> Sentence:
    """A sentence ready to be read."""
    return Sentence(text, words_of(text if text.isascii() else text.replace("’", "'")), block)


def find_constraints(rows: Iterable[str]) -> list[Line]:
    """The standing rules of humans, quoted, oldest first. Of equal rules the last one counts."""
    lines: dict[str, Line] = {}
    for rule in (rule for row in rows for rule in CueRules().rules([row])):
        quote = f'"{rule.quote}"'
        lines.pop(quote, None)
        lines[quote] = Line(quote, _RANKS[rule.strength])
    return list(lines.values())


def find_intent(human: Sequence[Sentence], constraints: Container[str]) -> list[Line]:
    """The first sentences of human requests, and sentences with an emphatic wish; quoted, oldest first.

    The first and the newest request rank highest. Sentences among the constraints are left out.
    """
    by_block: dict[int, list[Sentence]] = {}
    for one in human:
        if len(one.words) > 1 and f'"{shown(one.text)}"' not in constraints:
            by_block.setdefault(one.block, []).append(one)
    ends = (next(iter(by_block), -1), next(reversed(by_block), -1))
    lines: dict[str, Line] = {}
    for at, (block, sentences) in enumerate(by_block.items()):
        is_assent = len(sentences[0].words) < 5 and _begins_with(sentences[0], "assent")
        requested = sentences[: _REQUEST_SENTENCES if block in ends else not is_assent]
        for one in (*requested, *(one for one in sentences if one not in requested and _has_cue(one, "wish"))):
            quote = f'"{shown(one.text)}"'
            lines.pop(quote, None)
            weight = (block in ends and one in requested) + _has_cue(one, "wish")
            lines[quote] = Line(quote, at + len(by_block) * weight)
    return list(lines.values())


def insists(text: str) -> bool:
    """Whether a human's sentence says what must be or must not be."""
    return _has_cue(sentence(text, 0), "wish")


def find_decisions(agent: Sequence[Sentence], human: Sequence[Sentence], thoughts: Sequence[Sentence]) -> list[Line]:
    """Choices, oldest first; from a human, quoted."""
    found = [
        (one, f'"{shown(one.text)}"' if group is human else shown(one.text), rank)
        for group, rank in ((agent, 2), (human, 2), (thoughts, 1))
        for one in group
        if _has_cue(one, "decision") and _is_informative(one)
    ]
    return _once(Line(text, rank) for _, text, rank in sorted(found, key=lambda each: each[0].block))


def find_outcomes(agent: Sequence[Sentence], rank: int) -> list[Line]:
    """Sentences that report something as done."""
    return [
        Line(shown(one.text), rank)
        for one in agent
        if _has_cue(one, "outcome")
        and _is_informative(one)
        and not _begins_with(one, "supposed")
        and "?" not in one.text
    ]


def find_fix(agent: Sequence[Sentence], error_words: frozenset[bytes], after: int) -> str:
    """The first sentence soon after block `after` that reports a fix. One that shares a word with the error wins."""
    start = bisect_right(agent, after, key=_block_of)
    following = agent[start : bisect_right(agent, after + 12, key=_block_of)][:_FIX_WITHIN]
    fixes = [one for one in following if _has_cue(one, "fix") and _is_informative(one)]
    related = next((one for one in fixes if not error_words.isdisjoint(one.words)), None)
    best = related or next(iter(fixes), None)
    return shown(best.text) if best else ""


def find_state(agent: Sequence[Sentence], thoughts: Sequence[Sentence]) -> list[Line]:
    """The first and last informative sentence of the newest message, and open points in it and just before it."""
    newest = max(agent, thoughts, key=lambda group: group[-1].block if group else -1)
    final = [one for one in newest if one.block == newest[-1].block]
    informative = [one for one in final if _is_informative(one)] or final
    ends = [*informative[:1], *informative[-1:]]
    before = [
        one
        for one in newest[-len(final) - _OPEN_WITHIN : -len(final)]
        if _has_cue(one, "open") and _is_informative(one)
    ]
    ranked = [(one, 12 if one is ends[-1] else 7 if one is ends[0] else 11) for one in informative]
    lines = [(one, 4) for one in before[-_MOST_OPEN:]] + [
        each for each in ranked if each[1] != 11 or _has_cue(each[0], "open")
    ]
    return _once(Line(shown(one.text), rank) for one, rank in lines)


def _block_of(one: Sentence) -> int:
    return one.block


def _is_informative(one: Sentence) -> bool:
    """Whether a sentence is understood alone: more than three words, no markup, no pleasantry."""
    is_markup = one.text.startswith(("|", "<", "{")) or one.text.endswith((":", ","))
    return len(one.words) > 3 and not is_markup and not _has_cue(one, "pleasantry")


def _has_cue(one: Sentence, kind: str) -> bool:
    """Whether any word or phrase of a list stands in a sentence."""
    cues = _cues()[kind]
    if not cues.words.isdisjoint(one.words):
        return True
    if cues.starts.isdisjoint(one.words):
        return False
    text = b" %b " % b" ".join(one.words)
    return any(map(text.__contains__, cues.phrases))


def _begins_with(one: Sentence, kind: str) -> bool:
    return _has_cue(one._replace(words=one.words[:2]), kind)


class _Cues(NamedTuple):
    """A list of cues, any of which is enough."""

    words: frozenset[bytes]
    phrases: tuple[bytes, ...]  # with a space on either side
    starts: frozenset[bytes]  # the first words of the phrases


@cache
def _cues() -> Mapping[str, _Cues]:
    """The lists of cues, by name."""
    lists: dict[str, list[str]] = tomllib.loads((files(__package__) / "statements.toml").read_text("utf-8"))
    return {kind: _cues_of([cue.encode() for cue in cues]) for kind, cues in lists.items()}


def _cues_of(cues: Sequence[bytes]) -> _Cues:
    phrases = [cue for cue in cues if b" " in cue]
    return _Cues(
        frozenset(cue for cue in cues if b" " not in cue),
        tuple(b" %b " % phrase for phrase in phrases),
        frozenset(phrase.split()[0] for phrase in phrases),
    )


def _once(lines: Iterable[Line]) -> list[Line]:
    """Each line once, at its last place, with its best rank."""
    kept: dict[str, Line] = {}
    for line in lines:
        earlier = kept.pop(line.text, line)
        kept[line.text] = Line(line.text, max(line.rank, earlier.rank))
    return list(kept.values())
