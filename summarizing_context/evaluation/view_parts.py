"""The parts of a view: system rows, pins, header, raw tail.

Pure. A part is recognized by the text of the messages, without the code that builds views.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from summarizing_context.evaluation.laws import canonical
from summarizing_context.messages.reading import content_texts
from summarizing_context.views.header import PREFACE

Part = Literal["system", "pin", "header", "tail"]

_HEADER = re.compile(rf"{re.escape(PREFACE)}|\[\d+ earlier messages left out\]")


def view_parts(view: Sequence[dict[str, Any]], log: Sequence[dict[str, Any]]) -> list[Part]:
    """Return which part of the view each message belongs to; without a header, all but the leading rows is tail."""
    texts = [content_texts(message.get("content")) for message in view]
    header = next((at for at, found in enumerate(texts) if _HEADER.match("".join(found[:1]))), None)
    roles = [message["role"] in ("system", "developer") for message in view]
    leading = roles.index(False) if False in roles else len(roles)
    if header is None:
        return ["system" if at < leading else "tail" for at in range(len(view))]

    # Rows of users and systems right behind the header are pins where the header covers them.
    ranges = re.findall(r'^<summary messages="\d+-(\d+)">$', "\n".join(texts[header]), re.MULTILINE)
    stop = int(ranges[-1]) + 1 if ranges else 0
    covered, first = {canonical(message) for message in log[:stop]}, canonical(log[stop]) if stop < len(log) else b""
    tail = header + 1
    while tail < len(view) and view[tail]["role"] in ("user", "system", "developer"):
        if (key := canonical(view[tail])) not in covered or key == first:
            break
        tail += 1
    return [
        "header" if at == header else "system" if at < min(leading, header) else "pin" if at < tail else "tail"
        for at in range(len(view))
    ]
