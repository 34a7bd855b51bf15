"""Writing messages down for a summarizer: labels, bodies, nothing volatile.

Pure. Each part of a message stands under a line `### <label>`. A body line that looks like a label gets a
backslash in front, so no text can forge one. There are no positions, clocks or ids in it: equal ranges are
written equally wherever they stand. Of a large group a reader gets even pieces, of a
long result its head and tail; a notice gives the number of tokens left out.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.messages.reading import Part, Reading
from summarizing_context.messages.text import split_pieces
from summarizing_context.messages.tokens import estimate_text

RENDERER_VERSION = "2"
TYPED = "user"  # the label of what a human typed
BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
THOUGHT_ONLY = "### assistant thinks"  # a record of thinking that nobody is to read
_LABEL = re.compile(rf"(?:\A|(?<=[{BREAKS}]))\\*### ")


def render_messages(
    readings: Sequence[Reading], *, numbered: bool = False, thinking: bool = False, yield_now: YieldNow = never_yield
) -> str:
    """Return the messages of a range in log order, every word of them. Exact repeats stand once, with their count.

    What a host put into a row of the user's stands under a label of its own. `numbered`: labels end with the message's
    place in the range, such as `[1]`. `thinking`: what the agent thought stands there too; without, a range of nothing
    else is `THOUGHT_ONLY`. `yield_now` is called all along.
    """
    said = [
        reading
        if reading.calls or reading.answers or not (reading.frame or any(part.sealed for part in reading.parts))
        else reading._replace(parts=tuple(part._replace(sealed=()) for part in reading.parts), frame=())
        for reading in readings
    ]  # those that may repeat without what no model reads
    repeats = Counter(reading for reading in said if not reading.calls and not reading.answers)
    names, lines, is_silent = dict[str, str](), list[str](), False
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
                for who, text in parts_by_author(reading, part, names):
                    lines += [f"### {who}{ending}", *([_escape(text)] if text else [])]
                if part.media and part.kind != "media":
                    lines.append(f"[{len(part.media)} image or file]")
    return "\n".join(lines) if lines or not is_silent else THOUGHT_ONLY


def render_children(texts: Sequence[str]) -> str:
    """Return summaries to be rolled up, oldest first."""
    return "\n".join(f"### summary {n} of {len(texts)}\n{_escape(text)}" for n, text in enumerate(texts, 1))


def render_typed(rules: Sequence[str], texts: Sequence[str]) -> str:
    """Return what humans typed, each text under its number, and before it a line for each known rule."""
    said = [f"### {TYPED} [{number}]\n{_escape(text)}" for number, text in enumerate(texts, 1)]
    return "\n".join([*(["### rules so far", *rules] if rules else []), *said])


def parts_by_author(
    reading: Reading, part: Part, names: dict[str, str], host: str = "user note"
) -> list[tuple[str, str]]:
    """Return the words of a part, each run under what it is, or who says it: `host` what it has put into a row of the
    user's. `names` holds the tools of the calls that wait for their results."""
    whole, role = "\n".join(filter(None, part.texts)), " ".join(reading.role.split())
    if part.kind == "call":
        names[part.id] = " ".join(part.name.split()) or "tool"
        return [(f"{role} calls {names[part.id]}", whole)]
    if part.kind == "result":
        known = names.pop(part.id, None)
        kind = "late result" if known is None else "failed result" if part.failed else "result"
        return [(f"{kind} of {known or 'tool'}", whole)]
    words = {"thinking": " thinks", "media": " media", "extra": " note"}
    if (label := role + words.get(part.kind, "")) != TYPED:
        return [(label, whole)]
    if not reading.human or part.put_in:
        return [(host, whole)]
    pieces = [piece for text in part.texts for piece in split_pieces(text)]
    if all(piece.typed for piece in pieces):
        return [(TYPED, whole)]
    return [(TYPED if piece.typed else host, piece.text.strip("\n")) for piece in pieces]


def _escape(text: str) -> str:
    return _LABEL.sub(r"\\\g<0>", text) if "### " in text else text


# -- cutting

Count = Callable[[str], int]
SHORT_MARK_TOKENS = 6  # reserved for a cut that is a number alone
LEAST_KEPT = 8  # tokens of head and tail below which only the head is kept, with the number of tokens left out
_MARK_TOKENS = 12  # reserved for the words of a cut
LEAST_CUT = LEAST_KEPT + _MARK_TOKENS


