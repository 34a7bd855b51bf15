"""Statements of humans and of the agent: rules, requests, choices, fixes; and quotes for the ledger.

Pure. Sentences are quoted verbatim. The word lists in `statements.toml` tell a choice and a fix.
"""

from __future__ import annotations

import tomllib
from bisect import bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from summarizing_context.extraction.error_lines import first_error_line
from summarizing_context.extraction.rules import CueRules
from summarizing_context.messages.text import cleaned, shown, split_prose, words_of
from summarizing_context.summarizers.extractive.lines import (
    NOWHERE,
    Candidate,
    Place,
    count_values,
    newest_of_each_pattern,
)
from summarizing_context.summarizers.extractive.sections import STRICT_RANK, Line

_FIX_WITHIN = 60  # sentences after an error that are searched for its fix
_MOST_SENTENCES = 8  # of one human message
_RANKS = {"must": STRICT_RANK, "prefer": STRICT_RANK - 2}


def sentence(text: str, block: int, kind: str = "user", place: Place = NOWHERE) -> Candidate:
    """A sentence ready to be read."""
    words = words_of(text if text.isascii() else text.replace("’", "'"))
    return Candidate(text, words, kind, "", count_values(text), block, place)


def find_constraints(rows: Iterable[str]) -> list[Line]:
    """The standing rules of humans, quoted, oldest first. Of equal rules the last one counts."""
    lines: dict[str, Line] = {}
    for rule in (rule for row in rows for rule in CueRules().rules([row])):
        quote = f'"{rule.quote}"'
        lines.pop(quote, None)
        lines[quote] = Line(quote, _RANKS[rule.strength])
    return list(lines.values())


def find_intent(human: Sequence[Candidate], constraints: Container[str]) -> list[Line]:
    """What humans said, quoted, oldest first; of requests that differ in their numbers alone the newest two.

    The beginnings of all messages rank before what follows them, the first and the newest message before the others.
    Sentences among the constraints are left out.
    """
    by_block: dict[int, list[str]] = {}
    for one in human:
        if len(one.words) > 1 and (quote := f'"{shown(one.text)}"') not in constraints:
            by_block.setdefault(one.block, []).append(quote)
    ends = (next(iter(by_block), -1), next(reversed(by_block), -1))
    lines: dict[str, Line] = {}
    for at, (block, quotes) in enumerate(by_block.items()):
        for number, quote in enumerate(quotes[:_MOST_SENTENCES]):
            lines.pop(quote, None)
            late = max(number - (2 if block in ends else 0), 0)
            lines[quote] = Line(quote, at + (_MOST_SENTENCES - late) * len(by_block))
    return newest_of_each_pattern(lines.values())


def is_choice(one: Candidate) -> bool:
    """Whether a sentence chooses something."""
    return one.kind in ("assistant", "thinks") and (_has_cue(one, "decision") or _has_cue(one, "reason"))


def find_decisions(human: Sequence[Candidate]) -> list[str]:
    """The choices of a human, word for word, oldest first."""
    return list(dict.fromkeys(shown(one.text) for one in human if _has_cue(one, "decision") and _is_informative(one)))


def find_fix(agent: Sequence[Candidate], error_words: frozenset[bytes], after: int) -> str:
    """The first sentence soon after block `after` that reports a fix. One that shares a word with the error wins."""
    start = bisect_right(agent, after, key=_block_of)
    following = agent[start : bisect_right(agent, after + 12, key=_block_of)][:_FIX_WITHIN]
    fixes = [one for one in following if _has_cue(one, "fix") and _is_informative(one)]
    related = next((one for one in fixes if not error_words.isdisjoint(one.words)), None)
    best = related or next(iter(fixes), None)
    return shown(best.text) if best else ""


def _block_of(one: Candidate) -> int:
    return one.block


def _is_informative(one: Candidate) -> bool:
    """Whether a sentence is understood alone: more than three words, and no markup."""
    return len(one.words) > 3 and not (one.text.startswith(("|", "<", "{")) or one.text.endswith((":", ",")))


def _has_cue(one: Candidate, kind: str) -> bool:
    """Whether any word or phrase of a list stands in a sentence."""
    cues = _cues()[kind]
    if not cues.words.isdisjoint(one.words):
        return True
    if cues.starts.isdisjoint(one.words):
        return False
    text = b" %b " % b" ".join(one.words)
    return any(map(text.__contains__, cues.phrases))


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


def quotes(text: str) -> list[str]:
    """The decisions in one text that a human wrote, word for word."""
    human = [sentence(each, 0) for each in split_prose(cleaned(text))[0]]
    return find_decisions(human)


def error_line(result: str, failed: bool) -> str:
    """The line of a result that names the error; "" if it names none."""
    return first_error_line(cleaned(result), failed)
