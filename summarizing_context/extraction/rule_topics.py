"""What a standing rule is about, so that a later rule about the same can take the place of an earlier one.

Pure, and made for precision: two rules are about the same if they have the same words, but for those that say how long
and whether, or for a choice of which there can be one only (`rule_topics.toml`). All else stays side by side.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_WORD = re.compile(r"[\w'./:-]*\w")


def rule_topic(rule: str) -> str:
    """What a rule is about; empty where nothing is left of it.

    "Always push to main." and "Never push to main!" are about the same, "Always answer in French." and "From now on
    answer in German." too; "Never edit a.py." and "Never edit b.py." are not.
    """
    words = _words()
    plain = rule.replace("’", "'")
    plain_text, forbids = words.denials.subn(" ", plain)
    plain_text = words.frames.sub(" ", plain_text)
    for at, (choice, is_pair) in enumerate(words.choices):
        if is_pair or not forbids:  # who forbids one of many allows all others
            plain_text = choice.sub(f"choice:{at}", plain_text)
    return " ".join(_WORD.findall(plain_text)).casefold()


@dataclass(frozen=True, slots=True)
class _Words:
    frames: re.Pattern[str]
    denials: re.Pattern[str]
    choices: tuple[tuple[re.Pattern[str], bool], ...]  # with whether there are only two


@cache
def _words() -> _Words:
    data = tomllib.loads((files(__package__) / "rule_topics.toml").read_text("utf-8"))
    choices = tuple((_phrases(words), len(words) == 2) for words in data["alternatives"])
    return _Words(_phrases(data["frames"]), _phrases(data["denials"]), choices)


def _phrases(phrases: list[str]) -> re.Pattern[str]:
    longest_first = sorted(phrases, key=len, reverse=True)
    return re.compile(rf"(?<![\w'./-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w'/-]|\.\w)", re.IGNORECASE)
