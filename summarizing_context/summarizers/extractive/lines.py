"""Lines and sentences that may be kept: how much each is worth, and the choice among them.

Pure, in whole numbers. A linear model tells the worth of a line, learnt from notes that a language model wrote of real
sessions. Its weights are data, in `salience.toml`.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

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
from summarizing_context.summarizers.extractive.sections import Line

PROSE = frozenset(("user", "assistant", "thinks"))
PLACES = ("first", "last", "long", "closing", "newest")  # of a sentence; the names are those of weights
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


class Candidate(NamedTuple):
    """One line or sentence that may be kept."""

    text: str
    words: Words
    kind: str  # of its block
    values: int  # how many digits and marks of paths, names and percentages it has, up to a bound
    block: int = 0  # number of the block it stands in
    places: tuple[bool, ...] = (False,) * len(PLACES)  # first or last of its message, which is long (over six
    # sentences) or the last one before the human speaks, or the newest of its speaker
    source: str = ""  # the file it was read from


_NO_VALUE = bytes(byte for byte in range(256) if byte not in b"0123456789/=@$%_`\n")
_MOST_VALUES = 8


def sentence(text: str, block: int = 0, kind: str = "user", places: tuple[bool, ...] = ()) -> Candidate:
    """Return a sentence ready to be read."""
    values = len(text.encode("utf-8", "surrogatepass").translate(None, _NO_VALUE + b"\n"))
    words = words_of(text if text.isascii() else text.replace("’", "'"))
    return Candidate(text, words, kind, min(values, _MOST_VALUES), block, places or (False,) * len(PLACES))


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
        prose, others = ([one for one in found if (one.kind in PROSE) == is_prose] for is_prose in (True, False))
        said, read = (Counter(word for one in part for word in set(one.words)) for part in (prose, others))
        often = max(len(others) // 8, 8)  # more than one of eight lines says nothing
        self.empty = STOP_WORDS.union(word for word, times in read.items() if times > often)
        self.said = said.keys() - STOP_WORDS
        self.again = {word for word, times in said.items() if times > 1} - STOP_WORDS
        self.asked = {word for one in prose if one.kind == "user" for word in one.words} - STOP_WORDS


@cache
def _weights() -> Mapping[str, list[int]]:
    learnt: dict[str, list[int]] = tomllib.loads((files(__package__) / "salience.toml").read_text("utf-8"))["weights"]
    return learnt


def salience(one: Candidate, vocabulary: Vocabulary) -> int:
    """Return the thousandths of a line that careful notes are expected to repeat; negative for what they leave out."""
    is_prose = one.kind in PROSE
    content = set(one.words) - (STOP_WORDS if is_prose else vocabulary.empty)
    if one.values and not is_prose:
        content = {word for word in content if word > b":"}  # a number has another feature
    name, length, said = ("prose", one.words, vocabulary.again) if is_prose else ("lines", content, vocabulary.said)
    size = len(content) or 1
    features: list[tuple[str, int]] = [  # the name of a weight, and the place in its list: a bucket
        (one.kind, 0),
        (f"{name} length", bisect((4, 7, 11, 17, 27), len(length))),
        (f"{name} values", bisect((1, 2, 4, 8), one.values)),
        (f"{name} said", bisect((1, 5, 9, 13), 16 * len(said & content) // size)),
        (f"{name} asked", bisect((1, 5, 9, 13), 16 * len(vocabulary.asked & content) // size)),
    ]
    if is_prose:
        features += zip(PLACES, one.places, strict=True)
        features += [("question", one.text.endswith("?")), ("colon", one.text.endswith(":"))]
        features += [("quotes code", "`" in one.text), ("bold", "**" in one.text)]
        features += [(f"word {word.decode('utf-8', 'replace')}", 0) for word in dict.fromkeys(one.words[:3])]
    weights = _weights()
    return sum(weights[feature][at] for feature, at in features if feature in weights)


def worth(score: int, one: Candidate) -> int:
    """Count sentences whole, lines of results and arguments half: what they repeat can be read again."""
    if one.kind not in PROSE:
        return score * 50
    return 0 if one.kind == "user" or score < 150 else score * 100


_TIMES = re.compile(r" \((\d{1,9}) times\)(?= → |\Z)")
_RUN = 5  # lines that differ in digits alone are one run from here on


def choose_lines(
    found: Sequence[Candidate], scores: Sequence[int], vocabulary: Vocabulary, *, merges: bool = False
) -> list[tuple[Candidate, Line]]:
    """Return the lines of the highest scores, unlike each other, in their order; ranked by the order of choice.

    Results that repeat are counted; where summaries are merged, only those that have a count. A line of a file is shown
    with the file and its number in it.
    """
    most, pool, others = (64, 64, 64) if merges else (60, 120, 16)  # lines chosen, competing, and competing that are
    # no prose
    prose = [at for at, one in enumerate(found) if one.kind in PROSE]
    prose = [prose[at] for at in newest_of_each_pattern([found[at].text for at in prose])]
    lines = [at for at, one in enumerate(found) if one.kind not in PROSE]
    repeating = {
        at: found[at].text
        for at in lines
        if found[at].kind in ("result", "failed")
        and not found[at].source
        and (not merges or _TIMES.search(found[at].text))
    }
    counted = _count_alike(repeating)
    lines = [at for at in lines if at in counted or at not in repeating]
    ranked, few = (sorted((-scores[at], -at) for at in part if scores[at] > 0) for part in (prose, lines))
    best = [-at for _, at in sorted([*ranked, *few[:others]])[:pool]]

    # Take the best again and again; the words that it tells make those lines worth less that tell them too.
    words = {at: set(found[at].words) - vocabulary.empty for at in best}
    left = [at for at in best if words[at]]
    overlap = dict.fromkeys(left, 0)  # the largest share of a line's words in one that is chosen, in 64ths
    chosen: list[int] = []
    while left and len(chosen) < most:
        taken = max(left, key=lambda at: scores[at] * (80 - overlap[at]))
        chosen.append(taken)
        for at in left:
            overlap[at] = max(overlap[at], len(words[at] & words[taken]) * 64 // len(words[at]))
        left = [at for at in left if at != taken and overlap[at] <= 56]

    shown_lines: list[tuple[Candidate, Line]] = []
    for at in sorted(chosen):
        one = found[at]._replace(text=counted.get(at, found[at].text))
        text, where = one.text, one.source
        if where and (numbered := re.match(r"\s{0,8}(\d{1,6})(?:→|\t|[:|-](?!\d)) ?", text)):
            text, where = text[numbered.end() :], f"{where}:{numbered[1]}"
        said = shown(bare(text))
        shown_lines.append((one, Line(f"{where}: {said}" if where else said, most - chosen.index(at))))
    return shown_lines


def _count_alike(lines: Mapping[int, str]) -> dict[int, str]:
    """Return the lines by their places; of a run that differs in digits alone the newest, with a count: `(9 times)`.

    Counts that the lines have already are added up. Lines without two words of letters are alike only if equal.
    """
    read: dict[int, tuple[str, str, str]] = {}  # what is said, its outcome, and its pattern
    times: Counter[str] = Counter()
    for at, line in lines.items():
        if " times)" in line and (counted := _TIMES.search(line)):
            text, number, outcome = line[: counted.start()], int(counted[1]), line[counted.end() :]
        else:  # a count goes before the outcome of an action
            text, arrow, rest = (line, "", "") if line.startswith('"') else line.partition(" → ")
            number, outcome = 1, arrow + rest
        pattern = text + outcome
        if len(re.findall(r"[^\W\d_]{2,}", pattern)) > 1:
            pattern = re.sub(r"\d\d*(?:[.,]\d+)*", "0", pattern)  # one digit in front is found sooner than `\d+`
        times[pattern] += number
        read[at] = text, outcome, pattern
    newest: dict[str, tuple[int, str]] = {}
    for at, (text, outcome, pattern) in read.items():
        if times[pattern] >= _RUN:
            newest[pattern] = at, f"{text} ({times[pattern]} times){outcome}"
        else:
            newest[lines[at]] = at, lines[at]
    return dict(newest.values())


def without_count(text: str) -> str:
    """Return the line as it was said, without how often."""
    return _TIMES.sub("", text)


_EXACT = re.compile(r"[\d_/`]|\w\.\w|[a-z][A-Z]")  # in a number, a path or a name of code


def newest_of_each_pattern(texts: Sequence[str]) -> list[int]:
    """Return the places of the texts without those of which two newer ones differ in numbers, paths and names of code
    alone."""
    kept: list[int] = []
    seen: Counter[str] = Counter()
    for at in reversed(range(len(texts))):
        pattern = " ".join("" if _EXACT.search(word) else word for word in texts[at].split())
        seen[pattern] += 1
        if seen[pattern] <= 2:
            kept.append(at)
    return kept[::-1]


def key_lines(text: str, max_tokens: int) -> list[str]:
    """Return the lines of `text` that matter most, each on one line, within `max_tokens` together: errors, then
    values."""
    body = cleaned(text)
    errors = error_lines(body, 6)
    found = find_in_lines(body, "result")
    vocabulary = Vocabulary(found)
    chosen = [line for _, line in choose_lines(found, [salience(one, vocabulary) for one in found], vocabulary)]
    joined, left = "", max_tokens
    taken: set[str] = set()
    for line in dict.fromkeys((*errors, *(fact.text for fact in sorted(chosen, key=lambda fact: -fact.rank)))):
        longer = f"{joined}- {line}\n"
        if (
            estimate_text(f"- {line}\n") <= left and estimate_text(longer) <= max_tokens
        ):  # together they may be more than each by itself
            taken.add(line)
            joined, left = longer, max_tokens - estimate_text(longer)
    return [line for line in dict.fromkeys((*errors, *(fact.text for fact in chosen))) if line in taken]
