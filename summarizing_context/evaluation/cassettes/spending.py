"""What asking a model costs: how often it was asked, how much it read and wrote, and the caps on that. Values."""

from __future__ import annotations

from dataclasses import dataclass, field

from summarizing_context.errors import CassetteLimitError
from summarizing_context.evaluation.cassettes.requests import Reply, Request
from summarizing_context.prices import ModelPrice


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

    def admit(self, request: Request, caps: Caps) -> None:
        """Count a call that is about to be made, or `CassetteLimitError`."""
        tokens = request.tokens
        if caps.max_calls is not None and self.calls >= caps.max_calls:
            raise CassetteLimitError(f"stopped after {self.calls:,} calls: the cap max_calls is reached")
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
