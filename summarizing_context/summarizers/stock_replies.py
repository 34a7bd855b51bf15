"""Knows two kinds of short reply that are no summary: a provider's error text, and a model that declines.

Pure. Only the beginning of a short reply is looked at, because a summary may well quote either.
"""

from __future__ import annotations

import re

SHORT_REPLY = 400  # chars

_LIST_OR_HEADING = re.compile(r"^\s*(?:#{1,6}|[-*\u2022])\s+\S", re.MULTILINE)
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


def is_declined(text: str) -> bool:
    """Whether the model says that it will not, or that it was given nothing."""
    return len(text) <= SHORT_REPLY and _DECLINED.match(_plain(text)) is not None


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().replace("\u2019", "'")
