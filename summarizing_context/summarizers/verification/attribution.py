"""Attribution: in a model's summary only words of the user stand as the user's.

Pure. A line that claims what the user wants is a whole sentence from a human row, or it is shown as a fact.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Literal

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
)

ATTRIBUTION_VERSION = "1"  # another one makes every summary anew; what is stored outlives a stricter check
NOT_THE_USERS = "(agent's note)"  # before a line that is a fact, and no order of the user's
_QUOTATION_MARKS = str.maketrans({"’": "'", "‘": "'", **dict.fromkeys('"“”„«»「」`')})
_ENDS = " .!…。！,;:*_'()"  # a question mark stays: a question is no statement
_LONGEST = 400  # characters of a sentence that is shown for its part, or that leads to a list


class HumanSentences:
    """All that humans said in some texts, sentence by sentence; read when it is first asked for."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts

    @cached_property
    def _rows(self) -> list[tuple[list[str], list[int], str]]:
        """The sentences of each text, the newest first; where each ends in all of them, in lower case as one text."""
        rows: list[tuple[list[str], list[int], str]] = []
        for sentences in map(list, map(_sentences, self._texts)):
            plain = [_plain(sentence).lower() for sentence in sentences]
            ends = [end - 1 for end in accumulate(len(each) + 1 for each in plain)]
            rows.insert(0, (sentences, ends, " ".join(plain)))
        return rows

    def has(self, claim: str) -> bool:
        """Say whether a claim is a whole sentence, or some that follow each other, word for word."""
        return _is_same(self.sentence(claim), claim)

    def sentence(self, claim: str) -> str:
        """Return the whole sentences in which a claim stands word for word, as they were typed; empty if in none.

        A part may say the opposite of its sentence, so one of at least three words stands for the whole of it.
        """
        key = _plain(claim).strip(_ENDS).lower()
        parts: dict[str, None] = {}
        for sentences, ends, text in self._rows if any(map(str.isalnum, key)) else ():
            if key in text:  # else no pattern is needed: to compile one of a long claim takes milliseconds
                for found in re.finditer(rf"(?<!\w){re.escape(key)}(?!\w)", text):
                    first, last = bisect_right(ends, found.start()), bisect_left(ends, found.end())
                    parts[" ".join(sentences[first : last + 1])] = None
        short = (said for said in parts if len(key.split()) >= 3 and len(said) <= _LONGEST)
        return next((said for said in parts if _is_same(said, claim)), None) or next(short, "")


def _plain(text: str) -> str:
    """Return text without quotation marks, and with one space where there is white space."""
    return " ".join(text.translate(_QUOTATION_MARKS).split())


def _is_same(said: str, claim: str) -> bool:
    """Say whether two texts differ at most in white space, quotation marks, marks at their ends and the first
    capital."""
    one, other = (_plain(text).strip(_ENDS) for text in (said, claim))
    return one[1:] == other[1:] and one[:1].lower() == other[:1].lower() != ""


_TITLE = re.compile(r"\\*#{1,6} ")


def _sentences(row: str) -> Iterator[str]:
    """Return the sentences of a row, the lines of one joined, without the marks of lists.

    An item of a list stands behind the line that leads to it: it may be what not to do.
    """
    lines: list[tuple[str, int]] = []  # each with how deep it stands in lists
    for raw in cleaned(row).split("\n"):
        line = raw.strip()
        words = line if _TITLE.match(line) else bare(line)
        before = lines[-1][0] if lines else ""
        if before and words == line and (before[-1] in ":," or (before[-1] not in ".!?" and line[:1].islower())):
            lines[-1] = f"{before} {line}", lines[-1][1]
        else:
            lines.append((words, len(raw) - len(raw.lstrip()) + (words != line)))
    leads: list[tuple[int, str]] = []
    for joined, depth in lines:
        if not joined:
            continue
        while leads and leads[-1][0] >= depth:
            leads.pop()
        said = list(split_line(f"{leads[-1][1]} {bare(joined)}" if leads else bare(joined)))
        yield from said
        if said[-1].rstrip("*_\"'”’)")[-1:] not in (*".!?…。！？", ""):
            leads.append((depth, f"{said[-1][-_LONGEST:].removesuffix(':')}:"))


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
LEAD = re.compile(r"\s*(?:(?:[-*+•>]|\d{1,3}[.)])\s+)*")  # of a list's item
_ITEM = re.compile(r"\s+\S|[-*+•>]\s")
_QUOTE = re.compile(r"[\"“”«]([^\"“”«»\n]{1,400})[\"“”»]")
_NONE = re.compile(r"(?i)\W{0,3}(?:none|no (?:constraint|correction|rule)s?|nothing|n/?a)\b[^;.\n]{0,40}\W{0,3}\Z")
_SPEAKER = re.compile(
    r"(?i)\A(?:(?:the )?(?:user|human)(?: (?:asked|insisted|said|says|typed|wrote))?|rule|constraint|correction):\s*"
)


