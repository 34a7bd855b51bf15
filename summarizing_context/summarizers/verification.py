"""Verification: whether a model's reply can serve as a summary, and if not, why; and what of it its source bears out.

Pure. A summary states no exact value that its source does not hold: what is copied or made up, such as a path, address,
id, hash, version, name of code, quote, setting, day, time, or number. It is held if it stands in the source, or if its
parts do. A clause with another one is left out; a reply of which too little is left is worth a second call.

A memory is kept only where the record says the same. Its quote has to stand, word for word, in the message that it
names. What a memory says is the sentence around it, so that no half of one turns its meaning, and a question says
nothing. What a model says of itself is only what the sentence is about.
"""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from importlib.resources import files
from typing import Any, NamedTuple

from summarizing_context.errors import SummarizerRefused
from summarizing_context.messages.text import folded, stems
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.extractive import escape_labels

_TABLE = tomllib.loads((files(__package__) / "replies.toml").read_text("utf-8"))
_PATTERNS = {name: re.compile(pattern, re.VERBOSE) for name, pattern in _TABLE.items()}


class Refusal(StrEnum):
    """Why a reply cannot serve. Constants, so that no text of a message or reply gets into an error."""

    NOT_TEXT = "the reply is neither text nor a SummaryReply with text"
    TOO_LARGE = "the reply is too large"
    CUT_OFF = "the reply was cut off by the length limit"
    EMPTY = "the reply is empty"
    ERROR_TEXT = "the reply is a provider's error text"
    DECLINED = "the model declined to summarize"
    ECHO = "the reply repeats what it was given"
    OVER_CAP = "the reply is more than half longer than the cap that its request states"
    OVER_PART = "the reply is too large a part of its source"
    UNSUPPORTED = "the reply holds literals that its source does not"
    NO_ITEMS = "the reply lists no memories in the form that was asked for"


def check_reply(reply: object, job: SummaryJob) -> SummaryReply:
    """Return the reply, cleaned, with no orders of the user's in it, or raise `SummarizerRefused` with a `Refusal`."""
    said = plain_reply(reply)
    if not isinstance(reply.text if isinstance(reply, SummaryReply) else reply, str):
        raise SummarizerRefused(Refusal.NOT_TEXT)
    if len(said.text) > 200_000:
        raise SummarizerRefused(Refusal.TOO_LARGE)
    if job.kind in ("memory", "rules"):  # each of their lines is judged by itself, whatever else stands there
        if _is_error_text(said.text) and not (job.kind == "memory" and '"quote"' in said.text):  # has a `message` too
            raise SummarizerRefused(Refusal.ERROR_TEXT)
        is_cut = said.truncated and job.kind == "rules"
        text = clean_reply(said.text.rpartition("\n")[0] if is_cut else said.text)
        text = read_items(text, job.content) if job.kind == "memory" else text
        return replace(said, text=text, truncated=is_cut)
    if said.truncated:
        raise SummarizerRefused(Refusal.CUT_OFF)

    # what is worst of what is wrong with its words or its size
    text = clean_reply(said.text)
    tokens, source = estimate_text(text), job.source_tokens
    given = (text, job.content, job.instructions, job.prompt)
    flat, content, instructions, prompt = (" ".join(part.split()) for part in given)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    copied = sum(map(set(map(str.strip, job.content.split("\n"))).__contains__, lines))
    checks = {
        Refusal.EMPTY: not any(map(str.isalnum, text)),
        Refusal.ERROR_TEXT: _is_error_text(text),
        Refusal.DECLINED: len(text) <= _SHORT and _PATTERNS["declined"].match(_plain(text)),
        Refusal.ECHO: flat in (content, prompt)
        or (len(content) >= 200 and content in flat)
        or (len(flat) >= 40 and flat[:200] in instructions)
        or (job.max_tokens < tokens and (flat in content or copied > 0.8 * len(lines))),
        Refusal.OVER_CAP: tokens > int(1.5 * job.max_tokens),  # a model cannot count
        # of fewer than 200 tokens a summary may be as long as its source; a merge of few is asked for three quarters
        Refusal.OVER_PART: job.rank < 2 and source > 200 and tokens > (0.8 if job.kind == "rollup" else 0.5) * source,
    }
    for refusal, holds in checks.items():
        if holds:
            raise SummarizerRefused(refusal)

    # what begins with a record's label would be read as one; what the user demands stands in the block of rules alone,
    # so a heading of rules, however it is marked and spelled, is one of facts
    lines = [
        "## Facts" if _PATTERNS["orders"].search(plain := folded(line)) and _PATTERNS["heading"].match(plain) else line
        for line in text.splitlines()
    ]
    return replace(said, text=escape_labels("\n".join(lines)).strip())


