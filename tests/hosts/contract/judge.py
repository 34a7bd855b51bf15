"""A judge of what a model is sent. It shares no code with the package, and counts by itself.

It knows the conversation as it was said, and says what is wrong with a request of it.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from tests.hosts.contract.rows import Row

_SMALL = 64  # tokens: nothing of this size is shortened


def tokens(text: str) -> int:
    """The count that the sessions of the suite are told to use."""
    return -(-len(text) // 4)


class Judge:
    """Judges the requests of one conversation, one after the other. `beside` is what is sent beside the messages."""

    def __init__(self, budget: int, beside: str = "") -> None:
        self._budget = budget - tokens(beside)
        self._last: list[str] = []
        self.problems: list[str] = []
        self.seen: Counter[str] = Counter()  # what has happened, so that a test can show that it did
        self.largest = 0
        self.begins_as_before: list[bool] = []  # each request with all of the one before

    def check(self, sent: Sequence[Row], log: Sequence[Row], removed: Collection[str] = ()) -> None:
        """`log` is the conversation up to this request; `removed` are marks of rows that the host has taken out."""
        found = [
            *_pairs(sent),
            *_order(sent, log),
            *_words(sent, log),
            *_thinking(sent, log),
            *(f"{mark} was removed" for mark in removed if any(f"[{mark}]" in row.text for row in sent)),
        ]
        size = sum(map(cost, sent))
        if size > self._budget:
            found.append(f"{size} tokens do not fit {self._budget}")
        self.largest = max(self.largest, size)
        self._note(sent, log, removed)
        number = self.seen["requests"]
        self.problems += [f"request {number}: {problem}" for problem in found]
        self.seen["requests"] += 1

    def _note(self, sent: Sequence[Row], log: Sequence[Row], removed: Collection[str]) -> None:
        wires = [row.wire for row in sent]
        self.begins_as_before.append(wires[: len(self._last)] == self._last)
        gone = (at for at, wire in enumerate(self._last) if any(f"[{mark}]" in str(wire) for mark in removed))
        left = self._last[: next(gone, len(self._last))]  # what the host itself rewrote is no break
        breaks = wires[: len(left)] != left
        self._last = wires
        said = {row.mark: row for row in log}
        self.seen["breaks"] += breaks
        self.seen["covering"] += len(sent) < len(log)
        self.seen["stand-ins"] += sum(row.role == "tool" and row.mark not in said for row in sent)
        self.seen["shortened"] += sum(row.mark in said and row.text != said[row.mark].text for row in sent)
        self.seen["parallel"] += any(len(row.calls) > 1 for row in sent)
        self.seen["thinking"] += any(row.thinking for row in sent)


def cost(row: Row) -> int:
    """Every text of a row counts, and four tokens for the row."""
    texts = [row.text, row.thinking, *(text for call in row.calls for text in (call.name, call.arguments))]
    return 4 + sum(map(tokens, texts))


def _pairs(sent: Sequence[Row]) -> Iterator[str]:
    """Calls are answered right behind their message, each once; nothing answers a call that is not open."""
    open_calls: list[str] = []
    for at, row in enumerate(sent):
        if row.role == "tool":
            if row.answers not in open_calls:
                yield f"row {at}: no open call is {row.answers}"
            else:
                open_calls.remove(row.answers)
            continue
        if open_calls:
            yield f"row {at}: stands before the results of {open_calls}"
        open_calls = [call.id for call in row.calls]
    if open_calls:
        yield f"no results of {open_calls}"


def _order(sent: Sequence[Row], log: Sequence[Row]) -> Iterator[str]:
    """The first ask, what was made of the past, then the newest rows without a gap, as they were said."""
    places = {row.mark: at for at, row in enumerate(log)}
    shown = [places[row.mark] for row in sent if row.mark in places]
    if not sent or sent[0].mark != log[0].mark:
        yield "the first message is not the first ask"
    if not sent or sent[-1].mark != log[-1].mark:
        yield f"the newest message, {log[-1].mark}, is not the last row"
    if shown != sorted(set(shown)):
        yield "rows are out of order, or come twice"
    start = next((at for at in shown if log[at].role != "user"), len(log) - 1)
    if gap := [log[at].mark for at in range(start, len(log)) if at not in shown]:
        yield f"not shown behind {log[start].mark}: {gap}"
    newest_ask = max(at for at, row in enumerate(log) if row.role == "user")
    if newest_ask not in shown:
        yield "the newest ask is missing"
    tail = next((at for at, row in enumerate(sent) if places.get(row.mark, -1) >= start), len(sent))
    for at, row in enumerate(sent):
        if row.mark not in places and not (row.role == "tool" or (row.role == "user" and 0 < at < tail)):
            yield f"row {at}: {row.role}'s, and nobody has said it: {row.text[:60]!r}"


def _words(sent: Sequence[Row], log: Sequence[Row]) -> Iterator[str]:
    """What is shown of a row is what was said, or its beginning and end. Results are made up for lost ones alone; a
    host may also leave out the calls of lost results."""
    said = {row.mark: row for row in log}
    answered = {row.answers for row in log}
    for row in sent:
        known = said.get(row.mark)
        if known is None:
            if row.role == "tool" and row.answers in answered:
                yield f"the result of {row.answers} is another one"
            continue
        if row.text != known.text and not _is_shortened(row.text, known.text):
            yield f"the words of {row.mark} are others"
        if (row.role, row.answers) != (known.role, known.answers):
            yield f"{row.mark} is {row.role}'s, an answer to {row.answers}"
        if row.calls not in (known.calls, tuple(call for call in known.calls if call.id in answered)):
            yield f"the calls of {row.mark} are others"


def _is_shortened(shown: str, whole: str) -> bool:
    return tokens(whole) > _SMALL and len(shown) < len(whole) and shown[:20] == whole[:20] and shown[-5:] == whole[-5:]


def _thinking(sent: Sequence[Row], log: Sequence[Row]) -> Iterator[str]:
    """Thinking is signed: it goes whole or not at all, and a turn that goes on keeps its own."""
    said: Mapping[str | None, Row] = {row.mark: row for row in log}
    newest_ask = max(at for at, row in enumerate(log) if row.role == "user")
    going_on = {row.mark for row in log[newest_ask:]}
    for row in sent:
        known = said.get(row.mark)
        if known is None or row.thinking == known.thinking:
            continue
        if row.thinking:
            yield f"the thinking of {row.mark} is another one"
        elif row.mark in going_on:
            yield f"the thinking of {row.mark} is gone, and its turn goes on"
