"""How many tokens a model's window holds, by its name; what a provider then refuses all the same is learnt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_WINDOWS = (  # tokens of input, by the beginning of a name; the first that fits holds
    (r"claude", 200_000),
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-4", 128_000),
    (r"gpt-3", 16_000),
    (r"gpt-5|codex", 272_000),
    (r"o[134]", 200_000),
    (r"gemini", 1_000_000),
    (r"deepseek|qwen|kimi|glm|mistral|llama|grok", 128_000),
)

_USUAL = 128_000  # of a model that is not known

_LONG = re.compile(r"context-1m")  # in Anthropic's header of betas

_LONG_WINDOW = 1_000_000


def window_of(model: str, betas: str = "") -> int:
    """Tokens of a model's window; `betas` is the header `anthropic-beta`."""
    bare = model.lower().rpartition("/")[2]
    if bare.startswith("claude") and (_LONG.search(betas) or "[1m]" in bare):
        return _LONG_WINDOW
    return next((tokens for name, tokens in _WINDOWS if re.match(name, bare)), _USUAL)


class ModelWindow:
    """A model as `get_messages_for_request` reads providers."""

    def __init__(self, dialect: str, model: str, window: int, max_output: int | None) -> None:
        self.name = dialect
        self._info: Mapping[str, Any] = {"id": model, "context_window": window, "max_output_tokens": max_output}

    def get_model_info(self) -> Mapping[str, Any]:
        return self._info
