"""Assembly: put a context together. The one module that names concrete classes."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from summarizing_context.concurrency import (
    BlockingContext,
    Clock,
    Events,
    WorkerThread,
    blocking,
    choose_clock,
    running_loop,
)
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import MissingExtraError, SettingsError
from summarizing_context.log.entries import Intake
from summarizing_context.log.message_log import Foreground, Ledger, MessageLog
from summarizing_context.messages.redaction import Redaction
from summarizing_context.messages.tokens import Price, choose_counter, remembering
from summarizing_context.models import load_models
from summarizing_context.retrieval.embeddings import Embedder, EmbeddingSearch, make_embedder
from summarizing_context.retrieval.memory_extraction import MemoryExtractor
from summarizing_context.sessions.session import Session, make_notify
from summarizing_context.settings import PROVIDERS, Settings, is_address
from summarizing_context.stores.base import SessionStore, VectorStore
from summarizing_context.stores.relational.store import RelationalVectors
from summarizing_context.stores.sqlite.store import SqliteStore
from summarizing_context.summarizers.base import Summarizer
from summarizing_context.summarizers.extractive import ExtractiveSummarizer
from summarizing_context.summarizers.native import Compactor
from summarizing_context.summarizers.providers import make_caller, make_model
from summarizing_context.summarizers.resilience import ResilientSummarizer
from summarizing_context.views.builder import Viewer
from summarizing_context.views.header import Sources
from summarizing_context.worker.side_calls import NativeBlocks, RuleCalls
from summarizing_context.worker.summary_cache import SummaryCache
from summarizing_context.worker.worker import Recipe, Worker

if TYPE_CHECKING:
    from summarizing_context.transcripts import Transcript

logger = logging.getLogger(__name__)


def open_context(
    settings: Settings | None = None,
    *,
    summarizer: Summarizer | None = None,
    count_tokens: Callable[[str], int] | None = None,
    clock: Clock | Callable[[], float] | None = None,
    redact: Callable[[str], str] | None = None,
    read_only: bool = False,
    events: Events | None = None,
    store: SessionStore | None = None,
    embedder: Embedder | Callable[[list[str]], Any] | None = None,
) -> Opening:
    """Open a session for the length of an `async with`; with `await`, until you call its `close()`; in synchronous code
    for the length of a `with`, which gives a `BlockingContext`.

    `summarizer` is any object with `async def summarize(job) -> str`; without it the settings name one.
    `count_tokens` counts the tokens of a text; `clock` gives seconds that never go back; `redact` takes out what must
    not reach a summarizer or an embedder: it sees the texts of a message, all as one, in a thread. `embedder` turns a
    list of texts into a list of vectors (the extra `vectors`), so that memories near in meaning are found.
    `read_only` writes and asks nothing. `store` is an open store in place of the file that the settings name; the
    context closes it, also when this raises.
    Raises `SettingsError`, `SessionInUseError`, `StoreError` or, under trio, `WrongEventLoopError` on entering.
    """
    given = summarizer, count_tokens, clock, redact, read_only, events, store, embedder
    return Opening(Settings() if settings is None else settings, Options(*given, sends_blocks_of="anthropic"))


async def import_transcript(
    log: Transcript, settings: Settings, watch: Callable[[], object] = lambda: None
) -> tuple[str, int, int]:
    """Put a transcript into the store of settings; return the session's id, its messages, and how many are new.

    A session that the store has already gets those that are new, and where it has another one of this name, a number is
    added to the name. `watch` is called for each message.
    """
    wanted = re.sub(r"[^A-Za-z0-9._:-]+", "-", log.session_id)[:180] or "session"  # at most 200, with a number
    session_id, copy = wanted, 1
    while True:
        async with open_context(replace(settings, session_id=session_id)) as context:
            held = await context.get_messages()
            if [*log.messages[: len(held)]] == held:
                for message in log.messages[len(held) :]:
                    await context.add_message(message)
                    watch()
                return session_id, len(context), len(context) - len(held)
        copy += 1
        session_id = f"{wanted}:{copy}"


@dataclass(frozen=True, slots=True)
class Options:
    """What a program passes beside the settings, as the arguments of `open_context`; and what hosts ask for."""

    summarizer: Summarizer | None = None
    count_tokens: Callable[[str], int] | None = None
    clock: Clock | Callable[[], float] | None = None
    redact: Callable[[str], str] | None = None
    read_only: bool = False
    events: Events | None = None
    store: SessionStore | None = None
    embedder: Embedder | Callable[[list[str]], Any] | None = None
    keep_system: bool = True  # system rows between others stay in every view
    announce: Callable[[dict[str, Any]], Awaitable[None]] | None = None  # awaited before an activation
    waits_for_disk: bool = True  # False: a commit does not, for the host sends its whole history again
    sends_blocks_of: str | None = None  # a provider whose own blocks the host sends as a view has them
    warns_of_room: bool = True  # where system rows and tools leave too little; False: the host tells it itself


@dataclass(eq=False)
class Opening(AbstractAsyncContextManager[SummarizingContext]):
    """A session that is opened on entering, and closed on leaving."""

    settings: Settings
    options: Options

    def __await__(self) -> Generator[Any, None, SummarizingContext]:
        return start_context(self.settings, self.options).__await__()

    async def __aenter__(self) -> SummarizingContext:
        self.context = await start_context(self.settings, self.options)
        return self.context

    async def __aexit__(self, *error: object) -> None:
        await self.context.close()

    def __enter__(self) -> BlockingContext:
        self.blocking = blocking(self)
        return self.blocking.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.blocking.__exit__(*error)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name}: the session is not open; write `async with open_context(...) as context:`")


_WANTED = (  # of what a program passes, a method, and what is said without it
    ("store", "claim", "pass an open store; a path goes into Settings(store=)"),
    ("summarizer", "summarize", "it needs a method `async def summarize(job) -> str`"),
    ("redact", "__call__", "it is a function from text to text, or None"),
    ("embedder", "embed", "it is a function from a list of texts to their vectors, or has such a method `embed`"),
)


async def start_context(settings: Settings, options: Options) -> SummarizingContext:
    """Return an open context that the caller closes. A given store is closed too when this raises."""
    running_loop()
    async with AsyncExitStack() as opened:  # what the context closes, and what is closed where anything fails
        given = options.store
        if given is not None and not isinstance(given, type) and callable(getattr(given, "close", None)):
            opened.push_async_callback(given.close)

        # what was given
        for name, method, wanted in _WANTED:
            value = getattr(options, name)
            if value is not None and not callable(getattr(value, method, value if name == "embedder" else None)):
                raise SettingsError(f"{name} is {type(value).__name__}; {wanted}")
        named = {name for name in (*vars(SessionStore), *SessionStore.__annotations__) if not name.startswith("_")}
        lacking = sorted(name for name in named if not hasattr(options.store, name))
        if options.store is not None and lacking:
            raise SettingsError(
                f"store is {type(options.store).__name__} and lacks {', '.join(lacking)}; "
                "`SessionStore` in summarizing_context/stores/base.py says what a store has"
            )
        if not isinstance(settings, Settings):
            raise SettingsError(f"settings are a Settings, not {type(settings).__name__}; use Settings.from_mapping")
        clock = choose_clock(options.clock)
        counter = await choose_counter(
            settings.token_counter,
            count_tokens=options.count_tokens,
            allow_download=settings.allow_download,
            silent=options.read_only,
        )

        # how summaries are made
        foreground = Foreground()
        background = WorkerThread("background", foreground.yield_now)  # one: several would hold the event loop up
        asks_only = options.read_only or settings.workers == "pool"  # then it makes no call and needs no key
        own_caller = make_caller(settings, options.summarizer, clock, read_only=asks_only, background=background)
        is_extractive = isinstance(own_caller, ExtractiveSummarizer)
        for name in ("model", "prompts") if is_extractive and options.warns_of_room else ():
            if (value := getattr(settings, name)) is not None:
                logger.warning(
                    f"{name} = {str(value)!r} has no effect on summaries: summarizer = {settings.summarizer!r}; "
                    f"set it to {' or '.join(map(repr, PROVIDERS))}"
                )
        models = load_models(settings.prices)  # a wrong file is refused on opening, with every summarizer
        redact = None if options.redact is None else Redaction(options.redact)
        recipe = Recipe(settings, own_caller.recipe, own=is_extractive, redact=redact)
        store = options.store
        if store is None:
            store = await open_store(settings.store, read_only=options.read_only, waits_for_disk=options.waits_for_disk)
            opened.push_async_callback(store.close)
        caller = own_caller
        if settings.workers == "pool":
            caller = postgres_door("pool").PoolCaller(settings, store, None if is_extractive else own_caller)

        # what finds by meaning
        is_own, by_meaning = options.embedder is None, None
        embedder = make_embedder(settings, read_only=options.read_only) if is_own else options.embedder
        if embedder is not None:
            vectors = make_vectors(settings, store.vectors, read_only=options.read_only)
            by_meaning = EmbeddingSearch(embedder, vectors, redact=redact, timeout=settings.call_timeout, owned=is_own)
        elif settings.vector_store == "chroma" and not options.read_only:
            raise SettingsError(
                "vector_store = 'chroma' needs an embedding, for its own is not used; set embedding_model (with "
                "embedding = 'openai'), pass embedder=, or take vector_store = 'sqlite'"
            )

        # the session
        counting = WorkerThread("counting")
        for close in (background.close, counting.close, own_caller.close):  # before the store
            opened.push_async_callback(close)

        async def in_thread(work: Callable[[], Any]) -> Any:
            with foreground:  # else background work leaves the event loop no turn
                return await counting.run(work)

        counted = settings.max_messages or settings.summarize_threshold
        every = None if counted is None or is_extractive else max(1, counted // 2)  # messages of a segment
        log = MessageLog(settings, keep_system=options.keep_system, every=every, foreground=foreground)
        summaries = SummaryCache(log, maker=recipe.maker)
        ledger = Ledger(log)

        # what makes the summaries, in the background
        provider = None if is_extractive or options.summarizer is not None else settings.summarizer
        worker = Worker(
            summaries=summaries,
            ledger=ledger,
            store=store,
            caller=caller,
            recipe=recipe,
            origin={"made_by": recipe.maker, "provider": provider, "model": caller.model},
            clock=clock,
            background=background,
            notify=make_notify(options.events, settings.session_id),
            read_only=options.read_only,
        )
        if isinstance(caller, ResilientSummarizer):
            caller.on_trouble = worker.note_trouble
        intake = Intake(counter, in_thread, log.verdicts)
        if not is_extractive:
            RuleCalls(worker, intake.stored)
        native = None
        if settings.native == "prefer" and not options.read_only:
            wants, names = f"native = 'prefer' with summarizer = {settings.summarizer!r}", sorted(PROVIDERS)
            if settings.summarizer not in PROVIDERS or options.summarizer is not None:
                raise SettingsError(f"{wants}: set summarizer to {' or '.join(map(repr, names))}, and pass no object")
            if options.redact is not None:
                raise SettingsError("native = 'prefer' sends messages as views show them; leave out redact, or native")
            if settings.summarizer != options.sends_blocks_of:
                raise SettingsError(f"{wants}: programs send blocks of 'anthropic', the OpenAI Agents SDK of 'openai'")
            model = make_model(replace(settings, call_timeout=3 * settings.call_timeout), read_only=False)
            keys = filter(None, (settings.api_key, *map(os.environ.get, model.key_variables)))
            account = hashlib.sha256("".join(keys).encode()).hexdigest()[:12]
            compactor = Compactor(model, f"{model.recipe};account={account}")
            native = NativeBlocks(worker, compactor, cast(ResilientSummarizer, own_caller))
            opened.push_async_callback(model.close)

        # what learns memories: the model that makes the summaries, or rules where there is none
        learner = MemoryExtractor(worker, redact) if settings.memory_extract and not options.read_only else None
        prices_of_rows = Price(remembering(counter.count), settings.image_tokens)
        views = Viewer(Sources(log, summaries, ledger, settings, prices_of_rows), counter.name, native)
        session = Session(views, worker, learner=learner, intake=intake, announce=options.announce)
        await session.load()
        if settings.session_id == "default" and log.messages and not options.read_only:
            logger.warning(
                f"session_id = 'default': going on with the {log.messages} messages of that session in {store.name}; "
                "give each program or task a session_id of its own"
            )
        return SummarizingContext(
            session,
            caller=own_caller,
            models=models,
            embedding_search=by_meaning,
            warns_of_room=options.warns_of_room,
            closing=opened.pop_all(),
        )


def make_vectors(settings: Settings, in_sqlite: VectorStore, *, read_only: bool) -> VectorStore:
    """Return where the settings say that vectors are kept. A Chroma folder stands beside the file, under its name."""
    path = str(settings.store)
    if settings.vector_store == "sqlite":
        if isinstance(in_sqlite, RelationalVectors) and find_spec("numpy") is None:
            raise MissingExtraError("vectors", "comparing embeddings needs numpy")
        return in_sqlite
    if read_only:
        raise SettingsError("vector_store = 'chroma' cannot be opened for reading only; Chroma writes when opened")
    if is_address(path):
        raise SettingsError("vector_store = 'chroma' needs a store in a file; leave it out with postgresql://…")
    folder = None if path == ":memory:" else Path(f"{path}.chroma")
    return cast(VectorStore, import_module("summarizing_context.contrib.chroma").ChromaVectors(in_sqlite, folder))


async def open_store(path: str | Path, *, read_only: bool = False, waits_for_disk: bool = True) -> SessionStore:
    """Return an open store; the caller closes it. `path` is a file, `:memory:`, or an address
    `postgresql://user@host/database` (the extra `postgres`).

    Stores on one file share a thread and a connection, those of one event loop with equal options.
    """
    Settings(store=path)  # refuses an address that is none of a store
    sqlite = partial(SqliteStore, waits_for_disk=waits_for_disk)
    kind: Any = postgres_door("store").PostgresStore if is_address(path) else sqlite
    store = kind(str(path), read_only=read_only)
    await store.open()
    return cast(SessionStore, store)


def postgres_door(module: str) -> Any:
    """Return a module of the door that the extra `postgres` opens."""
    if find_spec("psycopg") is None:
        raise MissingExtraError("postgres", "a store in PostgreSQL needs psycopg")
    return import_module(f"summarizing_context.contrib.postgres.{module}")
