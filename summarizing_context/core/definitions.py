"""Definitions in what a human says: "our staging server is at 10.0.0.7", "CI runs on Jenkins", "the owner is Ana".

Pure, and made for precision: a subject of a few words, a verb of being, and right behind it an exact value or a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from summarizing_context.core.sentences import cleaned, split_prose

_PASTED = 25  # sentences from which on a message is a document rather than something said
_LONGEST = 300  # characters of a sentence
_VALUE = r"""(?:[`"'(]*)(?:[A-Z][\w.&+-]*|[\w.~/-]*[./:@_][\w./:@_-]*\w|\w*\d[\w.:%-]*)(?!\w)"""
_SECRET = re.compile(r"(?i)passw|secret|token|\bkey\b|\bpin\b")
_DEFINITION = re.compile(
    r"(?:(?i:please |note |remember |fyi|that |and |also )[,:]? ?)*(?i:the |our |my )?"
    r"(?P<subject>(?!(?i:it|this|that|there|he|she|they|you|i|we|what|which|who|here|so|if|when|let)\b)"
    r"[\w/+#-]+(?: [\w/+#'’-]+){0,5}?)"
    r"(?: (?i:is|are|runs|lives|sits|listens|belongs))(?: (?i:at|on|in|to|called|named))? "
    rf"(?P<value>{_VALUE})"
)


class Definition(NamedTuple):
    """What a sentence defines, and the sentence."""

    subject: str
    sentence: str


def definitions(texts: Iterable[str]) -> Iterator[Definition]:
    """The definitions in what a person said in one message."""
    sentences = [cleaned(sentence).strip() for text in texts for sentence in split_prose(text)[0]]
    for sentence in sentences if len(sentences) < _PASTED else ():
        found = _DEFINITION.match(sentence)
        if (
            found
            and not _SECRET.search(found["subject"])
            and len(sentence) <= _LONGEST
            and not sentence.rstrip("\"')* ").endswith("?")
        ):
            yield Definition(found["subject"], sentence)
