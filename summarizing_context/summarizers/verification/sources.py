"""What a summary's values are compared with: the source that the model read, in normalised spelling.

Pure. Values that a line swaps are found too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from summarizing_context.extraction.values import FILE
from summarizing_context.messages.text import bare, cleaned
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.verification.dates import Calendar, Day, Time
from summarizing_context.summarizers.verification.literals import (
    COLOURS,
    LEFT_OPEN,
    ExactValue,
    find_literals,
    plain,
    unescaped,
    words_only,
)
from summarizing_context.summarizers.verification.quantities import Quantities, Quantity, find_quantities
from summarizing_context.summarizers.verification.units import CURRENCIES, durations

_VALUE = re.compile(r"(?<![\w.,:/-])\d(?:[.,:]?\d){2,30}(?![\w/-]|[.,:]\d)")

_WORD = re.compile(r"[^\W\d_]{2,}")

Labels = Mapping[str, frozenset[str]]  # by value


class LabelledValue:
    """The lines of a source that hold several values, each with its label."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._with: dict[str, list[Labels]] = defaultdict(list)
        for labels in map(labels_in, lines):
            for value in labels if len(labels) > 1 else ():
                self._with[value].append(labels)

    def swapped(self, labels: Labels) -> Iterator[str]:
        """Each value of a line that stands where the one behind it should."""
        for one, other in pairwise(labels):
            both = [known for known in self._with.get(one, ()) if other in known]
            if both and all(_are_swapped(labels, known, one, other) for known in both):
                yield one


def labels_in(line: str) -> Labels:
    """The values of a plain line in their order, each with the words that stand before it."""
    labels: dict[str, frozenset[str]] = {}
    start = 0
    for value in _VALUE.finditer(line):
        labels[value[0]] = labels.get(value[0], frozenset()) | set(_WORD.findall(line[start : value.start()]))
        start = value.end()
    return labels


def _are_swapped(labels: Labels, known: Labels, one: str, other: str) -> bool:
    of_one, of_other = known[one] - known[other], known[other] - known[one]
    crossed = labels[one] & of_other and labels[other] & of_one
    return bool(crossed) and not (labels[one] & of_one or labels[other] & of_other)


_GAPS = re.compile(r"\s?\[?\.\.\.\]?\s?|(?<=[.!?:])\s")  # where a quote may leave something out

_JOINTS = re.compile(r"\.\.+|[:=,&+→#]")

_SEPARATORS = re.compile(r"[-_ ./:]+")

_GOES_ON = re.compile(r"[\w%]|[.,]\d")

_TICKS = re.compile(r"`+")

_CUT = re.compile(r"\.{2,}")

_HEX = re.compile(r"[0-9a-f]{7,64}\Z")

_MAJOR = re.compile(r"v(\d+)\Z")

_SERIES = re.compile(r"v?(\d+(?:\.\d+)*)\.[x*]?\Z")  # of versions

_VERSION = re.compile(r"v?\d+(?:\.\d+)+\Z")

_LABELLED = re.compile(r"[a-z]+=(?P<value>[\w.,+-]+)")  # `retries=3`: a label of the summary's own

_SETTING = re.compile(r"(?P<key>-{0,2}[a-z][^\W_]*[_-][\w-]*|--[a-z]\w+)=(?P<value>\d[\d.,_]*)")

_BESIDE = 60  # characters around the name of a setting, in which its value stands

_DIGITS = re.compile(r"[\d+/_: -]+\Z")

_LINES = re.compile(r"l(\d{1,6})(?:-l?(\d{1,6}))?\Z")  # `L88-L92`

_NAMED_RANGE = re.compile(r"([a-z]{1,12}[-_]?)(\d{1,5})-(?:\1)?(\d{1,5})\Z")  # `WP6-WP10`

_LINE = "\n"

_AMOUNTS = re.compile(r"[1-9]\d{1,3}(?:/[1-9]\d{1,3}){2,}\Z")  # one of each: `56/106/355`

