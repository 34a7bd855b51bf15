"""How important a group of messages is: a number from 0 to 1, the same for the same log in any process.

Traits are read from a message alone; of long texts only both ends are looked at. The score is
1 - (1 - w1)(1 - w2)..., over the weights of what applies. So with the default threshold of 0.6 a constraint stays, an
error that a change answered or brought stays, a decision or a change stays while it is new, and what has no trait never
does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from math import prod

from summarizing_context.extraction.tool_calls import PATTERNS, first_error_line, verb_of
from summarizing_context.messages.reading import Reading

_DECISION, _ERROR, _WRITE, _CRITICAL, _STRICT, _SOFT = 1, 2, 4, 8, 16, 32
# A mark of the host's, a human's standing rule or preference, a choice, a call that changes something, a failed result.
_WEIGHTS = {_CRITICAL: 1.0, _STRICT: 0.7, _SOFT: 0.4, _DECISION: 0.5, _WRITE: 0.4, _ERROR: 0.35}

_COMMAND = re.compile(r'"(?:command|cmd|script)"\s?:\s?"((?:[^"\\]|\\.){1,400})')


def read_traits(reading: Reading, strengths: Collection[str]) -> int:
    """Return what is noteworthy in a message, as flags, given how strong the rules are that it states."""
    flags = _CRITICAL * reading.critical | _STRICT * ("must" in strengths) | _SOFT * ("prefer" in strengths)
    for part in reading.parts:
        if part.kind == "result":
            flags |= _ERROR * (part.failed or any(first_error_line(_ends(text), False) for text in part.texts))
        elif part.kind == "call":
            # it changes something: by its tool's name, a patch, or the command that it runs
            arguments = _ends("".join(part.texts))
            command = found[1] if (found := _COMMAND.search(arguments)) else ""
            verb = verb_of(part.name) or (verb_of(command) if command.isidentifier() else "")
            kinds = () if command.isidentifier() else ("commits", "changes")
            is_said = "*** Begin Patch" in arguments or any(PATTERNS[kind].search(command) for kind in kinds)
            flags |= _WRITE * bool(verb or is_said)
    written = (text for part in reading.parts if part.kind == "text" for text in part.texts)
    said = written if reading.role == "assistant" else reading.typed
    return flags | _DECISION * any(PATTERNS["choice"].search(" ".join(_ends(text).lower().split())) for text in said)


def _ends(text: str) -> str:
    return text if len(text) <= 2_000 else f"{text[:1_000]}\n{text[-1_000:]}"


def rank_groups(groups: Iterable[tuple[int, int]], stop: int, threshold: float) -> list[int]:
    """Return the first entry of each group before entry `stop` that scores at least `threshold`, the most important
    first, newer ones before older ones that score the same.

    Args:
        groups: All closed groups of a log: the first entry of each, and the traits of all its messages.
        stop: Later groups are no candidates.
        threshold: The least score.
    """
    found = [*groups]
    ranked: list[tuple[float, int]] = []
    for number, (start, traits) in enumerate(found):
        if traits & _STRICT:
            traits &= ~_SOFT
        age = 1 - 0.2 * (number / (len(found) - 1) if len(found) > 1 else 1.0)  # most for the newest
        rest = prod((1 - weight for flag, weight in _WEIGHTS.items() if traits & flag), start=age)
        if start < stop and 1 - rest >= threshold:
            ranked.append((1 - rest, start))
    return [start for _, start in sorted(ranked, reverse=True)]
