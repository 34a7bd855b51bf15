"""Lines rich in exact values, chosen so that each says something new.

Pure. Every line of the content is weighed; the best few compete by MMR.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from summarizing_context.core.sentences import LONGEST, bare, list_whole, shown, split_lines
from summarizing_context.core.words import Words, words_of
from summarizing_context.summarizers.parameters import SHIPPED, ExtractiveParameters, Facts
from summarizing_context.summarizers.scoring import (
    choose_diverse,
    count_values,
    measure_lines,
    weigh_words,
)
from summarizing_context.summarizers.sections import Line

_NUMBERED = re.compile(r"\s{0,8}(\d{1,6})(?:→|\t|[:|-](?!\d)) ?")
_PLACE = re.compile(r"[^\s:]{1,120}\.\w{1,8}:\d{1,6}: |\d{1,6}(?:→|: )")
_LISTED = re.compile(r"\s{0,8}[-dl][r-][w-][x-][rwx-]{6}[@+. ]")
_DEFINING = frozenset(b"def class func function fn interface struct enum trait type".split())
_DEFINITION = re.compile(
    r"(?:^|→|\t|:) {0,8}(?:(?:export|default|async|public|private|protected|static|abstract|final|pub) ){0,4}"
    r"(?:def|class|func|function|fn|interface|struct|enum|trait|type) (?:\([^()\n]{1,60}\) )?([A-Za-z_$][\w$]{1,80})"
)
_FILES = 3
_PUNCTUATION = b"{}();<>[]|\\\"'`=+*#-_.,:!&"


class Found(NamedTuple):
    """One line or sentence that may become a fact."""

    text: str
    words: Words
    role: int  # how much its kind of block weighs
    source: str  # the file it was read from, or ""
    values: int  # how rich in exact values it is


def find_in_lines(body: str, role: int, source: str = "") -> list[Found]:
    """The lines of a log, a listing or a file that say enough to be facts."""
    lines = body.split("\n")
    if max(map(len, lines)) > LONGEST:
        return [Found(line, words_of(line), role, source, count_values(line)) for line in split_lines(body)]
    return [
        Found(line, words, role, source, values)
        for line, (words, values) in zip(lines, measure_lines(body), strict=True)
        if len(words) > 2
    ]


def find_facts(
    found: Sequence[Found], talk: Iterable[Words], told: Iterable[str], by: ExtractiveParameters = SHIPPED
) -> list[Line]:
    """The facts in the order of the content, ranked by the order of choice. `told` is what other sections say."""
    facts = by.facts
    plain, rich, recency, length = facts.plain, facts.rich, facts.recency, facts.length
    weight_of = weigh_words((line.words for line in found), talk, facts).__getitem__
    scores: list[tuple[int, int]] = []
    known: set[str] = set()
    newest = len(found)
    for at, (text, words, role, _, values) in enumerate(found):
        if len(words) > 2 and text not in known:
            known.add(text)
            weight = sum(map(weight_of, set(words))) * 8 // (len(words) + length)
            score = weight * role * (plain + rich * values) * (newest + recency * at)  # of two values the newer holds
            scores.append((-score, at))
    scores.sort()
    pool = [(-_refined(-score, found[at], facts), at) for score, at in scores[: 2 * facts.pool]]
    pool = [(-score, at) for score, at in sorted(pool)[: facts.pool] if score < 0]
    least = pool[0][0] // 12 if pool else 0
    pool = [pair for pair in pool if pair[0] >= least]
    candidates = [(score, found[at].words) for score, at in pool]
    chosen = choose_diverse(candidates, [words_of(text) for text in told], facts.most, facts.diversity)
    ranks = {pool[index][1]: facts.most - place for place, index in enumerate(chosen)}
    return [*find_names(found, by), *(Line(tell(found[at]), ranks[at]) for at in sorted(ranks))]


def find_names(found: Sequence[Found], by: ExtractiveParameters) -> list[Line]:
    """What the newest files that were read define, a line for each file."""
    names: dict[str, dict[str, None]] = {}
    for line in found:
        if line.source and not _DEFINING.isdisjoint(line.words) and (defined := _DEFINITION.search(line.text)):
            names.setdefault(line.source, {})[defined[1]] = None
    return [
        Line(f"{source} defines " + list_whole(names[source], by.lengths.names), by.facts.most // 2)
        for source in list(names)[-_FILES:]
    ]


def tell(line: Found) -> str:
    """The line as it is shown, with the file and line number where it stands, if it was read from a file."""
    numbered = _NUMBERED.match(line.text)
    if not line.source:
        return shown(bare(line.text))
    place = f"{line.source}:{numbered[1]}" if numbered else line.source
    return f"{place}: {shown(bare(line.text[numbered.end() :] if numbered else line.text))}"


def dampen(score: int, text: str) -> int:
    """Less of the score for what is mostly punctuation, escaped, listed, very short, or announces what follows."""
    raw = text.encode("utf-8", "surrogatepass")
    marks = len(raw) - len(raw.translate(None, _PUNCTUATION))
    if marks * 3 > len(raw) or text.endswith(":"):
        score //= 3
    if "\\n" in text or _LISTED.match(text):
        score //= 4
    return score // 2 if len(raw) < 24 else score


def is_from_file(text: str) -> bool:
    """Whether a fact, as shown, is a line of a file that can be read again."""
    return _PLACE.match(text) is not None


def _refined(score: int, line: Found, by: Facts) -> int:
    """The score without line numbers."""
    numbered = _NUMBERED.match(line.text)
    if not numbered:
        return dampen(score, line.text)
    text = line.text[numbered.end() :]
    return dampen(score * (by.plain + by.rich * count_values(text)) // (by.plain + by.rich * line.values), text)
