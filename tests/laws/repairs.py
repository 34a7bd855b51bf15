"""Tell whether a shown message is its log entry, and by which named repairs of one message it differs."""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from . import shapes
from .shapes import THINKING_BLOCKS, Message, answered_ids, blocks, called_ids, canonical, canonical_once, plain_text

SHRUNK, STAND_IN, LATE_NOTE = "shrunk", "stand_in_result", "late_result_note"
SPLIT, CONTENT_NONE, THINKING = "split_results", "content_none", "thinking_dropped"
PAIR = "pair_dropped"
ALL_REPAIRS = frozenset({SHRUNK, STAND_IN, LATE_NOTE, SPLIT, CONTENT_NONE, THINKING, PAIR})
LONGEST_CUT_NOTE = 240  # characters between the kept head and the kept tail
NO_ROOM = 40  # characters of a whole message below which no number need be told


TOLD = re.compile(r'<earlier_message role="(\w+)">\n(.*)\n</earlier_message>', re.DOTALL)
CUT = re.compile(r"\n?\[…\d+…\]\n?|…")  # between the head and the tail of a message without room

_EXPLAINED: dict[tuple[str, str], frozenset[str] | None] = {}  # one view after the other asks for the same


def explain(shown: Message, entry: Message) -> frozenset[str] | None:
    """The repairs that turn the entry into what is shown; nothing for equal ones, None if no repair explains it."""
    if shown.get("role") != entry.get("role"):
        return None
    key = canonical_once(shown), canonical_once(entry)
    if key not in _EXPLAINED:
        if len(_EXPLAINED) > 20_000:
            _EXPLAINED.clear()
        _EXPLAINED[key] = frozenset() if key[0] == key[1] else _explained(shown, entry)
    return _EXPLAINED[key]


def _explained(shown: Message, entry: Message) -> frozenset[str] | None:
    found: set[str] = set()
    wanted = shapes.without_thinking(entry)
    if wanted != entry and shapes.without_thinking(shown) == shown:
        found.add(THINKING)
        is_note = len(plain_text(shown.get("content"))) <= LONGEST_CUT_NOTE
        if wanted.get("content") in ([], "", None) and is_note:
            wanted["content"] = shown.get("content")
    else:
        wanted = dict(entry)
    if wanted.get("content") is None and shown.get("content") == "":
        found.add(CONTENT_NONE)
        wanted["content"] = ""
    if "server_tool_use" in canonical_once(entry) and "server_tool_use" not in canonical_once(shown):  # no result came
        found.add(PAIR)
        left = [block for block in blocks(wanted) if block.get("type") != "server_tool_use"]
        wanted["content"] = left or [{"type": "text", "text": "[a call without its result is left out]"}]
    if found and canonical(shown) == canonical(wanted):
        return frozenset(found)
    return frozenset(found | {SHRUNK}) if _is_shrunk_message(shown, wanted) else None


def is_late_note(shown: Message, entry: Message, identity: str) -> bool:
    """Text, no result any longer, that holds what came too late, or its head."""
    told = plain_text(shown.get("content"))
    return not (called_ids(shown) or answered_ids(shown)) and any(
        _tells_late(told, plain_text(one).strip(), identity) for one in shapes.result_contents(entry, identity)
    )


def _tells_late(told: str, said: str, identity: str) -> bool:
    bare = "…" in told and len(told) <= NO_ROOM  # shrunk until not even its fence had room
    if not said:
        return "result" in told.lower() or bare
    head = said.splitlines()[0].strip()
    named = told.startswith("<late_result ") and identity in told.partition("\n")[0].replace('"', " ").split()
    return head[:16] in told or bare or ("…" in told and (named or head[:4] in told))  # it may be shrunk


def is_told_of(shown: Message, entry: Message) -> bool:
    """A note of what a message says whose results cannot be shown without their calls, or the head and tail of it."""
    told = TOLD.fullmatch(str(shown.get("content")))
    if not told or not answered_ids(entry) or called_ids(shown) or answered_ids(shown):
        return False
    return told[1] == entry.get("role") and is_shrunk_text(told[2], plain_text(entry.get("content")))


def is_same_result(shown: Any, original: Any) -> frozenset[str] | None:
    """Whether one result's content is shown whole or shrunk."""
    if _is_same(shown, original):
        return frozenset()
    if original is None and shown == "":
        return frozenset({CONTENT_NONE})
    return frozenset({SHRUNK}) if _is_shrunk_content(shown, original) else None


def is_shrunk_text(shown: str, original: str) -> bool:
    """Head and tail kept, and a short cut note that says a number between them."""
    if shown == original:
        return True
    if len(shown) >= len(original):
        return False
    head = _common(shown, original)
    tail = _common(shown[head:][::-1], original[head:][::-1])
    note = shown[head : len(shown) - tail]
    return head + tail > 0 and len(note) <= LONGEST_CUT_NOTE and any(c.isdigit() for c in shown)


