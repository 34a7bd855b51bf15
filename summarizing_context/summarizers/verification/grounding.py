"""Grounding: a summary states no exact value that its source does not hold.

Pure. An exact value is what is copied or made up: a path, address, id, hash, version, name of code, quote, date, time,
setting, or number. It is held if it stands in the source, or if its parts do. A clause with another one is left out; a
reply of which too little is left is worth a second call.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.verification.attribution import LEAD

GROUNDING_VERSION = "1"  # another one when summaries that it let through must not stand
_FEWEST_WORDS = 4  # of a line, and of a summary
_HEADING = re.compile(r"\s*#{1,6} |\s*(?:\*\*|__)[^*_]{1,80}(?:\*\*|__):?\s*\Z")
_ENDS_OF_CLAUSES = re.compile(r"(?<=[.!?;])\s+(?=\S)")
_WORDS = re.compile(r"[^\W_]+")


class Verified(NamedTuple):
    """A summary without the lines and clauses that hold values which its source does not hold."""

    text: str  # empty where nothing worth keeping is left
    dropped_lines: int  # and clauses
    unsupported: tuple[str, ...]  # these values, each once, in order


def verify(reply: str, job: SummaryJob) -> Verified:
    """Return a model's summary as far as what it was given bears it out."""
    told = (job.range_hash, job.start, job.stop, job.stop - 1, job.stop - job.start)
    source = _Source(f"{job.content}\n{' '.join(map(str, told))}")
    lines: list[str] = []
    bad: dict[str, None] = {}
    dropped = 0
    for line in reply.split("\n"):
        if not (found := source.lacks(line)):
            lines.append(line)
            continue
        bad |= dict.fromkeys(found)
        start = lead.end() if (lead := LEAD.match(line)) else 0
        clauses = _clauses(line[start:])
        kept = [clause for clause in clauses if not source.lacks(clause)]
        rest = line[:start] + " ".join(kept).removesuffix(";")
        is_kept = len(clauses) > 1 and len(_WORDS.findall(rest)) >= _FEWEST_WORDS and not source.lacks(rest)
        lines += [rest] if is_kept else []
        dropped += len(clauses) - (len(kept) if is_kept else 0)
    if not bad:
        return Verified(reply, 0, ())
    filled: list[str] = []  # without the headings under which nothing is left
    is_filled = False
    for line in reversed(lines):
        is_heading = _HEADING.match(line) is not None
        filled += [line] if is_filled or not is_heading else []
        is_filled = not is_heading and (is_filled or bool(line.strip()))
    text = "\n".join(reversed(filled)).strip()
    words = sum(len(_WORDS.findall(line)) for line in text.split("\n") if not _HEADING.match(line))
    return Verified(text if words >= _FEWEST_WORDS else "", dropped, tuple(bad))


def keeps_enough(reply: str, verified: Verified) -> bool:
    """Say whether two thirds of the words of a reply are left: what another one adds to that is not worth reading the
    source once more."""
    return len(_WORDS.findall(verified.text)) >= 2 / 3 * len(_WORDS.findall(reply)) > 0


def _clauses(line: str) -> list[str]:
    """Return sentences, and what semicolons part; what stands in brackets or between marks of code stays in one
    piece."""
    clauses: list[str] = []
    is_open = False
    for piece in _ENDS_OF_CLAUSES.split(line):
        clauses = [*clauses[:-1], f"{clauses[-1]} {piece}"] if is_open else [*clauses, piece]
        opened, closed = (sum(map(clauses[-1].count, marks)) for marks in ("([{", ")]}"))
        is_open = clauses[-1].count("`") % 2 == 1 or opened > closed
    return clauses


# One way of writing for what a reply and its source say: plain marks and digits.

