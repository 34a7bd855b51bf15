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


def view_parts(view: Sequence[dict[str, Any]], log: Sequence[dict[str, Any]]) -> list[Part]:
    """Return which part of the view each message belongs to; without a header, all but the leading rows is tail."""
    header = next((at for at, message in enumerate(view) if _is_header(message)), None)
    parts: list[Part] = []
    for at, message in enumerate(view):
        if at == header:
            parts.append("header")
        elif message["role"] in ("system", "developer") and all(part == "system" for part in parts):
            parts.append("system")
        else:
            parts.append("pin" if header is not None and at < header else "tail")
    if header is None:
        return parts

    # Rows of users and systems right behind the header are pins where the header covers them.
    texts = "\n".join(message_text_parts(view[header]))
    ranges = re.findall(r'^<summary messages="\d+-(\d+)">$', texts, re.MULTILINE)
    stop = int(ranges[-1]) + 1 if ranges else 0
    covered, first = {canonical(message) for message in log[:stop]}, canonical(log[stop]) if stop < len(log) else b""
    for at in range(header + 1, len(view)):
        key = canonical(view[at])
        if key not in covered or key == first or view[at]["role"] not in ("user", "system", "developer"):
            break
        parts[at] = "pin"
    return parts


def _is_header(message: dict[str, Any]) -> bool:
    """Whether a message of a view is the header rather than somebody's."""
    content = message.get("content")
    first = content[0] if isinstance(content, list) and content else None
    text = first.get("text") if isinstance(first, dict) else None
    return isinstance(text, str) and (
        text.startswith(PREFACE) or re.match(r"\[\d+ earlier messages left out\]", text) is not None
    )
