"""What the ledger quotes: rules and choices of a human's, and the lines in which results name what went wrong.

Pure. The same detectors as in the extractive summaries, one message at a time.
"""

from __future__ import annotations

from summarizing_context.extraction.error_lines import first_error_line
from summarizing_context.extraction.rules import CueRules
from summarizing_context.messages.text import cleaned, split_prose
from summarizing_context.summarizers.extractive.sayings import find_decisions, sentence


def quotes(text: str) -> tuple[list[str], list[str]]:
    """(decisions, constraints) of one text that a human wrote, word for word."""
    said = [sentence(each, 0) for each in split_prose(cleaned(text))[0]]
    decisions = [line.text.removeprefix('"').removesuffix('"') for line in find_decisions((), said, ())]
    return decisions, [rule.quote for rule in CueRules().rules([text])]


def error_line(result: str, failed: bool) -> str:
    """The line of a result that names the error; "" if it names none."""
    return first_error_line(cleaned(result), failed)
