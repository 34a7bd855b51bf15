"""Questions as a reader can be asked them.

Pure. Hindsight asks for what a later call needs; the reader cannot know that call, so it is shown, with a gap.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from summarizing_context.evaluation.cases.model import Probe
from summarizing_context.evaluation.cases.reading import Call, Read
from summarizing_context.evaluation.scoring.texts import Text

GAP = "▢"
_AROUND = 120  # characters of a text on each side of its gap


def as_asked(probes: Sequence[Probe], reads: Sequence[Read]) -> list[Probe]:
    """The probes with questions that can be asked; without those for which there is none."""
    found = (_with_gap(probe, reads) if probe.kind == "used" else probe for probe in probes)
    return [probe for probe in found if probe is not None]


def _with_gap(probe: Probe, reads: Sequence[Read]) -> Probe | None:
    if probe.used_at is None or not probe.literals:
        return None
    literal, read = probe.literals[0], reads[probe.used_at]
    for call in read.calls:
        if any(Text([text]).holds(literal) for _, text in call.values):
            told = _gapped(call, read.said, literal)
            question = f"Later the agent makes this call: {told}. Which exact value stands where {GAP} is shown?"
            return None if Text([question]).holds(literal) else replace(probe, question=question)
    return None


def _gapped(call: Call, said: Sequence[str], literal: str) -> str:
    """The call, and what is said with it, with a gap for every place of the literal."""
    pattern = re.compile(r"\s+".join(map(re.escape, literal.split())), re.IGNORECASE)
    arguments = ", ".join(f"{name}={_excerpt(pattern.sub(GAP, text))}" for name, text in call.values)
    words = _excerpt(pattern.sub(GAP, " ".join(said)))
    return f"{call.tool}({arguments})" + (f', saying: "{words}"' if words else "")


def _excerpt(text: str) -> str:
    """The words around the first gap, or the first words."""
    flat = " ".join(text.split())
    start = max(0, flat.find(GAP) - _AROUND)
    stop = start + 2 * _AROUND
    return f"{'…' * (start > 0)}{flat[start:stop]}{'…' * (stop < len(flat))}"
