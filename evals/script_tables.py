"""Make the table `summarizing_context/messages/scripts.b85` from the vocabulary of o200k_base.

Run from a checkout as `python -m evals.script_tables`; it is printed. No text is needed: which letters
follow each other in prose is read off the vocabulary itself, whose first tokens are those of the most frequent words.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from summarizing_context.messages.counters import load_offline
from summarizing_context.messages.scripts import BLOCK, SCRIPTS

GROUPS = 8  # of letters that go together, in each script: one bit of a byte each
STRICTNESS = 0.4  # of the frequency that a pair would have among the script's usual letters drawn by chance
_EARLIEST = 2_000  # a token's frequency falls with its rank beyond about this one

Gains = dict[str, dict[str, float]]  # of counting a pair as common


def main() -> None:
    encoding = load_offline()
    if encoding is None:
        raise SystemExit("tiktoken's ranks are not on this machine; install summarizing-context[offline-tokens]")
    words = {}
    for token in encoding.token_byte_values():
        try:
            words[token.decode()] = encoding.encode_single_token(token)
        except UnicodeDecodeError:
            continue
    whole = {word for word in words if len(word) == 1}
    halves = [_is_half(encoding.encode, start) for start in range(0, 0x10000, BLOCK)]
    letters = b"".join(_letters(words, first, last) for first, last, *_ in SCRIPTS)
    print(_packed(bytes(_bits([chr(code) in whole for code in range(0x10000)])) + bytes(_bits(halves)) + letters))


def _is_half(encode: Callable[[str], list[int]], start: int) -> bool:
    """Whether most characters of a block that are no token are two."""
    codes = [code for code in range(start, start + BLOCK) if not 0xD800 <= code < 0xE000]
    counts = [len(encode(chr(code))) for code in codes]
    return counts.count(2) > counts.count(3)


def _letters(words: dict[str, int], first: int, last: int) -> bytes:
    """For each letter of a script the groups that it is a first of, then those that it is a second of, a byte each."""
    weights: dict[tuple[str, str], float] = defaultdict(float)
    for word, rank in words.items():
        for one, other in zip(word.strip(), word.strip()[1:], strict=False):
            if chr(first) <= one <= chr(last) and chr(first) <= other <= chr(last):
                weights[one, other] += 1 / (rank + _EARLIEST)
    total = sum(weights.values())
    chance = STRICTNESS / _usual_letters(weights, total) ** 2
    gains: Gains = {one: {} for one, _ in weights}
    seconds = sorted({other for _, other in weights})
    for one, row in gains.items():
        row |= {other: weights.get((one, other), 0) / total - chance for other in seconds}
    firsts_of, seconds_of = bytearray(last + 1 - first), bytearray(last + 1 - first)
    for group in range(GROUPS):
        ones, others = _best_group(gains, seconds)
        for one in ones:
            firsts_of[ord(one) - first] |= 1 << group
            gains[one] |= dict.fromkeys(others, 0.0)
        for other in others:
            seconds_of[ord(other) - first] |= 1 << group
    return bytes(firsts_of + seconds_of)


def _usual_letters(weights: Mapping[tuple[str, str], float], total: float) -> float:
    """How many letters, if all were as frequent as each other, would be as hard to guess as those of the script."""
    shares: dict[str, float] = defaultdict(float)
    for (one, _), weight in weights.items():
        shares[one] += weight / total
    return math.exp(-sum(share * math.log(share) for share in shares.values()))


def _best_group(gains: Gains, seconds: Sequence[str]) -> tuple[set[str], set[str]]:
    """Firsts and seconds that gain most if every pair of them is common; each letter in turn is tried as a start."""
    best: tuple[float, set[str], set[str]] = (0.0, set(), set())
    for row in gains.values():
        others = {other for other in seconds if row[other] > 0}
        for _ in range(20):
            ones = {one for one, row in gains.items() if sum(row[other] for other in others) > 0}
            better = {other for other in seconds if sum(gains[one][other] for one in ones) > 0}
            if better == others:
                break
            others = better
        gain = sum(gains[one][other] for one in ones for other in others)
        best = max(best, (gain, ones, others), key=lambda found: found[0])
    return best[1], best[2]


def _bits(flags: Sequence[bool]) -> list[int]:
    return [sum(flag << at for at, flag in enumerate(flags[n : n + 8])) for n in range(0, len(flags), 8)]


def _packed(table: bytes) -> str:
    """The table as the file holds it; `scripts` says what stands in it."""
    packed = base64.b85encode(zlib.compress(table, 9)).decode()
    return "\n".join(packed[at : at + 112] for at in range(0, len(packed), 112))


if __name__ == "__main__":
    main()
