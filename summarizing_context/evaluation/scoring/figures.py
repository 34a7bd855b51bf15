"""The figures of a view, each a sum over a count, so that sessions can be added and compared.

Pure. `FIGURES` says what each figure means and which direction is better. A figure with an empty count is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from summarizing_context.evaluation.arms.views import ArmView
from summarizing_context.evaluation.cases.model import KINDS, MEANING, Probe, Read
from summarizing_context.evaluation.cases.verdicts import Text, Verdict, judge
from summarizing_context.evaluation.scoring.artifacts import ledger_operations, operations_in_view, score_artifacts
from summarizing_context.evaluation.scoring.support import Source, check_support

_UNASKED = ("used", "abstention")  # kinds that are not retention of planted literals


class Figure(NamedTuple):
    """One column of the table."""

    title: str
    about: str
    better: int  # 1 the higher, -1 the lower, 0 neither
    share: bool = True  # between 0 and 1


class Sum(NamedTuple):
    """Something counted, out of so many."""

    of: float
    out_of: float

    @property
    def value(self) -> float:
        return self.of / self.out_of if self.out_of else 0.0


FIGURES: dict[str, Figure] = {
    "used": Figure("hindsight retention", "values that later calls used and that the view holds", 1),
    "summary_used": Figure("used, in summaries", "of the used values outside of raw parts, those in summaries", 1),
    "recalled": Figure(
        "within one recall of 2k tokens", "values that calls used and the view left out, on one page", 1
    ),
    "hinted": Figure(
        "named as dropped", "used values that the view leaves out and that the node over them names as dropped", 1
    ),
    "drilled": Figure(
        "on a page about the node", "used values that the view leaves out, on one page of 2k tokens about their node", 1
    ),
    "searched": Figure("found by search", "planted questions whose evidence is among the first ten hits", 1),
    "literals": Figure("literal retention", "planted answers of all kinds that the view holds", 1),
    **{kind: Figure(kind, MEANING[kind], 1) for kind in KINDS if kind != "used"},
    "stale": Figure("stale", "changed values that the view still gives as if they held", -1),
    "artifact_recall": Figure("artifact recall", "changed files and records with what was last done to them", 1),
    "artifact_precision": Figure("artifact precision", "claims about files that are right", 1),
    "ledger_recall": Figure("ledger recall", "changed files and records that the ledger has, with the last change", 1),
    "ledger_precision": Figure("ledger precision", "changes that the ledger tells and that are the last ones", 1),
    "unsupported": Figure("unsupported", "exact values in summaries that their source does not hold", -1),
    "dropped_lines": Figure(
        "dropped lines", "lines of a model's summaries that the literal gate took out, a session", -1, share=False
    ),
    "drift": Figure("numeric drift", "numbers in summaries beside words they never stood beside", -1),
    "tokens": Figure("view tokens", "tokens of the view", 0, share=False),
    "ratio": Figure("view / past", "tokens of the view over tokens of the past", -1),
    "per_1k": Figure("per 1,000 tokens", "answers held for each 1,000 tokens of the view", 1, share=False),
    "passes": Figure("passes", "summarizations that the oldest fact went through", -1, share=False),
}

Sums = dict[str, Sum]


class Scored(NamedTuple):
    """One view scored."""

    sums: Sums
    verdicts: dict[str, Verdict]  # by probe
    unsupported: tuple[str, ...]
    drifted: tuple[str, ...]


class Ground(NamedTuple):
    """What is true at one cut, prepared once for all arms."""

    probes: Sequence[Probe]
    past_tokens: int
    reads: Sequence[Read]  # before the cut
    source: Source
    artifacts: Mapping[str, str]


def score_view(view: ArmView, ground: Ground) -> Scored:
    """All figures of one view."""
    sums, verdicts = score_retention(view, ground.probes)
    right, artifacts, claims = score_artifacts(
        ground.artifacts,
        operations_in_view([*view.summaries, *view.ledger], ground.reads[view.raw_from :], ground.artifacts),
    )
    known, _, ledger_claims = score_artifacts(ground.artifacts, ledger_operations(view.facts))
    support = check_support([*view.summaries, *view.ledger], ground.source)
    sums |= {
        "artifact_recall": Sum(right, artifacts),
        "artifact_precision": Sum(right, claims),
        "ledger_recall": Sum(known, artifacts if view.nodes else 0),
        "ledger_precision": Sum(known, ledger_claims),
        "unsupported": Sum(len(support.unsupported), support.values),
        "drift": Sum(len(support.drifted), support.numbers),
        "tokens": Sum(view.tokens, 1),
        "ratio": Sum(view.tokens, ground.past_tokens),
        "per_1k": Sum(sum(verdict.kept for verdict in verdicts.values()), view.tokens / 1_000 if verdicts else 0),
        "passes": Sum(max((node.passes for node in view.nodes), default=0), 1 if view.nodes else 0),
    }
    return Scored(
        {name: sums[name] for name in FIGURES if name in sums and sums[name].out_of},
        verdicts,
        support.unsupported,
        support.drifted,
    )


def score_retention(view: ArmView, probes: Sequence[Probe]) -> tuple[Sums, dict[str, Verdict]]:
    """What a view still holds of what is asked, by kind; the quick part of the figures."""
    text = Text(view.texts)
    verdicts = {probe.id: judge(probe, text) for probe in probes}
    return _retention(probes, verdicts) | _in_summaries(view, probes), verdicts


def _retention(probes: Sequence[Probe], verdicts: Mapping[str, Verdict]) -> Sums:
    sums: Sums = {}
    for kind in KINDS:
        kept = [verdicts[probe.id].kept for probe in probes if probe.kind == kind]
        sums[kind] = Sum(sum(kept), len(kept))
    planted = [verdicts[probe.id].kept for probe in probes if probe.kind not in _UNASKED]
    stale = [verdicts[probe.id].stale for probe in probes if probe.kind == "supersession"]
    return {**sums, "literals": Sum(sum(planted), len(planted)), "stale": Sum(sum(stale), len(stale))}


def _in_summaries(view: ArmView, probes: Sequence[Probe]) -> Sums:
    """What summaries, the ledger among them, keep: of the used values that no raw part holds, those that they hold."""
    if not view.nodes:
        return {}
    frame, summaries = Text(view.frame), Text([*view.summaries, *view.ledger])
    needed = [probe for probe in probes if probe.kind == "used" and not judge(probe, frame).kept]
    return {"summary_used": Sum(sum(judge(probe, summaries).kept for probe in needed), len(needed))}
