"""Rules and corrections in what a human says: which sentences bind, and how strictly.

Pure. Only texts that a human wrote are ever given to this module.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from summarizing_context.core.cues import DEFERRED, LEADS, LIMITS, MILD, ORDERS, STRICT, TO_SOMEONE
from summarizing_context.core.words import Words, words_of

PASTED = 25  # sentences in a message from which on it is a document rather than something said
_SHORT = 8  # words

_FOREIGN = re.compile(
    r"(?i)\b(?:ne pas|plutôt|никогда|всегда|нельзя|вместо)\b|不要|必须|必須|总是|總是|永远|绝不|禁止|不得|改用|"
    r"しないで|必ず|常に|대신|항상|절대|반드시"
)
_CONTRAST = re.compile(r"(?i)\bnot \S{1,60},? but\b|\b(?:use|with|in|to|on|want) \S{1,60},? not\b")
_NOT_AN_ORDER = re.compile(
    r"(?i)\bi (?:still |really |also |just )?"
    r"(?:don['’]?t|do not|did ?n['’]?t|never|can['’]?t|cannot|am not|was not)(?: \w{1,12})? "
    r"(?:know|think|remember|recall|understand|see|have|find|believe|mind|saw|had|got|sure)\b"
    r"|\b(?:why|how come)\b.{0,80}\b(?:not|never|always|only|must|['’]t)\b"
)
_TOLD = re.compile(
    r"(?i)(?:and |but |because )?(?:it|this|that|there|they|he|she|which)(?:['’]s)? "
    r"(?:(?!should|must|shall)\w{1,12} )?(?:never|always|only)\b"
)
_NOT_SPEECH = ("<", "{", "|", "=", "#!", "//")


class Sentence(NamedTuple):
    """One sentence, with its words and the number of the block it stands in."""

    text: str
    words: Words
    block: int


def sentence(text: str, block: int) -> Sentence:
    """A sentence ready to be read."""
    return Sentence(text, words_of(plain(text)), block)


def strength_of(said: Sentence, *, pasted: bool) -> int:
    """How strictly a sentence binds; 0 if it is no constraint. In a long pasted text only plain ones count."""
    words, text = said.words, said.text
    if (len(words) < 2 and text.isascii()) or text.startswith(_NOT_SPEECH):
        return 0
    orders = _orders(words)
    strength = 3 * orders
    if STRICT.found_in(words):
        strength += 6
    elif LIMITS.found_in(words) and any(word.isdigit() for word in words):
        strength += 5
    elif MILD.found_in(words) or b"actually" in words[:2] or (b"not" in words and _CONTRAST.search(text)):
        strength += 4 if orders or len(words) <= _SHORT or TO_SOMEONE.found_in(words) else 0 if pasted else 2
    elif DEFERRED.found_in(words):  # asked for now, due much later
        strength += 0 if pasted else 5
    if strength == 0:
        return 3 if not plain(text).isascii() and _FOREIGN.search(text) else 0
    if text.rstrip("\"')* ").endswith("?") or _NOT_AN_ORDER.search(text) or _TOLD.match(text):
        strength -= 6
    return strength - (len(text) > 240) - 2 * pasted


def _orders(words: Words) -> bool:
    """Whether a sentence begins as an order does."""
    for word in words[:4]:
        if word not in LEADS.words:
            return word in ORDERS.words or (word == b"do" and b"not" in words[:4])
    return False


def plain(text: str) -> str:
    return text if text.isascii() else text.replace("’", "'")
