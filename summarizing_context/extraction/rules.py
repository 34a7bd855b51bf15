"""Standing rules in what a human types: orders that hold from now on, quoted word for word; and instruction files
(CLAUDE.md and the like) that hosts put into rows of the conversation.

Pure, and made for precision: the word list `rule_cues.toml` says which sentences count. A wrong rule stands in every
view as an order; one that is missed can be said again. A later rule takes the place of an earlier one about the same:
with the same words, but for those before and behind that say how long and whether, or with another choice where one
only can hold (`rule_topics.toml`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Literal, NamedTuple
from unicodedata import normalize

from summarizing_context.messages.reading import Reading
from summarizing_context.messages.text import cleaned, shown, split_pieces

Strength = Literal["must", "prefer"]

_CUES = (files(__package__) / "rule_cues.toml").read_bytes()
_READING = 7  # another one whenever the same text would give other sentences
_LONG, _ENDS = 25, 3  # sentences of what is read whole, and at each end of what is longer
_MOST = 100_000  # characters at each end of what is longer still: one call over megabytes would hold all threads up
_NOT_SPEECH = re.compile(r"[ ]{4}|\t|\s*(?:[>|#<{}$=/\\+@]|[─-╿]|--|\d+[:|]|\d{4}-\d\d-\d\d[T ]\d|\w+\(|\[[^\]]*\]:)")
_ITEM = re.compile(r"\A\s*(?:[-*•・]|\d{1,2}[.)])\s+")
_END = re.compile(r"(?<=[.!?…؟])[\"'”’)*_`]{0,3}\s+(?=[\"'“‘(¿¡«*]{0,2}[^\W\d_])|(?<=[?؟])\s+|(?<=[。！？])[」』）)]?")
_MARKS = re.compile("[\u0300-\u036f\u0640\u064b-\u0655\u0670]|\\*\\*|__")  # accents, and those of Markdown
_OPEN = re.compile(r"[?？؟]|¿|\A(?!.*(?:\w\W+\w|[\u2e80-\uffff]{4}))")  # a question, or one word
_LOUD = re.compile(r"\W*[A-ZÀ-Ý][A-ZÀ-Ý\d '’/_-]+[:：]")


@dataclass(frozen=True, slots=True)
class Rule:
    """A standing rule of the human's."""

    quote: str  # verbatim, but for white space
    strength: Strength


