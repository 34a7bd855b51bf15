"""A model whose summaries are a pure function of what they are made of."""

from __future__ import annotations

import hashlib

from summarizing_context import SummaryJob
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.verification.replies import SMALL_SOURCE

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "haven", "inlet", "joint", "knoll", "lemon")
CHARACTERS = 4  # for a token: few enough that no estimate finds a text too long
_HEADING = "## Done\n"


class ScriptedModel:
    """Answers each job by its content alone: lines of words that a hash chooses, with nothing that could be refused."""

    recipe = "scripted"

    async def summarize(self, job: SummaryJob) -> str:
        if job.kind == "rules":
            return "none"
        text = _HEADING + scripted(job.content, job.max_tokens - len(_HEADING) // CHARACTERS)
        half = job.source_tokens // 2
        if job.source_tokens <= SMALL_SOURCE or estimate_text(text) <= half:
            return text
        return _HEADING + scripted(job.content, half - len(_HEADING) // CHARACTERS)


def scripted(content: str, max_tokens: int) -> str:
    """A text for a content: between three quarters and all of what `max_tokens` allow."""
    seed = hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()
    most = max_tokens * CHARACTERS * (768 + seed[0]) // 1024
    text = ""
    while len(text) < most:
        seed = hashlib.sha256(seed).digest()
        text += f"- {' '.join(WORDS[byte % len(WORDS)] for byte in seed[:10])}\n"
    return text[: max(0, most)].rpartition(" ")[0]
