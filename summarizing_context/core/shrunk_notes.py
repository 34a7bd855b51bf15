"""Shrinking a note: a fenced text loses of its inside only, and at last its fence.

Pure. Messages that are no notes are shrunk in `shrinking`.
"""

from __future__ import annotations

from summarizing_context.core.door import Message
from summarizing_context.core.estimate import MESSAGE_TOKENS
from summarizing_context.core.fencing import within_fence
from summarizing_context.core.joining import LEFT_OUT
from summarizing_context.core.shrinking import Price, Shrunk
from summarizing_context.core.truncation import SHORT_MARK_TOKENS, cut_middle

_NO_WORD = "[… {} tokens left out …]"  # of a note whose very fence has no room


def shrink_note(message: Message, tokens: int, cap: int, price: Price, *, mute: bool = False) -> Shrunk:
    """A fenced note brought down to `cap` tokens: only what stands inside its fence is cut. To `mute` it is to leave
    none of it where even the words of the cut are too much."""
    if tokens <= cap:
        return Shrunk(message, tokens)
    fenced = message["content"]
    frame = MESSAGE_TOKENS + price.count(within_fence(fenced, lambda _: ""))
    inside = max(0, tokens - frame)
    text = within_fence(fenced, lambda text: cut_middle(text, inside, max(0, cap - frame), price.count))
    if frame + SHORT_MARK_TOKENS > cap:
        text = _NO_WORD.format(inside)
    note = {**message, "content": text}
    cost = price.message(note)
    if mute and cost > cap:
        note = {**message, "content": LEFT_OUT["text"]}
        cost = price.message(note)
    return Shrunk(note, cost) if cost < tokens else Shrunk(message, tokens)


def says_nothing(message: Message) -> bool:
    """Whether a note was brought down so far that nothing of it is left."""
    before, _, after = _NO_WORD.partition("{}")
    content = message.get("content")
    if not isinstance(content, str) or "\n" in content:
        return False
    return content == LEFT_OUT["text"] or (content.startswith(before) and content.endswith(after))
