"""Lines and sentences that may be kept: how much each is worth, and the choice among them.

Pure, in whole numbers. A linear model tells the worth of a line, learnt from notes that a language model wrote of real
sessions. Its weights are data, in `salience.toml`.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache
from importlib.resources import files
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from summarizing_context.messages.text import LINES_TABLE, LONGEST, Words, bare, list_whole, shown, split_lines
from summarizing_context.summarizers.extractive.figures import FACTS, NAMES_CHARS, Facts
from summarizing_context.summarizers.extractive.sections import Line

PROSE = frozenset(("user", "assistant", "thinks"))

_LENGTHS = (4, 7, 11, 17, 27)  # words at which the next bucket begins
_VALUES = (1, 2, 4, 8)  # digits and marks of paths and names
_SHARES = (1, 5, 9, 13)  # of a line's content words, in sixteenths
_OFTEN = 8  # a word in more than one of so many lines says nothing of any of them
_OF_LINES = ("lines length", "lines values", "lines said", "lines asked")  # names of weights
_OF_PROSE = ("prose length", "prose values", "prose said", "prose asked")
_OPENING = 3  # words of a sentence whose own weights count

STOP_WORDS = frozenset(
    b"a about after all also am an and any are as at be because been before being but by can could did do does done "
    b"dont each else every few for from get go going good got had has have having he her here him his how i if im in "
    b"into is it its ive just know let lets like ll look made make may me more most my need no not now of off ok okay "
    b"on one only or other our out over own please re s see she should so some such sure t than thank thanks that "
    b"thats the their them then there these they this those to too under up us ve very via want was we well were "
    b"what when where which while who why will with would yes yet you your file line code true false null none "
    b"return nil string int if else def self import const var let new type err func function public static class "
    b"name value id data result output error".split()
)


class Place(NamedTuple):
    """Where a sentence stands."""

    first: bool = False  # of its message
    last: bool = False
    long: bool = False  # its message has more than six sentences
    closing: bool = False  # the human speaks next, or nobody
    newest: bool = False  # in the newest message of its speaker


NOWHERE = Place()


class Candidate(NamedTuple):
    """One line or sentence that may be kept."""

    text: str
    words: Words
    kind: str  # of its block
    source: str  # the file it was read from, or ""
    values: int  # how rich in exact values it is
    block: int = 0  # number of the block it stands in
    place: Place = NOWHERE


class Vocabulary:
    """What the work is about, by the words that people and the agent say; and the words that say nothing.

    Those are stop words, and the words of lines that look alike, such as the name of a step before each line of a log.
    """

    def __init__(self, found: Sequence[Candidate]) -> None:
        others = [one.words for one in found if one.kind not in PROSE]
        often = max(len(others) // _OFTEN, _OFTEN)
        self.empty = STOP_WORDS.union(word for word, times in _counted(others).items() if times > often)
        said = _counted(one.words for one in found if one.kind in PROSE)
        self.said = frozenset(said) - STOP_WORDS
        self.again = frozenset(word for word, times in said.items() if times > 1) - STOP_WORDS
        self.asked = frozenset(word for one in found if one.kind == "user" for word in one.words) - STOP_WORDS


def _counted(lines: Iterable[Words]) -> Counter[bytes]:
    """In how many lines each word stands."""
    return Counter(chain.from_iterable(map(frozenset, lines)))


def features(one: Candidate, vocabulary: Vocabulary) -> list[tuple[str, int]]:
    """The names of the weights of a line, each with the place in its list."""
    if one.kind not in PROSE:
        content = frozenset(one.words) - vocabulary.empty
        if one.values:
            content = frozenset(word for word in content if word > b":")  # a number has another feature
        return _common(_OF_LINES, one, content, len(content), (vocabulary.said, vocabulary.asked))
    content = frozenset(one.words) - STOP_WORDS
    common = _common(_OF_PROSE, one, content, len(one.words), (vocabulary.again, vocabulary.asked))
    return [
        *common,
        *_of_place(one.place),
        ("question", int(one.text.endswith("?"))),
        ("colon", int(one.text.endswith(":"))),
        ("quotes code", int("`" in one.text)),
        ("bold", int("**" in one.text)),
        *((f"word {word.decode('utf-8', 'replace')}", 0) for word in dict.fromkeys(one.words[:_OPENING])),
    ]


def _common(
    names: Sequence[str], one: Candidate, content: Set[bytes], length: int, known: tuple[Set[bytes], Set[bytes]]
) -> list[tuple[str, int]]:
    """The weights that prose and other lines both have, by their words that say something.

    `known` are the words that were said, and those that a human asked with.
    """
    of_length, of_values, of_said, of_asked = names
    said, asked = known
    size = len(content) or 1
    return [
        (one.kind, 0),
        (of_length, bisect(_LENGTHS, length)),
        (of_values, bisect(_VALUES, one.values)),
        (of_said, bisect(_SHARES, 16 * len(said & content) // size)),
        (of_asked, bisect(_SHARES, 16 * len(asked & content) // size)),
    ]


@cache
def _of_place(place: Place) -> list[tuple[str, int]]:
    return [(name, int(holds)) for name, holds in zip(Place._fields, place, strict=True)]


def salience(one: Candidate, vocabulary: Vocabulary) -> int:
    """Thousandths of a line that careful notes are expected to repeat; negative for what they leave out."""
    weights, total = _weights(), 0
    for name, at in features(one, vocabulary):
        if found := weights.get(name):
            total += found[at]
    return total


@cache
def _weights() -> Mapping[str, list[int]]:
    learnt: dict[str, list[int]] = tomllib.loads((files(__package__) / "salience.toml").read_text("utf-8"))["weights"]
    return learnt


_VALUE_BYTES = b"0123456789/=@$%_`"

_NOT_VALUE = bytes(byte for byte in range(256) if byte not in _VALUE_BYTES)

_NEITHER_VALUE_NOR_LINE_END = _NOT_VALUE.replace(b"\n", b"")

_MOST_VALUES = 8

_EXACT = re.compile(r"[\d_/`]|\w\.\w|[a-z][A-Z]")  # in a number, a path or a name of code

_OF_A_PATTERN = 2

_COUNTED = ("result", "failed")  # kinds of lines that are counted where they repeat

_TIMES = re.compile(r" \((\d{1,9}) times\)(?= → |\Z)")

_RUN = 5  # lines that differ in digits alone are one run from here on

_DIGITS = re.compile(r"\d\d*(?:[.,]\d+)*")  # one digit in front is found sooner than `\d+`

_WORD = re.compile(r"[^\W\d_]{2,}")

_MOST_OVERLAP = 56  # 64ths of a line's words that chosen lines may already hold


def count_values(text: str) -> int:
    """The number of digits and of marks of paths, names and percentages in a line, up to a bound."""
    return min(len(text.encode("utf-8", "surrogatepass").translate(None, _NOT_VALUE)), _MOST_VALUES)


def measure_lines(body: str) -> list[tuple[Words, int]]:
    """`words_of` and `count_values` of each line, many times quicker than line by line."""
    raw = body.encode("utf-8", "surrogatepass")
    words = map(bytes.split, raw.translate(LINES_TABLE, b"'").split(b"\n"))
    values = map(len, raw.translate(None, _NEITHER_VALUE_NOR_LINE_END).split(b"\n"))
    return [(found, min(marks, _MOST_VALUES)) for found, marks in zip(words, values, strict=True)]


def choose_diverse(candidates: Sequence[tuple[int, frozenset[bytes]]], most: int, diversity: int) -> list[int]:
    """Indices of at most `most` candidates (score, words), best first, each unlike those before it."""
    left = [at for at, (score, words) in enumerate(candidates) if score > 0 and words]
    overlap = [0] * len(candidates)  # the largest share of a candidate's words in what is taken, in 64ths
    worths = [score * diversity for score, _ in candidates]
    chosen: list[int] = []
    while left and len(chosen) < most:
        best = max(left, key=worths.__getitem__)
        chosen.append(best)
        left.remove(best)
        taken = candidates[best][1]
        for at in left:
            score, words = candidates[at]
            share = len(words & taken) * 64 // len(words)
            if share > overlap[at]:
                overlap[at] = share
                worths[at] = score * (diversity - share)
        left = [at for at in left if overlap[at] <= _MOST_OVERLAP]
    return chosen


_NUMBERED = re.compile(r"\s{0,8}(\d{1,6})(?:→|\t|[:|-](?!\d)) ?")

_DEFINING = frozenset(b"def class func function fn interface struct enum trait type".split())

_DEFINITION = re.compile(
    r"(?:^|→|\t|:) {0,8}(?:(?:export|default|async|public|private|protected|static|abstract|final|pub) ){0,4}"
    r"(?:def|class|func|function|fn|interface|struct|enum|trait|type) (?:\([^()\n]{1,60}\) )?([A-Za-z_$][\w$]{1,80})"
)

_FILES = 3


def find_in_lines(body: str, kind: str, block: int = 0, source: str = "") -> list[Candidate]:
    """The lines of a log, a listing or a file that say enough to be facts."""
    lines = body.split("\n")
    if max(map(len, lines)) > LONGEST:
        lines = split_lines(body) or [""]
        body = "\n".join(lines)
    return [
        Candidate(line, words, kind, source, values, block)
        for line, (words, values) in zip(lines, measure_lines(body), strict=True)
        if len(words) > 2
    ]


def choose_lines(
    found: Sequence[Candidate], scores: Sequence[int], vocabulary: Vocabulary, by: Facts, *, merges: bool = False
) -> list[tuple[Candidate, Line]]:
    """The lines of the highest scores, unlike each other, in their order; ranked by the order of choice.

    Results that repeat are counted; where summaries are merged, only those that have a count.
    """
    spoken = newest_of_each_pattern([(one.text, at) for at, one in enumerate(found) if one.kind in PROSE])
    prose = {at for _, at in spoken}
    repeating = {at: one.text for at, one in enumerate(found) if one.kind in _COUNTED and not one.source}
    if merges:
        repeating = {at: text for at, text in repeating.items() if _TIMES.search(text)}
    said = dict(count_alike(repeating.items()))
    left_out = repeating.keys() - said.keys()
    ranked = sorted((-score, -at) for at, score in enumerate(scores) if score > 0 and at not in left_out)
    few = islice((pair for pair in ranked if found[-pair[1]].kind not in PROSE), by.lines)
    pool = sorted([*(pair for pair in ranked if -pair[1] in prose), *few])[: by.pool]
    candidates = [(-score, frozenset(found[-at].words) - vocabulary.empty) for score, at in pool]
    chosen = choose_diverse(candidates, by.most, by.diversity)
    ranks = {-pool[index][1]: by.most - place for place, index in enumerate(chosen)}
    told = [(at, found[at]._replace(text=said.get(at, found[at].text))) for at in sorted(ranks)]
    return [(one, Line(render_fact(one), ranks[at])) for at, one in told]


def count_alike(lines: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """The lines (place, text); of a run that differs in digits alone only the newest, with a count: `(9 times)`.

    Counts that the lines have already are added up. Lines without two words of letters are alike only if equal.
    """
    read = [(at, line, *_read_counted(line)) for at, line in lines]
    patterns = [_pattern_of(text + outcome) for _, _, text, _, outcome in read]
    times: Counter[str] = Counter()
    for (_, _, _, said, _), pattern in zip(read, patterns, strict=True):
        times[pattern] += said
    newest: dict[str, tuple[int, str]] = {}
    for (at, line, text, _, outcome), pattern in zip(read, patterns, strict=True):
        is_run = times[pattern] >= _RUN
        key = pattern if is_run else line
        newest.pop(key, None)
        newest[key] = at, f"{text} ({times[pattern]} times){outcome}" if is_run else line
    return [*newest.values()]


def _read_counted(line: str) -> tuple[str, int, str]:
    """A line's text before its count, the count, and the outcome behind it."""
    if " times)" not in line and " → " not in line:
        return line, 1, ""
    counted = _TIMES.search(line)
    end, rest = counted.span() if counted else (_end_of_action(line),) * 2
    return line[:end], int(counted[1]) if counted else 1, line[rest:]


