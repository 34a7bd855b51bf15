"""Make the table of `summarizing_context/messages/estimate.py` from the vocabulary of o200k_base.

Run from a checkout as `python -m evals.letter_pairs`; the table is printed. No text is needed: how frequent a pair is
in words and in code is read off the vocabulary itself, whose first tokens are those of the most frequent words.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from string import ascii_lowercase as LETTERS

from summarizing_context.messages.counters import load_offline

CLASSES = 15  # of first letters and of second ones: half a byte each, with one value for all that is no letter
SELDOM = 0.3  # of the frequency that a pair would have among letters drawn by chance
VOWELS_SELDOM = 1.2  # of two vowels: few of their pairs are rarer
_EARLIEST = 2_000  # a token's frequency falls with its rank beyond about this one

Classes = list[str]


def main() -> None:
    gains = _gains()
    firsts, seconds = list(LETTERS), list(LETTERS)
    while len(firsts) > CLASSES or len(seconds) > CLASSES:
        firsts = _with_two_as_one(firsts, seconds, gains)
        seconds = _with_two_as_one(seconds, firsts, {pair[::-1]: gain for pair, gain in gains.items()})
    for first in sorted(firsts):
        seldom = "".join(second for second in seconds if _gain(gains, first, second) > 0)
        print(f'    "{first}": "{"".join(sorted(seldom))}",')


def _gains() -> dict[str, float]:
    """How much less frequent each pair is than the limit."""
    encoding = load_offline()
    if encoding is None:
        raise SystemExit("tiktoken's ranks are not on this machine; install summarizing-context[offline-tokens]")
    weights: dict[str, float] = defaultdict(float)
    for token in encoding.token_byte_values():
        word = token.strip().lower()
        if word.isascii():
            for pair in zip(word.decode(), word.decode()[1:], strict=False):
                if set(pair) <= set(LETTERS):
                    weights["".join(pair)] += 1 / (encoding.encode_single_token(token) + _EARLIEST)
    total = sum(weights.values())
    return {
        one + other: (VOWELS_SELDOM if {one, other} <= set("aeiou") else SELDOM) / len(LETTERS) ** 2
        - weights[one + other] / total
        for one in LETTERS
        for other in LETTERS
    }


def _gain(gains: dict[str, float], firsts: str, seconds: str) -> float:
    return sum(gains[one + other] for one in firsts for other in seconds)


def _kept(gains: dict[str, float], letters: str, others: Classes) -> float:
    return sum(max(0.0, _gain(gains, letters, other)) for other in others)


def _with_two_as_one(classes: Classes, others: Classes, gains: dict[str, float]) -> Classes:
    """The classes, two of them made one if there are too many: those that lose least by it."""
    if len(classes) <= CLASSES:
        return classes
    by_class = {letters: _kept(gains, letters, others) for letters in classes}
    one, other = min(
        combinations(classes, 2),
        key=lambda two: by_class[two[0]] + by_class[two[1]] - _kept(gains, "".join(two), others),
    )
    return [letters for letters in classes if letters not in (one, other)] + [one + other]


if __name__ == "__main__":
    main()
