"""What leads back to what a view no longer shows: values that a node says it dropped, a page about it, search.

Measured at a cut, right after the view was asked for. What a recall brings back later is in `recalls`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from summarizing_context.evaluation.arms.views import ArmView
from summarizing_context.evaluation.cases.model import Probe
from summarizing_context.evaluation.scoring.figures import Sum, Sums
from summarizing_context.evaluation.scoring.texts import Text

HITS = 10
TOKENS = 2_000  # of the page about a node
_NO_QUESTIONS = ("used", "abstention")  # kinds without words to search for, or without an answer


class Asked(Protocol):
    """An arm that can be asked about what its view leaves out."""

    def drops(self) -> Mapping[range, tuple[str, ...]]:
        """The nodes of the view, each with the values that it says it does not hold."""

    async def paragraph(self, node: range, tokens: int) -> str: ...

    async def hits(self, query: str, limit: int) -> list[range]: ...


async def drilled(arm: Asked, view: ArmView, probes: Sequence[Probe]) -> Sums:
    """Of the used values that the view leaves out, those that the nodes over them name or show when they are asked;
    of the planted questions, those whose evidence search finds."""
    hinted = shown = missing = 0
    texts = Text(view.texts)
    pages: dict[range, Text] = {}
    drops = {node: Text(["\n".join(values)]) for node, values in arm.drops().items()}
    for probe in (probe for probe in probes if probe.kind == "used" and not texts.holds(probe.literals[0])):
        node = next((node for node in drops if node.start <= max(probe.evidence, default=-1) < node.stop), None)
        if node is None:
            continue
        if node not in pages:
            pages[node] = Text([await arm.paragraph(node, TOKENS)])
        hinted += drops[node].holds(probe.literals[0])
        shown += pages[node].holds(probe.literals[0])
        missing += 1
    asked = [probe for probe in probes if probe.kind not in _NO_QUESTIONS and probe.evidence and probe.question]
    found = [any(at in hit for hit in await arm.hits(probe.question, HITS) for at in probe.evidence) for probe in asked]
    return {
        "hinted": Sum(hinted, missing),
        "drilled": Sum(shown, missing),
        "searched": Sum(sum(found), len(found)),
    }
