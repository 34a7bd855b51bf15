"""Attribution: in a model's summary only words of the user stand as the user's.

Pure. A line that claims what the user wants is a whole sentence from a human row, or it is shown as a fact.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Literal, NamedTuple

from summarizing_context.messages.fences import folded
from summarizing_context.messages.text import bare, cleaned, split_line
from summarizing_context.summarizers.extractive.sections import (
    CONSTRAINTS,
    FACTS,
    NAMES,
    escape_labels,
    is_rendered,
    read_sections,
    split_blocks,
    split_children,
    unescape_labels,
)

_MARKS = str.maketrans({"’": "'", "‘": "'", **dict.fromkeys('"“”„«»「」`')})

_ENDS = " .!…。！,;:*_'()"  # a question mark stays: a question is no statement

_TITLE = re.compile(r"\\*#{1,6} ")

_FEWEST = 3  # words of a part of a sentence that name the sentence

_LONGEST = 400  # characters of a sentence that is shown for its part, or that leads to a list


class _Row(NamedTuple):
    sentences: list[str]
    ends: list[int]  # of each sentence in `text`
    text: str  # all sentences, plain and in lower case


class HumanSentences:
    """All that humans said in some texts, sentence by sentence; read when it is first asked for."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts

    @cached_property
    def _rows(self) -> list[_Row]:
        return [_row(list(_sentences(text))) for text in self._texts]

    def has(self, claim: str) -> bool:
        """Whether a claim is a whole sentence, or some that follow each other, word for word."""
        return _is_same(self.sentence(claim), claim)

    def sentence(self, claim: str) -> str:
        """The whole sentences in which a claim stands word for word, as they were typed; empty if in none.

        A part may say the opposite of its sentence.
        """
        key = _plain(claim).strip(_ENDS)
        if not any(map(str.isalnum, key)):
            return ""
        rows = [row for row in self._rows if key.lower() in row.text]
        if not rows:
            return ""  # what is not there needs no pattern: to compile one of a long claim takes milliseconds
        part = re.compile(rf"(?<!\w){re.escape(key.lower())}(?!\w)")
        found = list(dict.fromkeys(said for row in reversed(rows) for said in _holding(row, part)))
        if whole := [said for said in found if _is_same(said, claim)]:
            return whole[0]
        return next((said for said in found if len(key.split()) >= _FEWEST and len(said) <= _LONGEST), "")


def _row(sentences: list[str]) -> _Row:
    plain = [_plain(sentence).lower() for sentence in sentences]
    return _Row(sentences, [end - 1 for end in accumulate(len(each) + 1 for each in plain)], " ".join(plain))


def _holding(row: _Row, part: re.Pattern[str]) -> Iterator[str]:
    for found in part.finditer(row.text):
        first, last = bisect_right(row.ends, found.start()), bisect_left(row.ends, found.end())
        yield " ".join(row.sentences[first : last + 1])


def _plain(text: str) -> str:
    """Text without quotation marks, and with one space where there is white space."""
    return " ".join(text.translate(_MARKS).split())


def _is_same(said: str, claim: str) -> bool:
    """Whether two texts differ at most in white space, quotation marks, marks at their ends and the first capital."""
    one, other = (_plain(text).strip(_ENDS) for text in (said, claim))
    return one[1:] == other[1:] and one[:1].lower() == other[:1].lower() != ""


def _sentences(row: str) -> Iterator[str]:
    """The sentences of a row. An item of a list stands behind the line that leads to it: it may be what not to do."""
    leads: list[tuple[int, str]] = []
    for depth, line in _joined_lines(row):
        while leads and leads[-1][0] >= depth:
            leads.pop()
        *whole, last = list(split_line(f"{leads[-1][1]} {line}" if leads else line))
        yield from (*whole, last)
        if last.rstrip("*_\"'”’)")[-1:] not in (*".!?…。！？", ""):
            leads.append((depth, f"{last[-_LONGEST:].removesuffix(':')}:"))


def _joined_lines(row: str) -> Iterator[tuple[int, str]]:
    """The lines without the marks of lists, those that go on joined, each with how deep it stands in lists."""
    joined, depth = "", 0
    for raw in cleaned(row).split("\n"):
        line = raw.strip()
        words = line if _TITLE.match(line) else bare(line)
        if joined and words == line and (joined[-1] in ":," or (joined[-1] not in ".!?" and line[:1].islower())):
            joined += f" {line}"
            continue
        if joined:
            yield depth, bare(joined)
        joined, depth = words, len(raw) - len(raw.lstrip()) + (words != line)
    if joined:
        yield depth, bare(joined)


