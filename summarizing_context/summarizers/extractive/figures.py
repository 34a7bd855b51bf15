"""The figures of the extractive summarizer: shares of its sections, what counts as a fact, what is kept longest."""

from __future__ import annotations

from typing import NamedTuple


class Shares(NamedTuple):
    """Percent of the room for each section, before what is left over is given out."""

    intent: int
    constraints: int
    done: int
    decisions: int
    errors: int
    state: int
    facts: int


class Facts(NamedTuple):
    """How many lines are taken as facts, and how unlike each other."""

    least: int = 150  # thousandths of a sentence that notes must be expected to repeat
    share: int = 50  # percent of its worth at which a line of a result counts beside a sentence
    lines: int = 16  # such lines that compete
    diversity: int = 80  # from 65 on; the lower, the more a line suffers from words that were told already
    most: int = 60  # lines of one summary, before they are fitted
    pool: int = 120  # candidates that compete


class Ranks(NamedTuple):
    """What of the things done is kept longest, by kind of line."""

    changed: int = 15  # a list of files or things that were changed
    looked: int = 7  # a list of what was looked at
    called: int = 6  # a list of ids that calls were made with
    file: int = 10  # one file changed, with its outcome
    command: int = 2  # times a command's own weight, from 2 for any to 7 for a commit
    call: int = 8  # a call of any other tool


LEAF = Shares(18, 30, 14, 12, 14, 10, 40)
ROLLUP = Shares(14, 30, 18, 14, 14, 6, 34)
STRICT_SHARE = 70  # percent of the room that strict constraints may take before all others
FACTS = Facts()
RANKS = Ranks()
CHANGED_CHARS = LOOKED_CHARS = 420  # of the lines that list things
CALLED_CHARS = 320
NAMES_CHARS = 160  # what a file that was read defines
