"""What to tell of a text that a model does not get to read: its error lines, and lines rich in exact values.

Pure. All of the text is read. Where it was cut out is decided in `core.cutting`.
"""

from __future__ import annotations

from collections.abc import Callable

from summarizing_context.core.errors_seen import error_lines
from summarizing_context.core.sentences import cleaned
from summarizing_context.core.words import words_of
from summarizing_context.summarizers.facts import find_facts, find_in_lines

_MOST_ERRORS = 6
_ROLE = 9  # weight of a result's lines; all are of one kind here


def key_lines(text: str, *, max_tokens: int, count: Callable[[str], int]) -> list[str]:
    """The lines of `text` that matter most, on one line each, within `max_tokens` together: errors, then values."""
    body = cleaned(text)
    errors = error_lines(body, _MOST_ERRORS)
    facts = find_facts(find_in_lines(body, _ROLE), map(words_of, errors), errors)
    by_rank = sorted(range(len(facts)), key=lambda at: -facts[at].rank)
    told, left = "", max_tokens
    taken: set[str] = set()
    for line in (*errors, *(facts[at].text for at in by_rank)):
        if line in taken or count(f"- {line}\n") > left:
            continue
        longer = f"{told}- {line}\n"
        if (tokens := count(longer)) <= max_tokens:  # together they may be more than each by itself
            taken.add(line)
            told, left = longer, max_tokens - tokens
    return [line for line in dict.fromkeys((*errors, *(fact.text for fact in facts))) if line in taken]
