"""What providers billed for recorded sessions, against tiktoken's count of the same messages.

Providers report the tokens of a whole request: instructions and tools that no log holds are among them. So two requests
of a session are compared, one after the other: by how much the reported tokens grew, and what was counted of the
messages in between. Steps with thinking are left out, for providers drop it later, and so are those after a compaction.
Rows say under `_meta` (or themselves) `usage` as Anthropic's API reports it, and `message_id`. Run from a checkout as
`python -m evals.usage <folder of transcripts>`.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from summarizing_context.errors import SummarizingContextError, TranscriptError
from summarizing_context.messages.counters import choose_counter
from summarizing_context.messages.provider_bindings import THINKING_FIELDS
from summarizing_context.messages.reading import charged_texts, read_message
from summarizing_context.transcripts import find_transcripts

_LEAST = 500  # reported tokens of a step: of shorter ones much is the frame of messages
_LEAST_STEPS = 5  # of a session

Count = Callable[[str], int]


class Session(NamedTuple):
    """What the steps of a session came to, in tokens."""

    steps: int
    counted: int
    reported: int


def steps_of(rows: list[dict[str, Any]], count: Count) -> Iterator[tuple[int, int]]:
    """What was counted of each step's messages, and by how much the reported tokens grew."""
    before, id_before, counted, usable = 0, None, 0, False
    for row in rows:
        told = {**row, **row.get("_meta", {})}
        usage, id = told.get("usage"), told.get("message_id")
        if told.get("after_compaction") or told.get("isCompactSummary"):
            usable = False
        if row.get("role") == "assistant" and isinstance(usage, dict) and id != id_before:
            reported = sum(usage.get(f"{kind}input_tokens") or 0 for kind in ("", "cache_creation_", "cache_read_"))
            if usable and reported - before >= _LEAST:
                yield counted, reported - before
            before, id_before, counted, usable = reported, id, 0, True
        message = {key: value for key, value in row.items() if not key.startswith("_")}
        reading = read_message(message)
        usable = usable and not THINKING_FIELDS & row.keys()
        usable = usable and not any(part.kind in ("thinking", "media") for part in reading.parts)
        counted += 4 + sum(map(count, charged_texts(message, reading)))


def _session(path: Path, count: Count) -> Session:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        rows = [json.loads(line.decode("utf8", "surrogatepass")) for line in file if line.strip()]
    steps = list(steps_of(rows, count))
    return Session(len(steps), sum(counted for counted, _ in steps), sum(reported for _, reported in steps))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("paths", nargs="+", type=Path, help="transcripts, or folders of them")
    try:
        print(_compared(parser.parse_args().paths))
    except SummarizingContextError as error:
        parser.error(str(error))


def _compared(given: list[Path]) -> str:
    counter = asyncio.run(choose_counter("tiktoken"))
    sessions = [_session(path, counter.count) for path in find_transcripts(given)]
    sessions = [session for session in sessions if session.steps >= _LEAST_STEPS]
    if not sessions:
        raise TranscriptError(f"{given[0]}: no transcript tells the usage of {_LEAST_STEPS} long steps; name others")
    shares = sorted(session.counted / session.reported for session in sessions)
    low, high = (shares[round(at * (len(shares) - 1))] for at in (0.1, 0.9))
    total = sum(session.reported for session in sessions)
    return (
        f"{sum(session.steps for session in sessions)} steps of {len(sessions)} sessions, {total:,} tokens reported\n"
        f"counted is {median(shares):.2f} of that in the median session, {low:.2f} to {high:.2f} in 8 of 10"
    )


if __name__ == "__main__":
    main()
