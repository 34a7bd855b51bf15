"""Read messages of any provider, and the log that they make: calls, what they are answered by, what may not be parted.

Written from the data format alone, so that it can judge the package. The rules of groups are stated a second time here:

A call waits for its results. Call rows one after the other wait together, up to 24 from the second on; one more then,
and those that wait are abandoned.
A result is paired with the nearest call of its id that still waits; without one it is an orphan. It abandons the rows
before the one that it answers. Whatever else comes abandons all that wait: words, an orphan, a call after a result.
A request interrupts what it cannot wait for, in views only: see `interrupts`.
"""

import copy
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from operator import is_
from typing import Any, TypeVar

Message = Mapping[str, Any]

CALL_BLOCKS = frozenset({"tool_use", "tool_call"})
THINKING_BLOCKS = frozenset({"thinking", "redacted_thinking", "reasoning"})
THINKING_FIELDS = frozenset({*THINKING_BLOCKS, "thinking_block", "reasoning_content", "reasoning_details"})
MEDIA_BLOCKS = frozenset({"image", "image_url", "input_image"})
TOGETHER_AT_MOST = 24  # messages


def canonical(value: Any) -> str:
    """One JSON text for equal values, whatever the order of keys; lone surrogates are escaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


Answer = TypeVar("Answer")


def once(work_out: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
    """Work it out once for each value that nobody changes any longer; the answer may not be changed either."""
    known: dict[int, tuple[Any, Answer]] = {}

    @wraps(work_out)
    def ask(value: Any) -> Answer:
        found = known.get(id(value))
        if found is None or found[0] is not value:
            if len(known) > 20_000:
                known.clear()
            found = known[id(value)] = (value, work_out(value))
        return found[1]

    return ask


canonical_once = once(canonical)


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_whole(key): _whole(one) for key, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, list) else value


@once
def _sendable(message: Message) -> Message:
    return _whole(message) if "\\ud" in canonical_once(message) else message


def sendable(log: Sequence[Message]) -> Sequence[Message]:
    """The log as views may send it: with U+FFFD for each half of a character."""
    return list(map(_sendable, log))


@once
def identity_once(message: Message) -> str:
    """What a row is recognised by; the content None is shown as an empty text."""
    if message.get("content", "") is None:
        return canonical_once({**message, "content": ""})
    return canonical_once(message)


def copied(value: Any) -> Any:
    """A deep copy; of JSON values, which share nothing, it takes a fraction of the time of `copy.deepcopy`."""
    kind = type(value)
    if kind is dict:
        return {key: copied(item) for key, item in value.items()}
    if kind is list:
        return [copied(item) for item in value]
    return value if kind in (str, int, float, bool, type(None)) else copy.deepcopy(value)


def blocks(message: Message) -> list[Mapping[str, Any]]:
    """The content's blocks; a string or nothing has none."""
    content = message.get("content")
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def text_blocks(message: Message) -> list[Mapping[str, Any]]:
    return [block for block in blocks(message) if block.get("type") == "text"]


def has_words(message: Message) -> bool:
    """Whether a message of the user says more than its results."""
    return message.get("role") == "user" and bool(text_blocks(message))


def _ids(values: Iterable[Any]) -> list[str]:
    return [value for value in values if isinstance(value, str) and value]


@once
def called_ids(message: Message) -> list[str]:
    """Ids of the calls it makes, in order, each once: one call may be written as a block and in `tool_calls`."""
    made = [block for block in blocks(message) if block.get("type") in CALL_BLOCKS]
    listed = message.get("tool_calls")
    calls = [*made, *(listed if isinstance(listed, list) else ())]
    return list(dict.fromkeys(_ids(call.get("id") for call in calls if isinstance(call, Mapping))))


def result_blocks(message: Message) -> list[tuple[str, Mapping[str, Any]]]:
    """(id, block) of each result block."""
    results = [block for block in blocks(message) if block.get("type") == "tool_result"]
    named = [(block.get("tool_use_id") or block.get("tool_call_id"), block) for block in results]
    return [(identity, block) for identity, block in named if isinstance(identity, str) and identity]