def cut_middle(text: str, total: int, cap: int, count: Count) -> str:
    """Return head and tail of a text of about `total` tokens with a notice between them, in about `cap` tokens."""
    if total <= cap:
        return text
    kept = cap - _MARK_TOKENS
    if kept < LEAST_KEPT:
        head, _ = fitting(text, cap - SHORT_MARK_TOKENS, total, count)
        short = f"{head or text[:4]}[…{total}…]"
        return short if len(short) < len(text) else text
    head, head_tokens = fitting(text, -(-kept // 2), total, count)
    tail, tail_tokens = fitting(text[len(head) :], kept // 2, total, count, from_end=True)
    left_out = max(1, total - head_tokens - tail_tokens)
    cut = f"{head}\n[… {left_out} tokens left out …]\n{tail}"
    return cut if len(cut) < len(text) else text


def fitting(text: str, cap: int, total: int, count: Count, *, from_end: bool = False) -> tuple[str, int]:
    """Return about the longest end of `text` within `cap` tokens, and its tokens. `total` spares most counts."""
    length = min(len(text), max(0, cap) * len(text) // max(1, total))
    while length > 0:
        piece = text[-length:] if from_end else text[:length]
        cost = count(piece)
        if cost <= cap:
            return piece, cost
        length = min(length - 1, length * cap // cost)
    return "", 0


CUTTING_VERSION = "2"  # changes whenever the same content would be cut or described in another way
_BLOCK = 512  # characters; how finely a large text is measured


def cut_results(content: str, key_lines: Callable[[str], Sequence[str]] = lambda _: ()) -> str:
    """Leave of each result over 3,000 estimated tokens the first 600 and the last 400, cut between lines or at least
    between words; a notice with the `key_lines` of what is left out stands between them.

    Ordinary results are read whole; the few longer ones are half of a tool-heavy log, mostly listings and files that
    can be read again, and at this size fill three quarters of a segment.
    """
    kept: list[str] = []
    at = 0
    for label in re.finditer(r"^### (?:failed |late )?result of [^\n]*\n", content, re.MULTILINE):
        end = content.find("\n### ", label.end() - 1)
        body = content[label.end() : len(content) if end < 0 else end + 1]
        sums = _token_sums(body)
        if sums[-1] <= 3_000:
            continue
        places = (bisect_left(sums, tokens) * _BLOCK for tokens in (600, sums[-1] - 400))
        head, tail = (label.end() + between_lines(body, place, len(body) // 8) for place in places)
        if head < tail:
            before, middle = content[at:head], content[head:tail]
            kept += (_escape_label(before) if at else before, "" if before.endswith("\n") else "\n")
            kept.append(f"[{estimate_text(middle):,} tokens left out here")
            if told := "".join(f"- {line}\n" for line in key_lines(middle)):
                kept.append(f"; errors and exact values among them:]\n{told}[here it goes on")
            kept.append("]\n")
            at = tail
    return "".join((*kept, _escape_label(content[at:]) if at else content))


def cut_evenly(text: str, parts: int, yield_now: YieldNow = never_yield) -> list[str]:
    """A rendered text in `parts` pieces of about equal estimated tokens, cut between lines or at least between words.

    A piece that begins inside a body repeats the label of the body. `yield_now` is called throughout.
    """
    reach = len(text) // (4 * parts)
    sums = _token_sums(text, yield_now)
    places = (bisect_left(sums, sums[-1] * part / parts) * _BLOCK for part in range(1, parts))
    stops = [0, *(between_lines(text, place, reach) for place in places), len(text)]
    labels = [0] if text.startswith("### ") else []
    labels += (found.start() + 1 for found in re.finditer("\n### ", text))
    pieces: list[str] = []
    for start, stop in pairwise(stops):
        above = bisect_right(labels, start) - 1
        inside = above >= 0 and labels[above] < start < len(text)
        label = text[labels[above] : text.find("\n", labels[above]) + 1] if inside else ""
        pieces.append(label + _escape_label(text[start:stop]) if inside else text[start:stop])
    return pieces


def _token_sums(text: str, yield_now: YieldNow = never_yield) -> list[int]:
    """Return estimated tokens before each block of a text, and of the whole text at the end."""
    sums = [0]
    for at in range(0, len(text), _BLOCK):
        yield_now(_BLOCK)
        sums.append(sums[-1] + estimate_text(text[at : at + _BLOCK]))
    return sums


def between_lines(text: str, stop: int, reach: int) -> int:
    """Return the end of a line, else of a word, at most `reach` characters before `stop`; else `stop`."""
    found = (text.rfind(gap, max(0, stop - reach), stop) + 1 for gap in ("\n", " "))
    return next(filter(None, found), min(stop, len(text)))


def _escape_label(text: str) -> str:
    return f"\\{text}" if text.lstrip("\\").startswith("### ") else text
