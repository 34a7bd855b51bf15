"""Adding a case: its log as far as the cut, and its lines in `cases.toml`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.real.own_settings import settle
from summarizing_context.evaluation.real.recording import CASES, Case, Recording, gzipped
from summarizing_context.evaluation.real.rendering import Message, parts_of, text_of, tokens_of
from summarizing_context.settings.values import Settings
from summarizing_context.transcripts import AUTO, read_session

_OWN, _UNPUBLISHED = "a log of the user's", "not to be published"


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
    clean: Callable[[Message], Message] = lambda message: message,
    messages: Sequence[Message] | None = None,
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
        clean: Takes out of each message what must not be kept.
        messages: Of the log, cleaned, where they were read already: the standard input is read once.
    """
    if messages is None:
        messages = [clean(message) for message in read_session(log).messages]
    at = cut if isinstance(cut, int) else cut_at(messages, cut)
    name = name or _stem(log)
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


def with_own_case(
    folder: Path,
    log: Path,
    *,
    cut: int | float,
    budget: int,
    own: Settings,
    clean: Callable[[Message], Message],
    to: Path,
    format: str = AUTO,
) -> Recording:
    """What a folder holds, with a log of the user's as its only case; if it has none, the case is added to `to`.

    Raises `TranscriptError` for a log that was asked about otherwise, or that needs no summary.
    """
    messages = [clean(message) for message in read_session(log, format=format).messages]
    if not messages:
        raise TranscriptError(f"{log}:1: holds no message; name another transcript")
    at = cut if isinstance(cut, int) else cut_at(messages, cut)
    name = f"{_stem(log)}-{at}"
    is_new = not (folder / CASES).exists()
    if not is_new:
        settle(own, folder, is_new=False)
        recording = Recording.open(folder)
        for case in recording.cases:
            if case.name == name:
                if case.budget != budget or recording.messages(case) != messages[:at]:
                    raise TranscriptError(
                        f"{folder}: holds {name} with another budget ({case.budget}) or another log; take a new folder"
                    )
                return replace(recording, cases=[case])
    if (size := tokens_of(text_of(messages[:at]))) <= budget:
        raise TranscriptError(
            f"{log}: the {at} messages before the cut have {size} tokens, so all views hold them all; "
            f"take a budget below {size}, or a later cut"
        )
    case = add_case(
        to, log, name=name, cut=at, budget=budget, source=_OWN, licence=_UNPUBLISHED, session=_stem(log),
        messages=messages,
    )  # fmt: skip
    if is_new or to != folder:
        settle(own, to, is_new=True)
    return replace(Recording.open(to), cases=[case])


def _stem(log: Path) -> str:
    return log.name.removesuffix(".gz").removesuffix(".jsonl")


def cut_at(messages: Sequence[Message], share: float) -> int:
    """The last message of the assistant before which at most this share of the characters stands."""
    sizes = [sum(len(part.text) for part in parts_of(message)) for message in messages]
    total, before, cut = sum(sizes), 0, 0
    for at, message in enumerate(messages):
        if message.get("role") == "assistant" and before <= share * total:
            cut = at
        before += sizes[at]
    return cut
