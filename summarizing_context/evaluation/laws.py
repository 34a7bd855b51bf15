"""An independent judge of views by the laws, fast enough for every view of a replay.

It shares no code with the package's own reading of messages. It reads OpenAI, Anthropic and Amplifier shapes.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

Message = Mapping[str, Any]

_CALLS = ("tool_use", "tool_call")
_FIRST = 32  # characters by which a message is known again
_BARE = 40  # characters of a message that had next to no room


def canonical(message: Message) -> bytes:
    """Return one spelling of a message: keys sorted, no spaces, a missing or null content written as an empty one."""
    if message.get("content") is None:
        message = {**message, "content": ""}
    try:
        return msgspec.json.encode(message, order="sorted")
    except UnicodeEncodeError:  # lone surrogates
        return json.dumps(message, sort_keys=True, separators=(",", ":")).encode()


def called_ids(message: Message) -> list[str]:
    """Return the ids of the calls that a message makes and does not answer itself; one that stands both as block and
    in `tool_calls` counts once."""
    blocks = [str(block.get("id")) for block in _blocks(message) if block.get("type") in _CALLS]
    listed = message.get("tool_calls")
    calls = [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
    made = blocks + [id for call in calls if (id := str(call.get("id"))) not in blocks]
    inside = set(_result_ids(message))
    return [id for id in made if id not in inside]


def answered_ids(message: Message) -> list[str]:
    """Return the ids of the calls that a message answers, except its own."""
    own = {str(block.get("id")) for block in _blocks(message) if block.get("type") in _CALLS}
    return [id for id in _result_ids(message) if id not in own]


def _blocks(message: Message) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _result_ids(message: Message) -> list[str]:
    if message.get("role") == "tool" or ("tool_call_id" in message and message.get("role") != "assistant"):
        return [str(message.get("tool_call_id"))]
    results = [block for block in _blocks(message) if block.get("type") == "tool_result"]
    return [str(block.get("tool_use_id", block.get("tool_call_id"))) for block in results]


def _words(content: Any) -> str:
    """The texts of a content, of results too."""
    if isinstance(content, list):
        return "\n".join(filter(None, map(_words, content)))
    if isinstance(content, Mapping):
        return _words(content.get("text", content.get("content", content.get("output"))))
    return content if isinstance(content, str) else ""


def shows(row: Message, message: Message) -> bool:
    """Return whether a row of a view is a message of the log: whole, shrunk, a part of it, or the note of a late
    result."""
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


class Judge:
    """Judges view after view of one session. Every message of the log is added before the view that may show it.

    Where a view begins with the last one, only its new messages are read.
    """

    tool_unsafe = False  # the last view parts calls from results, or leaves out a result that the log has
    out_of_order = False  # its raw messages stand in another order than in the log
    newest_missing = False  # it shows nothing of the newest message
    common = 0  # messages that it begins with as the view before

    def __init__(self) -> None:
        self._log: list[tuple[list[str], list[str]]] = []  # ids of the calls made and answered by each message
        self._places: dict[bytes, list[int]] = {}  # of equal messages in the log
        self._newest: Message = {}
        self._newest_at: int | None = None  # the row of the last view that shows the newest message
        self._judged = 0  # length of the log at the last view
        self._keys: list[bytes] = []  # of the last view
        self._begin()

    def add(self, message: Message) -> None:
        """Note the next message of the log."""
        self._places.setdefault(canonical(message), []).append(len(self._log))
        self._log.append((called_ids(message), answered_ids(message)))
        self._newest = message

    def look(self, view: Sequence[Message], keys: list[bytes]) -> None:
        """Judge a view, whose messages have these canonical spellings."""
        before, pairs = self._keys, zip(self._keys, keys, strict=False)
        is_longer = before == keys[: len(before)]
        common = len(before) if is_longer else next((at for at, (a, b) in enumerate(pairs) if a != b), len(keys))
        if len(self._log) > self._judged or self._newest_at is None or self._newest_at >= common:
            rows = range(len(view) - 1, common - 1, -1)  # it is in what is new
            self._newest_at = next((at for at in rows if shows(view[at], self._newest)), None)
            self._judged = len(self._log)
        self.common, self._keys = common, keys
        self.newest_missing = self._newest_at is None
        if not is_longer or not before:
            self._begin()
            common = 0
        for message, key in zip(view[common:], keys[common:], strict=True):
            self._read(message, key)
        self.tool_unsafe = self._unsafe
        if self._waiting and self._call_place is not None and not self._unsafe:  # calls in flight are the log's too
            self.tool_unsafe = self._has_results(self._waiting, self._call_place)

    def _begin(self) -> None:
        """Forget what the views before have come to."""
        self.out_of_order = self._unsafe = False
        self._waiting: list[str] = []  # ids of the calls in flight
        self._place = -1  # log index of the last raw message that is no result
        self._result_place = -1  # of the call, or of its last result
        self._call_place: int | None = None  # of the last message with calls; None where it is not shown as it came

    def _read(self, message: Message, key: bytes) -> None:
        calls, answers = called_ids(message), answered_ids(message)
        # Calls are followed by their results only, all of them; results stand nowhere else.
        self._unsafe |= bool(self._waiting) and not answers
        for id in answers:
            if id in self._waiting:
                self._waiting.remove(id)
            else:
                self._unsafe = True
        self._unsafe |= bool(calls and self._waiting)
        self._waiting = calls or self._waiting
        # Raw messages keep the log's order; a result stands behind its call, however many others it overtakes.
        places = self._places.get(key, [])
        at = bisect_right(places, self._result_place if answers else self._place)
        if at < len(places):
            self._result_place = places[at]
            self._place = self._place if answers else places[at]
        elif places:
            self.out_of_order = True
        if calls:
            self._call_place = self._result_place if places else None

    def _has_results(self, ids: Sequence[str], place: int) -> bool:
        """Whether the log holds results for calls of its message at `place`."""
        waiting: Counter[str] = Counter()
        for made, answered in self._log[place:]:
            waiting.subtract(id for id in answered if waiting[id] > 0)
            waiting.update(made)
        return any(waiting[id] < count for id, count in Counter(ids).items())
