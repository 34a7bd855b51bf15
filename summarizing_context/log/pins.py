"""Pins: messages and texts pinned by a call, each under an id that is never used again.

Pure. A pinned message is known by its content, so that it is found again where the log was replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec


class Pin(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message, by its place in the log, or a text."""

    id: str
    index: int | None = None
    text: str | None = None
    content: str = ""  # names what the message says


class PinList(msgspec.Struct, frozen=True, omit_defaults=True):
    """The pins of a session, oldest first."""

    pins: tuple[Pin, ...] = ()
    made: int = 0  # pins ever made

    @property
    def texts(self) -> list[Pin]:
        return [pin for pin in self.pins if pin.text is not None]

    @property
    def indexes(self) -> list[int]:
        """The places of the pinned messages, oldest pin first."""
        return [pin.index for pin in self.pins if pin.index is not None]

    def added(self, pin: Pin) -> tuple[PinList, str]:
        """Return the pins with this one too, and its id: that of the same message or text if it is pinned already."""
        for known in self.pins:
            if (known.index, known.text) == (pin.index, pin.text):
                return self, known.id
        id = f"p{self.made + 1}"
        return PinList((*self.pins, msgspec.structs.replace(pin, id=id)), self.made + 1), id

    def without(self, id: str) -> PinList | None:
        """Without the pin of this id; None if there is none."""
        rest = tuple(pin for pin in self.pins if pin.id != id)
        return None if len(rest) == len(self.pins) else PinList(rest, self.made)

    def held_by(self, contents: Sequence[bytes]) -> PinList:
        """The pins that still hold in a log that says this: a message where it stands now, the nearest that says the
        same; none whose message is gone. An empty log has no pins."""
        places: dict[str, list[int]] = {pin.content: [] for pin in self.pins if pin.index is not None}
        for index, content in enumerate(contents):
            if (name := content.hex()) in places:
                places[name].append(index)
        held: list[Pin] = []
        for pin in self.pins:
            if (at := pin.index) is None:
                held += [pin] if contents else []
            elif found := places[pin.content]:
                held.append(msgspec.structs.replace(pin, index=min(found, key=lambda place: abs(place - at))))
        return PinList(tuple(held), self.made)


NO_PINS = PinList()


def encode_pins(pins: PinList) -> str:
    """Pins as the store keeps them."""
    return msgspec.json.encode(pins).decode() if pins.made else ""


def decode_pins(data: str) -> PinList:
    """The pins that `encode_pins` wrote."""
    return msgspec.json.decode(data, type=PinList) if data else NO_PINS


class Candidates(NamedTuple):
    """Covered log entries that should stay, most important first where they compete."""

    first: Sequence[int]  # the first human message: all user rows before the first assistant row
    humans: Sequence[int]  # what humans wrote, newest first
    system: Sequence[int]  # mid-log system and developer rows, newest first
    critical: Sequence[int]  # pinned by a call, then marked ones, newest first; before the others where they compete
    state: Sequence[int] = ()  # first entries of the groups that hold from there on, newest first; before all others
