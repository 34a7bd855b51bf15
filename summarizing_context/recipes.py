"""How a session's summaries are made, and the hashes under which the store shares them."""

from __future__ import annotations

import uuid
from typing import get_args

from summarizing_context.core.cutting import CUTTING_VERSION
from summarizing_context.core.keys import recipe_hash
from summarizing_context.core.rendering import RENDERER_VERSION
from summarizing_context.jobs import Prompted, Recipe
from summarizing_context.prompt_library import in_use
from summarizing_context.redaction import Redaction
from summarizing_context.settings import Settings
from summarizing_context.summarizers.attribution import ATTRIBUTION_VERSION
from summarizing_context.summarizers.literal_gate import GATE_VERSION


def make_recipe(settings: Settings, name: str | None, *, own: bool, redact: Redaction | None) -> Recipe:
    """The recipe of a session whose summarizer is called `name`; `own` for the extractive one, which reads no prompt.

    A summarizer without a name makes summaries for this session only: nobody could tell them from another's. A
    `redact` function may say in an attribute `version` what it takes out.
    """
    prompts = {purpose: in_use(purpose, settings.prompts) for purpose in get_args(Prompted)}
    common = {
        "summarizer": name or f"private/{uuid.uuid4().hex}",
        "max_tokens": settings.summary_max_tokens,
        "renderer": RENDERER_VERSION if own else f"{RENDERER_VERSION}, {CUTTING_VERSION}, {ATTRIBUTION_VERSION}",
        **({} if own else {"gate": GATE_VERSION}),
        "redacted": redact is not None and not own and str(redact.version),
    }

    def hash_of(kind: str) -> str:
        return recipe_hash({**common, "kind": kind, "prompt": None if own else prompts[kind].hash})

    def instructions(kind: Prompted, rank: int, max_tokens: int) -> str:
        return prompts[kind].render_for_rank(rank, max_tokens=max_tokens)

    return Recipe(
        maker="extractive" if own else "model",
        segment=hash_of("segment"),
        rollup=hash_of("rollup"),
        shared=name is not None,
        max_tokens=settings.summary_max_tokens,
        instructions=instructions,
        focus=hash_of("focus"),
        memory=hash_of("memory"),
        redact=None if own else redact,
    )
