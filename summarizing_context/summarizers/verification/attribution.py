"""Attribution: in a model's summary only words of the user stand as the user's.

Pure. A line that claims a wish of the user's needs a verbatim quote from a human row; else it is shown as a fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise, takewhile
from typing import Literal, NamedTuple

from summarizing_context.messages.fencing import folded
from summarizing_context.messages.text import bare, cleaned, split_prose
from summarizing_context.summarizers.extractive.sections import (
    CONSTRAINTS,
    FACTS,
    INTENT,
    NAMES,
    escape_labels,
    is_rendered,
    read_sections,
    split_blocks,
    split_children,
    unescape_labels,
)

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


ATTRIBUTION_VERSION = "1"  # another one makes every summary anew; what is stored outlives a stricter check

NOT_THE_USERS = "(not the user's words)"

_RULES = re.compile(r"constraint|correction|\b(?:rule|requirement|preference|instruction|guideline|order)s?\b")

_CLAIM = re.compile(
    r"(?<![\w/.`-])(?:user|human|owner|maintainer|operator|customer|requester)(?![\w/`]|\.\w|-\w)"
    r"|^[^:]{0,60}\b(?:constraint|correction|rule|requirement|preference|instruction|guideline|standing order)s?\b"
    r"[^:]{0,40}(?::|\s[-–—]\s)"
    r"|(?:^|[.:;!] )\W*(?:always|never|must|do not|don'?t|make sure|ensure)\b"
)

_USER_ELSEWHERE = re.compile(r"пользовател|usuario|utilisateur|benutzer|nutzer|utente|用户|用戶|ユーザ|사용자")

_HEADING = re.compile(
    r"[\s>]*(?:(?P<marks>#{1,6})(?!#)\s*(?P<title>\S.*)|"
    r"(?:\d{1,2}[.)]\s*)?(?:\*\*|__)(?P<bold>[^*_]{1,80})(?:\*\*|__)\s*:?\s*)\Z"
)

_UNMARKED = re.compile(r"(?P<before>[\W\d_]*)(?P<title>[^\W\d_][^.:;,]{1,60}?)(?P<after>[\W_]*)\Z")

_LEAD = re.compile(r"\s*(?:(?:[-*+•>]|\d{1,3}[.)])\s+)*")

_ITEM = re.compile(r"\s+\S|[-*+•>]\s")

_SECTIONS = tuple(name.lower() for name in NAMES)

_MOST_WORDS = 7  # of a line that is a heading though nothing marks it

_QUOTE = re.compile(r"[\"“”«]([^\"“”«»\n]{8,400})[\"“”»]")

_NONE = re.compile(r"(?i)\W{0,3}(?:none|no (?:constraint|correction|rule)s?|nothing|n/?a)\b[^;.\n]{0,40}\W{0,3}\Z")

_MARK = re.compile(r" \((?:latest|superseded)\)\Z")

_SPEAKER = re.compile(r"(?i)(?:the )?(?:user|human)\b[^\"“”«:\n]{0,40}:\s*")


def attribute(text: str, content: str, kind: Literal["segment", "rollup"]) -> str:
    """`text`, a model's summary of `content`, in which nothing stands as the user's that no human said.

    Lines that look like a record's labels are escaped: a summary that begins with one would be read as a record.
    """
    text = escape_labels(text)
    sources = _Sources(content, kind)
    lines: list[str] = []
    moved: list[str] = []
    for title, body in _parts(text):
        if title is None or not _speaks_of_rules(title[1]):
            lines += [*([_headed(title, body, sources)] if title else []), *(_labelled(line, sources) for line in body)]
            continue
        kept: list[str] = []
        for bullet in _bullets(body):
            found, others = _judge(bullet, sources.rules)
            kept += found
            moved += others
        lines += [f"## {NAMES[CONSTRAINTS]}", *(f"- {rule}" for rule in kept)] if kept else []
    return "\n".join(_with_facts(lines, [f"- {NOT_THE_USERS} {claim}" for claim in moved])).strip()


class _Sources:
    """What the user said, as a segment or the merged summaries tell it; read when it is first asked for."""

    def __init__(self, content: str, kind: Literal["segment", "rollup"]) -> None:
        self._content = content
        self._is_rollup = kind == "rollup"

    @cached_property
    def rules(self) -> Spoken:
        """What bears out a constraint."""
        return Spoken(_rules_of_children(self._content)) if self._is_rollup else Spoken(_human_rows(self._content))

    @cached_property
    def words(self) -> Spoken:
        """What bears out any other line that speaks of the user."""
        return Spoken(_words_of_children(self._content)) if self._is_rollup else self.rules


def _headed(title: tuple[str, str], body: Sequence[str], sources: _Sources) -> str:
    """A heading that was not asked for, in whatever language: with a label, if no human said what stands under it."""
    if NOT_THE_USERS in title[0] or _is_ours(title[1]) or all(map(sources.words.supports, _bullets(body))):
        return title[0]
    return f"{title[0].rstrip()} {NOT_THE_USERS}"


def _labelled(line: str, sources: _Sources) -> str:
    """A line with a label, if it speaks of the user or of rules and no human said so."""
    if not _claims(line) or any(map(sources.words.supports, [_bare_claim(line), *_QUOTE.findall(line)])):
        return line
    lead = _LEAD.match(line)
    start = lead.end() if lead else 0
    return f"{line[:start]}{NOT_THE_USERS} {line[start:]}"


def _claims(line: str) -> bool:
    words = bare(line)
    if NOT_THE_USERS in line or (words.isascii() and len(words.split()) < 2):
        return False
    return _CLAIM.search(folded(words)) is not None or _USER_ELSEWHERE.search(words.casefold()) is not None


def unmarked(text: str) -> str:
    """A constraint without the mark that summaries of earlier versions put behind it."""
    return _MARK.sub("", text)


def _bare_claim(line: str) -> str:
    return _SPEAKER.sub("", unmarked(bare(line)), count=1)


def _judge(bullet: str, spoken: Spoken) -> tuple[list[str], list[str]]:
    """What of a bullet is a constraint, and what is not. A quote is worth more than what a model says around it."""
    if _NONE.match(bullet):
        return [], []
    if spoken.supports(_bare_claim(bullet)):
        return [bullet], []
    quotes = [quote for quote in _QUOTE.findall(bullet) if spoken.supports(quote)]
    return [f'"{quote}"' for quote in quotes], [bullet.removeprefix(NOT_THE_USERS).lstrip()]


def _human_rows(content: str) -> Iterator[str]:
    yield from (block.body for block in split_blocks(content) if block.kind == "user")


def _rules_of_children(content: str) -> Iterator[str]:
    """The constraints that the children state; of a child that stands for itself what humans say in it."""
    for child in map(unescape_labels, split_children(content)):
        if is_rendered(child):
            yield from _human_rows(child)
        else:
            yield from (unmarked(line.text) for line in read_sections(child)[CONSTRAINTS])


def _words_of_children(content: str) -> Iterator[str]:
    """What the children tell of the user, themselves borne out: their constraints and intents, and other claims."""
    yield from _rules_of_children(content)
    for child in map(unescape_labels, split_children(content)):
        if not is_rendered(child):
            sections = read_sections(child)
            told = [line.text for number, lines in enumerate(sections) if number != CONSTRAINTS for line in lines]
            intents = {line.text for line in sections[INTENT]}
            yield from (text for text in told if NOT_THE_USERS not in text and (text in intents or _claims(text)))


def _parts(text: str) -> Iterator[tuple[tuple[str, str] | None, list[str]]]:
    """Each heading, as written and its words, with the lines under it; first the lines before any heading.

    Under Constraints a heading of a lower level is a line like the others.
    """
    title: tuple[str, str] | None = None
    level = 0
    body: list[str] = []
    lines = text.splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=False):
        found = _heading(line, after)
        lower = found is not None and title is not None and found.level > level and _speaks_of_rules(title[1])
        if found is None or lower:
            body.append(line)
            continue
        yield title, body
        title, level, body = (line, found.title), found.level, []
    yield title, body


class _Heading(NamedTuple):
    level: int
    title: str


def _heading(line: str, after: str) -> _Heading | None:
    """A heading as it is marked; few words that speak of rules are one without marks, a list's item behind a colon."""
    if found := _HEADING.match(line):
        return _Heading(len(found["marks"] or "#######"), found["title"] or found["bold"])
    if (found := _UNMARKED.match(line)) is None or len(found["title"].split()) > _MOST_WORDS:
        return None
    is_underlined = len(after.strip()) > 1 and not after.strip(" -=")
    is_alone = _stands_alone(found["before"], after) or ":" in folded(found["after"])
    return _Heading(1, found["title"]) if is_underlined or (is_alone and _speaks_of_rules(found["title"])) else None


