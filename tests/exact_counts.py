"""tiktoken's own counts, for tests that compare with them."""

from __future__ import annotations

import pytest

from summarizing_context.messages.tokens import TokenCounter, load_offline, tiktoken_counter


def exact_counter() -> TokenCounter:
    """Return tiktoken's counter; skip the test where its ranks are not on this machine."""
    encoding = load_offline()
    if encoding is None:
        pytest.skip("needs tiktoken's ranks: install summarizing-context[offline-tokens]")
    return tiktoken_counter(encoding)
