"""Rules and corrections in what a human says: which sentences bind, and how strictly.

Pure. Only texts that a human wrote are ever given to this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from summarizing_context.core.cues import (
    DEFERRED,
    LASTING,
    LEADS,
    LIFTING,
    LIMITS,
    MILD,
    NOT_A_BAN,
    ORDERS,
    STANDING,
    STRICT,
    TO_SOMEONE,
)
from summarizing_context.core.lifting import read_lifts
from summarizing_context.core.phrasings import GATE, phrased
from summarizing_context.core.sentences import cleaned, shown, split_prose
from summarizing_context.core.words import Words, words_of

RULES_VERSION = 6  # another one whenever the same message would give other rules
PASTED = 25  # sentences in a message from which on it is a document rather than something said
_SHORT = 8  # words
_STRICT = 2
_READ = 20_000  # characters of a message
_CUES = (STRICT, LIMITS, MILD, DEFERRED, STANDING, LASTING, LIFTING)
_TELLING = frozenset((b"actually", b"not", b"leave", b"no")).union(GATE, *(cues.words for cues in _CUES))
_PHRASES: dict[bytes, list[bytes]] = {}
for _cue in _CUES:
    for _phrase in _cue.phrases:
        _PHRASES.setdefault(_phrase.split()[0], []).append(_phrase)
_LEAST_SOFT = 4  # strength of what is a rule though no word makes it one

_FOREIGN = re.compile(
    r"(?i)\b(?:ne pas|plutôt|никогда|всегда|нельзя|вместо)\b|不要|必须|必須|总是|總是|永远|绝不|禁止|不得|改用|"
    r"しないで|必ず|常に|대신|항상|절대|반드시"
)
_CONTRAST = re.compile(r"(?i)\bnot \S{1,60},? but\b|\b(?:use|with|in|to|on|want) \S{1,60},? not\b")
_LEFT_ALONE = re.compile(
    r"(?i)\bleave \S{1,80}(?: \S{1,40}){0,3} (?:alone|untouched|unchanged|as (?:it|they) (?:is|are))\b"
)
_BAN = 7  # words that a sentence such as "No emojis." has at most
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
_ABOUT_ONESELF = re.compile(  # "I always thought so"; but "I never want to see it" is a rule
    r"(?i)(?:(?:well|and|but|so|oh|yes|no|ok|okay),? )?i (?:\w{1,12} )?(?:always|never|must|shall|don['’]?t|do not)\b"
    r"(?! (?:ever )?(?:want|wish|like|need|care|accept))"
)
_CHATTER = re.compile(  # what sounds like a rule and is a guess, a report or a promise of one's own
    r"(?i)\d{1,6}: |(?:.{0,20}\b)?(?:talk|speak|see|catch)\b.{0,20}\blater\b"
    r"|.{0,60}\bthere must be (?:some\w*|any\w*|an? (?:way|reason|mistake|bug|error))\b"
    r"|.{0,40}\b(?:i|you|it|they|he|she|we|that|this) must(?: \w+)? have \w+"
    r"|.{0,40}\b(?:i(?:['’]ll| will| can| could| might| may)|let me|we(?:['’]ll| can))\b(?!['’]t)[^.,]{0,60}"
    r"\b(?:later(?! than)|make sure|get back|remember)\b|.{0,120}\b(?:was|were|had|has) never \w+"
    r"|(?:.{0,40}[ ,])?i (?:don['’]?t|do not) need (?:anything\b|(?:any )?(?:more|further|other) (?:help|info|details))"
)
_WANTS_SURE = re.compile(r"(?i)\bto (?:make sure|ensure)\b")  # an aim rather than an order
_OPINION = re.compile(
    r"(?i)\b(?:i (?:think|guess|suppose|hope|believe|assume)|it|this|that|they|which) (?:\w{1,12} )?should\b"
)
_NOT_SPEECH = ("<", "{", "|", "=", "#!", "//")


class Sentence(NamedTuple):
    """One sentence, with its words and the number of the block it stands in."""

    text: str
    words: Words
    block: int


def sentence(text: str, block: int) -> Sentence:
    """A sentence ready to be read."""
    return Sentence(text, words_of(plain(text)), block)


def strength_of(said: Sentence, *, pasted: bool) -> int:
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
        return 3 if _is_foreign_rule(text) else 0
    if text.rstrip("\"')* ").endswith("?") or _NOT_AN_ORDER.search(text) or _TOLD.match(text):
        strength -= 6
    return strength - (len(text) > 240) - 2 * pasted


def _orders(words: Words) -> bool:
    """Whether a sentence begins as an order does."""
    for word in words[:4]:
        if word not in LEADS.words:
            return word in ORDERS.words or (word == b"do" and b"not" in words[:4])
    return False


def _is_foreign_rule(text: str) -> bool:
    return not plain(text).isascii() and _FOREIGN.search(text) is not None


def plain(text: str) -> str:
    """A text with the plain apostrophe, by which words are looked up."""
    return text if text.isascii() else text.replace("’", "'")


class Rule(NamedTuple):
    """A sentence that binds from now on."""

    strict: bool  # by its words; a preference, a limit or what stands in a long pasted text gives way first
    text: str
    binds: bool = True  # False for what lifts a rule and is none itself


def standing_rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    """The standing rules in what a human says in one message, word for word, in order, each once.

    What is fenced as code is not spoken; of very long messages both ends are read.
    """
    found: dict[str, Rule] = {}
    for text in map(_read, texts):
        if not _may_bind(words_of(plain(text)), text):
            continue
        spoken = split_prose(cleaned(text))[0]
        pasted = len(spoken) > PASTED
        for said in (sentence(one, 0) for one in spoken):
            if _may_bind(said.words, said.text) and (rule := _rule(said, pasted=pasted)):
                known = found.setdefault(rule.text, rule)
                found[rule.text] = known._replace(strict=known.strict or rule.strict, binds=known.binds or rule.binds)
    return tuple(found.values())


def _rule(said: Sentence, *, pasted: bool) -> Rule | None:
    """What a sentence binds or lifts, if anything."""
    if not _CHATTER.match(said.text) and (rank := _rank(said, pasted=pasted)):
        return Rule(rank == _STRICT, shown(said.text))
    if not pasted and LIFTING.found_in(said.words) and read_lifts(said.text):
        return Rule(False, shown(said.text), binds=False)
    return None


def _read(text: str) -> str:
    return text if len(text) <= _READ else f"{text[: _READ // 2]}\n{text[-_READ // 2 :]}"


def _may_bind(words: Words, text: str) -> bool:
    """Whether a text holds any word or phrase without which no sentence of it is a rule; quick."""
    said = frozenset(words)
    if not _TELLING.isdisjoint(said) or not text.isascii():
        return True
    starts = said & _PHRASES.keys()
    joined = b" %b " % b" ".join(words) if starts else b""
    return any(phrase in joined for start in starts for phrase in _PHRASES[start])


def _rank(said: Sentence, *, pasted: bool) -> int:
    """`_STRICT` for what binds by its very words, 1 for a softer rule, 0 for what is none."""
    strength = strength_of(said, pasted=pasted)
    if strength <= 0:
        return _other_rank(said, pasted=pasted)
    strict = STRICT.found_in(said.words) or _is_foreign_rule(said.text)
    if strict and not pasted and not (_ABOUT_ONESELF.match(said.text) or _WANTS_SURE.search(said.text)):
        return _STRICT
    soft = strict or (strength >= _LEAST_SOFT and not _OPINION.search(said.text))
    return max(int(soft), _other_rank(said, pasted=pasted))


def _other_rank(said: Sentence, *, pasted: bool) -> int:
    """The same by words that bind a whole session only when somebody says them, not in a document."""
    words, text = said.words, said.text
    if pasted or len(words) < 2 or text.startswith(_NOT_SPEECH) or text.rstrip("\"')* ").endswith("?"):
        return 0
    if any(refused.match(text) for refused in (_TOLD, _ABOUT_ONESELF)) or _NOT_AN_ORDER.search(text):
        return 0
    way = phrased(plain(text), words)
    if STANDING.found_in(words) or (b"leave" in words and _LEFT_ALONE.search(text)) or (way is not None and way.strict):
        return _STRICT
    lasts = LASTING.found_in(words) and words[0] != b"there" and not _OPINION.search(text)
    return int(way is not None or lasts or (text[2:3] == " " and _bans(words)))


def _bans(words: Words) -> bool:
    """Whether a sentence is as short as "No emojis in the docs."."""
    if words[0] != b"no" or len(words) > _BAN or not words[1].endswith((b"s", b"ing")):
        return False
    return words[1] not in NOT_A_BAN and (words[1] != b"changes" or words[2:3] == [b"to"])