def _stands_alone(before: str, after: str) -> bool:
    """Whether what stands before few words makes them no item of a list; a numbered one may have items of its own."""
    if any(char in "-*+•" for char in before):
        return False
    return not any(char.isdigit() for char in before) or bool(_ITEM.match(after))


def _is_ours(title: str) -> bool:
    return " ".join(folded(title).split()).strip(" *_:").startswith(_SECTIONS)


def _speaks_of_rules(title: str) -> bool:
    return _RULES.search(folded(title)) is not None


def _bullets(lines: Sequence[str]) -> list[str]:
    """The bullets of a section, however they are marked; lines that go on are joined."""
    bullets: list[str] = []
    for line in lines:
        words = bare(line)
        if not any(char.isalnum() for char in words):
            continue
        if bullets and line[:1].isspace() and words == line.strip():
            bullets[-1] += f" {words}"
        else:
            bullets.append(words)
    return bullets


def _with_facts(lines: list[str], facts: list[str]) -> list[str]:
    """The summary with more facts at the end of its Facts."""
    heading = f"## {NAMES[FACTS]}"
    if not facts:
        return lines
    if heading not in lines:
        return [*lines, heading, *facts]
    at = lines.index(heading) + 1
    while at < len(lines) and lines[at].strip() and not _HEADING.match(lines[at]):
        at += 1
    return [*lines[:at], *facts, *lines[at:]]
