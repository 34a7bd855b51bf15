"""A session whose summaries are a pure function of what they are made of, and in which no rules are read off words.

Two states of the package can then be compared by their views. `without_rules` is the only place that names modules
whose work is set aside: a state that lacks them lacks the lines there too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from summarizing_context import SummaryJob, assembly
from summarizing_context.extraction.rules import CueRules
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.summarizers.extractive.summarizer import Extracts, make_extracts
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


@contextmanager
def without_rules() -> Iterator[None]:
    """Sessions opened within find no rules and decisions in what is said, and have a script for the extractive pass."""
    with ExitStack() as patches:
        patches.enter_context(patch.object(CueRules, "rules", lambda self, texts: ()))
        patches.enter_context(patch.object(assembly, "quotes", lambda text: []))
        patches.enter_context(patch.object(assembly, "make_extracts", _extracts))
        yield


def _extracts() -> Extracts:
    """The extractive passes; only the key lines of long results are the real ones."""

    def thorough(content: str, **asked: Any) -> str:
        return scripted(content, asked["max_tokens"])

    def about(content: str, topic: str, most: int) -> str:
        return scripted(f"{topic}\n{content}", most)

    made = make_extracts()
    return made._replace(thorough=thorough, skim=scripted, brief=scripted, about=about, excerpt=about)
