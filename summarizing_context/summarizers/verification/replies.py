"""Clean a model's reply and decide whether it can serve as a summary, and if not, why.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from itertools import pairwise

from summarizing_context.errors import SummarizerRefused
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.verification.attribution import attribute


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


SMALL_SOURCE = 200  # tokens; below, a summary may be as long as its source
_MOST_CHARACTERS = 200_000  # of a reply
_OVER_CAP = 1.5  # a model cannot count; up to this multiple of the cap its reply is taken as it is
_MOST_CHARS = 64  # of a token, on average; a reply far over the cap is not counted, as that would hold up the loop
_MOST_USAGE = 10_000_000  # tokens; more than that for one call is no count
_SHORT = 400  # characters; a longer reply is no error text and no excuse


def check_reply(reply: object, job: SummaryJob, count: Callable[[str], int]) -> SummaryReply:
    """Return the reply, cleaned, in which only a human's words stand as the user's, or raise `SummarizerRefused` with a
    `Refusal`.

    `count` must measure as `job.source_tokens` and `job.max_tokens` do. Usage that cannot be true becomes None.
    """
    said = plain_reply(reply)
    text = said.text
    if not isinstance(reply.text if isinstance(reply, SummaryReply) else reply, str):
        raise SummarizerRefused(Refusal.NOT_TEXT)
    if len(text) > _MOST_CHARACTERS:
        raise SummarizerRefused(Refusal.TOO_LARGE)
    if job.kind == "memory":  # each of its lines is judged by itself, whatever else stands there
        if _is_error_text(text) and '"quote"' not in text:  # a reply of memories has a `message` too
            raise SummarizerRefused(Refusal.ERROR_TEXT)
        return replace(said, text=clean_reply(text), truncated=False)
    if job.kind == "rules":
        if _is_error_text(text):
            raise SummarizerRefused(Refusal.ERROR_TEXT)
        whole = text.rpartition("\n")[0] if said.truncated else text  # a rule that was cut off does not count
        return replace(said, text=clean_reply(whole))
    if said.truncated:
        raise SummarizerRefused(Refusal.CUT_OFF)
    text = clean_reply(text)
    if (fault := _fault(text, job, count)) is not None:
        raise SummarizerRefused(fault)
    return replace(said, text=attribute(text, job.content, job.kind))  # that may take it over the cap


def plain_reply(reply: object) -> SummaryReply:
    """Return what came as a reply: its text, if it has any, and its usage as far as that can be true."""
    if not isinstance(reply, SummaryReply):
        return SummaryReply(reply if isinstance(reply, str) else "")
    used, made, cached = (
        tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and 0 < tokens <= _MOST_USAGE else None
        for tokens in (reply.input_tokens, reply.output_tokens, reply.cached_tokens)
    )
    cached = cached if cached is not None and used is not None and cached <= used else None
    text = reply.text if isinstance(reply.text, str) else ""
    return SummaryReply(text, used, made, truncated=bool(reply.truncated), cached_tokens=cached)


def _fault(text: str, job: SummaryJob, count: Callable[[str], int]) -> Refusal | None:
    """Return what is wrong with a clean reply: its words, or its size."""
    if not any(char.isalnum() for char in text):
        return Refusal.EMPTY
    if _is_error_text(text):
        return Refusal.ERROR_TEXT
    if len(text) <= _SHORT and _DECLINED.match(_plain(text)):
        return Refusal.DECLINED
    most = int(_OVER_CAP * job.max_tokens)
    is_huge = len(text) > _MOST_CHARS * most
    tokens = most + 1 if is_huge else count(text)

    # it holds the whole content, begins with the instructions, or is long and copies the content, whole or by lines
    flat, content, instructions, prompt = (
        " ".join(part.split()) for part in (text, job.content, job.instructions, job.prompt)
    )
    if flat in (content, prompt) or (len(content) >= 200 and content in flat):
        return Refusal.ECHO
    if len(flat) >= 40 and flat[:200] in instructions:
        return Refusal.ECHO
    if job.max_tokens < tokens and not is_huge:
        copied, given = (  # lines that are neighbours in both: quotes are not, copies are
            list(pairwise(line.strip() for line in lines.split("\n") if line.strip())) for lines in (text, job.content)
        )
        there = set(given)
        if flat in content or sum(pair in there for pair in copied) > 0.8 * len(copied):
            return Refusal.ECHO
    if tokens > most:
        return Refusal.OVER_CAP
    return Refusal.OVER_HALF if job.source_tokens > SMALL_SOURCE and tokens > job.source_tokens / 2 else None


_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*+([\w+-]*+)[ \t]*+$")

# A model's reasoning as servers leave it in a reply: `<think>`, `<|END_THINKING|>`, `<seed:think>`, `[THINK]`,
# `◁think▷`; gpt-oss channels, with and without their tokens; Gemma's and Granite's own; folded and fenced blocks.
_REASONING = re.compile(
    r"""
    (?: [<◁] | &lt; | (?P<square>\[) ) \s{0,3} \|? \s{0,3} (?P<end>/ | end_(?:of_)? )? \|? \s{0,3}
        (?:\w{1,20}[:_-]){0,2} (?P<name>think|thought|reason|analysis|reflect|scratchpad|monologue) (?:ing|ion|s)?
        (?:[_-](?:process|content|trace|start|begin|(?P<late>end)))?
        (?(square) \](?!\() | (?![\w.@-]) [^<>]{0,200}? (?<!/)(?:[>▷]|&gt;) )
    | <\|channel\|?> \s{0,3} (?P<channel>\w{0,20}) (?:[^<\n]{0,80}<\|message\|>)? | (?P<gemma><channel\|>)
    | \A\s{0,9}analysis(?=(?-i:[A-Z])) | assistant(?P<stripped>analysis|commentary|final)
    | ^\W{0,4}here(?:['’]s|\ is)\ my\ (?P<granite>thought\ process|response):
    | <details [^<>]{0,200} \breasoning\b [^<>]{0,200}> | <details>\s{0,9}(?=<summary>[^<]{0,40}(?:th[oi]|reason))
    | ^[`~]{3,} \s{0,3} (?:think|reason|analysis|thought)\w{0,3} $ | (?P<block></details> | ^[`~]{3,}$)
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_ANSWER = re.compile(
    r"^[ \t]*<(summary|answer|response|output|final(?:_?answer)?)>(?:(?P<closed>.*)</\1>|(?P<open>.*))",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_NAMED = re.compile(r"(?:[\w,] |[\"'“‘(])\0(?: [a-z0-9]|[.,;:!?)\"'”’])")  # a tag, here a NUL, that a sentence names
_TOKEN = re.compile(r"\A<\|\w{1,30}\|>|<\|\w{1,30}\|>\Z")  # of a chat template
_OPENER = r"(?:sure|certainly|of course|okay|ok|absolutely|understood)"
_PREAMBLE = re.compile(
    rf"{_OPENER}[ ,.!]*\n(?=\s*\S)"
    rf"|(?:{_OPENER}|here(?:['\u2019]s| is)|below is)\b[^\n]{{0,100}}\bsummar(?:y|i[sz]e)\b[^\n]{{0,100}}:[ \t*]*\n"
    rf"|(?:{_OPENER}[ ,.!-]*)?(?:here(?:['\u2019]s| is)|below is|this is)\s+(?:a|the|your|my)\s+(?:[\w-]+\s+){{0,3}}"
    r"summary(?:\s+(?:of|for)\s[^\n:]{1,80})?:"
    r"|[#*_ \t]{0,6}summary[*_]{0,3}:[*_]{0,3}[ \t]*\n",
    re.IGNORECASE,
)


def clean_reply(text: str) -> str:
    """Return the reply without what is no part of the summary; empty when nothing else was there."""
    said = readable(text)
    text = _trimmed(without_reasoning(said))
    if not text and (answer := _ANSWER.search(said)) and answer["closed"]:  # behind reasoning that was left open
        text = _trimmed(without_reasoning(answer["closed"]))
    elif (answer := _ANSWER.search(text)) and "## " not in text[: answer.start()]:
        text = _trimmed(answer["closed"] or answer["open"] or "")
    for _ in range(4):  # a fence may hold a preamble, and a preamble may stand before a fence
        bare = _without_fence(_trimmed(_TOKEN.sub("", text)))
        if preamble := _PREAMBLE.match(f"{bare}\n"):  # one that is the whole reply leaves nothing
            bare = bare[preamble.end() :].strip()
        if bare == text:
            break
        text = bare
    return _trimmed(text)


def without_reasoning(text: str) -> str:
    """Return the reply without its model's reasoning: each tag with what it encloses, all before a closing tag that
    nothing has opened, and all behind an opening tag that nothing closes. A tag that code or a sentence names is none.
    """
    kept: list[str] = []
    start = 0
    opened: list[str] = []
    for tag in _REASONING.finditer(text):
        # what it is, and whether it closes
        word = (tag["channel"] or tag["stripped"] or tag["granite"] or "").lower()
        block = "fence" if tag[0][0] in "`~" else "details" if "details" in tag[0].lower() else ""
        kind = (tag["name"] or block or "channel").lower()
        closes = any((tag["end"], tag["late"], tag["gemma"], tag["block"])) or word in ("final", "response")

        # whether it is only spoken of
        before = text[max(0, tag.start() - 300) : tag.start()].rpartition("\n")[2]
        after = text[tag.end() : tag.end() + 200].partition("\n")[0]
        is_code = before.count("`") % 2 == 1 and "`" in after
        is_generic = tag["name"] and kind != "think" and not closes and before[-1:].isalpha()
        is_named = _NAMED.search(f"{before}\0{after}") and (not closes or before.lstrip().startswith(("-", "*", "•")))
        if is_code or is_generic or is_named or (tag["block"] and block not in opened):
            continue

        if closes and opened:
            same = [at for at, other in enumerate(opened) if other == kind]
            del opened[same[-1] if same else -1 :]
            start = tag.end()
        elif closes:
            kept, start = [], tag.end()
        else:
            if not opened:
                kept.append(text[start : tag.start()])
            if kind != "channel" or kind not in opened:  # channels follow one another
                opened.append(kind)
    return "".join(kept if opened else [*kept, text[start:]])


def readable(text: str) -> str:
    """Return text without NULs; halves of a surrogate pair are joined, lone ones become U+FFFD."""
    return text.replace("\x00", "").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _trimmed(text: str) -> str:
    return text.strip().strip("\ufeff\u200b").strip()


def _without_fence(text: str) -> str:
    """Return the inside of a fence around the whole text. One that is closed before its end merely begins there."""
    first, _, rest = text.partition("\n")
    inside, _, last = rest.rpartition("\n")
    opening = _FENCE.match(first)
    if opening is None or last.rstrip() != opening[1]:
        return text
    fences = (found for found in map(_FENCE.match, map(str.rstrip, inside.split("\n"))) if found)
    second = next((found for found in fences if found[1].startswith(opening[1])), None)
    return inside if second is None or second[2] else text


_LIST_OR_HEADING = re.compile(r"^[^\S\n]*(?:#{1,6}|[-*\u2022])\s+\S", re.MULTILINE)
_HTML = re.compile(r"<(?:!doctype\s+html|html[\s>]|\?xml\s)", re.IGNORECASE)
_END = r"\s*(?:$|[.:;,!(\[{\-])"  # an error text says its name and stops, or goes on to the details
_ERROR = re.compile(
    r"error(?: code)?\s*[:(\d]"
    r"|[\w.]*(?:error|exception):"
    rf"|(?:(?:api|http|internal|server|provider|connection|network|upstream)\s+)+error{_END}"
    r"|(?:http )?[45]\d\d[\s:-]+(?:error|too many|internal|bad|service|unauth|forbidden|gateway|not found)"
    rf"|(?:rate|usage|token|request) limit (?:exceeded|reached){_END}"
    r"|you(?:'ve| have)? exceeded your"
    rf"|(?:too many requests|bad gateway|gateway time-?out|unauthorized){_END}"
    rf"|service (?:temporarily )?unavailable{_END}"
    rf"|(?:the )?(?:request|connection|operation) (?:has )?timed out{_END}"
    r"|(?:the )?(?:server|model|engine|service) is (?:currently |temporarily )?(?:overloaded|unavailable|busy)"
    rf"|(?:invalid|incorrect) (?:api key|authentication){_END}"
    r"|an (?:unexpected |internal |unknown )?error (?:has )?occurred"
    r"|(?:upstream connect error|this model's maximum context length)"
    r'|\{\s*"(?:error|detail|message|status|code)"\s*:'
    r'|\{\s*"type"\s*:\s*"error"'
)
_SORRY = r"(?:i(?:'m| am) (?:very |really |so )?sorry|sorry|i apologi[sz]e|my apologies|unfortunately)\b"
_CANNOT = r"(?:can(?:not|'t| not)|could(?:n't| not)|won't|will not|am (?:unable|not able) to|'m (?:unable|not able) to)"
_MODEL = r"(?:ai|artificial intelligence|large language model|language model)(?![\w-])"
_DECLINED = re.compile(
    rf"{_SORRY}[^.]{{0,40}}\bi ?{_CANNOT}\b"
    rf"|{_SORRY}[^.]{{0,40}}\bas an {_MODEL}"
    rf"|i ?{_CANNOT} "
    r"(?:help|assist|provide|summari[sz]e|comply|fulfil|process|access|generate|create|complete|continue|see)\b"
    rf"|as an? {_MODEL}"
    rf"|i(?:'m| am) (?:just |only )?an? {_MODEL}"
    r"|(?:please|could you|can you) (?:please )?(?:provide|share|paste|send) (?:me )?(?:the|your|a|some)\b"
    r".{0,120}\b(?:summar|text|conversation|content)"
    r"|there (?:is|was) (?:no|nothing) .{0,40}\bto summari[sz]e"
)


def _is_error_text(text: str) -> bool:
    """Say whether a provider, or a proxy before it, answered in the model's place."""
    if _HTML.match(text):
        return True
    return len(text) <= _SHORT and not _LIST_OR_HEADING.search(text) and _ERROR.match(_plain(text)) is not None


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().replace("\u2019", "'")
