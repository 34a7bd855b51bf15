"""Telling a host's filtered transcript from another log.

Pure. Hosts keep transcripts without their system rows and give them back when a session is resumed; a log that is
whole must not lose those rows by that. Anything but such a transcript is another log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from summarizing_context.core.entries import Facts, Role

_LEFT_OUT = frozenset({Role.SYSTEM, Role.DEVELOPER})


def may_be_left_out(facts: Facts) -> bool:
    """Whether a host may leave this message out of its transcripts: system, developer, hook and ephemeral rows."""
    return facts.role in _LEFT_OUT or facts.hook or facts.ephemeral


def is_transcript_of(transcript: Sequence[bytes], log: Iterable[Facts]) -> bool:
    """Whether the messages with these content digests are the log, with nothing missing but what may be left out."""
    reached = {0}  # how many of the transcript may have been met, as a row left out can equal one that is not
    for facts in log:
        met = {at + 1 for at in reached if at < len(transcript) and transcript[at] == facts.content}
        reached = met | reached if may_be_left_out(facts) else met
        if not reached:
            return False
    return len(transcript) in reached
