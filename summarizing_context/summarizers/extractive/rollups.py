"""Merge neighbouring summaries into one, section by section, oldest first.

Pure. Constraints stay before everything else; of the states the latest wins; what repeats is said once. A line that
tells a value which a human has taken back tells the correction in its place: what was said wrong often outlives its
correction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.messages.text import words_of
from summarizing_context.summarizers.extractive.actions import Listings, add_up
from summarizing_context.summarizers.extractive.figures import FACTS as FACT_FIGURES
from summarizing_context.summarizers.extractive.figures import LEAF
from summarizing_context.summarizers.extractive.figures import STRICT_SHARE as STRICT
from summarizing_context.summarizers.extractive.lines import (
    Candidate,
    Vocabulary,
    choose_lines,
    newest_of_each_pattern,
    salience,
)
from summarizing_context.summarizers.extractive.sections import (
    CONSTRAINTS,
    DECISIONS,
    DONE,
    ERRORS,
    FACTS,
    INTENT,
    STATE,
    STRICT_RANK,
    Count,
    Line,
    Sections,
    empty_sections,
    fit,
    is_rendered,
    nothing_readable,
    read_sections,
    split_children,
    unescape_labels,
)
from summarizing_context.summarizers.extractive.segments import PASSING, leaf_sections, worth
from summarizing_context.summarizers.extractive.statements import sentence

_POOL = 64  # lines of one section that compete by MMR

_SPOKEN = frozenset(b"the a an is are was to of and in it for that with on not but so der die das und ist".split())

_OLDEST = 4  # parts that the oldest line counts where the newest counts one more

_BASE = 1_000  # what any line is worth that a child kept, in thousandths


def rollup_sections(content: str, max_tokens: int, count: Count, yield_now: YieldNow = never_yield) -> Sections:
    """All lines that the merged summary may hold, ranked within their sections."""
    texts = split_children(content)
    share = max(max_tokens // max(len(texts), 1), 40)
    children = [_read_child(unescape_labels(text), share, count, yield_now) for text in texts]
    sections = empty_sections()
    sections[INTENT] = _merge_intents([child[INTENT] for child in children])
    sections[CONSTRAINTS] = _merge_constraints([child[CONSTRAINTS] for child in children])
    sections[ERRORS] = _merge_errors([child[ERRORS] for child in children])
    quotes = [line.text for child in children for line in (*child[CONSTRAINTS], *child[INTENT])]
    for correction in _corrections(quotes):
        for child in children:
            for section in (DONE, DECISIONS, STATE, FACTS):
                child[section] = correction.of(child[section])
    stated = [child for child in children if child[STATE]]
    sections[STATE] = _by_place(stated[-1][STATE]) if stated else []
    done, decided, facts = (
        [line.text for child in children for line in child[section]] for section in (DONE, DECISIONS, FACTS)
    )
    listed = Listings()
    others = [text for text in done if not listed.read(text)]
    facts += [line.text for child in stated[:-1] for line in child[STATE] if not line.text.startswith(PASSING)]
    asked = (line.text for child in children for line in child[INTENT])
    vocabulary = Vocabulary([*(sentence(text, 0) for text in asked), *_told((*others, *decided, *facts))])
    sections[DONE] = [*listed.lines(), *_thin(add_up(others), vocabulary)]
    sections[DECISIONS] = _thin(decided, vocabulary)
    sections[FACTS] = _thin(facts, vocabulary)
    if not any(sections):
        sections[FACTS] = nothing_readable(content)
    return sections


def _read_child(text: str, share: int, count: Count, yield_now: YieldNow) -> Sections:
    """A child's sections. A segment so short that its own text stands for it is summarized first."""
    yield_now(len(text))
    if is_rendered(text):
        text = fit(leaf_sections(text, yield_now), LEAF, share, count, strict=STRICT)
    return read_sections(text)


