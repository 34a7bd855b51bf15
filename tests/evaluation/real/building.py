"""Builders for tests of the recorded answers: a made-up recording, and what models would have said."""

from __future__ import annotations

import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

import anyio

from evals.real.exchange import By, take_replies, write_requests
from summarizing_context.evaluation.real.arms import ARMS, Built, build
from summarizing_context.evaluation.real.recording import Recording, Reply

MADE_UP = Path(__file__).parents[2] / "data" / "real"
WRITTEN = {  # what a model might write, by purpose
    "segment": "The sensor reports tenths of a degree; read_celsius divided by 100. Never restart by day.",
    "rollup": "The sensor reports tenths of a degree. Never restart by day.",
    "brief": "read_celsius was wrong. Never restart by day.",
    "compact": "read_celsius in src/sensors.py divided by 100; fixed. test_frost failed with the old divisor.",
    "compact_again": "Summarized again: tenths of a degree. Never restart by day.",
    "rules": '- [1] task "read_celsius"',
}
BY = By("a person, by hand")


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


def built(recording: Recording, arms: tuple[str, ...] = tuple(ARMS)) -> Built:
    """The views of its one case."""
    case = recording.cases[0]
    return anyio.run(build, case, recording.messages(case), recording.replies, arms)


def replied(folder: Path) -> Recording:
    """The made-up recording with a reply to every request, and the files of the exchange by which they came."""
    files, replies = _made()
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    recording = Recording.open(folder / "data")
    recording.add_replies(replies)
    return recording


@cache
def _made() -> tuple[dict[str, bytes], list[Reply]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        replies = list(_exchanged(folder).replies.values())
        files = [path for path in folder.rglob("*") if path.is_file()]
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}, replies


def _exchanged(folder: Path) -> Recording:
    recording = copied(folder)
    for _ in range(4):
        missing = built(recording).missing
        if not missing:
            return recording
        write_requests(folder, missing)
        for request in missing:
            answer(folder, request.purpose, request.key, request.case)
        take_replies(folder, recording, BY)
    raise AssertionError("requests are missing after four rounds")


def answer(folder: Path, purpose: str, key: str, case: str) -> None:
    """Write one reply as one who acts as the model does."""
    path = folder / "compact" / f"{case}.txt" if purpose == "compact" else folder / "replies" / f"{key}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text(WRITTEN[purpose] + "\n")
