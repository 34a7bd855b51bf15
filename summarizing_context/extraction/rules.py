"""Standing rules in what a human types: orders that hold from now on, quoted word for word.

Pure, and made for precision: the word list `rule_cues.toml` says which sentences count. A wrong rule stands in every
view as an order; one that is missed can be said again. A later rule takes the place of an earlier one about the same:
with the same words, but for those before and behind that say how long and whether, or with another choice where one
only can hold (`rule_topics.toml`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Literal, NamedTuple, Protocol

from summarizing_context.messages.text import cleaned, shown

Strength = Literal["must", "prefer"]

_READING = 3  # another one whenever the same text would give other sentences
_LONGEST = 300  # characters of a sentence
_TYPED = 6_000  # characters from which on a text is a document rather than something said
_SENTENCES = 25  # from which on it is one too
_ITEMS = 8  # of a list from which on it is a dump
_WRAP = 50  # characters of a line from which on the next one may go on with it

_FENCE = re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)")
_NOT_SPEECH = re.compile(r"[ ]{4}|\t|\s*(?:[>|#<{}$=/\\+@]|[─-╿]|--|\d+[:|]|\w+\(|\[[^\]]*\]:)")
_ITEM = re.compile(r"\A\s*(?:[-*•]|\d{1,2}[.)])\s+")
_END = re.compile(r"(?<=[.!?])[\"'”’)]?\s+(?=[\"'“‘(]?[A-Za-z])")
_BINDS = re.compile(r"(?i)you$|\b(?:every|each)$|future$|\bof$")  # of a scope that more words belong to
_REPORT = re.compile(r"(?i)(?:it )?(?:always|never) (?!focus|alias|canvas)\w+[^\Wsu]s\b")  # `Always crashes on save.`
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|no)\.|\.\.)\s*\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rule:
    """A standing rule of the human's."""

    quote: str  # verbatim, but for white space
    strength: Strength


class RuleExtractor(Protocol):
    """Finds standing rules. Equal texts give equal rules for as long as `version` stays the same."""

    @property
    def version(self) -> str:
        """Names how rules are found; what is kept under another version is read again."""

    def rules(self, human_texts: Sequence[str]) -> tuple[Rule, ...]:
        """The rules in the texts that a human typed in one message, in order, each once."""


class CueRules:
    """A `RuleExtractor` that needs no model: whole sentences that say by a cue that they last."""

    @property
    def version(self) -> str:
        return _listed()[0]

    def rules(self, human_texts: Sequence[str]) -> tuple[Rule, ...]:
        found: dict[str, Strength | None] = {}
        for text in human_texts:
            plain = " ".join(text.replace("’", "'").lower().split()) if len(text) <= _TYPED else ""
            if any(phrase in plain for name in ("begins", "holds") for phrase in _listed()[1][name]):  # quick
                found.update((quote, _strength(quote)) for quote in _spoken(text))
        return tuple(Rule(quote, strength) for quote, strength in found.items() if strength)


def _spoken(text: str) -> list[str]:
    """Return the whole sentences that a human says in a text; none of a document, a log or a list that was pasted."""
    lines = _FENCE.sub("\n\n", cleaned(text)).split("\n")
    if sum(_ITEM.match(line) is not None for line in lines) > _ITEMS:
        lines = ["" if _ITEM.match(line) else line for line in lines]
    sentences = [shown(sentence) for said in _paragraphs(lines) for sentence in _split(said)]
    return [one for one in sentences if len(one) <= _LONGEST] if len(sentences) <= _SENTENCES else []


def _paragraphs(lines: Sequence[str]) -> Iterator[str]:
    """Lines with those that go on with them, where a text was wrapped."""
    said: list[str] = []
    for line in lines:
        goes_on = bool(said) and len(said[-1]) >= _WRAP and not said[-1].endswith((".", "!", "?", ":"))
        if said and not (goes_on and line.strip() and not _ITEM.match(line)):
            yield " ".join(said)
            said = []
        if line.strip() and not _NOT_SPEECH.match(line):
            said.append(_ITEM.sub("", line, count=1).strip())
    if said:
        yield " ".join(said)


def _split(said: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(said):
        if not _ABBREVIATION.search(said, max(start, end.start() - 8), end.start()):
            yield said[start : end.end()].strip()
            start = end.end()
    if last := said[start:].strip():
        yield last


def _strength(sentence: str) -> Strength | None:
    cues, plain = _cues(), sentence.replace("’", "'")
    if len(plain.split()) < 2 or "?" in plain or cues["not_begins"].match(plain) or cues["not_holds"].search(plain):
        return None
    if not (cues["begins"].match(plain) or cues["holds"].search(plain)) or _REPORT.match(plain):
        return None
    if scope := cues["scopes"].search(plain):
        rest = cues["scopes"].sub(", ", plain).lstrip(" ,.:")
        makes_it_one = not (cues["begins"].match(rest) or cues["holds"].search(rest))
        if makes_it_one and not _orders(plain, scope):
            return None
    return "prefer" if cues["prefers"].search(plain) else "must"


def _orders(sentence: str, scope: re.Match[str]) -> bool:
    """Return whether an order stands beside a scope: before it, or behind it and what belongs to it."""
    cues = _cues()
    if cues["duties"].search(sentence):
        return True
    before, behind = cues["leads"].sub("", sentence[: scope.start()]), sentence[scope.end() :]
    aside, comma, order = behind.partition(",")
    if before.strip(" ,.:-"):
        order = before
    elif not _BINDS.search(scope[0]):  # `From now on, ...`
        order = behind
    elif not comma:
        return cues["states"].search(aside) is None
    return cues["subjects"].match(cues["leads"].sub("", order.strip(" ,:"))) is None


@cache
def _listed() -> tuple[str, dict[str, list[str]]]:
    """Return the name of the word list as it is, and its phrases."""
    data = (files(__package__) / "rule_cues.toml").read_bytes()
    return f"cues-{_READING}-{sha256(data).hexdigest()[:12]}", tomllib.loads(data.decode())


@cache
def _cues() -> dict[str, re.Pattern[str]]:
    lists = {name: "|".join(map(re.escape, phrases)) for name, phrases in _listed()[1].items()}
    leads = rf"(?:(?:{lists.pop('leads')})[,:.!]*\s+)*"
    before, anywhere = {"begins": leads, "not_begins": leads, "subjects": ""}, r"(?<![\w-])"
    cues = {
        name: re.compile(rf"{before.get(name, anywhere)}(?:{phrases})(?![\w'-])", re.IGNORECASE)
        for name, phrases in lists.items()
    }
    return cues | {"leads": re.compile(rf"\A\s*{leads}", re.IGNORECASE)}


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
    before, behind, denials, choices = _topic_words()
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
def _topic_words() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str], list[re.Pattern[str]]]:
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
