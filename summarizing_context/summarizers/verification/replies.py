"""Clean a model's reply and decide whether it can serve as a summary, and if not, why.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from itertools import pairwise

from summarizing_context.errors import SummarizerRefused
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.verification.attribution import attribute

_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*+([\w+-]*+)[ \t]*+$")

_THINKING = re.compile(r"<(think|thinking)>.*?</\1>", re.DOTALL | re.IGNORECASE)

_OPENER = r"(?:sure|certainly|of course|okay|ok|absolutely|understood)"

_PREAMBLES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_OPENER}[ ,.!]*\n(?=\s*\S)",
        rf"(?:{_OPENER}|here(?:['\u2019]s| is)|below is)\b[^\n]{{0,100}}\bsummar(?:y|i[sz]e)\b[^\n]{{0,100}}:[ \t*]*\n",
        rf"(?:{_OPENER}[ ,.!-]*)?(?:here(?:['\u2019]s| is)|below is|this is)\s+(?:a|the|your|my)\s+(?:[\w-]+\s+){{0,3}}"
        r"summary(?:\s+(?:of|for)\s[^\n:]{1,80})?:",
        r"[#*_ \t]{0,6}summary[*_]{0,3}:[*_]{0,3}[ \t]*\n",
    )
)


def clean_reply(text: str) -> str:
    """Return the reply without what is no part of the summary; empty when nothing else was there."""
    text = readable(text)
    for _ in range(4):  # a fence may hold a preamble, and a preamble may stand before a fence
        bare = _trimmed(text)
        if thinking := _THINKING.match(bare):
            bare = bare[thinking.end() :].lstrip()
        bare = _without_fence(bare) + "\n"  # a preamble that is the whole reply leaves nothing
        preamble = next((found for pattern in _PREAMBLES if (found := pattern.match(bare))), None)
        bare = bare[preamble.end() :].strip() if preamble else bare[:-1]
        if bare == text:
            break
        text = bare
    return _trimmed(text)


def readable(text: str) -> str:
    """Return text without NULs; halves of a surrogate pair are joined, lone ones become U+FFFD."""
    text = text.replace("\x00", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _trimmed(text: str) -> str:
    return text.strip().strip("\ufeff\u200b").strip()


def _without_fence(text: str) -> str:
    """The inside of a fence around the whole text. One that is closed before its end merely begins there."""
    first, _, rest = text.partition("\n")
    inside, _, last = rest.rpartition("\n")
    opening = _FENCE.match(first)
    if opening is None or last.rstrip() != opening[1]:
        return text
    fences = (found for found in map(_FENCE.match, map(str.rstrip, inside.split("\n"))) if found)
    second = next((found for found in fences if found[1].startswith(opening[1])), None)
    return inside if second is None or second[2] else text


SHORT_REPLY = 400  # chars

_LIST_OR_HEADING = re.compile(r"^[^\S\n]*(?:#{1,6}|[-*\u2022])\s+\S", re.MULTILINE)

_HTML = re.compile(r"<(?:!doctype\s+html|html[\s>]|\?xml\s)", re.IGNORECASE)

_SORRY = r"(?:i(?:'m| am) (?:very |really |so )?sorry|sorry|i apologi[sz]e|my apologies|unfortunately)\b"

_CANNOT = r"(?:can(?:not|'t| not)|could(?:n't| not)|won't|will not|am (?:unable|not able) to|'m (?:unable|not able) to)"

_HELP = r"(?:help|assist|provide|summari[sz]e|comply|fulfil|process|access|generate|create|complete|continue|see)"

_MODEL = r"(?:ai|artificial intelligence|large language model|language model)(?![\w-])"

_END = r"\s*(?:$|[.:;,!(\[{\-])"  # an error text says its name and stops, or goes on to the details

_ERROR = re.compile(
    "|".join(
        (
            r"error(?: code)?\s*[:(\d]",
            r"[\w.]*(?:error|exception):",
            rf"(?:(?:api|http|internal|server|provider|connection|network|upstream)\s+)+error{_END}",
            r"(?:http )?[45]\d\d[\s:-]+(?:error|too many|internal|bad|service|unauth|forbidden|gateway|not found)",
            rf"(?:rate|usage|token|request) limit (?:exceeded|reached){_END}",
            r"you(?:'ve| have)? exceeded your",
            rf"(?:too many requests|bad gateway|gateway time-?out|unauthorized){_END}",
            rf"service (?:temporarily )?unavailable{_END}",
            rf"(?:the )?(?:request|connection|operation) (?:has )?timed out{_END}",
            r"(?:the )?(?:server|model|engine|service) is (?:currently |temporarily )?(?:overloaded|unavailable|busy)",
            rf"(?:invalid|incorrect) (?:api key|authentication){_END}",
            r"an (?:unexpected |internal |unknown )?error (?:has )?occurred",
            r"(?:upstream connect error|this model's maximum context length)",
            r'\{\s*"(?:error|detail|message|status|code)"\s*:',
            r'\{\s*"type"\s*:\s*"error"',
        )
    )
)

_DECLINED = re.compile(
    "|".join(
        (
            rf"{_SORRY}[^.]{{0,40}}\bi ?{_CANNOT}\b",
            rf"{_SORRY}[^.]{{0,40}}\bas an {_MODEL}",
            rf"i ?{_CANNOT} {_HELP}\b",
            rf"as an? {_MODEL}",
            rf"i(?:'m| am) (?:just |only )?an? {_MODEL}",
            r"(?:please|could you|can you) (?:please )?(?:provide|share|paste|send) (?:me )?(?:the|your|a|some)\b"
            r".{0,120}\b(?:summar|text|conversation|content)",
            r"there (?:is|was) (?:no|nothing) .{0,40}\bto summari[sz]e",
        )
    )
)


def is_error_text(text: str) -> bool:
    """Whether a provider, or a proxy before it, answered in the model's place."""
    if _HTML.match(text):
        return True
    return len(text) <= SHORT_REPLY and not _LIST_OR_HEADING.search(text) and _ERROR.match(_plain(text)) is not None


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().replace("\u2019", "'")


