"""Quotes for the ledger: a human's decisions, and the error lines of results.

Pure. The detectors are those of the extractive summaries, applied to one message.
"""

from __future__ import annotations

from summarizing_context.extraction.error_lines import first_error_line
from summarizing_context.messages.text import cleaned, split_prose
from summarizing_context.summarizers.extractive.statements import find_decisions, sentence


def quotes(text: str) -> list[str]:
    """The decisions in one text that a human wrote, word for word."""
    human = [sentence(each, 0) for each in split_prose(cleaned(text))[0]]
    return find_decisions(human)


def error_line(result: str, failed: bool) -> str:
    """The line of a result that names the error; "" if it names none."""
    return first_error_line(cleaned(result), failed)
