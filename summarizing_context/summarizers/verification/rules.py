"""Standing rules in a model's summary: quotes of what a human typed, checked word for word.

Pure. A segment's summary lists them under `## Standing rules`, one a line: `- [n] "quote"` or `- [n] prefers "quote"`,
where n is the place of the message in the range, and at the end ` ended by [m]` where a later message takes it back.
A merge lists under `## Ended rules` which of the rules in its source a later one ends: `- [a] ended by [b]`. Whatever
else stands there is dropped.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from summarizing_context.extraction.rules import Strength
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.extractive.sections import CONSTRAINTS, NAMES, split_children, unescape_labels

STANDING, ENDED = "## Standing rules", "## Ended rules"

RULES_VERSION = "1"  # another one when what a reply says of rules is read in another way

_OURS = frozenset((STANDING, *(f"## {name}" for name in NAMES)))

_LONGEST = 300  # characters of a quote; what is longer is a document that was pasted

_LONGEST_LINE = 1_000  # characters

_FEWEST = 2  # words

_RULE = re.compile(
    r"(?:\[(?P<message>\d{1,6})\]\s*)?(?P<soft>prefers?:?\s+)?(?P<quote>.+?)"
    r"(?:[\s,;(]+ended by \[(?P<ended>\d{1,6})\]\)?)?[\s.]*\Z",
    re.IGNORECASE | re.DOTALL,
)

_END = re.compile(r"\[(?P<earlier>\d{1,6})\][^\[\]]* by \[(?P<later>\d{1,6})\][\s.]*\Z", re.IGNORECASE)

_TYPED = re.compile(r"^### user(?: \(\d+ times\))? \[(\d+)\]$", re.MULTILINE)

_LISTED = re.compile(r"- \[(\d+)\] ")

_MARKS = str.maketrans(dict.fromkeys("“”„‟«»「」『』", '"') | dict.fromkeys("‘’‚‛`´", "'"))


class QuotedRule(NamedTuple):
    """A rule that a summary quotes, and that stands so in a message."""

    message: int  # place in the range, from 1
    quote: str  # as it was typed, but for white space
    strength: Strength
    ended_by: int | None = None  # the place of a later message


class Settled(NamedTuple):
    """A summary of which only checked lines speak of rules."""

    text: str
    dropped: int  # lines


def settle_rules(text: str, job: SummaryJob) -> Settled:
    """The summary without lines on rules that its source does not bear out."""
    rest, standing, ended = split_rules(text)
    if job.kind == "segment":
        rules = read_rules(standing, typed_rows(job.content))
        lines = [STANDING, *map(_written, rules)] if rules else []
        return Settled(_joined(rest, lines), len(standing) + len(ended) - len(rules))
    pairs = read_ended(ended, listed_rules(job.content))
    lines = [ENDED, *(f"- [{earlier}] ended by [{later}]" for earlier, later in pairs)] if pairs else []
    return Settled(_joined(rest, lines), len(standing) + len(ended) - len(pairs))


def is_verdict(text: str) -> bool:
    """Whether a segment's summary says which rules there are, be it none: those of earlier prompts do not, nor does a
    text without any of the headings that were asked for."""
    headings = {line.rstrip() for line in text.split("\n")} & _OURS
    return STANDING in headings or (bool(headings) and f"## {NAMES[CONSTRAINTS]}" not in headings)


def split_rules(text: str) -> tuple[str, list[str], list[str]]:
    """A summary without its sections on rules, and the lines of these: rules, and which of them are ended."""
    rest: list[str] = []
    found: dict[str, list[str]] = {STANDING: [], ENDED: []}
    section = ""
    for line in text.split("\n"):
        heading = line.rstrip()
        if heading in found or (section and not line.startswith("- ")):
            section = heading if heading in found else ""
        if not section:
            rest.append(line)
        elif heading != section:
            found[section].append(line[2:])
    return "\n".join(rest).strip("\n"), found[STANDING], found[ENDED]


def read_rules(lines: Iterable[str], typed: Mapping[int, Sequence[str]]) -> list[QuotedRule]:
    """The rules of these lines that a human typed, each once. `typed` has the texts of each message by its place."""
    searched = {place: list(map(_Text, texts)) for place, texts in typed.items()}
    rules: dict[tuple[int, str], QuotedRule] = {}
    for line in lines:
        if len(line) > _LONGEST_LINE or (found := _RULE.match(line.strip())) is None:
            continue
        named = int(found["message"] or 0)
        quote = found["quote"].strip()
        for place in sorted(searched, key=lambda place: (abs(place - named), place)):
            said = next(filter(None, (text.find(quote) for text in searched[place])), "")
            if said:
                ended = int(found["ended"] or 0)
                later = ended if ended > place and ended in searched else None
                rule = QuotedRule(place, said, "prefer" if found["soft"] else "must", later)
                rules.setdefault((place, said), rule)
                break
    return list(rules.values())


def read_ended(lines: Iterable[str], known: int) -> list[tuple[int, int]]:
    """Which of the rules 1 to `known` a later one ends, each pair once."""
    found = filter(None, (_END.match(line.strip()) for line in lines if len(line) <= _LONGEST_LINE))
    pairs = ((int(each["earlier"]), int(each["later"])) for each in found)
    return list(dict.fromkeys((earlier, later) for earlier, later in pairs if 0 < earlier < later <= known))


def typed_rows(content: str) -> dict[int, list[str]]:
    """What humans typed in a segment's content, by the place of the message."""
    rows: dict[int, list[str]] = {}
    for label in _TYPED.finditer(content):
        end = content.find("\n### ", label.end())
        body = content[label.end() + 1 : len(content) if end < 0 else end]
        rows.setdefault(int(label[1]), []).append(unescape_labels(body))
    return rows


def with_rules(child: str, rules: Sequence[tuple[str, Strength]], first: int) -> str:
    """A summary for a merge: its rules numbered from `first` on, over all of the merge's source."""
    lines = [f"- [{number}] {_said(quote, strength)}" for number, (quote, strength) in enumerate(rules, first)]
    return _joined(split_rules(child)[0], [STANDING, *lines] if lines else [])


def listed_rules(content: str) -> int:
    """How many rules a merge's source lists."""
    lists = (split_rules(unescape_labels(child))[1] for child in split_children(content))
    return sum(_LISTED.match(f"- {line}") is not None for lines in lists for line in lines)


def _written(rule: QuotedRule) -> str:
    ended = f" ended by [{rule.ended_by}]" if rule.ended_by is not None else ""
    return f"- [{rule.message}] {_said(rule.quote, rule.strength)}{ended}"


def _said(quote: str, strength: Strength) -> str:
    return f'prefers "{quote}"' if strength == "prefer" else f'"{quote}"'


def _joined(rest: str, lines: Sequence[str]) -> str:
    return "\n".join((*filter(None, (rest,)), *lines))


class _Text:
    """A text in which quotes are found whatever their white space, quotation marks and forms of letters."""

    def __init__(self, text: str) -> None:
        self._text = text
        pairs = list(_plain(text))
        self._plain = "".join(char for char, _ in pairs)
        self._places = [at for _, at in pairs]

    def find(self, quote: str) -> str:
        """The quote as it stands here; empty where it does not, is no phrase, or is a whole document."""
        words = "".join(char for char, _ in _plain(quote)).strip()
        if len(words) > 1 and words[0] in "\"'" and words[-1] in "\"'":
            words = words[1:-1].strip()
        words = words.rstrip(" .,;:…")
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
