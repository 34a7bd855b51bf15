"""Sessions with values that are read early and used late, written as transcripts; a made-up recording of answers."""

import json
import shutil
from itertools import takewhile
from pathlib import Path

from evals.real.exchange import record
from summarizing_context.evaluation.datasets import Recording
from tests.cli.commands import write_transcript
from tests.talk import Message, Talk

MADE_UP = Path(__file__).parents[1] / "data" / "real"


def value(seed: int, number: int) -> str:
    """Return a path that stands nowhere else."""
    return f"src/area_{seed}/part_{number}.py"


def session(seed: int = 0, *, turns: int = 24, later: int = 12) -> list[Message]:
    """Return a session: each turn reads a list with a new path, and uses the path that was read some turns before."""
    talk = Talk(tokens=90)
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
        write_transcript(folder / f"session-{seed}.jsonl", session(seed, **size))
    return folder


def answer(user: str) -> str:
    """What a model would say to a request: a summary, answers, or a judge's marks."""
    if '"gold"' in user:
        asked = json.loads(user[user.index("{") : user.rindex("}") + 1])["questions"]
        return json.dumps({one["id"]: dict.fromkeys(one["answers"], 2) for one in asked})
    if "Questions: [" in user:
        asked = json.loads(user.partition("Questions: ")[2])
        return json.dumps({one["id"]: "<b>8080</b>" for one in asked})
    return "The sensor reports tenths of a degree; read_celsius divided by 100. Never restart by day."


def answered(folder: Path) -> Recording:
    """The made-up recording in a folder of its own, its results long enough for several segments, with answers and
    marks of two arms, recorded by files alone."""
    log = Path(shutil.copytree(MADE_UP, folder / "data")) / "logs" / "heating.jsonl"
    messages = [json.loads(line) for line in log.read_text().splitlines()]
    for message in messages:
        if message["role"] == "tool":
            message["content"] += "".join(f"\nNothing new stands in line {number}." for number in range(120))
    write_transcript(log, messages)
    recording, exchange = Recording.open(folder / "data"), folder / "exchange"
    (exchange / "replies").mkdir(parents=True)
    rounds = (record(recording, exchange, "a person, by hand", ("ours", "compact")) for _ in range(9))
    for _ in takewhile(bool, rounds):
        for request in (exchange / "todo").iterdir():
            asked = request.read_text("utf8").partition("=== USER ===")[2]
            (exchange / "replies" / request.name).write_text(answer(asked), "utf8")
    return recording


def changed(recording: Recording, old: str, new: str) -> None:
    """Have every reply say something else."""
    text = recording.cassette.read_text("utf8")
    assert old in text
    recording.cassette.write_text(text.replace(old, new), "utf8")
