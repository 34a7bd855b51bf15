"""From a client's request to the same request with a view of its history, through the session that it belongs to.

A request of one message without tools goes on as it came, whatever the budget, such as a client's own compaction: who
asks for a summary of a text means all of it. Only where the provider finds it too long it is sent once more, with its
middle left out, which a mark in its place tells.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from summarizing_context import Settings, open_store
from summarizing_context.adapters.open_sessions import Sessions, Window, session_id_from
from summarizing_context.contrib.proxy.dialects import (
    KEY,
    Asked,
    Dialect,
    PassUnchanged,
    Shown,
    bare,
    digest,
    read_fields,
)
from summarizing_context.contrib.proxy.feed import Record, Usage
from summarizing_context.contrib.proxy.summaries import ClientSummarizer
from summarizing_context.contrib.proxy.upstream import Headers, Upstream
from summarizing_context.errors import BudgetError, StoreError, briefly
from summarizing_context.messages.reading import read_message
from summarizing_context.messages.tokens import estimate_text, estimate_texts
from summarizing_context.views.budget import Price
from summarizing_context.views.shrunk_messages import shrink_message

_USUAL_WINDOW = 128_000  # of a model that is not known
_MAX_KNOWN = 1_000  # sessions whose last request is remembered
_ANCHOR = 3  # messages by which the end of a history is known

_OF_LENGTH = re.compile(  # what any error says of a request that is too long: a size, and a limit
    r"(?=.*\b(?:input|prompt|context|token|request))"
    r"(?=.*(?:max|limit|exceed|too (?:long|large|big|many)|longer|larger|greater|more than|range|length|window|size))",
    re.DOTALL | re.IGNORECASE,
)

_LIMIT = re.compile(r"(?:>|max|limit|allowed|context|window)\D{0,60}?(\d{4,})", re.IGNORECASE)
_NEAR = 0.7  # of the budget: from there on a request may be too long for an error that tells nothing of it
_SMALLEST = 3_000  # tokens: what is shorter is not too long for any model, whatever the words of an error
_LESS = 0.75  # of what was sent, where the provider does not say how much is too much


class Client(NamedTuple):
    """Who asks, as far as its headers tell."""

    name: str
    id: str | None  # of the session
    agent: str | None


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A request, with a view in it where its record says so. Without a record it is a lone message."""

    body: bytes
    asked: Asked
    dialect: Dialect
    client: Client
    window: int  # of the model, in tokens
    record: Record | None = None
    drops_thinking: bool = False  # which a header has to allow


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
        self._sessions = Sessions(settings, most=64, waits_for_disk=False, warns_of_room=False)
        self._recalled: set[str] = set()  # what names of unnamed clients' sessions begin with
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def rewrite(self, dialect: Dialect, body: bytes, headers: Headers, *, counts: bool = False) -> Rewritten:
        """Return the request with a view, or a lone message as it is. One that only `counts` tokens changes no session.

        Raise `PassUnchanged` where no view can be made, and whatever the session raises.
        """
        fields = read_fields(body)
        asked = dialect.read(fields)
        told = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        client = client_of(told, fields)
        window = window_of(asked.model, told.get("anthropic-beta", ""), client.name)
        made = Rewritten(body, asked, dialect, client, window or _USUAL_WINDOW)
        if len(asked.rows) < 2 and not asked.has_tools:
            if counts or not asked.rows:
                raise PassUnchanged("a single message is not a session")
            return made

        name = await self._unnamed(asked) if client.id is None else session_of(client, asked)
        keys = [row.key for row in asked.rows]
        known = self._known.get(name) or _Known()
        if counts and (not known.keys or keys[: len(known.keys)] != known.keys):
            raise PassUnchanged("tokens are counted of a history that belongs to no session")
        self._known[name] = known
        self._known.move_to_end(name)
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        if self._lends:
            if known.summarizer is None:
                model = self._settings.model or asked.model
                known.summarizer = ClientSummarizer(self._upstream, dialect.name, model)
            known.summarizer.lend(headers)
        if self._budget is None and window is None:
            words = f"the window of the model {briefly(asked.model)} is not known, so it is taken for "
            words += f"{_USUAL_WINDOW:,} tokens; say how large a request may become with --budget"
            self._notice(f"model {asked.model}", words)
        return await self._viewed(replace(made, record=Record(name, client.name, dialect.name, asked.model)), known)

    async def _unnamed(self, asked: Asked) -> str:
        """Return the session of a client without an id: the one whose last messages stand in its history, the nearest
        to its end. What the store holds of histories with this beginning is read once."""
        keys = [row.key for row in asked.rows]
        base = f"chat:{keys[0][:12]}:"
        if base not in self._recalled and str(self._settings.store) != ":memory:":
            self._recalled.add(base)
            stored: list[str] = []
            try:
                store = await open_store(self._settings.store, read_only=True)
            except StoreError:
                pass  # there is none yet
            else:
                try:
                    stored = [info.session_id for info in await store.sessions() if info.session_id.startswith(base)]
                finally:
                    await store.close()
            for name in reversed(stored[:8]):  # the newest may be this one
                async with self._sessions.use(name) as context:
                    held = [str(message.get(KEY)) for message in await context.get_messages()]
                self._known.setdefault(name, _Known()).keys = held
        ends = {tuple(known.keys[-_ANCHOR:]): name for name, known in self._known.items() if name.startswith("chat:")}
        found = (ends.get(tuple(keys[max(0, stop - _ANCHOR) : stop])) for stop in range(len(keys), 0, -1))
        return next(filter(None, found), base + digest("".join(keys).encode())[:12])

    async def shorter(self, before: Rewritten, status: int, answer: str) -> Rewritten | None:
        """Return the request once more, shorter, after the provider has refused it; None where nothing speaks for that.

        It is done for each 413, for an error that tells of a size and a limit in whatever words, and for any other
        error where the request was near its budget.
        """
        answer, asked, record = answer[:4_000], before.asked, before.record
        price = Price(estimate_text, self._settings.image_tokens)
        if record is None:
            beside = estimate_texts(str(each) for each in asked.beside)
            alone = await asyncio.to_thread(price.message, asked.rows[0].message)
            sent, budget = alone + beside, before.window
        else:
            sent, budget = record.view_tokens + record.fixed_tokens, record.budget
        said = re.sub(r"max_\w*tokens|(?:output|completion) tokens", "", answer)  # of the reply
        if not (status == 413 or _OF_LENGTH.match(said) or sent >= _NEAR * budget):
            return None

        # how much fits: as the error tells, where it names a limit below what was sent
        largest = max(map(int, re.findall(r"\d{4,}", answer)), default=0)
        found = _LIMIT.search(answer)
        limit = int(found[1]) if found else largest
        total = largest if largest > limit else sent
        ceiling = int(sent * (min(_LESS, limit / total * 0.95) if 0 < limit < total else _LESS))
        if record is None:
            if (cap := ceiling - beside) < _SMALLEST:
                return None
            shown = await asyncio.to_thread(shrink_message, asked.rows[0].message, alone, cap, price)
            body = before.dialect.write(asked, [(shown.message, None)])
            return replace(before, body=body) if shown.tokens <= cap else None
        known = self._known.get(record.session)
        if ceiling < _SMALLEST or known is None:
            return None
        known.ceilings[record.model] = ceiling
        made = await self._viewed(replace(before, record=replace(record, replayed=True)), known)
        return made if made.record is not None and made.record.view_tokens < record.view_tokens else None

    def was_not_too_long(self, replayed: Record) -> None:
        """Forget the ceiling: refused once more, though shorter, the request has something else wrong with it."""
        if (known := self._known.get(replayed.session)) is not None:
            known.ceilings.pop(replayed.model, None)

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

    async def _viewed(self, made: Rewritten, known: _Known) -> Rewritten:
        """Return the request with a view, or unchanged where its history fits or no view of it does."""
        asked, record, dialect = made.asked, made.record, made.dialect
        assert record is not None
        keys = [row.key for row in asked.rows]
        ceiling = known.ceilings.get(asked.model)
        limit = min((limit for limit in (self._budget, ceiling) if limit is not None), default=None)
        window = Window(dialect.name, asked.model, made.window, asked.max_output)
        async with self._sessions.use(record.session, known.summarizer) as context:
            await context.follow([row.message for row in asked.rows], keys=keys)
            try:
                view = await context.next_view(limit, window, tools=asked.beside, bound_thinking=asked.bound_thinking)
            except BudgetError as error:
                if ceiling is not None:
                    raise
                figures = context.statistics()
                record.messages = record.sent_messages = len(keys)
                record.tokens = record.view_tokens = figures.history_tokens
                record.fixed_tokens, record.budget = error.required_tokens, error.budget_tokens
                self._tell_least(record, figures.least_useful_budget)
                return made
            figures, shown_last = context.statistics(), context.last_view
            assert shown_last is not None
            record.messages, record.tokens = len(keys), figures.history_tokens
            record.view_tokens, record.fixed_tokens = shown_last.tokens, shown_last.fixed_tokens
            record.activation = None if view.activation is None else view.activation.reason
            record.budget = context.budget().max_tokens
            known.keys = keys

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
            self._tell_least(record, figures.least_useful_budget)
        if not record.changed:
            return made
        return replace(made, body=dialect.write(asked, shown, drops_thinking=drops), drops_thinking=drops)

    def _tell_least(self, record: Record, least: int) -> None:
        """Tell of a budget of which system prompt and tools leave too little, where that is so."""
        if record.budget < least:
            record.least_budget = least
            about = f"{record.client} with {record.model}"
            words = f"a budget of {record.budget:,} tokens is too small for {about}: its system prompt and tools alone "
            words += f"take about {record.fixed_tokens:,}; the least useful budget is {least:,} tokens"
            self._notice(f"budget of {about}", words)


