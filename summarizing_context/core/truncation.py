"""Truncation of a text: its head and tail stay, and the cut says how many tokens are left out.

Pure. How much of which text may stay is `shrinking`'s to say.
"""

from __future__ import annotations

from collections.abc import Callable

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
