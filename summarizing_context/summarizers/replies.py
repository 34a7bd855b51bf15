"""Says whether a reply can serve as the summary of a job, and why not.

Pure. Retrying is `resilient`'s work, what is stripped before the verdict `cleaning`'s. A reply refused by mistake costs
a call and leaves a stand-in for good, so each rule asks for clear signs: a summary may quote its source, be about
errors, or be as short as one line.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from itertools import pairwise

from summarizing_context.errors import SummarizerRefused
from summarizing_context.ports import SummaryJob, SummaryReply
from summarizing_context.summarizers.attribution import attribute
from summarizing_context.summarizers.cleaning import clean_reply
from summarizing_context.summarizers.stock_replies import is_declined, is_error_text

OVER_CAP = 1.5  # a model cannot count; up to this multiple of the cap its reply is taken as it is
SMALL_SOURCE = 200  # tokens; below, a summary may be as long as its source
SHORTEST_ECHO = 40  # chars of a reply that stand in the instructions
ECHO_CHARS = 200  # of a reply's beginning, looked for there; and a shorter content may stand whole in its summary
MOST_CHARS = 64  # of a token, on average; a reply far over the cap is not counted, as that would hold up the loop
MOST_USAGE = 10_000_000  # tokens; more than that for one call is no count


class Refusal(StrEnum):
    """Why a reply cannot serve. Constants, so that no text of a message or reply gets into an error."""

    NOT_TEXT = "the reply is neither text nor a SummaryReply with text"
    TOO_LARGE = "the reply is larger than max_reply_chars"
    CUT_OFF = "the reply was cut off by the length limit"
    EMPTY = "the reply is empty"
    ERROR_TEXT = "the reply is a provider's error text"
    DECLINED = "the model declined to summarize"
    ECHO = "the reply repeats what it was given"
    OVER_CAP = "the reply is much longer than the cap"
    OVER_HALF = "the reply is larger than half of its source"
    UNSUPPORTED = "the reply holds literals that its source does not"
    NO_ITEMS = "the reply lists no memories in the form that was asked for"


def check_reply(
    reply: object, job: SummaryJob, count: Callable[[str], int], *, max_chars: int = 200_000
) -> SummaryReply:
    """The reply, cleaned, in which only a human's words stand as the user's, or `SummarizerRefused` with a `Refusal`.

    `count` must measure as `job.source_tokens` and `job.max_tokens` do. Usage that cannot be true becomes None.
    """
    text = reply_text(reply)
    if text is None:
        raise SummarizerRefused(Refusal.NOT_TEXT)
    if len(text) > max_chars:
        raise SummarizerRefused(Refusal.TOO_LARGE)
    if job.kind == "memory":  # what its lines are worth is judged one by one, whatever else stands there
        if is_error_text(text) and '"quote"' not in text:  # one of ours has a `message` too
            raise SummarizerRefused(Refusal.ERROR_TEXT)
        return SummaryReply(clean_reply(text), *reported_usage(reply), cached_tokens=reported_cached(reply))
    if isinstance(reply, SummaryReply) and reply.truncated:
        raise SummarizerRefused(Refusal.CUT_OFF)
    text = clean_reply(text)
    fault = _fault_of_words(text) or _fault_of_size(text, job, count)
    if fault is not None:
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


def _fault_of_words(text: str) -> Refusal | None:
    if not any(char.isalnum() for char in text):
        return Refusal.EMPTY
    if text.lower().startswith(("<think>", "<thinking>")):
        return Refusal.CUT_OFF  # closed thinking has been stripped
    if is_error_text(text):
        return Refusal.ERROR_TEXT
    return Refusal.DECLINED if is_declined(text) else None


def _fault_of_size(text: str, job: SummaryJob, count: Callable[[str], int]) -> Refusal | None:
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
    return is_long and (flat in content or _copied_share(text, job.content) > 0.8)


def _copied_share(text: str, content: str) -> float:
    """Share of the neighbouring lines of `text` that are neighbours in `content` too; quotes are not, copies are."""
    pairs = _neighbours(text)
    there = set(_neighbours(content))
    return sum(pair in there for pair in pairs) / len(pairs) if pairs else 0.0


def _neighbours(text: str) -> list[tuple[str, str]]:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return list(pairwise(lines))


def _flat(text: str) -> str:
    return " ".join(text.split())