@once
def answered_ids(message: Message) -> list[str]:
    """Ids of the calls that it answers, in order; a repeated one is repeated."""
    own = _ids([message.get("tool_call_id")]) if message.get("role") == "tool" else []
    inner = [identity for identity, _ in result_blocks(message)]
    return [*own, *(identity for identity in inner if identity not in own)]


def result_contents(message: Message, identity: str) -> list[Any]:
    """What the message says in answer to the call, which it may answer more than once."""
    found = [block.get("content", block.get("output")) for one, block in result_blocks(message) if one == identity]
    return found or [message.get("content")]


def plain_text(value: Any) -> str:
    """The text of a content or of a result: strings and text blocks, joined."""
    if isinstance(value, list):
        return "\n".join(filter(None, map(plain_text, value)))
    if isinstance(value, Mapping):
        return plain_text(next((value[key] for key in ("text", "content", "output") if key in value), ""))
    return value if isinstance(value, str) else ""


def media_count(value: Any) -> int:
    """Images in a content, those inside results counted."""
    if isinstance(value, list):
        return sum(media_count(item) for item in value)
    if not isinstance(value, Mapping):
        return 0
    is_file = value.get("type") == "document" and dict(value.get("source") or {}).get("type") == "base64"
    if is_file or value.get("type") in MEDIA_BLOCKS:
        return 1
    return media_count(value.get("content")) + media_count(value.get("output"))


def media_tokens(value: Any, image_tokens: int) -> int:
    """What they cost. Those of our logs that tell a size have one pixel, which costs one of OpenAI's tiles."""
    of_one_pixel = str(value).count("iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB")
    return 255 * of_one_pixel + image_tokens * (media_count(value) - of_one_pixel)


def without_thinking(message: Message) -> dict[str, Any]:
    """The message with its thinking left out, blocks and fields."""
    kept = {key: value for key, value in message.items() if key not in THINKING_FIELDS}
    content = message.get("content")
    if isinstance(content, list):
        kept["content"] = [b for b in content if not (isinstance(b, Mapping) and b.get("type") in THINKING_BLOCKS)]
    return kept


def leading_system_rows(log: Sequence[Message]) -> int:
    """How many system and developer rows the log starts with."""
    return next((at for at, row in enumerate(log) if row.get("role") not in ("system", "developer")), len(log))


@dataclass(slots=True)
class CallGroup:
    """A message with calls, what answered them, and what became of the rest."""

    call: int  # log index
    waiting: list[str]
    results: list[tuple[int, str]] = field(default_factory=list)  # (log index, call id)
    abandoned: bool = False


