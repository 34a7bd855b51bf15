"""A judge of views by the laws, fast enough for every view of a replay. It shares no code with what builds views."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from summarizing_context.messages.reading import Reading, canonical_json, content_texts, read_message
from summarizing_context.views.header import PREFACE

Message = Mapping[str, Any]

_BLOCKS = ("<standing_rules>\n", "<memories>\n")
_HEADER = re.compile(rf"{re.escape(PREFACE)}|\[\d+ earlier messages left out\]")


def view_parts(view: Sequence[dict[str, Any]], log: Sequence[dict[str, Any]]) -> list[str]:
    """Return for each message of a view `system`, `pin`, `header`, `block` or `tail`, which it is without a header."""
    texts = [content_texts(message.get("content")) for message in view]
    header = next((at for at, found in enumerate(texts) if _HEADER.match("".join(found[:1]))), None)
    leading = next((at for at, one in enumerate(view) if one["role"] not in ("system", "developer")), len(view))
    if header is None:
        return ["system" if at < leading else "tail" for at in range(len(view))]

    # Rows of users and systems right behind the header are pins where the header covers them. Our blocks follow.
    ranges = re.findall(r'^<summary messages="\d+-(\d+)">$', "\n".join(texts[header]), re.MULTILINE)
    stop = int(ranges[-1]) + 1 if ranges else 0
    covered, first = {canonical(message) for message in log[:stop]}, canonical(log[stop]) if stop < len(log) else b""
    parts = ["header" if at == header else "system" if at < leading else "pin" for at in range(header + 1)]
    for message, found in zip(view[header + 1 :], texts[header + 1 :], strict=True):
        key = canonical(message)
        if message["role"] not in ("user", "system", "developer") or key == first:
            break
        is_next = any(shows(message, row) for row in log[stop : stop + 1])  # a message that only looks like a block
        if key not in covered and (is_next or not "".join(found[:1]).startswith(_BLOCKS)):
            break
        parts.append("pin" if key in covered else "block")
    return parts + ["tail"] * (len(view) - len(parts))


def log_places(
    view: Sequence[dict[str, Any]], log: Sequence[dict[str, Any]], parts: Sequence[str], behind: int
) -> list[int | None]:
    """Return for each message of a view, by its parts, which one of the log it shows; None for none. The header covers
    those before `behind`."""
    whole, end = {canonical(log[at]): at for at in reversed(range(len(log)))}, len(log)
    places = [None if part == "header" else whole.get(canonical(view[row])) for row, part in enumerate(parts)]
    # The tail is read from its end, for blocks before it may quote messages.
    for row in reversed([row for row, part in enumerate(parts) if part == "tail"]):
        places[row] = found = next((at for at in reversed(range(behind, end)) if shows(view[row], log[at])), None)
        end = end if found is None else found
    return places


_FIRST = 32  # characters by which a message is known again
_BARE = 40  # characters of a message that had next to no room


def canonical(message: Message) -> bytes:
    """Return one spelling of a message: keys sorted, no spaces, a missing or null content written as an empty one."""
    return canonical_json({**message, "content": ""} if message.get("content") is None else message).encode()


def bound_ids(reading: Reading) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids of the calls that a message makes and a host answers, and of those that it answers."""
    return tuple(id for id in reading.calls if id not in reading.held), reading.answers


def shows(row: Message, message: Message) -> bool:
    """Return whether a row of a view is a message of the log: whole, shrunk, in part, or the note of a late result."""
    row_read, read = (read_message(dict(each)) for each in (row, message))
    (row_calls, row_answers), (calls, answers) = bound_ids(row_read), bound_ids(read)
    if canonical(row) == canonical(message) or set(row_calls) & set(calls):
        return True
    parts = ([part for part in each.parts if part.kind in ("text", "result")] for each in (row_read, read))
    shown, wanted = (" ".join(" ".join(text for part in each for text in part.texts).split()) for each in parts)
    if answers and not row_answers:
        fits = row_read.role == "user" and shown.startswith("<late_result")
    elif answers:
        fits = bool(set(row_answers) & set(answers))
    else:
        fits = row_read.role == read.role and not row_calls and not row_answers
    head, left_out, _ = shown.partition("…")
    began = head.rstrip("[ ")[:_FIRST]
    is_cut = bool(left_out) and (len(shown) <= _BARE or (began != "" and wanted.startswith(began)))
    return fits and (is_cut or wanted[:_FIRST] in shown)


class Judge:
    """Judges view after view of one session. Every message of the log is added before the view that may show it."""

    def __init__(self) -> None:
        self._log: list[bytes] = []
        self._places: dict[bytes, list[int]] = {}  # of equal messages in the log
        self._ids: dict[bytes, tuple[tuple[str, ...], tuple[str, ...]]] = {}  # that a message calls and answers
        self._newest: Message = {}
        self._newest_at: int | None = None  # the row of the last view that shows the newest message
        self._keys: list[bytes] = []  # of the last view

    def add(self, message: Message) -> None:
        key = canonical(message)
        self._places.setdefault(key, []).append(len(self._log))
        self._ids[key] = bound_ids(read_message(dict(message)))
        self._log.append(key)
        self._newest, self._newest_at = message, None

    def look(self, view: Sequence[Message], keys: list[bytes]) -> tuple[int, dict[str, bool]]:
        """Judge a view, whose messages have these canonical spellings.

        Return with how many messages it begins as the view before, and the laws that it breaks: it parts calls from
        results or leaves out a result that the log has, its raw messages stand in another order than in the log, or it
        shows nothing of the newest message.
        """
        pairs = enumerate(zip(self._keys, keys, strict=False))
        common = next((at for at, (a, b) in pairs if a != b), min(len(self._keys), len(keys)))
        self._keys = keys
        if self._newest_at is None or self._newest_at >= common:
            rows = range(len(view) - 1, common - 1, -1)  # it is in what is new
            self._newest_at = next((at for at in rows if shows(view[at], self._newest)), None)

        unsafe = out_of_order = False
        waiting: list[str] = []  # ids of the calls in flight
        place = result_place = -1  # log index of the last raw message that is no result; of the call or its last result
        call_place: int | None = None  # of the last message with calls; None where it is not shown as it came
        for message, key in zip(view, keys, strict=True):
            if key not in self._ids:
                self._ids[key] = bound_ids(read_message(dict(message)))
            calls, answers = self._ids[key]
            # Calls are followed by their results only, all of them; results stand nowhere else.
            unsafe |= bool(waiting) and not answers
            for id in answers:
                unsafe |= id not in waiting
                if id in waiting:
                    waiting.remove(id)
            unsafe |= bool(calls and waiting)
            waiting = list(calls) or waiting
            # Raw messages keep the log's order; a result stands behind its call, however many others it overtakes.
            places = self._places.get(key, [])
            at = bisect_right(places, result_place if answers else place)
            if at < len(places):
                result_place = places[at]
                place = place if answers else places[at]
            elif places:
                out_of_order = True
            if calls:
                call_place = result_place if places else None
        if waiting and call_place is not None and not unsafe:  # calls in flight are the log's too
            left: Counter[str] = Counter()
            for made, answered in (self._ids[key] for key in self._log[call_place:]):
                left.subtract(id for id in answered if left[id] > 0)
                left.update(made)
            unsafe = any(left[id] < count for id, count in Counter(waiting).items())
        newest_missing = self._newest_at is None
        laws = {"tool_unsafe_views": unsafe, "out_of_order_views": out_of_order, "newest_missing_views": newest_missing}
        return common, laws
