"""Lines and sentences that may be kept: how much each is worth, and the choice among them.

Pure, in whole numbers. A linear model tells the worth of a line, learnt from notes that a language model wrote of real
sessions. Its weights are data, in `salience.toml`.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain, islice
from typing import NamedTuple, TypeVar

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
from summarizing_context.summarizers.extractive.sections import Line

PROSE = frozenset(("user", "assistant", "thinks"))

MOST_FACTS = 60  # lines of one summary, before they are fitted

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
    """Where a sentence stands. The names are those of weights."""

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
    values: int  # how many digits and marks of paths, names and percentages it has, up to a bound
    block: int = 0  # number of the block it stands in
    place: Place = NOWHERE


_NO_VALUE = bytes(byte for byte in range(256) if byte not in b"0123456789/=@$%_`")

_NO_VALUE_OR_END = _NO_VALUE.replace(b"\n", b"")

_MOST_VALUES = 8


def sentence(text: str, block: int, kind: str = "user", place: Place = NOWHERE) -> Candidate:
    """Return a sentence ready to be read."""
    values = len(text.encode("utf-8", "surrogatepass").translate(None, _NO_VALUE))
    words = words_of(text if text.isascii() else text.replace("’", "'"))
    return Candidate(text, words, kind, "", min(values, _MOST_VALUES), block, place)


def find_in_lines(body: str, kind: str, block: int = 0, source: str = "") -> list[Candidate]:
    """Return the lines of a log, a listing or a file that say enough to be facts."""
    lines = body.split("\n")
    if max(map(len, lines)) > LONGEST:
        lines = split_lines(body) or [""]
        body = "\n".join(lines)
    raw = body.encode("utf-8", "surrogatepass")  # read all at once, which is many times quicker than line by line
    words = map(bytes.split, raw.translate(LINES_TABLE, b"'").split(b"\n"))
    values = map(len, raw.translate(None, _NO_VALUE_OR_END).split(b"\n"))
    return [
        Candidate(line, said, kind, source, min(marks, _MOST_VALUES), block)
        for line, said, marks in zip(lines, words, values, strict=True)
        if len(said) > 2
    ]


class Vocabulary:
    """What the work is about, by the words that people and the agent say; and the words that say nothing.

    Those are stop words, and the words of lines that look alike, such as the name of a step before each line of a log.
    """

    def __init__(self, found: Sequence[Candidate]) -> None:
        others = [one.words for one in found if one.kind not in PROSE]
        often = max(len(others) // 8, 8)  # a word in more than one of eight lines says nothing of any of them
        self.empty = STOP_WORDS.union(word for word, times in _counted(others).items() if times > often)
        said = _counted(one.words for one in found if one.kind in PROSE)
        self.said = frozenset(said) - STOP_WORDS
        self.again = frozenset(word for word, times in said.items() if times > 1) - STOP_WORDS
        self.asked = frozenset(word for one in found if one.kind == "user" for word in one.words) - STOP_WORDS


def _counted(lines: Iterable[Words]) -> Counter[bytes]:
    """Count in how many lines each word stands."""
    return Counter(chain.from_iterable(map(frozenset, lines)))


_LENGTHS = (4, 7, 11, 17, 27)  # words at which the next bucket begins

_VALUES = (1, 2, 4, 8)

_SHARES = (1, 5, 9, 13)  # of a line's content words, in sixteenths


def salience(one: Candidate, vocabulary: Vocabulary) -> int:
    """Return the thousandths of a line that careful notes are expected to repeat; negative for what they leave out."""
    is_prose = one.kind in PROSE
    content = frozenset(one.words) - (STOP_WORDS if is_prose else vocabulary.empty)
    if one.values and not is_prose:
        content = frozenset(word for word in content if word > b":")  # a number has another feature
    name, length, said = ("prose", one.words, vocabulary.again) if is_prose else ("lines", content, vocabulary.said)
    size = len(content) or 1
    features: list[tuple[str, int]] = [  # the name of a weight, and the place in its list
        (one.kind, 0),
        (f"{name} length", bisect(_LENGTHS, len(length))),
        (f"{name} values", bisect(_VALUES, one.values)),
        (f"{name} said", bisect(_SHARES, 16 * len(said & content) // size)),
        (f"{name} asked", bisect(_SHARES, 16 * len(vocabulary.asked & content) // size)),
    ]
    if is_prose:
        features += zip(Place._fields, one.place, strict=True)
        features += [("question", one.text.endswith("?")), ("colon", one.text.endswith(":"))]
        features += [("quotes code", "`" in one.text), ("bold", "**" in one.text)]
        features += [(f"word {word.decode('utf-8', 'replace')}", 0) for word in dict.fromkeys(one.words[:3])]
    weights = _weights()
    return sum(weights[feature][at] for feature, at in features if feature in weights)


@cache
def _weights() -> Mapping[str, list[int]]:
    learnt: dict[str, list[int]] = tomllib.loads((files(__package__) / "salience.toml").read_text("utf-8"))["weights"]
    return learnt


def worth(score: int, one: Candidate) -> int:
    """Count sentences whole, lines of results and arguments half: what they repeat can be read again."""
    if one.kind not in PROSE:
        return score * 50
    return 0 if one.kind == "user" or score < 150 else score * 100


def choose_lines(
    found: Sequence[Candidate],
    scores: Sequence[int],
    vocabulary: Vocabulary,
    *,
    most: int = MOST_FACTS,
    pool: int = 120,  # candidates that compete
    others: int = 16,  # of these what is not prose
    merges: bool = False,
) -> list[tuple[Candidate, Line]]:
    """Return the lines of the highest scores, unlike each other, in their order; ranked by the order of choice.

    Results that repeat are counted; where summaries are merged, only those that have a count.
    """
    prose = {
        at for _, at in newest_of_each_pattern([(one.text, at) for at, one in enumerate(found) if one.kind in PROSE])
    }
    repeating = {
        at: one.text
        for at, one in enumerate(found)
        if one.kind in ("result", "failed") and not one.source and (not merges or _TIMES.search(one.text))
    }
    said = dict(_count_alike(repeating.items()))
    left_out = repeating.keys() - said.keys()
    ranked = sorted((-score, -at) for at, score in enumerate(scores) if score > 0 and at not in left_out)
    few = islice((pair for pair in ranked if found[-pair[1]].kind not in PROSE), others)
    best = sorted([*(pair for pair in ranked if -pair[1] in prose), *few])[:pool]
    candidates = [(-score, frozenset(found[-at].words) - vocabulary.empty) for score, at in best]
    ranks = {-best[index][1]: most - place for place, index in enumerate(_choose_diverse(candidates, most))}
    told = [(at, found[at]._replace(text=said.get(at, found[at].text))) for at in sorted(ranks)]
    return [(one, Line(_render_fact(one), ranks[at])) for at, one in told]


_DIVERSITY = 80  # from 65 on; the lower, the more a line suffers from words that were told already

_MOST_OVERLAP = 56  # 64ths of a line's words that chosen lines may already hold


def _choose_diverse(candidates: Sequence[tuple[int, frozenset[bytes]]], most: int) -> list[int]:
    """Return the indices of at most `most` candidates (score, words), best first, each unlike those before it."""
    left = [at for at, (score, words) in enumerate(candidates) if score > 0 and words]
    overlap = [0] * len(candidates)  # the largest share of a candidate's words in what is taken, in 64ths
    worths = [score * _DIVERSITY for score, _ in candidates]
    chosen: list[int] = []
    while left and len(chosen) < most:
        best = max(left, key=worths.__getitem__)
        chosen.append(best)
        left.remove(best)
        for at in left:
            score, words = candidates[at]
            share = len(words & candidates[best][1]) * 64 // len(words)
            if share > overlap[at]:
                overlap[at] = share
                worths[at] = score * (_DIVERSITY - share)
        left = [at for at in left if overlap[at] <= _MOST_OVERLAP]
    return chosen


_TIMES = re.compile(r" \((\d{1,9}) times\)(?= → |\Z)")

_RUN = 5  # lines that differ in digits alone are one run from here on

_DIGITS = re.compile(r"\d\d*(?:[.,]\d+)*")  # one digit in front is found sooner than `\d+`

_WORD = re.compile(r"[^\W\d_]{2,}")


def _count_alike(lines: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the lines (place, text); of a run that differs in digits alone only the newest, with a count: `(9 times)`.

    Counts that the lines have already are added up. Lines without two words of letters are alike only if equal.
    """
    read: list[tuple[int, str, str, str, str]] = []
    times: Counter[str] = Counter()
    for at, line in lines:
        counted = _TIMES.search(line) if " times)" in line else None
        if counted:
            text, number, outcome = line[: counted.start()], int(counted[1]), line[counted.end() :]
        else:  # a count goes before the outcome of an action
            text, arrow, rest = (line, "", "") if line.startswith('"') else line.partition(" → ")
            number, outcome = 1, arrow + rest
        pattern = _DIGITS.sub("0", text + outcome)
        if pattern == text + outcome or not any(islice(_WORD.finditer(text + outcome), 1, 2)):
            pattern = text + outcome
        times[pattern] += number
        read.append((at, line, text, outcome, pattern))
    newest: dict[str, tuple[int, str]] = {}
    for at, line, text, outcome, pattern in read:
        is_run = times[pattern] >= _RUN
        key = pattern if is_run else line
        newest.pop(key, None)
        newest[key] = at, f"{text} ({times[pattern]} times){outcome}" if is_run else line
    return [*newest.values()]


