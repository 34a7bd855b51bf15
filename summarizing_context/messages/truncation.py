"""Truncate a text: its head and tail stay, and the cut says how many tokens are left out.

Pure. A large group is cut into even pieces for a summarizer, a long result down to its head and tail.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from summarizing_context.concurrency import GiveWay, go_on
from summarizing_context.messages.estimate import estimate_text

Count = Callable[[str], int]

SHORT_MARK_TOKENS = 6  # reserved for a cut that is a number alone

LEAST_KEPT = 8  # tokens of head and tail below which only the head is kept, with the number of tokens left out

_MARK_TOKENS = 12  # reserved for the words of a cut

LEAST_CUT = LEAST_KEPT + _MARK_TOKENS

_LEAST_HEAD = 4  # characters


def cut_middle(text: str, total: int, cap: int, count: Count) -> str:
    """Head and tail of `text`, which has about `total` tokens, in about `cap` tokens with the words of the cut."""
    if total <= cap:
        return text
    kept = cap - _MARK_TOKENS
    if kept < LEAST_KEPT:
        head, _ = _fitting(text, cap - SHORT_MARK_TOKENS, total, count, from_end=False)
        short = f"{head or text[:_LEAST_HEAD]}[…{total}…]"
        return short if len(short) < len(text) else text
    head, head_tokens = _fitting(text, -(-kept // 2), total, count, from_end=False)
    tail, tail_tokens = _fitting(text[len(head) :], kept // 2, total, count, from_end=True)
    left_out = max(1, total - head_tokens - tail_tokens)
    cut = f"{head}\n[… {left_out} tokens left out …]\n{tail}"
    return cut if len(cut) < len(text) else text


def _fitting(text: str, cap: int, total: int, count: Count, *, from_end: bool) -> tuple[str, int]:
    """The longest end of `text`, about, that costs at most `cap` tokens, and its cost. `total` tells how dense the
    text is, so that one count is mostly enough."""
    length = min(len(text), max(0, cap) * len(text) // max(1, total))
    while length > 0:
        piece = text[-length:] if from_end else text[:length]
        cost = count(piece)
        if cost <= cap:
            return piece, cost
        length = min(length - 1, length * cap // cost)
    return "", 0


CUTTING_VERSION = "1"  # another one whenever the same content would be cut otherwise, or be told otherwise

# Estimated tokens. Ordinary results are read whole; the few longer ones are half of a tool-heavy log, mostly listings
# and files that can be read again, and at this size fill three quarters of a segment.
LONGEST_RESULT = 3_000

HEAD, TAIL = 600, 400

KEY_LINES = 200  # for the lines that stand in place of what is left out

_RESULT_LABEL = re.compile(r"^### (?:failed |late )?result of [^\n]*\n", re.MULTILINE)

_LIKE_A_LABEL = re.compile(r"\\*### ")

_BLOCK = 512  # characters; how finely a large text is measured


class Cut(NamedTuple):
    """A content without the middles of its long results."""

    kept: tuple[str, ...]  # one more than what is left out
    left_out: tuple[str, ...]  # each between two that are kept

    def join(self, told: Sequence[Sequence[str]]) -> str:
        """The content as a model reads it, with the lines that are told of each middle in its place."""
        text = self.kept[0]
        for left_out, lines, after in zip(self.left_out, told, self.kept[1:], strict=True):
            head = text if text.endswith("\n") else f"{text}\n"
            text = f"{head}{_words_of_cut(estimate_text(left_out), lines)}\n{_unforged(after)}"
        return text


def cut_results(content: str) -> Cut:
    """Results over `LONGEST_RESULT` tokens lose their middle, between lines, or at least between words."""
    kept: list[str] = []
    left_out: list[str] = []
    at = 0
    for label in _RESULT_LABEL.finditer(content):
        end = content.find("\n### ", label.end() - 1)
        start, stop = _middle(content, label.end(), len(content) if end < 0 else end + 1)
        if start < stop:
            kept.append(content[at:start])
            left_out.append(content[start:stop])
            at = stop
    return Cut((*kept, content[at:]), tuple(left_out))


def cut_evenly(text: str, parts: int, give_way: GiveWay = go_on) -> list[str]:
    """A rendered text in `parts` pieces of about the same estimated tokens, cut between lines, or at least between
    words. A piece that begins inside a body repeats the label that it stands under. `give_way` is called all along.
    """
    near = len(text) // (4 * parts)
    done = _measured(text, give_way)
    places = (_place(done, done[-1] * part / parts) for part in range(1, parts))
    stops = [0, *(_between_lines(text, place, near) for place in places), len(text)]
    labels = list(_label_places(text))
    pieces: list[str] = []
    for start, stop in pairwise(stops):
        above = bisect_right(labels, start) - 1
        inside = above >= 0 and labels[above] < start < len(text)
        label = text[labels[above] : text.find("\n", labels[above]) + 1] if inside else ""
        pieces.append(label + _unforged(text[start:stop]) if inside else text[start:stop])
    return pieces


def _label_places(text: str) -> Iterator[int]:
    """Where labels begin. Found by plain searches: one regex over megabytes would hold up every other thread."""
    if text.startswith("### "):
        yield 0
    at = text.find("\n### ")
    while at >= 0:
        yield at + 1
        at = text.find("\n### ", at + 1)


def _middle(content: str, start: int, stop: int) -> tuple[int, int]:
    """What is left out of the body from `start` to `stop`; nothing of one that is not too long."""
    body = content[start:stop]
    done = _measured(body)
    if done[-1] <= LONGEST_RESULT:
        return start, start
    head = _between_lines(body, _place(done, HEAD), len(body) // 8)
    tail = _between_lines(body, _place(done, done[-1] - TAIL), len(body) // 8)
    return start + head, start + tail


def _words_of_cut(tokens: int, lines: Sequence[str]) -> str:
    if not lines:
        return f"[{tokens:,} tokens left out here]"
    told = "\n".join(f"- {line}" for line in lines)
    return f"[{tokens:,} tokens left out here; errors and exact values among them:]\n{told}\n[here it goes on]"


def _measured(text: str, give_way: GiveWay = go_on) -> list[int]:
    """Estimated tokens before each block of a text, and at last of all."""
    done = [0]
    for at in range(0, len(text), _BLOCK):
        give_way(_BLOCK)
        done.append(done[-1] + estimate_text(text[at : at + _BLOCK]))
    return done


def _place(done: Sequence[int], tokens: float) -> int:
    """Where a text has reached so many tokens, to the block."""
    return bisect_left(done, tokens) * _BLOCK


def _between_lines(text: str, stop: int, near: int) -> int:
    """The end of a line, else of a word, at most `near` characters before `stop`."""
    for gap in ("\n", " "):
        found = text.rfind(gap, max(0, stop - near), stop)
        if found >= 0:
            return found + 1
    return min(stop, len(text))


def _unforged(text: str) -> str:
    """What was cut inside a line must not begin like a label."""
    return f"\\{text}" if _LIKE_A_LABEL.match(text) else text