_MARKS = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»「」『』″", '"'),
        **dict.fromkeys("‘’‚‛′", "'"),
        **dict.fromkeys("‐‑‒–−", "-"),
        **dict.fromkeys("—―", " "),
        **dict.fromkeys("∕⁄⧸", "/"),
        **dict.fromkeys("*\u00ad\u200b\u200c\u200d\u2060\ufeff"),
    }
)
_OTHER_DIGITS = re.compile(r"(?![0-9])\d")
_THIN_SPACES = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3})")
_FOREIGN = r"[^\W\d_\u0000-\u03ff]"  # letters of scripts that put no space beside digits and Latin words
_EDGE_OF_SCRIPTS = re.compile(rf"(?<={_FOREIGN})(?=[a-zA-Z0-9])|(?<=[a-zA-Z0-9])(?={_FOREIGN})")
_ESCAPES = re.compile(r"(?<!\\)\\++([nrt]|[^\w\s])")  # of JSON strings, as which arguments are written, and of patterns


def _readable(text: str) -> str:
    if text.isascii():
        return text.replace("*", "")
    text = unicodedata.normalize("NFKC", _THIN_SPACES.sub("", text).translate(_MARKS)).translate(_MARKS)
    return _EDGE_OF_SCRIPTS.sub(" ", _OTHER_DIGITS.sub(lambda digit: str(unicodedata.decimal(digit[0])), text))


def _unescaped(text: str) -> str:
    return _ESCAPES.sub(lambda found: "\n" if found[1] in "nrt" else found[1], text)


def _slashed(text: str) -> str:
    return re.sub(r"\\+", "/", text)


# What is a value.

_VALUE = re.compile(
    r"""
      https?://[^\s"'<>)\]},\\]+                                                  # address
    | (?<![\w.+-])[\w.+-]{1,80}@[\w-]+(?:\.[\w-]+)+                               # mail
    | (?<![\w/])(?:~|\.{1,2})?/?(?:[\w@.+-]{1,200}/)+[\w@.+-]*(?::\d+)?           # path
    | (?<![\w-])--[a-z][\w-]+(?:=[\w./:-]+)?                                      # option
    | (?<![\w-])[\w-]+=[\w./:-]+                                                  # setting
    | [$€£]?(?<!\w)\d[\d.,:'/_-]*\d\w*                                            # number, version
    | (?<![\w-])[\w-]*\d[\w-]*(?:\.[\w-]+)*                                       # id
    | \b[0-9a-f]{8,64}\b                                                          # hash
    | \b\w+(?:\.\w+){0,8}\.[A-Za-z]\w+\b                                          # file name, dotted name
    | \b\w*[^\W_]_[^\W_]\w*\b | \b[a-z]+(?:[A-Z]\w*)+                             # name of code
    | \b(?:[A-Z][a-z0-9]+){3,}\b | \b(?:[A-Z][a-z0-9]+)+(?:Error|Exception)\b
    """,
    re.VERBOSE,
)
_SPANS = re.compile(r'`([^`\n]*)`|"([^"\n]*)"')
_WITH_UNIT = re.compile(
    r"(?<![\w.,':-])\d+(?:[.,'_]\d+)*"
    r"(?: ?[%°€]| (?:[nµμm]?s|sec(?:ond)?s?|min(?:ute)?s?|h(?:ou)?rs?|[kmg]i?b|bytes?|percent|prozent)\b)",
    re.IGNORECASE,
)
_MONTHS = ["jan", "feb", "mar|mär", "apr", "may|mai", "jun", "jul", "aug", "sep", "oct|okt", "nov", "dec|dez"]
_PARTS_OF_DATES = {"Y": r"\d{4}", "M": r"\d{1,2}", "D": r"\d{1,2}", "N": "|".join(_MONTHS)}
_DATES = (  # of a year, a month, a day, the name of a month
    r"Y[-/.]M[-/.]D(?!\d)",
    r"D[-/.]M[-/.]Y(?!\d)",
    r"N[a-zä]{0,6}\.? D(?:st|nd|rd|th)?(?!\w)(?:,? Y\b)?",
    r"D(?:st|nd|rd|th|\.)? N[a-zä]{0,6}\.?(?!\w)(?:,? Y\b)?",
    r"(?:Y ?年 ?)?M ?月 ?D ?日",
)


def _dated(at: int, form: str) -> str:
    return re.sub("[YMDN]", lambda part: f"(?P<{part[0]}{at}>{_PARTS_OF_DATES[part[0]]})", form)