def plain_reply(reply: object) -> SummaryReply:
    """Return what came as a reply: its text, if it has any, and its usage as far as that can be true."""
    if not isinstance(reply, SummaryReply):
        return SummaryReply(reply if isinstance(reply, str) else "")
    figures = (reply.input_tokens, reply.output_tokens, reply.cached_tokens)
    used, made, cached = (tokens if type(tokens) is int and 0 < tokens <= 10_000_000 else None for tokens in figures)
    cached = cached if cached and used and cached <= used else None
    text = reply.text if isinstance(reply.text, str) else ""
    return SummaryReply(text, used, made, truncated=bool(reply.truncated), cached_tokens=cached)


def clean_reply(text: str) -> str:
    """Return the reply without what is no part of the summary; empty when nothing else was there."""
    said, find_answer = readable(text), _PATTERNS["answer"].search
    text = _trimmed(without_reasoning(said))
    if not text and (answer := find_answer(said)) and answer["closed"]:  # behind reasoning that was left open
        text = _trimmed(without_reasoning(answer["closed"]))
    elif (answer := find_answer(text)) and "## " not in text[: answer.start()]:
        text = _trimmed(answer["closed"] or answer["open"] or "")
    for _ in range(4):  # a fence may hold a preamble, and a preamble may stand before a fence
        text = _trimmed(re.sub(r"\A<\|\w{1,30}\|>|<\|\w{1,30}\|>\Z", "", text))  # a token of a chat template
        if fence := re.fullmatch(r"(`{3,}|~{3,})[ \t]*+[\w+-]*+[ \t]*+\n(.*)\n\1\s*", text, re.DOTALL):
            text = fence[2]
        if preamble := _PATTERNS["preamble"].match(f"{text}\n"):  # one that is the whole reply leaves nothing
            text = text[preamble.end() :].strip()
    return _trimmed(text)


def without_reasoning(text: str) -> str:
    """Return the reply without its model's reasoning: what stands behind a tag that opens, and before one that closes.
    Of channels the final one is the reply."""
    kept, opened = list[str](), ""  # the kind of the last tag, if that opens
    start = 0
    for tag in _PATTERNS["reasoning"].finditer(text):
        before = text[max(0, tag.start() - 300) : tag.start()].rpartition("\n")[2]
        behind = text[tag.end() : tag.end() + 200].partition("\n")[0]
        kind = "fence" if tag[0][0] in "`~" else "details" if "details" in tag[0].lower() else "tag"
        word = (tag["channel"] or tag["stripped"] or "").lower()
        closes = tag["end"] or tag["late"] or tag["block"] or word == "final"
        is_named = _PATTERNS["named"].search(f"{before[-2:]}\0{behind}")
        is_code = before.count("`") % 2 == 1 and "`" in behind
        is_type = tag["name"] and not closes and before[-1:].isalnum()
        if is_named or is_code or is_type or (tag["block"] and kind != opened):
            continue
        kept += [] if opened or closes else [text[start : tag.start()]]
        opened, start = "" if closes else kind, tag.end()
    return "".join(kept if opened else [*kept, text[start:]])


def readable(text: str) -> str:
    """Return text without NULs; halves of a surrogate pair are joined, lone ones become U+FFFD."""
    return text.replace("\x00", "").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _trimmed(text: str) -> str:
    return text.strip().strip("\ufeff\u200b").strip()


_SHORT = 400  # characters; a longer reply is no error text and no excuse


