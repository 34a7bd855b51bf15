"""What the human wants and forbids: requests, constraints and corrections, quoted word for word.

Pure. Only blocks that a human wrote are ever given to this module.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Sequence
from typing import NamedTuple

from summarizing_context.summarizers.cues import (
    DEFERRED,
    LEADS,
    LIMITS,
    MILD,
    ORDERS,
    REQUEST,
    STRICT,
    TO_SOMEONE,
)
from summarizing_context.summarizers.scoring import Words, words_of
from summarizing_context.summarizers.sections import Line
from summarizing_context.summarizers.sentences import LONGEST, shown
from summarizing_context.summarizers.subjects import read_subject, repeats, replaces

SUPERSEDED = " (superseded)"
LATEST = " (latest)"
_PASTED = 25  # sentences in a message from which on it is a document rather than something said
_SHORT = 8  # words
_MOST = 64  # constraints of one content that are compared

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
_ASSENT = re.compile(
    r"(?i)(?:yes|yeah|ok(?:ay)?|sure|thanks?|thank you|great|perfect|that sounds|sounds good|go ahead|no,? that)\b"
)
_NOT_SPEECH = ("<", "{", "|", "=", "#!", "//")
_CODE_STARTS = tuple("<[{(|/$#;0123456789")
_CODE_ENDS = (";", "{", "}", ");")


class Sentence(NamedTuple):
    """One sentence, with its words and the number of the block it stands in."""

    text: str
    words: Words
    block: int


def sentence(text: str, block: int) -> Sentence:
    """A sentence ready to be read."""
    return Sentence(text, words_of(_plain(text)), block)


def find_constraints(sentences: Sequence[Sentence]) -> list[Line]:
    """The standing rules and corrections among a human's sentences, quoted, oldest first, each once."""
    found: dict[str, Line] = {}
    lengths = Counter(said.block for said in sentences)
    for said in sentences:
        if (strength := _strength(said, pasted=lengths[said.block] > _PASTED)) > 0:
            quote = f'"{shown(said.text)}"'
            found.pop(quote, None)
            found[quote] = Line(quote, strength)
    lines = list(found.values())
    best = sorted(range(len(lines)), key=lambda at: (-lines[at].rank, -at))[:_MOST]
    return mark_superseded([lines[at] for at in sorted(best)])


def mark_superseded(lines: Sequence[Line]) -> list[Line]:
    """Constraints, oldest first and each once, with a mark on each that a later correction replaces."""
    ranks: dict[str, int] = {}
    for line in lines:
        ranks.pop(unmarked(line.text), None)  # said again: the last time counts
        ranks[unmarked(line.text)] = line.rank
    subjects = [read_subject(words_of(_plain(text))) for text in ranks]
    marks = ["" for _ in subjects]
    faded = [0 for _ in subjects]
    for new, later in enumerate(subjects):
        for old in range(max(0, new - _MOST), new):
            if (later.corrects or later.lifts) and replaces(later, subjects[old]):
                marks[old], marks[new] = SUPERSEDED, marks[new] or LATEST
            if marks[old] == SUPERSEDED or repeats(later, subjects[old]):
                faded[old] = 4
    return [
        Line(text + mark, max(rank - fade, 0))
        for (text, rank), mark, fade in zip(ranks.items(), marks, faded, strict=True)
    ]


def rank_constraint(text: str) -> int:
    """How strict a quoted constraint is, by its words alone: for summaries that are merged."""
    bare = unmarked(text).strip('"')
    return max(_strength(sentence(bare, 0), pasted=False), 1)


def find_intent(sentences: Sequence[Sentence], constraints: Container[str]) -> list[Line]:
    """The first request, the newest, and those between them that ask for something; quoted, oldest first.

    Sentences that are quoted among the constraints are not quoted twice.
    """
    by_block: dict[int, list[Sentence]] = {}
    for said in sentences:
        if len(said.words) > 1 and f'"{shown(said.text)}"' not in constraints:
            by_block.setdefault(said.block, []).append(said)
    blocks = list(by_block)
    lines: dict[str, Line] = {}
    for block in blocks:
        at_end = block in (blocks[0], blocks[-1])
        asked = _most_asking(by_block[block][:40], 2 if at_end else 1)
        asking = _request_rank(asked[0])
        if not at_end and (len(asked[0].words) < 5 or _ASSENT.match(asked[0].text)):
            continue
        rank = asking + (15 if block == blocks[-1] else 12 if block == blocks[0] else 0)
        quote = '"' + " ".join(shown(said.text) for said in asked) + '"'
        if lines and quote.startswith((last := next(reversed(lines)))[:-1]):
            del lines[last]  # asked again, in more words
        lines[quote] = Line(quote, rank)
    return list(lines.values())


def _strength(said: Sentence, *, pasted: bool) -> int:
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
        return 3 if not _plain(text).isascii() and _FOREIGN.search(text) else 0
    if text.rstrip("\"')* ").endswith("?") or _NOT_AN_ORDER.search(text) or _TOLD.match(text):
        strength -= 6
    return strength - (len(text) > 240) - 2 * pasted


def _orders(words: Words) -> bool:
    """Whether a sentence begins as an order does."""
    for word in words[:4]:
        if word not in LEADS.words:
            return word in ORDERS.words or (word == b"do" and b"not" in words[:4])
    return False


def _plain(text: str) -> str:
    return text if text.isascii() else text.replace("’", "'")


def unmarked(text: str) -> str:
    """A constraint without the mark that says what became of it."""
    return text.removesuffix(SUPERSEDED).removesuffix(LATEST)


def _most_asking(said: Sequence[Sentence], most: int) -> list[Sentence]:
    """The sentences of one message that ask most plainly, early ones first where several do, in their order."""
    ranked = sorted(range(len(said)), key=lambda at: (-_request_rank(said[at]), at))[:most]
    if sum(len(said[at].text) for at in ranked) > LONGEST:
        ranked = ranked[:1]
    return [said[at] for at in sorted(ranked)]


def _request_rank(said: Sentence) -> int:
    text = said.text
    rank = min(len(said.words), 12) + 6 * REQUEST.found_in(said.words) + 2 * text.endswith("?")
    if text.startswith(_CODE_STARTS) or text.endswith(_CODE_ENDS) or '("' in text or "==" in text:
        rank -= 12
    return rank - 5 * (_ASSENT.match(text) is not None)
