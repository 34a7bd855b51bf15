"""The activations of a session: remembered one by one, and the last one undone.

An undone activation leaves the view of before it until that view needs another one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from summarizing_context.errors import UndoError
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import stand_ins
from summarizing_context.stores.base import NewActivation, StoredActivation
from summarizing_context.views.builder import Viewer
from summarizing_context.views.view import ActivationRecord, ActivationState, Change, decode_state

logger = logging.getLogger(__name__)


def usable_state(log: MessageLog, data: bytes) -> ActivationState | None:
    """Return a stored state; None if it cannot be read, or if the log is cut otherwise than when the state was made."""
    try:
        state = decode_state(data)
    except (msgspec.MsgspecError, ValueError) as error:
        logger.warning("an activation state is not readable; it is made anew", extra={"cause": type(error).__name__})
        return None
    ends = [0, *(segment.stop for segment in log.segments[: state.leaves])]
    if len(ends) <= state.leaves or ends[state.leaves] != state.leaves_stop:
        return None
    fits = log.group_start(state.stop) == state.stop and max(state.stop, state.bounds.rewritten) <= len(log)
    return state if fits else None


def closings_of(states: Iterable[bytes]) -> set[int]:
    """Return where views have ended segments that were open, by their stored states."""
    found: set[int] = set()
    for data in states:
        with suppress(msgspec.MsgspecError, ValueError):  # it is told where the state itself is taken up
            found.update(decode_state(data).closings)
    return found


def last_to_undo(records: Sequence[ActivationRecord], log_version: int) -> ActivationRecord:
    """Return the newest activation that is not undone yet. Raises `UndoError`."""
    open_ones = [record for record in records if not record.is_undone and record.undoes is None]
    shaping = [record for record in open_ones if record.can_undo]
    if not shaping:
        raise UndoError(
            "there is no activation to undo"
            if not open_ones
            else "no activation that covered messages can be undone any longer; restore a checkpoint instead"
        )
    if shaping[-1].log_version != log_version:
        raise UndoError("the log was replaced since the last activation; restore a checkpoint to go back to that log")
    return shaping[-1]


class ActivationHistory:
    """The records of one session, oldest first."""

    def __init__(self) -> None:
        self.records: list[ActivationRecord] = []
        self._numbers = 0

    def load(self, rows: Iterable[StoredActivation]) -> None:
        """Bring back what the store has kept; what another version wrote in another way is passed over."""
        for row in rows:
            try:
                figures = msgspec.json.decode(row.figures, type=dict[str, Any])
                figures |= {"number": row.number, "provider": row.provider_key, "log_version": row.log_version}
                figures["is_undone"] = bool(row.is_undone)
                figures["can_undo"] = bool(row.has_before) and figures.get("undoes") is None
                record = ActivationRecord(**figures)
                self.records.append(msgspec.convert(list(record), ActivationRecord))
            except (msgspec.MsgspecError, TypeError) as error:
                logger.warning("an activation's record is not readable", extra={"cause": type(error).__name__})
        self._numbers = max((record.number for record in self.records), default=0)

    def add(self, record: ActivationRecord) -> None:
        """Note an activation that is committed."""
        if record.undoes is not None:
            at = next(at for at, one in enumerate(self.records) if one.number == record.undoes)
            self.records[at] = self.records[at]._replace(is_undone=True)
        self.records.append(record)

    def next(self, change: Change, log: MessageLog, views: Viewer, undoes: int | None = None) -> ActivationRecord:
        """Return the record of a change that is about to be committed."""
        self._numbers += 1  # used once, also where the store fails
        before, state, report = change.before, change.state, change.report
        return ActivationRecord(
            number=self._numbers,
            time=datetime.now(UTC).isoformat(timespec="microseconds"),
            provider=change.provider_view.key,
            reason=report.reason,
            tokens_before=report.tokens_before,
            tokens_after=report.tokens_after,
            covered_from=before.stop,
            covered_to=state.stop,
            messages=len(log),
            blocks=len(state.nodes),
            stand_ins=stand_ins(state.nodes),
            prefix_kept=views.prefix_kept(change),
            budget=state.room + views.system_rows.tokens,
            log_version=log.version,
            undoes=undoes,
            # an activation that only begins the view differently cannot be undone
            can_undo=undoes is None
            and (before.stop, before.since, before.nodes) != (state.stop, state.since, state.nodes),
        )


def stored_form(record: ActivationRecord, before: bytes) -> NewActivation:
    """Return a record as the store keeps it, with the state before it where the header or the cut has changed."""
    known = ("number", "provider", "log_version", "is_undone", "can_undo")  # the store notes these itself
    figures = {name: value for name, value in record._asdict().items() if name not in known}
    kept = record.can_undo or record.undoes is not None
    return NewActivation(record.number, msgspec.json.encode(figures).decode(), before if kept else None, record.undoes)
