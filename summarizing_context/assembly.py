"""Assembly: put a context together. The one module that names concrete classes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from summarizing_context.concurrency import (
    Clock,
    Events,
    Foreground,
    Pace,
    Steps,
    WorkerThread,
    choose_clock,
    running_loop,
)
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import MissingExtraError, SettingsError
from summarizing_context.extraction.rules import CueRules
from summarizing_context.log.entries import RuleReader
from summarizing_context.log.intake import Intake
from summarizing_context.log.ledger import CallReader, Detectors, SessionLedger
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.segments import Limits as SegmentLimits
from summarizing_context.messages.counters import TokenCounter, choose_counter
from summarizing_context.messages.redaction import Redaction
from summarizing_context.retrieval.embeddings import Embedder, EmbeddingSearch, OpenAIEmbedder, check_embedder
from summarizing_context.retrieval.memory_extraction import (
    MemoryExtractor,
    MemoryReader,
    ModelMemoryReader,
    UnreadPieces,
)
from summarizing_context.sessions.notices import make_notify
from summarizing_context.sessions.session import Session
from summarizing_context.settings.addresses import check_scheme, is_address
from summarizing_context.settings.ledger_rules import LedgerRule, LedgerRules, PlanTools, check_rules
from summarizing_context.settings.providers import PROVIDERS
from summarizing_context.settings.values import Settings, summary_sizes
from summarizing_context.stores.base import MemoryScope, SessionStore, VectorStore
from summarizing_context.stores.sqlite.engine import shared_engine
from summarizing_context.stores.sqlite.store import SqliteStore
from summarizing_context.summarizers.base import Summarizer
from summarizing_context.summarizers.extractive.statements import error_line, quotes
from summarizing_context.summarizers.extractive.summarizer import ExtractiveSummarizer, make_extracts
from summarizing_context.summarizers.prices import FREE, load_prices
from summarizing_context.summarizers.providers import AnyCaller, make_caller
from summarizing_context.summarizers.resilience.caller import ResilientSummarizer
from summarizing_context.views.builder import Viewer
from summarizing_context.views.shrunk_messages import Price, remembering
from summarizing_context.worker.jobs import Recipe, make_recipe
from summarizing_context.worker.rule_calls import RuleCalls
from summarizing_context.worker.summary_cache import SummaryCache
from summarizing_context.worker.worker import Origin, Worker

if TYPE_CHECKING:  # their packages are installed on demand
    from summarizing_context.pool.client import PoolCaller
    from summarizing_context.stores.postgres.store import PostgresStore

_ASKED_AT_ONCE = 32  # of a pool of workers, by one session


@asynccontextmanager
async def open_context(
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
    ledger_rules: Sequence[LedgerRule] = (),
) -> AsyncIterator[SummarizingContext]:
    """A session, opened for the length of an `async with`.

    `summarizer` is any object with `async def summarize(job) -> str`; without it the settings name one.
    `count_tokens` counts the tokens of a text; `clock` gives seconds that never go back; `redact` takes out what must
    not reach a summarizer or an embedder: it sees the texts of a message, all as one, in a thread. `embedder` turns a
    list of texts into a list of vectors (the extra `vectors`), so that searching finds what is near in meaning.
    `ledger_rules` say what tools of yours do, before the rules for common tools. `read_only` writes and asks nothing.
    `store` is an open store in place of the file that the settings name; the context closes it, also when this raises.
    Raises `SettingsError`, `SessionInUseError`, `StoreError` or, under trio, `WrongEventLoopError` on entering.
    """
    context = await start_context(
        Settings() if settings is None else settings,
        Options(
            summarizer,
            count_tokens,
            clock,
            redact,
            read_only,
            events,
            store,
            embedder=embedder,
            ledger_rules=ledger_rules,
        ),
    )
    try:
        yield context
    finally:
        await context.close()


@dataclass(frozen=True, slots=True)
class Options:
    """What a program passes beside the settings; as the arguments of `open_context`.

    `store` is an open store in place of the file that the settings name; the context closes it.
    """

    summarizer: Summarizer | None = None
    count_tokens: Callable[[str], int] | None = None
    clock: Clock | Callable[[], float] | None = None
    redact: Callable[[str], str] | None = None
    read_only: bool = False
    events: Events | None = None
    store: SessionStore | None = None
    embedder: Embedder | Callable[[list[str]], Any] | None = None
    ledger_rules: Sequence[LedgerRule] = ()
    keep_system: bool = True  # system rows between others stay in every view
    announce: Callable[[dict[str, Any]], Awaitable[None]] | None = None  # awaited before an activation
    flushes_behind: bool = False  # a commit does not wait for the disk: the host sends its whole history again


@dataclass(frozen=True, slots=True)
class _Base:
    """What is there before the session is."""

    settings: Settings
    options: Options
    clock: Clock
    counter: TokenCounter
    caller: AnyCaller | PoolCaller
    recipe: Recipe
    redact: Redaction | None
    foreground: Foreground
    store: SessionStore


async def start_context(settings: Settings, options: Options) -> SummarizingContext:
    """An open context that the caller closes. A given store is closed too when this raises."""
    running_loop()
    if options.store is not None and not callable(getattr(options.store, "claim", None)):
        raise SettingsError(
            f"store is {type(options.store).__name__}; it is an open store of yours; a path goes into Settings(store=)"
        )
    try:
        _check(settings, options)
        return await _start(settings, options)
    except BaseException:
        if options.store is not None:
            await options.store.close()
        raise


async def _start(settings: Settings, options: Options) -> SummarizingContext:
    clock = choose_clock(options.clock)
    counter = await choose_counter(
        settings.token_counter, count_tokens=options.count_tokens, allow_download=settings.allow_download
    )
    foreground = Foreground()
    background = WorkerThread(
        "background", Steps(foreground).yield_now
    )  # one: several that compute hold the event loop up
    asks_only = options.read_only or settings.workers == "pool"  # then it calls nobody, and needs no key
    caller = make_caller(settings, options.summarizer, clock, read_only=asks_only, background=background)
    prices = load_prices(settings.prices)  # a wrong file is told on opening, with every summarizer
    price = FREE if isinstance(caller, ExtractiveSummarizer) else prices.price_of(caller.model)
    redact = None if options.redact is None else Redaction(options.redact)
    recipe = make_recipe(settings, caller.recipe, own=isinstance(caller, ExtractiveSummarizer), redact=redact)
    store = options.store
    if store is None:
        store = await open_store(
            settings.store,
            read_only=options.read_only,
            flushes_behind=options.flushes_behind,
        )
    try:
        base = _Base(settings, options, clock, counter, caller, recipe, redact, foreground, store)
        if settings.workers != "own":
            base = _with_pool(base, caller)
        embedding_search = make_embedding_search(base)
        counting = WorkerThread("counting")
        session = make_session(base, counting, background)
        await session.load()
    except BaseException:
        await store.close()
        raise
    closing = [caller.close, counting.close, background.close, store.close]
    return SummarizingContext(
        session,
        calls=caller.statistics,
        price=price,
        redact=recipe.redact,
        embedding_search=embedding_search,
        closing=closing,
    )


def _with_pool(base: _Base, caller: AnyCaller) -> _Base:
    """The same with a pool of workers that makes the summaries, alone or beside this process."""
    from summarizing_context.pool.client import make_asking

    asking = make_asking(base.settings, base.store, None if isinstance(caller, ExtractiveSummarizer) else caller)
    return replace(base, caller=asking, recipe=replace(base.recipe, asks_pool=True))


def make_session(base: _Base, counting: WorkerThread, background: WorkerThread) -> Session:
    """A session that is not loaded yet; the one thread counts long messages, the other does the background work."""
    settings, options, counter = base.settings, base.options, base.counter
    rules = RuleReader(CueRules())
    limits = SegmentLimits(settings.segment_min, settings.segment_target, settings.segment_max)
    plans = PlanTools(_own_rules(settings, options))
    log = MessageLog(limits, settings.image_tokens, keep_system=options.keep_system, reader=rules, plans=plans)
    summaries = make_summaries(settings, log, base.recipe)
    ledger = make_ledger(settings, options, log)
    price = Price(remembering(counter.count), settings.image_tokens, Pace())

    async def in_thread(work: Callable[[], Any]) -> Any:
        with base.foreground.call():  # else background work beside it leaves the event loop no turn
            return await counting.run(work)

    return Session(
        settings=settings,
        log=log,
        summaries=summaries,
        ledger=ledger,
        views=Viewer(log, summaries, settings, price, counter.name, ledger=ledger),
        worker=make_worker(base, log, summaries, ledger, background),
        learner=make_learner(base, log, summaries, ledger),
        store=base.store,
        intake=Intake(counter, in_thread, rules),
        counter=counter,
        in_thread=in_thread,
        foreground=base.foreground,
        clock=base.clock,
        notify=make_notify(options.events, settings.session_id),
        announce=options.announce,
        read_only=options.read_only,
    )


def make_embedder(settings: Settings, *, read_only: bool) -> OpenAIEmbedder | None:
    """The embedder that the settings name."""
    if settings.embedding is None or read_only:  # what only reads sends nothing anywhere
        return None
    address, key = _place_of_embedding(settings)
    shares = settings.summarizer == settings.embedding and address == settings.base_url and not settings.api_key
    timeout = settings.call_timeout
    return OpenAIEmbedder(settings.embedding_model, base_url=address, api_key=key, shares_key=shares, timeout=timeout)


def _place_of_embedding(settings: Settings) -> tuple[str | None, str | None]:
    """Address and key of the embedding: its own, or both of a summarizer of the same provider; never one of each."""
    own = settings.embedding_base_url, settings.embedding_api_key
    given = settings.base_url, settings.api_key
    if own[0] is not None or not any(given):
        return own
    if settings.summarizer == settings.embedding and own[1] is None:
        return given
    if settings.base_url is None and (own[1] is not None or settings.summarizer in PROVIDERS):
        return own
    raise SettingsError(
        f"api_key and base_url belong to summarizer = {settings.summarizer!r}, and embedding = {settings.embedding!r} "
        "would send messages to another server; set embedding_base_url, or embedding_api_key without a base_url"
    )


def make_vectors(settings: Settings, in_sqlite: VectorStore, *, read_only: bool) -> VectorStore:
    """Where the settings say that vectors are kept. A Chroma folder stands beside the file, under its name."""
    if settings.vector_store == "sqlite":
        return in_sqlite
    if read_only:
        raise SettingsError(
            "vector_store = 'chroma' cannot be opened for reading only; Chroma writes when it is opened"
        )
    path = str(settings.store)
    if is_address(path):
        raise SettingsError("vector_store = 'chroma' stands beside a file; with store = 'postgresql://…' leave it out")
    from summarizing_context.stores.chroma import ChromaVectors

    return ChromaVectors(in_sqlite, None if path == ":memory:" else Path(f"{path}.chroma"))


def refuse_vectors_without_embedding(settings: Settings, *, read_only: bool) -> None:
    """Raise where a vector store is asked for that would have nothing to keep."""
    if settings.vector_store == "chroma" and not read_only:
        raise SettingsError(
            "vector_store = 'chroma' needs an embedding, for its own is not used; set embedding_model (with "
            "embedding = 'openai'), pass embedder=, or take vector_store = 'sqlite'"
        )


def make_embedding_search(base: _Base) -> EmbeddingSearch | None:
    """What finds by meaning, where there is an embedder."""
    settings, given, read_only = base.settings, base.options.embedder, base.options.read_only
    own = make_embedder(settings, read_only=read_only) if given is None else None
    embedder = own if given is None else given
    if embedder is None:
        refuse_vectors_without_embedding(settings, read_only=read_only)
        return None
    vectors = make_vectors(settings, base.store.vectors, read_only=read_only)
    vectors.check_usable()
    timeout = settings.call_timeout
    return EmbeddingSearch(embedder, vectors, redact=base.redact, timeout=timeout, owned=own is not None)


def make_summaries(settings: Settings, log: MessageLog, recipe: Recipe) -> SummaryCache:
    """What is known of the summaries of a log, with extractive ones in the place of those that are missing."""
    counted = settings.max_messages or settings.summarize_threshold
    every = None if counted is None else max(1, counted // 2)
    return SummaryCache(log, make_extracts(), maker=recipe.maker, sizes=summary_sizes(settings), every=every)


def make_ledger(settings: Settings, options: Options, log: MessageLog) -> SessionLedger:
    """The ledger of a log, which reads by the program's rules first."""
    rules = LedgerRules(_own_rules(settings, options))
    return SessionLedger(log, CallReader(rules, Detectors(error_line, quotes)))


