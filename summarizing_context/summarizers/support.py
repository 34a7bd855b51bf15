"""Whether a human said what a summary claims: shared words, the same exact values, the same things forbidden.

Pure, and a rule of thumb on purpose: it needs no model and gives the same verdict everywhere. A clause is supported by
three neighbouring sentences of one human row that hold

- at least half of its content words (stems; function words and words of telling do not count), and of the whole
  claim three in five,
- all of its words with a digit or an underscore, for values are quoted or made up, not paraphrased,
- and less than a third of the shared words with the other sign: `Never push to main` does not support `Push to main`.

So a quote and a close paraphrase pass; what only a tool's result says does not, nor a human's rule turned round.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

from summarizing_context.core.sentences import cleaned, split_prose

_WINDOW = 3  # sentences
_CLAUSE_END = re.compile(r"[;•]|\s[–—-]\s|\.\.\.|…")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TOKEN = re.compile(r"\d+(?:[.,:]\d+)*\w*|\w+|[,:.!?;()]")
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_EXACT = re.compile(r"[\d_]")
_SUFFIX = re.compile(r"(?<=\w{3})(?:ing|ed|ly|(?<!s)s)\Z")
_STEM = 7  # characters


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EMPTY = _words(
    """
    a about after again all also always am an and another any anything are as at be because been before being both
    but by can could did do does done each either else ensure ensured even ever every everything for from further
    get give given had has have he her here him his how however i if in instead into is it its itself just let lets
    like longer made make makes making may me might mine more most much must my need needed needs never new no none
    nor not nothing now of off ok okay on once one only onto or other our ours out over own per please rather really
    remember same shall she should since so some something still such sure than that thats the their them then there
    these they thing things this those though through thus to too unless until up upon us use used uses using very
    via was we well were what when where whether which while who whole whom whose why will with within without would
    yes yet you your yours asked constraint constraints correction corrections corrected explicit
    explicitly human insist insisted insists instructed instruction prefer preferred prefers preference request
    requested requests require required requires rule rules said say says standing state stated states strict
    strictly told user users want wanted wants wish wishes dont doesnt didnt cannot cant couldnt wont wouldnt mustnt
    shouldnt isnt arent avoid stop refrain forbidden prohibited banned disallowed allowed permitted
    """
)
_FORBIDS = _words(
    """
    never not no none nothing neither nor dont doesnt didnt cannot cant couldnt wont wouldnt mustnt shouldnt isnt
    arent avoid stop refrain without
    """
)
_FORBIDS_PART = _words(
    """
    forbidden prohibited banned disallowed nicht kein keine keinen niemals nie verboten jamais pas interdit nunca
    prohibido никогда нельзя не запрещено
    """
)
_FORBIDS_UNSPACED = re.compile(r"不|别|別|勿|禁|没|莫|無|无|ない|ません|않|금지")
_LIFTS = _words("but unless except until instead rather")
_LEADS = _words(
    "use always keep only do put write run make open please just instead rather ensure prefer stay leave name"
)
_AUXILIARIES = _words("do does did must should shall can could would will is are be may to please")
_DENIALS = ("not", "isnt", "arent")
_PASSES_ON = {("instead", "of"), ("rather", "than")}


class _Said(NamedTuple):
    """The content words of a sentence, each with whether it stands under a prohibition."""

    signs: dict[str, frozenset[bool]]
    exact: frozenset[str]


class Spoken:
    """All that humans said in a source, ready to be asked whether it supports a claim. Only sentences that share a word
    with a claim are read closely: a human may have pasted a whole document."""

    def __init__(self, rows: Iterable[str]) -> None:
        self._rows = [[_spelled(sentence) for sentence in _sentences(row)] for row in rows]
        self._read: dict[tuple[int, int], _Said] = {}  # by row and sentence

    def supports(self, claim: str) -> bool:
        """Whether a claim is supported, clause by clause."""
        clauses = [clause for sentence in _sentences(claim) for clause in _CLAUSE_END.split(sentence)]
        said = [read for clause in clauses if (read := _read(_spelled(clause))).signs]
        if not said:  # only words that everybody uses: they must stand there as they are
            bare = _flat(_spelled(claim))
            return bool(bare) and any(bare in _flat(" ".join(row)) for row in self._rows)
        shared = [max((_shared(window, clause) for window in self._near(clause)), default=0) for clause in said]
        return all(shared) and 5 * sum(shared) >= 3 * sum(len(clause.signs) for clause in said)

    def _near(self, clause: _Said) -> Iterator[_Said]:
        """The windows that may hold enough of a clause's words: a stem is the beginning of its word."""
        for row, sentences in enumerate(self._rows):
            found = [{stem for stem in clause.signs if stem in sentence} for sentence in sentences]
            for start in range(max(len(sentences) - _WINDOW, 0) + 1):
                if 2 * len(set().union(*found[start : start + _WINDOW])) >= len(clause.signs):
                    yield _joined([self._said(row, at) for at in range(start, min(start + _WINDOW, len(sentences)))])

    def _said(self, row: int, at: int) -> _Said:
        if (row, at) not in self._read:
            self._read[row, at] = _read(self._rows[row][at])
        return self._read[row, at]


