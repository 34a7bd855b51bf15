"""Attribution: in a model's summary only words of the user stand as the user's.

Pure. A line that claims what the user wants is a whole sentence from a human row, or it is shown as a fact.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

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
_LONGEST = 400  # characters of a sentence that is shown for its part, or that leads to a list

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
_NONE = re.compile(r"(?i)\W{0,3}(?:none|no (?:constraint|correction|rule)s?|nothing|n/?a)\b[^;.\n]{0,40}\W{0,3}\Z")
_SPEAKER = re.compile(
    r"(?i)\A(?:(?:the )?(?:user|human)(?: (?:asked|insisted|said|says|typed|wrote))?|rule|constraint|correction):\s*"
)


def attribute(text: str, content: str, kind: str) -> str:
    """Return `text`, a model's summary of `content`, in which nothing stands as the user's that no human said.

    Lines that look like a record's labels are escaped: a summary that begins with one would be read as a record. Of a
    heading that was not asked for, in whatever language, a human must have said all that stands under it.
    """
    text = escape_labels(text).replace("(not the user's words)", NOT_THE_USERS)  # the label of recorded summaries
    spoken = _Spoken(content, kind)
    lines: list[str] = []
    moved: list[str] = []  # out of the constraints
    for heading, title, body in _parts(text):
        if _RULES.search(folded(title)):
            kept: list[str] = []
            for bullet in _bullets(body):
                claim = _SPEAKER.sub("", bare(bullet))
                said = spoken.sentence(claim)
                if said or _NONE.match(bullet):
                    rules = [bullet if _is_same(said, claim) else f'"{said}"'] if said else []
                else:  # what a model says around a quote may turn it round
                    quoted = [
                        spoken.sentence(quote) for quote in re.findall(r"[\"“”«]([^\"“”«»\n]{1,400})[\"“”»]", bullet)
                    ]
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
            if claims and not spoken.has(_SPEAKER.sub("", words)):
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


def _parts(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Return each heading, as written and its words, with the lines under it; first the lines before any heading.

    A heading is marked, or a few words that speak of rules and stand alone or before a colon. Under Constraints a
    heading of a lower level is a line like the others.
    """
    heading, title, level = "", "", 0
    body: list[str] = []
    for line in text.splitlines():
        words, depth = "", 1
        if found := _HEADING.match(line):
            words, depth = found["title"] or found["bold"], len(found["marks"] or "#######")
        elif (found := _UNMARKED.match(line)) and len(found["title"].split()) <= 7:
            is_alone = not re.search(r"[-*+•\d]", found["before"]) or ":" in folded(found["after"])
            words = found["title"] if is_alone and _RULES.search(folded(found["title"])) else ""
        if words and not (depth > level and _RULES.search(folded(title))):
            yield heading, title, body
            heading, title, level, body = line, words, depth, []
        else:
            body.append(line)
    yield heading, title, body


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


class _Spoken:
    """All that humans said in a content, sentence by sentence.

    Of the children of a rollup that are the constraints that they state, and what is said in a child that stands for
    itself.
    """

    def __init__(self, content: str, kind: str) -> None:
        self._rows: list[tuple[list[str], list[int], str]] = []  # of each text, the newest first: its sentences, where
        # each ends in all of them, and these in lower case as one text
        for child in split_children(content) if kind == "rollup" else (content,):
            if kind == "segment" or is_rendered(child):
                texts = [block.body for block in split_blocks(child) if block.kind == "user"]
            else:
                texts = [line.text for line in read_sections(child)[CONSTRAINTS]]
            for sentences in map(list, map(_sentences, texts)):
                plain = [_plain(sentence).lower() for sentence in sentences]
                ends = [end - 1 for end in accumulate(len(each) + 1 for each in plain)]
                self._rows.insert(0, (sentences, ends, " ".join(plain)))

    def has(self, claim: str) -> bool:
        """Say whether a claim is a whole sentence, or some that follow each other, word for word."""
        return _is_same(self.sentence(claim), claim)

    def sentence(self, claim: str) -> str:
        """Return the whole sentences in which a claim stands word for word, as they were typed; empty if in none.

        A part may say the opposite of its sentence, so one of at least three words stands for the whole of it.
        """
        key = _key(claim).lower()
        parts: dict[str, None] = {}
        for sentences, ends, text in self._rows if any(map(str.isalnum, key)) else ():
            if key in text:  # else no pattern is needed: to compile one of a long claim takes milliseconds
                for found in re.finditer(rf"(?<!\w){re.escape(key)}(?!\w)", text):
                    first, last = bisect_right(ends, found.start()), bisect_left(ends, found.end())
                    parts[" ".join(sentences[first : last + 1])] = None
        short = (said for said in parts if len(key.split()) >= 3 and len(said) <= _LONGEST)
        return next((said for said in parts if _is_same(said, claim)), None) or next(short, "")


def _sentences(row: str) -> Iterator[str]:
    """Return the sentences of a row, the lines of one joined, without the marks of lists.

    An item of a list stands behind the line that leads to it: it may be what not to do.
    """
    lines: list[tuple[str, int]] = []  # each with how deep it stands in lists
    for raw in cleaned(row).split("\n"):
        line = raw.strip()
        words = line if re.match(r"\\*#{1,6} ", line) else bare(line)
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


_QUOTATION_MARKS = str.maketrans({"’": "'", "‘": "'", **dict.fromkeys('"“”„«»「」`')})


def _plain(text: str) -> str:
    """Return text without quotation marks, and with one space where there is white space."""
    return " ".join(text.translate(_QUOTATION_MARKS).split())


def _key(text: str) -> str:
    """Return it without marks at its ends too. A question mark stays: a question is no statement."""
    return _plain(text).strip(" .!…。！,;:*_'()")


def _is_same(said: str, claim: str) -> bool:
    """Say whether two texts differ at most in white space, quotation marks, marks at their ends and the first
    capital."""
    one, other = _key(said), _key(claim)
    return one[1:] == other[1:] and one[:1].lower() == other[:1].lower() != ""
