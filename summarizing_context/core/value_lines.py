"""Lines of exact values for a page: the likeliest for what they cost, cited by message.

Pure. Values of one message share a line, `12: a_name 4500`; paths of one folder are written as in a shell,
`12 54: src/{app.py,page.py}`. How likely a value is comes from `ranking`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from summarizing_context.core.ranking import Known, Query, likelihoods
from summarizing_context.core.shrinking import Count

_THRIFT = 0.5  # how much a value's tokens count against it
_TOO_LITTLE = 6  # tokens for one more value


class ValueLine(NamedTuple):
    """Some values, and the messages that hold them."""

    places: tuple[int, ...]
    text: str


def chosen_lines(
    values: Sequence[Known], shown: Collection[str], query: Query, room: int, count: Count
) -> list[ValueLine]:
    """Lines within `room` tokens, without values that are `shown` or can be read off another one."""
    worth = likelihoods(values, query)
    left_out = [at for at, known in enumerate(values) if known.value not in shown]
    left_out = _whole_paths(values, left_out, worth)
    folders = Counter(_folder(values[at].value) for at in left_out)
    lines = _Lines(count)
    costs = {at: _shared_cost(values[at].value, folders, lines) for at in left_out}
    held: set[str] = set(shown)
    for at in sorted(left_out, key=lambda at: -worth[at] / costs[at] ** _THRIFT):
        known = values[at]
        if known.value in held:
            continue
        cost = lines.cost(known)
        if cost > room:
            if room < _TOO_LITTLE:
                break
            continue
        room -= cost
        lines.add(known)
        held.update(_within(known.value))
    return lines.written()


def _whole_paths(values: Sequence[Known], left_out: Sequence[int], worth: list[float]) -> list[int]:
    """Without relative paths of which the absolute one is there; that is worth as much then."""
    whole: dict[str, int] = {}
    for at in left_out:
        if values[at].value.startswith(("/", "~/")):
            for end in _ends(values[at].value):
                whole.setdefault(end, at)
    kept = []
    for at in left_out:
        if (longer := whole.get(values[at].value)) is None:
            kept.append(at)
        else:
            worth[longer] = max(worth[longer], worth[at])
    return kept


class _Lines:
    """Lines as they fill up."""

    def __init__(self, count: Count) -> None:
        self.tokens = count
        self._folders: dict[str, tuple[list[int], list[str]]] = {}
        self._messages: dict[int, list[str]] = {}

    def cost(self, known: Known) -> int:
        """What one more value costs."""
        folder, place = _folder(known.value), self._place(known)
        if folder in self._folders:
            places, _ = self._folders[folder]
            return 1 + self.tokens(known.value[len(folder) :]) + (0 if place in places else self.tokens(f"{place} "))
        if folder:
            return 4 + self.tokens(f"{place}: {known.value}")
        return 1 + self.tokens(known.value) + (0 if place in self._messages else 1 + self.tokens(f"{place}: "))

    def add(self, known: Known) -> None:
        folder, place = _folder(known.value), self._place(known)
        if folder:
            places, names = self._folders.setdefault(folder, ([], []))
            names.append(known.value[len(folder) :])
            if place not in places:
                places.append(place)
        else:
            self._messages.setdefault(place, []).append(known.value)

    def written(self) -> list[ValueLine]:
        """The lines in the order of the log."""
        lines = [ValueLine((place,), f"{place}: {' '.join(found)}") for place, found in self._messages.items()]
        for folder, (places, names) in self._folders.items():
            listed = names[0] if len(names) == 1 else f"{{{','.join(names)}}}"
            lines.append(ValueLine(tuple(places), f"{' '.join(map(str, places))}: {folder}{listed}"))
        return sorted(lines, key=lambda line: line.places[0])

    def _place(self, known: Known) -> int:
        """The newest message that holds a value, or one that is cited already."""
        cited = self._folders[folder][0] if (folder := _folder(known.value)) in self._folders else self._messages
        return next((place for place in reversed(known.places) if place in cited), known.places[-1])


def _folder(value: str) -> str:
    """The folder of a path, with its last slash; nothing for other values."""
    if "/" not in value or "://" in value or any(char in value for char in "{},"):
        return ""
    return value[: value.rindex("/") + 1]


def _shared_cost(value: str, folders: Counter[str], lines: _Lines) -> float:
    """The tokens of a value; those of a folder are shared by its paths."""
    folder = _folder(value)
    own = 1 + lines.tokens(value[len(folder) :])
    return own + lines.tokens(folder) / folders[folder] if folder else own


def _within(value: str) -> Iterator[str]:
    """The values that can be read off another one: a path holds its folders and its name."""
    yield value
    steps = value.split("/")
    yield from steps
    for stop in range(2, len(steps)):
        yield "/".join(steps[:stop])
    yield from _ends(value)


def _ends(path: str) -> Iterator[str]:
    """The relative paths of at least two steps that a path ends with."""
    steps = path.split("/")
    for start in range(1, len(steps) - 1):
        yield "/".join(steps[start:])
