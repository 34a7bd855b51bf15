"""The windows of models, by their names; as of 2026-11-26.

Sources: the pages of platform.claude.com and developers.openai.com on their models, the table of `genai-prices` 0.2.3,
and the models that Codex 0.169 and 0.171 bring along, in which they get less of the same models' windows.
"""

from __future__ import annotations

import re

USUAL = 128_000  # of a model that is not known
_LONG = 1_000_000

_WINDOWS = (  # tokens of input, by the beginning of a name; the first that fits holds
    (r"claude-[a-z]+-(?:4[.-][6-9]|[5-9]|[1-9]\d)(?!\d)", _LONG),
    (r"claude", 200_000),
    (r"gpt-4\.1", _LONG),
    (r"gpt-4|gpt-oss|chatgpt", 128_000),
    (r"gpt-3", 16_000),
    (r"gpt-6\.2-sol", 500_000),
    (r"gpt-5\.[4-9](?!\d|.*mini|.*nano)|gpt-[6-9]", 922_000),  # of 1,050,000, less the answer
    (r"gpt-5|codex", 272_000),  # of 400,000, less the answer
    (r"o[134]\b", 200_000),
    (r"gemini|deepseek-(?:v[4-9]|flash|pro)|kimi-k[3-9]|glm-5[.p][2-9]", _LONG),
    (r"grok-(?:4\.[2-9]|[5-9])", 500_000),
    (r"kimi|grok-[4c]", 256_000),
    (r"deepseek|qwen|glm|mistral|devstral|llama|grok", 128_000),
)

_OF_CODEX = ((r"gpt-6\.(?:1-terra|2-sol)", 500_000), (r"gpt-[5-9]", 272_000))


def window_of(model: str, betas: str = "", client: str = "") -> int:
    """Tokens of a model's window; `betas` is the header `anthropic-beta`, `client` the program that asks."""
    name = _bare(model)
    if name.startswith("claude") and ("context-1m" in betas or "[1m]" in name):
        return _LONG
    rows = (*_OF_CODEX, *_WINDOWS) if client == "codex" else _WINDOWS
    return next((tokens for beginning, tokens in rows if re.match(beginning, name)), USUAL)


def is_known(model: str) -> bool:
    """Whether the table has a row for this model."""
    return any(re.match(beginning, _bare(model)) for beginning, _ in _WINDOWS)


def _bare(model: str) -> str:
    """The name without a provider's or a region's in front, as in `us.anthropic.claude-opus-4-6-v1:0`."""
    name = model.lower().rpartition("/")[2]
    found = re.search(r"(?:^|[.~])((?:claude|gpt-|o[134]\b|gemini|deepseek|qwen|kimi|glm|mistral|llama|grok).*)", name)
    return found[1] if found else name
