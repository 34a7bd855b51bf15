"""Scores of lines: rare words (TF-IDF), diversity (MMR), exact values. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from summarizing_context.messages.text import (
    LINES_TABLE,
    LONGEST,
    Words,
    bare,
    list_whole,
    shown,
    split_lines,
    words_of,
)
from summarizing_context.summarizers.extractive.parameters import SHIPPED, ExtractiveParameters, Facts
from summarizing_context.summarizers.extractive.sections import Line

_VALUE_BYTES = b"0123456789/=@$%_`"

_NOT_VALUE = bytes(byte for byte in range(256) if byte not in _VALUE_BYTES)

_NEITHER_VALUE_NOR_LINE_END = _NOT_VALUE.replace(b"\n", b"")

_MOST_VALUES = 8

_MOST_OVERLAP = 56  # 64ths of a line's words that chosen lines may already hold

STOP_WORDS = (
    b"a about after all also am an and any are as at be because been before being but by can could did do does done "
    b"dont each else every few for from get go going good got had has have having he her here him his how i if im in "
    b"into is it its ive just know let lets like ll look made make may me more most my need no not now of off ok okay "
    b"on one only or other our out over own please re s see she should so some such sure t than thank thanks that "
    b"thats the their them then there these they this those to too under up us ve very via want was we well were "
    b"what when where which while who why will with would yes yet you your file line code true false null none "
    b"return nil string int if else def self import const var let new type err func function public static class "
    b"name value id data result output error"
).split()


def count_values(text: str) -> int:
    """The number of digits and of marks of paths, names and percentages in a line, up to a bound."""
    return min(len(text.encode("utf-8", "surrogatepass").translate(None, _NOT_VALUE)), _MOST_VALUES)


def measure_lines(body: str) -> list[tuple[Words, int]]:
    """`words_of` and `count_values` of each line, many times quicker than line by line."""
    raw = body.encode("utf-8", "surrogatepass")
    words = map(bytes.split, raw.translate(LINES_TABLE, b"'").split(b"\n"))
    values = map(len, raw.translate(None, _NEITHER_VALUE_NOR_LINE_END).split(b"\n"))
    return [(found, min(marks, _MOST_VALUES)) for found, marks in zip(words, values, strict=True)]


def weigh_words(everything: Iterable[Words], talk: Iterable[Words], by: Facts) -> dict[bytes, int]:
    """A weight for each word: rare words weigh more, and twice as much when the people and the agent use them."""
    counts = Counter(chain.from_iterable(everything))
    total = sum(counts.values())
    by_count = {count: rarity(total, count, by.rarity) for count in dict.fromkeys(counts.values())}
    weights = {word: by_count[count] for word, count in counts.items()}
    for word, times in Counter(chain.from_iterable(talk)).items():
        weights[word] = weights.get(word, 0) * (4 + min(times, by.reuse)) // 4
    for word in STOP_WORDS:
        if word in weights:
            weights[word] = 0
    return weights


def relevance(words: Words, weights: Mapping[bytes, int], length: int) -> int:
    """What the distinct words of a line weigh, damped by its length."""
    return sum(map(weights.__getitem__, set(words))) * 8 // (len(words) + length)


def choose_diverse(
    candidates: Sequence[tuple[int, Words]], known: Iterable[Words], most: int, diversity: int
) -> list[int]:
    """Indices of at most `most` candidates (score, words), best first, each unlike `known` and those before it."""
    words = [frozenset(words) for _, words in candidates]
    left = [at for at, (score, _) in enumerate(candidates) if score > 0 and words[at]]
    overlap = [0] * len(candidates)  # the largest share of a candidate's words in what is taken, in 64ths
    taken = frozenset(chain.from_iterable(known))
    chosen: list[int] = []
    while True:
        for at in left:
            share = len(words[at] & taken) * 64 // len(words[at])
            if share > overlap[at]:
                overlap[at] = share
        left = [at for at in left if overlap[at] <= _MOST_OVERLAP]
        if not left or len(chosen) == most:
            return chosen
        best = max(left, key=lambda at: (candidates[at][0] * (diversity - overlap[at]), -at))
        chosen.append(best)
        left.remove(best)
        taken = words[best]


def rarity(total: int, count: int, times: int = 4) -> int:
    """`times` the binary logarithm of total / count, plus one, in integer arithmetic."""
    power: int = (total // count) ** times
    return power.bit_length()


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
    found: Sequence[Found], talk: Iterable[Words], shown_lines: Iterable[str], by: ExtractiveParameters = SHIPPED
) -> list[Line]:
    """The facts in the order of the content, ranked by the order of choice. `shown_lines` are in other sections."""
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
    pool = [(-_score_without_number(-score, found[at], facts), at) for score, at in scores[: 2 * facts.pool]]
    pool = [(-score, at) for score, at in sorted(pool)[: facts.pool] if score < 0]
    least = pool[0][0] // 12 if pool else 0
    pool = [pair for pair in pool if pair[0] >= least]
    candidates = [(score, found[at].words) for score, at in pool]
    chosen = choose_diverse(candidates, [words_of(text) for text in shown_lines], facts.most, facts.diversity)
    ranks = {pool[index][1]: facts.most - place for place, index in enumerate(chosen)}
    return [*find_names(found, by), *(Line(render_fact(found[at]), ranks[at]) for at in sorted(ranks))]


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


def render_fact(line: Found) -> str:
    """The line as it is shown, with the file and line number where it stands, if it was read from a file."""
    numbered = _NUMBERED.match(line.text)
    if not line.source:
        return shown(bare(line.text))
    place = f"{line.source}:{numbered[1]}" if numbered else line.source
    return f"{place}: {shown(bare(line.text[numbered.end() :] if numbered else line.text))}"


def dampen(score: int, text: str) -> int:
    """A lower score for lines that are mostly punctuation, escaped, from a listing, very short, or end in a colon."""
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


def _score_without_number(score: int, line: Found, by: Facts) -> int:
    """The score without line numbers."""
    numbered = _NUMBERED.match(line.text)
    if not numbered:
        return dampen(score, line.text)
    text = line.text[numbered.end() :]
    return dampen(score * (by.plain + by.rich * count_values(text)) // (by.plain + by.rich * line.values), text)
