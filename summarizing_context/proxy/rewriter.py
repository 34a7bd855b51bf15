"""From a client's request to the same request with a view of its history, through the session that it belongs to.

A request of one message without tools goes on as it came, whatever the budget, such as a client's own compaction: who
asks for a summary of a text means all of it. Only where the provider finds it too long it is sent once more, with its
middle left out, which a mark in its place tells.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from summarizing_context.adapters.open_sessions import Sessions, Window
from summarizing_context.assembly import Options, open_store
from summarizing_context.errors import BudgetError, StoreError, briefly
from summarizing_context.messages.tokens import estimate_text, estimate_texts
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

_OF_LENGTH = re.compile(  # what any error says of a request that is too long: a size, and a limit
    r"(?=.*\b(?:input|prompt|context|token|request))"
    r"(?=.*(?:max|limit|exceed|too (?:long|large|big|many)|longer|larger|greater|more than|range|length|window|size))",
    re.DOTALL | re.IGNORECASE,
)

_LIMIT = re.compile(r"(?:>|max|limit|allowed|context|window)\D{0,60}?(\d{4,})", re.IGNORECASE)
_MOST_WORDS = 4_000  # characters of an error that are read
_NEAR = 0.7  # of the budget: from there on a request may be too long for an error that tells nothing of it
_SMALLEST = 3_000  # tokens: what is shorter is not too long for any model, whatever the words of an error
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
    drops_thinking: bool = False  # which a header has to allow


@dataclass(frozen=True, slots=True)
class LoneMessage:
    """A request of one message."""

    body: bytes
    asked: Asked
    dialect: Dialect
    window: int

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens of the message, and of what is sent beside it."""
        beside = estimate_texts(str(each) for each in self.asked.beside)
        return Price(estimate_text, Settings().image_tokens).message(self.asked.rows[0].message), beside

    def within(self, ceiling: int) -> LoneMessage | None:
        """Return the same in so many tokens; None where it cannot be cut to them."""
        (tokens, beside), message = self.tokens, self.asked.rows[0].message
        if (cap := ceiling - beside) < _SMALLEST:
            return None
        shown = shrink_message(message, tokens, cap, Price(estimate_text, Settings().image_tokens))
        if shown.tokens > cap:
            return None
        return replace(self, body=self.dialect.write(self.asked, [(shown.message, None)]))


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
        self._sessions = Sessions(settings, Options(waits_for_disk=False, warns_of_room=False), _MOST_OPEN)
        self._memory = Memory()
        self._names = Names()
        self._recalled: set[str] = set()  # what names of unnamed clients' sessions begin with
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def rewrite(
        self, dialect: Dialect, body: bytes, headers: Headers, *, counts: bool = False
    ) -> Rewritten | LoneMessage:
        """Return the request with a view, or a lone message as it is. One that only `counts` tokens changes no session.

        Raise `PassUnchanged` where no view can be made, and whatever the session raises.
        """
        try:
            fields: Fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        except msgspec.DecodeError:
            fields = msgspec.json.decode(body := without_halves(body), type=dict[str, msgspec.Raw])
        asked = dialect.read(fields, self._memory)
        told = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        client = client_of(told, fields)
        window = window_of(asked.model, told.get("anthropic-beta", ""), client.name)
        if len(asked.rows) < 2 and not asked.has_tools:
            if counts or not asked.rows:
                raise PassUnchanged("a single message is not a session")
            return LoneMessage(body, asked, dialect, window)

        # the session: by the id that the client sends, else by the end of a history that was followed before
        if (name := self._names.named(client, asked)) is None:
            await self._recall(self._names.base(asked))
            name = self._names.found(asked) or self._names.new(asked)
        keys = [row.key for row in asked.rows]
        known = self._known.get(name) or _Known()
        if counts and (not known.keys or keys[: len(known.keys)] != known.keys):
            raise PassUnchanged("tokens are counted of a history that belongs to no session")
        self._known[name] = known
        self._known.move_to_end(name)
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        if self._lends:
            if known.summarizer is None:
                model = self._settings.model or asked.model
                known.summarizer = ClientSummarizer(self._upstream, dialect.name, model)
            known.summarizer.lend(headers)
        if self._budget is None and not is_known(asked.model):
            words = f"the window of the model {briefly(asked.model)} is not known, so it is taken for {USUAL:,} tokens"
            self._notice(f"model {asked.model}", f"{words}; say how large a request may become with --budget")
        record = Record(name, client.name, dialect.name, asked.model)
        return await self._viewed(Rewritten(body, record, asked, dialect, client, window), known)

    async def shorter(
        self, before: Rewritten | LoneMessage, status: int, answer: str
    ) -> Rewritten | LoneMessage | None:
        """Return the request once more, shorter, after the provider has refused it; None where nothing speaks for that.

        It is done for each 413, for an error that tells of a size and a limit in whatever words, and for any other
        error where the request was near its budget.
        """
        answer = answer[:_MOST_WORDS]
        if isinstance(before, LoneMessage):
            sent, budget = sum(await asyncio.to_thread(lambda: before.tokens)), before.window
        else:
            sent, budget = before.record.view_tokens + before.record.fixed_tokens, before.record.budget
        said = re.sub(r"max_\w*tokens|(?:output|completion) tokens", "", answer)  # of the reply
        if not (status == 413 or _OF_LENGTH.match(said) or sent >= _NEAR * budget):
            return None

        # how much fits: as the error tells, where it names a limit below what was sent
        largest = max(map(int, re.findall(r"\d{4,}", answer)), default=0)
        found = _LIMIT.search(answer)
        limit = int(found[1]) if found else largest
        total = largest if largest > limit else sent
        ceiling = int(sent * (min(_LESS, limit / total * _MARGIN) if 0 < limit < total else _LESS))
        if ceiling < _SMALLEST:
            return None
        if isinstance(before, LoneMessage):
            return await asyncio.to_thread(before.within, ceiling)
        record = before.record
        if (known := self._known.get(record.session)) is None:
            return None
        known.ceilings[record.model] = ceiling
        made = await self._viewed(replace(before, record=replace(record, replayed=True)), known)
        return made if made.record.view_tokens < record.view_tokens else None

    def was_not_too_long(self, replayed: Rewritten) -> None:
        """Forget the ceiling: refused once more, though shorter, the request has something else wrong with it."""
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
        """Take a session's last activation back. Raise as `undo_activation` does."""
        async with self._sessions.use(name) as context:
            await context.undo_activation()

    async def close(self) -> None:
        """Close every session."""
        await self._sessions.close()

    async def _recall(self, base: str) -> None:
        """Learn, once, the ends of the histories that the store holds of unnamed clients."""
        if base in self._recalled:
            return
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

    async def _viewed(self, asked_now: Rewritten, known: _Known) -> Rewritten:
        asked, record, dialect = asked_now.asked, asked_now.record, asked_now.dialect
        keys = [row.key for row in asked.rows]
        ceiling = known.ceilings.get(asked.model)
        limit = min((limit for limit in (self._budget, ceiling) if limit is not None), default=None)
        window = Window(dialect.name, asked.model, asked_now.window, asked.max_output)
        async with self._sessions.use(record.session, known.summarizer) as context:
            await context.follow([row.message for row in asked.rows], keys=keys)
            view, refused = None, None
            try:
                view = await context.next_view(limit, window, tools=asked.beside, bound_thinking=asked.bound_thinking)
            except BudgetError as error:
                if ceiling is not None:
                    raise
                refused = error
            figures, shown_last = context.statistics(), context.last_view
            least = figures.least_useful_budget
            record.messages, record.tokens = len(keys), figures.history_tokens
            if shown_last is not None:
                record.view_tokens, record.fixed_tokens = shown_last.tokens, shown_last.fixed_tokens
                if view is not None and view.activation is not None:
                    record.activation = view.activation.reason
            if view is None:
                assert refused is not None
                record.view_tokens, record.fixed_tokens = record.tokens, refused.required_tokens
                record.sent_messages, record.budget = len(keys), refused.budget_tokens
                self._tell_least(record, least)
                return asked_now
            record.budget = context.budget().max_tokens
            known.keys = keys
            if asked_now.client.id is None:
                self._names.remember(record.session, keys)

            # what the view shows just as the client sent it goes on so
            rows = {row.key: row for row in asked.rows}  # of those that say the same, the newest
            shown: list[Shown] = []
            names: list[str] = []
            for message in view.shared:
                row = rows.get(message.get(KEY, ""))
                row = row if row is not None and message == row.message else None
                shown.append((message, row))
                names.append(digest(msgspec.json.encode(bare(message))) if row is None else row.key)
        if before := known.sent.get(asked.model):
            differ = (at for at, (one, other) in enumerate(zip(before, names, strict=False)) if one != other)
            record.prefix_kept = round(next(differ, min(len(before), len(names))) / len(before), 4)
        known.sent[asked.model] = names
        drops = asked.bound_thinking == "asked" and (names != keys or view.rewritten_prefix)
        record.changed = names != keys or asked.must_change or drops
        record.sent_messages = len(shown)
        if names != keys and ceiling is None:
            self._tell_least(record, least)
        if not record.changed:
            return asked_now
        return replace(asked_now, body=dialect.write(asked, shown, drops_thinking=drops), drops_thinking=drops)

    def _tell_least(self, record: Record, least: int) -> None:
        """Tell of a budget of which system prompt and tools leave too little, where that is so."""
        if record.budget < least:
            record.least_budget = least
            about = f"{record.client} with {record.model}"
            words = f"a budget of {record.budget:,} tokens is too small for {about}: its system prompt and tools alone "
            words += f"take about {record.fixed_tokens:,}; the least useful budget is {least:,} tokens"
            self._notice(f"budget of {about}", words)
