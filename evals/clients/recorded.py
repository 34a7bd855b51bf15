"""A session with facts in it, played by the scripted client, and what is still there of them in each request.

The session is that of `evals.hosts_beside`: an engineer's turns, with facts of five kinds. The rule, written down
before any figure was seen: a fact is kept where its value stands word for word in what the model reads of a request. It
is looked for in the last request of a turn, after each sixth of the session, over the facts that were said by then. A
rule of the user's is looked for in every request.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from evals.clients.script import Call, Thread, Turn
from evals.clients.tokens import Cache, Item, read_by_model, written
from evals.hosts_beside.session import KINDS, Fact, Session

_LOOKS = 6  # times in a session that facts are looked for


class Recording:
    """The model of the session: it says reply after reply, whatever it is asked."""

    def __init__(self, session: Session) -> None:
        self.replies = [(number, row) for number, turn in enumerate(session.turns) for row in turn.replies]

    def next(self, thread: Thread, number: int, *, waits: bool) -> Turn:
        turn, row = self.replies[thread.step]
        thread.step += 1
        calls = [Call(f"call_{number}_{at}", "run", f"cat {call.path}") for at, call in enumerate(row.calls)]
        return Turn(number, row.text, calls, f"Request {number}: part {turn} has to be read before it can be judged.")


@dataclass
class Watch:
    """Counts what one arm sends."""

    session: Session
    replies: list[tuple[int, Any]]
    counts: Counter[str] = field(default_factory=Counter)
    sizes: list[int] = field(default_factory=list)  # tokens of each request
    looks: list[dict[str, tuple[int, int]]] = field(default_factory=list)  # by kind: kept, said so far
    outdated_alone: int = 0  # at the last look: corrections that are gone where what they correct is there
    _cache: Cache = field(default_factory=Cache)

    def request(self, body: Item, step: int) -> None:
        """A request for the reply of that number."""
        sent = written(body)
        held = self._cache.held(sent)
        self.sizes.append(len(sent) // 4)
        self.counts["cached"] += held
        self.counts["uncached"] += len(sent) // 4 - held
        turn, row = self.replies[step]
        text = read_by_model(body)
        rules = self._said("rule", turn)
        self.counts["rules_due"] += len(rules)
        self.counts["rules_missing"] += sum(fact.value not in text for fact in rules)
        turns = len(self.session.turns)
        if not row.calls and (turn + 1) * _LOOKS // turns > turn * _LOOKS // turns:
            said = {kind: self._said(kind, turn) for kind in KINDS}
            self.looks.append(
                {kind: (sum(fact.value in text for fact in facts), len(facts)) for kind, facts in said.items()}
            )
            gone = [fact for fact in said["correction"] if fact.value not in text]
            self.outdated_alone = sum(fact.outdated in text for fact in gone)

    def _said(self, kind: str, turn: int) -> list[Fact]:
        """The facts that were said before the last reply of a turn, which itself says paths and decisions."""
        until = turn if kind in ("path", "decision") else turn + 1
        return [fact for fact in self.session.facts if fact.kind == kind and fact.turn < until]

    def figures(self) -> dict[str, Any]:
        """What is told of the arm; facts as the share that a request still held, at the end and over all looks."""
        return {
            "requests": len(self.sizes),
            "mean": round(sum(self.sizes) / len(self.sizes)),
            "largest": max(self.sizes),
            **{name: self.counts[name] for name in ("uncached", "cached", "rules_due", "rules_missing")},
            "kept_end": share(self.looks[-1:]),
            "kept_looks": share(self.looks),
            "kept": {kind: list(pair) for kind, pair in self.looks[-1].items()} if self.looks else {},
            "outdated_alone": self.outdated_alone,
        }


def share(looks: list[dict[str, tuple[int, int]]]) -> float:
    """Of all facts said by each look, those in its request."""
    pairs = [pair for look in looks for pair in look.values()]
    return round(sum(kept for kept, _ in pairs) / max(1, sum(said for _, said in pairs)), 4)