def _is_error_text(text: str) -> bool:
    """Say whether a provider, or a proxy before it, answered in the model's place."""
    is_page = re.match(r"<(?:!doctype\s+html|html[\s>]|\?xml\s)", text, re.IGNORECASE) is not None
    is_list = re.search(r"^[^\S\n]*(?:#{1,6}|[-*\u2022])\s+\S", text, re.MULTILINE)  # or has a heading
    said = re.sub(r"\A[^\w{]+", "", _plain(text))  # behind a bracket, stars or a sign
    return is_page or (len(text) <= _SHORT and not is_list and _PATTERNS["error"].match(said) is not None)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().replace("\u2019", "'")


GROUNDING_VERSION = "1"  # another one when summaries that it let through must not stand
_FEWEST_WORDS = 4  # of a line, and of a summary
_HEADING = r"^[^\S\n]*(?:#{1,6} .*|(?:\*\*|__)[^*_\n]{1,80}(?:\*\*|__):?[^\S\n]*)$"
_WORDS = re.compile(r"[^\W_]+")


class Verified(NamedTuple):
    """A summary without the lines and clauses that hold values which its source does not hold."""

    text: str  # empty where nothing worth keeping is left
    dropped_lines: int  # and clauses
    unsupported: tuple[str, ...]  # these values, each once, in order
    is_enough: bool  # two thirds of its words are left: another reply is not worth reading the source once more


def verify(reply: str, job: SummaryJob) -> Verified:
    """Return a model's summary as far as what it was given bears it out."""
    given = (job.range_hash, job.start, job.stop, job.stop - 1, job.stop - job.start)
    source = _Source(f"{job.context}\n{job.content}\n{' '.join(map(str, given))}")
    lines: list[str] = []
    bad: dict[str, None] = {}
    dropped = 0
    for line in reply.split("\n"):
        if not (found := source.lacks(line)):
            lines.append(line)
            continue
        # of sentences and what semicolons part, those that hold no such value
        bad |= dict.fromkeys(found)
        start = lead.end() if (lead := re.match(r"\s*(?:(?:[-*+•>]|\d{1,3}[.)])\s+)*", line)) else 0  # of a list's item
        clauses = re.split(r"(?<=[.!?;])\s+(?=\S)", line[start:])
        kept = [clause for clause in clauses if not source.lacks(clause)]
        rest = line[:start] + " ".join(kept).removesuffix(";")
        is_kept = len(clauses) > 1 and len(_WORDS.findall(rest)) >= _FEWEST_WORDS and not source.lacks(rest)
        lines += [rest] if is_kept else []
        dropped += len(clauses) - (len(kept) if is_kept else 0)
    if not bad:
        return Verified(reply, 0, (), is_enough=True)
    empty = rf"{_HEADING}\n?(?=\s*(?:{_HEADING}|\Z))"  # a section in which nothing is left
    text = re.sub(empty, "", "\n".join(lines), flags=re.MULTILINE).strip()
    words = len(_WORDS.findall(re.sub(_HEADING, "", text, flags=re.MULTILINE)))
    text = text if words >= _FEWEST_WORDS else ""
    is_enough = len(_WORDS.findall(text)) >= 2 / 3 * len(_WORDS.findall(reply)) > 0
    return Verified(text, dropped, tuple(bad), is_enough)


_MARKS = str.maketrans(
    "“”„‟«»「」『』″‘’‚‛′‐‑‒–−—―∕⁄⧸", '"""""""""""\'\'\'\'\'-----  ///', "*\u00ad\u200b\u200c\u200d\u2060\ufeff"
)
_WINDOWS_PATH = re.compile(r"\b[A-Za-z]:\\[^\s\"'`<>|*?]+")  # whose `\n` and `\t` are no escapes
_FOREIGN = r"[^\W\d_\u0000-\u03ff\u1e00-\u1fff]"  # scripts that put no space next to digits, paths and Latin words
_EDGE_OF_SCRIPTS = re.compile(
    rf"(?<={_FOREIGN})(?=(?:[~.]*/)?[a-zA-Z0-9])|(?<=[a-zA-Z0-9])(?={_FOREIGN})"
    rf"|(?<=[a-zA-Z0-9]/)(?={_FOREIGN}++(?![._/-]+\w))"  # the folder's name has ended
)