def _common(left: str, right: str) -> int:
    """Length of the common beginning."""
    return next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _is_shrunk_message(shown: Message, entry: Message) -> bool:
    """Its fields are shrunk; with next to no room it may be a few characters, or a mere cut."""
    if called_ids(shown) != called_ids(entry) or answered_ids(shown) != answered_ids(entry):
        return False
    if _are_shrunk_fields(shown, entry, _OF_MESSAGE):
        return len(canonical(shown)) < len(canonical(entry)) + LONGEST_CUT_NOTE
    text, original = _text_of(shown.get("content")), _text_of(entry.get("content"))
    kept = CUT.split(text) if len(text) <= NO_ROOM else []
    return len(kept) > 1 and original.startswith(kept[0]) and original.endswith(kept[-1])


_text_of = shapes.once(plain_text)


def _is_same(left: Any, right: Any) -> bool:
    """Whether both have one canonical text; of two texts that is told without making it."""
    return left == right if isinstance(left, str) and isinstance(right, str) else canonical(left) == canonical(right)


def _is_shrunk_content(shown: Any, original: Any) -> bool:
    if _is_same(shown, original):
        return True
    if isinstance(shown, list) and isinstance(original, list):
        if len(shown) == len(original):
            return all(map(_is_shrunk_block, shown, original))
        if _special_blocks(shown) != _special_blocks(original):
            return False
    files = shapes.media_count(original)  # of too many blocks their words are left, and how many files there were
    told = [f"[{files} file{'s' * (files > 1)} left out]"] if files else []
    return is_shrunk_text(_text_of(shown), "\n".join(filter(None, (_text_of(original), *told))))


def _special_blocks(content: list[Any]) -> list[tuple[Any, Any]]:
    """Blocks that may not be left out when a list is shortened: calls and results."""
    kept = [b for b in content if isinstance(b, Mapping) and b.get("type") not in ("text", *shapes.MEDIA_BLOCKS)]
    return [(b.get("type"), b.get("id") or b.get("tool_use_id") or b.get("tool_call_id")) for b in kept]


def _is_shrunk_block(shown: Any, original: Any) -> bool:
    if _is_same(shown, original):
        return True
    if not isinstance(shown, Mapping) or not isinstance(original, Mapping):
        return _is_shrunk_string(shown, original)
    kind, now = original.get("type"), shown.get("type")
    if kind in THINKING_BLOCKS or kind != now:
        return now == "text" and kind not in {*THINKING_BLOCKS, "text", "tool_use", "tool_call", "tool_result"}
    return _are_shrunk_fields(shown, original, _OF_BLOCK)


def _is_shrunk_string(shown: Any, original: Any) -> bool:
    return isinstance(shown, str) and isinstance(original, str) and is_shrunk_text(shown, original)


def _are_shrunk_fields(shown: Any, original: Message, ways: Mapping[str, Callable[[Any, Any], bool]]) -> bool:
    if not isinstance(shown, Mapping) or shown.keys() != original.keys():
        return False
    changed = (key for key, value in original.items() if not _is_same(shown[key], value))
    return all(key in ways and ways[key](shown[key], original[key]) for key in changed)


def _are_shrunk_calls(shown: Any, original: Any) -> bool:
    are_lists = isinstance(shown, list) and isinstance(original, list) and len(shown) == len(original)
    return are_lists and all(_are_shrunk_fields(*pair, _OF_BLOCK) for pair in zip(shown, original, strict=True))


def _are_shrunk_arguments(shown: Any, original: Any) -> bool:
    """Shorter, of the same type, and JSON if it was JSON."""
    if isinstance(original, Mapping) and "arguments" in original:
        is_alike = isinstance(shown, Mapping) and shown.keys() == original.keys()
        is_same = is_alike and all(shown[key] == original[key] for key in original if key != "arguments")
        return is_same and _are_shrunk_arguments(shown["arguments"], original["arguments"])
    lengths = [len(json.dumps(one, separators=(",", ":"), ensure_ascii=False)) for one in (shown, original)]
    if type(shown) is not type(original) or lengths[0] >= lengths[1]:
        return False
    return not (isinstance(original, str) and _is_json(original)) or _is_json(shown)


# in which a field may be shrunk
_OF_BLOCK: dict[str, Callable[[Any, Any], bool]] = {
    **dict.fromkeys(("input", "arguments", "function"), _are_shrunk_arguments),
    **dict.fromkeys(("content", "output"), _is_shrunk_content),
    "text": _is_shrunk_string,
}
_OF_MESSAGE = {"content": _is_shrunk_content, "tool_calls": _are_shrunk_calls}


def _is_json(text: str) -> bool:
    with suppress(ValueError):
        json.loads(text)
        return True
    return False
