"""A host's copy of a conversation beside the log: what both have, what only one has.

Hosts keep transcripts without their system rows and give them back when a session is resumed; a log that is
whole must not lose those rows by that.

`compare` goes by the order of both. `align` also finds what both have behind a difference: from it follow what only
the transcript has (`find_new`), and where the rows that it leaves out belong in it (`merge_rows`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from summarizing_context.concurrency import in_turns
from summarizing_context.log.entries import BREATH, Facts, Role, content_digest
from summarizing_context.messages.reading import parse_messages, read_message


class HostRow(NamedTuple):
    """A message of a transcript."""

    content: bytes  # digest of what it says
    calls: tuple[str, ...]
    answers: tuple[str, ...]
    ephemeral: bool


class Comparison(NamedTuple):
    """How far a transcript and a log go together. They are the `same` if nothing is missing but what may be left out;
    else one goes on where the other ends, or they differ."""

    log_stop: int  # messages of the log until the transcript ends or differs; with those that it leaves out
    transcript_stop: int  # messages of the transcript until the log ends or differs
    found: Literal["same", "longer_log", "longer_transcript", "different"]
    transcript: Sequence[HostRow] = ()  # what was compared, where it is kept
    log: Sequence[Facts] = ()


async def read_rows(messages: object) -> list[HostRow]:
    """The messages of a host's transcript. Raises `MessageError`."""
    found: list[HostRow] = []
    async for message, _ in in_turns(parse_messages(messages), BREATH):
        reading = read_message(message)
        found.append(HostRow(content_digest(reading), reading.calls, reading.answers, reading.ephemeral))
    return found


def may_be_left_out(facts: Facts) -> bool:
    """Whether a host may leave this message out of its transcripts: system, developer, hook and ephemeral rows."""
    return facts.role in (Role.SYSTEM, Role.DEVELOPER) or facts.hook or facts.ephemeral


def compare(transcript: Sequence[bytes], log: Iterable[Facts]) -> Comparison:
    """Compare a transcript, told by content digests, with a log."""
    reached = {0}  # how many of the transcript may have been met, as a row left out can equal one that is not
    log_stop, length = 0, len(transcript)
    ended = None if transcript else 0  # of the log, where all of the transcript was met first
    for facts in log:
        met = {at + 1 for at in reached if at < length and transcript[at] == facts.content}
        now = met | reached if may_be_left_out(facts) else met
        if not now:
            if ended is None:
                return Comparison(log_stop, max(reached), "different")
            return Comparison(ended, max(reached), "longer_log")
        reached, log_stop = now, log_stop + 1
        if ended is None and length in reached:
            ended = log_stop
    if length in reached:
        return Comparison(log_stop, length, "same")
    if ended is not None:
        return Comparison(ended, length, "longer_log")
    return Comparison(log_stop, max(reached), "longer_transcript")


def align(transcript: Sequence[bytes], log: Sequence[bytes]) -> list[int | None]:
    """For each message of a transcript, told by content digests, its place in the log; None where it has none.

    Places rise. The longest common runs are placed first, of equal ones the last: what a copy lacks is mostly the
    beginning.
    """
    found: list[int | None] = [None] * len(transcript)
    matcher = SequenceMatcher(None, log[::-1], transcript[::-1], autojunk=False)
    for place, at, size in matcher.get_matching_blocks():
        for more in range(size):
            found[len(transcript) - 1 - at - more] = len(log) - 1 - place - more
    return found


def find_new(transcript: Sequence[HostRow], log: Sequence[Facts]) -> list[int]:
    """Which messages of a transcript the log does not hold, in order; ephemeral ones are none.

    What the log holds before the transcript begins counts for nothing: the same may be said again. Left out are results
    of calls that are answered, and calls that the log holds and of which no result is new: the log's own stand.
    """
    places = align([row.content for row in transcript], [row.content for row in log])
    met = {place for place in places if place is not None}
    first = next((at for at, row in enumerate(log) if not may_be_left_out(row)), len(log))
    begins_alike = not met or transcript[0].content in {row.content for row in log[: first + 1]}
    begin = 0 if begins_alike else min(met)
    left = Counter((row.content, row.answers) for at, row in enumerate(log[begin:], begin) if at not in met)
    new: list[int] = []
    for at, row in enumerate(transcript):
        if places[at] is None and not row.ephemeral:
            if left[row.content, row.answers]:
                left[row.content, row.answers] -= 1
            else:
                new.append(at)

    # those that the log can take behind its last message without answering a call twice
    called, unanswered = set[str](), set[str]()
    for facts in log:
        called.update(facts.calls)
        unanswered.update(facts.calls)
        unanswered.difference_update(facts.answers)
    answered = {id for at in new for id in transcript[at].answers}
    fit: list[int] = []
    for at in new:
        row = transcript[at]
        is_known = row.calls and called.issuperset(row.calls) and answered.isdisjoint(row.calls)
        if not is_known and (not row.answers or not unanswered.isdisjoint(row.answers)):
            unanswered.update(row.calls)
            unanswered.difference_update(row.answers)
            fit.append(at)
    return fit


def merge_rows(transcript: Sequence[HostRow], log: Sequence[Facts]) -> list[tuple[bool, int]]:
    """A transcript with the rows of the log that it leaves out and that may be left out: of each whether it is of the
    log, and its place there or in the transcript.

    Such a row stays in front of the row that follows it in the log, if the transcript holds that; else behind the row
    before it, if the transcript holds that and goes on there, or ends with it as the log does. Both begin alike.
    """
    places = align([row.content for row in transcript], [row.content for row in log])
    at_of = {place: at for at, place in enumerate(places) if place is not None}
    staying = defaultdict[int, list[int]](list)  # by the message of the transcript that they stand before
    waiting: list[int] = []
    after: int | None = 0 if transcript else None  # where the transcript goes on behind the last row
    for at, row in enumerate(log):
        here = at_of.get(at)
        if here is None and may_be_left_out(row):
            waiting.append(at)
            continue
        before = here if here is not None else after
        if before is not None and before < len(transcript):
            staying[before] += waiting
        waiting, after = [], None if here is None else here + 1
    if after is not None:
        staying[after] += waiting
    merged: list[tuple[bool, int]] = []
    for at in range(len(transcript) + 1):
        merged += [(True, place) for place in staying[at]]
        merged += [(False, at)] if at < len(transcript) else []
    return merged
