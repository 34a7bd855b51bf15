"""The literal gate on real transcripts: honest summaries that it refuses, altered values that it lets through.

    python -m evals.performance.literals FOLDER --json literals.json

A model is played by the extractive summarizer, whose every word stands in its source: each refusal is a false one, and
is shown. Then one literal after another of the same summaries is altered and asked for. No key, no network.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import anyio
from rich.progress import track

from summarizing_context import BudgetError, Settings, SummarizerError, SummaryJob, open_context
from summarizing_context.cli.output import plain, screen, table
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.summarizers.extractive.summarizer import summarize_extractively
from summarizing_context.summarizers.verification.gate import unsupported_literals
from summarizing_context.summarizers.verification.literals import find_literals
from summarizing_context.summarizers.verification.literals import plain as spelled
from summarizing_context.summarizers.verification.replies import check_reply
from summarizing_context.summarizers.verification.sources import source_values
from summarizing_context.transcripts import find_transcripts, read_session
from tests.summarizers.altering import altered

MOST_REFUSED = 0.01  # of honest summaries
_EXAMPLES = 6  # that are shown of each kind
BUDGET = 20_000  # tokens; nothing is ever left unsummarized for it
SIZES: tuple[
    dict[str, Any], ...
] = (  # of segments: the defaults, and small ones, so that short transcripts have some too
    {},
    {"segment_min": 300, "segment_target": 900, "segment_max": 1_800, "summary_max_tokens": 100},
)


@dataclass
class Tally:
    """What was counted."""

    summaries: int = 0
    refused: list[tuple[str, list[str]]] = field(default_factory=list)  # file, literals
    altered: Counter[str] = field(default_factory=Counter)  # by kind of literal
    through: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # by kind
    milliseconds: list[float] = field(default_factory=list)  # of each look through the gate

    @property
    def refused_share(self) -> float:
        return len(self.refused) / self.summaries if self.summaries else 0.0


class Honest:
    """Writes as a model is asked to, and nothing that does not stand in its source."""

    def __init__(self) -> None:
        self.made: list[tuple[SummaryJob, str]] = []

    async def summarize(self, job: SummaryJob) -> str:
        if job.kind == "rules":
            return "none"
        text = summarize_extractively(
            job.content,
            kind="rollup" if job.kind == "rollup" else "segment",
            max_tokens=job.max_tokens,
            count=estimate_text,
        )
        if job.attempt == 1:
            self.made.append((job, text))
        return text


async def summaries_of(path: Path) -> list[tuple[SummaryJob, str]]:
    """What a model would be asked of a transcript, and the honest answers, each once."""
    made: dict[str, tuple[SummaryJob, str]] = {}
    for size in SIZES:
        honest = Honest()
        settings = Settings(max_tokens=BUDGET, token_counter="estimate", idle_after=None, start_at=0.01, **size)
        async with open_context(settings, summarizer=honest) as context:
            await context.set_messages(list(read_session(path).messages))
            with suppress(BudgetError):  # system rows of more than the budget: there are segments all the same
                await context.get_messages_for_request()
            await context.wait_idle(120)
        made |= {job.range_hash: (job, text) for job, text in honest.made}
    return list(made.values())


def measure(job: SummaryJob, reply: str, file: str, tally: Tally) -> None:
    """One honest answer through the gate, and its literals altered."""
    try:
        text = check_reply(reply, job, estimate_text).text
    except SummarizerError:
        return  # too long for its source: no case for the gate
    began = time.perf_counter()
    grounds = source_values(job)
    bad = unsupported_literals(text, grounds)
    tally.milliseconds.append(1e3 * (time.perf_counter() - began))
    tally.summaries += 1
    if bad:
        tally.refused.append((file, bad))
    for kind, lie in lies_about(text, job):
        tally.altered[kind] += 1
        if not unsupported_literals(f"- It was {lie}, then.", grounds):
            tally.through[kind].append(lie)


def lies_about(text: str, job: SummaryJob) -> Iterator[tuple[str, str]]:
    """Literals of a summary with one character or word altered, so that they stand nowhere in the source."""
    random = Random(job.range_hash)
    source = spelled(job.content)
    literals = [(line, literal) for line in text.split("\n") for literal in find_literals(line)]
    for kind, value in dict.fromkeys((literal.kind, _as_written(literal.text, line)) for line, literal in literals):
        lie = altered(kind, value, random)
        if lie is not None and spelled(lie) not in source:
            yield kind, lie


def _as_written(value: str, line: str) -> str:
    """The value with its capital letters, of which a name of code is made."""
    at = line.lower().find(value)
    return line[at : at + len(value)] if at >= 0 else value


def milliseconds(tally: Tally) -> dict[str, float]:
    times = sorted(tally.milliseconds) or [0.0]
    return {"p50": round(times[len(times) // 2], 2), "max": round(times[-1], 2)}


def document(tally: Tally) -> dict[str, object]:
    return {
        "summaries": tally.summaries,
        "refused": len(tally.refused),
        "refused_share": round(tally.refused_share, 5),
        "altered": {
            kind: {"tried": n, "through": len(tally.through[kind])} for kind, n in sorted(tally.altered.items())
        },
        "milliseconds": milliseconds(tally),
    }


def show(tally: Tally) -> None:
    times = milliseconds(tally)
    refusals = table("Honest summaries that were refused", "transcript", "literals", wide="literals")
    for file, bad in tally.refused:
        refusals.add_row(plain(file), plain(", ".join(bad)))
    kinds = table("Altered literals", "kind", "#tried", "#let through", "such as", wide="such as")
    for kind, tried in sorted(tally.altered.items()):
        through = tally.through[kind]
        shown = Random(0).sample(through, min(len(through), _EXAMPLES))
        kinds.add_row(kind, f"{tried:,}", f"{len(through):,}", plain(" | ".join(shown)))
    console = screen()
    for made in [refusals] * bool(tally.refused) + [kinds]:
        console.print(made)
    console.print(
        f"{tally.summaries:,} honest summaries, {len(tally.refused)} refused ({tally.refused_share:.2%}); "
        f"{tally.altered.total():,} altered literals, {sum(map(len, tally.through.values())):,} let through; "
        f"a look takes {times['p50']} ms, at most {times['max']} ms"
    )


def main() -> None:
    """Read the command line, measure, show and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1, help="measure every so manieth file")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    tally = Tally()
    for path in track(find_transcripts([given.folder])[:: given.every], "transcripts", transient=True):
        for job, reply in anyio.run(summaries_of, path):
            measure(job, reply, path.name, tally)
    show(tally)
    if given.json is not None:
        given.json.write_text(json.dumps(document(tally), indent=2) + "\n", encoding="utf8")
    raise SystemExit(tally.refused_share >= MOST_REFUSED or not tally.summaries)


if __name__ == "__main__":
    main()
