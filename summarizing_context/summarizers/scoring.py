"""Which words matter, which lines say most, and which of them say something new: TF-IDF and MMR.

Pure, and in whole numbers only: sums of floats over sets would differ from process to process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from summarizing_context.core.words import LINES_TABLE, Words
from summarizing_context.summarizers.parameters import Facts

_VALUE_BYTES = b"0123456789/=@$%_`"
_NOT_VALUE = bytes(byte for byte in range(256) if byte not in _VALUE_BYTES)
_NEITHER_VALUE_NOR_LINE_END = _NOT_VALUE.replace(b"\n", b"")
_MOST_VALUES = 8
_TOO_MUCH = 56  # 64ths of a line's words that may have been said before
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
    """How rich in exact values a line is: digits and the marks of paths, names and shares, up to a bound."""
    return min(len(text.encode("utf-8", "surrogatepass").translate(None, _NOT_VALUE)), _MOST_VALUES)


def measure_lines(body: str) -> list[tuple[Words, int]]:
    """`words_of` and `count_values` of each line, many times quicker than line by line."""
    raw = body.encode("utf-8", "surrogatepass")
    words = map(bytes.split, raw.translate(LINES_TABLE, b"'").split(b"\n"))
    values = map(len, raw.translate(None, _NEITHER_VALUE_NOR_LINE_END).split(b"\n"))
    return [(said, min(marks, _MOST_VALUES)) for said, marks in zip(words, values, strict=True)]


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
    candidates: Sequence[tuple[int, Words]], said: Iterable[Words], most: int, diversity: int
) -> list[int]:
    """Indices of at most `most` candidates (score, words), best first, each new against `said` and those before it."""
    words = [frozenset(words) for _, words in candidates]
    left = [at for at, (score, _) in enumerate(candidates) if score > 0 and words[at]]
    overlap = [0] * len(candidates)  # the largest share of a candidate's words in what is taken, in 64ths
    taken = frozenset(chain.from_iterable(said))
    chosen: list[int] = []
    while True:
        for at in left:
            share = len(words[at] & taken) * 64 // len(words[at])
            if share > overlap[at]:
                overlap[at] = share
        left = [at for at in left if overlap[at] <= _TOO_MUCH]
        if not left or len(chosen) == most:
            return chosen
        best = max(left, key=lambda at: (candidates[at][0] * (diversity - overlap[at]), -at))
        chosen.append(best)
        left.remove(best)
        taken = words[best]


def rarity(total: int, count: int, times: int = 4) -> int:
    """So many times the binary logarithm of total over count, rounded down, by whole numbers, and one more."""
    power: int = (total // count) ** times
    return power.bit_length()
