"""Adding a case: its log as far as the cut, and its lines in `cases.toml`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.real.recording import CASES, Case, gzipped
from summarizing_context.evaluation.real.rendering import Message, parts_of
from summarizing_context.evaluation.transcripts import read_transcript


def add_case(
    folder: Path,
    log: Path,
    *,
    name: str | None,
    cut: int | float,
    budget: int,
    source: str,
    licence: str,
    session: str = "",
) -> Case:
    """Add a case. Raises `TranscriptError` for a log that cannot be cut there, or a name that is taken.

    Args:
        folder: Of the recording.
        log: A transcript.
        name: Of the case; else that of the file.
        cut: Messages before the view, or the share of the characters that stand before it.
        budget: Tokens of our view.
        source: Where the log comes from.
        licence: What it may be used for.
        session: Its session, where it has other cases.
    """
    messages = [line.message for line in read_transcript(log)]
    at = cut if isinstance(cut, int) else cut_at(messages, cut)
    name = name or log.name.removesuffix(".gz").removesuffix(".jsonl")
    listed = folder / CASES
    known = listed.read_text(encoding="utf8") if listed.exists() else ""
    case = Case(name, f"{name}.jsonl.gz", at, budget, source, licence, session)
    if not 0 < at <= len(messages) or f"name = {json.dumps(name)}\n" in known:
        raise TranscriptError(f"{log}: {name!r} cannot be cut at {at} of {len(messages)}, or is a case already")
    path = folder / "logs" / case.log
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(message, ensure_ascii=False) + "\n" for message in messages[:at])
    path.write_bytes(gzipped("".join(lines).encode("utf8", "surrogatepass")))
    rows = [
        f"{field} = {json.dumps(getattr(case, field))}\n" for field in case.__struct_fields__ if getattr(case, field)
    ]
    listed.write_text(f"{known}{chr(10) if known else ''}[[case]]\n{''.join(rows)}", encoding="utf8")
    return case


def cut_at(messages: Sequence[Message], share: float) -> int:
    """The last message of the assistant before which at most this share of the characters stands."""
    sizes = [sum(len(part.text) for part in parts_of(message)) for message in messages]
    total, before, cut = sum(sizes), 0, 0
    for at, message in enumerate(messages):
        if message.get("role") == "assistant" and before <= share * total:
            cut = at
        before += sizes[at]
    return cut
