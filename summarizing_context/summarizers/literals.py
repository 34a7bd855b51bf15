"""The literals of a line that a model wrote: what is exact, and so is either copied or made up.

Pure. A literal is a path, an address, an id, a hash, a number with three digits or a unit, a date, a time, a quoted
string or a name of code. Whether the source holds it is for `grounds`.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from summarizing_context.core.entities import FILE, MAIL, URL
from summarizing_context.summarizers.days import Day, Time, find_days, find_times
from summarizing_context.summarizers.plain import plain
from summarizing_context.summarizers.quantities import Quantity, find_in_words, find_quantities
from summarizing_context.summarizers.spelled import DIGITS
from summarizing_context.summarizers.units import MANY, UNITS

Kind = Literal["address", "path", "id", "number", "day", "time", "quote", "name", "term", "pair", "choice", "setting"]
NotALiteral = Literal["word"]

_LABEL = re.compile(  # by which a summary calls itself: `Summary 17: ...`, `- part 3f2a9c1e of rank 0`
    r"\s*[-#+>]*\s*(?:summary|part|segment|rollup|note)\s+(?:of\s+)?(?P<name>#?[\w.-]+)(?=\s*(?::|$|of rank\b))"
)
_QUOTES = re.compile(
    r"\"(?P<double>[^\"\n]{2,600})\"(?!(?<=[ ]\")\w)|`{1,3}(?P<code>[^`\n]{1,600})`{1,3}|"
    r"(?<![\w'])'(?P<single>[^'\n]{3,300}(?:\w'\w[^'\n]{0,300}){0,8})'(?![\w'])"
)
_PATH_AND_LINE = re.compile(r"(?P<path>[\w@.~+/-]{0,200}[\w+-]\.[a-z]\w{0,9}):(?P<line>\d{1,7}(?:[:-]\d{1,7})?)(?!\w)")
_TOKEN = re.compile(r"[^\s()\[\]{}<>\"|;]+")
_FOLDERS = """
    src lib app apps test tests docs doc bin etc var usr opt tmp home root dev mnt pkg cmd internal config configs conf
    scripts packages core api server client utils tools data build dist node_modules assets public static services
    components modules examples migrations templates vendor
