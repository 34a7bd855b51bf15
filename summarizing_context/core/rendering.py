"""Writing messages down for a summarizer: labels, bodies, nothing volatile.

Pure. Each part of a message stands under a line `### <label>`. A body line that looks like a label gets a
backslash in front, so no text can forge one. There are no positions, clocks or ids in it: equal ranges are
written equally wherever they stand.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise

from summarizing_context.core.estimate import estimate_text
from summarizing_context.core.messages import Part, Reading, is_reminder

RENDERER_VERSION = "1"

_BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_FORGED = re.compile(rf"(^|[{_BREAKS}])(\\*### )")
_LABEL_LINE = re.compile(r"^### ", re.MULTILINE)
_BLOCK = 512  # characters; how finely a large text is measured


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


def cut_evenly(text: str, parts: int) -> list[str]:
    """A rendered text in `parts` pieces of about the same estimated tokens, cut between lines, or at least between
    words. A piece that begins inside a body repeats the label that it stands under."""
    near = len(text) // (4 * parts)
    stops = [0, *(_between_lines(text, stop, near) for stop in _even_stops(text, parts)), len(text)]
    labels = [match.start() for match in _LABEL_LINE.finditer(text)]
    pieces: list[str] = []
    for start, stop in pairwise(stops):
        above = bisect_right(labels, start) - 1
        inside = above >= 0 and labels[above] < start < len(text)
        label = text[labels[above] : text.find("\n", labels[above]) + 1] if inside else ""
        pieces.append(label + text[start:stop])
    return pieces


def _even_stops(text: str, parts: int) -> list[int]:
    """Where the pieces of a text would end if it could be cut anywhere."""
    sizes = [estimate_text(text[at : at + _BLOCK]) for at in range(0, len(text), _BLOCK)]
    done = list(accumulate(sizes, initial=0))
    return [bisect_left(done, done[-1] * part / parts) * _BLOCK for part in range(1, parts)]


def _between_lines(text: str, stop: int, near: int) -> int:
    """The end of a line, else of a word, at most `near` characters before `stop`."""
    for gap in ("\n", " "):
        found = text.rfind(gap, max(0, stop - near), stop)
        if found >= 0:
            return found + 1
    return min(stop, len(text))


def _render_part(reading: Reading, part: Part, names: dict[str, str], count: int, lines: list[str]) -> None:
    label = _label(reading, part, names)
    lines.append(f"### {label} ({count} times)" if count > 1 else f"### {label}")
    lines.extend(_escape(text) for text in part.texts if text)
    if part.media and part.kind != "media":
        lines.append(f"[{len(part.media)} image or file]")


def _label(reading: Reading, part: Part, names: dict[str, str]) -> str:
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