_DAY = re.compile(rf"(?<![\w.])(?:{'|'.join(map(_dated, range(len(_DATES)), _DATES))})", re.IGNORECASE)
_TIME = re.compile(
    r"(?<![\w:.-])t?(\d{1,2})(?:(?::| ?時 ?)(\d\d)(?: ?分)?(?::(\d\d))?(?:[.,]\d+)?)?(?: ?([ap])\.?m\b)?z?(?!:?\d)",
    re.IGNORECASE,
)
_Moment = tuple[int, int, int]


def _days(text: str) -> Iterator[tuple[str, _Moment]]:
    """Find the dates of a text; one that can be read in two ways is told twice."""
    for found in _DAY.finditer(text):
        said = {name[0]: part.lower() for name, part in found.groupdict().items() if part}
        name, year, day = said.get("N", ""), int(said.get("Y", 0)), int(said["D"])
        month = next(at for at, names in enumerate(_MONTHS, 1) if name in names.split("|")) if name else int(said["M"])
        for one, other in {(month, day), (day, month) if found["D1"] else (month, day)}:
            if one <= 12 and other <= 31:
                yield found[0], (year, one, other)


def _times(text: str) -> Iterator[tuple[str, _Moment]]:
    """Find the times of day of a text. Of the two halves of a day either will do."""
    for found in _TIME.finditer(text):
        hour, minute, second = int(found[1]), int(found[2] or 0), int(found[3] or -1)
        if (found[2] or found[4]) and hour < 25 and minute < 60:
            yield found[0], (hour % 12, minute, second)


_NUMBER = re.compile(r"\d+(?:[.,'_]\d+)*")


def _digits(number: str) -> str:
    return re.sub(r"\D", "", number)


def _readings(number: str) -> list[float]:
    """Return what a number may mean: with a point or a comma before its decimals, or between groups of digits."""
    *whole, last = re.split(r"\D", number)
    if not whole:
        return [float(last)]
    decimal = float(f"{''.join(whole)}.{last}")
    is_grouped = all(len(run) == 3 for run in (*whole[1:], last))
    return [float(f"{''.join(whole)}{last}"), decimal] if is_grouped else [decimal]


_GAPS = re.compile(r"\.{3}|…|\[[^\[\]]{0,80}\]")  # of a quote
_HOLE = re.compile(r"<[\w -]{1,40}>|\$?\{[\w -]{1,40}\}|\$\w+|(?<=/):\w+|\.{3}|…")  # what a command or path leaves open
_JOINTS = re.compile(r"[/:=,|()\[\]{}<>\"';&+]+|\.\.+|-(?=[a-z]*\d)|(?<=\d)-(?=[a-z])|\s+")
_EDGES = " .,:;!?'\"~_=<>(){}[]|&^%$€£+-/\\"
_CHOICE = re.compile(r"[a-z][a-z-]*(?:/[a-z][a-z-]*){1,3}\Z")  # and/or, read/write
_INFLECTED = re.compile(r"(?<=\w{4})(?:ing|ed|e?s|er?)\Z")
_SERIES = re.compile(r"v?(\d+(?:\.\d+)*)(?:\.x)?\Z")  # of versions: 4.40.x, or the beginning of one
_SPAN = re.compile(r"(\d+)(?:-[a-z]+)+\Z")  # 3-step, 120-line
_MEMBER = re.compile(r"\w+(?:\.\w+)*\.(?:\w{6,}|[A-Z]\w+|\w+\(\))")  # what ends in a short word is a file's name
_HASH = re.compile(r"[0-9a-f]{7,64}\Z")
_AMOUNT = re.compile(r"[$€£]?(\d+(?:[.,'_]\d+)*) ?([a-zµμ%°]{0,8})\Z")
_SCALES = (1, 1e3, 1e6, 1e9, 60, 3600, 60_000, 1024, 1024**2, 1024**3, 100)  # of units, either way


