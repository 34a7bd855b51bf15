"""The verdict on a probe: does a text hold the answer, and no outdated one? And whether a case asks fairly.

Pure. Words are compared whole, in any case and with any white space. A statement must stand in one line, an ordering
in its order. A changed value must not stand alone in its old form after the new one. Every scorer uses `Text`.
A case is fair if each answer stands in its evidence, and not in the newest part of the past. Others are not scored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from summarizing_context.evaluation.cases.model import (
    KEPT_SHARE,
    KINDS,
    Case,
    Cut,
    Kind,
    Probe,
    Read,
    read_session,
    tail_start,
)

_SPACES = re.compile(r"[^\S\n]+")


def folded(text: str) -> str:
    """`text` in one case and on one line."""
    return " ".join(text.casefold().split())


_literal = lru_cache(maxsize=16_384)(folded)  # the same few are looked for in many texts


class Text:
    """A text ready to be searched; lines stay apart."""

    __slots__ = ("text", "written")

    def __init__(self, parts: Iterable[str]) -> None:
        written = _SPACES.sub(" ", "\n".join(parts))
        self.text = written.casefold()
        self.written = written if len(written) == len(self.text) else self.text  # a few letters grow when folded

    def places(self, literal: str) -> Iterator[int]:
        """Every place where the literal stands as whole words."""
        wanted = _literal(literal)
        if not wanted:
            return
        text, length = self.text, len(wanted)
        head, tail = wanted[0].isalnum(), wanted[-1].isalnum()
        at = text.find(wanted)
        while at >= 0:
            end = at + length
            if not (head and at > 0 and text[at - 1].isalnum()) and not (
                tail and end < len(text) and text[end].isalnum()
            ):
                yield at
            at = text.find(wanted, at + 1)

    def place(self, literal: str) -> int:
        """The first place of the literal; -1 if it is nowhere."""
        return next(self.places(literal), -1)

    def holds(self, literal: str) -> bool:
        return self.place(literal) >= 0

    def line_at(self, place: int) -> str:
        """The line around a place."""
        start = self.text.rfind("\n", 0, place) + 1
        end = self.text.find("\n", place)
        return self.text[start : end if end >= 0 else len(self.text)]

    def lines_with(self, literal: str) -> Iterator[str]:
        """The lines that hold the literal, each once for each of its places."""
        return (self.line_at(place) for place in self.places(literal))

    def line_with_all(self, literals: Sequence[str]) -> str | None:
        """A line that holds every literal, of which the first is the one to look for; None if there is none."""
        if not literals:
            return None
        for line in self.lines_with(literals[0]):
            found = Text([line])
            if all(found.holds(literal) for literal in literals[1:]):
                return line
        return None

    def excerpt(self, place: int, before: int = 60, after: int = 120) -> str:
        """The words around a place."""
        start, stop = max(0, place - before), place + after
        words = " ".join(self.written[start:stop].split())
        return ("…" if start else "") + words + ("…" if stop < len(self.text) else "")


def text_of(reads: Iterable[Read]) -> Text:
    """The words of several messages as one text."""
    return Text(text for read in reads for text in read.texts)


_SUPERSEDED = "(superseded)"


class Verdict(NamedTuple):
    """What became of one probe in one view."""

    kept: bool
    why: str  # one short sentence
    words: str  # of the view, around what was found; "" if nothing was
    stale: bool = False  # an outdated answer stands there as if it still held


def judge(probe: Probe, view: Text) -> Verdict:
    """The verdict on a probe."""
    return _JUDGES.get(probe.kind, _judge_values)(probe, view)


def _judge_values(probe: Probe, view: Text) -> Verdict:
    places = [view.place(literal) for literal in probe.literals]
    missing = [literal for literal, place in zip(probe.literals, places, strict=True) if place < 0]
    if missing:
        return Verdict(False, _missing(missing), _words(view, places))
    if probe.any_of and (place := _first(probe.any_of, view)) < 0:
        return Verdict(False, f"none of: {_listed(probe.any_of)}", _words(view, places))
    if probe.any_of:
        places.append(place)
    if stale := [literal for literal in probe.forbid if view.holds(literal)]:
        return Verdict(False, f"says what it must not: {_listed(stale)}", _words(view, places), stale=True)
    return Verdict(True, "there", _words(view, places))


def _judge_statement(probe: Probe, view: Text) -> Verdict:
    """All words in one line, and that line not marked as superseded."""
    first = probe.literals[0] if probe.literals else ""
    marked = ""
    for line in view.lines_with(first):
        found = Text([line])
        if all(found.holds(literal) for literal in probe.literals[1:]) and (
            not probe.any_of or any(found.holds(literal) for literal in probe.any_of)
        ):
            if _SUPERSEDED not in line:
                return Verdict(True, "there, in one line", _around(line, folded(first)))
            marked = line
    if marked:
        return Verdict(False, "marked as superseded although it holds", _around(marked, folded(first)), stale=True)
    missing = [literal for literal in probe.literals if not view.holds(literal)]
    why = _missing(missing) if missing else "its words stand apart, in no one line"
    return Verdict(False, why, _words(view, [view.place(literal) for literal in probe.literals]))


def _judge_supersession(probe: Probe, view: Text) -> Verdict:
    """The newest value is there, and no older one stands behind it as if it held."""
    newest = max((place for literal in probe.literals for place in view.places(literal)), default=-1)
    stale = _stale_place(probe, view, newest)
    if stale >= 0:
        return Verdict(False, "an outdated value stands as if it held", view.excerpt(stale), stale=True)
    return _judge_values(replace(probe, forbid=()), view)


def _stale_place(probe: Probe, view: Text, newest: int) -> int:
    """Where an old value stands behind the newest one, or without it; -1 if nowhere. A line that tells both, or is
    marked, misleads nobody."""
    for old in probe.forbid:
        for place in view.places(old):
            line = view.line_at(place)
            is_explained = _SUPERSEDED in line or any(Text([line]).holds(literal) for literal in probe.literals)
            if place > newest and not is_explained:
                return place
    return -1


def _judge_ordering(probe: Probe, view: Text) -> Verdict:
    places = [view.place(literal) for literal in probe.literals]
    missing = [literal for literal, place in zip(probe.literals, places, strict=True) if place < 0]
    if missing:
        return Verdict(False, _missing(missing), _words(view, places))
    if places != sorted(places):
        return Verdict(False, "told in another order", _words(view, places))
    return Verdict(True, "there, in this order", _words(view, places))


def _judge_abstention(probe: Probe, view: Text) -> Verdict:
    """Nothing was said about it, so nothing may stand there."""
    found = _first(probe.forbid, view)
    if found >= 0:
        return Verdict(False, "says something that was never said", view.excerpt(found), stale=True)
    return Verdict(True, "silent, as it should be", "")


_JUDGES: dict[Kind, Callable[[Probe, Text], Verdict]] = {
    "constraint": _judge_statement,
    "decision": _judge_statement,
    "supersession": _judge_supersession,
    "ordering": _judge_ordering,
    "abstention": _judge_abstention,
}


def _first(literals: tuple[str, ...], view: Text) -> int:
    return next((place for literal in literals if (place := view.place(literal)) >= 0), -1)


def _words(view: Text, places: list[int]) -> str:
    found = [place for place in places if place >= 0]
    return view.excerpt(found[0]) if found else ""


def _around(line: str, word: str) -> str:
    at = max(line.find(word), 0)
    start, stop = max(0, at - 60), at + 160
    return ("…" if start else "") + line[start:stop].strip() + ("…" if stop < len(line) else "")


def _missing(literals: list[str]) -> str:
    return f"missing: {_listed(literals)}"


def _listed(literals: list[str] | tuple[str, ...]) -> str:
    shown = [literal if len(literal) <= 60 else literal[:59] + "…" for literal in literals[:4]]
    return ", ".join(shown) + (" …" if len(literals) > 4 else "")


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
