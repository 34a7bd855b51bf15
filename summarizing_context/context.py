"""SummarizingContext: a conversation and all that can be asked of its past.

The methods check and hand on. Those of the contract are in `conversation`.
"""

from __future__ import annotations

from typing import Literal

from summarizing_context.checkpoints import Checkpoints
from summarizing_context.commands import CommandResult, run_command
from summarizing_context.conversation import Conversation
from summarizing_context.core.activation import ActivationReport
from summarizing_context.core.door import Message
from summarizing_context.core.facts import Fact
from summarizing_context.core.header import HeaderNode
from summarizing_context.core.paging import Page
from summarizing_context.core.pinned import Pin
from summarizing_context.core.places import Place
from summarizing_context.expanding import Detail, Expanding
from summarizing_context.memories import Memory
from summarizing_context.memory_tools import MemoryTools
from summarizing_context.parts import Parts
from summarizing_context.pinning import Pinning
from summarizing_context.recall_tool import RecallTool
from summarizing_context.recalling import Recalling
from summarizing_context.searching import Search
from summarizing_context.shelves import Checkpoint, SearchHit
from summarizing_context.spending import BudgetReport, Spending


class SummarizingContext(Conversation):
    """A session that stays inside the model's window. Made by `open_context`; safe for any number of tasks of the
    event loop in which it was opened.

    Every method raises `ContextClosedError` after closing, and `WrongEventLoopError` in another event loop.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._checkpoints = Checkpoints(self._session)
        self._spending = Spending(self._session)
        self._pinning = Pinning(self._session)
        self._memory = Memory(self._session, parts.meaning)
        self._memory_tools = MemoryTools(self._memory)
        self._search = Search(self._session, parts.meaning, self._memory)
        self._expanding = Expanding(self._session)
        self._recalling = Recalling(self._session, self._search)
        self._recall_tool = RecallTool(self._session, self._expanding, self._recalling)
        self._closing.append(self._memory.close)

    def budget(self) -> BudgetReport:
        """How much of the last request's budget the view takes as it stands; `max_tokens` before the first.

        In a reopened session that is the budget of the provider that was named last.
        """
        self._check()
        return self._spending.report()

    def has_space(self, message: Message) -> bool:
        """Whether the message fits into the budget as it is, without any compaction. Raises `MessageError`."""
        self._check()
        return self._spending.has_space(message)

    async def make_space(self, tokens: int) -> ActivationReport:
        """Activate now unless so many tokens are free; the report tells what the view takes after it."""
        self._check()
        return await self._spending.make_space(tokens)

    def ledger(self) -> list[Fact]:
        """What calls, results and the human's words tell of the whole log, oldest first: paths, commands, errors, URLs,
        identifiers, decisions and constraints. No model is asked."""
        self._check()
        return self._parts.ledger.facts()

    async def summarize(self, keep_recent: int = 10, *, focus: str | None = None) -> ActivationReport:
        """Activate now, and leave only the newest messages raw, so many or a few more: groups stay whole. With a
        `focus`, a topic, the header also keeps a note about it, as `compact` says.

        Where no more than these are raw, only summaries that have become ready are shown. A view that would grow by it
        stays as it is, unless it is for the note; where a model's summary may be shorter, it is made, and asking again
        shows it. Raises `SettingsError`.
        """
        self._check()
        return await self._compressing.summarize(keep_recent, focus)

    async def compress(self, importance_threshold: float) -> ActivationReport:
        """Activate now and cover all but the newest group, or `keep_recent` messages: what is at least so important
        (0 to 1) stays word for word, in at most `keep_share` of the room, and the rest is summarized.

        A view that would grow by it stays as it is: then `activated` is false. Else later activations go by the
        threshold too, until another call sets one or the log is replaced. Raises `SettingsError`.
        """
        self._check()
        return await self._compressing.compress(importance_threshold)

    def should_compress(self) -> bool:
        """As `should_compact`, in a plain function: it knows the memories that were looked up last."""
        self._check()
        return self._compressing.should_compress()

    async def pin(self, index_or_text: int | str) -> str:
        """Keep a message, by its index in the log, or a text in every view; the id to unpin it with.

        Durable. Whatever is pinned enters the next view if the past that it stands in is covered. Pins go along with
        checkpoints and forks; one whose message leaves the log goes with it. Raises `SettingsError`.
        """
        self._check(writes=True)
        return await self._pinning.pin(index_or_text)

    async def unpin(self, id: str) -> None:
        """Give up what `pin` pinned. Raises `PinNotFoundError`."""
        self._check(writes=True)
        await self._pinning.unpin(id)

    def pins(self) -> list[Pin]:
        """What is pinned by `pin`, oldest first."""
        self._check()
        return self._pinning.listed()

    async def checkpoint(self, name: str | None = None) -> str:
        """Keep the present state of the session: its log (ephemeral messages excepted) and what is shown of it. The id
        to come back with; no message is copied."""
        self._check(writes=True)
        return (await self._checkpoints.save(name)).id

    async def restore(self, id: str) -> str:
        """Go back to a checkpoint, named by its id or its name: the next view is the view of then.

        Nothing is lost: the present is made a checkpoint before, whose id is returned. Raises
        `CheckpointNotFoundError`.
        """
        self._check(writes=True)
        return (await self._checkpoints.restore(id)).id

    async def fork(self, id: str, session_id: str) -> str:
        """Begin another session, in the same store, that goes on from a checkpoint; open it by its `session_id`.

        Raises `CheckpointNotFoundError`, and `SessionExistsError` where the id is taken.
        """
        self._check(writes=True)
        return await self._checkpoints.fork(id, session_id)

    async def list_checkpoints(self) -> list[Checkpoint]:
        """The checkpoints of this session, oldest first."""
        self._check()
        return await self._checkpoints.listed()

    async def delete_checkpoint(self, id: str) -> None:
        """Forget a checkpoint. What only it needed leaves the file with the store's next `purge`."""
        self._check(writes=True)
        await self._checkpoints.delete(id)

    def should_checkpoint(self) -> bool:
        """Whether a multiple of `checkpoint_interval_messages` was reached and its checkpoint is not made yet."""
        self._check()
        return self._checkpoints.is_due

    @property
    def memory(self) -> Memory:
        """What sessions of this project keep for each other: `store`, `retrieve`, `update`, `forget`."""
        return self._memory

    async def search(
        self, query: str, *, scope: Literal["session", "project", "all"] = "session", limit: int = 10
    ) -> list[SearchHit]:
        """Messages, summaries and memories that hold the query's words, or, with an embedding, come near to its
        meaning; the best first. `scope` says whose messages: the memories are those that this session shares, or, with
        `all`, all of the store. A query is plain words; nothing in it is an operator.
        """
        self._check()
        return await self._search.find(query, scope, limit)

    async def expand(
        self, node_or_range: Place, detail: Detail = "full", max_tokens: int = 2_000, cursor: str | None = None
    ) -> Page:
        """What stands behind a node of the header, or any messages of the log: a `line`, a `paragraph` or in `full`.

        A node is named as in the header, `12-47`; so are ranges, `12..47`; a pair (12, 48) leaves out its end. Of at
        most `max_tokens`, fenced as data; `next_cursor` reads on. Raises `NodeNotFoundError` and `SettingsError`.
        """
        self._check()
        return self._expanding.page(node_or_range, detail, max_tokens, cursor)

    async def recall(self, query: str, max_tokens: int = 2_000) -> Page:
        """What the log holds about a query, in plain words, and the view does not show: excerpts of the best messages,
        and exact values that are likely needed, cited by message. Raises `SettingsError`."""
        self._check()
        return await self._recalling.page(query, max_tokens)

    async def call_recall_tool(self, arguments: object) -> str:
        """The answer to a model's call of `context_recall`, whose schema `recall_tool_schema()` gives. Arguments are an
        object, or JSON; what is wrong with them is told in the answer."""
        self._check()
        return await self._recall_tool.call(arguments)

    async def call_memory_tool(self, name: str, arguments: object) -> str:
        """The answer to a model's call of one of the tools whose schemas `memory_tool_schemas()` gives, as for
        `call_recall_tool`. Raises `SettingsError` for another tool."""
        self._check()
        return await self._memory_tools.call(name, arguments)

    async def handle_command(self, text: str) -> CommandResult:
        """Run what somebody typed after `/context`, such as `status` or `search failed deploy`; `help` lists all. What
        is wrong with a command is told in its result."""
        self._check()
        return await run_command(self, text)

    def explain(self, *, drops: bool = True) -> list[HeaderNode]:
        """Which past each block of the present header stands for, oldest first; and, unless `drops` is false, which
        exact values of it the block does not hold."""
        self._check()
        nodes = [] if self._viewer.latest is None else self._viewer.latest.state.nodes
        return [node._replace(drops=self._expanding.drops(node)) for node in nodes] if drops else list(nodes)

    def summaries(self) -> list[HeaderNode]:
        """Each segment's own summary as it stands now, oldest first, whether or not a view shows it."""
        self._check()
        return self._parts.book.leaves()

    def unseen_tokens(self) -> int:
        """Tokens that have left the raw tail and that neither a summarizer nor the extractive pass has read."""
        self._check()
        latest = self._viewer.latest
        return 0 if latest is None else self._parts.book.unseen_tokens(latest.state.leaves)

    async def _after_adding(self) -> None:
        if self._checkpoints.is_due:
            await self._checkpoints.save_if_due()
