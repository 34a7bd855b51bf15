"""Builders for tests of the recorded answers: a made-up recording, and a model that answers all that is asked."""

import json
import shutil
from pathlib import Path

import anyio

from summarizing_context.evaluation.cassettes import Cassette
from summarizing_context.evaluation.recording import Recording
from summarizing_context.evaluation.run import record
from summarizing_context.summarizers.base import SummaryJob, SummaryReply

MADE_UP = Path(__file__).parents[1] / "data" / "real"
SUMMARY = "The sensor reports tenths of a degree; read_celsius divided by 100. Never restart by day."


def answer(user: str) -> str:
    """What a model would say to a request: a summary, answers, or a judge's marks."""
    if '"gold"' in user:
        asked = json.loads(user[user.index("{") : user.rindex("}") + 1])["questions"]
        return json.dumps({one["id"]: dict.fromkeys(one["answers"], 2) for one in asked})
    if "Questions: [" in user:
        asked = json.loads(user.partition("Questions: ")[2])
        return json.dumps({one["id"]: "<b>8080</b>" for one in asked})
    return SUMMARY


class Model:
    """Answers all that is asked."""

    model = recipe = "a person, by hand"

    async def complete(self, system: str, user: str, max_tokens: int) -> SummaryReply:
        return SummaryReply(answer(user))

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        return SummaryReply('- [1] task "read_celsius"' if job.kind == "rules" else SUMMARY)


def copied(folder: Path) -> Recording:
    """The made-up recording in a folder of its own, its results long enough for several segments."""
    shutil.copytree(MADE_UP, folder / "data")
    log = folder / "data" / "logs" / "heating.jsonl"
    messages = [json.loads(line) for line in log.read_text().splitlines()]
    for message in messages:
        if message["role"] == "tool":
            message["content"] += "".join(f"\nNothing new stands in line {number}." for number in range(120))
    log.write_text("".join(json.dumps(message) + "\n" for message in messages))
    return Recording.open(folder / "data")


def answered(folder: Path) -> Recording:
    """The made-up recording with answers and marks of two arms."""
    recording = copied(folder)
    with Cassette(recording.cassette, "record") as cassette:
        anyio.run(record, recording, cassette, Model(), Model(), ("ours", "compact"), 0)
    return recording


def changed(recording: Recording, old: str, new: str) -> None:
    """Have every reply say something else."""
    text = recording.cassette.read_text("utf8")
    assert old in text
    recording.cassette.write_text(text.replace(old, new), "utf8")
