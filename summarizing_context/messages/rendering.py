"""Writing messages down for a summarizer: labels, bodies, nothing volatile.

Pure. Each part of a message stands under a line `### <label>`. A body line that looks like a label gets a
backslash in front, so no text can forge one. There are no positions, clocks or ids in it: equal ranges are
written equally wherever they stand. What is too long for one reader is cut in `truncation`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.messages.authorship import split_pieces, split_words
from summarizing_context.messages.reading import Part, Reading

RENDERER_VERSION = "2"
TYPED = "user"  # the label of what a human typed
BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
THOUGHT_ONLY = "### assistant thinks"  # a record of thinking that nobody is to read
_LABEL = re.compile(rf"(?:\A|(?<=[{BREAKS}]))\\*### ")


def render_messages(
    readings: Sequence[Reading],
    *,
    numbered: bool = False,
    thinking: bool = False,
    yield_now: YieldNow = never_yield,
) -> str:
    """Return the messages of a range in log order, every word of them. Exact repeats stand once, with their count.

    What a host put into a row of the user's stands under a label of its own. `numbered`: labels end with the message's
    place in the range, such as `[1]`. `thinking`: what the agent thought stands there too; without, a range of nothing
    else is `THOUGHT_ONLY`. `yield_now` is called all along.
    """
    said = [reading.said for reading in readings]
    repeats = Counter(reading for reading in said if not reading.calls and not reading.answers)
    names: dict[str, str] = {}
    lines: list[str] = []
    is_silent = False
    for number, reading in enumerate(said, 1):
        count = repeats.get(reading, 1)
        if count > 1:
            repeats[reading] = 0
        for part in reading.parts if count else ():
            if part.kind == "thinking" and not (thinking and part.texts):
                is_silent = True
            elif part.texts or part.kind != "extra":
                yield_now(sum(map(len, part.texts)))
                ending = (f" ({count} times)" if count > 1 else "") + (f" [{number}]" if numbered else "")
                for who, texts in _by_author(reading, part, part_label(reading, part, names)):
                    lines.append(f"### {who}{ending}")
                    lines.extend(_escape(text) for text in texts if text)
                if part.media and part.kind != "media":
                    lines.append(f"[{len(part.media)} image or file]")
    return "\n".join(lines) if lines or not is_silent else THOUGHT_ONLY


def render_children(texts: Sequence[str]) -> str:
    """Return summaries to be rolled up, oldest first."""
    return "\n".join(f"### summary {n} of {len(texts)}\n{_escape(text)}" for n, text in enumerate(texts, 1))


def render_typed(rules: Sequence[str], texts: Sequence[str]) -> str:
    """Return what humans typed in some messages, each text under its number, and before it a line for each known
    rule."""
    lines = ["### rules so far", *rules] if rules else []
    for number, text in enumerate(texts, 1):
        lines += (f"### {TYPED} [{number}]", _escape(text))
    return "\n".join(lines)


def render_topic(topic: str, record: str) -> str:
    """Return a topic, and a record in which it is to be looked for."""
    return f"### topic\n{_escape(topic)}\n{record}"


def _by_author(reading: Reading, part: Part, label: str) -> Iterator[tuple[str, Sequence[str]]]:
    if label != TYPED or not reading.human or part.put_in:
        yield ("user note" if label == TYPED else label), part.texts
        return
    for typed, put_in in map(split_words, part.texts):
        if not put_in or (typed and not typed.isspace()):
            yield TYPED, (typed,)
        if put_in:
            yield "user note", (put_in,)


def parts_by_author(reading: Reading, part: Part, label: str) -> Iterator[tuple[str, str]]:
    """Yield a part in pages: its words in their order, each run under what it is, what a host put in as `injected`."""
    media = [f"[{len(part.media)} image or file]"] if part.media else []
    if label != TYPED:
        yield label, "\n".join([*part.texts, *media])
        return
    own = reading.human and not part.put_in
    pieces = [piece for text in part.texts for piece in split_pieces(text)] if own else []
    if all(piece.typed for piece in pieces):
        yield (TYPED if own else "injected"), "\n".join([*part.texts, *media])
        return
    yield from ((TYPED if piece.typed else "injected", piece.text.strip("\n")) for piece in pieces)


def part_label(reading: Reading, part: Part, names: dict[str, str]) -> str:
    """Return what a part of a message is; `names` holds the tools of the calls that wait for their results."""
    role = " ".join(reading.role.split())
    if part.kind == "call":
        names[part.id] = " ".join(part.name.split()) or "tool"
        return f"{role} calls {names[part.id]}"
    if part.kind == "result":
        known = names.pop(part.id, None)
        kind = "late result" if known is None else "failed result" if part.failed else "result"
        return f"{kind} of {known or 'tool'}"
    if part.kind in ("thinking", "media"):
        return f"{role} thinks" if part.kind == "thinking" else f"{role} media"
    return f"{role} note" if part.kind == "extra" else role


def _escape(text: str) -> str:
    """Return a body in which no line looks like a label."""
    return _LABEL.sub(r"\\\g<0>", text) if "### " in text else text
