"""From a client's request to the same request with a view of its history, through the session that it belongs to.

A request of one message without tools goes on as it came, such as a client's own compaction, which means all of it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice, takewhile
from typing import Any

from summarizing_context import Settings, load_models
from summarizing_context.adapters.open_sessions import KEY, Sessions, digest_of, model_of, opened_store, session_id_from
from summarizing_context.contrib.inspector import Access
from summarizing_context.contrib.proxy import dialects
from summarizing_context.contrib.proxy.dialects import Asked, Dialect, PassUnchanged, Plugin, Row, Shown
from summarizing_context.contrib.proxy.upstream import ClientSummarizer, Headers, Upstream, Usage, told_window
from summarizing_context.errors import BudgetError, SettingsError, StoreError, SummarizingContextError, briefly
from summarizing_context.messages.reading import read_message

logger = logging.getLogger("summarizing_context.proxy")

_USUAL_WINDOW = 128_000  # of a model that is not known
_ANCHOR = 3  # messages by which the end of a history is known

_OF_LENGTH = re.compile(  # what any error says of a request that is too long: a size, and a limit
    r"(?=.*\b(?:input|prompt|context|token|request))"
    r"(?=.*(?:max|limit|exceed|too (?:long|large|big|many)|longer|larger|greater|more than|range|length|window|size))",
    re.DOTALL | re.IGNORECASE,
)

ANTHROPIC = "https://api.anthropic.com"
OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """How a proxy behaves. `settings` are those of its sessions; their session id is not used."""

    settings: Settings
    anthropic: str = ANTHROPIC
    openai: str = OPENAI
    budget: int | None = None  # tokens; None: by the model's window
    lends: bool = False  # summaries by the client's own model and credentials
    shadow: bool = False  # views are made and told of, and never sent; their summaries cost nothing
    token: str | None = field(default=None, repr=False)
    access: Access = field(default_factory=Access, repr=False)  # to the inspector


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A request, with a view in it where its record says so."""

    body: bytes
    asked: Asked
    dialect: Dialect
    record: Record
    known: Known


@dataclass(slots=True)
class Known:
    """What is remembered of a session between its requests."""

    keys: list[str] = field(default_factory=list)  # of the history that was followed last
    ceilings: dict[str, int] = field(default_factory=dict)  # tokens that a model took at most, by model
    summarizer: ClientSummarizer | None = None
    sums: dict[str, Any] = field(default_factory=dict)  # over its requests; empty before the first has ended