def without_count(text: str) -> str:
    """Return the line as it was said, without how often."""
    return _TIMES.sub("", text)


Said = TypeVar("Said", bound=tuple[str, int])  # begins with a text

_EXACT = re.compile(r"[\d_/`]|\w\.\w|[a-z][A-Z]")  # in a number, a path or a name of code


def newest_of_each_pattern(lines: Iterable[Said]) -> list[Said]:
    """Return the lines without those of which two newer ones differ in numbers, paths and names of code alone."""
    kept: list[Said] = []
    seen: Counter[str] = Counter()
    for line in reversed([*lines]):
        pattern = " ".join("" if _EXACT.search(word) else word for word in line[0].split())
        seen[pattern] += 1
        if seen[pattern] <= 2:
            kept.append(line)
    return kept[::-1]


_DEFINING = frozenset(b"def class func function fn interface struct enum trait type".split())

_DEFINITION = re.compile(
    r"(?:^|→|\t|:) {0,8}(?:(?:export|default|async|public|private|protected|static|abstract|final|pub) ){0,4}"
    r"(?:def|class|func|function|fn|interface|struct|enum|trait|type) (?:\([^()\n]{1,60}\) )?([A-Za-z_$][\w$]{1,80})"
)


def find_names(found: Sequence[Candidate]) -> list[Line]:
    """Return what the newest three files that were read define, a line for each file."""
    names: dict[str, dict[str, None]] = {}
    for line in found:
        if line.source and not _DEFINING.isdisjoint(line.words) and (defined := _DEFINITION.search(line.text)):
            names.setdefault(line.source, {})[defined[1]] = None
    return [Line(f"{source} defines {list_whole(names[source], 160)}", MOST_FACTS // 2) for source in list(names)[-3:]]


_NUMBERED = re.compile(r"\s{0,8}(\d{1,6})(?:→|\t|[:|-](?!\d)) ?")


def _render_fact(line: Candidate) -> str:
    """Return the line as it is shown, with the file and line number where it stands, if it was read from a file."""
    if not line.source:
        return shown(bare(line.text))
    numbered = _NUMBERED.match(line.text)
    place, text = (
        (f"{line.source}:{numbered[1]}", line.text[numbered.end() :]) if numbered else (line.source, line.text)
    )
    return f"{place}: {shown(bare(text))}"
