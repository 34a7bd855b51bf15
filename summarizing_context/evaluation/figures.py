"""The figures of a view, each a sum over a count, so that sessions can be added and compared.

Pure. `FIGURES` says what each figure means and which direction is better. A figure with an empty count is left out.
A value of a summary is unsupported where its source does not hold it. A number is drifted where the source holds it,
but never beside the words that the summary puts it beside.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from summarizing_context.evaluation.arms import ArmView
from summarizing_context.evaluation.artifacts import ledger_operations, operations_in_view, score_artifacts
from summarizing_context.evaluation.cases.model import KINDS, MEANING, Probe, Read
from summarizing_context.evaluation.cases.verdicts import Text, Verdict, folded, judge
from summarizing_context.extraction.values import find_entities

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
        "dropped lines", "lines of a model's summaries that grounding took out, a session", -1, share=False
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


_OWN_WORDS = re.compile(
    r"\(\d+ times\)|\(superseded\)|\(latest\)|\[… \d+ tokens left out …\]|\[\d+ earlier messages left out\]|"
    r"\(text without words: \d+ characters\)|\(blank text: \d+ characters\)"
)
_TOKEN = re.compile(r"[^\W_]+(?:[-_./:][^\W_]+|,\d+)*")
_SENTENCES = re.compile(r"(?<=[.!?])\s+")
_PARTS = re.compile(r"(?<=[.!?])\s+|\s*→\s*|[()=]")  # what belongs together
_QUOTE = re.compile(r"\"([^\"\n]{4,400})\"")
_CUT_OFF = "…"
_FEW = 2  # numbers beside a word that belong to it alone
_BLOCK = 200_000  # characters that are taken apart at a time


class Support(NamedTuple):
    """What was found in the summaries of one view."""

    values: int
    unsupported: tuple[str, ...]
    numbers: int
    drifted: tuple[str, ...]


class Source:
    """What stood before a cut, ready to be asked."""

    def __init__(self, texts: Iterable[str]) -> None:
        raw = list(texts)
        self._text = Text([" ".join(text.split()) for text in raw])
        self._pairs: Pairs | None = None
        self._raw = raw

    def holds(self, value: str) -> bool:
        return self._text.holds(value)

    @property
    def pairs(self) -> Pairs:
        """Every number of the source with each of its neighbours."""
        if self._pairs is None:
            self._pairs = Pairs(self._raw)
        return self._pairs


class Pairs:
    """Which numbers stand beside which words in a source, and in which sentences."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._pairs: set[tuple[str, str]] = set()
        self._sentences: dict[tuple[str, ...], set[tuple[str, ...]]] = {}  # without numbers: the numbers
        for line in dict.fromkeys(line for text in texts for line in text.split("\n")):
            if any(map(str.isdigit, line)):
                for tokens in _sentences_of(line[:_BLOCK]):
                    self._pairs.update(_pairs_of(tokens))
                    words, numbers = _parted(tokens)
                    self._sentences.setdefault(words, set()).add(numbers)
        self._numbers_beside = Counter(word for pair in self._pairs for word in pair if not _is_number(word))

    def misplaced(self, tokens: Sequence[str]) -> list[str]:
        """The numbers of a sentence that do not belong where they stand. A sentence that the source has, numbers
        apart, must have the numbers of one of its places; in others each number is held against its neighbours."""
        words, numbers = _parted(tokens)
        if known := self._sentences.get(words):
            nearest = min(
                sorted(known), key=lambda those: sum(one != other for one, other in zip(numbers, those, strict=True))
            )
            return [number for number, right in zip(numbers, nearest, strict=True) if number != right]
        return [token for token, before, after in _numbers_of(tokens) if not self._supports(token, before, after)]

    def _supports(self, number: str, before: str, after: str) -> bool:
        """Whether the number belongs to its neighbours. A word that stands beside few numbers tells enough by itself;
        words that stand beside many, such as units, must all agree; words that stand beside none tell nothing."""
        found = [
            (self._numbers_beside[word], pair in self._pairs)
            for word, pair in ((before, (before, number)), (after, (number, after)))
            if self._numbers_beside[word]
        ]
        specific = [is_supported for numbers, is_supported in found if numbers <= _FEW]
        return any(specific) if specific else all(is_supported for _, is_supported in found)


def check_support(summaries: Sequence[str], source: Source) -> Support:
    """The values of the summaries that their source does not bear out."""
    own = [_OWN_WORDS.sub(" ", text) for text in summaries]
    values = list(dict.fromkeys(value for text in own for value in _values(text)))
    unsupported = tuple(value for value in values if not source.holds(value))
    sentences = [tokens for text in own for line in text.split("\n") for tokens in _sentences_of(line)]
    numbers = [number for tokens in sentences for number in _parted(tokens)[1]]
    drifted = [number for tokens in sentences if _parted(tokens)[1] for number in source.pairs.misplaced(tokens)]
    return Support(len(values), unsupported, len(numbers), tuple(n for n in drifted if n not in unsupported))


def _values(text: str) -> Iterator[str]:
    for entity in find_entities(_QUOTE.sub(" ", text)):
        if entity.kind != "quoted" and _CUT_OFF not in entity.text:
            yield entity.text
    for quote in _QUOTE.findall(text):
        for sentence in _SENTENCES.split(quote):
            bare = sentence.partition(_CUT_OFF)[0].strip(" .,;:")
            if len(bare) > 3:
                yield bare


def _sentences_of(line: str) -> Iterator[list[str]]:
    """The words and numbers of each sentence of a line."""
    for sentence in _PARTS.split(line):
        yield _TOKEN.findall(folded(sentence))


def _parted(tokens: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A sentence with its numbers blotted out, and the numbers."""
    return (
        tuple("#" if _is_number(token) else token for token in tokens),
        tuple(token for token in tokens if _is_number(token)),
    )


def _numbers_of(tokens: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Each number of a sentence, with the words before and after it."""
    for at, token in enumerate(tokens):
        if _is_number(token):
            yield token, tokens[at - 1] if at else "", tokens[at + 1] if at + 1 < len(tokens) else ""


def _pairs_of(tokens: Sequence[str]) -> Iterator[tuple[str, str]]:
    for first, second in pairwise(tokens):
        if _is_number(first) or _is_number(second):
            yield first, second


def _is_number(token: str) -> bool:
    """Whether a token is a number, a date or a time, and no id."""
    return token[0].isdigit() and not any(map(str.isalpha, token))
