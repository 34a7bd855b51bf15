"""Whether words that could lift a rule are meant so: not reported, supposed, asked or said of some other place.

Pure. What they lift is for `lifting`; here only what stands before them is read.
"""

from __future__ import annotations

import re

_ASKS = re.compile(  # with no question mark behind it
    r"\W*(?:(?:ok|okay|so|and|but|well|hey)\W+)?(?:(?:is|are|am|was|does|did|may|should|what|why|how|who|which|where|"
    r"suppose|imagine|assume|pretend)\b|(?:can|could|would|will|do) (?:i|we|they|one)\b)"
)
_REPORTS = re.compile(
    r"(?<!\bi )(?<!i've )\b(?:says?|said|saying|writes?|wrote|written|tells?|told|claim(?:s|ed)?|stated?|states|reads?|"
    r"suggest(?:s|ed)?|heard|reportedly|apparently)\b"
)
_SUPPOSES = re.compile(
    r"\b(?:whether|why|how|maybe|perhaps|possibly|might|would|wish|wished|hope|think|thought(?!s?,)|guess|suppose|"
    r"imagine|assume|pretend|explain|make sure|ensures?|so that|such that|theory|theoretically|hypothetically|lets?|"
    r"allows?|enables?)\b|\b(?:check|test|verify|document|prove|see|show|notice|note)(?: that)?\W*$"
)
_ELSEWHERE = re.compile(
    r"\W*(?:in|with|via|through|using|on|under|at|for)\b(?! (?:fact|general|second|that|this|my side|the record)\b)"
)


def is_aside(before: str) -> bool:
    """Whether the words behind `before`, the lower-case beginning of their sentence, are not meant for now and here."""
    if before.count('"') % 2 or before.count("“") > before.count("”"):
        return True
    return bool(_ASKS.match(before) or _REPORTS.search(before) or _SUPPOSES.search(before) or _ELSEWHERE.match(before))
