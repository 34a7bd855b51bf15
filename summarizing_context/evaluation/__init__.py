"""Evals: what views of a session still hold, what that takes, and which of several ways is better.

    from summarizing_context import evaluation

    run = evaluation.Run(evaluation.Dataset.load("logs/"))
    report = run.report()
    report.write("eval-report")

Five nouns: a `Dataset` is sessions with what is asked about them, an `Arm` a way to make their views, a `Metric` how a
view is scored, a `Run` measures arms on a data set, and a `Report` is what came of it.
"""

from summarizing_context.evaluation.cassettes import Cassette
from summarizing_context.evaluation.datasets import Dataset
from summarizing_context.evaluation.report import Report
from summarizing_context.evaluation.run import Arm, Metric, Run

__all__ = ["Arm", "Cassette", "Dataset", "Metric", "Report", "Run"]
