"""Sessions with values that are read early and used late, written as transcripts."""

import json
from pathlib import Path

from summarizing_context.testing import Conversation, Message


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
