"""The strategies side by side on a folder of transcripts: prefix hits, uncached tokens, model calls and tokens.

    python -m evals.performance.strategies FOLDER --budget 16k,64k --json evals/performance/results/strategies.json

Summaries are made by the honest provider of `tests/providers/serve.py`, through the real OpenAI SDK over the loopback,
so that calls are calls; no key, no network. The tables and laws are those of `summarizing-context replay`.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from evals.performance.machine import machine
from summarizing_context.cli.output import read_tokens
from summarizing_context.cli.replay import Shape, show
from summarizing_context.evaluation.replay import Plan, Tally, add_up, add_up_by_variant, replay_all
from summarizing_context.settings.values import Settings
from summarizing_context.transcripts import find_transcripts
from tests.providers.protocols import OPENAI
from tests.providers.serve import honestly, serving_apart
from tests.providers.server import Answer

STRATEGIES = ("hierarchical", "summarize", "importance", "truncate")


def measured(folder: Path, budgets: tuple[int, ...], jobs: int) -> list[Tally]:
    """Every transcript with every strategy at every budget."""
    with serving_apart(honestly(lambda _: Answer())) as server:
        address = OPENAI.base_url(server.root)
        settings = Settings(summarizer="openai", model="honest", base_url=address, api_key="none", call_timeout=120.0)
        plan = Plan(budgets, settings, strategies=STRATEGIES)
        return replay_all(find_transcripts([folder]), plan, jobs=jobs)


def row(tally: Tally) -> dict[str, Any]:
    """One line of the report's table."""
    figures = tally.figures()
    return {
        "strategy": tally.strategy,
        "budget": tally.budget,
        "views": tally.views,
        "mean view": round(figures["mean_view_tokens"]),
        "prefix hit": f"{figures['prefix_hit']:.1%}",
        "uncached tokens": figures["uncached_tokens"],
        "uncached / history": round(figures["uncached_tokens"] / max(tally.history_tokens, 1), 3),
        "activations": tally.activations,
        "model calls": tally.model_calls,
        "model input": tally.model_input_tokens,
        "input / history": round(tally.model_input_tokens / max(tally.history_tokens, 1), 3),
        "model output": tally.model_output_tokens,
        "laws broken": len(tally.broken_laws()),
    }


def document(tallies: list[Tally], files: int) -> dict[str, Any]:
    """What the report shows."""
    sums = add_up_by_variant(tallies)
    on = machine()
    note = (
        f"{files} real transcripts, {sums[0].messages:,} messages, {sums[0].history_tokens:,} tokens; a view before "
        "each assistant message. Model calls are calls of an honest model behind the OpenAI protocol on the loopback; "
        "it answers at once with at most 400 tokens. Input is what it was sent, prompt included. "
        f"{on['date']}; {on['cpu']}, {on['cores']} cores, {on['python']}, {on['system']}."
    )
    return {"title": "Strategies on real transcripts", "note": note, "rows": [row(tally) for tally in sums]}


def main() -> None:
    """Read the command line, measure, show and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budget", default="16k")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    budgets = tuple(read_tokens(text) for text in given.budget.split(","))
    tallies = measured(given.folder, budgets, given.jobs)
    show(tallies, add_up_by_variant(tallies), add_up(tallies), Shape())
    if given.json is not None:
        files = len({tally.file for tally in tallies})
        given.json.write_text(json.dumps(document(tallies, files), indent=2) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
