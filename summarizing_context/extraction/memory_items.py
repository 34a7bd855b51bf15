"""Memories as a model proposes them, and definitions in what a human says.

Pure. A proposal is kept only where the record says the same: its quote has to stand, word for word, in the message that
it names. What a memory says is the sentence around it, so that no half of one turns its meaning, and a question says
nothing. What a model says of itself is only what the sentence is about.

Definitions are sentences such as "our staging server is at 10.0.0.7", "CI runs on Jenkins" or "Ana owns the parser".
They are made for precision: a subject of a few words, a verb of being or of owning, and right beside it an exact value
or a name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from summarizing_context.messages.search_terms import stems
from summarizing_context.messages.text import cleaned, split_prose

HUMAN = "user"  # the label of what a person says
KINDS = ("fact", "decision", "preference")
_MOST = 20  # of one record
_SHORTEST, _LONGEST = 6, 500  # characters of a quote, and of the sentence around it
_LONGEST_ABOUT = 80  # characters
_BLOCK = re.compile(r"^### (?P<label>.+?)(?: \(\d+ times\))? \[(?P<message>\d+)\]$", re.MULTILINE)
_BEGIN = re.compile(r"\n|[.!?…][\"')\]]*\s+|[。！？]")
_END = re.compile(r"\n|[.!?…][\"')\]]*(?=\s|$)|[。！？]")
_QUESTION = re.compile(r"[.!…！\"'”’)\]*_\s]*+[?？؟]")  # read from the end


class Item(NamedTuple):
    """Something worth to be remembered, as the record bears it out."""

    kind: str
    about: str  # what it is about; empty where that is not known
    text: str  # what was said: a sentence of the record
    message: int  # of the record, from 1
    said_by: str  # the label of the block that it stands in
    relation: str = ""  # what it tells of what it is about, where that is known


class MemoryItems(NamedTuple):
    """What was read off some pieces of a log; the messages of its items are numbered as in the log, -1 for none."""

    items: Sequence[Item]
    gone: Sequence[str] = ()  # what was learnt before and holds no longer
    dropped: int = 0  # proposals
    by_model: frozenset[str] = frozenset()  # texts of items that a model has put into words


class Items(NamedTuple):
    """What is left of a reply, and how many of its proposals were dropped."""

    kept: tuple[Item, ...]
    dropped: int


def read_items(reply: str, record: str) -> Items | None:
    """Return the proposals of a reply that the record bears out; None where the reply is of another form."""
    proposals = list(_proposals(reply))
    if not proposals and not re.fullmatch(r"\s*\[\s*\]\s*", reply):
        return None
    labels = list(_BLOCK.finditer(record))
    ends = [*(label.start() for label in labels[1:]), len(record)]
    blocks = [
        (label["label"], int(label["message"]), record[label.end() + 1 : end])
        for label, end in zip(labels, ends, strict=False)
    ]
    found = dict.fromkeys(item for one in proposals[:_MOST] if (item := _checked(one, blocks)) is not None)
    return Items(tuple(found), len(proposals) - len(found))


def encode_items(items: Items) -> str:
    """Return items as they are kept."""
    return json.dumps({"items": [list(item) for item in items.kept], "dropped": items.dropped}, ensure_ascii=False)


def decode_items(text: str) -> Items:
    """Return items as `encode_items` wrote them. Raises `ValueError` for anything else."""
    try:
        found = json.loads(text)
        return Items(tuple(Item(*item) for item in found["items"]), int(found["dropped"]))
    except (TypeError, KeyError) as error:
        raise ValueError("these are not items") from error


def normal_subject(about: str) -> str:
    """Return what something is about, so that equal subjects read alike; empty where nothing telling is left."""
    return " ".join(sorted(stems(about)))


def _proposals(reply: str) -> Iterator[Any]:
    """Yield each object of the reply, in a list, on lines or alone; None for what begins like one and is broken."""
    decoder, at = json.JSONDecoder(), 0
    while (opening := reply.find("{", at)) >= 0:
        try:
            found, at = decoder.raw_decode(reply, opening)
        except (ValueError, RecursionError):
            found, at = None, opening + len(reply[opening:].partition("\n")[0])
        listed = [value for value in found.values() if isinstance(value, list)] if found else []
        yield from listed[0] if listed else [found]


def _checked(proposal: Any, blocks: Sequence[tuple[str, int, str]]) -> Item | None:
    """Return what the record bears out of a proposal; None where its quote does not stand in the message that it
    names, or in a question."""
    if not isinstance(proposal, dict):
        return None
    kind, message, quote = proposal.get("kind"), proposal.get("message"), proposal.get("quote")
    if kind not in KINDS or isinstance(message, bool) or not isinstance(message, int) or not isinstance(quote, str):
        return None
    words = quote.split()
    if not _SHORTEST <= len(" ".join(words)) <= _LONGEST or not any(char.isalpha() for char in quote):
        return None
    # No quote begins or ends inside of a word, in scripts that put spaces between them.
    before = r"(?<!\w)" if re.match(r"[A-Za-z0-9]", words[0]) else ""
    behind = r"(?!\w)" if re.match(r"[A-Za-z0-9]", words[-1][-1]) else ""
    said = re.compile(before + r"\s+".join(map(re.escape, words)) + behind)
    for label, at, block in blocks:
        if at == message and (found := said.search(block)) is not None:
            text = _sentence(block, found.start(), found.end())
            if _QUESTION.match(text[::-1]):
                continue  # the message may have more blocks
            allowed = kind if label == HUMAN or (kind == "decision" and label == "assistant") else "fact"
            return Item(allowed, _about(proposal.get("about"), block), text, message, label)
    return None


def _sentence(text: str, start: int, stop: int) -> str:
    """Return the sentence, or the sentences, that a quote stands in; the quote alone where they are long."""
    begins = [found.end() for found in _BEGIN.finditer(text, max(0, start - _LONGEST), start)]
    begin = begins[-1] if begins else max(0, start - _LONGEST)
    end = _END.search(text, max(start, stop - 1))
    whole = " ".join(text[begin : end.end() if end else len(text)].split())
    if len(whole) <= _LONGEST or _QUESTION.match(whole[::-1]):
        return whole
    return " ".join(text[start:stop].split())


def _about(about: Any, text: str) -> str:
    """Return the subject, if it shares a word with the message and holds no figure that stands not there."""
    flat = " ".join(about.split()) if isinstance(about, str) else ""
    words = stems(flat)
    strange = [word for word in flat.split() if any(char.isdigit() for char in word) and word not in text]
    return flat if len(flat) <= _LONGEST_ABOUT and not strange and words & stems(text) else ""


_PASTED = 25  # sentences from which on a message is a document rather than something said
_LONGEST_DEFINITION = 300  # characters of a sentence
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
    """Yield the definitions in what a person said in one message."""
    sentences: list[str] = []
    for said in (said for text in texts for said in split_prose(text)[0]):
        start = 0
        for end in _ENDS_IN_NUMBERS.finditer(said):  # an address or a version, and what is said behind it
            sentences.append(cleaned(said[start : end.end(1)]).strip())
            start = end.end()
        sentences.append(cleaned(said[start:]).strip())
    for sentence in sentences if len(sentences) < _PASTED else ():
        if len(sentence) <= _LONGEST_DEFINITION and not sentence.rstrip("\"')* ").endswith("?"):
            found = _defined(sentence)
            if found is not None and not _SECRET.search(found.subject):
                yield found


def _defined(sentence: str) -> Definition | None:
    """Return what a sentence defines; None where it defines nothing."""
    for owner, forms in _OWNERS.items():
        for form in forms:
            if (found := form.match(sentence)) is not None:
                return Definition(f"{owner} {found['subject']}", sentence)
    if (found := _DEFINITION.match(sentence)) is None:
        return None
    verb, *rest = found["relation"].lower().split()
    return Definition(found["subject"], sentence, " ".join(["is" if verb == "are" else _VERB.sub("", verb), *rest]))


def bare_subject(subject: str) -> str:
    """Return the subject of a definition, without what was put before it."""
    for owner in _OWNERS:
        subject = subject.removeprefix(f"{owner} ")
    return subject
