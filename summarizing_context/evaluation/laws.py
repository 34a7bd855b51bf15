"""Independent checks of the laws, fast enough for every view of a replay.

A `ViewChecker` reads only the new messages while a view begins with the last one, and all of them otherwise. The
checks share no code with the package's own reading of messages. They read OpenAI, Anthropic and Amplifier shapes.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

Message = Mapping[str, Any]

_CALLS = ("tool_use", "tool_call")
_FIRST = 32  # characters by which a message is known again

_BARE = 40  # characters of a message that had next to no room


def canonical(message: Message) -> bytes:
    """One spelling of a message: keys sorted, no spaces, a missing or null content written as an empty one."""
    if message.get("content") is None:
        message = {**message, "content": ""}
    try:
        return msgspec.json.encode(message, order="sorted")
    except UnicodeEncodeError:  # lone surrogates
        return json.dumps(message, sort_keys=True, separators=(",", ":")).encode()


def called_ids(message: Message) -> list[str]:
    """Ids of the calls that a message makes; one that stands both as block and in `tool_calls` counts once."""
    blocks = [str(block.get("id")) for block in _blocks(message) if block.get("type") in _CALLS]
    listed = message.get("tool_calls")
    calls = [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
    made = blocks + [id for call in calls if (id := str(call.get("id"))) not in blocks]
    inside = set(_result_ids(message))
    return [id for id in made if id not in inside]


def answered_ids(message: Message) -> list[str]:
    """Ids of the calls that a message answers, except its own."""
    own = {str(block.get("id")) for block in _blocks(message) if block.get("type") in _CALLS}
    return [id for id in _result_ids(message) if id not in own]


def shows(row: Message, message: Message) -> bool:
    """Whether a row of a view is a message of the log: whole, shrunk, a part of it, or the note of a late result."""
    calls, answers = called_ids(message), answered_ids(message)
    if canonical(row) == canonical(message) or (calls and set(called_ids(row)) & set(calls)):
        return True
    if answers and not answered_ids(row):
        fits = row.get("role") == "user" and _words(row.get("content")).startswith("<late_result")
    elif answers:
        fits = not set(answered_ids(row)).isdisjoint(answers)
    else:
        fits = row.get("role") == message.get("role") and not called_ids(row) and not answered_ids(row)
    wanted, shown = (" ".join(_words(each.get("content")).split()) for each in (message, row))
    head, left_out, _ = shown.partition("…")
    began = head.rstrip("[ ")[:_FIRST]
    is_cut = bool(left_out) and (len(shown) <= _BARE or (began != "" and wanted.startswith(began)))
    return fits and (is_cut or wanted[:_FIRST] in shown)


def common_messages(previous: Sequence[bytes], view: Sequence[bytes]) -> int:
    """How many messages two views begin with alike."""
    if previous == view[: len(previous)]:
        return len(previous)
    return next((at for at, (old, new) in enumerate(zip(previous, view, strict=False)) if old != new), len(view))


class LogIndex:
    """Where each message stands in the log, and who calls and answers."""

    def __init__(self) -> None:
        self.length = 0
        self.newest: Message = {}
        self._places: dict[bytes, list[int]] = {}
        self._calls: list[tuple[list[str], list[str]]] = []  # (made, answered) of each entry

    def add(self, message: Message) -> None:
        """Note the next entry."""
        self._places.setdefault(canonical(message), []).append(self.length)
        made, answered = called_ids(message), answered_ids(message)
        self._calls.append((made, answered))
        self.newest = message
        self.length += 1

    def knows(self, key: bytes) -> bool:
        """Whether any entry reads like this."""
        return key in self._places

    def first_after(self, key: bytes, place: int) -> int | None:
        """The first place behind `place` of an entry that reads like this."""
        places = self._places.get(key, [])
        at = bisect_right(places, place)
        return places[at] if at < len(places) else None

    def unanswered(self, ids: Iterable[str], place: int) -> bool:
        """Whether the log holds no result for these calls of the entry at `place`."""
        waiting: Counter[str] = Counter()
        for made, answered in self._calls[place:]:
            waiting.subtract(id for id in answered if waiting[id] > 0)
            waiting.update(made)
        return all(waiting[id] >= count for id, count in Counter(ids).items())


@dataclass(slots=True)
class _State:
    """What a view, read from its beginning, has come to."""

    waiting: list[str] = field(default_factory=list)  # ids of the calls in flight
    unsafe: bool = False
    disordered: bool = False
    place: int = -1  # log index of the last raw message that is no result
    result_place: int = -1  # of the call, or of its last result
    call_place: int | None = None  # of the last message with calls; None where it is not shown as it came

    def read(self, message: Message, key: bytes, log: LogIndex) -> None:
        calls, answers = called_ids(message), answered_ids(message)
        self._pair(calls, answers)
        known = log.knows(key)
        if known:
            self._order(key, log, is_result=bool(answers))
        if calls:
            self.call_place = self.result_place if known else None

    def _pair(self, calls: list[str], answers: list[str]) -> None:
        """Calls are followed by their results only, all of them; results stand nowhere else."""
        self.unsafe |= bool(self.waiting) and not answers
        for id in answers:
            if id in self.waiting:
                self.waiting.remove(id)
            else:
                self.unsafe = True
        self.unsafe |= bool(calls and self.waiting)
        self.waiting = calls or self.waiting

    def _order(self, key: bytes, log: LogIndex, *, is_result: bool) -> None:
        """Raw messages keep the log's order; a result stands behind its call, however many others it overtakes."""
        found = log.first_after(key, self.result_place if is_result else self.place)
        if found is None:
            self.disordered = True
        elif is_result:
            self.result_place = found
        else:
            self.place = self.result_place = found


