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
from itertools import islice
from typing import NamedTuple, TypeVar

from summarizing_context.extraction.tool_calls import error_lines
from summarizing_context.messages.text import (
    LINES_TABLE,
    LONGEST,
    Words,
    bare,
    cleaned,
    shown,
    split_lines,
    words_of,
)
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.extractive.sections import Count, Line

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
    values: int  # how many digits and marks of paths, names and percentages it has, up to a bound
    block: int = 0  # number of the block it stands in
    place: Place = NOWHERE
    source: str = ""  # the file it was read from


_NO_VALUE = bytes(byte for byte in range(256) if byte not in b"0123456789/=@$%_`\n")
_MOST_VALUES = 8


def sentence(text: str, block: int, kind: str = "user", place: Place = NOWHERE) -> Candidate:
    """Return a sentence ready to be read."""
    values = len(text.encode("utf-8", "surrogatepass").translate(None, _NO_VALUE + b"\n"))
    words = words_of(text if text.isascii() else text.replace("’", "'"))
    return Candidate(text, words, kind, min(values, _MOST_VALUES), block, place)


def find_in_lines(body: str, kind: str, block: int = 0, source: str = "") -> list[Candidate]:
    """Return the lines of a log, a listing or a file that say enough to be facts."""
    lines = body.split("\n")
    if max(map(len, lines)) > LONGEST:
        lines = split_lines(body) or [""]
    raw = "\n".join(lines).encode("utf-8", "surrogatepass")  # read all at once: many times quicker than by line
    words = map(bytes.split, raw.translate(LINES_TABLE, b"'").split(b"\n"))
    values = map(len, raw.translate(None, _NO_VALUE).split(b"\n"))
    return [
        Candidate(line, said, kind, min(marks, _MOST_VALUES), block, source=source)
        for line, said, marks in zip(lines, words, values, strict=True)
        if len(said) > 2
    ]


