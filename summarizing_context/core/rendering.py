"""Writing messages down for a summarizer: labels, bodies, nothing volatile.

Pure. Each part of a message stands under a line `### <label>`. A body line that looks like a label gets a
backslash in front, so no text can forge one. There are no positions, clocks or ids in it: equal ranges are
written equally wherever they stand. What is too long for one reader is cut in `cutting`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from summarizing_context.core.messages import Part, Reading, is_reminder

RENDERER_VERSION = "1"

BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_FORGED = re.compile(rf"(^|[{BREAKS}])(\\*### )")


def render_messages(readings: Sequence[Reading]) -> str:
    """The messages of a range in log order, every word of them. Exact repeats stand once, with their count."""
    repeats = Counter(reading for reading in readings if not reading.calls and not reading.answers)
    names: dict[str, str] = {}
    lines: list[str] = []
    for reading in readings:
        if (count := repeats.get(reading, 1)) > 0:
            if count > 1:
                repeats[reading] = 0
            for part in reading.parts:
                _render_part(reading, part, names, count, lines)
    return "\n".join(lines)


def render_children(texts: Sequence[str]) -> str:
    """Summaries to be rolled up, oldest first."""
    return "\n".join(f"### summary {n} of {len(texts)}\n{_escape(text)}" for n, text in enumerate(texts, 1))


def render_topic(topic: str, record: str) -> str:
    """A topic, and a record in which it is to be looked for."""
    return f"### topic\n{_escape(topic)}\n{record}"


def _render_part(reading: Reading, part: Part, names: dict[str, str], count: int, lines: list[str]) -> None:
    label = part_label(reading, part, names)
    lines.append(f"### {label} ({count} times)" if count > 1 else f"### {label}")
    lines.extend(_escape(text) for text in part.texts if text)
    if part.media and part.kind != "media":
        lines.append(f"[{len(part.media)} image or file]")


def part_label(reading: Reading, part: Part, names: dict[str, str]) -> str:
    """What a part of a message is; `names` holds the tools of the calls that wait for their results."""
    role = _one_line(reading.role)
    if part.kind == "call":
        names[part.id] = _one_line(part.name) or "tool"
        return f"{role} calls {names[part.id]}"
    if part.kind == "result":
        known = names.pop(part.id, None)
        kind = "late result" if known is None else "failed result" if part.failed else "result"
        return f"{kind} of {known or 'tool'}"
    if part.kind == "thinking":
        return f"{role} thinks"
    if part.kind == "media":
        return f"{role} media"
    note = role == "user" and (not reading.human or any(is_reminder(text) for text in part.texts))
    return f"{role} note" if note else role


def _escape(text: str) -> str:
    return _FORGED.sub(r"\1\\\2", text) if "### " in text else text


def _one_line(text: str) -> str:
    return " ".join(text.split())
