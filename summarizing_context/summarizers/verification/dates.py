"""Dates and times of day in a text, and whether one bears another out.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_MONTHS = "january february march april may june july august september october november december"

_MONTH = {name[:length]: at for at, name in enumerate(_MONTHS.split(), 1) for length in (3, len(name))} | {"sept": 9}

_NAME = rf"(?P<month>{'|'.join(sorted(_MONTH, key=len, reverse=True))})\.?"

_YEAR = r"(?:,? (?P<year>(?:19|20)\d\d))"

_END = r"(?![\w]|[.:]\d)"

_FORMS = tuple(
    re.compile(rf"(?<![\w.]){form}")
    for form in (
        rf"(?P<year>\d{{4}})[-/.](?P<number>\d{{1,2}})[-/.](?P<day>\d{{1,2}})(?:t(?=\d\d:\d\d)|{_END})",
        rf"(?P<day>\d{{1,2}})[-/.](?P<number>\d{{1,2}})[-/.](?P<year>\d{{4}}){_END}",
        rf"{_NAME} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?{_YEAR}?{_END}",
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)?[ -]{_NAME}(?:[ -](?P<year>\d{{4}}))?{_END}",
        rf"{_NAME}{_YEAR}{_END}",
    )
)

_TIME = re.compile(
    r"(?<![\d:.])(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<part>\d+))?)?"
    r"(?: ?(?P<half>[ap])\.?m\b|z|\+\d\d:\d\d|(?<=:\d\d:\d\d)-\d\d:\d\d(?!:\d))?| ?(?P<only>[ap])\.?m\b)(?!:?\d)"
)

_STAMP = re.compile(r"(?<!\d)(\d{4})(\d\d)(\d\d)(?!\d)|(?<!\d)(\d{4})-(\d\d)-(\d\d)(?=t\d)")

_YEARS = re.compile(r"(?<!\d)\d{4}(?=(?:\d{4})?(?!\d))")

_FROM = re.compile(  # of `3-4 pm`
    r"(?<![\d:.])(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?:-|to|and|until) ?\d{1,2}(?::\d\d)? ?(?P<half>[ap])\.?m\b"
)

_CLOCK = re.compile(r"(?<!\d)\d{8}[t_-](\d\d)(\d\d)(\d\d)?(?!\d)")  # 20260309T143005


class Day(NamedTuple):
    """A date; 0 for what is not told."""

    year: int
    month: int
    day: int
    either: bool  # month and day may be told the other way round
    start: int
    stop: int


class Time(NamedTuple):
    """A time of day. Without `half` an hour up to 12 may be either."""

    minutes: int
    seconds: int | None
    half: bool  # am or pm was told, or the hour is past 12
    start: int
    stop: int
    part: str = ""  # of a second: the digits behind the point


def find_days(text: str) -> Iterator[Day]:
    """The dates in a plain text; one that can be read in two ways is told twice."""
    for form in _FORMS:
        for found in form.finditer(text):
            groups = found.groupdict()
            month = _MONTH[groups["month"]] if groups.get("month") else int(groups.get("number") or 0)
            day, year = int(groups.get("day") or 0), int(groups.get("year") or 0)
            either = form is _FORMS[1]
            is_a_day = max(month, day) <= 31 or bool(groups.get("month") and year)  # `May 54, 2024` is told as one
            if year == 0 and found[0].endswith(" may") and found[0][:-4].isdigit():
                continue  # `case 2 may fail`
            if 1 <= min(month, day or month) <= 12 and is_a_day and (either or month <= 12):
                yield Day(year, month, day, either, found.start(), found.end())


def find_times(text: str) -> Iterator[Time]:
    """The times of day in a plain text."""
    for found in _TIME.finditer(text):
        hour, minute = int(found["hour"]), int(found["minute"] or 0)
        half = found["half"] or found["only"]
        if hour < 25 and minute < 60:
            hour = hour % 12 + 12 * (half == "p") if half else hour
            seconds = int(found["second"]) if found["second"] else None
            part = found["part"] or ""
            yield Time(60 * hour + minute, seconds, bool(half) or hour > 12, found.start(), found.end(), part)


class Calendar:
    """The dates and times of a source, ready to be asked."""

    def __init__(self, text: str) -> None:
        self._days = {spelling for day in find_days(text) for spelling in _spellings(day)}
        for found in _STAMP.finditer(text):
            year, month, day = (int(part) for part in found.groups() if part)
            self._days.add((year, month, day))
        self._years = set(map(int, _YEARS.findall(text)))
        self._times = list(find_times(text))
        for found in _FROM.finditer(text):
            minutes = 60 * (int(found["hour"]) % 12) + int(found["minute"] or 0)
            self._times.append(Time(minutes, None, False, found.start(), found.end()))
        for found in _CLOCK.finditer(text):
            hour, minute, second = (int(part or 0) for part in found.groups())
            self._times.append(Time(60 * hour + minute, second, hour > 12, found.start(), found.end()))

    def has_day(self, wanted: Day) -> bool:
        """Whether this date stands there; a year that is told apart from its day must stand there too."""
        return (wanted.year == 0 or wanted.year in self._years) and any(
            month == wanted_month and wanted_day in (0, day) and (year == wanted_year or 0 in (year, wanted_year))
            for wanted_year, wanted_month, wanted_day in _spellings(wanted)
            for year, month, day in self._days
        )

    def has_time(self, wanted: Time) -> bool:
        """Whether this time stands there; it may leave out seconds and parts of them, not add any."""
        return any(_same_time(wanted, time) and time.part.startswith(wanted.part) for time in self._times)


def _spellings(day: Day) -> list[tuple[int, int, int]]:
    one, other = (day.year, day.month, day.day), (day.year, day.day, day.month)
    return [one, other] if day.either else [one]


def _same_time(one: Time, other: Time) -> bool:
    if one.seconds is not None and other.seconds is not None and one.seconds != other.seconds:
        return False
    if one.half and other.half:
        return one.minutes == other.minutes
    return one.minutes % 720 == other.minutes % 720