class Rewriter:
    """Makes the views of every client. Where the proxy `lends`, summaries are made with the clients' own models and
    credentials."""

    def __init__(self, proxy: ProxySettings) -> None:
        """Raise `SettingsError`."""
        if proxy.settings.native != "off":  # before any request: it would go on unchanged
            raise SettingsError(
                "native = 'prefer' is not for the proxy; leave it out, clients ask for blocks themselves"
            )
        self.proxy, self.upstream = proxy, Upstream(proxy.anthropic, proxy.openai)
        # by model and client: when its provider was asked last for its window, and its answer
        self._told: dict[tuple[str, str], tuple[float, asyncio.Task[int | None]]] = {}
        self._sessions = Sessions(proxy.settings, most=64, waits_for_disk=False, warns_of_room=False)
        self._recalled: set[str] = set()  # what names of unnamed clients' sessions begin with
        self._known: dict[str, Known] = {}  # the one used last at the end

        # for the status
        self.models = load_models(proxy.settings.prices)
        self._records: deque[Record] = deque(maxlen=500)  # the newest at the end
        self._total = self._plugin_views = 0
        self.passed_unchanged = 0  # requests that no view can be made for
        self.failures = 0  # of the proxy, after which a request went on unchanged
        self.last_failure: str | None = None
        self._notices: dict[str, str] = {}  # by what each is about

    async def rewrite(self, dialect: Dialect, body: bytes, headers: Headers) -> Rewritten:
        """Return the request with a view. Raise `PassUnchanged` where no view can be made, and whatever the session
        raises."""
        asked = dialect.read(dialects.read_fields(body))
        if len(asked.rows) < 2 and not asked.has_tools:
            raise PassUnchanged("a single message is not a session")
        told = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        client, name = session_of(told, asked)
        name = name or await self._unnamed(asked)
        if asked.stands_for is not None:  # the first row stands for messages of a log
            name, count, digest = asked.stands_for
            if name not in self._sessions.contexts() and name not in await self._stored():  # its use would make it
                raise PassUnchanged(f"there is no session {name}")
            async with self._sessions.use(name) as context:
                log = (await context.get_messages())[:count]
            if not 0 < count <= len(log) or dialects.log_digest(log) != digest:
                raise PassUnchanged(f"the session {name} does not hold these {count} messages")
            asked = replace(asked, rows=[*(Row(one, ()) for one in log), *asked.rows[1:]])
        known = self._known[name] = self._known.pop(name, Known())
        if len(self._known) > 1_000:  # the one used longest ago is forgotten
            del self._known[next(iter(self._known))]
        by_plugin = isinstance(dialect, Plugin)  # which brings no credentials of a provider
        if self.proxy.lends and not by_plugin:
            model = self.proxy.settings.model or asked.model
            known.summarizer = known.summarizer or ClientSummarizer(self.upstream, dialect.name, model)
            known.summarizer.lend(headers)
        is_long = "claude" in asked.model and "context-1m" in told.get("anthropic-beta", "")
        window = asked.window or (1_000_000 if is_long else self._window(dialect, asked.model, client, headers))
        asked = replace(asked, session=name, window=window)
        record = Record(name, client, dialect.name, asked.model, by_plugin=by_plugin)
        return await self._viewed(Rewritten(body, asked, dialect, record, known))

    def _window(self, dialect: Dialect, model: str, client: str, headers: Headers) -> int:
        """Return the window of a model; the usual one until its provider has told, for which no request waits."""
        if known := self.models.window_of(model, client):
            return known
        now, key = time.monotonic(), (model, client)
        asked_at, asking = self._told.get(key, (0.0, None))
        tokens = asking.result() if asking is not None and asking.done() else None
        is_due = asking is None or now >= asked_at + 300.0  # seconds
        if tokens is None and is_due and self.proxy.budget is None:

            async def ask() -> int | None:
                tokens = await told_window(self.upstream, dialect.name, model, headers)
                if tokens is None:
                    words = f"the window of the model {briefly(model)} is not known, so it is taken for "
                    words += f"{_USUAL_WINDOW:,} tokens; say how large a request may become with --budget"
                    self.notice(f"model {model}", words)
                return tokens

            if len(self._told) >= 256:
                self._told.pop(next(iter(self._told)))
            self._told[key] = now, asyncio.create_task(ask())
        return tokens or _USUAL_WINDOW

    async def _unnamed(self, asked: Asked) -> str:
        """Return the session of a client without an id: the one whose last messages stand in its history, the nearest
        to its end. What the store holds of histories with this beginning is read once."""
        keys = [row.message[KEY] for row in asked.rows]
        base = f"chat:{keys[0][:12]}:"
        if base not in self._recalled:
            self._recalled.add(base)
            stored = [name for name in await self._stored() if name.startswith(base)]
            for name in reversed(stored[:8]):  # the newest may be this one
                async with self._sessions.use(name) as context:
                    self._known.setdefault(name, Known()).keys = _lasting(await context.get_messages())
        chats = {name: known.keys for name, known in self._known.items() if name.startswith("chat:")}
        ends = {tuple(held[-_ANCHOR:]): name for name, held in chats.items()}
        found = (ends.get(tuple(keys[max(0, stop - _ANCHOR) : stop])) for stop in range(len(keys), 0, -1))
        if (nearest := next(filter(None, found), None)) is not None:
            return nearest

        # one whose newest message the client now shows without the few before it, such as files that move to the end
        for name, held in reversed(chats.items()):
            both = zip(keys[:-1], held[:-1], strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], both))
            if same and len(held) - 1 - same <= _ANCHOR and keys[same] == held[-1]:
                return name
        name = base + digest_of("".join(keys).encode())[:12]
        taken = {*chats, *await self._stored()} if name in chats else ()  # it has gone on: this begins as it did
        return next(one for one in (name, *(f"{name}-{number}" for number in range(2, 10_000))) if one not in taken)

    async def _stored(self) -> list[str]:
        """Return the names of the sessions in the store, that of the newest change first."""
        with suppress(StoreError):  # there is no store yet
            async with opened_store(self.proxy.settings.store, read_only=True) as store:
                return [info.session_id for info in await store.sessions()]
        return []

    async def shorter(self, before: Rewritten, status: int, answer: str) -> Rewritten | None:
        """Return the request once more, shorter, after the provider has refused it: with 413, with an error that tells
        of a size and a limit in whatever words, or with any where it had 70 % of its budget; else None."""
        answer, record = answer[:4_000], before.record
        sent = record.view_tokens + record.fixed_tokens
        said = re.sub(r"max_\w*tokens|(?:output|completion) tokens", "", answer)  # of the reply
        if not (status == 413 or _OF_LENGTH.match(said) or sent >= 0.7 * record.budget):
            return None

        # how much fits: as the error tells, where it names a limit below what was sent; three quarters at most
        largest = max(map(int, re.findall(r"\d{4,}", answer)), default=0)
        found = re.search(r"(?i)(?:>|max|limit|allowed|context|window)\D{0,60}?(\d{4,})", answer)
        limit = int(found[1]) if found else largest
        total = largest if largest > limit else sent
        ceiling = int(sent * min(0.75, limit / total * 0.95 if 0 < limit < total else 1.0))
        if ceiling < 3_000:  # that is not too long for any model, whatever the words of an error
            return None
        before.known.ceilings[record.model] = ceiling
        await self.observe(before)
        made = await self._viewed(replace(before, record=replace(record, replayed=True)))
        return made if made.record.view_tokens < record.view_tokens else None

    async def observe(self, made: Rewritten) -> None:
        """Tell the session what was counted for its last view, where that is known: nothing where it has failed."""
        record = made.record
        usage = record.usage if 200 <= record.status < 300 else Usage()
        async with self._sessions.use(record.session) as context:
            view = None if self.proxy.shadow else context.last_view
            if usage is not None and view is not None and view.tokens == record.view_tokens:
                counts = asdict(usage)
                await context.observe_usage(counts.pop("input"), output_tokens=counts.pop("output"), **counts)
            if made.known.sums:  # what its requests took, since the proxy has opened it
                made.known.sums["cache"] = asdict(context.statistics().cache)

    async def undo(self, name: str) -> None:
        async with self._sessions.use(name) as context:
            await context.undo_activation()

    async def pin(self, name: str, message: int) -> str:
        async with self._sessions.use(name) as context:
            return await context.pin(message)

    async def close(self) -> None:
        asking = [task for _, task in self._told.values()]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await self._sessions.close()

    async def _viewed(self, made: Rewritten) -> Rewritten:
        """Return the request with a view, or unchanged where its history fits or no view of it does."""
        asked, record, dialect, known = made.asked, made.record, made.dialect, made.known
        keys = [row.message.get(KEY) or f"{at} of the log" for at, row in enumerate(asked.rows)]
        ceiling = known.ceilings.get(asked.model)
        limit = min((limit for limit in (self.proxy.budget, ceiling) if limit is not None), default=None)
        provider = model_of(dialect.name, asked.model, asked.window, asked.max_output, asked.cache)
        async with self._sessions.use(record.session, known.summarizer) as context:
            await context.follow([row.message for row in asked.rows], keys=keys)
            record.messages = record.sent_messages = len(keys)
            record.tokens = record.view_tokens = context.statistics().history_tokens
            taken = partial(context.next_view, limit, provider, tools=asked.beside, bound_thinking=asked.bound_thinking)
            try:
                view = await taken()
                if asked.compact:
                    await context.observe_usage(0)
                    await context.summarize()
                    view = await taken()
                    asked = replace(asked, log=await context.get_messages())
                if asked.compact is not None:  # the client asks ahead, and sends requests of its own
                    await context.observe_usage(0)
            except BudgetError as error:
                if ceiling is not None:
                    raise
                record.fixed_tokens, record.budget = error.required_tokens, error.budget_tokens
                self._tell_least(record, context.statistics().least_useful_budget)
                return made
            record.view_tokens, record.fixed_tokens = view.tokens, view.fixed_tokens
            record.activation = None if view.activation is None else view.activation.reason
            record.budget, least = context.budget().max_tokens, context.statistics().least_useful_budget
            known.keys = _lasting([row.message for row in asked.rows])

            # what the view shows just as the client sent it goes on so
            places = defaultdict[str, list[int]](list)
            for at, key in enumerate(keys):
                places[key].append(at)
            shown: list[Shown] = []
            for message in reversed(view.shared):  # of rows that say the same, the newest
                held = places.get(message.get(KEY, ""))
                place = held.pop() if held else None
                shown.append(Shown(message, place, place is not None and message == asked.rows[place].message))
            shown.reverse()
        is_other = [one.place if one.is_whole else None for one in shown] != list(range(len(keys)))
        drops = asked.bound_thinking == "asked" and (is_other or view.rewritten_prefix)
        record.changed = is_other or asked.must_change or drops
        record.sent_messages = len(shown)
        if is_other and ceiling is None:
            self._tell_least(record, least)
        if not record.changed:
            return made
        asked = replace(asked, drops_thinking=drops)
        return replace(made, asked=asked, body=dialect.write(asked, shown))

    def _tell_least(self, record: Record, least: int) -> None:
        """Tell of a budget of which system prompt and tools leave too little, where that is so."""
        if record.budget < least:
            record.least_budget = least
            about = f"{record.client} with {record.model}"
            words = f"a budget of {record.budget:,} tokens is too small for {about}: its system prompt and tools alone "
            words += f"take about {record.fixed_tokens:,}; the least useful budget is {least:,} tokens"
            self.notice(f"budget of {about}", words)

    # What the proxy tells of its work: a record of each request, and figures for each session. No text, and no key.

    def failed(self, words: str, error: Exception) -> None:
        """Tell that something in the proxy has failed: what that did, and the kind of the error. Only errors of this
        package, which hold no text of messages, say more, in a notice once a kind."""
        self.failures += 1
        self.last_failure = kind = type(error).__name__
        if len(self._notices) < 50:
            why = f"{kind}: {error}" if isinstance(error, SummarizingContextError) else kind
            self._notices.setdefault(f"failure {kind}", f"{words} ({why})")
        logger.warning(words, extra={"cause": kind})

    def notice(self, about: str, words: str) -> None:
        """Tell once what the proxy had to work around: in the log, and in each status from now on."""
        if about not in self._notices and len(self._notices) < 50:
            self._notices[about] = words
            logger.warning(words)

    def add(self, made: Rewritten) -> None:
        record, before = made.record, made.known.sums
        self._total += 1
        self._plugin_views += record.by_plugin
        record.at = time.time()
        usage, price = record.usage or Usage(), self.models.price_of(record.model)
        written = {"written": usage.cache_write, "written_long": usage.cache_write_long}
        total = usage.input + usage.cache_read + sum(written.values())
        if record.usage is not None and price is not None:
            record.cost = price.at(total).cost(total, usage.output, usage.cache_read, **written)
        self._records.append(record)
        sums = {
            "requests": not record.by_plugin,
            "plugin_views": record.by_plugin,
            "failed": not 200 <= record.status < 300,  # an error of the provider, or nothing
            "activations": record.activation is not None,
            "input_tokens": total,
            "cache_read": usage.cache_read,
            "output_tokens": usage.output,
            "saved_tokens": max(0, record.tokens - record.view_tokens),
        }
        named = ("session", "client", "model", "messages", "tokens", "view_tokens")
        newest = {name: getattr(record, name) for name in named}
        added: dict[str, Any] = {name: before.get(name, 0) + sums[name] for name in sums}
        cost = None if price is None else before.get("cost", 0.0)  # unknown from the first unknown price on
        added["cost"] = None if cost is None else cost + (record.cost or 0.0)
        made.known.sums = {"cache": None} | before | newest | added

    def cache_of(self, session: str) -> dict[str, Any] | None:
        """Return what the requests of a session took; None where nothing is known of it."""
        return self._known[session].sums.get("cache") if session in self._known else None

    def status(self) -> dict[str, Any]:
        proxy = self.proxy
        return {
            **{name: getattr(proxy, name) for name in ("anthropic", "openai", "budget", "shadow")},
            "summarizer": "client" if proxy.lends else proxy.settings.summarizer,
            "store": str(proxy.settings.store),
            "requests": self._total - self._plugin_views,
            "plugin_views": self._plugin_views,
            "passed_unchanged": self.passed_unchanged,
            "failures": self.failures,
            "last_failure": self.last_failure,
            "notices": list(self._notices.values()),
            "sessions": [known.sums for known in reversed(self._known.values()) if known.sums],
            "records": list(map(asdict, self._records)),
        }


