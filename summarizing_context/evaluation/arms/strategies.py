"""Our own strategies as arms: a real context is fed with the session, and asked for a view at each cut.

The view is the one right after an activation, when most is left out: each is asked for under a provider of its own,
as after a restart. All summaries are ready by then. Fitting a view to a number of tokens means finding its budget.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

from summarizing_context.assembly import open_context
from summarizing_context.context import SummarizingContext
from summarizing_context.core.messages import message_text_parts
from summarizing_context.errors import BudgetError
from summarizing_context.evaluation.arms.views import TOLERANCE, ArmView, Node, PartName, Piece, filled_up, texts_of
from summarizing_context.evaluation.cases.model import Case
from summarizing_context.evaluation.finding import is_header
from summarizing_context.ports import Summarizer
from summarizing_context.settings import Settings

_WIDEST = 8.0  # times the tokens of a view, the largest budget that is tried for it
_STEPS = 14  # budgets that are tried in the first round
_REFINED = 5  # and around the best of them


class StrategyArm:
    """One strategy's context, fed with one session as far as its cuts ask."""

    def __init__(self, context: SummarizingContext, case: Case) -> None:
        self._context, self._case = context, case
        self._fed = 0
        self._asked = 0

    async def feed(self, cut: int) -> None:
        """Add the messages before a cut, and let every summary be made."""
        for message in self._case.messages[self._fed : cut]:
            await self._context.add_message(message)
        self._fed = max(self._fed, cut)
        await self._context.wait_idle()

    async def view(self, budget: int) -> ArmView | None:
        """The view at a budget; None where no lawful view fits it."""
        self._asked += 1
        provider = SimpleNamespace(name=f"{self._fed}-{self._asked}")
        try:
            await self._context.get_messages_for_request(token_budget=budget, provider=provider)
        except BudgetError:
            return None
        return self._shown()

    async def fitted(self, tokens: int) -> ArmView | None:
        """The largest view of about `tokens` tokens, filled up with what stands before its tail."""
        best, at = await self._best([int(tokens * _WIDEST ** (step / _STEPS)) for step in range(_STEPS + 1)], tokens)
        if best is None or best.tokens < tokens * (1 - TOLERANCE):
            around = [int(at * (1 + step * 0.16 / _REFINED)) for step in range(1, _REFINED + 1)]
            better, _ = await self._best(around, tokens)
            best = max((view for view in (best, better) if view), key=lambda view: view.tokens, default=None)
        if best is None:
            return None
        return filled_up(best, texts_of(self._case.messages[: best.raw_from]), tokens)

    async def _best(self, budgets: Sequence[int], tokens: int) -> tuple[ArmView | None, int]:
        """The largest view within the tokens, and its budget."""
        best, at = None, tokens
        for budget in budgets:
            view = await self.view(budget)
            if view is not None and view.tokens <= tokens and (best is None or view.tokens > best.tokens):
                best, at = view, budget
            if view is not None and view.tokens > 2 * tokens:
                break
        return best, at

    def _shown(self) -> ArmView:
        view, explained = self._context.last_view, self._context.explain()
        assert view is not None
        header = next((at for at, message in enumerate(view.messages) if is_header(message)), None)
        stop = explained[-1].stop if explained else 0
        pieces: list[Piece] = []
        for at, message in enumerate(view.messages):
            part: PartName = "summary" if at == header else "frame" if header is None or at < header else "tail"
            pieces += [Piece(part, text) for text in message_text_parts(message)]
        nodes = tuple(Node(node.start, node.stop, node.text, node.passes) for node in explained)
        return ArmView(pieces=tuple(pieces), tokens=view.tokens, nodes=nodes, raw_from=stop)


@asynccontextmanager
async def open_arm(settings: Settings, case: Case, summarizer: Summarizer | None = None) -> AsyncIterator[StrategyArm]:
    """A strategy's arm for one session, in memory, counting by the built-in estimate."""
    settings = replace(
        settings,
        store=":memory:",
        session_id="eval",
        token_counter="estimate",
        image_tokens=0,
        idle_after=None,
        start_at=0.0,  # summaries of everything, whatever the budget
    )
    async with open_context(settings, summarizer=summarizer) as context:
        yield StrategyArm(context, case)