def attribute(text: str, content: str, kind: Literal["segment", "rollup"]) -> str:
    """Return `text`, a model's summary of `content`, in which nothing stands as the user's that no human said.

    Lines that look like a record's labels are escaped: a summary that begins with one would be read as a record. Of a
    heading that was not asked for, in whatever language, a human must have said all that stands under it.
    """
    text = escape_labels(text).replace("(not the user's words)", NOT_THE_USERS)  # the label of recorded summaries
    spoken = HumanSentences(_said_by_humans(content, kind))
    lines: list[str] = []
    moved: list[str] = []  # out of the constraints
    for heading, title, body in _parts(text):
        if _speaks_of_rules(title):
            kept: list[str] = []
            for bullet in _bullets(body):
                said = spoken.sentence(claim := _bare_claim(bullet))
                if said or _NONE.match(bullet):
                    rules = [bullet if _is_same(said, claim) else f'"{said}"'] if said else []
                else:  # what a model says around a quote may turn it round
                    quoted = [spoken.sentence(quote) for quote in _QUOTE.findall(bullet)]
                    rules = [f'"{rule}"' for rule in quoted] if all(quoted) else []
                    moved.append(bullet.removeprefix(NOT_THE_USERS).lstrip())
                kept += [rule for rule in rules if rule not in kept]
            lines += [f"## {NAMES[CONSTRAINTS]}", *(f"- {rule}" for rule in kept)] if kept else []
            continue
        is_ours = " ".join(folded(title).split()).strip(" *_:").startswith(tuple(map(str.lower, NAMES)))
        if heading and NOT_THE_USERS not in heading and not is_ours and not all(map(spoken.has, _bullets(body))):
            heading = f"{heading.rstrip()} {NOT_THE_USERS}"
        lines += [heading] if heading else []
        for line in body:
            words = bare(line)
            is_told = NOT_THE_USERS in line or (words.isascii() and len(words.split()) < 2)
            claims = not is_told and (_CLAIM.search(folded(words)) or _USER_ELSEWHERE.search(words.casefold()))
            if claims and not spoken.has(_bare_claim(line)):
                start = lead.end() if (lead := LEAD.match(line)) else 0
                line = f"{line[:start]}{NOT_THE_USERS} {line[start:]}"
            lines.append(line)
    if moved:  # to the end of the facts
        if (facts := f"## {NAMES[FACTS]}") not in lines:
            lines.append(facts)
        at = lines.index(facts) + 1
        while at < len(lines) and lines[at].strip() and not _HEADING.match(lines[at]):
            at += 1
        lines[at:at] = [f"- {NOT_THE_USERS} {claim}" for claim in moved]
    return "\n".join(lines).strip()


def _said_by_humans(content: str, kind: Literal["segment", "rollup"]) -> Iterator[str]:
    """Return the rows of humans; of the children of a rollup the constraints that they state, and of a child that
    stands for itself what humans say in it."""
    for child in split_children(content) if kind == "rollup" else (content,):
        if kind == "segment" or is_rendered(child):
            yield from (block.body for block in split_blocks(child) if block.kind == "user")
        else:
            yield from (line.text for line in read_sections(child)[CONSTRAINTS])


def _parts(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Return each heading, as written and its words, with the lines under it; first the lines before any heading.

    Under Constraints a heading of a lower level is a line like the others.
    """
    heading, title, level = "", "", 0
    body: list[str] = []
    lines = text.splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=False):
        found = _read_heading(line, after)
        if found is None or (found[0] > level and _speaks_of_rules(title)):
            body.append(line)
            continue
        yield heading, title, body
        heading, (level, title), body = line, found, []
    yield heading, title, body


def _read_heading(line: str, after: str) -> tuple[int, str] | None:
    """Return the level and the words of a heading as it is marked, or of a few words that are one without marks: those
    that are underlined, and those that speak of rules and are no item of a list, or stand before a colon."""
    if found := _HEADING.match(line):
        return len(found["marks"] or "#######"), found["title"] or found["bold"]
    if (found := _UNMARKED.match(line)) is None or len(found["title"].split()) > 7:
        return None
    is_underlined = len(after.strip()) > 1 and not after.strip(" -=")
    is_numbered = any(map(str.isdigit, found["before"]))  # and may have items of its own
    is_alone = not any(char in "-*+•" for char in found["before"]) and (not is_numbered or bool(_ITEM.match(after)))
    speaks = (is_alone or ":" in folded(found["after"])) and _speaks_of_rules(found["title"])
    return (1, found["title"]) if is_underlined or speaks else None


def _speaks_of_rules(title: str) -> bool:
    return _RULES.search(folded(title)) is not None


def _bullets(lines: Sequence[str]) -> list[str]:
    """Return the bullets of a section, however they are marked; lines that go on are joined."""
    bullets: list[str] = []
    for line in lines:
        words = bare(line)
        if not any(map(str.isalnum, words)):
            continue
        if bullets and line[:1].isspace() and words == line.strip():
            bullets[-1] += f" {words}"
        else:
            bullets.append(words)
    return bullets


def _bare_claim(line: str) -> str:
    return _SPEAKER.sub("", bare(line), count=1)
