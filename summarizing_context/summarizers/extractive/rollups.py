"""Merge neighbouring summaries into one, section by section, oldest first.

Pure. Constraints stay before everything else; of the states the latest wins; what repeats is said once. A line that
tells a value which a human has taken back tells the correction in its place: what was said wrong often outlives its
correction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.messages.text import words_of
from summarizing_context.summarizers.extractive.actions import Listings, add_up
from summarizing_context.summarizers.extractive.lines import (
    Candidate,
    Vocabulary,
    choose_lines,
    newest_of_each_pattern,
    salience,
    sentence,
    worth,
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
from summarizing_context.summarizers.extractive.segments import PASSING, leaf_sections

LEAF_SHARES = (18, 30, 14, 12, 14, 10, 40)  # percent of the room for each section of a segment's summary

_POOL = 64  # lines of one section that compete

_SPOKEN = frozenset(b"the a an is are was to of and in it for that with on not but so der die das und ist".split())


def rollup_sections(content: str, max_tokens: int, count: Count, yield_now: YieldNow = never_yield) -> Sections:
    """Return all lines that the merged summary may hold, ranked within their sections.

    A segment so short that its own text stands for it is summarized first.
    """
    texts = split_children(content)
    children: list[Sections] = []
    for text in map(unescape_labels, texts):
        yield_now(len(text))
        if is_rendered(text):
            text = fit(leaf_sections(text, yield_now), LEAF_SHARES, max(max_tokens // len(texts), 40), count)
        children.append(read_sections(text))

    def told(section: int) -> list[str]:
        return [line.text for child in children for line in child[section]]

    asked = told(INTENT)
    _correct(children, [*(line.text for child in children for line in (*child[CONSTRAINTS], *child[INTENT]))])
    sections = empty_sections()
    texts = list(dict.fromkeys(asked))  # the first request, then the newest
    sections[INTENT] = newest_of_each_pattern(Line(text, at or len(texts)) for at, text in enumerate(texts))
    sections[CONSTRAINTS] = [Line(text, STRICT_RANK) for text in _last_of_each(told(CONSTRAINTS))]
    texts = _last_of_each(told(ERRORS))  # the newest is kept longest, and longer than it those without a known fix
    sections[ERRORS] = [Line(text, at + (0 if " → " in text else len(texts))) for at, text in enumerate(texts)]
    stated = [child[STATE] for child in children if child[STATE]]
    sections[STATE] = [Line(line.text, at) for at, line in enumerate(stated[-1])] if stated else []
    listed = Listings()
    done = [text for text in told(DONE) if not listed.read(text)]
    decided, facts = told(DECISIONS), told(FACTS)
    facts += [line.text for lines in stated[:-1] for line in lines if not line.text.startswith(PASSING)]
    vocabulary = Vocabulary([*(sentence(text, 0) for text in asked), *_candidates((*done, *decided, *facts))])
    sections[DONE] = [*listed.lines(), *_thin(add_up(done), vocabulary)]
    sections[DECISIONS] = _thin(decided, vocabulary)
    sections[FACTS] = _thin(facts, vocabulary)
    if not any(sections):
        sections[FACTS] = nothing_readable(content)
    return sections


def _candidates(texts: Iterable[str]) -> list[Candidate]:
    found = [sentence(text, 0, "assistant") for text in texts]
    return [one if not _SPOKEN.isdisjoint(one.words) else one._replace(kind="result") for one in found]


def _thin(texts: Iterable[str], vocabulary: Vocabulary) -> list[Line]:
    """Return each line once, ranked by worth, news and age; what says nothing new is left out.

    The oldest line counts four parts where the newest counts five. A line that a child kept has some worth already.
    """
    found = _candidates(_last_of_each(texts))
    scores = [worth(1_000 + salience(one, vocabulary), one) * (4 * len(found) + at) for at, one in enumerate(found)]
    chosen = choose_lines(found, scores, vocabulary, most=_POOL, pool=_POOL, others=_POOL, merges=True)
    return [line for _, line in chosen]


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


def _correct(children: Sequence[Sections], quotes: Iterable[str]) -> None:
    """Put each quote in which a human takes a value back in the place of the lines that tell this value.

    Such a line is about the same thing, by two words besides small ones, and does not tell all the values of the
    quote, as one of a change from one to the other would.
    """
    for quote in quotes:
        if (found := _TAKEN_BACK.search(quote)) is None:
            continue
        text, wrong = quote.strip('"'), found["value"].rstrip(".:-")
        values = _values(text) - {wrong}
        if not values:  # nothing is told in its place
            continue
        for child in children:
            for section in (DONE, DECISIONS, STATE, FACTS):
                for at, line in enumerate(child[section]):
                    told = _values(line.text) if wrong in line.text else frozenset()
                    if wrong in told and not values <= told and len(_about(line.text) & _about(text)) >= 2:
                        child[section][at] = line._replace(text=text)


def _values(text: str) -> frozenset[str]:
    return frozenset(value.rstrip(".:-") for value in _VALUE.findall(text))


def _about(text: str) -> frozenset[bytes]:
    return frozenset(word for word in words_of(text) if len(word) > 3)
