"""Units that a source leaves unsaid: bytes in a listing of files, seconds of a timeout, money of a price.

Pure. `106625 Apr 30 08:32 CHANGELOG.md` bears out 107 KB, `"ttl": 86400` a day, `"price": 53` 53 dollars,
`total_cents: 4500` 45 of them, and `0:01:01` 61 seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from summarizing_context.summarizers.units import CURRENCIES

_LISTED = re.compile(
    r" (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec) {1,2}\d{1,2} {1,2}(?:\d\d:\d\d|\d{4})(?!\w)"
)
_LASTING = re.compile(
    r"(?:ttl|timeout|time_out|max[_-]age|interval|delay|expires_in|lifetime|elapsed|duration)\"?[ =:]{1,3}\Z"
)
_SIZED = re.compile(r"(?:size|length)(?: is| of)?\"?[ =:]{1,3}\Z")
_CENTS = re.compile(r"(?:cents|pence)\"?[ =:]{1,3}\Z")
_CLOCK = re.compile(r"(?<![\d:t.-])0{1,2}:(\d\d):(\d\d)(?![\d:])")
_COMPOUND = re.compile(r"(?<![\w.])(?:(\d{1,4})h ?)?(\d{1,4})m ?(\d{1,2})(?:\.\d{1,9})?s(?!\w)")
_MONEY = re.compile(r"price|cost|amount|fare|fees?\b|balance|paid|payment|charge|refund")
_KEY = 24  # characters before a number in which its name stands
_NEAR = 80  # and in which it is said what is counted: `"prices": {"economy": 162, "business": 364}`


def durations(text: str) -> Iterator[float]:
    """The seconds of what a plain text tells as a clock does, of less than an hour, and of `1h2m3s`."""
    for found in _CLOCK.finditer(text):
        yield 60.0 * int(found[1]) + int(found[2])
    for found in _COMPOUND.finditer(text):
        yield 3600.0 * int(found[1] or 0) + 60.0 * int(found[2]) + int(found[3])


def parts_of_money(text: str, start: int) -> bool:
    """Whether the number that begins there counts cents."""
    return _CENTS.search(text, max(0, start - _KEY), start) is not None


def unsaid_units(text: str, start: int, stop: int) -> tuple[str, ...]:
    """The units that a number of a plain text may have where none stands beside it."""
    if _LISTED.match(text, stop) or _SIZED.search(text, max(0, start - _KEY), start):
        return ("b",)
    if _LASTING.search(text, max(0, start - _KEY), start):
        return ("s", "ms")
    return CURRENCIES if _MONEY.search(text, max(0, start - _NEAR), start) else ()
