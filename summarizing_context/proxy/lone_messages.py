"""Requests of one message without tools: a question about exactly this text, such as a client's own compaction.

Nothing of it can be summarized ahead, and whoever asks for a summary of a text means all of it. So it goes on as it
came, whatever the budget. Where the provider finds it too long, nothing would be answered at all; only then it is sent
once more with its middle left out, which a mark in its place tells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from summarizing_context.messages.estimate import estimate_text, estimate_texts
from summarizing_context.proxy.dialects.base import Asked, Dialect
from summarizing_context.settings.values import Settings
from summarizing_context.views.shrunk_messages import Price, shrink_message

_LEAST = 3_000  # tokens: what is shorter is not too long for any model, whatever the words of an error


@dataclass(frozen=True, slots=True)
class LoneMessage:
    """A request of one message."""

    body: bytes
    asked: Asked
    dialect: Dialect

    def shorter(self, share: float) -> LoneMessage | None:
        """The same within a share of its tokens; None where that is too little."""
        price = Price(estimate_text, Settings().image_tokens)
        message = self.asked.rows[0].message
        tokens = price.message(message)
        beside = estimate_texts(str(each) for each in self.asked.beside)
        cap = int((tokens + beside) * share) - beside
        if cap < _LEAST:
            return None
        shown = shrink_message(message, tokens, cap, price)
        if shown.tokens > cap:
            return None
        return replace(self, body=self.dialect.write(self.asked, [(shown.message, None)]))