def _shared(window: _Said, clause: _Said) -> int:
    """How many content words of a clause a window has; 0 where it does not support it."""
    shared = clause.signs.keys() & window.signs.keys()
    if 2 * len(shared) < len(clause.signs) or not clause.exact <= window.exact:
        return 0
    turned = sum(clause.signs[word].isdisjoint(window.signs[word]) for word in shared)
    return len(shared) if 3 * turned < len(shared) else 0


def _sentences(text: str) -> list[str]:
    prose, code = split_prose(cleaned(text))
    return [*prose, *code]


def _spelled(sentence: str) -> str:
    """A sentence in lower case, with plain marks between its clauses and none inside words and numbers."""
    plain = _CLAUSE_END.sub(" ; ", sentence).casefold().replace("’", "").replace("'", "")
    return _THOUSANDS.sub("", plain)


def _read(spelled: str) -> _Said:
    signs: dict[str, set[bool]] = {}
    exact: set[str] = set()
    for word, forbidden in _signed(_TOKEN.findall(spelled)):
        for stem in _stems(word):
            signs.setdefault(stem, set()).add(forbidden)
            if _is_exact(stem):
                exact.add(stem)
    return _Said({stem: frozenset(found) for stem, found in signs.items()}, frozenset(exact))


def _signed(tokens: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The content words, each with whether a prohibition reaches it."""
    reach = 0  # 2: to the end of the sentence; 1: to the next comma
    everywhere = _forbids_part(tokens)
    for at, (token, after) in enumerate(pairwise([*tokens, ""])):
        if token in _FORBIDS or (token, after) in _PASSES_ON:
            reach = 1 if token in ("no", "not") and (at == 0 or tokens[at - 1] not in _AUXILIARIES) else 2
        elif token == ",":
            reach = 2 if reach == 2 and after not in _LEADS else 0
            everywhere = _forbids_part(tokens[at + 1 :])
        elif token in _LIFTS or token in ".!?:;()":
            reach = 0
        elif token not in _EMPTY and token not in _FORBIDS_PART:
            yield token, everywhere or reach > 0


def _forbids_part(tokens: Sequence[str]) -> bool:
    """Whether a word forbids all that stands before the next comma, before or behind it."""
    part = list(takewhile(lambda token: token != ",", tokens))
    if not _FORBIDS_PART.isdisjoint(part) or any(map(_FORBIDS_UNSPACED.search, part)):
        return True
    return any(first in _DENIALS and then in ("allowed", "permitted") for first, then in pairwise(part))


def _stems(word: str) -> Iterator[str]:
    """What a word is compared by: itself if it is exact, pairs of characters where no spaces part words."""
    if _is_exact(word):
        yield word
    elif _UNSPACED.search(word):
        yield from (word[at : at + 2] for at in range(max(len(word) - 1, 1)))
    else:
        stem = _SUFFIX.sub("", word)
        stem = stem[:-1] if len(stem) > 3 and (stem[-1] == "e" or stem[-1] == stem[-2] != "s") else stem
        yield stem[:_STEM]


def _is_exact(word: str) -> bool:
    return _EXACT.search(word) is not None


def _joined(sentences: Sequence[_Said]) -> _Said:
    signs: dict[str, frozenset[bool]] = {}
    for said in sentences:
        for word, found in said.signs.items():
            signs[word] = signs.get(word, frozenset()) | found
    return _Said(signs, frozenset(word for said in sentences for word in said.exact))


def _flat(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
