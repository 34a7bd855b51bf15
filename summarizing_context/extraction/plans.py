"""Plans and to-do lists as tools write them: items with their states, and how they are shown.

Pure. A list may stand in any of the shapes that agents use; what is no list of items, nor a text, is no plan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from summarizing_context.extraction import WORDS
from summarizing_context.extraction.tool_calls import parsed

_MOST = 1_000  # items
_MARKS = {state: mark for mark, states in WORDS["plans"]["marks"].items() for state in states}
_TO_DO = "[ ]"


class Item(NamedTuple):
    """One item of a plan."""

    text: str  # its words, as given
    mark: str = ""  # of its state; empty for a plan that is a text
    id: str = ""

    @property
    def line(self) -> str:
        return f"{self.mark} {self.text}" if self.mark else self.text

    @property
    def is_open(self) -> bool:
        return self.mark not in ("[x]", "[-]")


def plan_in_call(arguments: str, keys: Sequence[str], before: Sequence[Item]) -> tuple[Item, ...] | None:
    """Return the plan that a call writes, in one of the arguments `keys`; None where it writes none. `before` is the
    plan that stood: arguments with `merge` change single items of it by their ids."""
    call = parsed(arguments)
    if not isinstance(call, dict):
        return None

    # one task more, or one changed by its id
    if changes_one(keys):
        subject, state = call.get("subject"), call.get("status")
        words = subject.strip() if isinstance(subject, str) else ""
        if "taskId" not in call:
            return (*before, Item(words, _TO_DO)) if words and len(before) < _MOST else None
        known = next((item for item in before if item.id == str(call["taskId"])), None)
        if known is None:
            return None
        mark = _MARKS.get(state, _TO_DO) if isinstance(state, str) else known.mark
        changed = known._replace(text=words or known.text, mark=mark)
        return tuple(changed if item is known else item for item in before)

    # all of it, or some of its items
    items = _items(next((call[key] for key in keys if key in call), None))
    if items is None or call.get("merge") is not True:
        return items
    merged = {item.id or f"\0{at}": item for at, item in enumerate(before)}
    for at, item in enumerate(items):
        known = merged.get(item.id) if item.id else None
        merged[item.id or f"\0\0{at}"] = item._replace(text=item.text or known.text) if known else item
    return tuple(item for item in merged.values() if item.text)


def plan_in_result(result: str, keys: Sequence[str]) -> tuple[Item, ...] | None:
    """Return the plan that the result of a call tells: a list, or an object that holds one; None for any other."""
    told = parsed(result)
    if isinstance(told, dict):
        told = next((told[key] for key in keys if isinstance(told.get(key), list)), None)
    return _items(told) if isinstance(told, list) else None


def changes_one(keys: Sequence[str]) -> bool:
    """Return whether calls with these arguments make or change one item, and the others stand."""
    return "subject" in keys or "taskId" in keys


def numbered_task(result: str, before: Sequence[Item]) -> tuple[Item, ...] | None:
    """Return the plan with the id that a result tells of the newest item without one; None where it tells none."""
    found = re.match(r"\s*Task #(\w{1,40}) created", result)
    new = next((item for item in before if not item.id), None)
    return tuple(item._replace(id=found[1]) if item is new else item for item in before) if found and new else None


def _items(value: object) -> tuple[Item, ...] | None:
    if isinstance(value, str):
        if value.lstrip()[:1] == "[" and isinstance(listed := parsed(value), list):  # a list as JSON in a text
            return _items(listed)
        return (Item(value.strip()),) if value.strip() else None
    if not isinstance(value, list) or len(value) > _MOST:
        return None
    items: list[Item] = []
    for each in value:
        item = {"content": each} if isinstance(each, str) else each
        if not isinstance(item, Mapping):
            return None
        words = next((text for key in WORDS["plans"]["text"] if isinstance(text := item.get(key), str)), "").strip()
        state = next((str(item[key]).lower() for key in ("status", "state", "completed", "done") if key in item), "")
        id = str(item.get("id", ""))
        if not (words or id or isinstance(each, str)):
            return None
        items.append(Item(words, _MARKS.get(state, _TO_DO), id))
    return tuple(items)