_ESCAPED = re.compile(r"(?<=\w)\\{1,4}(?=[.-]\w)")  # in a pattern: `4\.39`

_PLACEHOLDER = re.compile(
    r"\$?\{[a-z_]{1,40}\}|<[a-z][a-z_ -]{0,40}>|\$[a-z]{2,20}(?!\w)|(?<![\w)\]])\[[a-z][a-z -]{0,40}\]"
)

_OPEN_PARTS = re.compile(rf"(\*\*/?\*?|\*|\?|{LEFT_OPEN})")

_OPEN_START = re.compile(rf"\A(?:/|\*|{LEFT_OPEN})+(?=.)")

_IN_PATH, _IN_NAME = r"[^\s\"'`,;|]", r"[^\s\"'`,;|/]"

_BEFORE_ALONE, _BEHIND_ALONE = r"(?<![\w/])", r"(?!\w|/\w)"  # around what is no part of a path

_LISTING = 2_000  # characters behind a folder in which its files are listed

_CODE_MARKS = re.compile(r"[\s,;|()\[\]{}<>\"'`=&!?]+")

_AROUND = ".:/*+~^\\"  # a word of code

_SHORTEST_CUT = 9  # characters of an id that is cut short, with the mark of it

_SHORTEST_STEM = 4


class SourceValues:
    """The source of one summary. What it has to be asked for is made when it is first needed."""

    def __init__(self, source: str) -> None:
        self._source = source

    def hold(self, literal: ExactValue) -> bool:
        """Whether the source bears a literal out."""
        meaning = literal.meaning
        if isinstance(meaning, Quantity):
            # a sign stands before the digits, and counts; of words a part may stand there
            as_it_stands = not (meaning.unit in CURRENCIES or meaning.negative or meaning.spelled)
            return (as_it_stands and self._has_number(literal.text, meaning)) or self._quantities.supports(meaning)
        if isinstance(meaning, Day):
            return self._calendar.has_day(meaning) or self._has(literal.text)
        if isinstance(meaning, Time):
            return self._calendar.has_time(meaning) or self._has(literal.text)
        if literal.kind == "setting":
            key, _, value = literal.text.partition("=")
            return self._has(literal.text) or (self._has(key) and self._may_be(key, value))
        if literal.kind == "pattern":
            return self._has_pattern(literal.text.removeprefix("./").strip("/"))
        if literal.kind in ("quote", "code"):
            text = literal.text.replace("\\", "/")
            return all(map(self._has_quote, _GAPS.split(text))) or (literal.kind == "code" and self._has_code(text))
        setting = _SETTING.fullmatch(literal.text)
        return (setting is None or self._may_be(setting["key"], setting["value"])) and self._has_token(literal)

    def swapped(self, line: str) -> list[str]:
        """The values of a line that the source tells the other way round."""
        labels = labels_in(plain(line))
        return list(self._labelled.swapped(labels)) if len(labels) > 1 else []

    def _may_be(self, key: str, value: str) -> bool:
        """Whether a setting may have this value: the source sets it to no other, or tells this one beside its name."""
        other = r"\d" if value[0].isdigit() else r"\w"
        name = rf"(?<![\w-]){re.escape(key)}(?![\w-])"
        if not re.search(rf"{name}[\"'`]{{0,2}} ?[:=] ?[\"'`]{{0,2}}{other}", self._text):
            return True
        if not value[0].isdigit():
            return re.search(rf"{name}(?:\W+\w{{1,4}}){{0,2}}\W+{re.escape(value)}(?!\w)", self._text) is not None
        number = rf"(?<![\w.]){re.escape(value)}(?![\w]|\.\d)"
        places = (self._text[max(0, at.start() - _BESIDE) : at.end() + _BESIDE] for at in re.finditer(name, self._text))
        return any(re.search(number, place) for place in places)

    @cached_property
    def _text(self) -> str:
        text = cleaned(self._source)
        text = f"{text}\n{_ESCAPED.sub('', text)}" if _ESCAPED.search(text) else text
        colours = " ".join(set(COLOURS.findall(self._source)))
        text = plain(f"{text}\n{unescaped(text)}\n{colours}" if "\\" in text else f"{text}\n{colours}")
        return _TICKS.sub(_tick, text).replace("\\", "/") if "`" in text else text.replace("\\", "/")

    @cached_property
    def _labelled(self) -> LabelledValue:
        return LabelledValue([plain(line) for line in unescaped(cleaned(self._source)).split("\n")])

    @cached_property
    def _words(self) -> str:
        return words_only(self._text)

    @cached_property
    def _lines(self) -> str:
        lines = unescaped(cleaned(self._source)).split("\n")
        return f"{_LINE}{_LINE.join(words_only(plain(bare(line))) for line in lines)}{_LINE}"

    @cached_property
    def _quantities(self) -> Quantities:
        return Quantities(self._text)

    @cached_property
    def _calendar(self) -> Calendar:
        return Calendar(self._text)

    def _has(self, wanted: str, *, whole: bool = True) -> bool:
        """Whether it stands there as whole words; without `whole` it may be the beginning of a longer one."""
        text, at = self._text, -1
        if not wanted:
            return True
        while (at := text.find(wanted, at + 1)) >= 0:
            end = at + len(wanted)
            if wanted[0].isalnum() and at and text[at - 1].isalnum():
                continue
            if not (whole and wanted[-1].isalnum() and end < len(text) and text[end].isalnum()):
                return True
        return False

    def _has_number(self, spelled: str, number: Quantity) -> bool:
        """Whether a number stands there just so: the quick answer, and in most cases the only one needed."""
        if spelled.isdigit() and len(spelled) > 6 and self._has(spelled, whole=False):
            return True  # a hash cut short may have no letter
        if "." in spelled and number.unit is None and self._has(f"{spelled}."):
            return True  # a version without its last part
        text, at = self._text, -1
        while (at := text.find(spelled, at + 1)) >= 0:
            before, after = text[max(0, at - 1) : at], text[at + len(spelled) : at + len(spelled) + 2]
            if not (before.isalnum() or before in ("_", ".", ",")) and not _GOES_ON.match(after):
                return True
        return False

    def _has_quote(self, part: str) -> bool:
        inner = part.strip(" .,;:!?'\"-()")
        if len(inner) < 4 or self._has(inner):
            return True
        words = words_only(inner)
        return words in self._words or self._has_lines(words.split())

    def _has_code(self, code: str) -> bool:
        """Whether each word of a line of code stands there, and each number with its unit; a placeholder need not."""
        if any(number.unit and not self._quantities.supports(number) for number in find_quantities(code)):
            return False
        words = (word.strip(_AROUND) for word in _CODE_MARKS.split(_PLACEHOLDER.sub(" ", code)))
        return all(self._has_part(word) for word in words if word)

    def _has_pattern(self, pattern: str) -> bool:
        """Whether a path or name stands there that a pattern describes, or a folder and what is listed below it."""
        bare = _OPEN_START.sub("", pattern)
        if self._stands(bare, "" if bare[0] == "." else r"(?<!\w)", "" if bare[-1] == "*" else r"(?!\w)"):
            return True
        cuts = [(pattern[:at], pattern[at + 1 :]) for at, char in enumerate(pattern) if char == "/"]
        return any(
            "/" in folder
            and "://" not in pattern
            and self._stands(folder, r"(?<!\w)", r"(?!\w)")
            and self._stands(rest, "/" if _OPEN_PARTS.match(rest) else _BEFORE_ALONE, _BEHIND_ALONE)
            for folder, rest in cuts
        )

    def _stands(self, pattern: str, start: str, end: str) -> bool:
        return re.search(_described(pattern, start, end), self._text) is not None

    def _has_lines(self, words: list[str], first: bool = True) -> bool:
        """Whether words stand there once whole lines between them are left out."""
        for length in range(len(words), 0, -1):
            start = " " if first else f"{_LINE} "
            stop = " " if length == len(words) else f" {_LINE}"
            if f"{start}{' '.join(words[:length])}{stop}" in self._lines:
                return length == len(words) or self._has_lines(words[length:], first=False)
        return False

    def _has_token(self, literal: ExactValue) -> bool:
        text = literal.text.replace("\\", "/")
        if literal.kind == "path":
            text = re.sub(r"\A(?:\.{1,2}/|~/)+", "", text)
        core = text.strip("/").removesuffix("'s").removesuffix("()")
        if literal.kind == "address" and "://" not in text:
            return self._has_mail(text)
        if self._has(text) or self._has(core) or ("\\" in literal.text and words_only(core) in self._words):
            return True
        if core.startswith("--") and "=" not in core:  # as an option is declared: `long: 'force'`
            return any(f"{mark}{core[2:]}{mark}" in self._text for mark in "'\"")
        if literal.kind == "term":
            return self._has(core[: max(_SHORTEST_STEM, len(core) - 3)], whole=False)
        if literal.kind == "id" and self._has_id(core):
            return True
        if literal.kind == "name" and self._begins_name(core):
            return True
        if literal.kind == "pair":  # a path, or `read/write`, whose words may stand apart
            return all(map(self._has, core.split("/")))
        if literal.kind == "choice":
            parts = core.split("/")
            no_folder = all(map(self._has, parts)) and not self._has(f"{parts[0]}/")
            return no_folder or all(map(self._has_alone, parts)) or not any(map(self._has_in_path, parts))
        if literal.kind == "path" and (self._has_joined(core) or self._has_each(literal.text.replace("\\", "/"))):
            return True
        if _DIGITS.match(core):
            return False
        if labelled := _LABELLED.fullmatch(core):
            return all(map(self.hold, find_literals(labelled["value"])))
        parts = [part for part in _JOINTS.split(core) if part]
        if literal.kind == "name" and "." in core:
            parts = core.split(".")
        if literal.kind == "address" or parts in ([], [core]):
            return False
        return self._has_cut(core) or all(map(self._has_part, parts))

    def _begins_name(self, name: str) -> bool:
        """Whether a longer name begins so, and goes on with a capital: `queueMode` of `queueModeSelector`."""
        found = re.finditer(rf"(?<![^\W_]){re.escape(name)}(?=(.))", self._source, re.IGNORECASE)
        return any(at[1].isupper() for at in found)

    def _has_in_path(self, part: str) -> bool:
        """Whether a name stands in a path: then another path with it is none that a writer makes up as `pass/fail`."""
        return len(part) >= _SHORTEST_STEM - 1 and (self._has(f"/{part}") or self._has(f"{part}/"))

    def _has_alone(self, part: str) -> bool:
        """Whether a word stands there, and not as a part of a path."""
        return re.search(f"{_BEFORE_ALONE}{re.escape(part)}{_BEHIND_ALONE}", self._text) is not None

    def _has_each(self, joined: str) -> bool:
        """Whether slashes join what stands there alone, of one sort: `Open/Stat/os.Remove`, `io.c/net.c`."""
        parts = joined.split("/")  # of a path from the root, or to a folder, one is empty
        files = [FILE.fullmatch(part) is not None for part in parts]
        return all(files) == any(files) and all(part.strip("~.") and self._has_alone(part) for part in parts)

    def _has_joined(self, path: str) -> bool:
        """Whether a folder stands there, and the rest of the path on its own: what is listed stands below a folder."""
        cuts = [(path[:at], path[at + 1 :]) for at, char in enumerate(path) if char == "/"]
        return any(
            self._has(folder)
            and (self._has(f".../{rest}") or ("/" in folder[1:] and self._has_alone(rest)) or self._lists(folder, rest))
            for folder, rest in cuts
        )

    def _lists(self, folder: str, rest: str) -> bool:
        """Whether a folder is told by itself, and soon after it what would stand in it."""
        told = re.finditer(rf"(?<!\w){re.escape(folder)}/(?!\w)|/{re.escape(folder)}(?![\w/.-])", self._text)
        alone = re.compile(f"{_BEFORE_ALONE}{re.escape(rest)}{_BEHIND_ALONE}")
        return any(alone.search(self._text, at.end(), at.end() + _LISTING) for at in told)

    def _has_mail(self, text: str) -> bool:
        """Whether an address stands there, and not as a part of a longer one."""
        return re.search(rf"(?<![\w.+-]){re.escape(text)}(?!\.?[\w+-])", self._text) is not None

    def _has_cut(self, text: str) -> bool:
        """Whether something stands there that begins and ends so: `3f2a...77e0`."""
        ends = _CUT.split(text)
        if len(ends) != 2 or not all(ends):
            return False
        first, last = map(re.escape, ends)
        return re.search(rf"(?<!\w){first}[\w-]{{1,80}}{last}(?!\w)", self._text) is not None

    def _has_id(self, text: str) -> bool:
        """An id may be told with other separators, a hash cut short, a version without its last part."""
        if _HEX.match(text):
            return self._has(text, whole=False)
        if _VERSION.match(text):
            return self._has(text.removeprefix("v")) or self._has(f"v{text}")
        if series := _SERIES.match(text):
            return any(self._has(f"{mark}{series[1]}.", whole=False) for mark in ("", "v"))
        if major := _MAJOR.match(text):  # of `3.1`, or `version 3`
            number = major[1]
            return re.search(rf"(?<![\w.])(?:version:? ?{number}(?!\w)|{number}\.\d)", self._text) is not None
        if text.endswith("..."):
            return len(text) >= _SHORTEST_CUT and self._has(text.rstrip("."), whole=False)
        if any(map(self._quantities.has_seconds, durations(text))):
            return True
        if ends := _NAMED_RANGE.match(text):
            return self._has(f"{ends[1]}{ends[2]}") and self._has(f"{ends[1]}{ends[3]}")
        if lines := _LINES.match(text):
            return all(self._has(line) for line in lines.groups() if line)
        if _AMOUNTS.match(text) and all(map(self._has, text.split("/"))):
            return True
        if _DIGITS.match(text) and self._has(re.sub(r"\D", "", text)):
            return True
        return _SEPARATORS.search(text) is not None and words_only(_SEPARATORS.sub(" ", text)) in self._words

    def _has_part(self, part: str) -> bool:
        if self._has(part):
            return True
        inside = find_literals(part)
        return bool(inside) and all(map(self.hold, inside))


