"""What the agent says about its work: decisions, outcomes, fixes, what is open and what comes next.

Pure. Sentences are taken as they stand; cue words say what kind of statement they make.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from summarizing_context.core.constraints import Sentence
from summarizing_context.core.cues import CHOICE, FIX, NEXT, OPEN, OUTCOME_WORDS, PLEASANTRY, REASON
from summarizing_context.core.sentences import shown
from summarizing_context.summarizers.sections import Line

_DONE = (
    "(?:fixed|added|implemented|created|removed|updated|committed|pushed|merged|renamed|refactored|replaced|completed|"
    "finished|booked|cancell?ed|sent|installed|verified|confirmed|resolved|wrote|moved|deleted|changed|done)"
)
_OUTCOME = re.compile(
    rf"(?i)(?:\b(?:i|we)(?:['’]ve| have)? (?:(?:now|also|just|successfully|already) ){{0,2}}{_DONE}\b|^{_DONE}\b|"
    r"\b(?:has|have) (?:now )?been (?:\w{1,14} )?\w{3,14}ed\b|"
    r"\b(?:tests?|build|lint|checks?|suite)(?: \w{1,12}){0,2} (?:pass(?:es|ed)?|succeed(?:s|ed)|are green|is green)\b|"
    r"\bis now (?:\w{1,14} )?(?:done|complete|fixed|working|in place)\b|\bnow works?\b)"
)
_SUPPOSED = re.compile(r"(?i)(?:if|when|once|unless|but|after|before|let|should|would|can)\b")
_ASKED = re.compile(r"(?i)\?\W{0,3}\Z|please confirm|would you like|do you want|shall i|let me know")  # answered since


_NEAR = 60  # sentences after an error among which its fix is sought


def find_decisions(said: Sequence[Sentence], human: Sequence[Sentence], thoughts: Sequence[Sentence]) -> list[Line]:
    """Choices and their reasons, oldest first; from a human, quoted, and from thoughts only plain choices."""
    lines: dict[tuple[int, str], Line] = {}
    for group, bonus in ((said, 2), (human, 0), (thoughts, 0)):
        for at, sentence in enumerate(group):
            chosen = CHOICE.found_in(sentence.words)
            if (chosen or (bonus and REASON.found_in(sentence.words))) and _worth(sentence):
                rank = bonus + (6 if chosen else 3) + (at * 2 > len(group))
                text = f'"{shown(sentence.text)}"' if group is human else shown(sentence.text)
                lines[sentence.block, text] = Line(text, rank)
    return _once([lines[key] for key in sorted(lines, key=lambda key: key[0])])


def find_outcomes(said: Sequence[Sentence], rank: int) -> list[Line]:
    """Sentences that report something as done."""
    return [
        Line(shown(sentence.text), rank)
        for sentence in said
        if OUTCOME_WORDS.found_in(sentence.words)
        and _worth(sentence)
        and _OUTCOME.search(sentence.text)
        and not _SUPPOSED.match(sentence.text)
    ]


def find_fix(said: Sequence[Sentence], error_words: frozenset[bytes], after: int) -> str:
    """The first sentence soon after block `after` that speaks of a fix, one that shares a word with the error first."""
    start = bisect_right(said, after, key=_block_of)
    near = said[start : bisect_right(said, after + 12, key=_block_of)][:_NEAR]
    fixes = [sentence for sentence in near if FIX.found_in(sentence.words) and _worth(sentence)]
    related = next((sentence for sentence in fixes if not error_words.isdisjoint(sentence.words)), None)
    best = related or next(iter(fixes), None)
    return shown(best.text) if best else ""


def find_state(said: Sequence[Sentence], thoughts: Sequence[Sentence]) -> list[Line]:
    """The newest statements of what is open or next, oldest first: from the last message, then from those before it."""
    newest = said or thoughts
    if not newest:
        return []
    if thoughts and said and thoughts[-1].block > said[-1].block:
        newest = thoughts
    last = newest[-1].block
    final = [sentence for sentence in newest if sentence.block == last]
    telling = [sentence for sentence in final if _worth(sentence)] or final
    closing = next((sentence for sentence in reversed(telling) if sentence.text.endswith((".", "!", "?"))), telling[-1])
    lines = {shown(telling[0].text): 7, shown(closing.text): 12}
    for sentence in final:
        if (rank := _openness(sentence)) and _worth(sentence):
            lines[shown(sentence.text)] = max(lines.get(shown(sentence.text), 0), rank + 6)
    earlier = [sentence for sentence in newest if sentence.block < last][-24:]
    before = [
        shown(sentence.text)
        for sentence in earlier
        if _openness(sentence) > 4 and _worth(sentence) and not _ASKED.search(sentence.text)
    ]
    return _once([*(Line(text, 4) for text in before[-3:]), *(Line(text, rank) for text, rank in lines.items())])


def _block_of(sentence: Sentence) -> int:
    return sentence.block


def _openness(sentence: Sentence) -> int:
    return 5 if OPEN.found_in(sentence.words) else 3 if NEXT.found_in(sentence.words) else 0


def _worth(sentence: Sentence) -> bool:
    """Whether a sentence says enough to stand alone."""
    return (
        len(sentence.words) > 3
        and not sentence.text.startswith(("|", "<", "{"))
        and not (sentence.text.endswith((":", ",")) or PLEASANTRY.found_in(sentence.words))
    )


def _once(lines: Sequence[Line]) -> list[Line]:
    kept: dict[str, Line] = {}
    for line in lines:
        earlier = kept.pop(line.text, None)
        kept[line.text] = line if earlier is None else Line(line.text, max(line.rank, earlier.rank))
    return list(kept.values())
