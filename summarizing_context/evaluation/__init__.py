"""Evals: what views of a session still hold, what that takes, and which of several ways is better.

    from summarizing_context import evaluation

    run = evaluation.Run(evaluation.Dataset.load("logs/"))
    report = run.report()
    report.write("eval-report")

Five nouns: a `Dataset` is sessions with what is asked about them, an `Arm` a way to make their views, a `Metric` how a
view is scored, a `Run` measures arms on a data set, and a `Report` is what came of it. Names are loaded when they are
first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from summarizing_context.evaluation.cassettes import Cassette as Cassette
    from summarizing_context.evaluation.datasets import Dataset as Dataset
    from summarizing_context.evaluation.report import Report as Report
    from summarizing_context.evaluation.run import Arm as Arm
    from summarizing_context.evaluation.run import Metric as Metric
    from summarizing_context.evaluation.run import Run as Run

_HOMES = {"Arm": "run", "Cassette": "cassettes", "Dataset": "datasets", "Metric": "run"}
_HOMES |= {"Report": "report", "Run": "run"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
