"""Recording by hand, with models that read and write files.

    python -m evals.real.exchange FOLDER --model "what kind of model"

It takes in the replies of FOLDER, and writes each request that has none to `todo/<key>.txt`. Its reply belongs into
`replies/<key>.txt`. Call it again until nothing is missing: summaries are asked for first, then answers, then a judge's
marks, who sees the answers under shuffled letters.
"""

import argparse
import hashlib
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio

from summarizing_context.evaluation.cassettes import Cassette, RecordedModel
from summarizing_context.evaluation.datasets import AskedCase, Recording
from summarizing_context.evaluation.run import mark_answers, read_answers
from summarizing_context.evaluation.views import ARMS, Case, build
from summarizing_context.summarizers.base import SummaryJob, SummaryReply

PENDING = "Nothing is recorded for this part of the session yet."


class Missing(Exception):
    """A request has no reply yet."""


class FileModel:
    """A model whose requests and replies are files of a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.model, self.recipe, self._folder = name, name, folder

    async def complete(self, system: str, user: str, max_tokens: int) -> SummaryReply:
        """Return the reply to a request. Raise `Missing` where there is none, once the request is written."""
        key = hashlib.sha256(f"{system}\0{user}".encode("utf8", "surrogatepass")).hexdigest()[:20]
        reply, todo = self._folder / "replies" / f"{key}.txt", self._folder / "todo" / f"{key}.txt"
        if reply.exists():
            return SummaryReply(reply.read_text(encoding="utf8").strip())
        todo.parent.mkdir(parents=True, exist_ok=True)
        todo.write_text(f"=== SYSTEM ===\n{system}\n\n=== USER ===\n{user}\n", encoding="utf8", errors="replace")
        raise Missing(key)

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return a summary. Raise `Missing`."""
        return await self.complete(job.instructions, job.content, job.max_tokens)


class Writer:
    """A summarizer that goes on without the replies that are missing, so that many requests are written at once."""

    def __init__(self, model: RecordedModel | FileModel) -> None:
        self.missing, self.recipe, self._model = 0, model.recipe, model
        self._is_waiting = False  # for standing rules, which are asked for in the order of the session

    async def summarize(self, job: SummaryJob, *, kind: str = "") -> SummaryReply:
        """Return the reply to a job. What holds the placeholder of another one is not asked for yet."""
        try:
            if PENDING in job.content or (job.kind == "rules" and self._is_waiting):
                raise Missing
            return await self._model.summarize(job, **({"kind": kind} if kind else {}))
        except Missing:
            self.missing += 1
            self._is_waiting |= job.kind == "rules"
            return SummaryReply("none" if job.kind == "rules" else PENDING)


def record(recording: Recording, folder: Path, name: str, arms: Sequence[str] = tuple(ARMS)) -> int:
    """Take in the replies of a folder, and write the requests that have none; return how many these are."""
    shutil.rmtree(folder / "todo", ignore_errors=True)

    async def take(case: Case, model: RecordedModel) -> None:
        writer, messages, questions = Writer(model), recording.messages(case), recording.at(case).questions
        _, views, _ = await build(case, messages, arms, recording.settings, writer)
        if not writer.missing:
            await mark_answers(case, questions, await read_answers(case, questions, views, model), model)
            recording.write(case, AskedCase(questions, list(arms), model.maker, model.maker))

    files: Any = FileModel(folder, name)  # what is used of a summarizer
    with Cassette(recording.cassette, "record") as cassette:
        for case in recording.cases:
            with suppress(Missing):
                anyio.run(take, case, RecordedModel(files, cassette))
    return len(list(folder.glob("todo/*.txt")))


def main() -> None:
    """Take in replies, and write the requests that have none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", required=True, help="what kind of model writes the replies, and when")
    parser.add_argument("--arms", default=",".join(ARMS), help=f"of {', '.join(ARMS)}")
    parser.add_argument("--data", type=Path, default=Path("evals/real"), help="the folder of the recording")
    given = parser.parse_args()
    left = record(Recording.open(given.data), given.folder, given.model, given.arms.split(","))
    print(f"{left} requests without a reply are in {given.folder / 'todo'}")


if __name__ == "__main__":
    main()
