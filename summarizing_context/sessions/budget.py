"""The budget of a session: how much of it the view takes, and making room in it.

Nothing here waits for a model; how an activation is made is in `session`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from summarizing_context.errors import BudgetError, SettingsError, StoreError, briefly
from summarizing_context.log.entries import make_entry
from summarizing_context.messages.validation import check_message
from summarizing_context.sessions.session import Session
from summarizing_context.views.activation import ActivationReport

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """Tokens of the budget that the last request had, and how many of them the view takes as it stands.

    A log that has outgrown the budget takes all of it, until the next view compacts.
    """

    max_tokens: int
    used_tokens: int
    percent_used: float  # from 0 to 1


class BudgetGauge:
    """What a session's view takes of its budget."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def save(self, budget: int) -> None:
        """Keep the budget of a request with the session, for those who look at the session later."""
        session = self._session
        if session.read_only:
            return
        try:
            with session.foreground.call():
                await session.store.save_budget(session.id, budget)
        except StoreError as error:
            if session.last_error != str(error):
                logger.warning("the budget of a session could not be kept with it: %s", error)
            session.last_error = str(error)

    def report(self) -> BudgetReport:
        """The budget as it stands."""
        budget = self._session.budget
        used = min(self._now(), budget)
        return BudgetReport(budget, used, used / budget)

    def has_space(self, message: object) -> bool:
        """Whether the whole message fits beside what the view takes."""
        counter = self._session.counter
        entry = make_entry(check_message(message), counter.count, counter.name)
        return self._now() + entry.cost(self._session.settings.image_tokens) <= self._session.budget

    async def make_space(self, tokens: int, memories: Sequence[str]) -> ActivationReport:
        """Activate unless so many tokens are free."""
        session = self._session
        if isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 <= tokens <= session.budget:
            raise SettingsError(
                f"make_space was asked for {briefly(tokens)}; it is a number of tokens from 0 to {session.budget}"
            )
        now = self._now()
        report = None
        if now + tokens > session.budget:
            report = await session.activate(session.key, session.budget, "explicit", memories)
        return report if report is not None else ActivationReport(False, "explicit", now, now, 0)

    def _now(self) -> int:
        """Tokens of the view if nothing more is covered."""
        try:
            return self._session.views.tokens(self._session.key, self._session.budget)[0]
        except BudgetError as error:  # the system rows alone leave no room
            return error.required_tokens
