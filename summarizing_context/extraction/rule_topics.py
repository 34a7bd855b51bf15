"""What a standing rule is about: a later rule about the same takes the place of an earlier one.

Pure. Two rules are about the same if they have the same words, but for those before and behind that say how long and
whether, or if they choose differently where one choice only can hold (`rule_topics.toml`).
"""

from __future__ import annotations

import re
import tomllib
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

_WORD = re.compile(r"(?<![\w'./:-])[\w'./:-]*\w")


class Topic(NamedTuple):
    """What a rule is about. Rules that share either are about the same."""

    order: str  # what is to be done, or not; empty where nothing is left of the rule
    choice: str  # the same without what was chosen, where that excludes all else


@lru_cache(maxsize=10_000)
def rule_topic(rule: str) -> Topic:
    """Return what a rule is about.

    "Always push to main." and "Never push to main!" share their order, "Always answer in French." and "From now on
    answer in German." their choice; "Never edit a.py." and "Never edit b.py." share neither.
    """
    before, behind, denials, choices = _words()
    order = " ".join(_WORD.findall(rule.replace("’", "'"))).casefold()
    forbids = False
    while (found := before.match(order)) is not None:
        forbids = forbids or denials.fullmatch(found[1]) is not None
        order = order[found.end() :]
    while (found := behind.search(order)) is not None:
        order = order[: found.start()]
    chosen = None if forbids else next(filter(None, (choice.fullmatch(order) for choice in choices)), None)
    return Topic(order, chosen[1] if chosen else "")


@cache
def _words() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str], list[re.Pattern[str]]]:
    """Return what may stand before an order, and behind it; which of it forbids; and the choices, each with all but
    what was chosen as its group."""
    data = tomllib.loads((files(__package__) / "rule_topics.toml").read_text("utf-8"))
    frames, openings, denials = (_any_of(data[name]) for name in ("frames", "openings", "denials"))
    number = r"v?\d[\d.]*"
    choices = (
        rf"(?=(?:{_any_of(one['verbs'])})\b)(.*\b(?:{_any_of(one['links'])})) "
        rf"(?:{_any_of(one['words']) or number})"
        for one in data["choices"]
    )
    before = re.compile(rf"({frames}|{openings}|{denials})(?: |$)")
    return before, re.compile(rf"(?: |^)(?:{frames})$"), re.compile(denials), [*map(re.compile, choices)]


def _any_of(phrases: list[str]) -> str:
    return "|".join(map(re.escape, sorted(phrases, key=len, reverse=True)))
