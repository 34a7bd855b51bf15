"""A focus: a topic that a user named on compacting, and the note of the covered past that is kept about it.

Pure. A topic is data: it says what to look for, stands inside the header's fence, and never instructs. What the note
says is found in `notes`; where it stands, in `header`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from summarizing_context.core.redaction import Redact, redact_texts
from summarizing_context.errors import SettingsError

MOST_CHARACTERS = 500


class Focus(NamedTuple):
    """A topic, and the log entries that its note was made from."""

    text: str
    start: int
    stop: int


def check_focus(focus: object, redact: Redact | None = None) -> str:
    """A topic on one line, without what cannot be shown; `SettingsError` for what is none. `redact` reads it before,
    as it was given."""
    if not isinstance(focus, str):
        raise SettingsError(f"focus is {type(focus).__name__}; it is a text that names a topic, or None")
    text = focus if redact is None else redact_texts([("focus", focus)], redact)[0]
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if not any(char.isalnum() for char in line):
        raise SettingsError("focus names nothing; write the topic that the summaries must keep, or leave it out")
    if len(line) > MOST_CHARACTERS:
        raise SettingsError(
            f"focus has {len(line)} characters; allowed: up to {MOST_CHARACTERS}, so name the topic alone"
        )
    return line


def note_text(focus: str, lines: str, fits: Callable[[str], bool]) -> str:
    """The note as it is shown: its topic, and as many of its newest lines as fit. Empty if none does."""
    kept = [line for line in lines.splitlines() if line.strip()]
    while kept:
        text = "\n".join([f'What concerns "{focus}", a topic that was asked for:', *kept])
        if fits(text):
            return text
        kept.pop(0)
    return ""
