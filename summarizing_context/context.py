"""`SummarizingContext`: the contract's methods, and all that can be asked of a session's past."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Any, Literal

import anyio

from summarizing_context.commands import CommandResult, run_command
from summarizing_context.concurrency import finish_despite_cancellation, in_turns
from summarizing_context.errors import PinNotFoundError, SettingsError, briefly
from summarizing_context.log.entries import Entry, make_entry
from summarizing_context.log.message_log import BoundThinking, Fact, OpenCall, Pin, Plan, StandingRule
from summarizing_context.messages.reading import Message, check_message, encodable
from summarizing_context.models import FREE, NO_PROVIDER, ModelTable, ProviderWindow, read_provider
from summarizing_context.retrieval.embeddings import EmbeddingSearch
from summarizing_context.retrieval.pages import Detail, Page, Pages, Place
from summarizing_context.retrieval.search import Memory, find_hits
from summarizing_context.retrieval.tools import answer_compact, answer_memory_call, answer_recall
from summarizing_context.sessions.session import BudgetReport, CacheLedger, FollowReport, Session, Statistics, Took
from summarizing_context.settings import Settings
from summarizing_context.stores.base import Checkpoint, SearchHit
from summarizing_context.summarizers.extractive import ExtractiveSummarizer
from summarizing_context.summarizers.resilience import ResilientSummarizer
from summarizing_context.views.builder import Prompt, View
from summarizing_context.views.view import ActivationRecord, ActivationReport, ActivationRequest, decode_state
from summarizing_context.worker.summary_cache import HeaderNode, Node, check_focus, stand_ins

logger = logging.getLogger("summarizing_context")  # one name for all sessions, as the documents give it

_LEAST_RECALLED = 240  # tokens that a page about a message may take in a small room
_QUESTION = "?？؟"  # its marks: work that is asked for needs the past less, and each page takes room
USEFUL_ROOM = 4_000  # tokens beside system rows and tools, below which a view holds a few steps of an agent


class SummarizingContext:
    """A session that stays inside the model's window. Made by `open_context`; safe for any number of tasks of the
    event loop in which it was opened.

    Every method raises `ContextClosedError` after closing, and `WrongEventLoopError` in another event loop."""

    def __init__(
        self,
        session: Session,
        *,
        caller: ExtractiveSummarizer | ResilientSummarizer,
        models: ModelTable,
        embedding_search: EmbeddingSearch | None,
        warns_of_room: bool,
        closing: AsyncExitStack,
    ) -> None:
        self._session = session
        self._caller = caller  # what makes the summaries here
        self._models = models
        # asked for with each view: how long a model's provider keeps a beginning, by what its requests ask for
        self._lifetime_of = lru_cache(16)(lambda model, asked: models.cache_of(model).seconds(asked))
        self._cache = CacheLedger(session, models)
        self._warns_of_room = warns_of_room  # once, that a budget leaves too little of it
        self._closing = closing  # after the worker has stopped
        self.last_view: View | None = None
        """The view handed out last; None before the first."""
        self._ratio, self._samples = 1.0, 0  # tokens that a provider counts for one counted here; of so many requests
        # of requests, as observers and the store know: provider, budget, tokens of prompt and tools, the first one
        self._told: tuple[str | None, int, int, Entry | None] = None, 0, 0, None
        self.memory = Memory(session, embedding_search)
        """What sessions of this project keep for each other: `store`, `retrieve`, `update`, `forget`."""
        self._pages = Pages(session)

    async def add_message(self, message: Message) -> None:
        """Add a message at the end of the log; durable when this returns (ephemeral ones are kept in memory only).
        Messages that are added at the same time stand in the order of the calls.

        Raises `MessageError` for anything but a mapping with a string `role` and JSON values, and `StoreError`; in
        both cases the log is unchanged."""
        session = self._session.check(writes=True)
        await session.append([await session.intake.one(message)])

    async def get_messages_for_request(
        self,
        token_budget: int | None = None,
        provider: Any | None = None,
        *,
        system: Prompt | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> list[Message]:
        """Return the messages of the next request, within the budget, as fresh copies. Never wait for a model.

        The budget in tokens is `token_budget` if given, else what `provider` tells of its window less the answer
        and a margin, else `max_tokens`. `system` is a system prompt, a text or a list of blocks, that is no part of the
        log and leads this view in the place of the log's own; a changed one is the activation `system_changed`. `tools`
        are the definitions of tools that will be sent along, in any provider's form: they only leave less room.
        Raises `BudgetError` when system rows and tools leave no room, and `SettingsError` for other arguments."""
        return (await self.next_view(token_budget, provider, system=system, tools=tools)).messages

    async def next_view(
        self,
        token_budget: int | None = None,
        provider: Any | None = None,
        *,
        system: Prompt | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        bound_thinking: BoundThinking = "kept",
    ) -> View:
        """Like `get_messages_for_request`, but return a `View`. `View.shared` is not copied; do not modify it.

        `bound_thinking` says what is done about signed thinking behind a rewritten beginning: it is `kept` until its
        turn ends, or `needed` by answers to calls, whoever spoke since; the provider is asked to drop it (`asked`); or
        it is `left_out`. `free`: the provider takes calls without it, so that long messages are shown without it."""
        session = self._session.check()
        window = NO_PROVIDER if provider is None else read_provider(provider)
        budget = self._budget_for(token_budget, window)

        def lead() -> None:
            if system is not None or tools or not session.read_only:  # who only looks counts those of the last request
                session.views.system_rows.set_request(system, tools)
            session.log.bound_thinking = bound_thinking

        # who only looks, and names no provider, sees what the last one was shown
        key = session.key if provider is None and session.read_only else window.key
        memories = await self.memory.choose() if session.settings.memory_include == "auto" else ()
        if session.settings.recall_include == "auto" and session.views.covers and not session.read_only:
            await self._recall_for_newest(budget)
        request = ActivationRequest(session.idle, is_due=True, memories=memories)
        report = await session.activate(key, budget, request, begin=lead)
        view, latest = session.views.view(key, budget, report), session.views.latest
        if latest is not None and latest.is_unsaved and latest.state.serial:
            latest.is_unsaved = False
            # a later process gives up the same calls
            await session.save_state(latest.key, latest.state.on(session.log))
        session.key, session.budget, session.requested_at = key, budget, session.clock.now()
        asked, model = window.cache_lifetime, window.model
        session.cache_lifetime = float(asked) if isinstance(asked, int | float) else self._lifetime_of(model, asked)
        self.last_view, fixed = view, session.views.system_rows.tokens
        if self._warns_of_room and 2 * fixed > budget and budget < fixed + USEFUL_ROOM:
            self._warns_of_room = False
            logger.warning(
                "a budget of %s tokens leaves %s, for system rows and tools take %s: views show little of the session; "
                "give at least %s, or fewer tools",
                *(f"{tokens:,}" for tokens in (budget, budget - fixed, fixed, fixed + USEFUL_ROOM)),
            )
        session.loop.call_soon(session.wake)  # the view need not wait for it
        if session.views.latest is not None and not session.read_only:  # a restore may have come meanwhile
            self._cache.send(view, window)
        (told, before, brought, titled), first, fixed = self._told, session.first_request, view.fixed_tokens
        is_other = told != window.key or abs(budget - before) > 0.02 * before
        if is_other:
            changed = {"budget": budget, "before": before or None, "provider": window.key, "window": window.window}
            session.notify("budget_changed", changed)
        if is_other or first is not titled or abs(fixed - brought) > 0.02 * budget:
            self._told = window.key, budget if is_other else before, fixed, first
            warning = "the budget of a session could not be kept with it"
            await session.keep(partial(session.store.save_request, session.id, budget, session.title(), fixed), warning)
        return view

    async def get_messages(self) -> list[Message]:
        """Return the whole log, as received, as fresh copies."""
        return [entry.message() async for entry in in_turns(self._session.check().log.in_order())]

    def open_calls(self) -> list[OpenCall]:
        """Return the tool calls at the end of the log that have no result yet, oldest first. After a crash, run them
        again or answer them with `OpenCall.result` before the next request."""
        return self._session.check().log.open_calls()

    async def set_messages(self, messages: Iterable[Message]) -> None:
        """Replace the log. Summaries whose range still matches are kept, so that an equal prefix costs nothing.

        A log of which any message would be lost is made a checkpoint first, without a copy. Raises as `add_message`
        does; then nothing is replaced."""
        session = self._session.check(writes=True)
        await session.replace(await session.intake.all(messages, session.log.entries))

    async def follow(
        self, messages: Iterable[Message], *, keys: Sequence[str] | None = None, system: Prompt | None = None
    ) -> FollowReport:
        """Bring the log in step with a host's whole history: what is new is added; from the first difference on the log
        is replaced, as `set_messages` does. Raises as that does, and `SettingsError` for wrong `keys`.

        A moved `cache_control` mark is no difference, nor is one text block written as a string. `keys` are the host's
        ids, one a message: a message whose key was followed before is not looked at, so a changed one needs another.
        `system` is a prompt that leads the history."""
        return await self._session.check(writes=True).follow(messages, keys, system)

    async def clear(self) -> None:
        """Empty the log. What it held is made a checkpoint first; `delete_checkpoint` gives it up."""
        await self._session.check(writes=True).replace([])

    def expect_provider(self, provider: Any) -> None:
        """Tell whose window the first request will have to fit; later ones say so themselves."""
        self._session.check()
        if self.last_view is None:
            window = read_provider(provider)
            self._session.key, self._session.budget = window.key, self._budget_for(None, window)

    async def should_compact(self) -> bool:
        """Return whether the next view, for the provider of the last one, would activate. Nothing is done.

        It would for its tokens, for the number of its messages, because the prompt cache is cold, or for other pins,
        signed thinking of a finished turn, memories, or a log that was replaced or restored. Of the request itself, its
        prompt, tools and provider, nothing is known yet."""
        return self._session.check().would_compact(await self.memory.choose(for_now=True))

    async def compact(self, *, focus: str | None = None) -> ActivationReport:
        """Activate now, and leave about the low water raw, if that frees anything. Asked again with nothing said since,
        it only shows summaries that have become ready; `summarize` covers more.

        With a `focus`, the name of a topic in at most 500 characters, the header also keeps a note of what the newest
        covered past says about it: the lines that name the topic. It stays until another focus or a new log replaces
        it. An activation happens then even if it only adds the note; where nothing is covered and nothing is beyond the
        low water, all but the newest 10 messages are. Raise `SettingsError` for a focus that names nothing, or where
        nothing is summarized."""
        return await self._activate(focus)

    def activations(self) -> list[ActivationRecord]:
        """Return each activation of this session, oldest first, those of earlier processes included. None says that it
        can be undone where the view of before the newest lacks room for what was said since, about."""
        session = self._session.check()
        records = list(session.views.records)
        newest = next((one for one in reversed(records) if one.can_undo and not one.is_undone), None)
        if newest and newest.tokens_before + session.used_tokens() - newest.tokens_after > session.budget:
            return [one._replace(can_undo=False) for one in records]
        return records

    async def undo_activation(self) -> ActivationReport:
        """Take back the last activation that covered messages: the next view is the one of before it, and what was said
        since. It stays until it needs another activation, as long as no one asks for one. Called again, the one before
        is taken back. Durable; an activation itself, with the reason `restored`. Raises `UndoError`."""
        made = await self._session.check(writes=True).undo()
        before, after = made.tokens_before, made.tokens_after
        return ActivationReport(True, made.reason, before, after, before - after)

    async def undo_outlook(self) -> ActivationRecord:
        """Return the record that `undo_activation` would make now. Nothing is done. Raises `UndoError`."""
        return await self._session.check().undo(only_looks=True)

    async def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until no summary is being made or could be, and no memory is being learnt.

        Return True once every summary is there that the session wants. Return False after `timeout` seconds, and at
        once where nothing can be made for now though some are missing: the breaker is open, a cap is reached, or a
        reply was refused. `statistics()` tells how many (`summaries_pending`) and why (`breaker`, `cap_reached`,
        `last_error`)."""
        self._session.check()
        if timeout is not None and (not isinstance(timeout, int | float) or timeout != timeout):
            raise SettingsError(f"timeout is {briefly(timeout)}; it is a number of seconds, or None")
        with anyio.move_on_after(None if timeout is None else max(0, min(timeout, 1e9))):
            self._session.wake()
            is_idle = await self._session.worker.wait_idle()
            if self._session.learner is not None:
                await self._session.learner.settle()
            return is_idle and not self._session.worker.pending
        return False

    async def observe_usage(
        self,
        input_tokens: int,
        *,
        cache_read: int = 0,
        cache_write: int = 0,
        cache_write_long: int = 0,
        output_tokens: int = 0,
    ) -> None:
        """Tell how many tokens the provider counted for the last view; budgets from its window follow that, and
        `statistics().cache` counts them.

        `input_tokens` are those neither read from nor written to a cache; `cache_write_long` those written for longer
        than usual, such as an hour with Anthropic, which are no part of `cache_write`. Without any of them the request
        counts as failed: it is left out of these figures."""
        self._session.check()
        took = Took(input_tokens, cache_read, cache_write, cache_write_long, output_tokens)
        for count in took:
            if type(count) is not int or count < 0:
                raise SettingsError(f"observe_usage got {briefly(count)}; usage is in tokens, ints of at least 0")
        if (view := self.last_view) is not None:
            # of a request too small to tell nothing is learnt, nor of figures that cannot be about the same text
            counted = view.tokens + view.fixed_tokens
            if counted >= 200 and counted / 5 <= took.total <= counted * 5:
                self._samples += 1  # a plain mean at first, then a moving one, within bounds
                ratio = min(max(took.total / counted, 0.5), 2.5)
                self._ratio += max(0.2, 1 / self._samples) * (ratio - self._ratio)
                learnt = {"ratio": round(self._ratio, 4), "samples": self._samples}
                self._session.notify("usage_calibrated", {**learnt, "reported": took.total, "counted": counted})
            self._cache.tell(took)

    def statistics(self) -> Statistics:
        """Return the figures of this session since it was opened."""
        session, calls = self._session.check(), asdict(self._caller.statistics())
        price = self._models.price_of(self._caller.model) if session.summaries.by_model else FREE
        used = (calls[f"model_{what}_tokens"] for what in ("input", "output", "cached"))
        log, worker, learner, views = session.log, session.worker, session.learner, session.views
        missing, nodes, latest = session.summaries.without_summary(), self.explain(), views.latest
        told = calls.pop("last_error") or worker.failure.error or self.memory.last_error or session.last_error
        return Statistics(
            messages=len(self),
            history_tokens=log.history_tokens,
            segments=len(log.segments),
            summaries_ready=len(log.segments) - len(missing),
            summaries_pending=worker.pending,
            summaries_failed=worker.failure.failed,
            activations=session.activations.total(),
            activations_by_reason=dict(session.activations),
            **calls,  # those of calls have the same names there
            estimated_cost=None if price is None else price.cost(*used),
            cache=self._cache.figures(),
            stand_ins=stand_ins(nodes),
            stand_ins_total=views.stand_ins_shown,
            memories_dropped=learner.dropped if learner else 0,
            repairs=dict(views.repairs),
            pins_left_out=latest.state.pins_left_out if latest else 0,
            rules_left_out=latest.state.rules_left_out if latest else 0,
            elided_tokens=views.left_out,
            max_passes=max((node.passes for node in nodes), default=0),
            lag_tokens=sum(log.segments[at].size // log.segments[at].parts for at in missing),
            least_useful_budget=views.system_rows.tokens + USEFUL_ROOM,
            token_counter=session.counter.name,
            store=session.store.name,
            last_error=told or (learner and learner.last_error),
            last_error_at=worker.failure.at,
        )

    def __len__(self) -> int:
        """Return the number of messages of the log."""
        return self._session.log.messages

    def __bool__(self) -> bool:
        return True

    async def close(self) -> None:
        """End every task, finish the queued writes, give up the session. Takes at most two seconds."""
        if not self._session.closed:
            self._session.check().closed = True
            with anyio.CancelScope(shield=True):
                await finish_despite_cancellation(self._end())

    async def _end(self) -> None:
        async with self._closing as ends:  # each of them, whatever the others do
            if (learner := self._session.learner) is not None:
                ends.push_async_callback(learner.close)
            ends.push_async_callback(self.memory.close)
            await self._session.worker.stop()
            if learner is not None:  # learn what the session teaches, within a second
                await learner.leave(1.0)

    def budget(self) -> BudgetReport:
        """Return how much of the last request's budget the view takes as it stands; `max_tokens` before the first.

        In a reopened session that is the budget of the provider that was named last."""
        session = self._session.check()
        used = min(session.used_tokens(), session.budget)
        return BudgetReport(session.budget, used, used / session.budget)

    def has_space(self, message: Message) -> bool:
        """Return whether the message fits into the budget as it is, without any compaction. Raises `MessageError`."""
        session = self._session.check()
        entry = make_entry(check_message(message), session.counter)
        return session.used_tokens() + entry.cost(session.settings.image_tokens) <= session.budget

    async def make_space(self, tokens: int) -> ActivationReport:
        """Activate now unless so many tokens are free; the report tells what the view takes after it."""
        session = self._session.check()
        if isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 <= tokens <= session.budget:
            raise SettingsError(f"make_space got {briefly(tokens)}; tokens are an int from 0 to {session.budget}")
        now = session.used_tokens()
        if now + tokens > session.budget:
            return await self._activate()
        return ActivationReport(False, "explicit", now, now, 0)

    def standing_rules(self) -> list[StandingRule]:
        """Return the rules that the human has typed, oldest first, those that a later message ends included."""
        return list(self._session.check().log.rules.all())

    async def plan(self) -> Plan | None:
        """Return the newest plan or to-do list of the log, as a tool wrote it; None without one or if it is empty."""
        newest = self._session.check().log.kept_texts.plan()
        return newest and Plan("\n".join(item.line for item in newest.items), newest.message)

    def ledger(self) -> list[Fact]:
        """Return what calls, results and the human's words tell of the whole log, oldest first: paths, commands,
        errors, URLs, identifiers, decisions and standing rules. No model is asked."""
        session = self._session.check()
        return sorted([*session.ledger.facts(), *session.log.rules.facts()], key=lambda fact: fact.start)

    async def summarize(self, keep_recent: int = 10, *, focus: str | None = None) -> ActivationReport:
        """Activate now, and leave only the newest messages raw, so many or a few more: groups stay whole. With a
        `focus`, a topic, the header also keeps a note about it, as `compact` says.

        Where no more than these are raw, only summaries that have become ready are shown. A view that would grow by it
        stays as it is, unless it is for the note, or takes up memories or pins; where a model's summary may be shorter,
        it is made, and asking again shows it. Raises `SettingsError`.
        """
        self._session.check()
        if isinstance(keep_recent, bool) or not isinstance(keep_recent, int) or keep_recent < 1:
            raise SettingsError(f"keep_recent is {briefly(keep_recent)}; it is a number of messages, at least 1")
        return await self._activate(focus, keep_messages=keep_recent)

    async def compress(self, importance_threshold: float) -> ActivationReport:
        """Activate now and cover all but the newest group, or `keep_recent` messages: what is at least so important
        (0 to 1) stays word for word, in at most a fifth of the room, and the rest is summarized.

        A view that would grow by it stays as it is: then `activated` is false. Else later activations go by the
        threshold too, until another call sets one or the log is replaced. Raises `SettingsError`.
        """
        self._session.check()
        threshold = importance_threshold
        if isinstance(threshold, bool) or not (isinstance(threshold, int | float) and 0 <= threshold <= 1):
            raise SettingsError(f"importance_threshold is {briefly(threshold)}; it is a number from 0 to 1")
        return await self._activate(keep_from=float(threshold))

    def should_compress(self) -> bool:
        """Like `should_compact`, in a plain function: it knows the memories that were looked up last."""
        return self._session.check().would_compact(self.memory.chosen)

    async def pin(self, index_or_text: int | str) -> str:
        """Keep a message, by its index in the log, or a text in every view; return the id to unpin it with.

        Durable. Whatever is pinned enters the next view if the past that it stands in is covered. Pins go along with
        checkpoints and forks; one whose message leaves the log goes with it. Raises `SettingsError`."""
        session, what = self._session.check(writes=True), index_or_text
        log = session.log
        if isinstance(what, bool) or not isinstance(what, int | str):
            raise SettingsError(f"what is pinned is a message's index (int) or a text (str), not {type(what).__name__}")
        if isinstance(what, str) and (not what.strip() or len(what) > 2_000 or encodable(what) != what):
            raise SettingsError("a pinned text has 1-2,000 whole characters; pin its message by the index")
        async with session.changing:
            if isinstance(what, str):
                pin = Pin("", text=what)
            elif 0 <= what < len(log):
                pin = Pin("", what, content=log.entries[what].facts.content.hex())
            else:
                raise SettingsError(f"there is no message {briefly(what)} to pin; the log has {len(log)}, from 0 on")
            changed, id = log.pinned.added(pin)
            await session.keep_pins(changed)
        return id

    async def unpin(self, id: str) -> None:
        """Give up what `pin` pinned. Raises `PinNotFoundError`."""
        session = self._session.check(writes=True)
        async with session.changing:
            changed = session.log.pinned.without(id)
            if changed is None:
                has = ", ".join(pin.id for pin in session.log.pinned.pins) or "none"
                raise PinNotFoundError(f"the session has no pin of this id; it has {has:.200}")
            await session.keep_pins(changed)

    def pins(self) -> list[Pin]:
        """Return what is pinned by `pin`, oldest first."""
        return list(self._session.check().log.pinned.pins)

    async def checkpoint(self, name: str | None = None) -> str:
        """Keep the present log, without ephemeral messages, and what is shown of it; return the id to go back to it."""
        return (await self._session.check(writes=True).save_checkpoint(name)).id

    async def restore(self, id: str) -> str:
        """Go back to a checkpoint, named by its id or its name: the next view is the view of then.

        Nothing is lost: the present becomes a checkpoint, whose id is returned. Raises `CheckpointNotFoundError`.
        """
        return (await self._session.check(writes=True).restore(_checkpoint_id(id))).id

    async def fork(self, id: str, session_id: str) -> str:
        """Begin another session, in the same store, that goes on from a checkpoint; open it by its `session_id`.

        Raises `CheckpointNotFoundError`, and `SessionExistsError` where the id is taken.
        """
        session, at = self._session.check(writes=True), _checkpoint_id(id)
        fork = Settings(session_id=session_id).session_id
        await session.store.fork(session.id, at, fork)
        return fork

    async def list_checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoints of this session, oldest first."""
        session = self._session.check()
        return await session.store.checkpoints(session.id)

    async def delete_checkpoint(self, id: str) -> None:
        """Forget a checkpoint. What only it needed leaves the file with the store's next `purge`."""
        session = self._session.check(writes=True)
        await session.store.delete_checkpoint(session.id, _checkpoint_id(id))

    def should_checkpoint(self) -> bool:
        """Return whether a multiple of `checkpoint_interval_messages` was reached and its checkpoint is still due."""
        return self._session.check().checkpoint_is_due

    async def search(
        self, query: str, *, scope: Literal["session", "project", "all"] = "session", limit: int = 10
    ) -> list[SearchHit]:
        """Return messages, summaries and memories that hold the query's words, and, with an embedding, memories near to
        its meaning; the best first. `scope` says whose messages: the memories are those that this session shares, or,
        with `all`, all of the store. A query is plain words; nothing in it is an operator."""
        session = self._session.check()
        return await find_hits(session, self.memory, query, scope, limit)

    async def expand(
        self, node_or_range: Place, detail: Detail = "full", max_tokens: int = 2_000, cursor: str | None = None
    ) -> Page:
        """Return what stands behind a node of the header, or any messages of the log: a `line`, a `paragraph` or in
        `full`.

        A node is named as in the header, `12-47`; so are ranges, `12..47`; a pair (12, 48) leaves out its end. Of at
        most `max_tokens`, fenced as data; `next_cursor` reads on. Raises `NodeNotFoundError` and `SettingsError`."""
        self._session.check()
        return self._pages.expand(node_or_range, detail, max_tokens, cursor)

    async def recall(self, query: str, max_tokens: int = 2_000) -> Page:
        """Return what the log holds about a query, in plain words, and the view does not show: excerpts of the best
        messages, cited by message. Raises `SettingsError`."""
        self._session.check()
        return await self._pages.recall(query, max_tokens)

    async def call_recall_tool(self, arguments: object) -> str:
        """Return the answer to a model's call of `context_recall`, whose schema `recall_tool_schema()` gives. Arguments
        are an object, or JSON; the answer says what is wrong with them."""
        self._session.check()
        return await answer_recall(self._pages, self._session.budget, arguments)

    async def call_compact_tool(self, arguments: object) -> str:
        """Return the answer to a model's call of `context_compact`, whose schema `compact_tool_schema()` gives, as for
        `call_recall_tool`. Add the call and this answer to the log: the next view then covers what came before."""
        self._session.check()
        return answer_compact(arguments)

    async def call_memory_tool(self, name: str, arguments: object) -> str:
        """Return the answer to a model's call of one of the tools whose schemas `memory_tool_schemas()` gives, as for
        `call_recall_tool`. Raises `SettingsError` for another tool."""
        self._session.check()
        return await answer_memory_call(self.memory, name, arguments)

    async def handle_command(self, text: str) -> CommandResult:
        """Run what was typed after `/context`, such as `status` or `search failed deploy`; `help` lists all. What is
        wrong with a command stands in its result."""
        self._session.check()
        return await run_command(self, text)

    def explain(self) -> list[HeaderNode]:
        """Return which past each block of the present header stands for, oldest first."""
        latest = self._session.check().views.latest
        return [] if latest is None else list(latest.state.nodes)

    async def header_since(self, number: int) -> list[HeaderNode] | None:
        """Return the blocks that stood for the past from an activation to the next one of its provider, or stand for it
        now. None where there is no such activation, the store keeps them no longer, or the log was replaced since."""
        session = self._session.check()
        later = [one for one in session.views.records if one.number >= number]
        if not later or (record := later.pop(0)).number != number:
            return None
        if record.log_version != session.views.records[-1].log_version:
            return None
        changed = (one for one in later if one.can_undo or one.undoes is not None)
        if (following := next((one for one in changed if one.provider == record.provider), None)) is None:
            return self.explain()
        data = await session.store.state_before(session.id, following.number)
        return None if data is None else list(decode_state(data).nodes)

    def summaries(self) -> list[HeaderNode]:
        """Return each segment's own summary as it stands now, oldest first, whether or not a view shows it."""
        session = self._session.check()
        return session.summaries.blocks(Node.leaves(0, len(session.log.segments)))

    def unseen_tokens(self) -> int:
        """Return tokens that have left the raw tail and that neither a summarizer nor the extractive pass has read."""
        session = self._session.check()
        latest = session.views.latest
        return 0 if latest is None else session.summaries.unseen_tokens(latest.state.leaves)

    def _budget_for(self, token_budget: int | None, window: ProviderWindow) -> int:
        """Return the budget of a request, in tokens: exactly `token_budget` if given, else the provider's window less
        its output and a margin (capped by `max_tokens` if the user set that), else `max_tokens`."""
        settings = self._session.settings
        if token_budget is not None:
            is_int = isinstance(token_budget, int) and not isinstance(token_budget, bool)
            if not is_int or not 0 < token_budget < 2**63:
                raise SettingsError(f"token_budget is {briefly(token_budget, 60)}; it is a positive int, or None")
            return int(token_budget)  # the default of `max_tokens` is a kind of int of its own
        # Never more than the window has: what made a provider count less, such as images that it has for less, may have
        # left the next view.
        tokens = int((window.window or 0) / max(1.0, self._ratio))
        if tokens <= 0:
            return int(settings.max_tokens)
        outputs = (one for one in (settings.reserved_output, window.max_output, 4_096) if one is not None)
        output = min(next(outputs), tokens // 2)  # never more than half for the answer
        budget = max(tokens - output - settings.safety_margin, (tokens - output) // 2)
        return min(budget, int(settings.max_tokens)) if settings.max_tokens_is_set else budget

    async def _recall_for_newest(self, budget: int) -> None:
        """Have views show a page about the newest message behind it, where a person asks something there. Pages of one
        view cite other messages, and take a tenth of the room at most."""
        session, log, version = self._session, self._session.log, self._session.log.version
        latest, at = session.views.latest, len(log.entries) - 1
        if latest is None or not log.humans or log.humans[-1] != at:
            return
        entry, room = log.entries[at], budget - session.views.system_rows.tokens
        most = int(max(0.04 * room, min(_LEAST_RECALLED, 0.1 * room)))
        later = map(log.entries.__getitem__, log.humans[bisect_left(log.humans, latest.state.stop) :])
        known = [one.recalled for one in later if one.recalled is not None]
        taken = sum(page.page.facts.text_tokens for page in known)
        said = "\n".join(entry.read(at).reading.typed)[:8_000]  # characters for which the past is searched
        has_room = most >= _LEAST_RECALLED / 2 and taken + most <= 0.1 * room
        if entry.recalled is not None or not has_room or not any(mark in said for mark in _QUESTION):
            return
        shown = {*log.pinned.indexes, *(index for page in known for index in page.cited)}

        async def look() -> None:
            recalled = await self._pages.about(said, most, shown)
            async with session.changing:  # and the log is not being replaced, nor read by a thread
                is_newest = log.version == version and log.entries[-1] is entry
                if recalled is not None and is_newest and entry.recalled is None:
                    await session.recall(recalled)

        await session.keep(look, "the past could not be searched for what a message is about")  # a view is due

    async def _activate(self, focus: str | None = None, **stays: Any) -> ActivationReport:
        session = self._session.check()
        topic = None if focus is None else check_focus(focus)
        if topic is not None and session.settings.strategy == "truncate":
            raise SettingsError("focus has no effect: strategy = 'truncate' makes no summaries; leave it out")
        request = ActivationRequest("explicit", memories=await self.memory.choose(), topic=topic, **stays)
        report = await session.activate(session.key, session.budget, request)
        session.wake()
        if report is None:
            now, _ = session.views.tokens(session.key, session.budget)
            raw = session.views.raw_messages(session.key, session.budget, request)
            return ActivationReport(False, "explicit", now, now, 0, raw)
        return report


def _checkpoint_id(id: object) -> str:
    if not isinstance(id, str):
        raise SettingsError(f"a checkpoint's id is a string, as list_checkpoints() returns it; not {type(id).__name__}")
    return id