OVER_CAP = 1.5  # a model cannot count; up to this multiple of the cap its reply is taken as it is

SMALL_SOURCE = 200  # tokens; below, a summary may be as long as its source

SHORTEST_ECHO = 40  # chars of a reply that stand in the instructions

ECHO_CHARS = 200  # of a reply's beginning, looked for there; and a shorter content may stand whole in its summary

MOST_CHARACTERS = 200_000  # of a reply

MOST_CHARS = 64  # of a token, on average; a reply far over the cap is not counted, as that would hold up the loop

MOST_USAGE = 10_000_000  # tokens; more than that for one call is no count


class Refusal(StrEnum):
    """Why a reply cannot serve. Constants, so that no text of a message or reply gets into an error."""

    NOT_TEXT = "the reply is neither text nor a SummaryReply with text"
    TOO_LARGE = "the reply is too large"
    CUT_OFF = "the reply was cut off by the length limit"
    EMPTY = "the reply is empty"
    ERROR_TEXT = "the reply is a provider's error text"
    DECLINED = "the model declined to summarize"
    ECHO = "the reply repeats what it was given"
    OVER_CAP = "the reply is much longer than the cap"
    OVER_HALF = "the reply is larger than half of its source"
    UNSUPPORTED = "the reply holds literals that its source does not"
    NO_ITEMS = "the reply lists no memories in the form that was asked for"