class Vocabulary:
    """What the work is about, by the words that people and the agent say; and the words that say nothing.

    Those are stop words, and the words of lines that look alike, such as the name of a step before each line of a log.
    """

    def __init__(self, found: Sequence[Candidate]) -> None:
        others, said = (
            Counter(word for one in found if (one.kind in PROSE) == is_prose for word in set(one.words))
            for is_prose in (False, True)
        )
        often = max(sum(one.kind not in PROSE for one in found) // 8, 8)  # more than one of eight lines says nothing
        self.empty = STOP_WORDS.union(word for word, times in others.items() if times > often)
        self.said = said.keys() - STOP_WORDS
        self.again = {word for word, times in said.items() if times > 1} - STOP_WORDS
        self.asked = {word for one in found if one.kind == "user" for word in one.words} - STOP_WORDS


_LENGTHS = (4, 7, 11, 17, 27)  # words at which the next bucket begins
_VALUES = (1, 2, 4, 8)
_SHARES = (1, 5, 9, 13)  # of a line's content words, in sixteenths


def salience(one: Candidate, vocabulary: Vocabulary) -> int:
    """Return the thousandths of a line that careful notes are expected to repeat; negative for what they leave out."""
    is_prose = one.kind in PROSE
    content = set(one.words) - (STOP_WORDS if is_prose else vocabulary.empty)
    if one.values and not is_prose:
        content = {word for word in content if word > b":"}  # a number has another feature
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


_DIVERSITY = 80  # from 65 on; the lower, the more a line suffers from words that were told already
_MOST_OVERLAP = 56  # 64ths of a line's words that chosen lines may already hold
_NUMBERED = re.compile(r"\s{0,8}(\d{1,6})(?:→|\t|[:|-](?!\d)) ?")


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

    Results that repeat are counted; where summaries are merged, only those that have a count. A line of a file is shown
    with the file and its number in it.
    """
    prose = {
        at for _, at in newest_of_each_pattern([(one.text, at) for at, one in enumerate(found) if one.kind in PROSE])
    }
    repeating = {
        at: one.text
        for at, one in enumerate(found)
        if one.kind in ("result", "failed") and not one.source and (not merges or _TIMES.search(one.text))
    }
    counted = _count_alike(repeating)
    ranked = sorted((-score, -at) for at, score in enumerate(scores) if score > 0 and at in prose)
    few = sorted(
        (-score, -at)
        for at, score in enumerate(scores)
        if score > 0 and found[at].kind not in PROSE and (at in counted or at not in repeating)
    )
    best = sorted([*ranked, *few[:others]])[:pool]

    # Take the best again and again; the words that it tells make those lines worth less that tell them too.
    words = {-at: set(found[-at].words) - vocabulary.empty for _, at in best}
    left = [-at for _, at in best if words[-at]]
    overlap = dict.fromkeys(left, 0)  # the largest share of a line's words in one that is chosen, in 64ths
    chosen: list[int] = []
    while left and len(chosen) < most:
        taken = max(left, key=lambda at: scores[at] * (_DIVERSITY - overlap[at]))
        chosen.append(taken)
        for at in left:
            overlap[at] = max(overlap[at], len(words[at] & words[taken]) * 64 // len(words[at]))
        left = [at for at in left if at != taken and overlap[at] <= _MOST_OVERLAP]

    lines: list[tuple[Candidate, Line]] = []
    for at in sorted(chosen):
        one = found[at]._replace(text=counted.get(at, found[at].text))
        text, where = one.text, one.source
        if where and (numbered := _NUMBERED.match(text)):
            text, where = text[numbered.end() :], f"{where}:{numbered[1]}"
        said = shown(bare(text))
        lines.append((one, Line(f"{where}: {said}" if where else said, most - chosen.index(at))))
    return lines


_TIMES = re.compile(r" \((\d{1,9}) times\)(?= → |\Z)")
_RUN = 5  # lines that differ in digits alone are one run from here on
_DIGITS = re.compile(r"\d\d*(?:[.,]\d+)*")  # one digit in front is found sooner than `\d+`
_WORD = re.compile(r"[^\W\d_]{2,}")


def _count_alike(lines: Mapping[int, str]) -> dict[int, str]:
    """Return the lines by their places; of a run that differs in digits alone the newest, with a count: `(9 times)`.

    Counts that the lines have already are added up. Lines without two words of letters are alike only if equal.
    """
    read: list[tuple[int, str, str, str]] = []
    times: Counter[str] = Counter()
    for at, line in lines.items():
        if " times)" in line and (counted := _TIMES.search(line)):
            text, number, outcome = line[: counted.start()], int(counted[1]), line[counted.end() :]
        else:  # a count goes before the outcome of an action
            text, arrow, rest = (line, "", "") if line.startswith('"') else line.partition(" → ")
            number, outcome = 1, arrow + rest
        pattern = _DIGITS.sub("0", text + outcome)
        if not any(islice(_WORD.finditer(text + outcome), 1, 2)):
            pattern = text + outcome
        times[pattern] += number
        read.append((at, text, outcome, pattern))
    newest: dict[str, tuple[int, str]] = {}
    for at, text, outcome, pattern in read:
        is_run = times[pattern] >= _RUN
        newest[pattern if is_run else lines[at]] = (
            at,
            f"{text} ({times[pattern]} times){outcome}" if is_run else lines[at],
        )
    return dict(newest.values())


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


def key_lines(text: str, max_tokens: int, *, count: Count = estimate_text) -> list[str]:
    """Return the lines of `text` that matter most, each on one line, within `max_tokens` together: errors, then
    values."""
    body = cleaned(text)
    errors = error_lines(body, 6)
    found = find_in_lines(body, "result")
    vocabulary = Vocabulary(found)
    chosen = choose_lines(found, [salience(one, vocabulary) for one in found], vocabulary)
    facts = [line for _, line in chosen if line.text not in errors]
    joined, left = "", max_tokens
    taken: set[str] = set()
    for line in (*errors, *(fact.text for fact in sorted(facts, key=lambda fact: -fact.rank))):
        if line in taken or count(f"- {line}\n") > left:
            continue
        longer = f"{joined}- {line}\n"
        if (tokens := count(longer)) <= max_tokens:  # together they may be more than each by itself
            taken.add(line)
            joined, left = longer, max_tokens - tokens
    return [line for line in dict.fromkeys((*errors, *(fact.text for fact in facts))) if line in taken]
