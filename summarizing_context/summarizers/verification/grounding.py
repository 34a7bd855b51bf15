"""Grounding: a summary states no exact value that its source does not hold.

Pure. An exact value is what is copied or made up: a path, address, id, hash, version, name of code, quote, setting,
day, time, or number. It is held if it stands in the source, or if its parts do. A clause with another one is left out;
a reply of which too little is left is worth a second call.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from summarizing_context.summarizers.base import SummaryJob

GROUNDING_VERSION = "1"  # another one when summaries that it let through must not stand
_FEWEST_WORDS = 4  # of a line, and of a summary
_HEADING = re.compile(r"\s*#{1,6} |\s*(?:\*\*|__)[^*_]{1,80}(?:\*\*|__):?\s*\Z")
_WORDS = re.compile(r"[^\W_]+")


class Verified(NamedTuple):
    """A summary without the lines and clauses that hold values which its source does not hold."""

    text: str  # empty where nothing worth keeping is left
    dropped_lines: int  # and clauses
    unsupported: tuple[str, ...]  # these values, each once, in order
    is_enough: bool  # two thirds of its words are left: another reply is not worth reading the source once more


def verify(reply: str, job: SummaryJob) -> Verified:
    """Return a model's summary as far as what it was given bears it out."""
    given = (job.range_hash, job.start, job.stop, job.stop - 1, job.stop - job.start)
    source = _Source(f"{job.context}\n{job.content}\n{' '.join(map(str, given))}")
    lines: list[str] = []
    bad: dict[str, None] = {}
    dropped = 0
    for line in reply.split("\n"):
        if not (found := source.lacks(line)):
            lines.append(line)
            continue
        # of sentences and what semicolons part, those that hold no such value
        bad |= dict.fromkeys(found)
        start = lead.end() if (lead := re.match(r"\s*(?:(?:[-*+•>]|\d{1,3}[.)])\s+)*", line)) else 0  # of a list's item
        clauses = re.split(r"(?<=[.!?;])\s+(?=\S)", line[start:])
        kept = [clause for clause in clauses if not source.lacks(clause)]
        rest = line[:start] + " ".join(kept).removesuffix(";")
        is_kept = len(clauses) > 1 and len(_WORDS.findall(rest)) >= _FEWEST_WORDS and not source.lacks(rest)
        lines += [rest] if is_kept else []
        dropped += len(clauses) - (len(kept) if is_kept else 0)
    if not bad:
        return Verified(reply, 0, (), is_enough=True)
    filled: list[str] = []  # without the headings under which nothing is left
    is_filled = False
    for line in reversed(lines):
        is_heading = _HEADING.match(line) is not None
        filled += [line] if is_filled or not is_heading else []
        is_filled = not is_heading and (is_filled or bool(line.strip()))
    text = "\n".join(reversed(filled)).strip()
    words = sum(len(_WORDS.findall(line)) for line in text.split("\n") if not _HEADING.match(line))
    text = text if words >= _FEWEST_WORDS else ""
    is_enough = len(_WORDS.findall(text)) >= 2 / 3 * len(_WORDS.findall(reply)) > 0
    return Verified(text, dropped, tuple(bad), is_enough)


_MARKS = str.maketrans(
    "“”„‟«»「」『』″‘’‚‛′‐‑‒–−—―∕⁄⧸", '"""""""""""\'\'\'\'\'-----  ///', "*\u00ad\u200b\u200c\u200d\u2060\ufeff"
)
_FOREIGN = r"[^\W\d_\u0000-\u03ff\u1e00-\u1fff]"  # scripts that put no space next to digits, paths and Latin words
_EDGE_OF_SCRIPTS = re.compile(
    rf"(?<={_FOREIGN})(?=(?:[~.]*/)?[a-zA-Z0-9])|(?<=[a-zA-Z0-9])(?={_FOREIGN})"
    rf"|(?<=[a-zA-Z0-9]/)(?={_FOREIGN}++(?![._/-]+\w))"  # the folder's name has ended
)


