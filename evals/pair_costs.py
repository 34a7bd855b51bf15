"""Fit the costs of `summarizing_context/messages/estimate.py` to folders of text files; tell how far off they are.

Run from a checkout as `python -m evals.pair_costs <folder> ... [--fit]`. Every other file, by the digest of its text,
is held back from the fit. The first 40,000 characters of a file count, and copies of a text count once. Letters and
digits that stand by chance belong to the fit too: files hold few of them.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import string
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from summarizing_context.messages.counters import TiktokenCounter, load_offline
from summarizing_context.messages.estimate import (
    NUMBERS,
    RUN,
    RUNS,
    SCALE,
    UNIT,
    budget_tokens,
    estimate_text,
    look_at,
    repeated_pairs,
)

_CHARACTERS = 40_000
_LEAST = 300  # characters of a file that tells anything
_COLUMNS = [second << 4 | first for first in NUMBERS.values() for second in NUMBERS.values()]
_SPELLED = {NUMBERS["other"], NUMBERS["mark"]}  # their costs are the script's
_SIGNS = _COLUMNS.index(NUMBERS["sign"] << 4 | NUMBERS["sign"])
_BY_CHANCE = 4.0  # weight of such a text
_ALPHABETS = (
    *(
        string.ascii_lowercase,
        string.ascii_uppercase,
        string.ascii_letters,
        string.ascii_letters + string.digits + "+/",
    ),
    *(string.hexdigits[:16], string.hexdigits[:10] + "ABCDEF", string.digits, "ACGT", "acgt", "aeiou"),
    *(string.printable[:94], string.punctuation),
)
_LENGTHS = ((1, 1), (1, 3), (3, 3), (3, 10), (900, 900))  # of its words
_MOST = 2 * UNIT  # no pair costs more than two tokens: what seldom occurs is fitted badly


Count = Callable[[str], int]


class Measured(NamedTuple):
    """A text, and how many tokens it has."""

    text: str
    tokens: int
    held_back: bool
    weight: float = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--fit", action="store_true", help="print a new table")
    given = parser.parse_args()
    encoding = load_offline()
    if encoding is None:
        raise SystemExit("tiktoken's ranks are not on this machine; install summarizing-context[offline-tokens]")
    counter = TiktokenCounter(encoding).count
    texts = list(_measured(given.folders, counter))
    if given.fit:
        _print_table(_fitted([*(one for one in texts if not one.held_back), *_by_chance(counter)]))
    for name, count in (("cuts", estimate_text), ("budgets", budget_tokens)):
        print(_told(name, count, [one for one in texts if one.held_back]))


def _measured(folders: Sequence[Path], count: Count) -> Iterator[Measured]:
    seen = set()
    for path in sorted(path for folder in folders for path in folder.rglob("*") if path.is_file()):
        try:
            with path.open(encoding="utf-8") as file:
                text = file.read(_CHARACTERS)
        except (OSError, UnicodeDecodeError):
            continue
        digest = hashlib.sha256(text.encode()).digest()
        if len(text) >= _LEAST and "\0" not in text and digest not in seen:
            seen.add(digest)
            yield Measured(text, count(text), digest[0] % 2 == 1)


def _by_chance(count: Count) -> Iterator[Measured]:
    dice = random.Random(1)
    for alphabet in _ALPHABETS:
        for shortest, longest in _LENGTHS:
            for between in (" ", "\n", ", "):
                words = ("".join(dice.choices(alphabet, k=dice.randint(shortest, longest))) for _ in range(1_200))
                text = between.join(words)[:4_000]
                yield Measured(text, count(text), False, _BY_CHANCE)


def _fitted(texts: Sequence[Measured]) -> Any:
    """Costs of each pair and of a seldom one, none below nothing, by least squares of the errors in percent."""
    rows = np.array([_row(one) for one in texts])
    wanted, matrix = rows[:, 0], rows[:, 1:]
    normal, target = matrix.T @ matrix + 0.01 * np.eye(matrix.shape[1]), matrix.T @ wanted
    costs = np.zeros(matrix.shape[1])
    for _ in range(2_000):
        for at in range(len(costs)):
            change = (target[at] - normal[at] @ costs) / normal[at, at]
            costs[at] = min(max(0.0, costs[at] + change), _MOST / UNIT)
    return np.rint(costs * UNIT).astype(int)


def _row(one: Measured) -> Any:
    look = look_at(one.text)
    counts = np.bincount(np.frombuffer(look.pairs, dtype=np.uint8), minlength=256)[_COLUMNS]
    counts[[column & 15 in _SPELLED for column in _COLUMNS]] = 0
    runs = sum(map(look.data.count, RUNS))
    counts[_SIGNS] -= 4 * runs
    known = look.foreign / SCALE + runs * RUN / UNIT
    return np.array([one.tokens - known, *counts, look.seldom - repeated_pairs(look.data)]) * one.weight / one.tokens


def _print_table(costs: Any) -> None:
    for at, first in enumerate(NUMBERS):
        row = ", ".join(map(str, costs[at * len(NUMBERS) : (at + 1) * len(NUMBERS)]))
        print(f'    "{first}": ({row}),')
    print(f"SELDOM_COST = {costs[-1]}")


def _told(name: str, count: Count, texts: Sequence[Measured]) -> str:
    ratios = np.array([count(one.text) / one.tokens for one in texts])
    return (
        f"{name:8} {len(ratios)} files held back: {(ratios < 0.8).sum()} under 0.8 (least {ratios.min():.2f}), "
        f"{(ratios > 1.5).sum()} above 1.5 (most {ratios.max():.2f}), mean error {np.abs(ratios - 1).mean():.1%}"
    )


if __name__ == "__main__":
    main()
