"""Seeded defects: a perfect summary is spoilt in one known way, and one scorer must notice.

The perfect summary holds the lines of the evidence and the last operation on each artifact.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from summarizing_context.evaluation.arms import ArmView, Node, Piece
from summarizing_context.evaluation.artifacts import last_operations
from summarizing_context.evaluation.cases.model import Case, Cut, Probe, Read, read_session, tokens_before
from summarizing_context.evaluation.cases.verdicts import Text, lint_case
from summarizing_context.evaluation.figures import FIGURES, Ground, Source, score_view
from summarizing_context.messages.estimate import estimate_text

_VERBS = {"made": "created", "changed": "edited", "gone": "deleted"}
_OTHERWISE = {"created": "deleted", "edited": "deleted", "deleted": "created"}
_NEGATIONS = (  # the first that a line holds is turned round
    (r"\bnever\b", "always"),
    (r"\bdo not\b", "do"),
    (r"\bmust not\b", "may"),
    (r"\bnot allowed\b", "allowed"),
    (r"\bnot\b", "indeed"),
    (r"\bcannot\b", "can"),
    (r"\bwithout\b", "with"),
    (r"\bno more than\b", "more than"),
    (r"\bat most\b", "at least"),
    (r"\bat least\b", "at most"),
    (r"\balways\b", "never"),
    (r"\bmust\b", "need not"),
    (r"\bonly\b", "also"),
    (r"\bno\b", "some"),
    (r"\bevery\b", "no"),
)
_NUMBER = re.compile(r"(?<![\w.,:/-])\d(?:[\d.,]*\d)(?![\w:/-]|[.,]\d)")  # of two digits or more
_INVENTED = "src/never/mentioned_anywhere_{}.py"


class Defect(NamedTuple):
    """What became of one kind of defect."""

    name: str
    figure: str  # that has to notice it
    tried: int
    caught: int


class Line(NamedTuple):
    """One line of the perfect summary, and the probe that it answers; None for an artifact."""

    text: str
    probe: Probe | None


@dataclass(frozen=True, slots=True)
class Scene:
    """A perfect summary of one cut, and what spoils it."""

    lines: tuple[Line, ...]
    case: Case
    cut: Cut
    rng: random.Random

    def of_kind(self, kind: str) -> list[int]:
        return [at for at, line in enumerate(self.lines) if line.probe is not None and line.probe.kind == kind]


Spoil = Callable[[Scene], "list[Line] | None"]  # None where it cannot be applied


def try_defects(cases: Sequence[Case]) -> list[Defect]:
    """Every defect at every cut of the cases."""
    tried: dict[str, int] = dict.fromkeys((*_DEFECTS, "leak the tail"), 0)
    caught = dict(tried)
    for case in cases:
        for name, noticed in _try_case(case):
            tried[name] += 1
            caught[name] += noticed
    figures = {name: figure for name, (figure, _) in _DEFECTS.items()} | {"leak the tail": "lint"}
    return [Defect(name, figures[name], tried[name], caught[name]) for name in tried]


def _try_case(case: Case) -> Iterator[tuple[str, bool]]:
    """(defect, whether it was noticed) of all that can be applied."""
    reads = read_session(case.messages)
    sums = tokens_before(reads)
    for cut in case.cuts:
        before = reads[: cut.at]
        ground = _ground(case, cut, before, sums[cut.at])
        lines = _perfect(ground)
        clean = score_view(_view(lines, cut), ground).sums
        for name, (figure, spoil) in _DEFECTS.items():
            spoilt = spoil(Scene(lines, case, cut, random.Random(f"{name}/{case.id}/{cut.at}")))
            if spoilt is None or figure not in clean:
                continue
            found = score_view(_view(spoilt, cut), ground).sums
            worse = (
                (found[figure].value - clean[figure].value) * FIGURES[figure].better < 0 if figure in found else True
            )
            yield name, worse
        if (leaking := _leaking(case, cut)) is not None:
            yield "leak the tail", any("leaks" in complaint.words for complaint in lint_case(leaking))


def _ground(case: Case, cut: Cut, before: Sequence[Read], tokens: int) -> Ground:
    source = Source(text for read in before for text in read.source)
    return Ground(case.probes_at(cut), tokens, before, source, last_operations(before))


def _perfect(ground: Ground) -> tuple[Line, ...]:
    found = [(at, Line(line, probe)) for probe in ground.probes for at, line in _evidence_lines(probe, ground.reads)]
    lines = [line for _, line in sorted(found, key=lambda pair: pair[0])]  # in the order of the session
    lines += [Line(f"{_VERBS[done]} {path}", None) for path, done in ground.artifacts.items()]
    return tuple(dict.fromkeys(lines))


def _evidence_lines(probe: Probe, reads: Sequence[Read]) -> Iterator[tuple[int, str]]:
    """The lines that hold the answer, with their messages."""
    for at in probe.evidence:
        for line in dict.fromkeys(line for text in reads[at].texts for line in text.split("\n")):
            found = Text([line])
            if any(found.holds(literal) for literal in probe.literals):
                yield at, line


def _view(lines: Sequence[Line], cut: Cut) -> ArmView:
    words = "\n".join(line.text for line in lines)
    node = Node(0, cut.at, words, 1)
    return ArmView(pieces=(Piece("summary", words),), tokens=estimate_text(words), nodes=(node,), raw_from=cut.at)


def _without(scene: Scene, gone: Sequence[int]) -> list[Line]:
    return [line for at, line in enumerate(scene.lines) if at not in gone]


def _drop(kind: str) -> Spoil:
    """Take out every line that answers one probe of this kind, by whatever probe it came in."""

    def spoil(scene: Scene) -> list[Line] | None:
        found = scene.of_kind(kind)
        if not found:
            return None
        probe = scene.lines[scene.rng.choice(found)].probe
        assert probe is not None
        texts = [Text([line.text]) for line in scene.lines]
        return _without(scene, [at for at, text in enumerate(texts) if text.holds(probe.literals[0])])

    return spoil


def _negate(scene: Scene) -> list[Line] | None:
    for at in scene.of_kind("constraint"):
        line = scene.lines[at]
        for pattern, other in _NEGATIONS:
            literals = " ".join(line.probe.literals) if line.probe else ""
            if re.search(pattern, literals, re.IGNORECASE):
                spoilt = re.sub(pattern, other, line.text, flags=re.IGNORECASE)
                return [one._replace(text=spoilt) if one.text == line.text else one for one in scene.lines]
    return None


def _swap_numbers(scene: Scene) -> list[Line] | None:
    """Exchange two different numbers that the answers of two lines hold."""
    found = [
        (at, number)
        for at, line in enumerate(scene.lines)
        if line.probe is not None and line.probe.kind in ("recall", "supersession")
        for number in _NUMBER.findall(" ".join(line.probe.literals))
        if number in line.text
    ]
    for at, number in found:
        for other_at, other in found:
            if at != other_at and number != other and scene.lines[at].probe != scene.lines[other_at].probe:
                lines = list(scene.lines)
                lines[at] = lines[at]._replace(text=lines[at].text.replace(number, other))
                lines[other_at] = lines[other_at]._replace(text=lines[other_at].text.replace(other, number))
                return lines
    return None


def _invent_path(scene: Scene) -> list[Line] | None:
    return [*scene.lines, Line(f"edited {_INVENTED.format(scene.rng.randrange(1_000))}", None)]


def _invent_number(scene: Scene) -> list[Line] | None:
    return [*scene.lines, Line(f"the limit is {scene.rng.randrange(10**9, 10**10)} now", None)]


def _keep_stale(scene: Scene) -> list[Line] | None:
    """Give the outdated value where the newest one stood."""
    for at in scene.of_kind("supersession"):
        probe = scene.lines[at].probe
        assert probe is not None
        kept = [line for line in scene.lines if not Text([line.text]).holds(probe.literals[0])]
        return [*kept, Line(f"It is {probe.forbid[0]}.", probe)]
    return None


def _wrong_order(scene: Scene) -> list[Line] | None:
    """What came last is told first; lines of other probes that tell it too are taken out."""
    found = scene.of_kind("ordering")
    if not found:
        return None
    probe = scene.lines[found[0]].probe
    assert probe is not None
    rest = [line for line in scene.lines if not any(Text([line.text]).holds(word) for word in probe.literals)]
    statements = [line for line in scene.lines if line.probe == probe]
    return [*rest, *reversed(statements)]


def _wrong_operation(scene: Scene) -> list[Line] | None:
    for at, line in enumerate(scene.lines):
        verb, _, path = line.text.partition(" ")
        if line.probe is None and verb in _OTHERWISE:
            spoilt = line._replace(text=f"{_OTHERWISE[verb]} {path}")
            return [*scene.lines[:at], *scene.lines[at + 1 :], spoilt]
    return None


def _invent_answer(scene: Scene) -> list[Line] | None:
    probe = next((probe for probe in scene.case.probes_at(scene.cut) if probe.kind == "abstention"), None)
    return [*scene.lines, Line(f"As to that: {probe.forbid[0]}.", None)] if probe else None


def _leaking(case: Case, cut: Cut) -> Case | None:
    """The case with an answer repeated in the last message before the cut."""
    for probe in case.probes_at(cut):
        if probe.literals and probe.kind not in ("constraint", "decision"):
            messages = list(case.messages)
            last = messages[cut.at - 1]
            if isinstance(last.get("content"), str):
                messages[cut.at - 1] = {**last, "content": f"{last['content']} {probe.literals[0]}"}
                return replace(case, messages=tuple(messages), cuts=(cut,), probes=(probe,))
    return None


_DEFECTS: dict[str, tuple[str, Spoil]] = {  # name: (the figure that has to notice it, how it is done)
    "drop a constraint": ("constraint", _drop("constraint")),
    "negate a constraint": ("constraint", _negate),
    "drop a decision": ("decision", _drop("decision")),
    "drop a used value": ("used", _drop("used")),
    "drop a needle": ("needle", _drop("needle")),
    "drop what comes next": ("continuation", _drop("continuation")),
    "swap two numbers": ("drift", _swap_numbers),
    "invent a number": ("unsupported", _invent_number),
    "invent a path": ("unsupported", _invent_path),
    "keep a stale value": ("stale", _keep_stale),
    "tell in the wrong order": ("ordering", _wrong_order),
    "tell the wrong operation": ("artifact_precision", _wrong_operation),
    "answer what was never said": ("abstention", _invent_answer),
}
