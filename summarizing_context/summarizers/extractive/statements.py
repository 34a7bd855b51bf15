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
from summarizing_context.summarizers.extractive.lines import Candidate, sentence
from summarizing_context.summarizers.extractive.sections import CONSTRAINTS, NAMES, STRICT_RANK, Line

_WISH_RANK = 2  # of rules: what only begins like one
_ENDS = 8  # sentences of a long message that are read for rules, at its beginning and at its end
_GUIDE = re.compile(r"(?i)(?:\.(?:md|mdc|rst|adoc|txt)|(?:^|/)\.?[a-z]*rules)\Z")


def has_cue(one: Candidate, kind: str) -> bool:
    """Return whether any word or phrase of a list stands in a sentence."""
    text = b" %b " % b" ".join(one.words)
    return any(cue in text for cue in _cues()[kind])


@cache
def _cues() -> Mapping[str, list[bytes]]:
    """Return the words and the phrases of each list, with a space on either side."""
    return {kind: [f" {cue} ".encode() for cue in cues] for kind, cues in _lists().items()}


@cache
def _lists() -> Mapping[str, list[str]]:
    lists: dict[str, list[str]] = tomllib.loads((files(__package__) / "statements.toml").read_text("utf-8"))
    return lists


def decisions(text: str) -> list[str]:
    """Return the decisions in one text that a human wrote, word for word."""
    said = map(sentence, split_prose(cleaned(text))[0])
    return list(dict.fromkeys(shown(one.text) for one in said if has_cue(one, "decision") and is_informative(one)))


def is_informative(one: Candidate) -> bool:
    """Return whether a sentence is understood alone: more than three words, and no markup."""
    return len(one.words) > 3 and not (one.text.startswith(("|", "<", "{")) or one.text.endswith((":", ",")))


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


def without_rules(summary: str) -> str:
    """Return a summary text without those of its constraints that the session's own rules hold."""
    heading = f"## {NAMES[CONSTRAINTS]}"
    parts = re.split(r"^(?=## )", summary, flags=re.MULTILINE)
    for at, part in enumerate(parts):
        first, *bullets = part.rstrip("\n").split("\n")
        if first == heading:
            kept = [bullet for bullet in bullets if not cue_rules([bullet.removeprefix("- ").strip('"')])]
            parts[at] = "\n".join([heading, *kept, ""]) if kept else ""
    return "".join(parts).strip("\n")


def rules_of_guide(path: str, text: str) -> list[str]:
    """Return the lines of a project's guide, skill or document that state a rule outright; none of any other file."""
    if not _GUIDE.search(path) or len(text) > 200_000:
        return []
    said = (re.sub(r"\A\s{0,8}\d{1,6}(?:→|\t)", "", line) for line in text.split("\n"))
    prose = split_prose(cleaned("\n".join(said)))[0]
    return [one for one in map(shown, prose) if _rule_rank(one) >= STRICT_RANK][:12]


def _rule_rank(said: str) -> int:
    """Return how strong a rule a sentence is: `STRICT_RANK` for one that binds, `_WISH_RANK` for one that only begins
    like a rule, 0 for none."""
    text = said.replace("’", "'").casefold()
    if (
        not 5 < len(text) <= 300
        or text.rstrip("\"')* ").endswith(("?", "？", "؟", ":"))
        or text.startswith(("|", "<", "{"))
    ):
        return 0
    anywhere, first, not_first, not_anywhere, leads = _patterns()
    text = _folded(text)
    text = text[leads.match(text).end() :]  # type: ignore[union-attr]
    begins = first.match(text)
    if not_anywhere.search(text) or (not_first.match(text) and not begins):
        return 0
    if anywhere.search(text):
        return STRICT_RANK
    return _WISH_RANK if begins else 0


def _folded(text: str) -> str:
    """Return a text in lower case without accents and apostrophes, one space between its words."""
    marks = "".join(each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))
    return " ".join(re.sub(r"[^\w\s-]", " ", marks.replace("'", "")).replace("-", " ").split())


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Return what binds anywhere, what begins a rule, what begins none, what makes one a thing of the moment, and what
    may stand before one."""

    def any_of(name: str) -> str:
        return "|".join(sorted(map(_folded, _lists()[name]), key=len, reverse=True))

    signs = "|".join(one for one in map(_folded, _lists()["binds_anywhere"]) if one[0] >= "\u2e80")
    return (
        re.compile(rf"\b(?:{any_of('binds_anywhere')})\b|{signs}"),
        re.compile(rf"(?:{any_of('binds_first')})\b"),
        re.compile(rf"(?:{any_of('no_rule_first')})\b"),
        re.compile(rf"\b(?:{any_of('no_rule_anywhere')})\b"),
        re.compile(rf"(?:(?:{any_of('leads')}) )*"),
    )
