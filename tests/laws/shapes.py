"""Read a message of any provider: its calls, the calls it answers, its thinking, its texts.

Written from the data format alone, so that it can judge the package.
"""

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

Message = Mapping[str, Any]

CALL_BLOCKS = frozenset({"tool_use", "tool_call"})
THINKING_BLOCKS = frozenset({"thinking", "redacted_thinking", "reasoning"})
THINKING_FIELDS = frozenset({*THINKING_BLOCKS, "thinking_block", "reasoning_content", "reasoning_details"})
MEDIA_BLOCKS = frozenset({"image", "image_url", "input_image"})


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
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(plain_text, value)))
    if isinstance(value, Mapping):
        return plain_text(next((value[key] for key in ("text", "content", "output") if key in value), ""))
    return ""


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
