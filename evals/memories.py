"""How relevant the memories are that a question brings along, by words alone.

Rules and decisions of the written sessions are the memories of one project, their questions what the human says. It is
told how often a question brings the sentence that answers it, and how many of other sessions come with it. Run from a
checkout as `python -m evals.memories`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from summarizing_context import Settings, open_context
from summarizing_context.memories import LIKE

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


async def main() -> None:
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


if __name__ == "__main__":
    asyncio.run(main())
