"""Hindsight probes: values seen before a cut that a tool call after the cut uses.

Pure: no model and no person labels them. A value counts when a short argument of a later call holds it. It must not
stand in the newest part of the past, nor appear anew between cut and use. Line numbers of listings do not count:
in a long listing every small number occurs, so some match by chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from summarizing_context.evaluation.cases.model import (
    Case,
    Cut,
    Probe,
    Read,
    read_session,
    tail_start,
)
from summarizing_context.evaluation.cases.verdicts import Text, text_of
from summarizing_context.extraction.values import Entity, find_entities

_NUMBERED = re.compile(r"^[ ]*(\d{1,9})(?=[\t→:|])", re.MULTILINE)

_LEAST = 3  # lines that count up by one make a listing; the hits of a search seldom do


def without_margins(text: str) -> str:
    """A text without the numbers that count its lines; numbers that a search gives for its hits stay."""
    kept, last = [], 0
    for run in _runs(text):
        if len(run) >= _LEAST:
            for found in run:
                kept.append(text[last : found.start()])
                last = found.end()
    return "".join([*kept, text[last:]])


def _runs(text: str) -> Iterator[list[re.Match[str]]]:
    """Lines one below the other of which the numbers count up by one."""
    run: list[re.Match[str]] = []
    for found in _NUMBERED.finditer(text):
        if run and not (int(found[1]) == int(run[-1][1]) + 1 and text.count("\n", run[-1].start(), found.start()) == 1):
            yield run
            run = []
        run.append(found)
    yield run


MOST = 200  # probes of one cut

_REFERENCE = 400  # characters; a longer argument is content rather than a reference

_TEXT = 200_000  # characters of one text that are searched

_LEAST_NUMBER = 4  # digits: shorter numbers mean too many things


class _Seen(NamedTuple):
    first: int
    last: int  # before the cut


@dataclass(frozen=True, slots=True)
class Index:
    """The exact values of each message of a session: in what it says, and (with their kinds) in what its calls use."""

    reads: Sequence[Read]
    seen: Sequence[frozenset[str]]
    used: Sequence[dict[str, str]]


def index_session(case: Case) -> Index:
    """Look for exact values in every message; once for all cuts."""
    reads = read_session(case.messages)
    seen = [
        frozenset(entity.text for text in read.plain_texts for entity in _wanted(without_margins(text)))
        for read in reads
    ]
    return Index(reads, seen, [{entity.text: entity.kind for entity in _references(read)} for read in reads])


def with_hindsight(case: Case) -> Case:
    """The case with a probe for each value that was used after a cut."""
    index = index_session(case)
    found = [probe for cut in case.cuts for probe in label_cut(index, cut)]
    return replace(case, probes=(*case.probes, *found))


def label_cut(index: Index, cut: Cut) -> list[Probe]:
    """The values that were needed after one cut, those that were needed first before the others."""
    kept = tail_start(index.reads, cut)
    seen = _seen_before(index, cut.at)
    shown = set[str]().union(*index.seen[kept : cut.at], *index.used[kept : cut.at], _system_values(index))
    tail = text_of(index.reads[kept : cut.at])
    labels: dict[str, Probe] = {}
    for at in range(cut.at, len(index.reads)):
        for value, kind in index.used[at].items():
            if value in seen and value not in shown and value not in labels and not tail.holds(value):
                labels[value] = _probe(value, kind, seen[value], cut.at, at)
        shown.update(index.seen[at], index.used[at])
        if len(labels) >= MOST:
            break
    found = list(labels.values())[:MOST]
    numbered = [replace(probe, id=f"used-{cut.at}-{number}") for number, probe in enumerate(found)]
    return [probe for probe in numbered if _stands_in_evidence(probe, index)]


def _stands_in_evidence(probe: Probe, index: Index) -> bool:
    """Whether the value stands in its evidence as a word of its own, and not as a part of another."""
    texts = [Text(index.reads[at].texts) for at in probe.evidence]
    return any(text.holds(probe.literals[0]) for text in texts)


def _system_values(index: Index) -> set[str]:
    """What stands in system rows: every view shows them."""
    rows = [seen for read, seen in zip(index.reads, index.seen, strict=True) if read.role in ("system", "developer")]
    return set[str]().union(*rows)


def _seen_before(index: Index, cut: int) -> dict[str, _Seen]:
    seen: dict[str, _Seen] = {}
    for at in range(cut):
        for value in (*index.seen[at], *index.used[at]):
            seen[value] = _Seen(seen[value].first if value in seen else at, at)
    return seen


def _probe(value: str, kind: str, seen: _Seen, cut: int, used_at: int) -> Probe:
    return Probe(
        id="",
        kind="used",
        cut=cut,
        question=f"Which {kind} does the call in message {used_at} need?",
        literals=(value,),
        evidence=tuple(dict.fromkeys((seen.first, seen.last))),
        used_at=used_at,
    )


def _references(read: Read) -> Iterator[Entity]:
    for call in read.calls:
        for _, text in call.values:
            if len(text) <= _REFERENCE:
                if (bare := text.strip()) and _is_token(bare):
                    yield Entity("id", bare)
                yield from _wanted(text)


def _wanted(text: str) -> Iterator[Entity]:
    for entity in find_entities(text[:_TEXT]):
        if entity.kind == "quoted" or (entity.kind == "date" and ":" in entity.text and "-" not in entity.text):
            continue
        if entity.kind != "number" or sum(map(str.isdigit, entity.text)) >= _LEAST_NUMBER:
            yield entity


def _is_token(text: str) -> bool:
    """Whether a whole argument is one id."""
    return 4 <= len(text) <= 40 and text.isalnum() and any(map(str.isdigit, text)) and not text.isdigit()
