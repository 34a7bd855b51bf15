"""The package's strategies as arms: a context gets the session, and gives a view at each cut.

Each view is asked for under a provider of its own, so it follows an activation, as after a restart. All summaries are
ready by then. A search over budgets fits a view to a number of tokens.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from math import sqrt
from types import SimpleNamespace

from summarizing_context.assembly import open_context
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import BudgetError
from summarizing_context.evaluation.arms import (
    TOLERANCE,
    ArmView,
    Node,
    PartName,
    Piece,
    filled_up,
    texts_of,
)
from summarizing_context.evaluation.cases.model import Case
from summarizing_context.evaluation.view_parts import is_header
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.messages.search_terms import query_terms
from summarizing_context.settings.values import Settings, without_default_cap
from summarizing_context.summarizers.base import Summarizer
from summarizing_context.views.ledger_section import is_ledger

_FIRST = 2.5  # times the tokens of a view: the first budget that is tried for it

_NEVER = 1_000  # failures in a row

_TRIES = 10

_SETTLING = 2  # views of one budget: a merge that the first lacks is in the second

_SHY = 0.92  # a view may not be larger than what is asked for: aim a little lower


class StrategyArm:
    """One strategy's context, fed with one session as far as its cuts ask."""

    def __init__(self, context: SummarizingContext, case: Case, *, has_ledger: bool) -> None:
        self._context, self._case, self._has_ledger = context, case, has_ledger
        self._fed = 0
        self._views_taken = 0

    @property
    def model_tokens(self) -> int:
        """Tokens that a model has read and written for this arm's summaries."""
        found = self._context.statistics()
        return found.model_input_tokens + found.model_output_tokens

    @property
    def dropped_lines(self) -> int:
        """Lines that the literal gate took out of a model's summaries."""
        return self._context.statistics().dropped_lines

    async def feed(self, cut: int) -> None:
        """Add the messages before a cut, and let every summary be made."""
        await self._context.set_messages(self._case.messages[:cut])
        self._fed = cut
        await self._context.wait_idle()

    async def view(self, budget: int) -> ArmView | None:
        """The view at a budget, with all that a model has to make for it; None where no lawful view fits it."""
        for _ in range(_SETTLING):
            self._views_taken += 1
            provider = SimpleNamespace(name=f"{self._fed}-{self._views_taken}")
            try:
                await self._context.get_messages_for_request(token_budget=budget, provider=provider)
            except BudgetError:
                return None
            nodes = self._context.explain(drops=False)
            await self._context.wait_idle()  # else what is asked of a model would depend on when it answers
            if not any(node.segments > 1 and node.made_by == "stand-in" for node in nodes):
                break
        return self._shown()

    async def recall(self, query: str, tokens: int) -> str:
        """One page about a query, after a view was asked for."""
        return (await self._context.recall(query, tokens)).text if query_terms(query) else ""

    def drops(self) -> dict[range, tuple[str, ...]]:
        """The nodes of the newest view, each with the values that it says it does not hold."""
        return {range(node.start, node.stop): node.drops for node in self._context.explain()}

    async def paragraph(self, node: range, tokens: int) -> str:
        """One page about the messages of a node."""
        return (await self._context.expand((node.start, node.stop), "paragraph", tokens)).text

    async def hits(self, query: str, limit: int) -> list[range]:
        """The messages that a search for these words finds."""
        if not query_terms(query):
            return []
        return [range(hit.start, hit.stop) for hit in await self._context.search(query, limit=limit)]

    async def fitted(self, tokens: int, *, tries: int = _TRIES) -> ArmView | None:
        """The largest view of at most `tokens` tokens that is found, filled up with what stands before its tail.

        After so many `tries` the best is taken; where none fits, it goes on to the usual number.
        """
        best: ArmView | None = None
        budget, fits, exceeds = float(tokens) * _FIRST, 0.0, 0.0
        for tried in range(_TRIES):
            if tried >= tries and best is not None:
                break
            view = await self.view(round(budget))
            if view is None or view.tokens <= tokens:
                fits = max(fits, budget)
                best = view if view and (best is None or view.tokens > best.tokens) else best
            else:
                exceeds = min(exceeds or budget, budget)
            if best is not None and best.tokens >= tokens * (1 - TOLERANCE / 2):
                break
            elsewhere = (tokens / view.tokens) ** 1.5 * _SHY if view else 1.5
            budget = sqrt(fits * exceeds) if fits and exceeds else budget * elsewhere
        if best is None:
            return None
        older = texts_of(self._case.messages[: best.raw_from])
        return filled_up(best, [text for texts in older for text in texts], tokens)

    def summaries(self) -> list[Node]:
        """Each segment's own summary, oldest first."""
        return [Node(node.start, node.stop, node.text, node.passes) for node in self._context.summaries()]

    def _shown(self) -> ArmView:
        view, explained = self._context.last_view, self._context.explain(drops=False)
        assert view is not None
        header = next((at for at, message in enumerate(view.messages) if is_header(message)), None)
        stop = explained[-1].stop if explained else 0
        pieces: list[Piece] = []
        for at, texts in enumerate(texts_of(view.messages)):
            part: PartName = "summary" if at == header else "frame" if header is None or at < header else "tail"
            pieces += [Piece("ledger" if is_ledger(text) else part, text) for text in texts]
        nodes = tuple(Node(node.start, node.stop, node.text, node.passes) for node in explained)
        made = ArmView(pieces=tuple(pieces), tokens=view.tokens, nodes=nodes, raw_from=stop)
        return replace(made, facts=self._facts()) if self._has_ledger else made

    def _facts(self) -> tuple[tuple[str, str], ...]:
        """What the ledger says was last done to each path."""
        facts = self._context.ledger()
        return tuple((fact.value, fact.operation) for fact in facts if fact.kind == "path" and not fact.superseded)


@asynccontextmanager
async def open_arm(settings: Settings, case: Case, summarizer: Summarizer | None = None) -> AsyncIterator[StrategyArm]:
    """A strategy's arm for one session, in memory, counting by the estimate that stays as it is."""
    settings = replace(
        settings,
        store=":memory:",
        session_id="eval",
        image_tokens=0,
        idle_after=None,
        start_at=0.0,  # summaries of everything, whatever the budget
    )
    if summarizer is not None:  # which calls a breaker lets through depends on their order, and so would the views
        settings = replace(without_default_cap(settings), breaker_failures=_NEVER)
    async with open_context(settings, summarizer=summarizer, count_tokens=estimate_text) as context:
        yield StrategyArm(context, case, has_ledger=settings.ledger_share > 0 and settings.strategy != "truncate")