def without_count(text: str) -> str:
    """The line as it was said, without how often."""
    return _TIMES.sub("", text)


def _end_of_action(line: str) -> int:
    """Where a count goes: before the outcome of an action, or at the end."""
    at = -1 if line.startswith('"') else line.find(" → ")
    return len(line) if at < 0 else at


def _pattern_of(text: str) -> str:
    """The text without digits, if it has two words of letters at least."""
    pattern = _DIGITS.sub("0", text)
    return pattern if pattern != text and any(islice(_WORD.finditer(text), 1, 2)) else text


Said = TypeVar("Said", bound=tuple[str, int])  # begins with a text


def newest_of_each_pattern(lines: Iterable[Said]) -> list[Said]:
    """The lines without those of which two newer ones differ in numbers, paths and names of code alone."""
    kept: list[Said] = []
    seen: Counter[str] = Counter()
    is_exact = cache(_EXACT.search)  # most words stand in many lines
    for line in reversed([*lines]):
        pattern = " ".join(["" if is_exact(word) else word for word in line[0].split()])
        seen[pattern] += 1
        if seen[pattern] <= _OF_A_PATTERN:
            kept.append(line)
    return kept[::-1]


def find_names(found: Sequence[Candidate]) -> list[Line]:
    """What the newest files that were read define, a line for each file."""
    names: dict[str, dict[str, None]] = {}
    for line in found:
        if line.source and not _DEFINING.isdisjoint(line.words) and (defined := _DEFINITION.search(line.text)):
            names.setdefault(line.source, {})[defined[1]] = None
    return [
        Line(f"{source} defines " + list_whole(names[source], NAMES_CHARS), FACTS.most // 2)
        for source in list(names)[-_FILES:]
    ]


def render_fact(line: Candidate) -> str:
    """The line as it is shown, with the file and line number where it stands, if it was read from a file."""
    numbered = _NUMBERED.match(line.text)
    if not line.source:
        return shown(bare(line.text))
    place = f"{line.source}:{numbered[1]}" if numbered else line.source
    return f"{place}: {shown(bare(line.text[numbered.end() :] if numbered else line.text))}"
