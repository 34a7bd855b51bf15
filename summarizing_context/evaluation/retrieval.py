"""What recall brings back: at later uses of an exact value that the view no longer shows, and right at a cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from summarizing_context.evaluation.arms.strategies import StrategyArm
from summarizing_context.evaluation.arms.views import ArmView
from summarizing_context.evaluation.cases.model import Case, Message, Probe
from summarizing_context.evaluation.scoring.figures import Sum, Sums
from summarizing_context.evaluation.scoring.verdicts import Text
from summarizing_context.messages.reading import Reading, is_reminder, read_message

TOKENS = 2_000  # of the page

_FOLDER = re.compile(r"(\S*/)\{([^\s{}]+)\}")


async def recalled(arm: StrategyArm, case: Case, probes: Sequence[Probe], budget: int) -> Sum:
    """Of the values that the view at their use does not show, those that the page holds."""
    uses: dict[int, list[Probe]] = {}
    for probe in probes:
        if probe.used_at is not None:
            uses.setdefault(probe.used_at, []).append(probe)
    held = missing = 0
    for at in sorted(uses):
        await arm.feed(at)
        view = await arm.view(budget)
        shown = Text(view.texts if view else ())
        asked = [probe for probe in uses[at] if not shown.holds(probe.literals[0])]
        if asked:
            page = Text([written_out(await arm.recall(query_before(case.messages, at), TOKENS))])
            held += sum(page.holds(probe.literals[0]) for probe in asked)
            missing += len(asked)
    return Sum(held, missing)


def written_out(page: str) -> str:
    """A page with the paths of a folder, `src/{app.py,page.py}`, one by one, as its reader understands them."""
    paths = [f"{folder}{name}" for folder, names in _FOLDER.findall(page) for name in names.split(",")]
    return "\n".join([page, *paths])


def query_before(messages: Sequence[Message], at: int) -> str:
    """The newest words of the human and of the assistant before a message."""
    human = _newest(messages, at, lambda reading: reading.human)
    return f"{human}\n{_newest(messages, at, lambda reading: reading.role == 'assistant')}".strip()


def _newest(messages: Sequence[Message], at: int, wanted: Callable[[Reading], bool]) -> str:
    for message in reversed(messages[:at]):
        reading = read_message(message)
        said = [text for part in reading.parts if part.kind == "text" for text in part.texts if not is_reminder(text)]
        if wanted(reading) and (words := "\n".join(said).strip()):
            return words
    return ""


HITS = 10

PAGE_TOKENS = 2_000  # of the page about a node

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
            pages[node] = Text([await arm.paragraph(node, PAGE_TOKENS)])
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
