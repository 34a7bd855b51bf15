"""Conversation: the contract's methods, which every host of a context manager calls, and when they may be called.

The methods check and hand on: the log and its activations are changed in `session`. What a session offers beyond the
contract is in `context`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import anyio

from summarizing_context.budgeting import Budgeting
from summarizing_context.compressing import Compressing
from summarizing_context.core.activation import ActivationReport
from summarizing_context.core.door import Message
from summarizing_context.core.entries import Facts
from summarizing_context.core.transcripts import Comparison, Told, compare
from summarizing_context.core.view import View
from summarizing_context.errors import SettingsError, briefly
from summarizing_context.leading import Prompt
from summarizing_context.parts import Parts, gather
from summarizing_context.provider_window import read_provider
from summarizing_context.session import Session
from summarizing_context.statistics import Statistics
from summarizing_context.tokens import usage_total

_LONG = 10**9  # seconds: longer than any program runs


class Conversation:
    """A log of messages and the views of it that fit into a model's window."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._settings = parts.settings
        self._session = Session(parts)
        self._timeline = parts.timeline
        self._viewer = parts.viewer
        self._last_view: View | None = None
        self._compressing = Compressing(self._session)
        self._budgeting = Budgeting(parts.settings, parts.tell)
        self._closing: list[Callable[[], Awaitable[None]]] = []  # of what goes beyond the contract

    async def add_message(self, message: Message) -> None:
        """Add a message at the end of the log; durable when this returns (ephemeral ones are kept in memory only).

        Raises `MessageError` for anything but a mapping with a string `role` and JSON values, and `StoreError`; in
        both cases the log is unchanged.
        """
        self._check(writes=True)
        await self._session.add(await self._parts.intake.one(message))
        await self._after_adding()

    async def get_messages_for_request(
        self,
        token_budget: int | None = None,
        provider: Any | None = None,
        *,
        system: Prompt | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> list[Message]:
        """The messages of the next request, within the budget, as fresh copies. Never waits for a model.

        The budget in tokens is `token_budget` if given, else what `provider` tells of its window less the answer
        and a margin, else `max_tokens`. `system` is a system prompt, a text or a list of blocks, that is no part of the
        log and leads this view in the place of the log's own; a changed one is the activation `system_changed`. `tools`
        are the definitions of tools that will be sent along, in any provider's form: they only leave less room.
        Raises `BudgetError` when system rows and tools leave no room, and `SettingsError` for other arguments.
        """
        self._check()
        window = read_provider(provider)
        budget = self._budgeting.choose(token_budget, window)
        session, lead = self._session, partial(self._viewer.leading.bring, system, tools)
        # who only looks, and names no provider, sees what the last one was shown
        key = session.key if provider is None and self._parts.read_only else window.key
        report = await session.activate(key, budget, "idle" if session.is_idle else None, begin=lead)
        self._budgeting.note(window, budget)
        session.key, session.budget, session.asked_at = key, budget, self._parts.clock.now()
        self._last_view = view = self._viewer.view(key, report)
        self._parts.worker.wake()
        return view.messages

    async def get_messages(self) -> list[Message]:
        """The whole log, as received, as fresh copies."""
        self._check()
        return self._timeline.messages()

    async def set_messages(self, messages: Iterable[Message]) -> None:
        """Replace the log. Summaries whose range still matches are kept, so that an equal prefix costs nothing.

        A log of which any message would be lost is made a checkpoint first, without a copy. Raises as `add_message`
        does; then nothing is replaced.
        """
        self._check(writes=True)
        await self._session.replace(await self._parts.intake.all(messages, self._timeline.entries))

    async def is_transcript(self, messages: Iterable[Message]) -> bool:
        """Whether `messages` are this log as hosts keep it: with nothing missing, by content, but system, developer,
        hook and ephemeral rows. Raises `MessageError`."""
        return (await self.compare_transcript(messages)).is_known

    async def compare_transcript(self, messages: Iterable[Message]) -> Comparison:
        """How far this log and a host's copy of it, `messages`, go together by content. Ephemeral messages of either
        count for nothing. Raises `MessageError`."""
        self._check()
        told = await self._parts.intake.told(messages)
        places = [at for at, row in enumerate(told) if not row.ephemeral]
        found = compare([told[at].content for at in places], (entry.facts for entry in self._timeline.entries))
        return found._replace(told=places[found.told] if found.told < len(places) else len(told))

    async def read_transcript(self, messages: Iterable[Message]) -> tuple[list[Told], list[Facts]]:
        """A host's copy of this log and the log itself, as `core.transcripts` compares them. Raises `MessageError`."""
        self._check()
        told = await self._parts.intake.told(messages)
        return told, [entry.facts for entry in self._timeline.entries]

    async def clear(self) -> None:
        """Empty the log. What it held is made a checkpoint first; `delete_checkpoint` gives it up."""
        self._check(writes=True)
        await self._session.replace([])

    def expect_provider(self, provider: Any) -> None:
        """Tell whose window the first request will have to fit; later ones say so themselves."""
        self._check()
        if self._last_view is None:
            window = read_provider(provider)
            self._session.key, self._session.budget = window.key, self._budgeting.choose(None, window)

    async def should_compact(self) -> bool:
        """Whether the next view, for the provider of the last one, would activate: to cover more of the past (for its
        tokens, for the number of its messages, or because the prompt cache is cold), or to be written anew (other
        pins, signed thinking of a finished turn, memories, a log that was replaced or restored). Nothing is done. Of
        the request itself, its prompt, tools and provider, nothing is known yet."""
        self._check()
        if self._session.look_ahead is not None:
            await self._session.look_ahead()
        return self._session.would_compact()

    async def compact(self, *, focus: str | None = None) -> ActivationReport:
        """Activate now, and leave about the low water raw, if that frees anything. Asked again with nothing said since,
        it only shows summaries that have become ready; `summarize` covers more.

        With a `focus`, the name of a topic in at most 500 characters, the header also keeps a note of what the newest
        covered past says about it: at once the lines that name it, and from the next activation on, or when it is asked
        for again, what the model made of them. The note stays until another focus replaces it, or the log is replaced.
        An activation happens then even if it only adds the note; where nothing is covered and nothing is beyond the low
        water, all but the newest 10 messages are. Raises `SettingsError` for a focus that names nothing, or where
        nothing is summarized.
        """
        self._check()
        return await self._compressing.compact(focus)

    async def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until no summary is being made or could be, and no memory is being learnt; False after `timeout`
        seconds. An open breaker or a reached cap counts as idle."""
        self._check()
        if timeout is not None and (not isinstance(timeout, int | float) or timeout != timeout):
            raise SettingsError(f"timeout is {briefly(timeout)}; it is a number of seconds, or None")
        with anyio.move_on_after(None if timeout is None else max(0, min(timeout, _LONG))):
            is_idle = await self._parts.worker.wait_idle()
            if self._parts.learner is not None:
                await self._parts.learner.settle()
            return is_idle
        return False

    async def observe_usage(self, input_tokens: int, *, cache_read: int = 0, cache_write: int = 0) -> None:
        """Tell how many tokens the provider counted for the last view; budgets from its window follow that.

        `input_tokens` are those neither read from nor written to a cache, in tokens, as are the others.
        """
        self._check()
        total = usage_total(input_tokens, cache_read, cache_write)
        view = self._last_view
        self._budgeting.observe(total, None if view is None else view.tokens + view.fixed_tokens)

    def statistics(self) -> Statistics:
        """The figures of this session since it was opened."""
        self._check()
        return gather(self._parts, self._session.activations, self._session.last_error)

    def __len__(self) -> int:
        """Messages of the log."""
        return len(self._timeline) + len(self._timeline.riders)

    def __bool__(self) -> bool:
        return True

    @property
    def last_view(self) -> View | None:
        """The view handed out last; None before the first."""
        return self._last_view

    async def close(self) -> None:
        """End every task, finish the queued writes, give up the session. Takes at most two seconds."""
        if self._session.closed:
            return
        self._session.closed = True
        with anyio.CancelScope(shield=True):
            async with AsyncExitStack() as ends:  # each of them, whatever the others do
                for close in reversed(self._parts.closing):
                    ends.push_async_callback(close)
                for close in self._closing:
                    ends.push_async_callback(close)
                await self._parts.worker.stop()

    def _check(self, *, writes: bool = False) -> None:
        self._session.check(writes=writes)

    async def _after_adding(self) -> None:
        """Whatever is due now that the log is longer."""
