"""The parts of a view: system rows, pins, header, raw tail.

Pure. A part is recognized by the text of the messages, without the code that builds views.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from summarizing_context.evaluation.laws import canonical
from summarizing_context.messages.reading import message_text_parts
from summarizing_context.views.header import PREFACE

Part = Literal["system", "pin", "header", "tail"]
PARTS: tuple[Part, ...] = ("pin", "header", "tail", "system")  # in the order of preference for quoting
_LEFT_OUT = re.compile(r"\[\d+ earlier messages left out\]")
_RANGE = re.compile(r'^<summary messages="\d+-(\d+)">$', re.MULTILINE)


def part_texts(view: Sequence[dict[str, Any]], log: Sequence[dict[str, Any]]) -> dict[Part, str]:
    """The text of each part of a view."""
    texts: dict[Part, list[str]] = {part: [] for part in PARTS}
    for part, message in zip(view_parts(view, log), view, strict=True):
        texts[part] += message_text_parts(message)
    return {part: "\n".join(found) for part, found in texts.items() if found}


def view_parts(view: Sequence[dict[str, Any]], log: Sequence[dict[str, Any]]) -> list[Part]:
    """Which part of the view each message belongs to; without a header, all but the leading rows is tail."""
    header = next((at for at, message in enumerate(view) if is_header(message)), None)
    parts: list[Part] = []
    for at, message in enumerate(view):
        leading = all(part == "system" for part in parts)
        if leading and message["role"] in ("system", "developer") and not is_header(message):
            parts.append("system")
        elif at == header:
            parts.append("header")
        else:
            parts.append("pin" if header is not None and at < header else "tail")
    if header is not None:
        pinned = _pinned_behind(view[header], view[header + 1 :], log)
        parts[header + 1 : header + 1 + pinned] = ["pin"] * pinned
    return parts


def is_header(message: dict[str, Any]) -> bool:
    """Whether a message of a view is the header rather than somebody's."""
    content = message.get("content")
    first = content[0] if isinstance(content, list) and content else None
    text = first.get("text") if isinstance(first, dict) else None
    return isinstance(text, str) and (text.startswith(PREFACE) or _LEFT_OUT.match(text) is not None)


def _pinned_behind(header: dict[str, Any], rows: Sequence[dict[str, Any]], log: Sequence[dict[str, Any]]) -> int:
    """How many of the rows behind the header are covered by it: they stand at the front, as users or systems."""
    ranges = _RANGE.findall("\n".join(message_text_parts(header)))
    stop = int(ranges[-1]) + 1 if ranges else 0
    covered = {canonical(message) for message in log[:stop]}
    first = canonical(log[stop]) if stop < len(log) else b""
    pinned = 0
    for row in rows:
        key = canonical(row)
        if key not in covered or key == first or row["role"] not in ("user", "system", "developer"):
            break
        pinned += 1
    return pinned
