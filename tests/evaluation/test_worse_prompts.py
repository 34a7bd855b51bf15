"""A prompt made worse on purpose is reported as worse on the recordings of the checkout; an equal one as equal.

The model is played by the recorded replies: to the shipped prompt it says what was recorded, to a worse one the same
without what that prompt has it leave out. Merges and rules are the same for all prompts.
"""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from summarizing_context import SummaryJob
from summarizing_context.errors import SummarizerRefused
from summarizing_context.evaluation import Arm, Dataset, Run
from summarizing_context.evaluation.cassettes import Cassette, RecordedModel
from summarizing_context.evaluation.datasets import exact_values
from summarizing_context.evaluation.recording import Recording
from summarizing_context.evaluation.report import in_words
from summarizing_context.summarizers.extractive.summarizer import summarize_extractively
from summarizing_context.summarizers.prompts import latest
from tests.laws.amounts import ALL

FOLDER = Path(__file__).parents[2] / "evals" / "real"
RECORDING = Recording.open(FOLDER)
DATASET = Dataset.load(FOLDER)
NAMED = RECORDING.at(RECORDING.cases[0]).writer
WRITER: Any = SimpleNamespace(model=NAMED, recipe=NAMED)
WORSE = ("drops errors", "drops values", "too short")


class Recorded:
    """Says what was recorded for the shipped prompt, changed as a worse prompt asks for."""

    def __init__(self, name: str) -> None:
        self.recipe, self.name = f"recorded, {name}", name
        self.model = RecordedModel(WRITER, Cassette(RECORDING.cassette))

    async def summarize(self, job: SummaryJob) -> str:
        shipped = latest(job.kind) if job.kind in ("segment", "rollup") else None
        asked = job.instructions if shipped is None else shipped.render(max_tokens=job.max_tokens)
        try:
            known = await self.model.summarize(replace(job, instructions=asked))
        except SummarizerRefused:
            if job.kind not in ("segment", "rollup"):
                return "none" if job.kind == "rules" else "[]"
            return summarize_extractively(job.content, kind=job.kind, max_tokens=job.max_tokens)
        return self.worse(known.text) if job.kind == "segment" else known.text

    def worse(self, text: str) -> str:
        if self.name == "drops errors":
            sections = re.split(r"(?m)^(?=## )", text)
            kept = [one for one in sections if not one.startswith("## Errors")]
            lines = [line for one in kept for line in one.splitlines()]
            errors = re.compile("error|fail|exception|wrong|broke|bug|fix|cause|because|refus|reject|denied", re.I)
            return "\n".join(line for line in lines if line.startswith("## ") or not errors.search(line)) or "## Done"
        if self.name == "drops values":
            for value in sorted(exact_values(text), key=len, reverse=True):
                text = text.replace(value, "it")
            return re.sub(r"\d+", "some", text)
        if self.name == "too short":
            return "## Done\n" + " ".join(text.replace("## ", "").split()[:40])
        return text


def test_prompts_made_worse_on_purpose_are_worse_and_the_same_prompt_is_equal():
    """All prompts on sessions of the recording, at the budgets of its cases."""
    arms = [Arm(name, RECORDING.settings, Recorded(name)) for name in ("start", *WORSE, "the same")]
    logs = [log for log in DATASET.logs if ALL or log.name.startswith(("openhands", "swe", "tau", "agentv"))]
    report = Run(replace(DATASET, logs=logs), arms, baseline="start").report()
    sessions = len({log.session for log in logs})
    for name in WORSE:
        change = report.ahead(name)
        assert change.sessions == sessions
        assert change.high < 0, (name, change)
        assert in_words(change).startswith("worse by")
    assert in_words(report.ahead("the same")) == f"equal on every question, {sessions} sessions"
