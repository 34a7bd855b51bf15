"""Units of numbers: how they are spelled, what they measure, and which a source leaves unsaid.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

SCALES = {  # of a unit: what it measures, and how much of it
    "time": {
        "ns": 1e-9,
        "us": 1e-6,
        "ms": 1e-3,
        "s": 1.0,
        "min": 60.0,
        "h": 3600.0,
        "day": 86_400.0,
        "week": 604_800.0,
    },
    "months": {"month": 1.0, "year": 12.0},
    "size": {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12},
    "binary size": {"b": 1.0, "kb": 1024.0, "mb": 1024.0**2, "gb": 1024.0**3, "tb": 1024.0**4},
    "rate of bits": {"kbps": 1e3, "mbps": 1e6, "gbps": 1e9},
    "frequency": {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9},
    "length": {"mm": 1e-3, "cm": 1e-2, "km": 1e3},
    "miles": {"mile": 1.0},
    "weight": {"kg": 1e3, "mg": 1e-3},
    "pounds of weight": {"lb": 1.0},
    "volume": {"ml": 1.0},
    "power": {"kw": 1e3, "mw": 1.0},  # of a megawatt or a milliwatt nobody writes the other
    "energy": {"kwh": 1.0},
    "celsius": {"°c": 1.0, "°": 1.0},
    "fahrenheit": {"°f": 1.0, "°": 1.0},
    "rotation": {"rpm": 1.0},
    "frames": {"fps": 1.0},
    "share": {"%": 1.0},
    "screen": {"px": 1.0},
    "times": {"x": 1.0},
    "dollars": {"$": 1.0},
    "euros": {"€": 1.0},
    "pounds": {"£": 1.0},
}

_OTHER_SPELLINGS = {
    "ns": "nanosecond nanoseconds",
    "us": "µs μs microsecond microseconds",
    "ms": "msec millisecond milliseconds millis",
    "s": "sec secs second seconds",
    "min": "mins minute minutes",
    "h": "hr hrs hour hours",
    "day": "d days",
    "week": "weeks",
    "month": "months",
    "year": "years",
    "b": "byte bytes",
    "kb": "kib kilobyte kilobytes",
    "mb": "mib megabyte megabytes",
    "gb": "g gi gib gigabyte gigabytes",
    "tb": "tib terabyte terabytes",
    "mile": "mi miles",
    "lb": "lbs",
    "°": "degree degrees",
    "%": "percent pct percents",
    "px": "pixel pixels",
    "$": "usd dollar dollars",
    "€": "eur euro euros",
    "£": "gbp pound pounds",
}

UNITS = {unit: unit for scales in SCALES.values() for unit in scales} | {
    spelling: unit for unit, spellings in _OTHER_SPELLINGS.items() for spelling in spellings.split()
}

MANY = {
    "dozen": 12.0,
    "hundred": 1e2,
    "k": 1e3,
    "thousand": 1e3,
    "m": 1e6,
    "mn": 1e6,
    "mio": 1e6,
    "million": 1e6,
    "bn": 1e9,
    "billion": 1e9,
    "trillion": 1e12,
}

CURRENCIES = ("$", "€", "£")

M = "m"  # `30m` may be millions, minutes or metres

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
