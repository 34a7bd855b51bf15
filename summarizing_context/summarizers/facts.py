"""Lines rich in exact values, chosen so that each says something new.

Pure. Every line of the content is weighed; the best few compete by MMR.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from summarizing_context.summarizers.scoring import (
    Words,
    choose_diverse,
    count_values,
    relevance,
    weigh_words,
    words_of,
)
from summarizing_context.summarizers.sections import Line
from summarizing_context.summarizers.sentences import bare, shown

POOL = 28  # candidates that compete by MMR
MOST = 14  # facts of one summary, before they are fitted

_NUMBERED = re.compile(r"\s{0,8}(\d{1,6})(?:→|\t|[:|-](?!\d)) ?")
_PUNCTUATION = b"{}();<>[]|\\\"'`=+*#-_.,:!&"


class Found(NamedTuple):
    """One line or sentence that may become a fact."""

    text: str
    words: Words
    role: int  # how much its kind of block weighs
    source: str  # the file it was read from, or ""


def find_facts(found: Sequence[Found], talk: Iterable[Words], told: Iterable[str]) -> list[Line]:
    """The facts in the order of the content, ranked by the order of choice. `told` is what other sections say."""
    weights = weigh_words((line.words for line in found), talk)
    scores: dict[str, tuple[int, int]] = {}
    newest = len(found)
    for at, line in enumerate(found):
        if len(line.words) > 2 and line.text not in scores:
            score = relevance(line.words, weights) * line.role * (2 + count_values(line.text))
            scores[line.text] = score * (newest + at), at  # of two values the newer is likelier to hold
    best = sorted(scores.values(), key=lambda scored: (-scored[0], scored[1]))[: 2 * POOL]
    pool = [(_refined(score, found[at]), at) for score, at in best]
    pool = sorted((pair for pair in pool if pair[0] > 0), key=lambda scored: (-scored[0], scored[1]))[:POOL]
    least = pool[0][0] // 12 if pool else 0
    pool = [pair for pair in pool if pair[0] >= least]
    candidates = [(score, found[at].words) for score, at in pool]
    chosen = choose_diverse(candidates, [words_of(text) for text in told], MOST)
    ranks = {pool[index][1]: MOST - place for place, index in enumerate(chosen)}
    return [Line(tell(found[at]), ranks[at]) for at in sorted(ranks)]


def tell(line: Found) -> str:
    """The line as it is shown, with the file and line number where it stands, if it was read from a file."""
    numbered = _NUMBERED.match(line.text)
    if not line.source:
        return shown(bare(line.text))
    place = f"{line.source}:{numbered[1]}" if numbered else line.source
    return f"{place}: {shown(line.text[numbered.end() :] if numbered else line.text)}"


def _refined(score: int, line: Found) -> int:
    """The score without line numbers, and less for what is mostly punctuation or very short."""
    numbered = _NUMBERED.match(line.text)
    text = line.text[numbered.end() :] if numbered else line.text
    if numbered:
        score = score * (2 + count_values(text)) // (2 + count_values(line.text))
    raw = text.encode("utf-8", "surrogatepass")
    marks = len(raw) - len(raw.translate(None, _PUNCTUATION))
    if marks * 3 > len(raw) or text.endswith(":"):
        score //= 3
    return score // 2 if len(raw) < 24 else score
