"""The exact values of a line that a model wrote: what is either copied or made up.

Pure. Text is compared in one normalised spelling.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from typing import Literal, NamedTuple

from summarizing_context.extraction.values import FILE, MAIL, URL
from summarizing_context.summarizers.verification.dates import Day, Time, find_days, find_times
from summarizing_context.summarizers.verification.quantities import DIGITS, Quantity, find_in_words, find_quantities
from summarizing_context.summarizers.verification.units import MANY, UNITS

_MARKS = {
    **dict.fromkeys("“”„‟«»「」『』《》″", '"'),
    **dict.fromkeys("‘’‚‛‹›ʼ′", "'"),
    **dict.fromkeys("‐‑‒–−", "-"),
    **dict.fromkeys("—―", " "),
    **dict.fromkeys("∕⁄⧸", "/"),
    **dict.fromkeys("∶꞉", ":"),
}

_INVISIBLE = (  # what is there, but not seen; so are combining marks on digits
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)

_UNSEEN = re.compile(rf"[{_INVISIBLE}]+|(?<=[\d\W_])[\u0300-\u036f\u20d0-\u20ff]+")

_MARK = re.compile(f"[{''.join(_MARKS)}]")

_POWERS = re.compile(r"(?<=\d)(?=[\u00b2\u00b3\u00b9\u2070-\u2079])")

_FRACTIONS = re.compile(r"(?<=\d) ?([¼½¾])")

_DECIMALS = {"¼": ".25", "½": ".5", "¾": ".75"}

_ESCAPES = re.compile(r"\\(?=[-_*#+!()\[\]{}>~|`])")  # of Markdown

_REFERENCES = re.compile(r"&#(?:x[0-9a-f]{1,6}|\d{1,7});", re.IGNORECASE)  # of HTML, to a character by its number

_OTHER_DIGITS = re.compile(r"(?![0-9])\d")

_THIN_SPACES = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))")

_JSON_ESCAPES = re.compile(r"\\([nrt\"\\/])")

COLOURS = re.compile(  # of a terminal
    r"(?:\x1b|(?<!\\)\\++(?:x1b|033|u001b|e)|\besc)?\[(\d{1,3}(?:;\d{1,3}){1,15}m)", re.IGNORECASE
)

_ESCAPE_CHARACTER = re.compile(r"(?<!\\)\\++(?:x1b|033|u001b)(?:\[\d{0,2}[a-z])?", re.IGNORECASE)

_SCIENTIFIC = re.compile(r"(?<![\w.-])\d(?:\.\d{1,6})?[eE](?:-0?\d|\+\d{1,2})(?!\w|\.\d)")

_WORDS = re.compile(r"[^\W_]+")


_STEPS: tuple[tuple[re.Pattern[str], Callable[[str], str]], ...] = (  # what calls for it, and what is done
    (re.compile(rf"[{_INVISIBLE}\u0300-\u036f\u20d0-\u20ff]"), lambda text: _UNSEEN.sub("", text)),
    (re.compile(r"[\u00a0\u2009\u202f]"), lambda text: _THIN_SPACES.sub(",", text)),
    (re.compile(r"[¼½¾]"), lambda text: _FRACTIONS.sub(_decimal, text)),
    (re.compile(r"[\u00b2\u00b3\u00b9\u2070-\u2079]"), lambda text: _POWERS.sub("^", text)),
)


def plain(text: str) -> str:
    """`text` on one line, in one case, with plain marks."""
    if "&#" in text:
        text = _REFERENCES.sub(lambda found: html.unescape(found[0]), text)
    if not text.isascii():
        odd = "".join(char for char in set(text) if char > "\x7f")  # few, and so each step is asked for first
        for needed, step in _STEPS:
            text = step(text) if needed.search(odd) else text
        text = unicodedata.normalize("NFKC", text.translate(_numerals(odd)))
        text = _MARK.sub(_mark, text)
        text = _OTHER_DIGITS.sub(_digit, text) if _OTHER_DIGITS.search(odd) else text
    if "\\" in text:
        text = _ESCAPES.sub("", text)
    if _SCIENTIFIC.search(text):
        text = _SCIENTIFIC.sub(_written_out, text)
    return " ".join(text.replace("*", "").casefold().split())


def unescaped(text: str) -> str:
    """`text` with the escapes of JSON strings taken back: arguments of calls are written down as JSON."""
    return _JSON_ESCAPES.sub(lambda found: "\n" if found[1] in "nrt" else found[1], text) if "\\" in text else text


def words_only(text: str) -> str:
    """The words and numbers of a plain text, one space before and after each."""
    return f" {' '.join(_WORDS.findall(text))} "


def _written_out(found: re.Match[str]) -> str:
    """`1.3e-4` as `0.00013`; what is smaller than anybody writes out stays as it is."""
    digits = f"{float(found[0]):.12f}".rstrip("0").rstrip(".")
    return digits if float(digits) == float(found[0]) else found[0]


def _mark(found: re.Match[str]) -> str:
    return _MARKS[found[0]]


def _decimal(found: re.Match[str]) -> str:
    return _DECIMALS[found[1]]


def _numerals(chars: str) -> dict[int, str]:
    """The digits of signs for whole numbers whose compatible form is none: `❼`, `⑺`, `Ⅶ`. Powers keep theirs."""
    known = {char: unicodedata.numeric(char, 0.5) for char in chars if unicodedata.category(char) in ("No", "Nl")}
    return {
        ord(char): str(int(value))
        for char, value in known.items()
        if value.is_integer() and not unicodedata.normalize("NFKC", char).isdecimal()
    }


def _digit(found: re.Match[str]) -> str:
    return str(unicodedata.decimal(found[0]))


Kind = Literal[
    "address",
    "path",
    "id",
    "number",
    "day",
    "time",
    "quote",
    "code",
    "pattern",
    "name",
    "term",
    "pair",
    "choice",
    "setting",
]

NotALiteral = Literal["word"]

_LABEL = re.compile(  # by which a summary calls itself: `Summary 17: ...`, `- part 3f2a9c1e of rank 0`
    r"\s*+(?:[-#+>]++\s*+)?(?:summary|part|segment|rollup|note)\s+(?:of\s+)?(?P<name>#?[\w.-]+)(?=\s*(?::|$|of rank\b))"
)

_QUOTES = re.compile(
    r"\"(?P<double>[^\"\n]{2,600})\"(?!(?<=[ ]\")\w)|`{1,3}(?P<code>[^`\n]{1,600})`{1,3}|"
    r"(?<![\w'])'(?P<single>[^'\n]{3,300}(?:\w'\w[^'\n]{0,300}){0,8})'(?![\w'])"
)

_LINES = r"\d{1,7}(?:[:-]\d{1,7})?(?:, ?\d{1,7}(?:-\d{1,7})?){0,40}(?![\w])"

_PATH_AND_LINES = re.compile(rf"(?P<path>[\w@.~+/-]{{0,200}}[\w+-]\.[a-z]\w{{0,9}}):(?P<lines>{_LINES})")

_LIST_OF_LINES = re.compile(rf"(?<=\blines ){_LINES}")

_TOKEN = re.compile(r"[^\s()\[\]{}<>\"|;]+")

_FOLDERS = """
    src lib app apps test tests docs doc bin etc var usr opt tmp home root dev mnt pkg cmd internal config configs conf
    scripts packages core api server client utils tools data build dist node_modules assets public static services
    components modules examples migrations templates vendor