def _own_rules(settings: Settings, options: Options) -> tuple[LedgerRule, ...]:
    """What tools of a host's own do, as the program says and as the settings do."""
    return (*check_rules(options.ledger_rules), *settings.ledger_rules)


def make_learner(
    base: _Base, log: MessageLog, summaries: SummaryCache, ledger: SessionLedger
) -> MemoryExtractor | None:
    """What learns memories from a session: the model that makes its summaries, or rules where there is none."""
    settings, store, recipe = base.settings, base.store, base.recipe
    if not settings.memory_extract or base.options.read_only:
        return None
    from summarizing_context.retrieval.offline_memories import OfflineMemoryReader

    pieces = UnreadPieces(log, summaries, recipe.redact)
    rules = OfflineMemoryReader(log, ledger, summaries, summary_sizes(settings).leaf, base.redact)
    reader: MemoryReader = rules
    if recipe.maker == "model":
        reader = ModelMemoryReader(
            pieces, store=store, session_id=settings.session_id, caller=base.caller, recipe=recipe
        )
    return MemoryExtractor(
        pieces,
        (reader, rules),
        store.memories,
        MemoryScope(settings.project, settings.session_id),
        clock=base.clock,
        cooldown=settings.breaker_cooldown,
        notify=make_notify(base.options.events, settings.session_id),
    )


