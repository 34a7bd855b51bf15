"""Text: sentences, lines, words, clipping, and output that a terminal does not act upon; words for searching; fences,
which set text about the past apart, so that it can neither pose as a message nor end its own fence; and what a person
typed, told from what a host put into a row of the same role.

Pure, and linear in the text: every pattern is bounded or runs over disjoint classes. Tags are compared after NFKD,
without marks, invisible and control characters, in lower case; letters of other scripts count as the ASCII ones that
they look like.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate, groupby, islice, pairwise
from typing import Any, NamedTuple

LONGEST = 300  # characters of a shown sentence or line
GONE = "…"
_ANSI = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]?|\][^\x07\x1b\n]{0,2048}(?:\x07|\x1b\\)?|[@-Z\\-_])?")
_BULLET = re.compile(r"(?:(?:[-*+•>]|\\{0,9}#{1,6}|\d{1,3}[.)]|\[[ xX]\])\s+){1,3}")
_SENTENCE_END = re.compile(
    r"[.!?][\"'”’)\]`*_]{0,3}\s{1,9}(?=[\"'“‘(\[`*_]{0,3}[A-Z0-9/~À-ÖØ-ÞΑ-ΩА-Я\u3040-\uffff])|[。！？]"
)

_BREAK = re.compile(r"[\s;|]|[}\],](?=[\"{\[])")
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|Mr|Mrs|Ms|Dr|St|No|Fig|\d{1,3}|[A-Z])\.)\s*\Z")


def cleaned(body: str) -> str:
    """`body` without ANSI escape sequences and runs of empty lines, and with plain line ends."""
    if "\x1b" in body:
        body = _ANSI.sub("", body)
    body = body.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"\n{3,}", "\n\n", body) if "\n\n\n" in body else body


def flat(text: str) -> str:
    """`text` on one line."""
    return " ".join(text.split())


def shown(text: str) -> str:
    """`text` on one line, without control characters; lone surrogates are replaced, for no store can encode them."""
    line = flat(text)
    if line.isprintable():
        return line
    line = re.sub(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]", "", line)
    return re.sub(r"[\ud800-\udfff]", "\ufffd", line)


def bare(line: str) -> str:
    """Return a line without the marks of lists and headings in front."""
    line = line.strip()
    return line[bullet.end() :] if (bullet := _BULLET.match(line)) else line


def split_prose(body: str) -> tuple[list[str], list[str]]:
    """Return the sentences of `body`, and its fenced parts. A fence that is never closed is no fence."""
    parts = body.split("```")
    if len(parts) % 2 == 0:
        parts[-2:] = ["\n".join(parts[-2:])]
    # a line that comes again and again is said once
    lines = (bare(raw) for part in parts[::2] for raw, _ in groupby(_lines(part)))
    return [piece for line in lines for sentence in split_line(line) for piece in _pieces(sentence)], parts[1::2]


def split_lines(body: str) -> list[str]:
    """Return the lines of a log, a listing or a file; a long one in pieces. Empty ones are left out."""
    written = (line for line in _lines(body) if line and not line.isspace())
    return [piece for line in written for piece in (_pieces(line) if len(line) > LONGEST else [line])]


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, parted a piece at a time: megabytes at once would hold every other thread up."""
    start = 0
    while (stop := text.find("\n", start + 100_000)) >= 0:
        yield from text[start:stop].split("\n")
        start = stop + 1
    yield from text[start:].split("\n")


def clip(text: str, limit: int) -> str:
    """Return the first words of `text`, at most `limit` characters with the mark of what is gone; no word is cut."""
    if len(text) <= limit:
        return text
    cut = max(text.rfind(" ", 0, limit - 1), 0)
    words = text[:cut].rstrip(" ,;:-–—([{\"'`").split(" ")
    while words and words[-1][-1:].isdigit() and words[-1].strip("$€£+-~<>=").translate({44: None, 46: None}).isdigit():
        words.pop()  # a number whose unit would be lost
    return f"{' '.join(words)} {GONE}" if words and words[0] else GONE


def split_line(line: str) -> Iterator[str]:
    start = 0
    for stop in map(re.Match.end, _SENTENCE_END.finditer(line)):
        if stop - start >= 3 and not _ABBREVIATION.search(line, max(start, stop - 12), stop):
            yield line[start:stop].rstrip()
            start = stop
    if start < len(line):
        yield line[start:]


def _pieces(line: str) -> Iterator[str]:
    """Yield parts of a long line, cut at white space or between JSON items. A word too long for a part is left out."""
    start = 0
    while len(line) - start > LONGEST:
        window = line[start : start + LONGEST]
        at = max(map(window.rfind, (", ", "; ", "},", ',"', "|"))) + 1
        at = at if at > LONGEST // 2 else max(at, window.rfind(" ") + 1)
        if at:
            if not window[:at].isspace():
                yield window[:at].strip()
            start += at
        else:
            found = _BREAK.search(line, start + LONGEST)
            start = found.end() if found else len(line)
    if rest := line[start:].strip():
        yield rest


