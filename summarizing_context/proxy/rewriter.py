"""From a client's request to the same request with a view of its history, through the session that it belongs to.

A request of one message without tools goes on as it came, whatever the budget, such as a client's own compaction: who
asks for a summary of a text means all of it. Only where the provider finds it too long it is sent once more, with its
middle left out, which a mark in its place tells.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from summarizing_context.adapters.open_sessions import Sessions
from summarizing_context.assembly import Options, open_store
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import BudgetError, StoreError, briefly
from summarizing_context.messages.estimate import estimate_text, estimate_texts
from summarizing_context.proxy.dialects.base import (
    KEY,
    Asked,
    Dialect,
    Fields,
    Memory,
    PassUnchanged,
    Shown,
    bare,
    digest,
    without_halves,
)
from summarizing_context.proxy.feed import Record, Usage
from summarizing_context.proxy.names import Client, Names, client_of
from summarizing_context.proxy.summaries import ClientSummarizer
from summarizing_context.proxy.upstream import Headers, Upstream
from summarizing_context.proxy.windows import USUAL, is_known, window_of
from summarizing_context.settings.values import Settings
from summarizing_context.views.shrunk_messages import Price, shrink_message

_MOST_OPEN = 64  # sessions that are open at once

_MOST_KNOWN = 256  # sessions whose last request is remembered

_MOST_RECALLED = 10_000  # beginnings of unnamed clients' histories that were looked for in the store

_MOST_STORED = 8  # sessions of a store that may be those of an unnamed client's history

_TOO_LONG = re.compile(
    r"prompt is too long|context_length_exceeded|maximum context length|exceeds? (?:the )?(?:available )?context"
    r"|context window|input is too long|too many (?:input )?tokens|request_too_large"
)

_NUMBERS = (  # in the words of an error: tokens that were sent, and the most that fits
    re.compile(r"(?<!\d)(?P<sent>\d{4,}+)\D+?>\s*(?P<most>\d{4,})"),
    re.compile(r"maximum context length is (?P<most>\d{4,}) tokens.*?(?P<sent>\d{4,}) tokens", re.DOTALL),
    re.compile(r"\((?P<sent>\d{4,}) tokens\) exceeds.*?\((?P<most>\d{4,}) tokens\)", re.DOTALL),
)

_SMALLEST_WINDOW = 3_000  # tokens: what is shorter is not too long for any model, whatever the words of an error

_LESS = 0.75  # of what was sent, where the provider does not say how much is too much

_MARGIN = 0.95


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A request with a view in it."""

    body: bytes
    record: Record
    asked: Asked
    dialect: Dialect
    client: Client
    window: int  # of the model, in tokens


@dataclass(slots=True)
class _Known:
    """What is remembered of a session between its requests."""

    keys: list[str] = field(default_factory=list)  # of the history that was followed last
    sent: dict[str, list[str]] = field(default_factory=dict)  # names of the messages that were sent last, by model
    ceilings: dict[str, int] = field(default_factory=dict)  # tokens that a model took at most, by model
    summarizer: ClientSummarizer | None = None