def cue_rules(human_texts: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules in the texts that a human typed in one message, in order, each once: whole sentences that say by
    a cue that they last. Equal texts give equal rules for as long as `cues_version` stays the same."""
    found: dict[str, Strength] = {}
    for text in human_texts:
        said = _spoken(cleaned(text if len(text) <= 2 * _MOST else f"{text[:_MOST]}\n\n{text[-_MOST:]}"))
        is_long = len(said) > _LONG
        ends = [*said[:_ENDS], *said[-_ENDS:]] if is_long else said
        rules = {one: strength for one, headed in ends if (strength := rule_strength(one) or rule_strength(headed))}
        # a long text with others in its midst is a document
        if rules and not (is_long and any(rule_strength(one) for one, _ in said[_ENDS:-_ENDS])):
            found.update(rules)
    return tuple(Rule(quote, strength) for quote, strength in found.items())


@cache
def cues_version() -> str:
    """Name how rules are found; what is kept under another version is read again."""
    return f"cues-{_READING}-{sha256(_CUES).hexdigest()[:12]}"


def are_cues_compiled() -> bool:
    """Return whether rules are looked for at once; the first look in a process compiles the cues, which takes a tenth
    of a second."""
    return bool(_cues.cache_info().currsize)


def _spoken(text: str) -> list[tuple[str, str]]:
    """Return the whole sentences that a human says in a text, none of code, a log, a list or an article that was
    pasted; each also behind the line above its list that ends in a colon, if there is one."""
    cues, _ = _cues()
    parts = re.split(r"(?m)```+|^[ \t]*~~~+", text) if "```" in text or "~~~" in text else [text]
    if len(parts) % 2 == 0:  # the last one is left open: what stands behind its last empty line is said again
        parts[-1:] = ["", parts[-1].rpartition("\n\n")[2] if "\n\n" in parts[-1] else ""]
    lines = re.sub(r"(?m)^\$ \S.*(?:\n.+)*", "", "\n\n".join(parts[::2])).split("\n")
    if sum(_ITEM.match(line) is not None for line in lines) > 8:
        lines = ["" if _ITEM.match(line) else line for line in lines]

    # lines with those that go on with them, where a text was wrapped
    paragraphs: list[tuple[str, str]] = []  # each with its heading
    above = heading = ""  # the line before
    for line in lines:
        ends = len(above) < 50 or not (above[-1].isalnum() or above[-1] in ",-'’")
        above = "" if ends or not line.strip() or _ITEM.match(line) else above
        if line.strip() and not _NOT_SPEECH.match(line):
            speech = _ITEM.sub("", line, count=1).strip()
            if above:
                paragraphs[-1] = f"{paragraphs[-1][0]} {speech}", heading
            else:
                paragraphs.append((speech, heading := heading if _ITEM.match(line) else ""))
            above = speech
            heading = heading or (speech if speech.endswith((":", "：")) else "")
            if heading == speech and cues["pastes"].search(_folded(speech[:300])):
                break

    sentences: list[tuple[str, str]] = []
    for said, heading in paragraphs:
        start = 0
        for end in (*(found.span() for found in _END.finditer(said)), (len(said), len(said))):
            if end[1] == len(said) or not cues["abbreviations"].search(_folded(said[max(start, end[0] - 8) : end[0]])):
                one, start = shown(said[start : end[1]].strip()), end[1]
                sentences += [(one, f"{heading} {one}".strip())] if one else []
    return sentences


@lru_cache(maxsize=1_000)
def rule_strength(sentence: str) -> Strength | None:
    """Return how strong a rule a sentence is; None for one that is none."""
    if len(sentence) > 300 or _OPEN.search(sentence):
        return None
    cues, signs = _cues()
    plain = _folded(sentence).translate(signs).strip()
    strength: Strength = "prefer" if cues["prefers"].search(plain) else "must"
    label = cues["labels"].match(plain) or (cues["loud"].match(plain) if _LOUD.match(sentence) else None)
    if label and len(plain) - label.end() > (5 if plain.isascii() else 3):
        return None if cues["not_labelled"].match(plain, label.end()) else strength
    mark = cues["marks"].match(plain)
    if mark:
        plain = plain[mark.end() :]

    # an order, and a word that it lasts; what a clause tells of a thing is no part of it
    outright = cues["breaks"].sub("", plain)
    clauses = re.split(r"[,;:،؛–—(]\s*", outright)
    orders = [one for one in clauses if cues["verbs"].match(one) or cues["orders"].search(one)]
    is_rule = bool(mark and (orders or cues["binds"].search(outright)))
    is_rule |= bool(orders and (cues["lasts"].search(outright) or any(map(cues["always"].search, orders))))
    is_rule |= bool(cues["verbs"].match(plain)) and any(map(cues["always"].match, clauses))
    if not is_rule:
        is_scoped = cues["opens"].match(plain) or cues["scopes"].search(plain)
        is_rule = bool(cues["begins"].match(plain) or cues["holds"].search(plain) or is_scoped)
        if is_rule and (scope := cues["when"].search(plain)):
            is_rule = _stands_beside(plain, scope)
    if not is_rule or cues["not_begins"].match(plain) or cues["not_holds"].search(plain):
        return None
    return strength


def _stands_beside(plain: str, scope: re.Match[str]) -> bool:
    """Return whether an order stands beside words that say only when."""
    cues, _ = _cues()
    rest = cues["when"].sub(", ", plain).lstrip(" ,.:")
    if cues["begins"].match(rest) or cues["holds"].search(rest) or cues["duties"].search(plain):
        return True
    # before it, or behind it and what belongs to it
    before, behind = cues["leads"].sub("", plain[: scope.start()]), plain[scope.end() :]
    aside, comma, order = behind.partition(",")
    if before.strip(" ,.:-"):
        order = before
    elif not cues["goes_on"].search(scope[0]):  # `From now on, ...`
        order = behind
    elif not comma:
        return not cues["states"].search(aside)
    return not (order and cues["subjects"].match(cues["leads"].sub("", order.strip(" ,:،，"))))


def _folded(text: str) -> str:
    """Return a text in lower case with plain apostrophes, without accents."""
    return normalize("NFC", _MARKS.sub("", normalize("NFD", text.replace("’", "'").casefold())))


_NOTATION = re.compile(r"\{(?:not after |not |before |begin\}|end\})|\.{2,3}|\)\*|[^\w\s]")
_MEANING = {  # of the signs in the phrases of `rule_cues.toml`, which explains them
    "(": "(?:", ")": ")", ")*": ")*", "[": "(?:", "]": ")?", "|": "|", "#": r"\d", "~": r"\w", "*": r"\w*",
    "...": "[^,;:،؛。，；–—(]*?", "..": "[^,;:،؛。，；–—(]{0,8}?", "{begin}": r"\A", "{end}": r"[\W_]*\Z",
    "{not after ": "(?<!(?:", "{not ": "(?! ?(?:", "{before ": "(?= ?(?:", "}": "))",
}  # fmt: skip


def _pattern(phrase: str, words: Mapping[str, Sequence[str]]) -> str:
    """Return the pattern of a phrase of the word list, with the groups of words that its language names."""
    while named := re.search(r"<(\w+)>", phrase):
        phrase = phrase.replace(named[0], f"({'|'.join(words[named[1]])})")
    phrase = re.sub(r"(?<![\w)])\*(?!\w)", "~*", phrase)  # a word of its own has a letter
    return _NOTATION.sub(lambda sign: _MEANING.get(sign[0]) or re.escape(sign[0]), phrase)


@cache
def _cues() -> tuple[dict[str, re.Pattern[str]], dict[int, int]]:
    """Return a pattern for each list of the word list, and signs with those that stand for them."""
    languages = tomllib.loads(_folded(_CUES.decode()))
    signs = str.maketrans(*languages.pop("same_signs"))
    lists: dict[str, list[str]] = {}
    for language in languages.values():
        language.pop("examples")
        words = language.pop("words", {})
        for name, phrases in language.items():
            lists.setdefault(name, []).extend(_pattern(phrase, words) for phrase in phrases)
    lists["when"] = lists["scopes"] + lists["opens"]
    texts: dict[str, str] = {}
    for name, listed in lists.items():  # whole words, but for scripts that part none; an Arabic one with its prefix
        words = "|".join(one for one in listed if max(one) < "\u2e80")
        parted = "".join(f"|{one}" for one in listed if max(one) >= "\u2e80")
        texts[name] = rf"(?:(?<![\w-])[وف]?(?:{words})(?![\w'-]){parted})".translate(signs)
    # words that may stand in either of two lists are tried both ways: few in a row, so that there are few ways
    leads = rf"\A[\s\d,.*>→•–—【「（(\[-]*(?:{texts.pop('leads')}[\s,:.!،、，：]*){{0,5}}"
    label, colon = texts.pop("labels"), r" ?(?:#?\d+)?[\])】]? ?[:：–—】]\s*"
    about = rf"(?: {texts.pop('about')}[\w' -]{{1,40}})?"
    texts["labels"] = rf"(?:{texts.pop('kinds')} ?){{0,3}}[\u2e80-\uffff]{{0,6}}{label}{about}{colon}"
    texts["loud"] = rf"[^:：]{{0,40}}{label}[^:：]{{0,30}}[:：]\s*"
    texts["marks"] += colon.replace(":", ":!！")
    texts["verbs"] = rf"(?:(?:{texts['always']}|{texts['lasts']})[\s,،]+(?<!you )(?<!كل مرة )){{0,2}}{texts['verbs']}"
    texts["breaks"] += "[^,;:،؛]*"
    texts["abbreviations"] += r"\.\s*\Z|\.\.\s*\Z"
    at_begin = ("labels", "loud", "marks", "verbs", "opens", "begins", "not_begins")
    cues = {name: re.compile(leads + text if name in at_begin else text) for name, text in texts.items()}
    cues["leads"] = re.compile(leads)
    return cues, signs


class Topic(NamedTuple):
    """What a rule is about. Rules that share either are about the same."""

    order: str  # what is to be done, or not; empty where nothing is left of the rule
    choice: str  # the same without what was chosen, where that excludes all else


@lru_cache(maxsize=10_000)
def rule_topic(rule: str) -> Topic:
    """Return what a rule is about.

    "Always push to main." and "Never push to main!" share their order, "Always answer in French." and "From now on
    answer in German." their choice; "Never edit a.py." and "Never edit b.py." share neither.
    """
    framed, choices = _topic_words()
    order = " ".join(re.findall(r"(?<![\w'./:-])[\w'./:-]*\w", rule.replace("’", "'"))).casefold()
    found = framed.fullmatch(order)
    forbids, order = (found[1], found[2]) if found else (None, order)
    chosen = None if forbids else next(filter(None, (choice.fullmatch(order) for choice in choices)), None)
    return Topic(order, chosen[1] if chosen else "")


@cache
def _topic_words() -> tuple[re.Pattern[str], list[re.Pattern[str]]]:
    """Return a pattern for what may stand around an order, with what of it forbids and the order as its groups; and
    those of the choices, each with all but what was chosen as its group."""
    data = tomllib.loads((files(__package__) / "rule_topics.toml").read_text("utf-8"))

    def any_of(phrases: list[str]) -> str:
        return "|".join(map(re.escape, sorted(phrases, key=len, reverse=True)))

    frames, openings, denials = (any_of(data[name]) for name in ("frames", "openings", "denials"))
    number = r"v?\d[\d.]*"
    choices = (
        rf"(?=(?:{any_of(one['verbs'])})\b)(.*\b(?:{any_of(one['links'])})) (?:{any_of(one['words']) or number})"
        for one in data["choices"]
    )
    framed = rf"(?:(?:{frames}|{openings}|({denials}))(?: |\Z))*(.*?)(?: (?:{frames}))*"
    return re.compile(framed), [*map(re.compile, choices)]


# Instruction files. Only what no person typed is looked at, and only behind the marks that hosts write before a file. A
# result of a tool never holds one: it may quote anything.

_FILE_MARKS = re.compile(  # without any of these in its bytes a message holds no such file
    rb"Conte(?:nts of |xt from: )|AGENTS\.md instructions|Instructions from: |<(?:user_instructions>|context_file)"
    rb"|# (?:CLAUDE|AGENTS|GEMINI)\.md"
)

_NAMED = r"[^\n]{0,300}\b(?:CLAUDE|AGENTS|GEMINI)(?:\.local|\.override)?\.md"
_TOLD = r"\((?=[^\n)]{0,200}(?:instructions|memory))[^\n)]{0,200}\)"  # behind a path, what the file is
_HEADS = re.compile(
    r"^(?:"
    rf"Contents of (?:(?P<claude>[^\n]{{1,300}}?) {_TOLD}|(?P<nested>{_NAMED})):"
    r"|\# AGENTS\.md instructions(?: for (?P<folder>[^\n]{1,300}))?"
    r"|(?P<tag><user_instructions>)"
    r"|Instructions from: (?P<opencode>[^\n]{1,300})"
    r"|--- Context from: (?P<gemini>[^\n]{1,160}\.md) ---"
    r"|(?P<amplifier><context_file(?:[^\S\n][^\n>]{0,1000})?>)"
    r")[^\S\n]*(?:\n|\Z)",
    re.MULTILINE,
)

_PATH = re.compile(r"(?<![^\s\"',;→])[^\s\"',;→]{0,300}\b(?:CLAUDE|AGENTS|GEMINI)(?:\.local|\.override)?\.md\b")
_TITLE = re.compile(r"\s*#+ ((?:CLAUDE|AGENTS|GEMINI)\.md)[^\S\n]*(?:\n|\Z)")  # of a file that stands there bare
_FILE_END = re.compile(  # what hosts write behind the last file
    r"^(?:</(?:system-reminder|INSTRUCTIONS|user_instructions|context_file)>|--- End of Context from: "
    r"|[^\S\n]*# (?:currentDate|gitStatus|userEmail|important-instruction-reminders)[^\S\n]*$"
    r"|[^\S\n]*IMPORTANT: this context may or may not be relevant)",
    re.MULTILINE,
)


def may_hold_files(data: bytes) -> bool:
    """Return whether the bytes of a message, read a megabyte at a time, have any of the marks of such a file."""
    return any(_FILE_MARKS.search(data, at, at + 1_000_100) for at in range(0, len(data), 1_000_000))


def instruction_files(reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the instruction files in a message, in their order; none in what a person typed or a tool said. Each is its
    path, or its name where there is no path, and its text."""
    texts = list[str]()
    for part in reading.parts:
        for said in (text[:400_000] for text in part.texts if part.kind == "text"):
            is_host = part.put_in or not reading.human
            texts += [said] if is_host else [piece.text for piece in split_pieces(said) if not piece.typed]
    for text in texts:
        heads = list(_HEADS.finditer(text))
        if not heads and (title := _TITLE.match(text)):
            yield title[1], text.strip()
        for head, stop in zip(heads, [*(head.start() for head in heads[1:]), len(text)], strict=False):
            body = text[head.end() : stop]
            end = _FILE_END.search(body)
            body = (body[: end.start()] if end else body).strip()
            body = body.removeprefix("<INSTRUCTIONS>").strip()  # stands between Codex's heading and the file

            # its path; none for a file of Amplifier's context that holds no instructions
            named = head["claude"] or head["nested"] or head["opencode"] or head["gemini"] or "AGENTS.md"
            if amplifier := head["amplifier"]:
                title, paths = _TITLE.match(body), _PATH.findall(amplifier)
                named = paths[-1] if paths else title[1] if title else ""
            elif folder := head["folder"]:
                named = f"{folder.strip().rstrip('/')}/AGENTS.md"
            if body and named:
                yield named.strip(), body
