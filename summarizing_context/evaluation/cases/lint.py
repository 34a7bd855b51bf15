"""Checks that a case asks fairly: each answer stands in its evidence, and not in the newest part of the past.

Pure. A case that fails is not scored. A leaked answer would make every arm look good, a missing one every arm bad.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from summarizing_context.evaluation.cases.model import (
    KEPT_SHARE,
    KINDS,
    Case,
    Cut,
    Probe,
    read_session,
    tail_start,
)
from summarizing_context.evaluation.cases.verdicts import Text, judge, text_of

_STATEMENTS = ("constraint", "decision")


class Complaint(NamedTuple):
    """What is wrong with a case."""

    case: str
    probe: str  # "" where it is not about one probe
    words: str

    def __str__(self) -> str:
        return f"{self.case}{f', probe {self.probe}' if self.probe else ''}: {self.words}"


def lint_case(case: Case) -> list[Complaint]:
    """Everything that is wrong with a case; nothing if it is sound."""
    complaints = [Complaint(case.id, "", words) for words in _about_case(case)]
    reads = read_session(case.messages)
    texts = [Text(read.texts) for read in reads]
    for cut in case.cuts:
        if not 0 < cut.at <= len(reads):
            continue
        past, tail = text_of(reads[: cut.at]), text_of(reads[tail_start(reads, cut) : cut.at])
        for probe in case.probes_at(cut):
            complaints += [Complaint(case.id, probe.id, words) for words in _about_probe(probe, cut, texts, past, tail)]
    return complaints


def _about_case(case: Case) -> Iterator[str]:
    if not case.messages:
        yield "has no messages"
    places = {cut.at for cut in case.cuts}
    for cut in case.cuts:
        if not 0 < cut.at <= len(case.messages):
            yield f"is cut at {cut.at}, but has {len(case.messages)} messages"
    if len(places) < len(case.cuts):
        yield "is cut twice in one place"
    for id, count in Counter(probe.id for probe in case.probes).items():
        if count > 1:
            yield f"has {count} probes {id!r}; give each an id of its own"
    for probe in case.probes:
        if probe.cut not in places:
            yield f"has a probe {probe.id!r} at {probe.cut}, where it is not cut"


def _about_probe(probe: Probe, cut: Cut, texts: Sequence[Text], past: Text, tail: Text) -> Iterator[str]:
    yield from _about_form(probe)
    wrong = [at for at in probe.evidence if not 0 <= at < cut.at]
    if wrong:
        yield f"its evidence {wrong} does not stand before the cut at {cut.at}"
        return
    for literal in probe.literals:
        if not any(texts[at].holds(literal) for at in probe.evidence):
            yield f"{literal!r} does not stand in its evidence {list(probe.evidence)}"
    if probe.any_of and not any(texts[at].holds(literal) for at in probe.evidence for literal in probe.any_of):
        yield f"none of {list(probe.any_of)} stands in its evidence {list(probe.evidence)}"
    if not (verdict := judge(probe, past)).kept:
        yield f"the whole past does not answer it ({verdict.why})"
    if leaked := _leak(probe, tail):
        yield f"{leaked!r} leaks: it stands in the newest {KEPT_SHARE:.0%} of {cut.budget} tokens"


def _about_form(probe: Probe) -> Iterator[str]:
    if probe.kind not in KINDS:
        yield f"its kind {probe.kind!r} is none of {', '.join(KINDS)}"
    if probe.kind == "abstention":
        if probe.literals or not probe.forbid:
            yield "an abstention expects nothing: it has `forbid`, and no `literals`"
        return
    if not probe.literals:
        yield "has no `literals`: nothing would be looked for"
    if not probe.evidence:
        yield "has no `evidence`"
    if probe.kind == "supersession" and not probe.forbid:
        yield "a supersession needs the outdated value in `forbid`"
    if probe.kind == "ordering" and len(probe.literals) < 2:
        yield "an ordering needs at least two `literals`, in their order"


def _leak(probe: Probe, tail: Text) -> str:
    """The answer, if the newest part gives it away."""
    if probe.kind in _STATEMENTS:
        return probe.literals[0] if probe.literals and tail.line_with_all(probe.literals) is not None else ""
    return next((literal for literal in probe.literals if tail.holds(literal)), "")
