"""Summaries of the same messages by two variants, side by side: those that changed most, with what each keeps.

Both variants go over some held-out sessions once more. What a model says about them is in the cassette by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import anyio
import msgspec

from summarizing_context.evaluation.cases.model import Case
from summarizing_context.evaluation.cases.sources import CaseSource
from summarizing_context.evaluation.cases.verdicts import Text
from summarizing_context.evaluation.cassettes import Cassette
from summarizing_context.evaluation.cassettes.cassette import scrub_case
from summarizing_context.evaluation.tuning.trials import load, views_of
from summarizing_context.settings.values import Settings

_MOST_SESSIONS = 8
_MOST_PAIRS = 6
_MOST_OF_A_SESSION = 2
_MOST_VALUES = 8  # that are named
Messages = tuple[int, int]  # the first, and one past the last


class Pair(msgspec.Struct, frozen=True):
    """Two summaries of the same messages."""

    session: str
    start: int  # first message
    stop: int  # one past the last
    old: str
    new: str
    needed: list[str]  # values of these messages that something asks for later
    old_keeps: list[str]  # of these
    new_keeps: list[str]

    @property
    def title(self) -> str:
        return f"{self.session}, messages {self.start} to {self.stop - 1}"

    def kept(self, values: Sequence[str]) -> str:
        """What one of the two keeps, in words."""
        if not self.needed:
            return "no value of these messages is needed later"
        lost = [value for value in self.needed if value not in values]
        told = f"keeps {len(values)} of {len(self.needed)} values that are needed later"
        told += f": {_few(values)}" if values else ""
        return f"{told}; drops {_few(lost)}" if lost else told


def _few(values: Sequence[str]) -> str:
    more = len(values) - _MOST_VALUES
    return ", ".join(values[:_MOST_VALUES]) + (f" and {more} more" if more > 0 else "")


def most_changed(
    sources: Sequence[CaseSource], old: Settings, new: Settings, cassette: Cassette | None = None
) -> list[Pair]:
    """The pairs of summaries that differ in most words, from several sessions."""
    found = [pair for source in sources[:_MOST_SESSIONS] for pair in _pairs(load(source), old, new, cassette)]
    chosen: list[Pair] = []
    sessions: Counter[str] = Counter()
    for pair in sorted(found, key=lambda one: -_changed(one)):
        if sessions[pair.session] < _MOST_OF_A_SESSION and len(chosen) < _MOST_PAIRS:
            sessions[pair.session] += 1
            chosen.append(pair)
    return chosen


def _pairs(case: Case, old: Settings, new: Settings, cassette: Cassette | None) -> Iterator[Pair]:
    if cassette is not None:
        case = scrub_case(case, cassette)
    before, after = (anyio.run(_summaries, case, settings, cassette) for settings in (old, new))
    for start, stop in sorted(before.keys() & after.keys()):
        first, second = before[start, stop], after[start, stop]
        if first != second:
            needed = _needed(case, start, stop)
            keeps = [[value for value in needed if Text([text]).holds(value)] for text in (first, second)]
            yield Pair(case.group or case.id, start, stop, first, second, needed, *keeps)


async def _summaries(case: Case, settings: Settings, cassette: Cassette | None) -> dict[Messages, str]:
    """The summaries of all segments, and those that views show."""
    found: dict[Messages, str] = {}
    async with views_of(case, settings, cassette) as (arm, views):
        async for _, view in views:
            nodes = (*arm.summaries(), *view.nodes)
            found |= {(node.start, node.stop): node.text for node in nodes}
    return found


def _needed(case: Case, start: int, stop: int) -> list[str]:
    probes = [probe for probe in case.probes if any(start <= at < stop for at in probe.evidence)]
    return list(dict.fromkeys(literal for probe in probes for literal in probe.literals))


def _changed(pair: Pair) -> int:
    """Words that only one of the two has."""
    old, new = Counter(pair.old.split()), Counter(pair.new.split())
    return (old - new).total() + (new - old).total()