def _lasting(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys of a history, without what the client's system says at its end, which aider moves along."""
    moves = sum(1 for _ in takewhile(lambda message: message["role"] in ("system", "developer"), reversed(messages)))
    return [str(message.get(KEY)) for message in messages[: len(messages) - moves]]


@dataclass(slots=True)
class Record:
    """One request that a view was made for, or could have been."""

    session: str
    client: str
    dialect: str
    model: str
    by_plugin: bool = False  # a view that a plug-in asked for: no request to a provider
    messages: int = 0  # of the client's history
    sent_messages: int = 0
    tokens: int = 0  # of the history, as we count
    view_tokens: int = 0  # of what was sent in its place
    fixed_tokens: int = 0  # of system prompt and tools
    activation: str | None = None  # its reason
    changed: bool = False  # whether a view was sent
    replayed: bool = False  # after the provider had found it too long
    budget: int = 0  # tokens that the request may have, system prompt and tools too
    least_budget: int | None = None  # tokens that would do for this client; None where the budget does
    status: int = 0  # of the provider's answer; 0 where there was none
    usage: Usage | None = None
    cost: float | None = None  # dollars
    at: float = 0.0  # seconds since 1970


# Who asks, and which session it belongs to. A client's own id holds several histories: the main one, those of its
# agents, and small requests for a title. The agent, whether tools are sent, and what was typed first tell them apart.

_HEADERS = (  # of a session's id, and whose it is; the first that is sent holds
    ("x-claude-code-session-id", "claude-code"),
    ("thread-id", "codex"),
    ("x-session-id", "opencode"),  # which with OpenAI sends `session-id`, too
    ("x-session-affinity", "opencode"),
    ("session-id", "codex"),
    ("session_id", "codex"),
    ("x-pi-session-id", "pi"),
)


def session_of(headers: Mapping[str, str], asked: Asked) -> tuple[str, str | None]:
    """Return who asks, and the name of its session, which is None for a client without an id. The name holds what a
    person typed first, for what the client puts in beside may change."""
    client, id = next(((name, headers[header]) for header, name in _HEADERS if headers.get(header)), ("chat", ""))
    if not id:
        return client, None
    users = (row.message for row in asked.rows if row.message["role"] == "user")
    first = [asked.rows[0].message[KEY]]
    typed = next(filter(None, (read_message(message).typed for message in islice(users, 100))), first)
    kind = "agent" if asked.has_tools else "plain"
    beginning = f"{kind}-{digest_of(''.join(typed).encode('utf-8', 'surrogatepass'))[:10]}"
    agent = headers.get("x-claude-code-agent-id")
    return client, session_id_from(":".join(filter(None, (client, id, agent, beginning))))
