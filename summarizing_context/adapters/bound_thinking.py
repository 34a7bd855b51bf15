"""Thinking that newer models of Anthropic sign, and refuse once anything before it has changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from summarizing_context.log.message_log import BoundThinking as BoundThinking

BINDING_BETA = "thinking-binding-controls-2026-08-01"  # of the header `anthropic-beta`


def binds_thinking(model: str) -> bool:
    """Return whether a model refuses thinking that it signed, once anything before it has changed.

    As of November 2026: Claude Fable and Mythos 5.1 and 5.2, and Opus, Sonnet and Haiku 5.5. Later ones are taken to.
    """
    later = r"(?:fable|mythos)-5[.-][1-9]|(?:opus|sonnet|haiku)-5[.-][5-9]|[a-z]+-(?:[6-9]|[1-9]\d)"
    return re.search(rf"claude-(?:{later})(?!\d)", model, re.IGNORECASE) is not None


def bound_thinking(model: str, thinking: Any = None, *, may_ask: bool = False) -> BoundThinking:
    """Return what becomes of signed thinking behind a rewritten beginning, in requests with this field `thinking`.

    With `may_ask` the caller can change that field, by `dropping`.
    """
    told = thinking if isinstance(thinking, Mapping) else {}
    wanted = (told.get("block_binding") or {}).get("prefix_mismatch_behavior")
    if not binds_thinking(model):
        return "kept"
    may_ask = may_ask and wanted is None and told.get("type", "adaptive") in ("adaptive", "enabled")
    return "asked" if may_ask or wanted == "drop_block" else "left_out"


def dropping(thinking: Any) -> dict[str, Any]:
    """Return the field `thinking` of a request, with the wish that void blocks be dropped. It needs `BINDING_BETA`.

    Models that bind thinking think adaptively where the field is missing, and refuse it without a type.
    """
    told = thinking if isinstance(thinking, Mapping) else {}
    binding = {**(told.get("block_binding") or {}), "prefix_mismatch_behavior": "drop_block"}
    return {"type": "adaptive", **told, "block_binding": binding}