def _described(pattern: str, start: str, end: str) -> str:
    """The regular expression of what a pattern of paths describes. The text of a source has no stars.

    What is left open is as short as it can be, and is not tried again: so a search takes no longer than it must.
    """
    first, *parts = _OPEN_PARTS.split(pattern)
    pieces = [re.escape(piece) for piece in (first, *parts[1::2])]
    pieces[-1] += end
    opens = map(_left_open, parts[::2])
    return start + pieces[0] + "".join(f"(?>{opened}{piece})" for opened, piece in zip(opens, pieces[1:], strict=True))


def _left_open(part: str) -> str:
    if part.startswith("**"):
        return f"{_IN_PATH}{{0,200}}?"
    return _IN_NAME if part == "?" else f"{_IN_NAME}{{{int(part != '*')},100}}?"


def _tick(found: re.Match[str]) -> str:
    """What is left of the marks of code: they part words, and stand at the edges of others."""
    text, (start, stop) = found.string, found.span()
    return " " if start and text[start - 1].isalnum() and text[stop : stop + 1].isalnum() else ""


def source_values(job: SummaryJob) -> SourceValues:
    """What a summarizer is given: the content, and what the job tells of itself."""
    facts = (job.range_hash, job.start, job.stop, job.stop - 1, job.stop - job.start)
    return SourceValues(f"{job.content}\n{' '.join(map(str, facts))}")