Words = list[bytes]
LOWER_TABLE = bytes(  # of UTF-8: small letters, and a space for whatever parts words
    byte if byte >= 128 or chr(byte).isalnum() or chr(byte) == "_" else 32 for byte in range(256)
).lower()


def words_of(text: str) -> Words:
    """Return the words of `text` in lower case, as bytes, to compare texts; an apostrophe parts no word."""
    return text.encode("utf-8", "surrogatepass").translate(LOWER_TABLE, b"'").split()


def inert(text: str) -> str:
    """`text` with its lines, and a dot for all that would move, colour, hide or turn round what is shown."""
    if text.isprintable():
        return text
    blank = ("\t", "\xa0", "\u3000")
    return "".join(char if char.isprintable() or char == "\n" else " " if char in blank else "·" for char in text)


# -- words for searching: what is indexed, and what a query asks for, plain words without operators

_WORD = re.compile(r"[^\W_]+")
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\uac00-\ud7a3"  # Thai, Lao, Burmese, Khmer; Korean, for its particles
    "\u3040-\u312f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # kana, Chinese characters
)


def indexed_words(text: str) -> str:
    """Return a text as it is indexed: letters in one form, with spaces around those that are words by themselves."""
    if text.isascii():
        return text
    # In pieces: spaces between the letters of megabytes, made at once, would hold every thread up.
    pieces = (unicodedata.normalize("NFKC", text[at : at + 10_000]) for at in range(0, len(text), 10_000))
    return "".join(UNSPACED.sub(r" \g<0> ", piece) for piece in pieces)


def search_words(text: str) -> Iterator[str]:
    """Yield the words by which a text is found, in small letters; of unspaced scripts each two neighbouring letters."""
    for found in _WORD.finditer(text):  # not all in one go, which would hold every other thread up
        if (word := found[0]).isascii():
            yield word.lower()
        else:
            yield from _parts([piece.lower() for piece in indexed_words(word).split()])


def query_terms(query: str, most: int = 24) -> list[str]:
    """Return what a query asks for: each run without a space, and its words if several; of a pasted page the first."""
    terms: dict[str, None] = {}
    for run in islice(re.finditer(r"\S+", unicodedata.normalize("NFKC", query)), 1_000):
        words = [piece.lower() for word in _WORD.findall(run[0]) for piece in indexed_words(word).split()]
        if words:  # a word alone is one of its parts too
            terms |= dict.fromkeys([" ".join(words), *_parts(words)])
        if len(terms) >= most:
            break
    return list(terms)[:most]