def _readable(text: str) -> str:
    """Return what a reply or its source says in one way of writing: plain marks and digits."""
    text = unicodedata.normalize("NFKC", text.translate(_MARKS)).translate(_MARKS)
    if text.isascii():
        return text
    return _EDGE_OF_SCRIPTS.sub(" ", re.sub(r"\d", lambda digit: str(int(digit[0])), text))


def _unescaped(text: str) -> str:
    """Return text without the escapes of JSON strings, as which arguments are written, and of patterns; other
    backslashes are slashes."""
    text = re.sub(r"(?<!\\)\\++([nrt]|[^\w\s])", lambda found: "\n" if found[1] in "nrt" else found[1], text)
    return re.sub(r"\\+", "/", text)


_VALUE = re.compile(
    r"""
      https?://[^\s"'<>)\]},\\]+                                                  # address
    | (?<![\w.+-])[\w.+-]{1,80}@[\w-]+(?:\.[\w-]+)+                               # mail
    | (?<![\w/])(?:~|\.{1,2})?/?(?:[\w@.+-]{1,200}/)+[\w@.+-]*(?::\d+)?           # path
    | (?<![\w-])--[a-z][\w-]+(?:=[\w./:-]+)?                                      # option
    | (?<![\w-])[\w-]+=[\w./:-]+                                                  # setting
    | [$€£]?(?<!\w)\d[\d.,:'/_-]*\d\w*                                            # number, version, day, time
    | (?<![\w-])[\w-]*\d[\w-]*(?:\.[\w-]+)*                                       # id
    | \b[0-9a-f]{8,64}\b                                                          # hash
    | \b\w+(?:\.\w+){0,8}\.[A-Za-z]\w+\b                                          # file name, dotted name
    | \b\w*[^\W_]_[^\W_]\w*\b | \b[a-z]+(?:[A-Z]\w*)+                             # name of code
    | \b(?:[A-Z][a-z0-9]+){3,}\b | \b(?:[A-Z][a-z0-9]+)+(?:Error|Exception)\b
    """,
    re.VERBOSE,
)
_SPANS = re.compile(r'`([^`\n]*)`|"([^"\n]*)"')
_NUMBER = r"\d+(?:[.,'_]\d+)*"
_WITH_UNIT = re.compile(
    rf"(?<![\w.,':-]){_NUMBER}"
    r"(?: ?[%°€]| (?:[nµμm]?s|sec(?:ond)?s?|min(?:ute)?s?|h(?:ou)?rs?|[kmg]i?b|bytes?|percent|prozent)\b)",
    re.IGNORECASE,
)
_AMOUNT = re.compile(rf"[$€£]?({_NUMBER}) ?([a-zµμ%°]{{0,8}})(?:-[^\W\d_]+)*\Z")  # also 3-step
_HOLE = re.compile(r"<[\w -]{1,40}>|\$?\{[\w -]{1,40}\}|\$\w+|(?<=/):\w+|\.{3}|…")  # what a command or path leaves open
_JOINTS = re.compile(r"[/:=,|()\[\]{}<>\"';&+]+|\.\.+|-(?=[a-z]*\d)|(?<=\d)-(?=[a-z])|\s+")
_EDGES = " .,:;!?'\"~_=<>(){}[]|&^%$€£+-/\\"
_MEMBER = re.compile(r"\w+(?:\.\w+)*\.(?:\w{6,}|[A-Z]\w+|\w+\(\))")  # what ends in a short word is a file's name