class Rewriter:
    """Makes the views of every client. `lends`: summaries are made with the clients' own models and credentials."""

    def __init__(
        self,
        settings: Settings,
        upstream: Upstream,
        *,
        notice: Callable[[str, str], None],
        budget: int | None = None,
        lends: bool = False,
    ) -> None:
        self._settings = settings
        self._notice = notice
        self._upstream = upstream
        self._budget = budget
        self._lends = lends
        self._sessions = Sessions(settings, Options(flushes_behind=True, warns_of_room=False), _MOST_OPEN)
        self._memory = Memory()
        self._names = Names()
        self._recalled: set[str] = set()  # what names of unnamed clients' sessions begin with
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def rewrite(
        self, dialect: Dialect, body: bytes, headers: Headers, *, counts: bool = False
    ) -> Rewritten | LoneMessage:
        """The request with a view, or a lone message as it is. One that only `counts` tokens changes no session.

        Raises `PassUnchanged` where no view can be made, and whatever the session raises.
        """
        try:
            fields: Fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        except msgspec.DecodeError:
            fields = msgspec.json.decode(body := without_halves(body), type=dict[str, msgspec.Raw])
        asked = dialect.read(fields, self._memory)
        if len(asked.rows) < 2 and not asked.has_tools:
            if counts or not asked.rows:
                raise PassUnchanged("a single message is not a session")
            return LoneMessage(body, asked, dialect)
        told = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        client = client_of(told, fields)
        name = await self._name(client, asked)
        known = self._known.get(name)
        keys = [row.key for row in asked.rows]
        if counts and (known is None or keys[: len(known.keys)] != known.keys):
            raise PassUnchanged("tokens are counted of a history that belongs to no session")
        record = Record(name, client.name, dialect.name, asked.model)
        window = window_of(asked.model, told.get("anthropic-beta", ""), client.name)
        if self._budget is None and not is_known(asked.model):
            words = f"the window of the model {briefly(asked.model)} is not known, so it is taken for {USUAL:,} tokens"
            self._notice(f"model {asked.model}", f"{words}; say how large a request may become with --budget")
        asked_now = Rewritten(body, record, asked, dialect, client, window)
        return await self._viewed(asked_now, self._remembered(name, dialect, asked, headers), keys)

    async def shorter(self, before: Rewritten | LoneMessage, answer: str) -> Rewritten | LoneMessage | None:
        """The request once more, shorter, after the provider has found it too long; None where it did not say so."""
        if not _TOO_LONG.search(answer.lower()):
            return None
        if isinstance(before, LoneMessage):
            return await asyncio.to_thread(before.shorter, _share(answer))
        record = before.record
        total = record.view_tokens + record.fixed_tokens
        ceiling = int(min(total * _share(answer), total - 1))
        known = self._known.get(record.session)
        if ceiling < _SMALLEST_WINDOW or known is None:
            return None
        known.ceilings[record.model] = ceiling
        again = replace(before, record=replace(record, replayed=True))
        made = await self._viewed(again, known, [row.key for row in before.asked.rows])
        return made if made.record.view_tokens < record.view_tokens else None

    def was_not_too_long(self, replayed: Rewritten) -> None:
        """The request was refused once more, though it was shorter: something else is wrong with it."""
        if (known := self._known.get(replayed.record.session)) is not None:
            known.ceilings.pop(replayed.record.model, None)

    async def observe(self, record: Record, usage: Usage) -> None:
        """Tell the session what the provider has counted for its last view."""
        if record.changed and usage.total_input:
            async with self._sessions.use(record.session) as context:
                view = context.last_view
                if view is not None and view.tokens == record.view_tokens:
                    await context.observe_usage(usage.input, cache_read=usage.cache_read, cache_write=usage.cache_write)

    async def undo(self, name: str) -> None:
        """Take a session's last activation back. Raises as `undo_activation` does."""
        async with self._sessions.use(name) as context:
            await context.undo_activation()

    async def close(self) -> None:
        """Close every session."""
        await self._sessions.close()

    async def _name(self, client: Client, asked: Asked) -> str:
        if (name := self._names.named(client, asked)) is not None:
            return name
        base = self._names.base(asked)
        if base not in self._recalled:
            await self._recall(base)
        return self._names.found(asked) or self._names.new(asked)

    async def _recall(self, base: str) -> None:
        """Learn the ends of the histories that the store holds of unnamed clients."""
        if len(self._recalled) >= _MOST_RECALLED:
            self._recalled.clear()
        self._recalled.add(base)
        if str(self._settings.store) == ":memory:":
            return
        try:
            store = await open_store(self._settings.store, read_only=True)
        except StoreError:
            return  # there is none yet
        try:
            stored = [info.session_id for info in await store.sessions() if info.session_id.startswith(base)]
        finally:
            await store.close()
        for name in reversed(stored[:_MOST_STORED]):
            async with self._sessions.use(name) as context:
                self._names.remember(name, [str(message.get(KEY)) for message in await context.get_messages()])

    def _remembered(self, name: str, dialect: Dialect, asked: Asked, headers: Headers) -> _Known:
        known = self._known.pop(name, None) or _Known()
        self._known[name] = known
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        if self._lends:
            if known.summarizer is None:
                model = self._settings.model or asked.model
                known.summarizer = ClientSummarizer(self._upstream, dialect.name, model)
            known.summarizer.lend(headers)
        return known

    async def _viewed(self, asked_now: Rewritten, known: _Known, keys: list[str]) -> Rewritten:
        asked, record, dialect = asked_now.asked, asked_now.record, asked_now.dialect
        ceiling = known.ceilings.get(asked.model)
        limits = [limit for limit in (self._budget, ceiling) if limit is not None]
        provider = ModelWindow(dialect.name, asked.model, asked_now.window, asked.max_output)
        async with self._sessions.use(record.session, known.summarizer) as context:
            await context.follow([row.message for row in asked.rows], keys=keys)
            try:
                view = await context.next_view(min(limits, default=None), provider, tools=asked.beside)
            except BudgetError as error:
                if ceiling is not None:
                    raise
                least = _note(record, context, keys)
                record.view_tokens, record.fixed_tokens = record.tokens, error.required_tokens
                record.sent_messages, record.budget, record.activation = len(keys), error.budget_tokens, None
                self._tell_least(record, least)
                return asked_now
            known.keys = keys
            if asked_now.client.id is None:
                self._names.remember(record.session, keys)
            least = _note(record, context, keys)
            record.budget = context.budget().max_tokens
            rows = {row.key: row for row in asked.rows}  # of those that say the same, the newest
            shown: list[Shown] = []
            names: list[str] = []
            for message in view.shared:
                row = rows.get(message.get(KEY, ""))
                row = row if row is not None and message == row.message else None
                shown.append((message, row))
                names.append(digest(msgspec.json.encode(bare(message))) if row is None else row.key)
        record.prefix_kept = _kept(known.sent.get(asked.model), names)
        known.sent[asked.model] = names
        record.changed = names != keys or asked.must_change
        record.sent_messages = len(shown)
        if names != keys and ceiling is None:
            self._tell_least(record, least)
        return replace(asked_now, body=dialect.write(asked, shown)) if record.changed else asked_now

    def _tell_least(self, record: Record, least: int) -> None:
        """Tell of a budget of which system prompt and tools leave too little, where that is so."""
        if record.budget < least:
            record.least_budget = least
            about = f"{record.client} with {record.model}"
            words = f"a budget of {record.budget:,} tokens is too small for {about}: its system prompt and tools alone "
            words += f"take about {record.fixed_tokens:,}; the least useful budget is {least:,} tokens"
            self._notice(f"budget of {about}", words)


