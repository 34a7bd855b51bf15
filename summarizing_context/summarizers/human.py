"""What the human wants and forbids: requests, constraints and corrections, quoted word for word.

Pure. Only blocks that a human wrote are ever given to this module.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from itertools import pairwise

from summarizing_context.core.constraints import PASTED, Sentence, plain, sentence, strength_of
from summarizing_context.core.cues import REQUEST
from summarizing_context.core.lifting import lifts, read_lifts
from summarizing_context.core.sentences import GONE, LONGEST, shown
from summarizing_context.core.subjects import contradicts, read_subject, repeats, replaces
from summarizing_context.core.topics import read_topic
from summarizing_context.core.words import words_of
from summarizing_context.summarizers.sections import Line

SUPERSEDED = " (superseded)"
LATEST = " (latest)"
_MOST = 64  # constraints of one content that are compared

_ASSENT = re.compile(
    r"(?i)(?:yes|yeah|ok(?:ay)?|sure|thanks?|thank you|great|perfect|that sounds|sounds good|go ahead|no,? that)\b"
)
_CODE_STARTS = tuple("<[{(|/$#;0123456789")
_CODE_ENDS = (";", "{", "}", ");")


def find_constraints(sentences: Sequence[Sentence]) -> list[Line]:
    """The standing rules and corrections among a human's sentences, quoted, oldest first, each once."""
    found: dict[str, Line] = {}
    lengths = Counter(said.block for said in sentences)
    for said in sentences:
        if (strength := strength_of(said, pasted=lengths[said.block] > PASTED)) > 0:
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
    subjects = [read_subject(words_of(plain(text))) for text in ranks]
    marks = ["" for _ in subjects]
    faded = [0 for _ in subjects]
    topics = [read_topic(words_of(plain(text))) for text in ranks]
    lifted = [read_lifts(text) for text in ranks]
    for new, later in enumerate(subjects):
        for old in range(max(0, new - _MOST), new):
            earlier = subjects[old]
            replaced = (later.corrects and replaces(later, earlier)) or (later.anew and contradicts(later, earlier))
            if replaced or any(lifts(one, topics[old]) for one in lifted[new]):
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
    return max(strength_of(sentence(bare, 0), pasted=False), 1)


def find_intent(sentences: Sequence[Sentence], constraints: Container[str]) -> list[Line]:
    """The first request, the newest, and those between them that ask for something; quoted, oldest first.

    Sentences that are quoted among the constraints are not quoted twice.
    """
    by_block: dict[int, list[Sentence]] = {}
    places: dict[tuple[int, str], int] = {}
    for at, said in enumerate(sentences):
        places.setdefault((said.block, said.text), at)
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
        quote = f'"{_quoted(asked, places)}"'
        if lines and quote.startswith((last := next(reversed(lines)))[:-1]):
            del lines[last]  # asked again, in more words
        lines[quote] = Line(quote, rank)
    return list(lines.values())


def _quoted(asked: Sequence[Sentence], places: Mapping[tuple[int, str], int]) -> str:
    """Sentences of one message as one quote, with the mark of what is gone where they do not follow each other."""
    quote = shown(asked[0].text)
    for before, said in pairwise(asked):
        next_to = places[said.block, said.text] == places[before.block, before.text] + 1
        quote += " " if next_to and before.text.endswith((".", "!", "?")) else f" {GONE} "
        quote += shown(said.text)
    return quote


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
