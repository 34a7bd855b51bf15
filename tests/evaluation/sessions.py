"""Sessions with values that are read early and used late, written as transcripts; a made-up recording of answers."""

import json
import shutil
from pathlib import Path

import anyio

from summarizing_context.evaluation.cassettes import Cassette
from summarizing_context.evaluation.recording import Recording
from summarizing_context.evaluation.run import record
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.testing import Conversation, Message

MADE_UP = Path(__file__).parents[1] / "data" / "real"
SUMMARY = "The sensor reports tenths of a degree; read_celsius divided by 100. Never restart by day."


def value(seed: int, number: int) -> str:
    """Return a path that stands nowhere else."""
    return f"src/area_{seed}/part_{number}.py"


def session(seed: int = 0, *, turns: int = 24, later: int = 12) -> list[Message]:
    """Return a session: each turn reads a list with a new path, and uses the path that was read some turns before."""
    talk = Conversation(tokens=90)
    rows: list[Message] = [{"role": "system", "content": "You are a careful agent."}]
    for turn in range(turns):
        rows.append(talk.user(f"Turn {turn}: look into the list of files and fix what is wrong there."))
        used = talk.call(path=value(seed, turn - later) if turn >= later else "notes.txt")
        rows += [used, *talk.results(used)]
        listed = talk.call("list_files", folder=f"src/area_{seed}")
        rows += [listed, *talk.results(listed, f"{talk.text()}\nFound {value(seed, turn)} with 14 faults.")]
        rows.append(talk.assistant())
    return rows


def write(folder: Path, *seeds: int, **size: int) -> Path:
    """Write a transcript for each seed; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        lines = (json.dumps(message) for message in session(seed, **size))
        (folder / f"session-{seed}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf8")
    return folder


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
