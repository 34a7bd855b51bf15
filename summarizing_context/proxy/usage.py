"""What the provider says that a request took, read beside the reply on its way to the client.

Nothing here holds a reply up or changes it. What cannot be read is no usage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

_MOST = 4_000_000  # bytes of a reply, or of one event, that are looked at

_NAME = b'"usage"'


class Usage(NamedTuple):
    """Tokens of one request."""

    input: int = 0  # neither read from nor written to a cache
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0

    @property
    def total_input(self) -> int:
        return self.input + self.cache_read + self.cache_write


class UsageReader:
    """Reads the bytes of one reply as they pass."""

    def __init__(self, content_type: str, *, packed: bool) -> None:
        self._streams = "event-stream" in content_type
        self._reads = not packed and (self._streams or "json" in content_type)
        self._kept = bytearray()
        self._usage: Usage | None = None

    def feed(self, data: bytes) -> None:
        """The next bytes of the reply."""
        if not self._reads:
            return
        self._kept += data
        if self._streams and b"\n" in data:
            *lines, rest = bytes(self._kept).split(b"\n")
            self._kept = bytearray(rest)
            for line in lines:
                if _NAME in line and line.startswith(b"data:"):
                    self._take(line[5:])
        if len(self._kept) > _MOST:
            self._reads = False
            self._kept.clear()

    def usage(self) -> Usage | None:
        """What was told, once the reply has ended."""
        if self._reads and not self._streams:
            self._take(bytes(self._kept))
        return self._usage

    def _take(self, data: bytes) -> None:
        try:
            told = msgspec.json.decode(data)
        except msgspec.DecodeError:
            return
        for holder in (told, *(told.get(name) for name in ("message", "response"))) if isinstance(told, dict) else ():
            if isinstance(holder, dict) and isinstance(usage := holder.get("usage"), dict):
                self._usage = _read(usage, self._usage or Usage())


def _read(usage: Mapping[str, Any], before: Usage) -> Usage:
    """The figures of one place; a later place of the same reply tells only what has changed."""
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    output = _count(usage, "output_tokens", _count(usage, "completion_tokens", before.output))
    if isinstance(details, Mapping) or "prompt_tokens" in usage:  # OpenAI counts what was cached as input too
        total = _count(usage, "prompt_tokens", _count(usage, "input_tokens", 0))
        read = _count(details or {}, "cached_tokens", 0)
        return Usage(max(0, total - read), read, 0, output)
    return Usage(
        _count(usage, "input_tokens", before.input),
        _count(usage, "cache_read_input_tokens", before.cache_read),
        _count(usage, "cache_creation_input_tokens", before.cache_write),
        output,
    )


def _count(usage: Mapping[str, Any], name: str, other: int) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and value >= 0 else other
