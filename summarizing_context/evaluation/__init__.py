"""Evals: what views of a session still hold, what that takes, and which of several ways is better.

    from summarizing_context import evaluation

    run = evaluation.Run(evaluation.Dataset.load("logs/"))
    report = run.report()
    report.write("eval-report")

Five nouns: a `Dataset` is sessions with what is asked about them, an `Arm` a way to make their views, a `Metric` how a
view is scored, a `Run` measures arms on a data set, and a `Report` is what came of it. All is loaded when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from summarizing_context.evaluation import cassettes, datasets, laws, replay, report, run, tune, views
    from summarizing_context.evaluation.cassettes import Cassette
    from summarizing_context.evaluation.datasets import Dataset
    from summarizing_context.evaluation.report import Report
    from summarizing_context.evaluation.run import Arm, Metric, Run

_HOMES = {"Arm": "run", "Cassette": "cassettes", "Dataset": "datasets", "Metric": "run"}

__all__ = ["Arm", "Cassette", "Dataset", "Metric", "Report", "Run"]
__all__ += ["cassettes", "datasets", "laws", "replay", "report", "run", "tune", "views"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f"{__name__}.{_HOMES.get(name, name.lower())}")
    return home if name.islower() else getattr(home, name)
