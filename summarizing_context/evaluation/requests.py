"""Requests to models, their replies, and their cost; and the removal of secrets before anything is kept.

Pure. The key of a request hashes all that can change its answer. Secrets are recognized by their shape and by the
name before them. Others may remain, so read a cassette before you publish it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import msgspec

from summarizing_context.errors import CassetteLimitError
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.settings.providers import PROVIDERS
from summarizing_context.summarizers.prices import ModelPrice
from summarizing_context.summarizers.verification.replies import readable

REDACTED = "[secret]"

SHORTEST = 12  # characters; what is shorter is a word, and would be taken out everywhere

_KEY_VARIABLES = (*(f"{name.upper()}_API_KEY" for name in PROVIDERS), "ANTHROPIC_AUTH_TOKEN")

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

# All lengths that are read before it is known whether this is a secret are bounded: else a hostile text is read again
# from every start.
_WEB_TOKEN = re.compile(r"\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?")

_BEARER = re.compile(r"\b((?:bearer|basic)\s+)(?=[^\s\"']{0,500}\d)[A-Za-z0-9._~+/=-]{12,}", re.IGNORECASE)

_NAMED = re.compile(
    rf"\b((?:{_NAMES})[\"']?\s{{0,50}}[:=]\s{{0,50}}[\"']?)(?=[^\s\"']{{0,500}}\d)[^\s\"'\[\],;]{{12,}}", re.IGNORECASE
)

_IN_ADDRESS = re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,80}:)[^\s/@]{3,200}(?=@)", re.IGNORECASE)


def scrubbed(text: str, secrets: Sequence[str] = ()) -> str:
    """The text with `REDACTED` in the place of each secret; `secrets` are texts that are known to be one."""
    text = readable(text)
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    for shape in _SHAPES:
        text = shape.sub(REDACTED, text)
    text = _WEB_TOKEN.sub(REDACTED, text)
    for shape in (_BEARER, _NAMED, _IN_ADDRESS):
        text = shape.sub(rf"\1{REDACTED}", text)
    return text


def own_secrets(more: Iterable[str | None] = ()) -> tuple[str, ...]:
    """The keys that this process signs with, and `more`; longest first."""
    known = {*(os.environ.get(name) for name in _KEY_VARIABLES), *more}
    return tuple(sorted((one for one in known if one and len(one) >= SHORTEST), key=lambda one: (-len(one), one)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to a model."""

    kind: str  # segment, rollup, reader, judge
    maker: str  # provider/model, and what else names how it is asked
    system: str
    user: tuple[str, ...]  # the parts of the one message; what many requests share is a part of its own
    max_tokens: int
    prompt: str = ""  # name and hash of the prompt, where a prompt file was rendered
    replicate: int = 0  # asking the same again is another request

    @property
    def message(self) -> str:
        """The user's message as it is sent."""
        return "\n\n".join(self.user)

    @property
    def tokens(self) -> int:
        """An estimate of what it costs to read."""
        return estimate_text(self.system) + estimate_text(self.message)

    def clean(self, secrets: Sequence[str] = ()) -> Request:
        """Return the request without secrets, as it is sent."""
        user = tuple(_scrubbed(part, tuple(secrets)) for part in self.user)
        return replace(self, system=_scrubbed(self.system, tuple(secrets)), user=user)

    @property
    def key(self) -> str:
        """SHA-256, hex, of all of it."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()


_scrubbed = lru_cache(maxsize=512)(scrubbed)  # a view is in a request for each question and replicate


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a model answered."""

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    truncated: bool = False
    fault: str = ""  # why it is no answer: the model declined, or said nothing

    def clean(self, secrets: Sequence[str] = ()) -> Reply:
        """Return the reply as it is kept; it is used like that too, so that recording and replaying agree."""
        return msgspec.structs.replace(self, text=scrubbed(self.text, secrets))


@dataclass(frozen=True, slots=True)
class Caps:
    """How much one run may ask for. None means without a limit."""

    max_calls: int | None = None
    max_input_tokens: int | None = None


@dataclass(slots=True)
class Spent:
    """What was asked for since a cassette was opened."""

    calls: int = 0
    input_tokens: int = 0  # as the provider reported them, else estimated
    output_tokens: int = 0
    cached_tokens: int = 0
    replayed: int = 0  # answered from the cassette
    by_kind: dict[str, int] = field(default_factory=dict)  # calls
    beside: Sequence[Spent] = ()  # by other models of this run: one cap holds for all their calls

    def admit(self, request: Request, caps: Caps) -> None:
        """Count a call that is about to be made, or `CassetteLimitError`."""
        tokens = request.tokens
        calls = self.calls + sum(other.calls for other in self.beside)
        if caps.max_calls is not None and calls >= caps.max_calls:
            raise CassetteLimitError(
                f"stopped after {calls:,} calls: the cap max_calls is reached; replies are kept, call it again to go on"
            )
        if caps.max_input_tokens is not None and self.input_tokens + tokens > caps.max_input_tokens:
            raise CassetteLimitError(
                f"stopped after {self.input_tokens:,} input tokens: the cap max_input_tokens has no room for the next "
                f"request, of {tokens:,}"
            )
        self.calls += 1
        self.input_tokens += tokens
        self.by_kind[request.kind] = self.by_kind.get(request.kind, 0) + 1

    def take_back(self, request: Request) -> None:
        """A call that got no reply stays a call, and costs no tokens."""
        self.input_tokens -= request.tokens

    def correct(self, request: Request, reply: Reply) -> None:
        """Put what the provider reports in the place of the estimate."""
        if reply.input_tokens is not None:
            self.input_tokens += reply.input_tokens - request.tokens
        self.output_tokens += reply.output_tokens or 0
        self.cached_tokens += reply.cached_tokens or 0

    def cost(self, price: ModelPrice | None) -> float | None:
        """US dollars; None where the price is not known."""
        if price is None:
            return None
        return round(price.cost(self.input_tokens, self.output_tokens, self.cached_tokens), 6)