class _Source:
    """What a summary was made of, ready to be asked for the values of its lines."""

    def __init__(self, text: str) -> None:
        text = f"{_slashed(text)}\n{_unescaped(text)}" if "\\" in text else text
        self._text = " ".join(_readable(text).replace("`", "").casefold().split())

    @cached_property
    def _words(self) -> str:
        return f" {' '.join(_WORDS.findall(self._text))} "

    @cached_property
    def _numbers(self) -> set[str]:
        """The digits of each number, and of each of its parts."""
        runs = {run for number in _NUMBER.findall(self._text) for run in (*re.split(r"\D", number), _digits(number))}
        return runs | {_digits(number) for number in re.findall(r"(?<!\d)\d{1,3}(?: \d{3})+(?!\d)", self._text)}

    @cached_property
    def _amounts(self) -> list[float]:
        return sorted({amount for number in _NUMBER.findall(self._text) for amount in _readings(number)})

    @cached_property
    def _dates(self) -> set[_Moment]:
        plain = re.findall(r"(?<!\d)(\d{4})-?(\d\d)-?(\d\d)(?!\d)", self._text)
        found = {date for _, date in _days(self._text)} | {(int(it[0]), int(it[1]), int(it[2])) for it in plain}
        return found | {(0, month, day) for _, month, day in found}

    @cached_property
    def _moments(self) -> set[_Moment]:
        plain = re.findall(r"(?<!\d)(\d{1,2}):(\d\d)(?::(\d\d))?", self._text)
        found = {time for _, time in _times(self._text)}
        found |= {(int(hour) % 12, int(minute), int(second or -1)) for hour, minute, second in plain}
        return found | {(hour, minute, -1) for hour, minute, _ in found}

    def lacks(self, line: str) -> list[str]:
        """Return the exact values of a line of a summary that the source does not hold."""
        text = _readable(line)
        for mark in '`"':  # of an odd number it cannot be said which belong together
            text = text.replace(mark, " ") if text.count(mark) % 2 else text
        lacking: list[str] = []
        for code, quote in _SPANS.findall(text):
            inside = (code or quote).strip()
            is_quote = quote and " " in inside
            if not (self._has_quote(inside) if is_quote else self._has_code(inside)):
                lacking.append(inside)
        text = _SPANS.sub(" ; ", text)  # what has been read is blanked
        dates: dict[str, bool] = {}
        for said, (year, month, day) in _days(text):
            is_held = (0, month, day) in self._dates and str(year) in self._numbers
            dates[said] = dates.get(said, False) or is_held or (year, month, day) in self._dates
        for said in dates:
            text = text.replace(said, " ")
        times = dict(_times(text))
        for said in times:
            text = text.replace(said, " ")
        lacking += [said for said in dates if not dates[said]]
        lacking += [said for said, time in times.items() if not (time in self._moments or self._stands(said.strip()))]
        tokens = [*_WITH_UNIT.findall(text), *_VALUE.findall(_WITH_UNIT.sub(" ", text))]
        return [*lacking, *(token for token in tokens if not self._has_token(token, is_code=False))]

    def _stands(self, said: str) -> bool:
        """Say whether it stands there as whole words."""
        wanted, text, at = said.casefold(), self._text, -1
        while (at := text.find(wanted, at + 1)) >= 0:
            end = at + len(wanted)
            begins = not (wanted[:1].isalnum() and at and text[at - 1].isalnum())
            if begins and not (wanted[-1:].isalnum() and end < len(text) and text[end].isalnum()):
                return True
        return False

    def _has_words(self, text: str) -> bool:
        """Say whether these words stand there one after the other, whatever is between them."""
        return f" {' '.join(_WORDS.findall(text.casefold()))} " in self._words

    def _has_quote(self, quote: str) -> bool:
        return all(len(_WORDS.findall(part)) < 2 or self._has_words(part) for part in _GAPS.split(quote))

    def _has_code(self, code: str) -> bool:
        for reading in dict.fromkeys((_slashed(code), _unescaped(code))):  # escapes may be meant or not
            text = " ".join(reading.casefold().split()).strip(_EDGES)
            if len(text) < 3 or self._stands(text) or (len(_WORDS.findall(text)) > 1 and self._has_words(text)):
                return True
            if text.isalpha():
                return _INFLECTED.sub("", text) in self._text
            if all(self._has_token(part, is_code=True) for part in _HOLE.sub(" ", reading).split()):
                return True
        return False

    def _is_in_path(self, part: str) -> bool:
        return self._stands(f"/{part}") or self._stands(f"{part}/")

    def _has_token(self, token: str, *, is_code: bool) -> bool:
        """Say whether one value stands there: as it is, in another way of writing, or part by part."""
        bare = _slashed(token).strip(_EDGES)
        text = bare.casefold()
        if text and token.startswith(f".{bare[0]}"):
            text = f".{text}"  # .git
        if len(text) < 3 or (len(text) == 3 and not text.isdigit()) or self._stands(text):
            return True
        if amount := _AMOUNT.match(token.casefold().strip(" .,:;!?'\"()")):
            return self._has_amount(amount[1], bool(amount[2]) or token[0] in "$€£")
        if _CHOICE.match(text) and token[0] != "/":
            words = text.split("/")
            alone = (rf"(?<![\w/.-]){re.escape(word)}(?![\w/-]|\.\w)" for word in words)  # and not a part of a path
            if not is_code and (not self._stands(f"{words[0]}/") or all(re.search(word, self._text) for word in alone)):
                return True
            if is_code and all(map(self._stands, words)) and not any(map(self._is_in_path, words)):
                return True
        if (len(_WORDS.findall(text)) > 1 and self._has_words(text)) or (_HASH.match(text) and text in self._text):
            return True
        if span := _SPAN.match(text):
            return len(span[1]) < 3 or span[1] in self._numbers
        if series := _SERIES.match(text):
            begins = any(f"{mark}{series[1]}." in self._text for mark in " v")
            return begins or self._stands(f"v{series[1]}") or ("." in series[1] and self._stands(series[1]))
        key, _, value = text.partition("=")
        if value and self._sets_otherwise(key.strip(_EDGES), value):
            return False
        if _MEMBER.fullmatch(token.strip(" .,:;!?'\"")):
            return all(map(self._stands, text.split(".")))
        folder, _, name = text.rpartition("/")
        if "/" in folder and self._stands(folder) and self._stands(name):
            return True
        if "/" in text and not all(self._is_in_path(part) for part in text.split("/") if part.isalpha()):
            return False
        parts = [part.strip(_EDGES) for part in _JOINTS.split(text)]
        return len(parts) > 1 and all(
            len(part) < 2 or self._stands(part) or (part.isdigit() and (len(part) < 3 or part in self._numbers))
            for part in parts
        )

    def _sets_otherwise(self, key: str, value: str) -> bool:
        """Say whether the source gives a setting other values, and does not tell this one soon after its name."""
        name = rf"(?<![\w-]){re.escape(key)}(?![\w-])"
        given = re.findall(rf"{name}[\"']? ?[:=] ?[\"']?([\w./-]+)", self._text)
        is_told = any(one.startswith(value) for one in given)
        near = rf"{name}.{{0,40}}(?<!\w){re.escape(value)}(?!\w)"
        return bool(given) and not is_told and re.search(near, self._text) is None

    def _has_amount(self, number: str, has_unit: bool) -> bool:
        """Say whether a number stands there, or what it rounds or tells in another unit."""
        digits, runs = _digits(number), re.split(r"\D", number)
        if digits in self._numbers or (len(digits) < 3 and not has_unit):
            return True
        is_list = len(runs) > 1 and not all(len(run) == 3 for run in runs[1:])  # of lines: 12,300,1700
        if is_list and len(max(runs, key=len)) > 2 and all(len(run) < 3 or run in self._numbers for run in runs):
            return True
        if not (has_unit or not number.isdigit() or (len(digits) > 3 and digits.endswith("00"))):
            return False
        zeros = len(digits) - len(digits.rstrip("0"))
        for value in _readings(number):
            last = max(0, min(zeros, len(digits) - 2, 15)) if value.is_integer() else -min(len(runs[-1]), 15)
            low, high = value - 0.5 * 10.0**last, value + 0.5 * 10.0**last
            for scale in (*_SCALES, *(1 / scale for scale in _SCALES[1:])):
                first = bisect_left(self._amounts, low * scale * (1 - 1e-9))
                if first < bisect_right(self._amounts, high * scale * (1 + 1e-9)):
                    return True
        return False
