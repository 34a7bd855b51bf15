"""What the proxy tells of its work: a record of each request, and figures for each session. No text, and no key.

What a request took is read beside the reply on its way to the client, which that neither holds up nor changes.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from summarizing_context.summarizers.prices import PriceTable

_MAX_TOLD = 500  # records and sessions
_NEWEST = ("session", "client", "model", "messages", "tokens", "view_tokens")  # of a session's last record
_MAX_BYTES = 4_000_000  # of a reply, or of one event, that are looked at

logger = logging.getLogger("summarizing_context.proxy")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request."""

    input: int = 0  # neither read from nor written to a cache
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0

    @property
    def total_input(self) -> int:
        return self.input + self.cache_read + self.cache_write


@dataclass(slots=True)
class Record:
    """One request that a view was made for, or could have been."""

    session: str
    client: str
    dialect: str
    model: str
    messages: int = 0  # of the client's history
    sent_messages: int = 0
    tokens: int = 0  # of the history, as we count
    view_tokens: int = 0  # of what was sent in its place
    fixed_tokens: int = 0  # of system prompt and tools
    activation: str | None = None  # its reason
    prefix_kept: float | None = None  # share of the messages sent before with which this request begins
    changed: bool = False  # whether a view was sent
    replayed: bool = False  # after the provider had found it too long
    budget: int = 0  # tokens that the request may have, system prompt and tools too
    least_budget: int | None = None  # tokens that would do for this client; None where the budget does
    own_ms: float = 0.0  # that the client waited for us
    status: int = 0  # of the provider's answer; 0 where there was none
    usage: Usage | None = None
    cost: float | None = None  # dollars
    at: float = 0.0  # seconds since 1970
    number: int = 0  # of the record, from 1 on


class Feed:
    """The records of the proxy, the newest at the end."""

    def __init__(self, prices: PriceTable, **about: Any) -> None:
        self._prices = prices
        self._about = about
        self._started = time.time()
        self._records: deque[Record] = deque(maxlen=_MAX_TOLD)
        self._sessions: dict[str, dict[str, Any]] = {}  # sums over the requests of each, the newest at the end
        self._total = 0
        self.passed_unchanged = 0  # requests that no view can be made for
        self.failures = 0  # of the proxy, after which a request went on unchanged
        self.last_failure: str | None = None
        self._notices: dict[str, str] = {}  # by what each is about

    def failed(self, words: str, error: Exception) -> None:
        """Tell that something in the proxy has failed: what that did, and the kind of the error alone."""
        self.failures += 1
        self.last_failure = type(error).__name__
        logger.warning(words, extra={"cause": self.last_failure})

    def notice(self, about: str, words: str) -> None:
        """Tell once what the proxy had to work around: in the log, and in each status from now on."""
        if about not in self._notices and len(self._notices) < 50:
            self._notices[about] = words
            logger.warning(words)

    def add(self, record: Record) -> None:
        """A request is answered."""
        self._total += 1
        record.at, record.number = time.time(), self._total
        usage, price = record.usage or Usage(), self._prices.price_of(record.model)
        if record.usage is not None and price is not None:
            record.cost = price.cost(usage.total_input, usage.output, usage.cache_read)
        self._records.append(record)
        sums = {
            "requests": 1,
            "failed": not 200 <= record.status < 300,  # an error of the provider, or nothing
            "activations": record.activation is not None,
            "input_tokens": usage.total_input,
            "cache_read": usage.cache_read,
            "output_tokens": usage.output,
            "saved_tokens": max(0, record.tokens - record.view_tokens),
            "cost": record.cost or 0.0,
        }
        before = self._sessions.pop(record.session, {})
        self._sessions[record.session] = {
            **{name: getattr(record, name) for name in _NEWEST},
            **{name: before.get(name, 0) + value for name, value in sums.items()},
            "last_at": record.at,
        }
        if len(self._sessions) > _MAX_TOLD:
            del self._sessions[next(iter(self._sessions))]

    def status(self, after: int = 0) -> dict[str, Any]:
        """All that is told, and the records after that number."""
        return {
            **self._about,
            "started_at": self._started,
            "requests": self._total,
            "passed_unchanged": self.passed_unchanged,
            "failures": self.failures,
            "last_failure": self.last_failure,
            "notices": list(self._notices.values()),
            "sessions": list(reversed(self._sessions.values())),
            "records": [asdict(record) for record in self._records if record.number > after],
        }


class UsageReader:
    """Reads the bytes of one reply as they pass. Raises nothing."""

    def __init__(self, content_type: str, *, packed: bool) -> None:
        self._streams = "event-stream" in content_type
        self._reads = not packed and (self._streams or "json" in content_type)
        self._kept = bytearray()
        self._usage: Usage | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the reply."""
        if not self._reads:
            return
        self._kept += data
        if self._streams and b"\n" in data:
            *lines, self._kept = self._kept.split(b"\n")
            for line in lines:
                if b'"usage"' in line and line.startswith(b"data:"):
                    self._take(line[5:])
        if len(self._kept) > _MAX_BYTES:
            self._reads = False
            self._kept.clear()

    def usage(self) -> Usage | None:
        """Return what was told, once the reply has ended."""
        if self._reads and not self._streams:
            self._take(self._kept)
        return self._usage

    def _take(self, data: bytes | bytearray) -> None:
        """Take the figures of any protocol. A later place of the same reply tells only what has changed."""
        try:
            event = msgspec.json.decode(data)
        except msgspec.DecodeError:
            return
        for holder in (
            (event, *(event.get(name) for name in ("message", "response"))) if isinstance(event, dict) else ()
        ):
            told = holder.get("usage") if isinstance(holder, dict) else None
            if not isinstance(told, dict):
                continue
            before = self._usage or Usage()
            counts = {name: count for name, count in told.items() if isinstance(count, int)}
            output = counts.get("output_tokens") or counts.get("completion_tokens") or before.output
            details = told.get("prompt_tokens_details") or told.get("input_tokens_details")
            if isinstance(details, dict) or "prompt_tokens" in counts:  # OpenAI counts what was cached as input too
                read = details.get("cached_tokens") if isinstance(details, dict) else 0
                read = read if isinstance(read, int) else 0
                total = counts.get("prompt_tokens") or counts.get("input_tokens") or 0
                self._usage = Usage(max(0, total - read), read, 0, output)
            else:
                self._usage = Usage(
                    counts.get("input_tokens") or before.input,
                    counts.get("cache_read_input_tokens") or before.cache_read,
                    counts.get("cache_creation_input_tokens") or before.cache_write,
                    output,
                )