# Who asks, which session it belongs to, and how large its model's window is. A client's own id holds several histories:
# the main one, those of its agents, and small requests for a title. They are told apart by the agent, by whether tools
# are sent, and by what a person typed first.
#
# Windows are those of 2026-11-26, by the pages of platform.claude.com and developers.openai.com on their models, the
# table of `genai-prices` 0.2.3, and the models that Codex 0.169 and 0.171 bring along, in which they get less of them.

_HEADERS = (  # of a session's id, and whose it is; the first that is sent holds
    ("x-claude-code-session-id", "claude-code"),
    ("thread-id", "codex"),
    ("session-id", "codex"),
    ("session_id", "codex"),
    ("x-session-id", "opencode"),
    ("x-session-affinity", "opencode"),
)

_IN_USER_ID = re.compile(r"session_(?:id\W+)?([0-9a-f]{8}-[0-9a-f-]{27})")  # where older Claude Code has it


def client_of(headers: Mapping[str, str], fields: Mapping[str, Any]) -> Client:
    """Return who asks; `headers` by names in small letters."""
    for header, name in _HEADERS:
        if headers.get(header):
            return Client(name, headers[header], headers.get("x-claude-code-agent-id"))
    user = _IN_USER_ID.search(bytes(fields["metadata"]).decode("utf-8", "replace")) if "metadata" in fields else None
    return Client("claude-code" if user else "chat", user[1] if user else None, None)