def _parts(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a run; neighbours of an unspaced script by two."""
    unspaced = [len(word) == 1 and UNSPACED.match(word) is not None for word in words]
    for at, word in enumerate(words):
        if not unspaced[at]:
            yield word
        elif at + 1 < len(words) and unspaced[at + 1]:
            yield f"{word} {words[at + 1]}"
        elif not (at and unspaced[at - 1]):
            yield word


def stem(term: str) -> str:
    """Return the beginning of a word: the ends of longer ones may differ."""
    return term[: max(4, len(term) - 3)]


_COMMON_WORDS = """
a about after again all also an and any are as at be been before but by can could did do does for from
go had has have how i if in into is it its let me my no not now of on or our out please should so some
than that the their them then there these they this to too up us was we were what when where which who
why will with would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def stems(text: str) -> frozenset[str]:
    """Return beginnings of a text's words by which their families are known, without common words."""
    return frozenset(stem(word) for word in search_words(text) if word not in _COMMON)


# -- fences and tags

_TABLES = tomllib.loads((files(__package__) / "look_alikes.toml").read_text("utf-8"))
_ALIKE = {char: look for table in _TABLES.values() for look, chars in table.items() for char in chars}
_FILLERS = "\u115f\u1160\u2800\U0001d159"  # letters and signs without ink
_INVISIBLE = frozenset(("Mn", "Mc", "Me", "Cf", "Cc", "Cs", "Co", "Cn"))

_OPENING = f"{_TABLES['signs']['<']}＜﹤\u2329"
_LINE_OPENER = re.compile(rf"^[^!-~\n{_OPENING}]*+[<≮＜﹤]", re.MULTILINE)  # no quotation marks, as in «a_name»
_CLOSER = re.compile(f"[{_TABLES['signs']['>']}＞﹥\u232a]")
_GAPS = re.compile(r"[-_ ]+")


class Tag(NamedTuple):
    """Where a tag stands."""

    start: int  # of its opening bracket
    stop: int  # behind its closing bracket; behind its name, where there is none
    closes: bool


class _Looks(dict[int, str]):
    """What the character of each code point looks like; filled as they are met."""

    def __missing__(self, code: int) -> str:
        look = ""
        for part in unicodedata.normalize("NFKD", chr(code)):
            if unicodedata.category(part) not in _INVISIBLE and part not in _FILLERS:
                for letter in part.casefold():  # now only: U+0345 would become a letter
                    kind = unicodedata.category(letter)
                    signs = {"Pd": "-", "Pc": "_"}
                    look += "" if kind in _INVISIBLE else signs.get(kind) or _ALIKE.get(letter, letter)
        return self.setdefault(code, " " if chr(code).isspace() else look)


_looks = _Looks()


def folded(text: str) -> str:
    """`text` as it is compared: what a reader takes for the same is the same."""
    return text.translate(_looks)


def is_blank(text: str) -> bool:
    """Return whether a reader sees nothing in `text`."""
    return not any(_looks[ord(char)].strip() for char in text)


def find_tags(text: str, names: frozenset[str], *, in_lines: bool = False) -> Iterator[Tag]:
    """Yield the tags called by one of `names`, spelled without gaps; `in_lines`, those that begin a line, and among
    them also the ones that are called by several words."""
    if "<" not in text and (text.isascii() or not any(opening in text for opening in _OPENING)):
        return  # seen at once, where looking for names takes long
    for opener in (_LINE_OPENER if in_lines else _opener(names)).finditer(text):
        at, words, closes = opener.end(), "", False
        while at < len(text) and len(words) < 40:
            look = _looks[ord(text[at])]
            if words == "" and look in ("/", " "):
                closes = closes or look == "/"
            elif look in ("-", "_", " ") or look.isalnum():
                words += look
            elif look:
                break
            at += 1
        is_named = any(name in names for name in accumulate(_GAPS.split(words)))
        if is_named or (in_lines and re.match(r"[^\W\d_][^\W_]*[-_][^\W_]", words)):
            closer = _CLOSER.search(text, at, at + 200)
            yield Tag(opener.end() - 1, closer.end() if closer else at, closes)


@lru_cache
def _opener(names: frozenset[str]) -> re.Pattern[str]:
    """Return what is looked for first: quick, right about names in ASCII, and generous with all others."""
    starts = sorted(f"{name[0]}(?:[-_ ]?{name[1]}|[^ -~])" for name in names)
    return re.compile(rf"[{_OPENING}](?=[\s/\\]*+(?:{'|'.join(starts)}|[^ -~\s]))", re.IGNORECASE)


OURS = frozenset(  # spelled without gaps
    {
        *("history", "summary", "earliermessage", "lateresult", "sessionrecord", "memories", "recalled"),
        *("ledger", "standingrules", "currentplan", "projectinstructions", "agentnotes"),
    }
)


def fence(tag: str, text: str, **attributes: object) -> str:
    """`text` between an opening and a closing tag; this one and this package's others inside it lose their meaning."""
    listed = "".join(f' {name}="{value}"' for name, value in attributes.items())
    (inside,) = neutral([text], _GAPS.sub("", tag))
    return f"<{tag}{listed}>\n{inside}\n</{tag}>"


def within_fence(fenced: str, change: Callable[[str], str]) -> str:
    """Return a fenced text with its inside changed; the fence stays whole."""
    opening, _, rest = fenced.partition("\n")
    inside, _, closing = rest.rpartition("\n")
    return f"{opening}\n{change(inside)}\n{closing}"


def neutral(texts: Iterable[str], *names: str) -> list[str]:
    """Return texts in which no own tag, no host's reminder and none of `names` opens or closes anything."""
    safe, tags = list[str](), OURS.union(("systemreminder",), names)  # which models are taught to obey
    for text in texts:
        openings = [-1, *(tag.start for tag in find_tags(text, tags)), len(text)]
        safe.append("(".join([text[before + 1 : at] for before, at in pairwise(openings)]))
    return safe


# -- who wrote a text: a mark of the host's on the row or block decides, then its beginning, then tags in it;
# the words of known clients stand in `client_marks.toml`. In doubt it was not typed: a rule that is missed can be said
# again, and a false one stands as an order. What a person pasted, such as a log or a review, has no mark: it is typed.

_CLIENTS = tomllib.loads((files(__package__) / "client_marks.toml").read_text("utf-8"))
_REMINDER = frozenset({"systemreminder"})
_BESIDE = _REMINDER.union(_CLIENTS["attached"], _CLIENTS["beside"])
_ALONE = OURS.union(_CLIENTS["attached"], _CLIENTS["alone"])
_PATTERNS = {name: re.compile(pattern) for name, pattern in _CLIENTS["patterns"].items()}


def is_put_in(holder: Mapping[str, Any]) -> bool:
    """Return whether a host marks a row, or a block of it, as of a hook, a command, a skill or a summary: not typed."""
    noted, origin = holder.get("metadata"), holder.get("origin")
    flags = noted if isinstance(noted, dict) else {}
    return (
        1 in [each.get(mark) for each in (holder, flags) for mark in _CLIENTS["marks"]]  # or true
        or flags.get("source") in ("hook", "hooks")
        or "hook" in flags
        or flags.get("type") in ("context_summary", "compact_summary")
        or holder.get("name") == "system"
        or (isinstance(origin, dict) and origin.get("kind", "human") != "human")
        or isinstance(holder.get("parent_tool_use_id"), str)
    )


class Piece(NamedTuple):
    text: str
    typed: bool


def stand_between(texts: Sequence[str]) -> list[bool]:
    """Return which texts of a row stand whole between a host's tag that opens before and closes behind them."""
    tags = [sorted(find_tags(_as_tags(text), _BESIDE)) for text in texts]
    between = [False] * len(texts)
    for first, last in pairwise([at for at, found in enumerate(tags) if found]):
        if not tags[first][-1].closes and tags[last][0].closes:
            between[first + 1 : last] = [True] * (last - first - 1)
    return between


def split_pieces(text: str) -> list[Piece]:
    """Return a text in the order in which it stands, parted where its author changes; together the pieces are the text.

    A text that begins as a host's does is the host's, whole. A tag that is never closed reaches to the end, and one
    that was never opened from the beginning.
    """
    # Texts that are the host's from beginning to end.
    beginning = " ".join(folded(text[:400]).split())
    begins = (beginning, beginning.lstrip("*_#> "))  # with markup and without
    if (
        any(each.startswith(tuple(_CLIENTS["beginnings"])) or _PATTERNS["hook"].match(each) for each in begins)
        or beginning in _CLIENTS["whole"]
        or _PATTERNS["output"].match(text)
        or _PATTERNS["instructions"].match(text)
    ):
        return [Piece(text, typed=False)]

    # A command, or a request behind what an editor shows: its words alone are typed.
    first, last = 0, len(text)
    if command := _PATTERNS["command"].match(text):
        first, last = command.span("typed")
    elif beginning.startswith("# context from my ide setup:") and (request := _PATTERNS["request"].search(text)):
        first = request.end()
    spans = [(0, first)] if first else []
    spans += [(first + start, first + stop) for start, stop in _spans_of_tags(text[first:last])]
    spans += [(last, len(text))] if command else []

    pieces: list[Piece] = []
    done = 0
    for start, stop in spans:
        if not is_blank(text[done:start]):
            pieces.append(Piece(text[done:start], typed=True))
            done = start
        pieces.append(Piece(text[done:stop], typed=False))
        done = stop
    if not pieces or not is_blank(text[done:]):
        return [*pieces, Piece(text[done:], typed=True)]
    return [*pieces[:-1], Piece(pieces[-1].text + text[done:], typed=False)]


def _spans_of_tags(text: str) -> list[tuple[int, int]]:
    """Return where the words stand that a host put in between tags, from first to last."""
    read = _as_tags(text)
    beside = sorted(find_tags(read, _BESIDE))
    lines = set(find_tags(text, _ALONE, in_lines=True))

    # The outermost blocks, if each is opened and closed once, and several stand in lines of their own. Otherwise a text
    # that the host has put in may quote a tag, and its end is unknown.
    blocks = list[tuple[int, int]]()
    depth = start = 0
    for tag in beside if lines.issubset(beside) else ():
        start = start if depth else tag.start
        depth += -1 if tag.closes else 1
        if depth < 0:
            break
        if depth == 0:
            blocks.append((start, tag.stop))
    around = (text[:start].rpartition("\n")[2] + text[stop:].partition("\n")[0] for start, stop in blocks)
    if blocks and depth == 0 and (len(blocks) == 1 or not any(map(str.strip, around))):
        return blocks

    # Else from the first tag to the last.
    if not (tags := sorted({*lines, *find_tags(read, _REMINDER)})):
        return []
    start = 0 if tags[0].closes else tags[0].start
    is_typed = not is_blank(text[:start])
    return [(start, tags[-1].stop if is_typed and tags[-1].closes else len(text))]


def _as_tags(text: str) -> str:
    """Return a text as long, in which references of brackets are brackets, and a host's lines around files tags."""
    if "&" in text:
        bracket = r"(?i)&(?:(lt|#0*60|#x0*3c)|gt|#0*62|#x0*3e);"
        text = re.sub(bracket, lambda it: "<".ljust(len(it[0])) if it[1] else ">".rjust(len(it[0])), text)
    if "--- " in text:
        tag = "system-reminder"
        text = _PATTERNS["files"].sub(
            lambda it: (f"</{tag}" if it[1] or it[2] else f"<{tag}").ljust(len(it[0]) - 1) + ">", text
        )
    return text
