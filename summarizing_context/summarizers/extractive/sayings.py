"""What people and the agent say: rules, requests, decisions, outcomes, fixes, and what is open.

Pure. Sentences are taken as they stand; the word lists in `sayings.toml` say what kind of statement they make.
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

_NEAR = 60  # sentences after an error among which its fix is sought

_BEFORE, _OPEN = 24, 3  # sentences before the newest message that are looked at for what is open, and how many count

_OF_A_REQUEST = 2  # sentences of the first and of the newest request

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
    """The standing rules in what humans typed, quoted, oldest first, each once: the last time counts."""
    lines: dict[str, Line] = {}
    for rule in (rule for row in rows for rule in CueRules().rules([row])):
        quote = f'"{rule.quote}"'
        lines.pop(quote, None)
        lines[quote] = Line(quote, _RANKS[rule.strength])
    return list(lines.values())


def find_intent(said: Sequence[Sentence], constraints: Container[str]) -> list[Line]:
    """The first sentences of what humans ask for and what they insist on, quoted, oldest first.

    The newest request and the first stay longest. Sentences that are quoted among the constraints are not quoted twice.
    """
    by_block: dict[int, list[Sentence]] = {}
    for one in said:
        if len(one.words) > 1 and f'"{shown(one.text)}"' not in constraints:
            by_block.setdefault(one.block, []).append(one)
    ends = (next(iter(by_block), -1), next(reversed(by_block), -1))
    lines: dict[str, Line] = {}
    for at, (block, sentences) in enumerate(by_block.items()):
        is_assent = len(sentences[0].words) < 5 and _begins(sentences[0], "assent")
        asked = sentences[: _OF_A_REQUEST if block in ends else not is_assent]
        for one in (*asked, *(one for one in sentences if one not in asked and _is(one, "wish"))):
            quote = f'"{shown(one.text)}"'
            lines.pop(quote, None)
            lines[quote] = Line(quote, at + len(by_block) * ((block in ends and one in asked) + _is(one, "wish")))
    return list(lines.values())


def insists(text: str) -> bool:
    """Whether a human's sentence says what must be or must not be."""
    return _is(sentence(text, 0), "wish")


def find_decisions(said: Sequence[Sentence], human: Sequence[Sentence], thoughts: Sequence[Sentence]) -> list[Line]:
    """Choices, oldest first; from a human, quoted."""
    found = [
        (one, f'"{shown(one.text)}"' if group is human else shown(one.text), rank)
        for group, rank in ((said, 2), (human, 2), (thoughts, 1))
        for one in group
        if _is(one, "decision") and _worth(one)
    ]
    return _once(Line(text, rank) for _, text, rank in sorted(found, key=lambda each: each[0].block))


def find_outcomes(said: Sequence[Sentence], rank: int) -> list[Line]:
    """Sentences that report something as done."""
    return [
        Line(shown(one.text), rank)
        for one in said
        if _is(one, "outcome") and _worth(one) and not _begins(one, "supposed") and "?" not in one.text
    ]


def find_fix(said: Sequence[Sentence], error_words: frozenset[bytes], after: int) -> str:
    """The first sentence soon after block `after` that speaks of a fix, one that shares a word with the error first."""
    start = bisect_right(said, after, key=_block_of)
    near = said[start : bisect_right(said, after + 12, key=_block_of)][:_NEAR]
    fixes = [one for one in near if _is(one, "fix") and _worth(one)]
    related = next((one for one in fixes if not error_words.isdisjoint(one.words)), None)
    best = related or next(iter(fixes), None)
    return shown(best.text) if best else ""


def find_state(said: Sequence[Sentence], thoughts: Sequence[Sentence]) -> list[Line]:
    """What the newest message says first and last, and what in it and in those just before it is open."""
    newest = max(said, thoughts, key=lambda group: group[-1].block if group else -1)
    final = [one for one in newest if one.block == newest[-1].block]
    telling = [one for one in final if _worth(one)] or final
    ends = [*telling[:1], *telling[-1:]]
    before = [one for one in newest[-len(final) - _BEFORE : -len(final)] if _is(one, "open") and _worth(one)]
    said_last = [(one, 12 if one is ends[-1] else 7 if one is ends[0] else 11) for one in telling]
    lines = [(one, 4) for one in before[-_OPEN:]] + [
        each for each in said_last if each[1] != 11 or _is(each[0], "open")
    ]
    return _once(Line(shown(one.text), rank) for one, rank in lines)


def _block_of(one: Sentence) -> int:
    return one.block


def _worth(one: Sentence) -> bool:
    """Whether a sentence says enough to stand alone."""
    is_markup = one.text.startswith(("|", "<", "{")) or one.text.endswith((":", ","))
    return len(one.words) > 3 and not is_markup and not _is(one, "pleasantry")


def _is(one: Sentence, kind: str) -> bool:
    """Whether any word or phrase of a list stands in a sentence."""
    words, phrases = _cues()[kind]
    if not words.isdisjoint(one.words):
        return True
    said = b" %b " % b" ".join(one.words)
    return any(phrase in said for phrase in phrases)


def _begins(one: Sentence, kind: str) -> bool:
    return _is(one._replace(words=one.words[:2]), kind)


@cache
def _cues() -> Mapping[str, tuple[frozenset[bytes], tuple[bytes, ...]]]:
    """Of each list its single words, and its phrases with a space on either side."""
    lists: dict[str, list[str]] = tomllib.loads((files(__package__) / "sayings.toml").read_text("utf-8"))
    return {
        kind: (
            frozenset(cue.encode() for cue in cues if " " not in cue),
            tuple(f" {cue} ".encode() for cue in cues if " " in cue),
        )
        for kind, cues in lists.items()
    }


def _once(lines: Iterable[Line]) -> list[Line]:
    """Each line once, at its last place, with its best rank."""
    kept: dict[str, Line] = {}
    for line in lines:
        earlier = kept.pop(line.text, line)
        kept[line.text] = Line(line.text, max(line.rank, earlier.rank))
    return list(kept.values())
