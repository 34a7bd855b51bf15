"""What a sentence says, by the word lists in `statements.toml`: a choice, a fix, or a rule, and how strong a one.

Pure. Rules are read in English, German, French, Spanish, Portuguese, Japanese, Chinese and Arabic.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from summarizing_context.extraction.rules import cue_rules
from summarizing_context.messages.text import cleaned, shown, split_prose
from summarizing_context.summarizers.extractive.sections import CONSTRAINTS, NAMES, STRICT_RANK, Line

_WISH_RANK = 2  # of rules: what only begins like one
_ENDS = 8  # sentences of a long message that are read for rules, at its beginning and at its end
_GUIDE = re.compile(r"(?i)(?:\.(?:md|mdc|rst|adoc|txt)|(?:^|/)\.?[a-z]*rules)\Z")
_MARKUP = ("|", "<", "{", "//")


def says(kind: str, text: str) -> bool:
    """Return whether any word or phrase of a list stands in a sentence."""
    return _lists()[kind].search(_folded(text)) is not None


def is_informative(text: str) -> bool:
    """Return whether a sentence is understood alone: more than three words, and no markup."""
    return len(_folded(text).split()) > 3 and not (text.startswith(_MARKUP) or text.endswith((":", ",")))


def decisions(text: str) -> list[str]:
    """Return the decisions in one text that a human wrote, word for word."""
    said = split_prose(cleaned(text))[0]
    return list(dict.fromkeys(shown(one) for one in said if says("decision", one) and is_informative(one)))


def rules_said(text: str, *, wishes: bool) -> list[Line]:
    """Return the rules in what a human typed, quoted, those that bind before others; with `wishes` also sentences that
    only begin like one."""
    lines = {f'"{rule.quote}"': STRICT_RANK if rule.strength == "must" else 4 for rule in cue_rules([text])}
    said = list(map(shown, split_prose(cleaned(text))[0]))
    for one in said if len(said) <= 2 * _ENDS else [*said[:_ENDS], *said[-_ENDS:]]:
        rank = _rule_rank(one)
        if rank > (0 if wishes else _WISH_RANK) and not any(one in quote for quote in lines):
            lines[f'"{one}"'] = rank
    return [Line(quote, rank) for quote, rank in lines.items()]


def rules_of_guide(path: str, text: str) -> list[str]:
    """Return the first rules that a project's guide, skill or document states outright; none of any other file."""
    if not _GUIDE.search(path):
        return []
    prose = split_prose(re.sub(r"(?m)^[ ]{0,8}\d{1,6}(?:→|\t)", "", cleaned(text[:40_000])))[0]
    return [one for one in map(shown, prose) if _rule_rank(one) >= STRICT_RANK][:12]


def is_of_guide(fact: str) -> bool:
    """Return whether a fact is a rule of a guide, after the name of its file."""
    name, colon, said = fact.partition(": ")
    return bool(colon) and _GUIDE.search(name) is not None and _rule_rank(said) >= STRICT_RANK


def without_rules(summary: str) -> str:
    """Return a summary text without those of its constraints that the session's own rules hold."""
    parts = re.split(r"^(?=## )", summary, flags=re.MULTILINE)
    for at, part in enumerate(parts):
        heading, *bullets = part.rstrip("\n").split("\n")
        if heading == f"## {NAMES[CONSTRAINTS]}":
            kept = [bullet for bullet in bullets if not cue_rules([bullet.removeprefix("- ").strip('"')])]
            parts[at] = "\n".join([heading, *kept, ""]) if kept else ""
    return "".join(parts).strip("\n")


def _rule_rank(said: str) -> int:
    """Return how strong a rule a sentence is: `STRICT_RANK` for one that binds, `_WISH_RANK` for one that only begins
    like a rule, 0 for none."""
    is_open = any(mark in said for mark in "?？؟{=") or said.endswith((":", "(", ","))
    if is_open or not 5 < len(said) <= 300 or said.startswith(_MARKUP) or re.match(r"\d+:", said):
        return 0
    lists, text = _lists(), _folded(said)
    while lead := lists["leads"].match(text):
        text = text[lead.end() :].lstrip()
    begins = lists["binds_first"].match(text)
    if lists["no_rule_anywhere"].search(text) or (lists["no_rule_first"].match(text) and not begins):
        return 0
    return STRICT_RANK if lists["binds_anywhere"].search(text) else _WISH_RANK if begins else 0


def _folded(text: str) -> str:
    """Return a text in lower case without accents and apostrophes, one space between its words."""
    text = text.replace("’", "'").replace("'", "").casefold()
    if not text.isascii():
        text = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    return " ".join(re.findall(r"\w+", text))


@cache
def _lists() -> Mapping[str, re.Pattern[str]]:
    """Return a pattern for each list: whole words, but for scripts that part no words."""
    lists: dict[str, list[str]] = tomllib.loads((files(__package__) / "statements.toml").read_text("utf-8"))
    patterns: dict[str, re.Pattern[str]] = {}
    for kind, cues in lists.items():
        words = sorted(map(_folded, cues), key=len, reverse=True)
        signs = "|".join(["", *(word for word in words if word[0] >= "\u2e80")])
        patterns[kind] = re.compile(rf"\b(?:{'|'.join(words)})\b{signs}")
    return patterns
