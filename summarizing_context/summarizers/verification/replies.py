"""Clean a model's reply and decide whether it can serve as a summary, and if not, why.

Pure.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum

from summarizing_context.errors import SummarizerRefused
from summarizing_context.messages.fences import folded
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.extractive.sections import escape_labels


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
        return replace(said, text=text, truncated=is_cut)
    if said.truncated:
        raise SummarizerRefused(Refusal.CUT_OFF)
    if fault := _fault(text := clean_reply(said.text), job):
        raise SummarizerRefused(fault)
    # what begins with a record's label would be read as one; what the user demands stands in the block of rules alone,
    # so a heading of rules, however it is marked and spelled, is one of facts
    lines = [
        "## Facts" if _RULES.search(plain := folded(line)) and _HEADING.match(plain) else line
        for line in text.splitlines()
    ]
    return replace(said, text=escape_labels("\n".join(lines)).strip())


def plain_reply(reply: object) -> SummaryReply:
    """Return what came as a reply: its text, if it has any, and its usage as far as that can be true."""
    if not isinstance(reply, SummaryReply):
        return SummaryReply(reply if isinstance(reply, str) else "")
    used, made, cached = (
        tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and 0 < tokens <= 10_000_000 else None
        for tokens in (reply.input_tokens, reply.output_tokens, reply.cached_tokens)
    )
    cached = cached if cached is not None and used is not None and cached <= used else None
    text = reply.text if isinstance(reply.text, str) else ""
    return SummaryReply(text, used, made, truncated=bool(reply.truncated), cached_tokens=cached)


def _fault(text: str, job: SummaryJob) -> Refusal | None:
    """Return what is worst of what is wrong with the words or the size of a clean reply."""
    most, tokens = int(1.5 * job.max_tokens), estimate_text(text)  # a model cannot count: up to `most` will do
    given = (text, job.content, job.instructions, job.prompt)
    flat, content, instructions, prompt = (" ".join(part.split()) for part in given)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    copied = sum(map(set(map(str.strip, job.content.split("\n"))).__contains__, lines))
    checks = {
        Refusal.EMPTY: not any(map(str.isalnum, text)),
        Refusal.ERROR_TEXT: _is_error_text(text),
        Refusal.DECLINED: len(text) <= _SHORT and _DECLINED.match(_plain(text)),
        Refusal.ECHO: flat in (content, prompt)
        or (len(content) >= 200 and content in flat)
        or (len(flat) >= 40 and flat[:200] in instructions)
        or (job.max_tokens < tokens and (flat in content or copied > 0.8 * len(lines))),
        Refusal.OVER_CAP: tokens > most,
        # of fewer than 200 tokens a summary may be as long as its source
        Refusal.OVER_HALF: job.source_tokens > 200 and tokens > job.source_tokens / 2 and job.rank < 2,
    }
    return next((refusal for refusal, holds in checks.items() if holds), None)


_RULES = re.compile(r"constraint|correction|\b(?:rule|requirement|preference|instruction|guideline|order)s?\b")
_HEADING = re.compile(
    r"[\s>]*+(?:#{1,6}(?!#)\s*+\S|(?:(?:\d{1,2}[.)]|[-+*•])\s*+)?(\*\*|__)[^*_]{1,80}\1\s*+:?\s*+\Z)"
    r"|(?=(?:\S++\s++){0,7}\S++\s*+\Z)(?:(?:[^\w+*•-]|_)*+[^\W\d_][^.:;,|=]{1,60}?[\W_]*+\Z"  # a few words alone
    r"|[\W\d_]*+[^\W\d_][^.:;,|=]{1,60}?[^\w:]*+:[\W_]*+\Z)"  # or before a colon
)


# A model's reasoning as servers leave it in a reply: `<think>`, `<|END_THINKING|>`, `<seed:think>`, `[THINK]`;
# gpt-oss channels, with and without their tokens; folded and fenced blocks.
_REASONING = re.compile(
    r"""
    (?: [<◁] | &lt; | (?P<square>\[) ) \s{0,3} \|? \s{0,3} (?P<end>/ | end_(?:of_)? )? \|? \s{0,3}
        (?:\w{1,20}[:_-]){0,2} (?P<name>think|thought|reason|analysis|reflect|scratchpad|monologue) (?:ing|ion|s)?
        (?:[_-](?:process|content|trace|start|begin|(?P<late>end)))?
        (?(square) \](?!\() | (?![\w.@-]) [^<>]{0,200}? (?<!/)(?:[>▷]|&gt;) )
    | (?:<\|start\|>\w{0,20})?<\|channel\|> \s{0,3} (?P<channel>\w{1,20}) [^<\n]{0,80} <\|message\|>
    | \A\s{0,9}analysis(?=(?-i:[A-Z])) | (?-i:assistant(?P<stripped>analysis|commentary|final)(?![a-z_]))
    | <details [^<>]{0,200} \breasoning\b [^<>]{0,200}> | <details>\s{0,9}(?=<summary>[^<]{0,40}(?:th[oi]|reason))
    | ^[`~]{3,} \s{0,3} (?:think|reason|analysis|thought)\w{0,3} $ | (?P<block></details> | ^[`~]{3,}$)
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_ANSWER = re.compile(
    r"^[ \t]*<(summary|answer|response|output|final(?:_?answer)?)>(?:(?P<closed>.*)</\1>|(?P<open>.*))",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_NAMED = re.compile(r"(?:[\w,] |[\"'“‘(`])\0(?: [a-z0-9]|[.,;:!?)\"'”’`])")  # a tag, here a NUL, that is only spoken of
_OPENER = r"(?:sure|certainly|of course|okay|ok|absolutely|understood)"
_PREAMBLE = re.compile(
    rf"{_OPENER}[ ,.!]*\n(?=\s*\S)"
    rf"|(?:{_OPENER}|here(?:['\u2019]s| is)|below is)\b[^\n]{{0,100}}\bsummar(?:y|i[sz]e)\b[^\n]{{0,100}}:[ \t*]*\n"
    rf"|(?:{_OPENER}[ ,.!-]*)?(?:here(?:['\u2019]s| is)|below is|this is)\s+(?:a|the|your|my)\s+(?:[\w-]+\s+){{0,3}}"
    r"summary(?:\s+(?:of|for)\s[^\n:]{1,80})?:|[#*_ \t]{0,6}summary[*_]{0,3}:[*_]{0,3}[ \t]*\n",
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
        text = _trimmed(re.sub(r"\A<\|\w{1,30}\|>|<\|\w{1,30}\|>\Z", "", text))  # a token of a chat template
        if fence := re.fullmatch(r"(`{3,}|~{3,})[ \t]*+[\w+-]*+[ \t]*+\n(.*)\n\1\s*", text, re.DOTALL):
            text = fence[2]
        if preamble := _PREAMBLE.match(f"{text}\n"):  # one that is the whole reply leaves nothing
            text = text[preamble.end() :].strip()
    return _trimmed(text)


def without_reasoning(text: str) -> str:
    """Return the reply without its model's reasoning: each tag with what it encloses, all before a closing tag that
    nothing has opened, and all behind an opening tag that nothing closes. Of channels the final one is the reply."""
    kept, opened = list[str](), list[str]()
    start = 0
    for tag in _REASONING.finditer(text):
        before = text[max(0, tag.start() - 300) : tag.start()].rpartition("\n")[2]
        behind = text[tag.end() : tag.end() + 200].partition("\n")[0]
        block = "fence" if tag[0][0] in "`~" else "details" if "details" in tag[0].lower() else "channel"
        kind, word = (tag["name"] or block).lower(), (tag["channel"] or tag["stripped"] or "").lower()
        closes = tag["end"] or tag["late"] or tag["block"] or word == "final"
        is_named = _NAMED.search(f"{before[-2:]}\0{behind}") or (before.count("`") % 2 == 1 and "`" in behind)
        is_type = tag["name"] and not closes and before[-1:].isalnum()
        goes_on = word and not closes and "channel" in opened  # channels follow one another
        if is_named or is_type or goes_on or (tag["block"] and block not in opened):
            continue
        if closes:
            kept = kept if opened else []
            same = [at for at, other in enumerate(opened) if other == kind]
            del opened[same[-1] if same else -1 :]  # of two kinds, the outer one ends both
        else:
            kept += [] if opened else [text[start : tag.start()]]
            opened.append(kind)
        start = tag.end()
    return "".join(kept if opened else [*kept, text[start:]])


def readable(text: str) -> str:
    """Return text without NULs; halves of a surrogate pair are joined, lone ones become U+FFFD."""
    return text.replace("\x00", "").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _trimmed(text: str) -> str:
    return text.strip().strip("\ufeff\u200b").strip()


_SHORT = 400  # characters; a longer reply is no error text and no excuse
_ERROR = re.compile(
    r"error(?: code)?\s*[:(\d]|[\w.]*(?:error|exception):|an (?:unexpected |internal |unknown )?error (?:has )?occurred"
    r"|(?:http )?[45]\d\d[\s:-]+(?:error|too many|internal|bad|service|unauth|forbidden|gateway|not found)"
    r"|you(?:'ve| have)? exceeded your|upstream connect error|this model's maximum context length"
    r"|(?:the )?(?:server|model|engine|service) is (?:currently |temporarily )?(?:overloaded|unavailable|busy)"
    r"|(?:(?:(?:api|http|internal|server|provider|connection|network|upstream)\s+)+error|too many requests|bad gateway"
    r"|(?:rate|usage|token|request) limit (?:exceeded|reached)|gateway time-?out|unauthorized"
    r"|service (?:temporarily )?unavailable|(?:invalid|incorrect) (?:api key|authentication)"
    r"|(?:the )?(?:request|connection|operation) (?:has )?timed out)"
    r"\s*(?:$|[.:;,!(\[{\-])"  # an error text says its name and stops, or goes on to the details
    r'|\{\s*"(?:error|detail|message|status|code|type)"\s*:'
)
_CANNOT = r"(?:can(?:not|'t| not)|could(?:n't| not)|won't|will not|am (?:unable|not able) to|'m (?:unable|not able) to)"
_MODEL = r"(?:ai|artificial intelligence|large language model|language model)(?![\w-])"
_DECLINED = re.compile(
    r"(?:i(?:'m| am) (?:very |really |so )?sorry|sorry|i apologi[sz]e|my apologies|unfortunately)\b"
    rf"[^.]{{0,40}}\b(?:i ?{_CANNOT}\b|as an {_MODEL})|(?:as|i(?:'m| am)(?: just| only)?) an? {_MODEL}|i ?{_CANNOT} "
    r"(?:help|assist|provide|summari[sz]e|comply|fulfil|process|access|generate|create|complete|continue|see)\b"
    r"|(?:please|could you|can you) (?:please )?(?:provide|share|paste|send) (?:me )?(?:the|your|a|some)\b"
    r".{0,120}\b(?:summar|text|conversation|content)|there (?:is|was) (?:no|nothing) .{0,40}\bto summari[sz]e"
)


def _is_error_text(text: str) -> bool:
    """Say whether a provider, or a proxy before it, answered in the model's place."""
    is_page = re.match(r"<(?:!doctype\s+html|html[\s>]|\?xml\s)", text, re.IGNORECASE) is not None
    is_list = re.search(r"^[^\S\n]*(?:#{1,6}|[-*\u2022])\s+\S", text, re.MULTILINE)  # or has a heading
    return is_page or (len(text) <= _SHORT and not is_list and _ERROR.match(_plain(text)) is not None)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().replace("\u2019", "'")
