"""A host's copy of a conversation beside the log: what both have, what only one has.

Pure. Hosts keep transcripts without their system rows and give them back when a session is resumed; a log that is
whole must not lose those rows by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from summarizing_context.core.entries import Facts, Role

_LEFT_OUT = frozenset({Role.SYSTEM, Role.DEVELOPER})


class Comparison(NamedTuple):
    """How far a transcript and a log go together."""

    logged: int  # messages of the log until the transcript ends or differs; with those of ours that it leaves out
    told: int  # messages of the transcript until the log ends or differs
    rest_of_log: bool  # the log goes on where the transcript ends
    rest_of_transcript: bool  # the transcript goes on where the log ends
    differs: bool

    @property
    def is_known(self) -> bool:
        """Whether the transcript is the log, with nothing missing but what may be left out."""
        return not (self.rest_of_log or self.rest_of_transcript or self.differs)


def may_be_left_out(facts: Facts) -> bool:
    """Whether a host may leave this message out of its transcripts: system, developer, hook and ephemeral rows."""
    return facts.role in _LEFT_OUT or facts.hook or facts.ephemeral


def compare(transcript: Sequence[bytes], log: Iterable[Facts]) -> Comparison:
    """Compare a transcript, told by content digests, with a log."""
    reached = {0}  # how many of the transcript may have been met, as a row left out can equal one that is not
    logged, all_told = 0, len(transcript)
    ended = None if transcript else 0  # of the log, where all of the transcript was met first
    for facts in log:
        met = {at + 1 for at in reached if at < all_told and transcript[at] == facts.content}
        now = met | reached if may_be_left_out(facts) else met
        if not now:
            told = max(reached)
            return Comparison(logged if ended is None else ended, told, ended is not None, False, ended is None)
        reached, logged = now, logged + 1
        if ended is None and all_told in reached:
            ended = logged
    if all_told in reached:
        return Comparison(logged, all_told, False, False, False)
    if ended is not None:
        return Comparison(ended, all_told, True, False, False)
    return Comparison(logged, max(reached), False, True, False)
