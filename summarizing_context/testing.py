"""For tests of programs that use the package: a scripted summarizer, a store in memory, and `session_check`, which
says whether a session in a budget still answers what it has to.

    summarizer = ScriptedSummarizer()
    async with open_context(Settings(max_tokens=4_000), summarizer=summarizer) as context:
        await context.set_messages(messages)
        view = await context.get_messages_for_request()
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from summarizing_context import Settings, SettingsError, open_store
from summarizing_context.stores.base import SessionStore
from summarizing_context.summarizers.base import Summarizer
from summarizing_context.summarizers.scripted import ScriptedSummarizer as ScriptedSummarizer
from summarizing_context.summarizers.scripted import default_summary as default_summary
from summarizing_context.summarizers.scripted import range_name as range_name


async def memory_store() -> SessionStore:
    """Return an open store that is kept in memory by SQLite; `open_context(settings, store=...)` closes it."""
    return await open_store(":memory:")


class SessionCheck:
    """What the view of one session in one budget still answers: the fixture `session_check` makes it.

        def test_the_release_rules_are_still_answered(session_check):
            check = session_check("run.jsonl", budget=16_000)
            check.answers("never force-push", "src/release.py")
            check.keeps_the_laws()

    Views are those that the agent would have been shown, each judged by the laws, and this is the last one.
    """

    def __init__(self, view: str, broken: dict[str, int], tokens: int, budget: int) -> None:
        self.view, self.broken, self.tokens, self.budget = view, broken, tokens, budget

    def missing(self, *facts: str) -> list[str]:
        """Return those facts that the view does not hold, as whole words, in any case."""
        from summarizing_context.evaluation.views import Text

        text = Text([self.view])
        return [fact for fact in facts if not text.holds(fact)]

    def answers(self, *facts: str) -> None:
        """Fail unless the view holds all these facts."""
        if missing := self.missing(*facts):
            raise AssertionError(f"the view of {self.tokens:,} tokens (budget {self.budget:,}) lacks {missing}")

    def keeps_the_laws(self) -> None:
        """Fail if any view of the session broke a law, such as one that is over its budget or parts a call."""
        if self.broken:
            raise AssertionError(f"laws were broken: {self.broken}")


def check_session(
    session: str | Path | Sequence[dict[str, Any]],
    *,
    budget: int | None = None,
    settings: Settings | None = None,
    summarizer: Summarizer | None = None,
) -> SessionCheck:
    """Play a session in a budget, a transcript of any known format or messages, and return its check.

    Without a `budget` that of the settings counts, where they name one. Without `summarizer` no model is asked,
    whatever the settings name, and prompts of one's own change nothing. Raise `SettingsError` where a view was refused.
    """
    from summarizing_context.evaluation.views import play
    from summarizing_context.messages.tokens import estimate_text
    from summarizing_context.transcripts import read_session

    settings = settings or Settings()
    if budget is None and not settings.max_tokens_is_set:
        raise SettingsError("budget: name the tokens of a view, or set max_tokens in the settings")
    messages = list(read_session(Path(session)).messages if isinstance(session, str | Path) else session)
    budget = budget or int(settings.max_tokens)
    chosen = replace(settings, max_tokens=budget, summarizer="extractive", model=None)
    played = anyio.run(lambda: play(messages, [len(messages)], chosen, summarizer))
    if refused := played.tally.counts["refused_views"]:  # an agent would have had none
        raise SettingsError(f"budget = {budget}: {refused} views of this session do not fit; take a larger budget")
    view = played.views[len(messages)]
    return SessionCheck(view, played.tally.broken_laws(), estimate_text(view), budget)


if "pytest" in sys.modules:  # as a plug-in, by `pytest_plugins = ["summarizing_context.testing"]`
    import pytest

    @pytest.fixture
    def session_check() -> Callable[..., SessionCheck]:
        """Return `check_session`."""
        return check_session
