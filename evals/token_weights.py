"""Fit the weights of the token estimate to o200k_base: `python -m evals.token_weights FOLDER`.

FOLDER holds transcripts, `*.jsonl.gz`, a message on each line. Every second one is fitted to, by least squares, beside
made-up texts of random characters and prose of many scripts; the others tell how far the estimate is off.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import string
import sys
from collections.abc import Iterator
from operator import mul
from pathlib import Path
from statistics import mean

from summarizing_context.messages.reading import message_text_parts
from summarizing_context.messages.tokens import SCALE, WEIGHTS, estimate_text, features, load_offline

FITTED = [name for name in WEIGHTS if name not in ("marks", "foreign")]


def made_up(dice: random.Random) -> Iterator[str]:
    """Yield texts that make no words, and prose of many scripts."""
    yield from (dice.randbytes(1_500).hex(), dice.randbytes(1_500).hex().upper())
    yield base64.b64encode(dice.randbytes(2_000)).decode()
    letters, lowers, numbers = string.ascii_letters, string.ascii_lowercase, string.digits
    for signs in (letters, lowers, letters + numbers, lowers + numbers, string.printable[:94], numbers):
        yield "".join(dice.choices(signs, k=2_000))
    yield " ".join(str(dice.randrange(10**9)) for _ in range(300))
    yield "".join(dice.choices("\0\1\x1b\x7fab", k=500))
    for first, last in ((0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x430, 0x44F), (0x13A0, 0x13F4)):
        yield "".join(chr(dice.randint(first, last)) for _ in range(800))
    yield from json.loads(Path("tests/data/prose.json").read_text(encoding="utf-8")).values()


def fitted(rows: list[tuple[list[int], float, float]]) -> dict[str, int]:
    """Return the weights by least squares: coordinates in turn, none below zero but that of `syllables`."""
    size = range(len(FITTED))
    square = [[sum(weight * row[one] * row[two] for row, _, weight in rows) for two in size] for one in size]
    target = [sum(weight * row[one] * tokens for row, tokens, weight in rows) for one in size]
    found = [0.0 for _ in size]
    for _ in range(20_000):
        for at in size:
            best = found[at] + (target[at] - sum(map(mul, square[at], found))) / square[at][at]
            found[at] = best if FITTED[at] == "syllables" else max(0, best)
    return {name: round(weight * SCALE) for name, weight in zip(FITTED, found, strict=True)}


def main(folder: str) -> None:
    """Print the weights, and how far the estimate is off in the transcripts that were not fitted to."""
    exact = load_offline()
    assert exact is not None, "needs tiktoken's ranks"
    rows, errors = [], []
    files = sorted(Path(folder).rglob("*.jsonl.gz"))
    random.Random(3).shuffle(files)
    texts = [("", text) for seed in range(5) for text in made_up(random.Random(seed))]
    for at, path in enumerate(files):
        messages = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
        found = [text[:20_000] for message in messages for text in message_text_parts(message) if text][:300]
        counts = [len(exact.encode(text, disallowed_special=())) for text in found]
        if at % 2 and found:
            errors.append(sum(map(estimate_text, found)) / sum(counts) - 1)
        else:
            texts += [(path.name, text) for text in found]
    for name, text in texts:
        tokens = len(exact.encode(text, disallowed_special=()))
        counted = dict(zip(WEIGHTS, features(text)[1], strict=True))
        target = tokens - counted["foreign"] / SCALE
        rows.append(([counted[name] for name in FITTED], target, 1 / (tokens + 20) if name else 5 / tokens))
    print(fitted(rows))
    print(f"off by {mean(map(abs, errors)):.1%}, bias {mean(errors):+.1%}, {min(errors):+.1%} to {max(errors):+.1%}")


if __name__ == "__main__":
    main(sys.argv[1])
