"""A host's copy of a conversation beside the log.

Hosts keep transcripts without their system rows and give them back when a session is resumed; a log that is whole must
not lose those rows by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from summarizing_context.log.entries import Facts, Role


class Comparison(NamedTuple):
    """How far a transcript and a log go together. They are the `same` if nothing is missing but what may be left out;
    else one goes on where the other ends, or they differ."""

    found: Literal["same", "longer_log", "longer_transcript", "different"]
    transcript_stop: int  # messages of the transcript until the log ends or differs


def _may_be_left_out(facts: Facts) -> bool:
    """Return whether a host may leave this message out of its transcripts."""
    return facts.role in (Role.SYSTEM, Role.DEVELOPER) or facts.hook or facts.ephemeral


def compare(transcript: Sequence[bytes], log: Iterable[Facts]) -> Comparison:
    """Compare a transcript, as content digests, with a log."""
    reached = {0}  # how many of the transcript may have been met, as a row left out can equal one that is not
    length = len(transcript)
    was_met = not transcript  # whether all of the transcript was met at some place of the log
    for facts in log:
        met = {at + 1 for at in reached if at < length and transcript[at] == facts.content}
        now = met | reached if _may_be_left_out(facts) else met
        if not now:
            return Comparison("longer_log" if was_met else "different", max(reached))
        reached = now
        was_met = was_met or length in reached
    if length in reached:
        return Comparison("same", length)
    return Comparison("longer_log" if was_met else "longer_transcript", max(reached))
