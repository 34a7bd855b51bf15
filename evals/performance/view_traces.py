"""Views folded into a digest, with a trace that tells where two such digests part.

The trace has a letter for each view and section of it. That is too little to prove anything: the digest does.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

Message = dict[str, Any]
Row = list[Any]  # digest, views, activations, trace by section

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HEADER = re.compile(r"<history>|\[\d+ earlier messages left out\]")
_TAG = re.compile(r"<(summary|ledger|standing_rules|memories)\b")


@dataclass
class Fold:
    """The views of one replay, folded into a digest."""

    views: int = 0
    letters: dict[str, list[str]] = field(default_factory=dict)  # by section, one for each view
    _digest: Any = field(default_factory=hashlib.sha256)

    def add(self, view: Sequence[Message] | None) -> None:
        """One more view; none where it was refused."""
        self._digest.update(canonical(view) + b"\n")
        for name, data in ({"refused": b""} if view is None else sections(view)).items():
            letters = self.letters.setdefault(name, [])
            letters += "-" * (self.views - len(letters))  # it was not there before
            letters.append(_LETTERS[hashlib.sha256(data).digest()[0] % len(_LETTERS)])
        self.views += 1

    def row(self, activations: int) -> Row:
        """What is written down."""
        trace = {name: _shortened(letters) for name, letters in self.letters.items()}
        return [self._digest.hexdigest()[:16], self.views, activations, trace]


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def sections(view: Sequence[Message]) -> dict[str, bytes]:
    """The bytes of a view by section, in the order of the sections."""
    found: dict[str, bytes] = {}
    place, headed = "system", any(map(_is_header, view))
    for message in view:
        if place == "system" and message.get("role") not in ("system", "developer"):
            place = "opening" if headed else "messages"
        if _is_header(message):
            for block in message["content"]:
                tag = _TAG.match(block["text"])
                _extend(found, tag[1] if tag else "header", block)
            place = "messages"
            continue
        tag = _TAG.match(message["content"]) if isinstance(message.get("content"), str) else None
        _extend(found, tag[1] if tag and place == "messages" else place, message)
    return found


def _extend(found: dict[str, bytes], name: str, value: object) -> None:
    found[name] = found.get(name, b"") + canonical(value)


def _is_header(message: Message) -> bool:
    content = message.get("content")
    first = content[0] if isinstance(content, list) and content else None
    return isinstance(first, dict) and _HEADER.match(str(first.get("text", ""))) is not None


def _shortened(letters: Sequence[str]) -> str:
    runs = [(letter, len(list(run))) for letter, run in groupby(letters)]
    return "".join(f"{letter}{times if times > 1 else ''}" for letter, times in runs)


def _lengthened(trace: str, views: int) -> str:
    return "".join(letter * int(times or 1) for letter, times in re.findall(r"(\D)(\d*)", trace)).ljust(views, "-")


def difference(old: Row, new: Row) -> str:
    """How two rows differ: the first view that does, and its sections."""
    counts = [
        f"{was} {what}, now {now}"
        for what, was, now in zip(("views", "activations"), old[1:3], new[1:3], strict=True)
        if was != now
    ]
    views = max(old[1], new[1])
    first: dict[str, int] = {}
    for name in sorted(old[3].keys() | new[3].keys()):
        was, now = (_lengthened(row[3].get(name, ""), views) for row in (old, new))
        if was != now:
            first[name] = next(at for at in range(views) if was[at] != now[at])
    if not first:
        return "; ".join([*counts, "the bytes differ, in sections unknown"])
    start = min(first.values())
    names = ", ".join(name for name, at in first.items() if at == start)
    later = ", ".join(f"{name} from {at + 1} on" for name, at in first.items() if at > start)
    return "; ".join([*counts, f"view {start + 1}: {names}", *([later] if later else [])])