class Reading:
    """A log, read message by message."""

    def __init__(self) -> None:
        self.log: list[Message] = []
        self.groups: dict[int, CallGroup] = {}  # by the index of their call
        self.orphans: dict[int, list[str]] = {}  # of each result message
        self.of_text = defaultdict[str, list[int]](list)  # where entries stand, by their canonical texts
        self.of_identity = defaultdict[str, list[int]](list)  # and by `identity_once`
        self.of_pins: list[int] = []  # where those stand that may be pinned
        self.ended: list[tuple[int, int]] = []  # runs in which some call waited
        self.began: int | None = None  # the last one, in which some call waits
        self.waiting: list[CallGroup] = []
        self.joined = 0  # where a second row of calls joined the first
        self.answered = False  # a result has come since the calls that wait
        self.ways: dict[tuple[int, ...], Reading] = {}  # of so many messages with these interruptions

    @property
    def runs(self) -> list[tuple[int, int]]:
        return self.ended + ([] if self.began is None else [(self.began, len(self.log))])

    @property
    def atoms(self) -> list[tuple[int, int]]:
        """Ranges that may not be parted: the runs, and each message outside of them."""
        inside = {index for start, stop in self.runs for index in range(start, stop)}
        return sorted([*self.runs, *((index, index + 1) for index in range(len(self.log)) if index not in inside)])

    def open_groups(self) -> list[CallGroup]:
        """Those whose calls still wait at the end of the log."""
        return [group for group in self.groups.values() if group.waiting and not group.abandoned]

    def interrupt(self) -> None:
        """All that waits is abandoned here."""
        self._abandon()
        self.ended, self.waiting, self.began = self.runs, [], None

    def _abandon(self, before: int | None = None) -> None:
        """What waits, or of that the calls before one."""
        for group in self.waiting:
            group.abandoned |= before is None or group.call < before

    def read(self, message: Message) -> None:
        index, calls, answers = len(self.log), called_ids(message), answered_ids(message)
        if self.began is not None and self._ends_run(index, calls, answers):
            self.interrupt()
        self.log.append(message)
        self.of_text[canonical_once(message)].append(index)
        self.of_identity[identity_once(message)].append(index)
        metadata = message.get("metadata")
        is_critical = message.get("critical") or (isinstance(metadata, Mapping) and metadata.get("critical"))
        if message.get("role") in ("user", "system", "developer") or is_critical:
            self.of_pins.append(index)
        last = self._pair(index, message, calls, answers)
        if '"tool_reference"' in canonical_once(message):  # what it loads may stay, with its calls
            loads = [group.call for group in self.groups.values() if group.results and group.results[-1][0] == index]
            self.of_pins[:] = sorted({*self.of_pins, *loads})
        self.waiting = [group for group in self.waiting if group.waiting and not group.abandoned]
        self.answered = (self.answered or last >= 0) and not calls
        if calls:
            self.joined = index if self.began is not None and self.joined <= self.began else self.joined
            self.groups[index] = CallGroup(index, list(calls))
            self.waiting.append(self.groups[index])
            self.began = index if self.began is None else self.began
        if self.began is not None and not self.waiting:
            self.interrupt()

    def _ends_run(self, index: int, calls: list[str], answers: list[str]) -> bool:
        fits = any(identity in group.waiting for group in self.waiting for identity in answers)
        is_line = bool(calls) and not answers and not self.answered
        joined = len(self.groups) > 1 and self.joined > (self.began or 0)
        is_long = bool(calls) and joined and index - self.joined >= TOGETHER_AT_MOST
        return is_long or not (fits or is_line)

    def _pair(self, index: int, message: Message, calls: list[str], answers: list[str]) -> int:
        """Pair its results; the last call that one of them answers, or -1."""
        paired = []
        for identity in answers:
            group = next((group for group in reversed(self.waiting) if identity in group.waiting), None)
            if group is None:
                self.orphans.setdefault(index, []).append(identity)
            else:
                group.waiting.remove(identity)
                group.results.append((index, identity))
            paired.append(-1 if group is None else group.call)
        last = max(paired, default=-1)
        if -1 in paired or (answers and has_words(message)) or (calls and last >= 0):
            self._abandon()
        self._abandon(before=last)
        return last


_LAST = [Reading()]  # a view is judged by several rules, all of which read the same log


def read_log(log: Sequence[Message], interrupted: Collection[int] = ()) -> Reading:
    """Pair results with calls, as views show them: before these entries all that waited was abandoned. What may not be
    parted depends on the log alone."""
    if len(_LAST[0].log) > len(log) or not all(map(is_, _LAST[0].log, log)):
        _LAST[:] = [Reading()]
    for message in log[len(_LAST[0].log) :]:  # one that begins with the very messages of the last is read on from there
        _LAST[0].read(message)
    way, ways = (len(log), *interrupted), _LAST[0].ways
    if not interrupted or way in ways:
        return ways.get(way, _LAST[0])
    if len(ways) > 8:
        ways.clear()
    reading, runs = ways.setdefault(way, Reading()), _LAST[0].runs
    ends = {*interrupted, *(place for run in runs for place in run if place < len(log))}
    for index in range(len(log) + 1):
        if index in ends:
            reading.interrupt()
        for message in log[index : index + 1]:
            reading.read(message)
    reading.ended, reading.began = runs, None
    return reading


def interrupts(log: Sequence[Message], loaded: int, interrupted: Collection[int]) -> list[int]:
    """Where a request abandons calls, if it does: those before a newest message that makes calls itself, for that is
    shown; and those of the first `loaded` entries, which an earlier process has made."""
    waiting = [group.call for group in read_log(log, interrupted).open_groups()]
    newest = len(log) - 1
    if waiting and waiting[-1] == newest >= loaded:
        return [newest] if waiting[:-1] else []
    return [len(log)] if waiting and waiting[0] < loaded else []