"""

_PRODUCTS = "node.js next.js vue.js react.js express.js nuxt.js three.js d3.js chart.js"

LEFT_OPEN = r"\{[a-z][\w-]{0,40}\}|<[a-z][\w -]{0,40}>|\$\{?[a-z]\w{0,40}\}?|\[[a-z][\w-]{0,40}\]|(?<=/):[a-z]\w{0,40}"

_IS_OPEN = re.compile(rf"{LEFT_OPEN}|[*?]", re.IGNORECASE)

_PATTERN = re.compile(
    rf"(?<![\w*])(?:\*{{0,3}}https?://)?(?:[\w./@~+*-]|\?(?=\.\w)|{LEFT_OPEN}){{2,200}}", re.IGNORECASE
)

_GLOB = re.compile(r"`([\w./-]{1,200}\*[\w./*-]{0,200})`")

_EMPHASIS = re.compile(r"\A(\*{1,3})(?=[^*])(.+)(?<!/)\1\Z|\A\*+(?![./*])|(?<![/*])\*{2,}\Z")

_OPEN_ENDS = re.compile(  # nothing need stand for them
    rf"\A(?:(?:{LEFT_OPEN})(?=/)|\*+/)+|(?<=/)(?:{LEFT_OPEN}|\*+)(?:/(?:{LEFT_OPEN}|\*+))*/?\Z", re.IGNORECASE
)

_GAP = " ... "

_FILE_NAMES = re.compile(r"[\w.-]*\*[\w.*-]*\.[a-z]\w{0,8}\Z", re.IGNORECASE)  # `*.py`, `test_*.py`

_ONE = rf"\d|{'|'.join(DIGITS)}"

_FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]{1,60}(?:=[\w./:-]{1,80})?")

_CALLED = re.compile(r"(?<![\w.])([a-z_][\w.]{1,80})\(\)")

_SPELLED_OUT = re.compile(rf"(?<![\w.,:/-])(?:{_ONE})(?:[ -](?:{_ONE})){{3,}}(?![\w:/-]|[.,]\d)")  # digit by digit

_VARIABLE = re.compile(r"(?<![\w$.-])([A-Z][A-Z0-9_]{2,})=([A-Za-z]\w*)(?![\w./:-])")  # `DEBUG=true`

_JOINTS = re.compile(r"[-/_:]|\.{2,3}")

_CODE = re.compile(rf"\+?\d+(?:(?:{_JOINTS.pattern})\d+)+z?\Z")  # an id of digits, or a range

_FEWEST_OF_CODE = 5  # digits; one less where they do not rise, for then it is no range

_NAMES = re.compile(r"[^\W\d_]{2,}(?:[-_][^\W\d_]+)*(?:\.[^\W\d_]{2,})*\.[^\W\d_]+\Z")  # cache.flush, example.org

_SHORT = "e.g i.e etc vs cf a.m p.m"

_HASH = re.compile(r"[0-9a-f]{7,64}\Z")

_PIECES = re.compile(r"[^a-z0-9]+")

_DOTTED = re.compile(  # addresses and versions, and no `1.234.567`
    r"(?!\d{1,3}(?:\.\d{3})+\Z)\d{1,9}(?:\.\d{1,9}){2,9}(?::\d{1,5})?\Z"
)

_MAJOR = re.compile(r"v\d{1,3}\Z")  # a version without dots

_SERIES = re.compile(r"v?\d{1,5}(?:\.\d{1,5})*\.[x*]\Z")  # of versions: `4.40.x`

_RANK = re.compile(r"\d{1,2}(?:st|nd|rd|th)\Z")

_SPANS = re.compile(r"\d[\d,.]*(?:-[a-z]+)+\Z")  # 12-hour, 3-step

_MEASURED = re.compile(r"[\d,._]*\d(%|°[cf]?|[a-zµμ]{1,12})\Z")  # 200ms, 10k

_ALTERNATIVES = re.compile(r"[a-z-]{2,}(?:/[a-z-]{2,}){1,11}\Z")

_PLAIN = re.compile(r"[a-z\u03bc'&-]+(?:/[a-z'&-]+)?\Z")

_CAMEL = re.compile(
    r"(?<![\w.-])(?:[a-z]+(?:[A-Z][a-z0-9]+){1,6}|(?:[A-Z][a-z0-9]+){1,6}(?:Error|Exception)|(?:[A-Z][a-z0-9]+){3,9})(?![\w-])"
)

_SHORTEST_CAMEL = 5

_BRANDS = "iphone ipad icloud ebay jquery"

_EDGES = " .,:;!?'~*_=<>≈≤≥→±^&%$€£°\\+-"


class ExactValue(NamedTuple):
    """A literal in plain spelling, with its meaning where that can be told in several ways."""

    kind: Kind
    text: str
    meaning: Quantity | Day | Time | None = None


def find_literals(line: str) -> list[ExactValue]:
    """The literals of one line. What has been read as one is blanked, so that no part of it is told again."""
    found: list[ExactValue] = []
    line = _without_patterns(line, found) if _IS_OPEN.search(line) else line
    text = _without_label(plain(line))
    text = text.replace("`", " ") if text.count("`") % 2 else text  # nobody can say which of them belong together
    stages = (_quotes, _addresses, _lines_of_files, _moments, _calls, _spelled_out, _tokens, _numbers_in_words)
    for stage in (_escapes, *stages):
        text = stage(text, found)
    found += [ExactValue("number", text[at.start : at.stop], at) for at in find_quantities(text) if at.is_literal]
    found += [ExactValue("name", name[0].casefold()) for name in _CAMEL.finditer(line) if _is_distinctive(name[0])]
    found += [ExactValue("setting", variable[0].casefold()) for variable in _VARIABLE.finditer(line)]
    return found


def _without_patterns(line: str, found: list[ExactValue]) -> str:
    """A line without the paths and names that leave a part open. Of one that leaves its ends open the rest stays."""

    def read(glob: re.Match[str]) -> str:
        found.append(ExactValue("pattern", glob[1].casefold()))
        return _GAP

    def read_path(pattern: re.Match[str]) -> str:
        text = _EMPHASIS.sub(lambda mark: mark[2] or "", pattern[0].rstrip("."))
        if not _IS_OPEN.search(text) or not ("/" in text or _FILE_NAMES.match(text)):
            return pattern[0]
        text = _OPEN_ENDS.sub("", text)
        if not _IS_OPEN.search(text) or not any(map(str.isalpha, text)):
            return f" {text} "
        found.append(ExactValue("pattern", text.casefold()))
        return _GAP

    return _PATTERN.sub(read_path, _GLOB.sub(read, line))


def _is_distinctive(camel: str) -> bool:
    return len(camel) >= _SHORTEST_CAMEL and camel.casefold() not in _BRANDS.split()


def _without_label(text: str) -> str:
    label = _LABEL.match(text)
    return text if label is None else text[: label.start("name")] + text[label.end("name") :]


def _escapes(text: str, found: list[ExactValue]) -> str:
    """The character ESC however it is written, and the colours that it sets."""

    def read(colours: re.Match[str]) -> str:
        found.append(ExactValue("id", colours[1]))
        return " "

    return _ESCAPE_CHARACTER.sub(" ", COLOURS.sub(read, text)) if "[" in text or "\\" in text else text


def _quotes(text: str, found: list[ExactValue]) -> str:
    """Quotes of several words are literals as they stand; what stands alone between marks is read on as a token."""

    def read(quote: re.Match[str]) -> str:
        inside = (quote["double"] or quote["code"] or quote["single"] or "").strip()
        if " " in inside:
            found.append(ExactValue("code" if quote["code"] else "quote", inside))
            return " "
        if inside.isalpha() and len(inside) > 3:
            found.append(ExactValue("term", inside))
        if _ALTERNATIVES.match(inside):
            found.append(ExactValue("pair", inside))
        return f" {inside} "

    return _QUOTES.sub(read, text)


def _addresses(text: str, found: list[ExactValue]) -> str:
    def read(address: re.Match[str]) -> str:
        found.append(ExactValue("address", address[0].rstrip(_EDGES)))
        return " "

    return MAIL.sub(read, URL.sub(read, text))


def _lines_of_files(text: str, found: list[ExactValue]) -> str:
    """`src/a.py:120,300` is a path, and two numbers."""
    text = _PATH_AND_LINES.sub(lambda place: f"{place['path']} {place['lines'].replace(',', ' , ')}", text)
    return _LIST_OF_LINES.sub(lambda lines: lines[0].replace(",", " , "), text)


def _moments(text: str, found: list[ExactValue]) -> str:
    for find in (find_days, find_times):
        moments: list[Day | Time] = list(find(text))
        for moment in moments:
            kind: Kind = "day" if isinstance(moment, Day) else "time"
            found.append(ExactValue(kind, text[moment.start : moment.stop].strip(), moment))
            text = text[: moment.start] + " " * (moment.stop - moment.start) + text[moment.stop :]
    return text


def _calls(text: str, found: list[ExactValue]) -> str:
    """Options, and functions as they are called."""

    def read(name: re.Match[str]) -> str:
        found.append(ExactValue("name", name[name.lastindex or 0]))
        return " "

    return _CALLED.sub(read, _FLAG.sub(read, text))


def _spelled_out(text: str, found: list[ExactValue]) -> str:
    """Digits one by one: `7 7 7 7`, `seven seven seven seven`."""

    def read(run: re.Match[str]) -> str:
        found.append(ExactValue("id", " ".join(str(DIGITS.get(digit, digit)) for digit in re.split("[ -]", run[0]))))
        return " "

    return _SPELLED_OUT.sub(read, text)


def _numbers_in_words(text: str, found: list[ExactValue]) -> str:
    numbers = (number for number in find_in_words(text) if number.is_literal)
    found += [ExactValue("number", text[number.start : number.stop], number) for number in numbers]
    return text


def _tokens(text: str, found: list[ExactValue]) -> str:
    """What is neither a word nor a number."""

    def read(token: re.Match[str]) -> str:
        bare = token[0].strip(_EDGES)
        if _DOTTED.match(bare):
            found.append(ExactValue("id", bare))
            return " "
        if _is_code(bare):
            found.append(ExactValue("id", bare.rstrip("z")))
            return " "
        if not any(map(str.isalpha, bare)) or (_PLAIN.match(bare) and "/" not in token[0] and not _HASH.match(bare)):
            return token[0]
        kind = _kind_of(bare, token[0])
        if kind is None:
            return token[0]
        if kind != "word":
            cut = "..." if kind == "id" and token[0].rstrip(",:;!?'").endswith("...") else ""
            found.append(ExactValue(kind, bare + cut))
        return " " * len(token[0])

    return _TOKEN.sub(read, text)


def _kind_of(bare: str, token: str) -> Kind | NotALiteral | None:
    """What a token is; None where it is a number with something about it."""
    if "/" in token or "\\" in bare:
        return _kind_of_path(bare, token)
    if _SERIES.match(bare):
        return "id"
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
    rooted = token.lstrip("'").startswith(("/", "./", "../", "~/")) or token.rstrip(".,:;").endswith("/")
    if not rooted and parts[0] not in _FOLDERS.split() and _ALTERNATIVES.match(bare):
        return "choice"
    if rooted or len(parts) > 2 or parts[0] in _FOLDERS.split() or any("." in part or "_" in part for part in parts):
        return "path"
    return None if any(map(str.isdigit, bare)) else "word"


def _is_code(bare: str) -> bool:
    """Whether digits with marks between them are one value: `8841-22`, and neither `120-180` nor `118/120`."""
    if not _CODE.match(bare):
        return False
    parts = _JOINTS.split(bare.lstrip("+").rstrip("z"))
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
