"""Definitions in what a human says, such as "our staging server is at 10.0.0.7" or "Ana owns the parser".

Pure, and made for precision: a subject of a few words, a verb of being or of owning, and right beside it an exact value
or a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from summarizing_context.messages.search_terms import stems
from summarizing_context.messages.text import cleaned, split_prose

_VALUE = r"""(?:[`"'(]*)(?:[A-Z][\w.&+-]*|[\w.~/-]*[./:@_][\w./:@_-]*\w|\w*\d[\w.:%-]*)(?!\w)"""
_SECRET = re.compile(r"(?i)passw|secret|token|\bkey\b|\bpin\b")
_OPENING = r"(?:(?i:please |note |remember |fyi|that |and |also )[,:]? ?)*"

_SUBJECT = (
    r"(?i:the |our |my )?(?P<subject>"
    r"(?!(?i:it|this|that|there|he|she|they|you|i|we|what|which|who|here|so|if|when|let)\b)"
    r"[\w/+#-]+(?: [\w/+#'’-]+){0,5}?)"
)

_DEFINITION = re.compile(
    rf"{_OPENING}{_SUBJECT}"
    r"(?P<relation>(?: (?i:is|are|runs?|lives?|sits?|listens?|belongs?))(?: (?i:at|on|in|to|called|named))?) "
    rf"(?P<value>{_VALUE})"
)

_NAME = (
    r"(?!(?i:if|when|once|until|unless|since|because|while|after|before|as|though|although|whether|maybe|perhaps|"
    r"nobody|none|neither|someone|somebody|anyone|anybody|everyone|everybody|who|what|which|this|that|it|he|she)\b)"
    r"[A-Z][\w.'’-]*(?: [A-Z][\w.'’-]*){0,3}(?!\w)"
)

_KNOWN = r"(?!(?i:an?|some|them|these|those|his|her|their)\b)"

_OWNED = (  # what each tells of its subject: who that belongs to
    re.compile(rf"{_OPENING}{_NAME} owns {_KNOWN}{_SUBJECT}(?=[.,;!]|$)"),
    re.compile(rf"{_OPENING}{_SUBJECT} (?:is|are) owned by {_NAME}"),
)

_ENDS_IN_NUMBERS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)+\.)\s+(?=[A-Z])")


class Definition(NamedTuple):
    """What a sentence defines, and the sentence."""

    subject: str
    sentence: str
    relation: str = ""  # what it tells of the subject, such as "is at" or "run on"; empty where the subject says it


def definitions(texts: Iterable[str]) -> Iterator[Definition]:
    """Yield the definitions in what a person said in one message; none of a document that was pasted."""
    sentences: list[str] = []
    for said in (said for text in texts for said in split_prose(text)[0]):
        start = 0
        for end in _ENDS_IN_NUMBERS.finditer(said):  # an address or a version, and what is said behind it
            sentences.append(cleaned(said[start : end.end(1)]).strip())
            start = end.end()
        sentences.append(cleaned(said[start:]).strip())
    for sentence in sentences if len(sentences) < 25 else ():
        if len(sentence) > 300 or sentence.rstrip("\"')* ").endswith("?"):
            continue
        if owned := next(filter(None, (form.match(sentence) for form in _OWNED)), None):
            found = Definition(f"owner of {owned['subject']}", sentence)
        elif defined := _DEFINITION.match(sentence):
            verb, *rest = defined["relation"].lower().split()
            verb = "is" if verb == "are" else re.sub(r"(?<!i)s$", "", verb)  # without its ending
            found = Definition(defined["subject"], sentence, " ".join([verb, *rest]))
        else:
            continue
        if not _SECRET.search(found.subject):
            yield found


def bare_subject(subject: str) -> str:
    """Return the subject of a definition, without what was put before it."""
    return subject.removeprefix("owner of ")


def normal_subject(about: str) -> str:
    """Return what something is about, so that equal subjects read alike; empty where nothing telling is left."""
    return " ".join(sorted(stems(about)))
