"""How long it takes to score probes without a model: 10,000 and more, at every figure. `make bench-scorers` is this.

    python -m evals.performance.scorers [--probes N]

Views are made first; only scoring them is timed, in seconds of one processor. The exit
status is 1 where 10,000 probes take 30 s or more.
"""

from __future__ import annotations

import argparse
import sys
import time

from summarizing_context.evaluation import baselines
from summarizing_context.evaluation.arms import ArmView
from summarizing_context.evaluation.artifacts import last_operations
from summarizing_context.evaluation.cases.facts import domain_names
from summarizing_context.evaluation.cases.model import Case, read_session, tokens_before
from summarizing_context.evaluation.cases.sessions import Recipe
from summarizing_context.evaluation.cases.sources import Generated
from summarizing_context.evaluation.figures import Ground, Source, score_view

BUDGET = 8_000
TARGET = 30.0  # seconds for 10,000 probes


def prepared(case: Case) -> list[tuple[ArmView, Ground]]:
    """The views of three baselines at every cut, and what is true there."""
    reads = read_session(case.messages)
    before = tokens_before(reads)
    made = []
    for cut in case.cuts:
        seen = reads[: cut.at]
        past = baselines.Past(case, cut, [list(read.texts) for read in seen], [read.is_result for read in seen])
        source = Source(text for read in seen for text in read.texts)
        ground = Ground(case.probes_at(cut), before[cut.at], seen, source, last_operations(seen))
        views = [baselines.tail(past, BUDGET // 2), baselines.masking(past, BUDGET), baselines.everything(past)]
        views.append(baselines.evidence(past, ground.probes))  # its words stand in a summary
        made += [(view, ground) for view in views]
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--probes", type=int, default=10_000)
    wanted = parser.parse_args().probes
    scored, seconds, seed = 0, 0.0, 0
    while scored < wanted:
        seed += 1
        for domain in domain_names():
            work = prepared(Generated(Recipe(domain=domain, seed=900 + seed, tokens=60_000, budget=BUDGET)).load())
            started = time.process_time()
            for view, ground in work:
                score_view(view, ground)
            seconds += time.process_time() - started
            scored += sum(len(ground.probes) for _, ground in work)
    per_10k = seconds * 10_000 / scored
    print(
        f"{scored:,} probes scored in {seconds:.1f} s of one processor: {per_10k:.1f} s for 10,000 "
        f"(to reach: under {TARGET:.0f} s)"
    )
    return int(per_10k >= TARGET)


if __name__ == "__main__":
    sys.exit(main())
