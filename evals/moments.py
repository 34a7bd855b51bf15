"""Measure activations at natural ends against activations at the high water alone, on transcripts and without a model.

    python -m evals.moments FOLDER [--budget 32000]

Each session that has ends and outgrows half of a budget is played without `natural_ends`, with them, and with a lower
high water, each message of the assistant preceded by a view. Hindsight is the share of the values that the session
needed later which views hold: at those tenths of the session before which it has outgrown the budget, the same for all.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import anyio

from summarizing_context import Settings, open_context
from summarizing_context.evaluation.datasets import Read, hindsight, read_messages
from summarizing_context.evaluation.views import Message, Text, text_of
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.transcripts import find_transcripts, read_named
from summarizing_context.views.planner import CACHED, is_natural_end

ARMS: dict[str, dict[str, Any]] = {
    "full": {"natural_ends": False, "high_water": 0.92},
    "ends": {"natural_ends": True},
    "lower": {"natural_ends": False, "high_water": 0.8},
}


async def play(messages: Sequence[Message], reads: Sequence[Read], budget: int, arm: str) -> Counter[str]:
    """Play one session and count."""
    settings = Settings(max_tokens=budget, idle_after="never", image_tokens=0, **ARMS[arm])
    cuts = [len(messages) * tenth // 10 for tenth in range(1, 10)]  # still to come
    found: Counter[str] = Counter(sessions=1)
    async with open_context(settings, count_tokens=estimate_text) as context:
        session, before = context._session, 0
        for at, message in enumerate(messages):
            if message["role"] == "assistant" and at and not context.open_calls():
                await context.wait_idle()
                view = await context.next_view(budget)
                is_end = is_natural_end(session.log, session.ledger)
                is_cut = any(cut <= at for cut in cuts) and session.log.history_tokens > budget
                cuts = [cut for cut in cuts if cut > at]
                kept = before
                if view.activation is not None:
                    plan = session.log.kept_texts.plan()
                    is_open = plan is not None and any(item.mark and item.is_open for item in plan.items)
                    kept = session.views.records[-1].prefix_kept
                    found.update(activations=1, at_end=is_end, unfinished=is_open or session.ledger.is_red)
                before = view.tokens
                found.update(views=1, ends=is_end, viewed=before, uncached=before - kept, cached=kept)
                if is_cut:
                    said, asked = Text([text_of(list(view.shared))]), hindsight(reads, at, budget)
                    found.update(asked=len(asked), held=sum(said.holds(*question.values) for question in asked))
            await context.add_message(message)
    return found


def measure(path: Path, budgets: Sequence[int]) -> dict[tuple[int, str], Counter[str]]:
    """Return the counts of the sessions of a file, by budget and arm."""
    counts = defaultdict[tuple[int, str], Counter[str]](Counter)
    for log in read_named(path).values():
        reads = read_messages(log.messages)
        for budget in budgets:
            for arm in ARMS if sum(read.tokens for read in reads) > budget / 2 else ():
                found = anyio.run(play, log.messages, reads, budget, arm)
                if not found["ends"]:
                    break
                counts[budget, arm] += found
    return counts


def main() -> None:
    """Play the sessions, and print a line for each budget and arm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budget", type=int, action="append", help="16,000, 32,000, 64,000 and 128,000 if not given")
    given = parser.parse_args()
    budgets = sorted(given.budget or (16_000, 32_000, 64_000, 128_000))
    sums = {place: Counter[str]() for place in product(budgets, ARMS)}
    with ProcessPoolExecutor() as pool:
        for counts in pool.map(partial(measure, budgets=budgets), find_transcripts([given.folder])):
            for place, found in counts.items():
                sums[place].update(found)
    columns = ["sessions", "activations", "at end", "unfinished", "hindsight", "mean view"]
    print(f"{'budget':13}", *(f"{column:>11}" for column in [*columns, "uncached", "cost"]))
    for (budget, arm), one in sums.items():
        full = sums[budget, "full"]
        if one["sessions"]:
            figures = [f"{one['sessions']:,}", f"{one['activations']:,}"]
            for part, whole in (("at_end", "activations"), ("unfinished", "activations"), ("held", "asked")):
                figures.append(f"{one[part] / max(1, one[whole]):.1%}")
            costs = [each["uncached"] + CACHED * each["cached"] for each in (one, full)]
            figures += [f"{one['viewed'] / one['views']:,.0f}", f"{one['uncached'] / full['uncached'] - 1:+.1%}"]
            figures.append(f"{costs[0] / costs[1] - 1:+.1%}")
            print(f"{budget:7,} {arm:5}", *(f"{figure:>11}" for figure in figures))


if __name__ == "__main__":
    main()