def session_of(client: Client, asked: Asked) -> str:
    """Return the name of the session of a client with an id: by what a person typed first, for what the client puts in
    beside may change, and by whether tools are sent."""
    users = (row.message for row in asked.rows if row.message["role"] == "user")
    typed = next(filter(None, (read_message(message).typed for message in islice(users, 100))), [asked.rows[0].key])
    kind = "agent" if asked.has_tools else "plain"
    beginning = f"{kind}-{digest(*(text.encode('utf-8', 'surrogatepass') for text in typed))[:10]}"
    return session_id_from(":".join(filter(None, (client.name, client.id, client.agent, beginning))))


_WINDOWS = (  # tokens of input, by the beginning of a name; the first that fits holds
    (r"claude-[a-z]+-(?:4[.-][6-9]|[5-9]|[1-9]\d)(?!\d)", 1_000_000),
    (r"claude", 200_000),
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-4|gpt-oss|chatgpt", 128_000),
    (r"gpt-3", 16_000),
    (r"gpt-6\.2-sol", 500_000),
    (r"gpt-5\.[4-9](?!\d|.*mini|.*nano)|gpt-[6-9]", 922_000),  # of 1,050,000, less the answer
    (r"gpt-5|codex", 272_000),  # of 400,000, less the answer
    (r"o[134]\b", 200_000),
    (r"gemini|deepseek-(?:v[4-9]|flash|pro)|kimi-k[3-9]|glm-5[.p][2-9]", 1_000_000),
    (r"grok-(?:4\.[2-9]|[5-9])", 500_000),
    (r"kimi|grok-[4c]", 256_000),
    (r"deepseek|qwen|glm|mistral|devstral|llama|grok", 128_000),
)

_OF_CODEX = ((r"gpt-6\.(?:1-terra|2-sol)", 500_000), (r"gpt-[5-9]", 272_000))


def window_of(model: str, betas: str = "", client: str = "") -> int | None:
    """Return the tokens of a model's window, None where it is not known; `betas` is the header `anthropic-beta`,
    `client` the program that asks."""
    # without a provider's or a region's name in front, as in `us.anthropic.claude-opus-4-6-v1:0`
    name = model.lower().rpartition("/")[2]
    found = re.search(r"(?:^|[.~])((?:claude|gpt-|o[134]\b|gemini|deepseek|qwen|kimi|glm|mistral|llama|grok).*)", name)
    name = found[1] if found else name
    if name.startswith("claude") and ("context-1m" in betas or "[1m]" in name):
        return 1_000_000
    rows = (*_OF_CODEX, *_WINDOWS) if client == "codex" else _WINDOWS
    return next((tokens for beginning, tokens in rows if re.match(beginning, name)), None)