def _readable(text: str) -> str:
    """Return what a reply or its source says in one way of writing: plain marks and digits."""
    text = unicodedata.normalize("NFKC", text.translate(_MARKS)).translate(_MARKS)
    text = _WINDOWS_PATH.sub(lambda path: re.sub(r"\\+", "/", path[0]), text)
    if text.isascii():
        return text
    return _EDGE_OF_SCRIPTS.sub(" ", re.sub(r"\d", lambda digit: str(int(digit[0])), text))


def _unescaped(text: str) -> str:
    """Return text without the escapes of JSON strings, as which arguments are written, and of patterns; other
    backslashes are slashes."""
    text = re.sub(r"(?<!\\)\\++([nrt]|[^\w\s])", lambda found: "\n" if found[1] in "nrt" else found[1], text)
    return re.sub(r"\\+", "/", text)


_SPANS = re.compile(r'`([^`\n]*)`|"([^"\n]*)"')
_NUMBER = r"\d+(?:[.,'_]\d+)*"
_WITH_UNIT = re.compile(
    rf"(?<![\w.,':-]){_NUMBER}"
    r"(?: ?[%°€]| (?:[nµμm]?s|sec(?:ond)?s?|min(?:ute)?s?|h(?:ou)?rs?|[kmg]i?b|bytes?|percent|prozent)\b)",
    re.IGNORECASE,
)
_ROUNDED = re.compile(rf"(?<![\w.])(?!\d+\.\d\d?\.){_NUMBER}")  # what may be rounded: no version
_AMOUNT = re.compile(rf"[$€£]?({_NUMBER}) ?([a-zµμ%°]{{0,8}})(?:-[^\W\d_]+)*\Z")  # also 3-step
_HOLE = re.compile(r"<[\w -]{1,40}>|\$?\{[\w -]{1,40}\}|\$\w+|(?<=/):\w+|\.{3}|…")  # what a command or path leaves open
_JOINTS = re.compile(r"[/:=,|()\[\]{}<>\"';&+]+|\.\.+|-(?=[a-z]*\d)|(?<=\d)-(?=[a-z])|\s+")
_EDGES = " .,:;!?'\"~_=<>(){}[]|&^%$€£+-/\\"
_MEMBER = re.compile(r"\w+(?:\.\w+)*\.(?:\w{6,}|[A-Z]\w+|\w+\(\))")  # what ends in a short word is a file's name


