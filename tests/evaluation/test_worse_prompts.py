"""The recording that comes along: complete, small, licensed, and read from the views as they are now.

A prompt made worse on purpose is reported as worse on it. The model is played by the recorded replies: to the shipped
prompt it says what was recorded, to a worse one the same without what that prompt has it leave out.
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
from summarizing_context.evaluation.datasets import Recording, exact_values
from summarizing_context.evaluation.report import in_words
from summarizing_context.evaluation.views import ARMS
from summarizing_context.summarizers.extractive import summarize_extractively
from summarizing_context.summarizers.prompts import latest
from tests.laws.amounts import ALL

FOLDER = Path(__file__).parents[2] / "evals" / "real"
RECORDING = Recording.open(FOLDER)
DATASET = Dataset.load(FOLDER)
SHORT = ("openhands", "swe", "tau")


def logs(*names: str) -> Dataset:
    """The sessions of the recording whose names begin so; all of them where the laws try all that they have."""
    return replace(DATASET, logs=[log for log in DATASET.logs if ALL or log.name.startswith(names)])


NAMED = RECORDING.at(RECORDING.cases[0]).writer
WRITER: Any = SimpleNamespace(model=NAMED, recipe=NAMED)
ERRORS = re.compile("error|fail|exception|wrong|broke|bug|fix|cause|because|refus|reject|denied", re.I)
CATEGORIES = ("rule", "decision", "error", "artifact", "fact")
WORSE = ("drops errors", "drops values", "too short")


def test_it_is_complete_small_and_licensed_and_each_question_has_an_answer_from_before_the_cut():
    assert 12 <= len({case.session for case in RECORDING.cases}) < len(RECORDING.cases)  # long ones are cut twice
    assert len({case.source for case in RECORDING.cases}) >= 5
    for case in RECORDING.cases:
        assert case.licence == "MIT"
        assert (FOLDER / "licences" / f"{case.source.replace('/', '__')}.txt").is_file()
        assert len(RECORDING.messages(case)) == case.cut
        questions = RECORDING.at(case).questions
        assert len([question for question in questions if question.category in CATEGORIES]) >= 16
        assert all(question.answer for question in questions)
        assert all(message < case.cut for question in questions for message in question.evidence)
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= 5_000_000


def test_each_arm_was_read_and_each_case_marked_from_the_views_that_are_built_today():
    assert all(RECORDING.at(case).arms == list(ARMS) for case in RECORDING.cases)
    read = logs(*SHORT, "cli-18-130")
    report = Run(read).report()
    is_whole = (len(report.views), report.missing) == (len(read.logs) * len(ARMS), 0)
    assert is_whole, "views, or requests, are no longer those that were recorded: see evals/real/README.md"
    assert {one.reading for one in report.views} == {"this view"}
    assert all(answer.mark is not None for one in report.asked for answer in one.answers.values())

    # From our views a model answers as well as from one-shot compaction of equal tokens.
    assert all(gate.passed for gate in report.check({"right": 0.94, "laws": 0}))
    leads = {name: report.ahead("ours", "compact", category=name) for name in CATEGORIES}
    assert {name for name, lead in leads.items() if lead is None or lead.high < 0} == set()
    for arm, category, least in (("ours", "absent", 0.95), ("extractive", "all", 0.76)):
        score = report.score(arm, category=category)
        assert score.mean >= least


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
        match self.name:
            case "drops errors":
                lines = re.sub(r"(?ms)^## Errors.*?(?=^## |\Z)", "", text).splitlines()
                return (
                    "\n".join(line for line in lines if line.startswith("## ") or not ERRORS.search(line)) or "## Done"
                )
            case "drops values":
                for value in sorted(exact_values(text), key=len, reverse=True):
                    text = text.replace(value, "it")
                return re.sub(r"\d+", "some", text)
            case "too short":
                return "## Done\n" + " ".join(text.replace("## ", "").split()[:40])
        return text


def test_prompts_made_worse_on_purpose_are_worse_and_the_same_prompt_is_equal():
    """All prompts on sessions of the recording, at the budgets of its cases."""
    read = logs(*SHORT, "cli-18-130")
    arms = [Arm(name, RECORDING.settings, Recorded(name)) for name in ("start", *WORSE, "the same")]
    report, sessions = Run(read, arms, baseline="start").report(), len({log.session for log in read.logs})
    for name in WORSE:
        change = report.ahead(name)
        assert change.sessions == sessions
        assert change.high < 0, (name, change)
        assert in_words(change).startswith("worse by")
    assert in_words(report.ahead("the same")) == f"equal on every question, {sessions} sessions"