class _Source:
    """What a summary was made of, ready to be asked for the values of its lines."""

    def __init__(self, text: str) -> None:
        self._text = " ".join(_unescaped(_readable(text)).replace("`", "").casefold().split())
        self._words = f" {' '.join(_WORDS.findall(self._text))} "
        runs = {run for number in re.findall(_NUMBER, self._text) for run in (number, *re.split(r"\D", number))}
        self._numbers = {re.sub(r"\D", "", run) for run in runs}  # the digits of each, and of each of its parts

    def lacks(self, line: str) -> list[str]:
        """Return the exact values of a line of a summary that the source does not hold."""
        text = _readable(line)
        for mark in '`"':  # of an odd number it cannot be said which belong together
            text = text.replace(mark, " ") if text.count(mark) % 2 else text
        lacking: list[str] = []
        for code, quote in _SPANS.findall(text):
            inside = _unescaped(code or quote).strip()
            if quote and " " in inside:  # word for word, but for gaps
                parts = re.split(r"\.{3}|…", inside)
                is_held = all(len(_WORDS.findall(part)) < 2 or self._has_words(part) for part in parts)
            else:
                said = " ".join(inside.casefold().split()).strip(_EDGES)
                is_held = len(said) < 3 or self._stands(said) or self._has_words(said)
                is_held = is_held or all(map(self._has_value, _HOLE.sub(" ", inside).split()))
            lacking += [] if is_held else [inside]
        text = _SPANS.sub(" ; ", text)  # what has been read is blanked
        values = [*_WITH_UNIT.findall(text), *_VALUE.findall(_WITH_UNIT.sub(" ", text))]
        return [*lacking, *(value for value in values if not (self._is_choice(value) or self._has_value(value)))]

    def _stands(self, said: str) -> bool:
        before = r"(?<![a-z0-9])" if said[:1].isalnum() else ""
        behind = r"(?![a-z0-9])" if said[-1:].isalnum() else ""
        said = said.casefold()
        return said in self._text and re.search(before + re.escape(said) + behind, self._text) is not None

    def _has_words(self, text: str) -> bool:
        """Say whether two and more words stand there one after the other, whatever is between them."""
        words = _WORDS.findall(text.casefold())
        return len(words) > 1 and f" {' '.join(words)} " in self._words

    def _is_choice(self, value: str) -> bool:
        """Say whether this is a choice of words, as in read/write, and no path."""
        words = value.casefold().strip(_EDGES).split("/")
        if value[0] == "/" or not 1 < len(words) < 5 or not all(word.replace("-", "").isalpha() for word in words):
            return False
        return not self._stands(f"{words[0]}/") or all(map(self._stands, words))

    def _has_value(self, value: str) -> bool:
        """Say whether one value stands there: as it is, in another way of writing, or part by part."""
        text = re.sub(r"\Av(?=\d)", "", _unescaped(value).casefold().strip(_EDGES))
        if len(text) < 3 or (len(text) == 3 and not text.isdigit()) or self._stands(text):
            return True
        if amount := _AMOUNT.match(value.casefold().strip(" .,:;!?'\"()")):
            return self._has_amount(amount[1], bool(amount[2]) or value[0] in "$€£")
        if self._has_words(text) or (re.fullmatch(r"[0-9a-f]{7,64}", text) and text in self._text):
            return True
        day, time = re.match(r"(\d{4}-)\d\d-\d\d", text), re.search(r"(?<![\d:])(\d\d?)(:\d\d(?::\d\d)?)", text)
        if day and day[0] not in self._text and day[1] in self._text:
            return False  # a source that writes days of this year so has another one
        if time:  # of the two halves of a day either will do
            return any(f"{int(time[1]) + half}{time[2]}" in self._text for half in (0, 12, -12))
        if _MEMBER.fullmatch(value.strip(" .,:;!?'\"")):
            return all(map(self._stands, text.split(".")))
        parts = [part.strip(_EDGES) for part in _JOINTS.split(text)]
        return len(parts) > 1 and all(
            len(part) < 2 or self._stands(part) or (part.isdigit() and (len(part) < 3 or part in self._numbers))
            for part in parts
        )

    def _has_amount(self, number: str, has_unit: bool) -> bool:
        """Say whether a number stands there, or one that it rounds, or gives in a unit ten, a hundred ... times as
        large."""
        digits = re.sub(r"\D", "", number)
        if digits in self._numbers or (len(digits) < 3 and not has_unit):
            return True
        if not (has_unit or digits != number or (len(digits) > 3 and digits.endswith("00"))):
            return False
        said = digits.strip("0")
        for other in re.findall(rf"(?<!\w){_NUMBER}", self._text):
            first = re.sub(r"\D", "", other).lstrip("0")[: len(said) + 1].ljust(len(said) + 1, "0")  # and one to round
            if said and str((int(first) + 5) // 10).rstrip("0") == said:
                return True
        return not said