ATTRIBUTION_VERSION = "1"  # another one makes every summary anew; what is stored outlives a stricter check

NOT_THE_USERS = "(agent's note)"  # before a line that is a fact, and no order of the user's

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

_QUOTE = re.compile(r"[\"“”«]([^\"“”«»\n]{1,400})[\"“”»]")

_NONE = re.compile(r"(?i)\W{0,3}(?:none|no (?:constraint|correction|rule)s?|nothing|n/?a)\b[^;.\n]{0,40}\W{0,3}\Z")

_SPEAKER = re.compile(
    r"(?i)\A(?:(?:the )?(?:user|human)(?: (?:asked|insisted|said|says|typed|wrote))?|rule|constraint|correction):\s*"
)


def attribute(text: str, content: str, kind: Literal["segment", "rollup"]) -> str:
    """`text`, a model's summary of `content`, in which nothing stands as the user's that no human said.

    Lines that look like a record's labels are escaped: a summary that begins with one would be read as a record.
    """
    text = escape_labels(text)
    spoken = HumanSentences(_rules_of_children(content) if kind == "rollup" else _human_rows(content))
    lines: list[str] = []
    moved: list[str] = []
    for title, body in _parts(text):
        if title is None or not _speaks_of_rules(title[1]):
            lines += [*([_headed(title, body, spoken)] if title else []), *(_labelled(line, spoken) for line in body)]
            continue
        kept: list[str] = []
        for bullet in _bullets(body):
            found, others = _judge(bullet, spoken)
            kept += [rule for rule in found if rule not in kept]
            moved += others
        lines += [f"## {NAMES[CONSTRAINTS]}", *(f"- {rule}" for rule in kept)] if kept else []
    return "\n".join(_with_facts(lines, [f"- {NOT_THE_USERS} {claim}" for claim in moved])).strip()


def _headed(title: tuple[str, str], body: Sequence[str], spoken: HumanSentences) -> str:
    """A heading that was not asked for, in whatever language: with a label, if no human said what stands under it."""
    if NOT_THE_USERS in title[0] or _is_ours(title[1]) or all(map(spoken.has, _bullets(body))):
        return title[0]
    return f"{title[0].rstrip()} {NOT_THE_USERS}"


def _labelled(line: str, spoken: HumanSentences) -> str:
    """A line with a label, if it speaks of the user or of rules and is not what a human said."""
    if not _claims(line) or spoken.has(_bare_claim(line)):
        return line
    lead = _LEAD.match(line)
    start = lead.end() if lead else 0
    return f"{line[:start]}{NOT_THE_USERS} {line[start:]}"


def _claims(line: str) -> bool:
    words = bare(line)
    if NOT_THE_USERS in line or (words.isascii() and len(words.split()) < 2):
        return False
    return _CLAIM.search(folded(words)) is not None or _USER_ELSEWHERE.search(words.casefold()) is not None


def _bare_claim(line: str) -> str:
    return _SPEAKER.sub("", bare(line), count=1)


def _judge(bullet: str, spoken: HumanSentences) -> tuple[list[str], list[str]]:
    """What of a bullet is a constraint, and what is not: what a model says around a quote may turn it round."""
    if _NONE.match(bullet):
        return [], []
    claim = _bare_claim(bullet)
    if said := spoken.sentence(claim):
        return [bullet if _is_same(said, claim) else f'"{said}"'], []
    quoted = list(map(spoken.sentence, _QUOTE.findall(bullet)))
    kept = [f'"{said}"' for said in quoted] if all(quoted) else []
    return kept, [bullet.removeprefix(NOT_THE_USERS).lstrip()]


def _human_rows(content: str) -> Iterator[str]:
    yield from (block.body for block in split_blocks(content) if block.kind == "user")


def _rules_of_children(content: str) -> Iterator[str]:
    """The constraints that the children state; of a child that stands for itself what humans say in it."""
    for child in map(unescape_labels, split_children(content)):
        if is_rendered(child):
            yield from _human_rows(child)
        else:
            yield from (line.text for line in read_sections(child)[CONSTRAINTS])


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
