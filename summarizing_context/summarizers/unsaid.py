"""Units that a source leaves unsaid: bytes in a listing of files, seconds of a timeout, money of a price.

Pure. `106625 Apr 30 08:32 CHANGELOG.md` bears out 107 KB, `"ttl": 86400` a day, and `"price": 53` 53 dollars.
"""

from __future__ import annotations

import re

from summarizing_context.summarizers.units import CURRENCIES

_LISTED = re.compile(
    r" (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec) {1,2}\d{1,2} {1,2}(?:\d\d:\d\d|\d{4})(?!\w)"
)
_LASTING = re.compile(
    r"(?:ttl|timeout|time_out|max[_-]age|interval|delay|expires_in|lifetime|elapsed|duration)\"?[ =:]{1,3}\Z"
)
_MONEY = re.compile(r"price|cost|amount|fare|fees?\b|balance|paid|payment|charge|refund")
_KEY = 24  # characters before a number in which its name stands
_NEAR = 80  # and in which it is said what is counted: `"prices": {"economy": 162, "business": 364}`


def unsaid_units(text: str, start: int, stop: int) -> tuple[str, ...]:
    """The units that a number of a plain text may have where none stands beside it."""
    if _LISTED.match(text, stop):
        return ("b",)
    if _LASTING.search(text, max(0, start - _KEY), start):
        return ("s", "ms")
    return CURRENCIES if _MONEY.search(text, max(0, start - _NEAR), start) else ()