def make_worker(
    base: _Base, log: MessageLog, summaries: SummaryCache, ledger: SessionLedger, background: WorkerThread
) -> Worker:
    """What makes the summaries, in the background."""
    settings = base.settings
    start_messages = settings.summarize_threshold
    if start_messages is None and settings.max_messages is not None:
        start_messages = int(settings.start_at * settings.max_messages)
    rules = None
    if base.recipe.maker == "model":
        rules = RuleCalls(
            log=log,
            store=base.store,
            session_id=settings.session_id,
            caller=base.caller,
            recipe=base.recipe,
            clock=base.clock,
            cooldown=settings.breaker_cooldown,
            background=background,
        )
    worker = Worker(
        log=log,
        summaries=summaries,
        store=base.store,
        session_id=settings.session_id,
        caller=base.caller,
        recipe=base.recipe,
        clock=base.clock,
        concurrency=settings.concurrency if settings.workers == "own" else max(settings.concurrency, _ASKED_AT_ONCE),
        cooldown=settings.breaker_cooldown,
        start_messages=start_messages,
        foreground=base.foreground,
        background=background,
        rollups=settings.strategy == "hierarchical",
        notify=make_notify(base.options.events, settings.session_id),
        ledger=ledger if settings.ledger_share else None,
        rules=rules,
        origin=_origin(base),
        makes_summaries=not base.options.read_only and settings.strategy != "truncate",
    )
    if isinstance(base.caller, ResilientSummarizer):
        base.caller.on_trouble = worker.note_trouble
    return worker