def _note(record: Record, context: SummarizingContext, keys: Sequence[str]) -> int:
    """Note what the view of this request was made of, and return the least useful budget."""
    view, figures = context.last_view, context.statistics()
    record.messages, record.tokens = len(keys), figures.history_tokens
    if view is not None:
        record.view_tokens, record.fixed_tokens = view.tokens, view.fixed_tokens
        if view.activation is not None:
            record.activation = view.activation.reason
    return figures.least_useful_budget


def _kept(before: Sequence[str] | None, now: Sequence[str]) -> float | None:
    """The share of what was sent before with which this begins."""
    if not before:
        return None
    same = next((at for at, (one, other) in enumerate(zip(before, now, strict=False)) if one != other), None)
    return round((min(len(before), len(now)) if same is None else same) / len(before), 4)


def _share(answer: str) -> float:
    """How much of what was sent fits, as the provider's words tell."""
    for words in _NUMBERS:
        if (found := words.search(answer)) is not None and (most := int(found["most"])) < (sent := int(found["sent"])):
            return min(_LESS, most / sent * _MARGIN)
    return _LESS


_SMALLEST_MESSAGE = 3_000  # tokens: what is shorter is not too long for any model, whatever the words of an error


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
        if cap < _SMALLEST_MESSAGE:
            return None
        shown = shrink_message(message, tokens, cap, price)
        if shown.tokens > cap:
            return None
        return replace(self, body=self.dialect.write(self.asked, [(shown.message, None)]))


class ModelWindow:
    """A model as `get_messages_for_request` reads providers."""

    def __init__(self, dialect: str, model: str, window: int, max_output: int | None) -> None:
        self.name = dialect
        self._info: Mapping[str, Any] = {"id": model, "context_window": window, "max_output_tokens": max_output}

    def get_model_info(self) -> Mapping[str, Any]:
        return self._info
