"""What a session's requests took from the provider's prompt cache, and what a plain client's would have taken.

A plain client sends its whole history each time, with the same cache, until the window is full. What a provider did not
tell is estimated: by how much of the beginning stayed, and by the clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from summarizing_context.models import ModelPrice, ModelTable, PromptCache
from summarizing_context.summarizers.host import ProviderWindow
from summarizing_context.views.builder import View


@dataclass(frozen=True, slots=True)
class Took:
    """Tokens of one request."""

    input: int = 0  # neither read from the cache nor written to it
    read: int = 0
    written: int = 0
    written_long: int = 0  # for longer than usual
    output: int = 0

    @property
    def total(self) -> int:
        return self.input + self.read + self.written + self.written_long

    def cost(self, price: ModelPrice) -> float:
        """Return the dollars of one request."""
        written = {"written": self.written, "written_long": self.written_long}
        return price.at(self.total).cost(self.total, self.output, self.read, **written)


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """Tokens of requests, and US dollars; None where a model's price is not known. The calls for summaries are not in
    them."""

    requests: int = 0
    reported: int = 0  # requests of which the provider has told; the others are estimated
    input_tokens: int = 0  # neither read from the cache nor written to it
    read_tokens: int = 0
    written_tokens: int = 0
    output_tokens: int = 0
    expiries: int = 0  # times that the cache no longer held a beginning that had stayed the same
    expired_tokens: int = 0
    cost: float | None = 0.0
    plain_requests: int = 0  # those that a plain client could have sent too, before its window was full
    plain_input_tokens: int = 0
    plain_read_tokens: int = 0
    plain_written_tokens: int = 0
    plain_cost: float | None = 0.0
    compared_cost: float | None = 0.0  # the part of `cost` for these requests


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it was made, in tokens as they are counted here."""

    model: str
    window: int | None
    messages: int
    at: float
    lifetime: float  # seconds that the cache lives, as the request asks
    tokens: int
    whole: int  # of what a plain client would have sent
    kept: int  # of the beginning, from the request before
    plain_kept: int  # by the clock too
    is_warm: bool  # by the clock


class CacheLedger:
    """Counts the requests of a session. The table of models is looked at when figures are asked for."""

    def __init__(self, models: ModelTable) -> None:
        self._models = models
        self._last: dict[str, Sent] = {}  # by the key of the view
        self._open: Sent | None = None  # of which nothing was told yet
        self._waiting: list[tuple[Sent, Took | None]] = []  # still to be counted
        self._figures = CacheFigures()
        self._is_cached = False  # a provider has told of its cache
        self._is_full = False  # a plain client's window

    def send(
        self,
        key: str,
        view: View,
        window: ProviderWindow,
        at: float,
        lifetime: float,
        *,
        whole: int,
        prefix_kept: int | None,
    ) -> None:
        """Note a view that goes out, of a history of `whole` tokens; `prefix_kept` are the tokens of the beginning that
        stayed in its activation."""
        self._close()
        fixed, kept, plain_kept, is_warm = view.fixed_tokens, 0, 0, False
        tokens, whole = view.tokens + fixed, whole + fixed
        mine, plain = f"{key} {fixed}", f"plain {window.model} {fixed}"  # tools and system prompt stand in front
        if (last := self._last.pop(mine, None)) is not None:
            kept = last.tokens * min(view.stable_prefix_messages, last.messages) // max(1, last.messages)
            kept = min(tokens, kept if prefix_kept is None else prefix_kept + fixed)
            is_warm = at - last.at <= last.lifetime
        if (last := self._last.pop(plain, None)) is not None and at - last.at <= last.lifetime:
            plain_kept = min(last.whole, whole)
        asked = window.model, window.window, len(view.shared), at, lifetime
        self._last[mine] = self._last[plain] = self._open = Sent(*asked, tokens, whole, kept, plain_kept, is_warm)
        while len(self._last) > 16:  # a session keeps fewer views than that
            del self._last[next(iter(self._last))]

    def tell(self, took: Took) -> None:
        """Note what the provider has told of the view that went out last; where it took nothing, it had failed."""
        if took.total:
            self._close(took)
        self._open = None

    def figures(self) -> CacheFigures:
        """Return the figures as they stand now; of a request without a reply yet, what it is taken to take."""
        for sent, told in self._waiting:
            self._figures = self._counted(sent, told)
        self._waiting.clear()
        if self._open is None:
            return self._figures
        before = self._is_cached, self._is_full
        figures = self._counted(self._open, None)
        self._is_cached, self._is_full = before
        return figures

    def _close(self, told: Took | None = None) -> None:
        if self._open is not None:
            self._waiting.append((self._open, told))
            self._open = None

    def _counted(self, sent: Sent, told: Took | None) -> CacheFigures:
        """Return the figures with one more request."""
        price, cache, now = self._models.price_of(sent.model), self._models.cache_of(sent.model), self._figures
        took = told or _estimate(sent, cache, price, sent.tokens, sent.kept if sent.is_warm else 0)
        scale = took.total / max(1, sent.tokens) if told is not None else 1.0
        was_cached = self._is_cached or told is None
        self._is_cached = self._is_cached or (told is not None and took.total > took.input)

        # a beginning that stayed, and is paid for again
        kept = int(sent.kept * scale) if was_cached and sent.kept * scale >= cache.min_tokens else 0
        expired = kept > 0 and took.read < kept / 2 and (told is not None or not sent.is_warm)
        cost = None if price is None else took.cost(price)
        figures = replace(
            now,
            requests=now.requests + 1,
            reported=now.reported + (told is not None),
            input_tokens=now.input_tokens + took.input,
            read_tokens=now.read_tokens + took.read,
            written_tokens=now.written_tokens + took.written + took.written_long,
            output_tokens=now.output_tokens + took.output,
            expiries=now.expiries + expired,
            expired_tokens=now.expired_tokens + (kept - took.read if expired else 0),
            cost=_sum(now.cost, cost),
        )
        whole = int(sent.whole * scale)
        window = sent.window or (self._models.window_of(sent.model) if sent.model else None)
        self._is_full = self._is_full or (window is not None and whole > window)
        if self._is_full:
            return figures
        plain = Took(whole)
        if self._is_cached or told is None:
            plain = _estimate(sent, cache, price, whole, int(sent.plain_kept * scale))
        plain = replace(plain, output=took.output)
        return replace(
            figures,
            plain_requests=now.plain_requests + 1,
            plain_input_tokens=now.plain_input_tokens + plain.input,
            plain_read_tokens=now.plain_read_tokens + plain.read,
            plain_written_tokens=now.plain_written_tokens + plain.written + plain.written_long,
            plain_cost=_sum(now.plain_cost, None if price is None else plain.cost(price)),
            compared_cost=_sum(now.compared_cost, cost),
        )


def _estimate(sent: Sent, cache: PromptCache, price: ModelPrice | None, total: int, kept: int) -> Took:
    """Return what a request of so many tokens takes, of whose beginning so many are in the cache."""
    read = kept if kept >= cache.min_tokens else 0
    rest = total - read
    if price is None or price.cache_write is None or total < cache.min_tokens:  # what is not read is plain input
        return Took(rest, read)
    return Took(0, read, 0, rest) if sent.lifetime > cache.seconds() else Took(0, read, rest)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