def _origin(base: _Base) -> Origin:
    """What makes the summaries, for observers."""
    if isinstance(base.caller, ExtractiveSummarizer):
        return Origin("extractive")
    own = base.options.summarizer is not None
    return Origin(base.recipe.maker, None if own else base.settings.summarizer, base.caller.model)


def _make_store(path: str | Path, *, read_only: bool, flushes_behind: bool) -> SqliteStore | PostgresStore:
    check_scheme(path)
    if not is_address(path):
        engine = shared_engine(path, read_only=read_only, flushes_behind=flushes_behind)
        return SqliteStore(path, read_only=read_only, engine=engine)
    if find_spec("psycopg") is None:
        raise MissingExtraError("postgres", "a store in PostgreSQL needs psycopg")
    from summarizing_context.stores.postgres.store import PostgresStore

    return PostgresStore(str(path), read_only=read_only)


async def open_store(path: str | Path, *, read_only: bool = False, flushes_behind: bool = False) -> SessionStore:
    """A store, opened; the caller closes it.

    Stores on one file share a thread and a connection, those of one event loop with an equal `read_only` and
    `flushes_behind`.

    `path` is a file, `:memory:`, or an address `postgresql://user@host/database` (the extra `postgres`).
    """
    store = _make_store(path, read_only=read_only, flushes_behind=flushes_behind)
    try:
        await store.open()
    except BaseException:
        await store.close()
        raise
    return store


def recipe_of(settings: Settings) -> Recipe:
    """How the summaries of these settings would be made. Needs no key, and calls nobody."""
    caller = make_caller(settings, None, choose_clock(None), read_only=True)
    return make_recipe(settings, caller.recipe, own=isinstance(caller, ExtractiveSummarizer), redact=None)


def _check(settings: Settings, options: Options) -> None:
    if not isinstance(settings, Settings):
        raise SettingsError(f"settings are a Settings value, not {type(settings).__name__}; use Settings.from_mapping")
    if options.summarizer is not None and not callable(getattr(options.summarizer, "summarize", None)):
        name = type(options.summarizer).__name__
        raise SettingsError(f"summarizer is {name}; it needs a method `async def summarize(job) -> str`")
    check_rules(options.ledger_rules)
    if options.embedder is not None:
        check_embedder(options.embedder)
    if options.redact is not None and not callable(options.redact):
        raise SettingsError(f"redact is {type(options.redact).__name__}; it is a function from text to text, or None")
