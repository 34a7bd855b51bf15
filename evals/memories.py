"""How relevant the memories are that a question brings along, by words alone.

Rules and decisions of the written sessions are the memories of one project, their questions what the human says. It is
told how often a question brings the sentence that answers it, and how many of other sessions come with it. With your
copy of LoCoMo, each turn of a conversation is a memory, and people have marked which turns answer a question. Run from
a checkout as `python -m evals.memories [file or folder of LoCoMo]`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from summarizing_context import Settings, open_context
from summarizing_context.errors import SummarizingContextError
from summarizing_context.evaluation.cases.datasets import locomo_case, locomo_files
from summarizing_context.retrieval.memory import LIKE

DATA = Path(__file__).parent / "data"
_KINDS = ("constraint", "decision")


class Asked(NamedTuple):
    """A question and the sentence that answers it."""

    session: str
    question: str
    answer: str


def asked() -> Iterator[Asked]:
    """Each question that a sentence of its session answers, once."""
    for path in sorted(DATA.glob("*.probes.json")):
        name = path.name.removesuffix(".probes.json")
        lines = (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        texts = [str(json.loads(line).get("content")) for line in lines]
        known: set[str] = set()
        for probe in json.loads(path.read_text(encoding="utf-8"))["probes"]:
            told = [sentence for at in probe.get("evidence", []) for sentence in re.split(r"(?<=[.!?])\s+", texts[at])]
            answer = next((one for one in told if probe.get("literals") and probe["literals"][0] in one), None)
            if probe["kind"] in _KINDS and answer is not None and probe["question"] not in known:
                known.add(probe["question"])
                yield Asked(name, probe["question"], answer)


async def _written() -> None:
    probes = list(asked())
    async with open_context(Settings(project="all")) as context:
        whose: dict[str, str] = {}
        for probe in probes:
            if probe.answer not in whose:
                whose[probe.answer] = probe.session
                await context.memory.store(probe.answer)
        own = first = offered = strange = 0
        for probe in probes:
            found = [one.content for one in await context.memory.retrieve(probe.question, 20) if one.score >= LIKE]
            own += probe.answer in found
            first += found[:1] == [probe.answer]
            offered += len(found)
            strange += sum(whose[content] != probe.session for content in found)
    asks = len(probes)
    print(f"{asks} questions over {len(whose)} memories of {len(set(whose.values()))} sessions, threshold {LIKE}:")
    print(f"the own memory comes with {own / asks:.0%} of the questions, as the first with {first / asks:.0%};")
    print(f"{offered / asks:.1f} come with one question, of these {strange / max(offered, 1):.0%} of other sessions")


async def _talked(path: Path) -> None:
    asks = answered = first = offered = turns = 0
    for file, number in locomo_files(path):
        case = locomo_case(file, number, budget=1)
        async with open_context(Settings(project="talk")) as context:
            for at, message in enumerate(case.messages):
                await context.memory.store(str(message["content"]), {"at": at})
            for probe in case.probes:
                near = await context.memory.retrieve(probe.question, 20)
                found = [one.metadata["at"] for one in near if one.score >= LIKE]
                answered += bool({*probe.evidence} & {*found})
                first += found[:1] != [] and found[0] in probe.evidence
                offered += len(found)
        turns += len(case.messages)
        asks += len(case.probes)
    print(f"{asks} questions over {turns} turns, threshold {LIKE}:")
    print(f"a turn that people marked comes with {answered / asks:.0%} of the questions, as the first with")
    print(f"{first / asks:.0%}; {offered / asks:.1f} come with one question, 20 at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("locomo", nargs="?", type=Path, help="your copy of LoCoMo; without it, the written sessions")
    given = parser.parse_args().locomo
    try:
        asyncio.run(_written() if given is None else _talked(given))
    except SummarizingContextError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