def check_reply(reply: object, job: SummaryJob, count: Callable[[str], int]) -> SummaryReply:
    """The reply, cleaned, in which only a human's words stand as the user's, or `SummarizerRefused` with a `Refusal`.

    `count` must measure as `job.source_tokens` and `job.max_tokens` do. Usage that cannot be true becomes None.
    """
    text = reply_text(reply)
    if text is None:
        raise SummarizerRefused(Refusal.NOT_TEXT)
    if len(text) > MOST_CHARACTERS:
        raise SummarizerRefused(Refusal.TOO_LARGE)
    if job.kind == "memory":  # what its lines are worth is judged one by one, whatever else stands there
        if is_error_text(text) and '"quote"' not in text:  # a reply of rules has a `message` too
            raise SummarizerRefused(Refusal.ERROR_TEXT)
        return SummaryReply(clean_reply(text), *reported_usage(reply), cached_tokens=reported_cached(reply))
    is_cut = isinstance(reply, SummaryReply) and reply.truncated
    if job.kind == "rules":  # the same; the line that was cut off does not count
        if is_error_text(text):
            raise SummarizerRefused(Refusal.ERROR_TEXT)
        said = clean_reply(text.rpartition("\n")[0] if is_cut else text)
        return SummaryReply(said, *reported_usage(reply), truncated=is_cut, cached_tokens=reported_cached(reply))
    if is_cut:
        raise SummarizerRefused(Refusal.CUT_OFF)
    text = clean_reply(text)
    if (fault := _fault(text, job, count)) is not None:
        raise SummarizerRefused(fault)
    said = attribute(text, job.content, job.kind)  # its labels may take it over the cap: a view counts what it shows
    input_tokens, output_tokens = reported_usage(reply)
    return SummaryReply(said, input_tokens, output_tokens, cached_tokens=reported_cached(reply))


def reply_text(reply: object) -> str | None:
    """The text of a reply, or None if it has none."""
    text = reply.text if isinstance(reply, SummaryReply) else reply
    return text if isinstance(text, str) else None


def reported_usage(reply: object) -> tuple[int | None, int | None]:
    """Input and output tokens as the provider reports them; None for what it leaves out or what cannot be true."""
    if not isinstance(reply, SummaryReply):
        return None, None
    return _plausible(reply.input_tokens), _plausible(reply.output_tokens)


def reported_cached(reply: object) -> int | None:
    """Of the input tokens that a reply reports, those read from the provider's cache; None where that cannot be."""
    input_tokens, _ = reported_usage(reply)
    cached = _plausible(reply.cached_tokens) if isinstance(reply, SummaryReply) else None
    return cached if cached is not None and input_tokens is not None and cached <= input_tokens else None


def _plausible(tokens: object) -> int | None:
    if not isinstance(tokens, int) or isinstance(tokens, bool):
        return None
    return tokens if 0 < tokens <= MOST_USAGE else None


def _fault(text: str, job: SummaryJob, count: Callable[[str], int]) -> Refusal | None:
    """What is wrong with a clean reply: its words, or its size."""
    if not any(char.isalnum() for char in text):
        return Refusal.EMPTY
    if text.lower().startswith(("<think>", "<thinking>")):
        return Refusal.CUT_OFF  # closed thinking has been stripped
    if is_error_text(text):
        return Refusal.ERROR_TEXT
    if len(text) <= SHORT_REPLY and _DECLINED.match(_plain(text)):
        return Refusal.DECLINED
    most = int(OVER_CAP * job.max_tokens)
    is_huge = len(text) > MOST_CHARS * most
    tokens = most + 1 if is_huge else count(text)
    if _echoes(text, job, is_long=tokens > job.max_tokens and not is_huge):
        return Refusal.ECHO
    if tokens > most:
        return Refusal.OVER_CAP
    if job.source_tokens > SMALL_SOURCE and tokens > job.source_tokens / 2:
        return Refusal.OVER_HALF
    return None


def _echoes(text: str, job: SummaryJob, *, is_long: bool) -> bool:
    """Whether the reply holds the whole content, begins with the instructions, or is a long copy of the content."""
    flat, content, instructions = _flat(text), _flat(job.content), _flat(job.instructions)
    if flat in (content, _flat(job.prompt)) or (len(content) >= ECHO_CHARS and content in flat):
        return True
    beginning = flat[:ECHO_CHARS]
    if len(beginning) >= SHORTEST_ECHO and beginning in instructions:
        return True
    if not is_long or flat in content:
        return is_long
    copied, given = (  # lines that are neighbours in both: quotes are not, copies are
        list(pairwise(line.strip() for line in lines.split("\n") if line.strip())) for lines in (text, job.content)
    )
    there = set(given)
    return sum(pair in there for pair in copied) > 0.8 * len(copied)


def _flat(text: str) -> str:
    return " ".join(text.split())
