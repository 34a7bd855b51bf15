"""Standing rules in what a human types: orders that hold from now on, quoted word for word.

Pure, and made for precision: the word list `rule_cues.toml` says which sentences count. A wrong rule stands in every
view as an order; one that is missed can be said again. A later rule takes the place of an earlier one about the same:
with the same words, but for those before and behind that say how long and whether, or with another choice where one
only can hold (`rule_topics.toml`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Literal, NamedTuple

from summarizing_context.messages.text import cleaned, shown

Strength = Literal["must", "prefer"]

_READING = 3  # another one whenever the same text would give other sentences
_FENCE = re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)")
_NOT_SPEECH = re.compile(r"[ ]{4}|\t|\s*(?:[>|#<{}$=/\\+@]|[─-╿]|--|\d+[:|]|\w+\(|\[[^\]]*\]:)")
_ITEM = re.compile(r"\A\s*(?:[-*•]|\d{1,2}[.)])\s+")
_END = re.compile(r"(?<=[.!?])[\"'”’)]?\s+(?=[\"'“‘(]?[A-Za-z])")
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|no)\.|\.\.)\s*\Z", re.IGNORECASE)
_BINDS = re.compile(r"(?i)you$|\b(?:every|each)$|future$|\bof$")  # of a scope that more words belong to
_REPORT = re.compile(r"(?i)(?:it )?(?:always|never) (?!focus|alias|canvas)\w+[^\Wsu]s\b")  # `Always crashes on save.`


@dataclass(frozen=True, slots=True)
class Rule:
    """A standing rule of the human's."""

    quote: str  # verbatim, but for white space
    strength: Strength


def cue_rules(human_texts: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules in the texts that a human typed in one message, in order, each once: whole sentences that say by
    a cue that they last. Equal texts give equal rules for as long as `cues_version` stays the same."""
    found: dict[str, Strength | None] = {}
    for text in human_texts:
        # a longer text is a document rather than something said; most others hold no cue at all
        plain = " ".join(text.replace("’", "'").lower().split()) if len(text) <= 6_000 else ""
        if any(map(plain.__contains__, _cues()[1])):
            found.update((quote, _strength(quote)) for quote in _spoken(text))
    return tuple(Rule(quote, strength) for quote, strength in found.items() if strength)


def cues_version() -> str:
    """Name how rules are found; what is kept under another version is read again."""
    return _cues()[0]


def _spoken(text: str) -> list[str]:
    """Return the whole sentences that a human says in a text; none of a document, a log or a list that was pasted."""
    lines = _FENCE.sub("\n\n", cleaned(text)).split("\n")
    if sum(_ITEM.match(line) is not None for line in lines) > 8:
        lines = ["" if _ITEM.match(line) else line for line in lines]

    # lines with those that go on with them, where a text was wrapped
    paragraphs: list[str] = []
    above = ""  # the line before
    for line in lines:
        ends = len(above) < 50 or above.endswith((".", "!", "?", ":"))
        if ends or not line.strip() or _ITEM.match(line):
            above = ""
        if line.strip() and not _NOT_SPEECH.match(line):
            speech = _ITEM.sub("", line, count=1).strip()
            if above:
                paragraphs[-1] += f" {speech}"
            else:
                paragraphs.append(speech)
            above = speech

    sentences: list[str] = []
    for said in paragraphs:
        start = 0
        for end in _END.finditer(said):
            if not _ABBREVIATION.search(said, max(start, end.start() - 8), end.start()):
                sentences.append(shown(said[start : end.end()].strip()))
                start = end.end()
        if last := said[start:].strip():
            sentences.append(shown(last))
    return [one for one in sentences if len(one) <= 300] if len(sentences) <= 25 else []


def _strength(sentence: str) -> Strength | None:
    """Return how strong a rule a sentence is; None for one that is none."""
    cues, plain = _cues()[2], sentence.replace("’", "'")
    if len(plain.split()) < 2 or "?" in plain or cues["not_begins"].match(plain) or cues["not_holds"].search(plain):
        return None
    if not (cues["begins"].match(plain) or cues["holds"].search(plain)) or _REPORT.match(plain):
        return None
    if scope := cues["scopes"].search(plain):
        rest = cues["scopes"].sub(", ", plain).lstrip(" ,.:")
        holds_without = cues["begins"].match(rest) or cues["holds"].search(rest)
        if not holds_without and not cues["duties"].search(plain):
            # an order has to stand beside the scope: before it, or behind it and what belongs to it
            before, behind = cues["leads"].sub("", plain[: scope.start()]), plain[scope.end() :]
            aside, comma, order = behind.partition(",")
            if before.strip(" ,.:-"):
                order = before
            elif not _BINDS.search(scope[0]):  # `From now on, ...`
                order = behind
            elif not comma:
                order = ""
                if cues["states"].search(aside):
                    return None
            if order and cues["subjects"].match(cues["leads"].sub("", order.strip(" ,:"))):
                return None
    return "prefer" if cues["prefers"].search(plain) else "must"


@cache
def _cues() -> tuple[str, list[str], dict[str, re.Pattern[str]]]:
    """Return the name of the word list as it is, the phrases without which there is no rule, and a pattern for each
    list."""
    data = (files(__package__) / "rule_cues.toml").read_bytes()
    lists = tomllib.loads(data.decode())
    phrases = lists["begins"] + lists["holds"]
    texts = {name: "|".join(map(re.escape, listed)) for name, listed in lists.items()}
    leads = rf"(?:(?:{texts.pop('leads')})[,:.!]*\s+)*"
    before, anywhere = {"begins": leads, "not_begins": leads, "subjects": ""}, r"(?<![\w-])"
    cues = {
        name: re.compile(rf"{before.get(name, anywhere)}(?:{text})(?![\w'-])", re.IGNORECASE)
        for name, text in texts.items()
    }
    cues["leads"] = re.compile(rf"\A\s*{leads}", re.IGNORECASE)
    return f"cues-{_READING}-{sha256(data).hexdigest()[:12]}", phrases, cues


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
    before, behind, denials, choices = _topic_words()
    order = " ".join(re.findall(r"(?<![\w'./:-])[\w'./:-]*\w", rule.replace("’", "'"))).casefold()
    forbids = False
    while (found := before.match(order)) is not None:
        forbids = forbids or denials.fullmatch(found[1]) is not None
        order = order[found.end() :]
    while (found := behind.search(order)) is not None:
        order = order[: found.start()]
    chosen = None if forbids else next(filter(None, (choice.fullmatch(order) for choice in choices)), None)
    return Topic(order, chosen[1] if chosen else "")


@cache
def _topic_words() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str], list[re.Pattern[str]]]:
    """Return what may stand before an order, and behind it; which of it forbids; and the choices, each with all but
    what was chosen as its group."""
    data = tomllib.loads((files(__package__) / "rule_topics.toml").read_text("utf-8"))

    def any_of(phrases: list[str]) -> str:
        return "|".join(map(re.escape, sorted(phrases, key=len, reverse=True)))

    frames, openings, denials = (any_of(data[name]) for name in ("frames", "openings", "denials"))
    number = r"v?\d[\d.]*"
    choices = (
        rf"(?=(?:{any_of(one['verbs'])})\b)(.*\b(?:{any_of(one['links'])})) (?:{any_of(one['words']) or number})"
        for one in data["choices"]
    )
    before = re.compile(rf"({frames}|{openings}|{denials})(?: |$)")
    return before, re.compile(rf"(?: |^)(?:{frames})$"), re.compile(denials), [*map(re.compile, choices)]
