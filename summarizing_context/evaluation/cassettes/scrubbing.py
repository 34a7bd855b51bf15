"""Takes secrets out of a text before it is kept: keys, tokens, authorization headers, private keys.

Pure. It knows secrets by their shape and by the names they are given; a transcript may hold others, so a cassette is
read before it is published.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from summarizing_context.summarizers.cleaning import readable

GONE = "[secret]"
SHORTEST = 12  # characters; what is shorter is a word, and would be taken out everywhere

_KEY_VARIABLES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_NAMES = (
    r"authorization|x-api-key|api[-_ ]?key|access[-_]?token|auth[-_]?token|client[-_]?secret|secret[-_]?key|password"
)
_SHAPES = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{12,}"),
    re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|hf_)[A-Za-z0-9_-]{12,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\bAIza[A-Za-z0-9_-]{30,}"),
)
# A search that fails must not leave its text to be read again from every later start: what follows reads each run once.
_WEB_TOKEN = re.compile(r"\b(?P<head>eyJ[A-Za-z0-9_-]{8,})(?P<rest>\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)?")
_BEARER = re.compile(r"\b((?:bearer|basic)\s+)(?=[^\s\"']*\d)[A-Za-z0-9._~+/=-]{12,}", re.IGNORECASE)
_NAME = re.compile(rf"\b(?:{_NAMES})[\"']?\s*[:=]\s*[\"']?", re.IGNORECASE)
_VALUE = re.compile(r"[^\s\"'\[\],;]{12,}")
_RUN = re.compile(r"[^\s\"']*")
_TO_LAST_DIGIT = re.compile(r"[^\s\"']*\d")
_IN_ADDRESS = re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,80}:)[^\s/@]{3,200}(?=@)", re.IGNORECASE)


def scrubbed(text: str, secrets: Sequence[str] = ()) -> str:
    """The text with `GONE` in the place of each secret; `secrets` are texts that are known to be one."""
    text = readable(text)
    for secret in secrets:
        text = text.replace(secret, GONE)
    for shape in _SHAPES:
        text = shape.sub(GONE, text)
    text = _WEB_TOKEN.sub(lambda token: GONE if token["rest"] else token["head"], text)
    text = _BEARER.sub(rf"\1{GONE}", text)
    text = _without_named(text)
    return _IN_ADDRESS.sub(rf"\1{GONE}", text)


def own_secrets(more: Iterable[str | None] = ()) -> tuple[str, ...]:
    """The keys that this process signs with, and `more`; longest first."""
    known = {*(os.environ.get(name) for name in _KEY_VARIABLES), *more}
    return tuple(sorted((one for one in known if one and len(one) >= SHORTEST), key=lambda one: (-len(one), one)))


def _without_named(text: str) -> str:
    """The text without the values that are given a secret's name, where a digit stands in what follows the name."""
    pieces: list[str] = []
    at = kept = run_stop = digit_stop = 0
    while name := _NAME.search(text, at):
        at = name.end()
        if at >= run_stop:
            run, digits = _RUN.match(text, at), _TO_LAST_DIGIT.match(text, at)
            run_stop, digit_stop = run.end() if run else at, digits.end() if digits else at
        value = _VALUE.match(text, at) if at < digit_stop else None
        if value is not None:
            pieces += (text[kept:at], GONE)
            at = kept = value.end()
    return "".join((*pieces, text[kept:]))
