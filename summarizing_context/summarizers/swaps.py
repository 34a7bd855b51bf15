"""Values that a line tells in one another's place: `staging 5432, production 6543` of the opposite.

Pure. A value's label is the words between it and the value before it on its line. Two values are swapped where each has
words of the other's label, and none of its own, on every line of the source that holds both.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

_VALUE = re.compile(r"(?<![\w.,:/-])\d(?:[.,:]?\d){2,30}(?![\w/-]|[.,:]\d)")
_WORD = re.compile(r"[^\W\d_]{2,}")

Labels = Mapping[str, frozenset[str]]  # by value


class Labelled:
    """The lines of a source that hold several values, each with its label."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._with: dict[str, list[Labels]] = defaultdict(list)
        for labels in map(labels_in, lines):
            for value in labels if len(labels) > 1 else ():
                self._with[value].append(labels)

    def swapped(self, told: Labels) -> Iterator[str]:
        """Each value of a line that stands where the one behind it should."""
        for one, other in pairwise(told):
            both = [known for known in self._with.get(one, ()) if other in known]
            if both and all(_are_swapped(told, known, one, other) for known in both):
                yield one


def labels_in(line: str) -> Labels:
    """The values of a plain line in their order, each with the words that stand before it."""
    labels: dict[str, frozenset[str]] = {}
    start = 0
    for value in _VALUE.finditer(line):
        labels[value[0]] = labels.get(value[0], frozenset()) | set(_WORD.findall(line[start : value.start()]))
        start = value.end()
    return labels


def _are_swapped(told: Labels, known: Labels, one: str, other: str) -> bool:
    of_one, of_other = known[one] - known[other], known[other] - known[one]
    crossed = told[one] & of_other and told[other] & of_one
    return bool(crossed) and not (told[one] & of_one or told[other] & of_other)