def _merge_intents(children: Sequence[Sequence[Line]]) -> list[Line]:
    """The first request, then the newest; of those that differ in their numbers alone the newest two."""
    texts = list(dict.fromkeys(line.text for lines in children for line in lines))
    return newest_of_each_pattern(Line(text, at or len(texts)) for at, text in enumerate(texts))


def _merge_constraints(children: Sequence[Sequence[Line]]) -> list[Line]:
    texts = _last_of_each(line.text for lines in children for line in lines)
    return [Line(text, STRICT_RANK) for text in texts]


def _merge_errors(children: Sequence[Sequence[Line]]) -> list[Line]:
    """The newest first to be kept, and before them those without a known fix."""
    texts = _last_of_each(line.text for lines in children for line in lines)
    return [Line(text, at + (0 if " → " in text else len(texts))) for at, text in enumerate(texts)]


def _by_place(lines: Sequence[Line]) -> list[Line]:
    """Lines of which the later ones are kept longer."""
    return [Line(line.text, at) for at, line in enumerate(lines)]


def _told(texts: Iterable[str]) -> list[Candidate]:
    found = [sentence(text, 0, "assistant") for text in texts]
    return [one if not _SPOKEN.isdisjoint(one.words) else one._replace(kind="result") for one in found]


def _thin(texts: Iterable[str], words: Vocabulary) -> list[Line]:
    """Each line once, ranked by worth, news and age; what says nothing new is left out."""
    found = _told(_last_of_each(texts))
    scores = [worth(_BASE + salience(one, words), one) * (_OLDEST * len(found) + at) for at, one in enumerate(found)]
    most = FACT_FIGURES._replace(most=_POOL, pool=_POOL, lines=_POOL)
    return [line for _, line in choose_lines(found, scores, words, most, merges=True)]


def _last_of_each(texts: Iterable[str]) -> list[str]:
    kept: dict[str, None] = {}
    for text in texts:
        kept.pop(text, None)
        kept[text] = None
    return list(kept)


_VALUE = re.compile(r"(?<![\w./:+-])[\w./:+-]*\d[\w./:+-]*")

_TAKEN_BACK = re.compile(
    r"(?:\b(?:not|no longer|instead of|rather than|nicht(?: mehr)?|statt|anstatt)\s+|!=\s*)"
    r"(?:(?:on|at|in|by|the|auf|bei|in|die|der|das)\s+)?[`'\"]?(?P<value>[\w./:+-]*\d[\w./:+-]*)",
    re.IGNORECASE,
)

_SHARED = 2  # words besides small ones by which a line and a correction are about the same thing

_SMALL = 3  # letters that a word has at least to tell what a line is about


class _Correction(NamedTuple):
    text: str
    wrong: str
    values: frozenset[str]
    words: frozenset[bytes]

    def of(self, lines: list[Line]) -> list[Line]:
        """The lines, corrected."""
        if not any(self.wrong in line.text for line in lines):
            return lines
        return [line._replace(text=self.text) if self._takes_back(line.text) else line for line in lines]

    def _takes_back(self, line: str) -> bool:
        """Whether a line tells the wrong value alone, of the same thing."""
        values = _values(line)
        tells_more = self.values <= values  # as of a change from one to the other
        return self.wrong in values and not tells_more and len(_about(line) & self.words) >= _SHARED


def _corrections(quotes: Iterable[str]) -> Iterator[_Correction]:
    """What humans took back, in their order."""
    for quote in quotes:
        found = _TAKEN_BACK.search(quote)
        if found is None:
            continue
        text, wrong = quote.strip('"'), _bare(found["value"])
        values = _values(text) - {wrong}
        if values:  # else nothing is told in its place
            yield _Correction(text, wrong, values, _about(text))


def _values(text: str) -> frozenset[str]:
    return frozenset(_bare(value) for value in _VALUE.findall(text))


def _bare(value: str) -> str:
    return value.rstrip(".:-")


def _about(text: str) -> frozenset[bytes]:
    return frozenset(word for word in words_of(text) if len(word) > _SMALL)
