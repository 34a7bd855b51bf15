"""Groups that stay word for word: what is not worth it."""

from __future__ import annotations

import pytest

from summarizing_context.extraction.importance import Ranked
from summarizing_context.messages.provider_bindings import Bounds
from summarizing_context.views.pins import Pinned, keep_groups
from tests.making import PRICE, answer, reads, room


@pytest.mark.parametrize(("budget", "kept"), [(4_000, 1), (60, 0)])
def test_a_late_result_of_which_no_word_would_be_left_is_not_kept(budget: int, kept: int):
    late = answer("gone-" * 30, "It came late. " * 60)
    found = keep_groups(
        [Ranked(1.0, 0)],
        lambda group: (reads(late), [PRICE.message(late)]),
        room(budget),
        10_000,
        within=(Bounds(), PRICE),
        pinned=Pinned((), ()),
    )
    assert len(found) == kept
