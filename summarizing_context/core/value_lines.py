"""Lines of exact values for a page: the likeliest for what they cost, cited by message.

Pure. Values of one message share a line, `12: a_name 4500 src/app.py`; paths of one folder are written as in a shell,
`12 54: src/{app.py,page.py}`. How likely a value is comes from `ranking`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from summarizing_context.core.ranking import Known, Query, likelihoods
from summarizing_context.core.truncation import Count
from summarizing_context.core.values import folder_of

_THRIFT = 0.4  # how much a value's tokens count against it
_TOO_LITTLE = 5  # tokens for one more value
_ROUNDS = 5  # in which what is written turns out shorter than it was reckoned


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
    folders = Counter(folder_of(values[at].value) for at in left_out)
    lines = _Lines(shown, count)
    costs = {at: lines.shared_cost(values[at].value, folders) for at in left_out}
    waiting = [values[at] for at in sorted(left_out, key=lambda at: -worth[at] / costs[at] ** _THRIFT)]
    spare = room
    for _ in range(_ROUNDS):
        waiting = lines.fill(waiting, spare)
        spare = room - lines.size()
        if spare < _TOO_LITTLE:
            break
    lines.shorten(room)
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
    """Lines as they fill up: the values chosen so far, each with the message that is cited for it."""

    def __init__(self, shown: Collection[str], count: Count) -> None:
        self._count = count
        self._held = set(shown)
        self._chosen: list[tuple[str, int]] = []
        self._cited: dict[str, set[int]] = {"": set()}  # messages cited for a folder's paths; "" for all lines
        self._tokens: dict[str, int] = {}

    def fill(self, waiting: Sequence[Known], room: int) -> list[Known]:
        """Add what fits into so many more tokens; what did not fit."""
        rest: list[Known] = []
        for at, known in enumerate(waiting):
            if room < _TOO_LITTLE:
                return [*rest, *waiting[at:]]
            if known.value in self._held:
                continue
            place = self._place(known)
            if (cost := self._cost(known.value, place)) > room:
                rest.append(known)
                continue
            room -= cost
            self._chosen.append((known.value, place))
            self._held.update(_within(known.value))
            for line in {"", folder_of(known.value)}:
                self._cited.setdefault(line, set()).add(place)
        return rest

    def shorten(self, room: int) -> None:
        """Without what was added last, until all is within the room."""
        while self._chosen and (size := self.size()) > room:
            surplus = max(1, len(self._chosen) * (size - room) // (2 * size))  # in few steps: there may be many
            del self._chosen[-surplus:]

    def size(self) -> int:
        """The tokens of all lines."""
        lines = self.written()
        return self._count("\n".join(line.text for line in lines)) + 1 if lines else 0

    def shared_cost(self, value: str, folders: Counter[str]) -> float:
        """The tokens of a value; those of a folder are shared by its paths."""
        folder = folder_of(value)
        own = 1 + self._size(value[len(folder) :])
        return own + self._size(folder) / folders[folder] if folder else own

    def written(self) -> list[ValueLine]:
        """The lines in the order of the log. A folder's paths from several messages have a line of their own."""
        folders: dict[str, tuple[dict[int, None], list[str]]] = {}
        lines: dict[tuple[int, ...], list[str]] = {}
        for value, place in self._chosen:
            if folder := folder_of(value):
                places, names = folders.setdefault(folder, ({}, []))
                places[place] = None
                names.append(value[len(folder) :])
            else:
                lines.setdefault((place,), []).append(value)
        for folder, (places, names) in folders.items():
            listed = names[0] if len(names) == 1 else f"{{{','.join(names)}}}"
            lines.setdefault(tuple(places), []).append(f"{folder}{listed}")
        return [
            ValueLine(places, f"{' '.join(map(str, places))}: {' '.join(found)}")
            for places, found in sorted(lines.items())
        ]

    def _cost(self, value: str, place: int) -> int:
        """What one more value costs, at most."""
        folder = folder_of(value)
        own = 1 + self._size(value[len(folder) :])
        if folder in self._cited and folder:
            return own + (0 if place in self._cited[folder] else self._size(f"{place} "))
        cited = 0 if place in self._cited[""] else 1 + self._size(f"{place}: ")
        return own + (1 + self._size(folder) if folder else 0) + cited

    def _place(self, known: Known) -> int:
        """The newest message that holds a value, or one that is cited already."""
        cited = self._cited.get(folder_of(known.value)) or self._cited[""]
        return next((place for place in reversed(known.places) if place in cited), known.places[-1])

    def _size(self, text: str) -> int:
        if text not in self._tokens:
            self._tokens[text] = self._count(text)
        return self._tokens[text]


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
