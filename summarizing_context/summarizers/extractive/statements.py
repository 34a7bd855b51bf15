"""Statements of humans and of the agent: rules, requests, choices, fixes; and quotes for the ledger.

Pure. Sentences are quoted verbatim. The word lists in `statements.toml` tell a choice and a fix.
"""

from __future__ import annotations

import tomllib
from bisect import bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

from summarizing_context.extraction.rules import cue_rules
from summarizing_context.extraction.tool_calls import first_error_line
from summarizing_context.messages.text import cleaned, shown, split_prose
from summarizing_context.summarizers.extractive.lines import Candidate, newest_of_each_pattern, sentence
from summarizing_context.summarizers.extractive.sections import STRICT_RANK, Line

_MOST_SENTENCES = 8  # of one human message


def find_constraints(rows: Iterable[str]) -> list[Line]:
    """Return the standing rules of humans, quoted, oldest first. Of equal rules the last one counts."""
    lines: dict[str, Line] = {}
    for row in rows:
        for rule in cue_rules([row]):
            quote = f'"{rule.quote}"'
            lines.pop(quote, None)
            lines[quote] = Line(quote, STRICT_RANK if rule.strength == "must" else STRICT_RANK - 2)
    return list(lines.values())


def find_intent(human: Sequence[Candidate], constraints: Container[str]) -> list[Line]:
    """Return what humans said, quoted, oldest first; of requests that differ in their numbers alone the newest two.

    The beginnings of all messages rank before what follows them, the first and the newest message before the others.
    Sentences among the constraints are left out.
    """
    by_block: dict[int, list[str]] = {}
    for one in human:
        if len(one.words) > 1 and (quote := f'"{shown(one.text)}"') not in constraints:
            by_block.setdefault(one.block, []).append(quote)
    lines: dict[str, Line] = {}
    for at, quotes in enumerate(by_block.values()):
        is_end = at in (0, len(by_block) - 1)
        for number, quote in enumerate(quotes[:_MOST_SENTENCES]):
            lines.pop(quote, None)
            late = max(number - (2 if is_end else 0), 0)
            lines[quote] = Line(quote, at + (_MOST_SENTENCES - late) * len(by_block))
    return newest_of_each_pattern(lines.values())


def is_choice(one: Candidate) -> bool:
    """Say whether a sentence of the agent chooses something."""
    return one.kind in ("assistant", "thinks") and (_has_cue(one, "decision") or _has_cue(one, "reason"))


def find_fix(agent: Sequence[Candidate], error_words: frozenset[bytes], after: int) -> str:
    """Return the first sentence soon after block `after` that reports a fix. One that shares a word with the error
    wins."""
    start, stop = (bisect_right(agent, block, key=lambda one: one.block) for block in (after, after + 12))
    fixes = [one for one in agent[start:stop][:60] if _has_cue(one, "fix") and _is_informative(one)]
    related = [one for one in fixes if not error_words.isdisjoint(one.words)]
    return shown((related or fixes)[0].text) if fixes else ""


def quotes(text: str) -> list[str]:
    """Return the decisions in one text that a human wrote, word for word."""
    said = [sentence(each, 0) for each in split_prose(cleaned(text))[0]]
    return list(dict.fromkeys(shown(one.text) for one in said if _has_cue(one, "decision") and _is_informative(one)))


def error_line(result: str, failed: bool) -> str:
    """Return the line of a result that names the error; "" if it names none. Of a huge one both ends are read."""
    ends = result if len(result) <= 2_000_000 else f"{result[:1_000_000]}\n{result[-1_000_000:]}"
    return first_error_line(cleaned(ends), failed)


def _is_informative(one: Candidate) -> bool:
    """Say whether a sentence is understood alone: more than three words, and no markup."""
    return len(one.words) > 3 and not (one.text.startswith(("|", "<", "{")) or one.text.endswith((":", ",")))


def _has_cue(one: Candidate, kind: str) -> bool:
    """Say whether any word or phrase of a list stands in a sentence."""
    words, phrases = _cues()[kind]
    if not words.isdisjoint(one.words):
        return True
    text = b" %b " % b" ".join(one.words)
    return any(phrase in text for phrase in phrases)


@cache
def _cues() -> Mapping[str, tuple[frozenset[bytes], list[bytes]]]:
    """Return the words and the phrases of each list, a phrase with a space on either side."""
    lists: dict[str, list[str]] = tomllib.loads((files(__package__) / "statements.toml").read_text("utf-8"))
    return {
        kind: (
            frozenset(cue.encode() for cue in cues if " " not in cue),
            [f" {cue} ".encode() for cue in cues if " " in cue],
        )
        for kind, cues in lists.items()
    }
