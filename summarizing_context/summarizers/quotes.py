"""What the ledger quotes: rules and choices of a human's, and the lines in which results name what went wrong.

Pure. The same detectors as in the extractive summaries, one message at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from summarizing_context.core.constraints import Rule, Sentence, sentence, standing_rules
from summarizing_context.core.errors_seen import first_error_line
from summarizing_context.core.sentences import cleaned, shown, split_prose
from summarizing_context.core.standing import RuleBook
from summarizing_context.summarizers.human import SUPERSEDED, find_constraints, mark_superseded, unmarked
from summarizing_context.summarizers.sections import Line
from summarizing_context.summarizers.statements import find_decisions


def quotes(text: str) -> tuple[list[str], list[str]]:
    """(decisions, constraints) of one text that a human wrote, word for word."""
    said = [sentence(each, 0) for each in split_prose(cleaned(text))[0]]
    decisions, constraints = find_decisions((), said, ()), find_constraints(said)
    found = dict.fromkeys(_bare(line.text) for line in constraints)
    found.update(dict.fromkeys(rule.text for rule in standing_rules([text])))
    return [_bare(line.text) for line in decisions], sorted(found, key=_places(said))


def superseded(told: Sequence[str]) -> list[bool]:
    """Which of these quotes, oldest first, a later one replaces or lifts."""
    marked = {_bare(line.text): line.text.endswith(SUPERSEDED) for line in mark_superseded([_line(t) for t in told])}
    book = RuleBook()
    for at, quote in enumerate(told):
        book.add(at, [Rule(True, quote)])
    gone = book.replaced()
    return [marked.get(quote, False) or at in gone for at, quote in enumerate(told)]


def _places(said: Sequence[Sentence]) -> Callable[[str], int]:
    """Where in a text a quote stands."""
    places = {shown(one.text): at for at, one in reversed(list(enumerate(said)))}
    return lambda quote: places.get(quote, len(places))


def error_line(result: str, failed: bool) -> str:
    """The line of a result that names the error; "" if it names none."""
    return first_error_line(cleaned(result), failed)


def _line(quote: str) -> Line:
    return Line(f'"{quote}"', 1)


def _bare(text: str) -> str:
    return unmarked(text).removeprefix('"').removesuffix('"')
