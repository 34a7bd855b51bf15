"""What is asked of a model and what came back, as values, and the key under which a cassette keeps them.

Pure. The key is of everything that can change an answer, the replicate's number and the hash of a judge's prompt
included; who asks, from where and when does not enter it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import msgspec

from summarizing_context.core.estimate import estimate_text
from summarizing_context.evaluation.cassettes.scrubbing import scrubbed

_BETWEEN = "\n\n"
_SHARED = 512  # texts that are remembered: a view is in a request for each question and replicate


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
        return _BETWEEN.join(self.user)

    @property
    def tokens(self) -> int:
        """An estimate of what it costs to read."""
        return estimate_text(self.system) + estimate_text(self.message)

    def clean(self, secrets: Sequence[str] = ()) -> Request:
        """The request as it may be kept."""
        user = tuple(_scrubbed(part, tuple(secrets)) for part in self.user)
        return replace(self, system=_scrubbed(self.system, tuple(secrets)), user=user)

    @property
    def key(self) -> str:
        """SHA-256, hex, of the canonical request, in which each text stands by its hash."""
        known = asdict(self)
        known["system"], known["user"] = text_hash(self.system), [text_hash(part) for part in self.user]
        return hashlib.sha256(canonical(known)).hexdigest()


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a model answered."""

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    truncated: bool = False
    fault: str = ""  # why it is no answer: the model declined, or said nothing

    def clean(self, secrets: Sequence[str] = ()) -> Reply:
        """The reply as it may be kept; it is used like that too, so that recording and replaying agree."""
        return msgspec.structs.replace(self, text=scrubbed(self.text, secrets))


@dataclass(frozen=True, slots=True)
class Take:
    """A recorded request with its reply."""

    request: Request
    reply: Reply
    recorded_at: str  # a day, ISO 8601


@lru_cache(maxsize=_SHARED)
def text_hash(text: str) -> str:
    """SHA-256, hex, of a text without lone surrogates."""
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value: Any) -> bytes:
    """JSON with sorted keys."""
    return msgspec.json.encode(value, order="sorted")


_scrubbed = lru_cache(maxsize=_SHARED)(scrubbed)
