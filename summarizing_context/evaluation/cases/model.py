"""What a case is: a session, the places where it is cut, and probes whose answers stand before a cut.

Values only. Reading them from files is `files`, checking them is `lint`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

Message = dict[str, Any]
Kind = Literal[
    "recall",
    "artifact",
    "continuation",
    "decision",
    "constraint",
    "supersession",
    "ordering",
    "abstention",
    "needle",
    "used",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
MEANING: dict[str, str] = {
    "recall": "something that was said or read",
    "artifact": "a file or record, and what was last done to it",
    "continuation": "what comes next",
    "decision": "a choice that was made",
    "constraint": "a standing rule of the human's",
    "supersession": "a value that was changed: only the newest is right",
    "ordering": "what came before what",
    "abstention": "something that was never said",
    "needle": "one odd line in a long result",
    "used": "an exact value that later tool calls really used (hindsight)",
}

KEPT_SHARE = 0.16  # of the budget: the newest part of a session, which every strategy shows raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A question about what stands before a cut, and the exact words that a right answer needs."""

    id: str
    kind: Kind
    cut: int  # messages before the view
    question: str
    literals: tuple[str, ...] = ()  # all of them are needed; for `ordering`, in this order
    any_of: tuple[str, ...] = ()  # and at least one of these
    forbid: tuple[str, ...] = ()  # stale or invented answers
    evidence: tuple[int, ...] = ()  # messages that hold the answer, from 0
    used_at: int | None = None  # the message whose tool call used it
    depth: float | None = None  # for `needle`: place in its result, 0 the beginning, 1 the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A place in a session at which a view is taken."""

    at: int  # messages before the view
    budget: int  # tokens that the view may use


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One session and all that is asked about it."""

    id: str
    messages: tuple[Message, ...]
    cuts: tuple[Cut, ...]
    probes: tuple[Probe, ...] = ()
    title: str = ""
    domain: str = ""
    source: str = ""  # generated, written, transcript, locomo, longmemeval
    licence: str = ""
    group: str = ""  # cases of one group stand and fall together: one session at several budgets

    def probes_at(self, cut: Cut) -> list[Probe]:
        """The probes of one cut."""
        return [probe for probe in self.probes if probe.cut == cut.at]
