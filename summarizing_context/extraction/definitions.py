"""Definitions in what a human says: "our staging server is at 10.0.0.7", "CI runs on Jenkins", "Ana owns the parser".

Pure, and made for precision: a subject of a few words, a verb of being or of owning, and right beside it an exact value
or a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from summarizing_context.messages.text import cleaned, split_prose

_PASTED = 25  # sentences from which on a message is a document rather than something said

_LONGEST = 300  # characters of a sentence

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

_VERB = re.compile(r"(?<!i)s$")  # the ending of a verb

_ENDS_IN_NUMBERS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)+\.)\s+(?=[A-Z])")

_NAME = (
    r"(?!(?i:if|when|once|until|unless|since|because|while|after|before|as|though|although|whether|maybe|perhaps|"
    r"nobody|none|neither|someone|somebody|anyone|anybody|everyone|everybody|who|what|which|this|that|it|he|she)\b)"
    r"[A-Z][\w.'’-]*(?: [A-Z][\w.'’-]*){0,3}(?!\w)"
)

_KNOWN = r"(?!(?i:an?|some|them|these|those|his|her|their)\b)"

_OWNERS = {  # what each tells of its subject: who that belongs to
    "owner of": (
        re.compile(rf"{_OPENING}{_NAME} owns {_KNOWN}{_SUBJECT}(?=[.,;!]|$)"),
        re.compile(rf"{_OPENING}{_SUBJECT} (?:is|are) owned by {_NAME}"),
        re.compile(rf"{_OPENING}(?i:the )?(?i:owner) of {_SUBJECT}: {_NAME}"),
    ),
    "maintainer of": (
        re.compile(rf"{_OPENING}{_NAME} maintains {_KNOWN}{_SUBJECT}(?=[.,;!]|$)"),
        re.compile(rf"{_OPENING}{_SUBJECT} (?:is|are) maintained by {_NAME}"),
        re.compile(rf"{_OPENING}(?i:the )?(?i:maintainer) of {_SUBJECT}: {_NAME}"),
    ),
}


class Definition(NamedTuple):
    """What a sentence defines, and the sentence."""

    subject: str
    sentence: str
    relation: str = ""  # what it tells of the subject, such as "is at" or "run on"; empty where the subject says it


def definitions(texts: Iterable[str]) -> Iterator[Definition]:
    """The definitions in what a person said in one message."""
    sentences = [
        cleaned(sentence).strip() for text in texts for said in split_prose(text)[0] for sentence in _split(said)
    ]
    for sentence in sentences if len(sentences) < _PASTED else ():
        found = _defined(sentence)
        if (
            found is not None
            and not _SECRET.search(found.subject)
            and len(sentence) <= _LONGEST
            and not sentence.rstrip("\"')* ").endswith("?")
        ):
            yield found


def _split(sentence: str) -> Iterator[str]:
    """What ends in an address or a version, and what is said behind it."""
    start = 0
    for end in _ENDS_IN_NUMBERS.finditer(sentence):
        yield sentence[start : end.end(1)]
        start = end.end()
    yield sentence[start:]


def _defined(sentence: str) -> Definition | None:
    """What a sentence defines; None where it defines nothing."""
    for owner, forms in _OWNERS.items():
        for form in forms:
            if (found := form.match(sentence)) is not None:
                return Definition(f"{owner} {found['subject']}", sentence)
    if (found := _DEFINITION.match(sentence)) is None:
        return None
    verb, *rest = found["relation"].lower().split()
    return Definition(found["subject"], sentence, " ".join(["is" if verb == "are" else _VERB.sub("", verb), *rest]))


def as_said(subject: str) -> str:
    """The subject of a definition, without what was put before it."""
    for owner in _OWNERS:
        subject = subject.removeprefix(f"{owner} ")
    return subject