class _Source:
    """What a summary was made of, ready to be asked for the values of its lines."""

    def __init__(self, text: str) -> None:
        self._text = " ".join(_unescaped(_readable(text)).replace("`", "").casefold().split())
        self._words = " ".join(_WORDS.findall(self._text))
        runs = {run for number in re.findall(_NUMBER, self._text) for run in (number, *re.split(r"\D", number))}
        self._numbers = {re.sub(r"\D", "", run) for run in runs}  # the digits of each, and of each of its parts

    def lacks(self, line: str) -> list[str]:
        """Return the exact values of a line of a summary that the source does not hold."""
        text = _readable(line)
        for mark in '`"':  # of an odd number it cannot be said which belong together
            text = text.replace(mark, " ") if text.count(mark) % 2 else text
        lacking: list[str] = []
        for code, quote in _SPANS.findall(text):
            inside = _unescaped(code or quote).strip()
            if quote and " " in inside:  # word for word, but for gaps
                parts = re.split(r"\.{3}|…", inside)
                is_held = all(len(_WORDS.findall(part)) < 2 or self._stands(part) for part in parts)
            else:
                said = " ".join(inside.casefold().split()).strip(_EDGES)
                is_held = len(said) < 3 or self._stands(said) or self._stands(re.sub(r"\\+", "/", code or quote))
                is_held = is_held or all(map(self._has_value, _HOLE.sub(" ", inside).split()))
            lacking += [] if is_held else [inside]
        text = _SPANS.sub(" ; ", text)  # what has been read is blanked
        lacking += [amount for amount in _WITH_UNIT.findall(text) if not self._has_value(amount)]
        for value in _PATTERNS["value"].findall(_WITH_UNIT.sub(" ", text)):
            words = value.casefold().rstrip(_EDGES).split("/")  # a choice of words, as in read/write, is no path
            is_choice = 1 < len(words) < 5 and all(word.replace("-", "").isalpha() for word in words)
            is_held = (is_choice and f"{words[0]}/" not in self._text) or self._has_value(value)
            lacking += [] if is_held else [value]
        return lacking

    def _stands(self, text: str) -> bool:
        """Say whether words stand there one after the other, whatever is between them."""
        said = " ".join(_WORDS.findall(text.casefold()))  # nothing of marks alone, such as ####
        is_there = said in self._words and re.search(rf"(?<![a-z0-9])(?:v(?=\d))?{said}(?![a-z0-9])", self._words)
        return not said or bool(is_there)

    def _has_value(self, value: str) -> bool:
        """Say whether one value stands there: as it is, in another way of writing, or part by part."""
        text = re.sub(r"\Av(?=\d)", "", _unescaped(value).casefold().strip(_EDGES))
        amount = _AMOUNT.match(value.casefold().strip(" .,:;!?'\"()"))
        has_unit = bool(amount and (amount[2] or value[0] in "$€£"))
        if amount and (len(text) > 3 or len(amount[1]) > 2 or (has_unit and amount[1][1:])):
            return self._has_amount(amount[1], has_unit)
        if len(text) < 4 or self._stands(text) or (re.fullmatch(r"[0-9a-f]{7,64}", text) and text in self._text):
            return True
        day, time = re.match(r"(\d{4}-)\d\d-\d\d", text), re.search(r"(?<![\d:])(\d\d?)(:\d\d(?::\d\d)?)", text)
        if (day and day[0] not in self._text and day[1] in self._text) or re.fullmatch(r"\d[\d.]*e[+-]?\d+", text):
            return False  # a source that writes days of this year so has another one; 3e-4 is not 3e-5
        if time:  # of the two halves of a day either will do
            return any(f"{int(time[1]) + half}{time[2]}" in self._text for half in (0, 12, -12))
        if _MEMBER.fullmatch(value.strip(" .,:;!?'\"")):
            return all(map(self._stands, text.split(".")))
        parts = [part.strip(_EDGES) for part in _JOINTS.split(text)]
        return len(parts) > 1 and all(
            len(part) < 2 or self._stands(part) or (part.isdigit() and (len(part) < 3 or part in self._numbers))
            for part in parts
        )

    def _has_amount(self, number: str, has_unit: bool) -> bool:
        """Say whether a number stands there, or one that it rounds, or gives in a unit ten, a hundred ... times as
        large."""
        digits = re.sub(r"\D", "", number)
        if digits in self._numbers or (len(digits) < 3 and not has_unit):
            return True
        if len(digits) > 99 or not (has_unit or digits != number or (len(digits) > 3 and digits.endswith("00"))):
            return False
        if re.search(rf"(?<![\d.,]){re.escape(number)}\.\d", self._text):
            return True  # a version without its last part
        said = digits.strip("0")
        others = (re.sub(r"\D", "", other).lstrip("0") for other in _ROUNDED.findall(self._text))
        longer = (other[: len(said) + 1].ljust(len(said) + 1, "0") for other in others)  # by a digit, to round
        return not said or any(str((int(first) + 5) // 10).rstrip("0") == said for first in longer)


HUMAN = "user"  # the label of what a person says
_LONGEST = 500  # characters of a quote, and of the sentence around it
_QUESTION = re.compile(r"[.!…！\"'”’)\]*_\s]*+[?？؟]")  # read from the end


class Item(NamedTuple):
    """Something worth to be remembered, as the record bears it out."""

    kind: str  # fact, decision or preference
    about: str  # what it is about; empty where that is not known
    text: str  # what was said: a sentence of the record
    message: int  # of the record, from 1
    said_by: str  # the label of the block that it stands in
    relation: str = ""  # what it says of its subject, where that is known


def read_items(reply: str, record: str) -> str:
    """Return the proposals of a reply that the record bears out, and how many others there are, as they are kept. Raise
    `SummarizerRefused` where the reply is of another form."""
    # each object of the reply, in a list, on lines or alone; None for what begins like one and is broken
    proposals, decoder, end = list[Any](), json.JSONDecoder(), 0
    while (opening := reply.find("{", end)) >= 0:
        try:
            found, end = decoder.raw_decode(reply, opening)
        except (ValueError, RecursionError):
            found, end = None, opening + len(reply[opening:].partition("\n")[0])
        listed = [value for value in found.values() if isinstance(value, list)] if found else []
        proposals += listed[0] if listed else [found]
    if not proposals and reply.split() not in (["[]"], ["[", "]"]):
        raise SummarizerRefused(Refusal.NO_ITEMS)
    parts = re.split(r"^### (.+?)(?: \(\d+ times\))? \[(\d+)\]$\n?", record, flags=re.MULTILINE)
    blocks = [(label, int(at), body) for label, at, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)]
    items = list(dict.fromkeys(item for one in proposals[:20] if (item := _checked(one, blocks)) is not None))
    return json.dumps({"items": items, "dropped": len(proposals) - len(items)}, ensure_ascii=False)


def decode_items(text: str) -> tuple[list[Item], int]:
    """Return items as `read_items` wrote them, and how many were dropped. Raise `ValueError` for anything else."""
    try:
        found = json.loads(text)
        return [Item(*item) for item in found["items"]], int(found["dropped"])
    except (TypeError, KeyError) as error:
        raise ValueError("these are not items") from error


def _checked(proposal: Any, blocks: Sequence[tuple[str, int, str]]) -> Item | None:
    """Return what the record bears out of a proposal; None where its quote does not stand in the message that it
    names, or in a question."""
    if not isinstance(proposal, dict):
        return None
    kind, message, quote, about = map(proposal.get, ("kind", "message", "quote", "about"))
    if kind not in ("fact", "decision", "preference") or type(message) is not int or not isinstance(quote, str):
        return None
    words = quote.split()
    if not 6 <= len(" ".join(words)) <= _LONGEST or not any(map(str.isalpha, quote)):
        return None
    # No quote begins or ends inside of a word, in scripts that put spaces between them.
    before = r"(?<!\w)" if re.match(r"[A-Za-z0-9]", words[0]) else ""
    behind = r"(?!\w)" if re.match(r"[A-Za-z0-9]", words[-1][-1]) else ""
    said = re.compile(before + r"\s+".join(map(re.escape, words)) + behind)
    for label, at, block in blocks:
        if at != message or (found := said.search(block)) is None:
            continue

        # the sentence, or the sentences, that the quote stands in; the quote alone where they are long
        start, stop = found.span()
        earliest = max(0, start - _LONGEST)
        starts = re.compile(r"\n|[.!?…][\"')\]]*\s+|[。！？]").finditer(block, earliest, start)
        end = re.compile(r"\n|[.!?…][\"')\]]*(?=\s|$)|[。！？]").search(block, max(start, stop - 1))
        text = block[[earliest, *(one.end() for one in starts)][-1] : end.end() if end else len(block)]
        asks = _QUESTION.match(text.rstrip()[::-1])
        text = " ".join((text if len(text) <= _LONGEST else block[start:stop]).split())
        if asks or _QUESTION.match(text[::-1]):
            continue  # the message may have more blocks
        allowed = kind if label == HUMAN or (kind == "decision" and label == "assistant") else "fact"

        # the subject, if it shares a word with the message and holds no figure that stands not there
        flat = " ".join(about.split()) if isinstance(about, str) else ""
        strange = [word for word in flat.split() if any(map(str.isdigit, word)) and word not in block]
        is_known = len(flat) <= 80 and not strange and stems(flat) & stems(block)
        return Item(allowed, flat if is_known else "", text, message, label)
    return None