class ViewChecker:
    """Judges view after view of one session; `log` must hold every message added so far."""

    def __init__(self, log: LogIndex) -> None:
        self._log = log
        self._state = _State()
        self._seen = 0  # messages of the last view
        self._judged = 0  # length of the log when it was taken
        self._newest_at: int | None = None  # the row of it that shows the newest message

    def tool_unsafe(self) -> bool:
        """Whether the last view parts calls from results, or leaves out a result that the log has."""
        state = self._state
        if state.unsafe or not state.waiting or state.call_place is None:
            return state.unsafe
        return not self._log.unanswered(state.waiting, state.call_place)

    def out_of_order(self) -> bool:
        """Whether raw messages of the last view stand in another order than in the log."""
        return self._state.disordered

    def newest_missing(self) -> bool:
        """Whether the last view shows nothing of the newest message."""
        return self._newest_at is None

    def look(self, view: Sequence[Message], keys: Sequence[bytes], *, common: int) -> None:
        """Read a view whose first `common` messages are those of the view before."""
        if self._log.length > self._judged or self._newest_at is None or self._newest_at >= common:
            rows, newest = range(len(view) - 1, common - 1, -1), self._log.newest  # it is in what is new
            self._newest_at = next((at for at in rows if shows(view[at], newest)), None)
            self._judged = self._log.length
        if common < self._seen or not self._seen:
            self._state, common = _State(), 0
        for message, key in zip(view[common:], keys[common:], strict=True):
            self._state.read(message, key, self._log)
        self._seen = len(view)


def _words(content: Any) -> str:
    """The texts of a content, of results too."""
    if isinstance(content, list):
        return "\n".join(filter(None, map(_words, content)))
    if isinstance(content, Mapping):
        return _words(content.get("text", content.get("content", content.get("output"))))
    return content if isinstance(content, str) else ""


def _blocks(message: Message) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _result_ids(message: Message) -> list[str]:
    if message.get("role") == "tool" or ("tool_call_id" in message and message.get("role") != "assistant"):
        return [str(message.get("tool_call_id"))]
    results = [block for block in _blocks(message) if block.get("type") == "tool_result"]
    return [str(block.get("tool_use_id", block.get("tool_call_id"))) for block in results]