"""
_PRODUCTS = "node.js next.js vue.js react.js express.js nuxt.js three.js d3.js chart.js"
_PATTERN = re.compile(r"(?<=[\w/])\*{1,2}(?:/\*{1,2})?\.\w{1,9}(?!\w)")  # of names of files: `src/*.c` tells a folder
_ONE = rf"\d|{'|'.join(DIGITS)}"
_FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]{1,60}(?:=[\w./:-]{1,80})?")
_CALLED = re.compile(r"(?<![\w.])([a-z_][\w.]{1,80})\(\)")
_SPELLED_OUT = re.compile(rf"(?<![\w.,:/-])(?:{_ONE})(?:[ -](?:{_ONE})){{3,}}(?![\w:/-]|[.,]\d)")  # digit by digit
_VARIABLE = re.compile(r"(?<![\w$.-])([A-Z][A-Z0-9_]{2,})=([A-Za-z]\w*)(?![\w./:-])")  # `DEBUG=true`
_MARKS = re.compile(r"[-/_:]|\.{2,3}")
_CODE = re.compile(rf"\+?\d+(?:(?:{_MARKS.pattern})\d+)+z?\Z")  # an id of digits, or a range
_FEWEST_OF_CODE = 5  # digits; one less where they do not rise, for then it is no range
_NAMES = re.compile(r"[^\W\d_]{2,}(?:[-_][^\W\d_]+)*(?:\.[^\W\d_]{2,})*\.[^\W\d_]+\Z")  # cache.flush, example.org
_SHORT = "e.g i.e etc vs cf a.m p.m"
_HASH = re.compile(r"[0-9a-f]{7,64}\Z")
_PIECES = re.compile(r"[^a-z0-9]+")
_DOTTED = re.compile(  # addresses and versions, and no `1.234.567`
    r"(?!\d{1,3}(?:\.\d{3})+\Z)\d{1,9}(?:\.\d{1,9}){2,9}(?::\d{1,5})?\Z"
)
_MAJOR = re.compile(r"v\d{1,3}\Z")  # a version without dots
_RANK = re.compile(r"\d{1,2}(?:st|nd|rd|th)\Z")
_SPANS = re.compile(r"\d[\d,.]*(?:-[a-z]+)+\Z")  # 12-hour, 3-step
_MEASURED = re.compile(r"[\d,._]*\d(%|°[cf]?|[a-zµμ]{1,12})\Z")  # 200ms, 10k
_ALTERNATIVES = re.compile(r"[a-z-]{2,}(?:/[a-z-]{2,})+\Z")
_PLAIN = re.compile(r"[a-z'&-]+(?:/[a-z'&-]+)?\Z")
_CAMEL = re.compile(
    r"(?<![\w.-])(?:[a-z]+(?:[A-Z][a-z0-9]+){1,6}|(?:[A-Z][a-z0-9]+){1,6}(?:Error|Exception)|(?:[A-Z][a-z0-9]+){3,9})(?![\w-])"
)
_SHORTEST_CAMEL = 5
_BRANDS = "iphone ipad icloud ebay jquery"
_EDGES = " .,:;!?'~*_=<>≈≤≥→±^&%$€£°\\+-"


class Found(NamedTuple):
    """A literal in plain spelling, with its meaning where that can be told in several ways."""

    kind: Kind
    text: str
    meaning: Quantity | Day | Time | None = None


def find_literals(line: str) -> list[Found]:
    """The literals of one line. What has been read as one is blanked, so that no part of it is told again."""
    found: list[Found] = []
    text = _without_label(plain(_PATTERN.sub("", line) if "*" in line else line))
    text = text.replace("`", " ") if text.count("`") % 2 else text  # nobody can say which of them belong together
    stages = (_quotes, _addresses, _lines_of_files, _moments, _calls, _spelled_out, _tokens, _numbers_in_words)
    for stage in stages:
        text = stage(text, found)
    found += [Found("number", text[at.start : at.stop], at) for at in find_quantities(text) if at.is_literal]
    found += [Found("name", name[0].casefold()) for name in _CAMEL.finditer(line) if _is_telling(name[0])]
    found += [Found("setting", variable[0].casefold()) for variable in _VARIABLE.finditer(line)]
    return found


def _is_telling(camel: str) -> bool:
    return len(camel) >= _SHORTEST_CAMEL and camel.casefold() not in _BRANDS.split()


def _without_label(text: str) -> str:
    label = _LABEL.match(text)
    return text if label is None else text[: label.start("name")] + text[label.end("name") :]


def _quotes(text: str, found: list[Found]) -> str:
    """Quotes of several words are literals as they stand; what stands alone between marks is read on as a token."""

    def read(quote: re.Match[str]) -> str:
        inside = (quote["double"] or quote["code"] or quote["single"] or "").strip()
        if " " in inside:
            found.append(Found("quote", inside))
            return " "
        if inside.isalpha() and len(inside) > 3:
            found.append(Found("term", inside))
        if quote["code"] and _ALTERNATIVES.match(inside):
            found.append(Found("pair", inside))
        return f" {inside} "

    return _QUOTES.sub(read, text)


def _addresses(text: str, found: list[Found]) -> str:
    def read(address: re.Match[str]) -> str:
        found.append(Found("address", address[0].rstrip(_EDGES)))
        return " "

    return MAIL.sub(read, URL.sub(read, text))


def _lines_of_files(text: str, found: list[Found]) -> str:
    """`src/a.py:120` is a path, and a number."""
    return _PATH_AND_LINE.sub(lambda place: f"{place['path']} {place['line']}", text)


def _moments(text: str, found: list[Found]) -> str:
    for find in (find_days, find_times):
        moments: list[Day | Time] = list(find(text))
        for moment in moments:
            kind: Kind = "day" if isinstance(moment, Day) else "time"
            found.append(Found(kind, text[moment.start : moment.stop].strip(), moment))
            text = text[: moment.start] + " " * (moment.stop - moment.start) + text[moment.stop :]
    return text


def _calls(text: str, found: list[Found]) -> str:
    """Options, and functions as they are called."""

    def read(name: re.Match[str]) -> str:
        found.append(Found("name", name[name.lastindex or 0]))
        return " "

    return _CALLED.sub(read, _FLAG.sub(read, text))


def _spelled_out(text: str, found: list[Found]) -> str:
    """Digits one by one: `7 7 7 7`, `seven seven seven seven`."""

    def read(run: re.Match[str]) -> str:
        found.append(Found("id", " ".join(str(DIGITS.get(digit, digit)) for digit in re.split("[ -]", run[0]))))
        return " "

    return _SPELLED_OUT.sub(read, text)


def _numbers_in_words(text: str, found: list[Found]) -> str:
    numbers = (number for number in find_in_words(text) if number.is_literal)
    found += [Found("number", text[number.start : number.stop], number) for number in numbers]
    return text


def _tokens(text: str, found: list[Found]) -> str:
    """What is neither a word nor a number."""

    def read(token: re.Match[str]) -> str:
        bare = token[0].strip(_EDGES)
        if _DOTTED.match(bare):
            found.append(Found("id", bare))
            return " "
        if _is_code(bare):
            found.append(Found("id", bare.rstrip("z")))
            return " "
        if not any(map(str.isalpha, bare)) or (_PLAIN.match(bare) and "/" not in token[0] and not _HASH.match(bare)):
            return token[0]
        kind = _kind_of(bare, token[0])
        if kind is None:
            return token[0]
        if kind != "word":
            cut = "..." if kind == "id" and token[0].rstrip(",:;!?'").endswith("...") else ""
            found.append(Found(kind, bare + cut))
        return " " * len(token[0])

    return _TOKEN.sub(read, text)


def _kind_of(bare: str, token: str) -> Kind | NotALiteral | None:
    """What a token is; None where it is a number with something about it."""
    if "/" in token or "\\" in bare:
        return _kind_of_path(bare, token)
    if FILE.fullmatch(bare):
        return "word" if bare in _PRODUCTS.split() else "path"
    if _NAMES.match(bare) and bare not in _SHORT.split() and bare not in _PRODUCTS.split():
        return "name"
    digits = sum(map(str.isdigit, bare))
    if _HASH.match(bare) and (digits or len(bare) > 7):
        return "id"
    if not digits:
        return "name" if "_" in bare and len(bare) > 4 else "word"
    if _RANK.match(bare):
        return "word"
    if _MAJOR.match(bare):
        return "id"
    measured = _MEASURED.match(bare)
    if _SPANS.match(bare) or (measured and (measured[1] in UNITS or measured[1] in MANY)):
        return None
    return "id" if len(bare) > 3 else "word"


def _kind_of_path(bare: str, token: str) -> Kind | NotALiteral | None:
    parts = [part for part in re.split(r"[/\\]", bare) if part]
    if any(_HASH.match(piece) and not piece.isdigit() for piece in _PIECES.split(bare)):
        return "path"
    if not any(part[:1].isalpha() or part[:1] in "._@~" for part in parts):
        return None
    deep = (
        len(parts) > 2 or token.lstrip("'").startswith(("/", "./", "../", "~/")) or token.rstrip(".,:;").endswith("/")
    )
    if deep or parts[0] in _FOLDERS.split() or any("." in part or "_" in part for part in parts):
        return "path"
    if _ALTERNATIVES.match(bare):
        return "choice"
    return None if any(map(str.isdigit, bare)) else "word"


def _is_code(bare: str) -> bool:
    """Whether digits with marks between them are one value: `8841-22`, and neither `120-180` nor `118/120`."""
    if not _CODE.match(bare):
        return False
    parts = _MARKS.split(bare.lstrip("+").rstrip("z"))
    if len(parts) > 2 or bare[0] == "+":
        return True
    first, second = parts
    if ":" in bare and len(second) == 2:  # no time of day
        return True
    if "/" in bare or ":" in bare:
        return len(first) > 2 and len(second) < 3
    rises = int(first[:18]) < int(second[:18])
    is_range = rises and second[0] != "0" and len(second) - len(first) < 2
    return len(first) + len(second) >= (_FEWEST_OF_CODE if rises else _FEWEST_OF_CODE - 1) and not is_range
