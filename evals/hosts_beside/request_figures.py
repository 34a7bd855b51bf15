"""Counts what one arm sends: sizes, what a prompt cache would have held, and what is missing."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.hosts_beside.rows import CHARACTERS, Row, tokens, unpaired, wire
from evals.hosts_beside.session import KINDS, Fact, Session

BLOCK = 512  # characters: a cache holds prefixes in blocks of 128 tokens
LOOKS = 6  # times in a session that facts are looked for


class Cache:
    """Every prefix of every request so far, in whole blocks. It forgets none."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def held(self, text: str) -> int:
        """Tokens at the beginning of a request that were sent before; the request is held from now on."""
        held, known, digest = 0, True, b""
        for start in range(0, len(text) - BLOCK + 1, BLOCK):
            digest = hashlib.blake2b(digest + text[start : start + BLOCK].encode(), digest_size=16).digest()
            known = known and digest in self._seen
            held += BLOCK if known else 0
            self._seen.add(digest)
        return held // CHARACTERS


@dataclass
class Watch:
    session: Session
    counts: Counter[str] = field(default_factory=Counter)
    sizes: list[int] = field(default_factory=list)  # tokens of each request of the agent
    looks: list[dict[str, tuple[int, int]]] = field(default_factory=list)  # by kind: kept, said so far
    _cache: Cache = field(default_factory=Cache)
    _turn: int = 0
    _text: str = ""  # of the newest request

    def begin(self, turn: int) -> None:
        self._turn = turn

    def request(self, rows: Sequence[Row]) -> None:
        """A request of the agent, with its prompt as the first row."""
        self._text = text = wire(rows)
        size, held = tokens(text), self._cache.held(text)
        self.sizes.append(size)
        self.counts["view_cached"] += held
        self.counts["view_uncached"] += size - held
        self.counts["unpaired"] += len(list(unpaired(rows)))
        prompt = self.session.turns[self._turn].prompt
        self.counts["no_last_user"] += not any(row.role == "user" and prompt in row.text for row in rows)
        rules = self._said("rule")
        self.counts["rules_due"] += len(rules)
        self.counts["rules_missing"] += sum(fact.value not in text for fact in rules)

    def summary(self, request: Sequence[Row], reply: str) -> None:
        """A request for a summary, and what was written."""
        text = wire(request)
        held = self._cache.held(text)
        self.counts["summaries"] += 1
        self.counts["read_cached"] += held
        self.counts["read_uncached"] += tokens(text) - held
        self.counts["written"] += tokens(reply)

    def finish(self) -> None:
        """A turn has ended: look for facts in its last request, if it is time to."""
        turns = len(self.session.turns)
        if (self._turn + 1) * LOOKS // turns > self._turn * LOOKS // turns:
            kept = {}
            for kind in KINDS:
                said = self._said(kind)
                kept[kind] = (sum(fact.value in self._text for fact in said), len(said))
            self.looks.append(kept)

    def _said(self, kind: str) -> list[Fact]:
        return [fact for fact in self.session.facts if fact.kind == kind and fact.turn <= self._turn]

    def figures(self) -> dict[str, Any]:
        """What is told of the arm; facts as the share that a view still held, at the end and over all looks."""
        outdated = [fact for fact in self._said("correction") if fact.value not in self._text]
        return {
            **{name: self.counts[name] for name in COUNTS},
            "requests": len(self.sizes),
            "mean_view": round(sum(self.sizes) / len(self.sizes)),
            "largest_view": max(self.sizes),
            "history": self.session.tokens,
            "kept": {kind: list(pair) for kind, pair in self.looks[-1].items()},
            "kept_end": _share([self.looks[-1]]),
            "kept_looks": _share(self.looks),
            "outdated_alone": sum(fact.outdated in self._text for fact in outdated),
        }


COUNTS = (
    "view_uncached", "view_cached", "summaries", "read_uncached", "read_cached", "written",
    "unpaired", "no_last_user", "rules_due", "rules_missing",
)  # fmt: skip


def _share(looks: Sequence[dict[str, tuple[int, int]]]) -> float:
    """Of all facts said by each look, those in its view."""
    pairs = [pair for look in looks for pair in look.values()]
    return round(sum(kept for kept, _ in pairs) / sum(said for _, said in pairs), 4)
