"""A model's reply on standing rules: quotes of what a human typed, checked word for word.

Pure. The reply has a line for each rule: `- [n] must "quote"` or `- [n] prefer "quote"`, where n is the place of the
message in the request, `- [n] ends "quote"` for an earlier rule that message n takes back, and `- [n] task "quote"` for
what is no rule. What else stands there, and what nobody typed, is dropped. A reply without any such line is `none`, or
says nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from summarizing_context.extraction.rules import Rule

_LONGEST = 300  # characters of a quote; what is longer is a document that was pasted

_LONGEST_LINE = 1_000  # characters

_FEWEST = 2  # words

_LINE = re.compile(
    r"[\s>*+•–-]*(?:\d{1,3}[.)]\s+)?\[(?P<message>\d{1,6})\][\s:,*_`-]*(?P<what>must|prefers?|tasks?|ends?)\b[\s:,*_`-]*(?P<quote>.+)",
    re.IGNORECASE,
)

_NONE = re.compile(r"\W*none\W*", re.IGNORECASE)

_MARKS = str.maketrans(dict.fromkeys("“”„‟«»「」『』", '"') | dict.fromkeys("‘’‚‛`´", "'"))

_ENDS = " .,;:…"

_QUOTES = "\"'"


class SaidRules(NamedTuple):
    """What a reply says of one message."""

    rules: tuple[Rule, ...] = ()  # quoted as they were typed, but for white space
    ends: tuple[str, ...] = ()  # quotes of earlier rules, as these are known


def read_rules(reply: str, typed: Sequence[str], earlier: Sequence[str]) -> list[SaidRules] | None:
    """What a reply says of each message in `typed`; None where it says nothing that can be read.

    A quote counts for the message that it names, or else for the nearest in which it stands. `earlier` are the quotes
    of rules of earlier messages.
    """
    lines = [found for line in reply.splitlines() if len(line) <= _LONGEST_LINE and (found := _LINE.match(line))]
    if not lines:
        return [SaidRules()] * len(typed) if _NONE.fullmatch(reply) else None
    texts = list(map(_Text, typed))
    rules: dict[tuple[int, str], Rule] = {}
    for line in lines:
        said = None if line["what"][0] in "eEtT" else _found(line["quote"], int(line["message"]) - 1, texts)
        if said is not None:
            rules.setdefault(said, Rule(said[1], "prefer" if line["what"][0] in "pP" else "must"))
    known = [(-1, quote) for quote in earlier] + list(rules)
    ends: dict[tuple[int, str], None] = {}
    for line in lines:
        number = int(line["message"]) - 1
        if line["what"][0] in "eE" and number < len(typed):
            wanted = _words(line["quote"])
            ends.update(((number, quote), None) for at, quote in known if at < number and _words(quote) == wanted)
    return [
        SaidRules(
            tuple(rule for (at, _), rule in rules.items() if at == number),
            tuple(quote for at, quote in ends if at == number),
        )
        for number in range(len(typed))
    ]


def last_message(reply: str) -> int:
    """The greatest place that a line of a reply names; 0 for none."""
    return max((int(found["message"]) for line in reply.splitlines() if (found := _LINE.match(line))), default=0)


def _found(quote: str, named: int, texts: Sequence[_Text]) -> tuple[int, str] | None:
    """The message in which a quote stands, the nearest to the one that is named, and the quote as it stands there."""
    for place in sorted(range(len(texts)), key=lambda place: (abs(place - named), place)):
        if said := texts[place].find(quote):
            return place, said
    return None


class _Text:
    """A text in which quotes are found whatever their white space, quotation marks and forms of letters."""

    def __init__(self, text: str) -> None:
        self._text = text
        pairs = list(_plain(text))
        self._plain = "".join(char for char, _ in pairs)
        self._places = [at for _, at in pairs]

    def find(self, quote: str) -> str:
        """The quote as it stands here; empty where it does not, is no phrase, or is a whole document."""
        words = _words(quote)
        if not words or len(words) > _LONGEST or len(words.split()) < _FEWEST:
            return ""
        at = self._plain.find(words)
        while at >= 0 and not self._is_whole(at, at + len(words)):
            at = self._plain.find(words, at + 1)
        if at < 0:
            return ""
        return " ".join(self._text[self._places[at] : self._places[at + len(words) - 1] + 1].split())

    def _is_whole(self, start: int, stop: int) -> bool:
        """Whether no word is cut, in scripts that put spaces between them."""
        text = self._plain
        ends = ((text[start], text[max(0, start - 1) : start]), (text[stop - 1], text[stop : stop + 1]))
        return not any(end.isascii() and end.isalnum() and beyond.isalnum() for end, beyond in ends)


def _words(quote: str) -> str:
    """The words of a quote in the form in which they are compared, without the marks around them."""
    words = "".join(char for char, _ in _plain(quote)).strip()
    end = words.rfind(words[0]) if words and words[0] in _QUOTES else 0
    return (words[1:end].strip() if end and not words[end + 1 :].strip(_ENDS) else words).rstrip(_ENDS)


def _plain(text: str) -> Iterator[tuple[str, int]]:
    """The characters by which texts are compared, each with its place; one space for all white space."""
    spaced = True
    for at, char in enumerate(text):
        for one in unicodedata.normalize("NFKC", char).translate(_MARKS):
            if not one.isspace():
                yield one, at
            elif not spaced:
                yield " ", at
            spaced = one.isspace()
